"""`route` and `status`: the next step by what lies on disk and what receipts prove; nothing moves."""

import pytest

from tests.support.world import OTHER, TASK, World

ACTIONS = {
    "analysis": ("analyze-task", "executor"),
    "review-analysis": ("review-analysis", "reviewer"),
    "plan": ("plan-task", "executor"),
    "review-plan": ("review-plan", "reviewer"),
    "code": ("code-task", "executor"),
    "review-code": ("review-code", "reviewer"),
    "commit": ("commit", "executor"),
}


@pytest.mark.parametrize(
    ("reviewed", "alone", "stage"),
    [
        ((), (), "analysis"),
        ((), ("analysis",), "review-analysis"),
        (("analysis",), (), "plan"),
        (("analysis",), ("plan",), "review-plan"),
        (("analysis", "plan"), (), "code"),
        (("analysis", "plan"), ("code",), "review-code"),
        (("analysis", "plan", "code"), (), "commit"),
    ],
)
def test_without_a_run_the_files_decide(
    world: World, reviewed: tuple[str, ...], alone: tuple[str, ...], stage: str
) -> None:
    """Each stage waits for the one before it and for its review."""
    world.task()
    world.reviewed(*reviewed)
    for family in alone:
        world.artifact(family)
    answer = world.ok("route")
    action, role = ACTIONS[stage]
    artifact = "commit" if stage == "commit" else f"{stage}.md"
    assert answer["next"] == {"action": action, "role": role, "stage": stage, "round": 1, "artifact": artifact}
    assert (answer["status"], answer["changed"], answer["run"], answer["taskId"]) == ("running", False, None, TASK)


@pytest.mark.parametrize("verdict", ["Changes Requested", "Rejected"])
@pytest.mark.parametrize("family", ["analysis", "plan", "code"])
def test_a_review_that_does_not_approve_asks_for_the_next_round(world: World, family: str, verdict: str) -> None:
    """The executor answers it; then the reviewer looks again."""
    families = ["analysis", "plan", "code"]
    world.task()
    world.reviewed(*families[: families.index(family)])
    world.artifact(family)
    world.review(family, verdict=verdict, counts=(0, 1, 0))
    assert world.ok("route").step == (family, 2)
    world.artifact(family, 2)
    assert world.ok("route").step == (f"review-{family}", 2)


def test_a_review_names_what_it_judged(world: World) -> None:
    """Rounds of the two families are independent; the name in the review ties them, not the number or the clock."""
    world.task()
    for round_ in (1, 2, 3):
        world.artifact("analysis", round_)
    world.review("analysis", 1, of="analysis-r2.md")
    assert world.ok("route").step == ("review-analysis", 2)
    world.review("analysis", 2, of="analysis-r3.md")
    assert world.ok("route").step == ("plan", 1)


@pytest.mark.parametrize(
    ("manual", "code"),
    [
        pytest.param(2, "ORCHESTRATION_MANUAL_VALIDATION_PENDING", id="something left for a person"),
        pytest.param(None, "ORCHESTRATION_REVIEW_INVALID", id="no count at all"),
    ],
)
def test_validation_by_hand_stands_before_the_commit(world: World, manual: int | None, code: str) -> None:
    """Above zero a person is needed; without a number nobody knows."""
    world.task()
    world.reviewed("analysis", "plan")
    world.artifact("code")
    world.review("code", manual=manual)
    answer = world.refused(code, "route")
    assert "review-code.md" in answer.message


def test_a_review_that_cannot_be_read_is_the_same_round_again(world: World) -> None:
    """An error with file and line; never an approval, never a new executor round; `prepare` accepts the step."""
    world.begun()
    world.step()
    step = world.completed()
    world.review("analysis", verdict="Perhaps")
    world.stop("reviewer")
    world.ok("advance")
    answer = world.refused("ORCHESTRATION_REVIEW_INVALID", "route")
    assert "review-analysis.md:" in answer.message
    assert answer.step == ("review-analysis", 1)
    assert world.prepare() == step


@pytest.mark.parametrize("name", ["plan-risks.md", "notes.md", "analysis.txt", "code-refactor.md", "analysis-draft.md"])
def test_files_that_are_no_artifacts_are_nobodys_business(world: World, name: str) -> None:
    """Only names that mean an artifact are looked at."""
    world.task()
    world.write(f".agents/workspace/active/{TASK}/{name}", "x")
    assert world.ok("route").step == ("analysis", 1)


def test_a_gap_in_the_rounds_routes(world: World) -> None:
    """The newest round counts, whatever is missing below it."""
    world.task()
    world.artifact("analysis", 4)
    world.review("analysis", of="analysis-r4.md")
    assert world.ok("route").step == ("plan", 1)


def test_a_pending_step_is_the_next_step(world: World) -> None:
    """While a receipt is in flight, `route` answers with it, whatever lies there already."""
    world.begun()
    step = world.activated()
    world.work(step)
    assert world.ok("route")["next"] == step
    assert world.ok("status")["next"] == step


def test_a_later_byte_makes_an_approval_stale(world: World) -> None:
    """`route` asks for a new review of that stage alone, and `status` says what moved it."""
    world.begun()
    for _ in range(4):
        world.step()
    path = world.folder() / "analysis.md"
    path.write_text(path.read_text() + "\nafterthought\n")
    assert world.ok("route").step == ("review-analysis", 2)
    assert "analysis.md" in world.ok("status").notes
    world.step()
    assert world.ok("route").step == ("code", 1), "an edit within a round does not make the plan stale"


def test_a_product_byte_after_the_code_review_makes_it_stale(world: World) -> None:
    """The code review approves one product tree."""
    world.begun("--flow", "streamlined")
    world.to("commit")
    world.write("src/late.py", "x = 1\n")
    assert world.ok("route").step == ("review-code", 2)
    assert "src/late.py" in world.ok("status").notes
    (world.root / "src/late.py").unlink()
    assert world.ok("route").step == ("commit", 1)


def test_a_newer_round_above_makes_work_below_stale(world: World) -> None:
    """A second analysis makes the plan that stood on the first one outdated."""
    world.begun()
    for _ in range(4):
        world.step()
    world.ok("reopen", "--stage", "analysis", "--reason", "a new fact")
    assert [world.step()["artifact"] for _ in range(4)] == [
        "analysis-r2.md",
        "review-analysis-r2.md",
        "plan-r2.md",
        "review-plan-r2.md",
    ]
    assert world.ok("route").step == ("code", 1)


def test_a_forged_review_never_approves(world: World) -> None:
    """Within a run a review counts by its receipt alone."""
    world.begun()
    world.step()
    world.review("analysis")
    assert world.ok("route").step == ("review-analysis", 2)


@pytest.mark.parametrize(
    ("before", "after", "step"),
    [
        pytest.param("Rejected", "Approved", ("review-analysis", 2), id="made milder: stale"),
        pytest.param("Approved", "Rejected", ("analysis", 2), id="made stricter: counts"),
    ],
)
def test_an_edited_review_counts_only_if_it_became_stricter(
    world: World, before: str, after: str, step: tuple[str, int]
) -> None:
    """A sealed review is what its digest says."""
    world.begun()
    world.step()
    pending = world.activated()
    world.review("analysis", verdict=before)
    assert world.complete(pending).exit == 0
    world.stop("reviewer")
    world.ok("advance")
    world.review("analysis", verdict=after)
    assert world.ok("route").step == step


def test_the_status_of_a_run_whose_documents_are_broken(world: World) -> None:
    """The run can be shown, and what is wrong is a note."""
    world.begun()
    (world.folder() / "task.md").write_text("no front matter\n")
    answer = world.ok("status")
    assert answer["run"]["runId"] == world.run()["runId"]
    assert "ORCHESTRATION_TASK_INVALID" in answer.notes


def test_a_paused_run_routes(world: World) -> None:
    """A question changes nothing and is answered."""
    world.begun()
    world.ok("pause", "--code", "X", "--message", "y")
    answer = world.ok("route")
    assert (answer["status"], answer.step) == ("paused", ("analysis", 1))


def test_verbs_that_need_a_run(world: World) -> None:
    """Without a run there is nothing to show, to pause, to end or to give up."""
    world.task()
    world.refused("ORCHESTRATION_RUN_MISSING", "status")
    world.refused("ORCHESTRATION_RUN_MISSING", "brief")
    world.refused("ORCHESTRATION_RUN_MISSING", "pause", "--code", "X", "--message", "y")
    world.refused("ORCHESTRATION_RUN_MISSING", "abandon", "--reason", "x")
    world.refused("ORCHESTRATION_RUN_MISSING", "advance")
    world.refused("ORCHESTRATION_RUN_MISSING", "end", "--reason", "x")
    world.refused("ORCHESTRATION_RUN_MISSING", "reopen", "--stage", "plan", "--reason", "x")
    world.refused("ORCHESTRATION_RUN_MISSING", "repair")
    world.refused("ORCHESTRATION_RUN_NOT_RUNNING", "prepare", "--client", "claude-code")


def test_verbs_that_do_nothing_without_a_run(world: World) -> None:
    """Stage checks of a task that is not orchestrated succeed."""
    world.task()
    step = ("--stage", "analysis", "--round", "1", "--artifact", "analysis.md")
    for answer in (world.ok("validate", *step, "--role", "executor"), world.ok("complete", *step, "--agent", "claude")):
        assert (answer["status"], answer["changed"], answer["run"], answer["taskId"]) == ("running", False, None, TASK)


def test_from_a_subfolder_and_a_linked_worktree(world: World) -> None:
    """The state root is the primary worktree; a run is seen from every worktree as from its own."""
    world.task()
    world.git("worktree", "add", "-q", str(world.base / "linked"), "-b", "other")
    linked = world.base / "linked"
    assert world.ok("route", cwd=linked).step == ("analysis", 1)
    assert world.ok("route", cwd=world.root / "src").step == ("analysis", 1)
    world.ok("begin", "--flow", "streamlined")
    world.to("commit")
    assert world.ok("route", cwd=linked).step == ("commit", 1), "the run's worktree counts, not the caller's"
    assert "stale" not in world.ok("status", cwd=linked).notes


def test_a_task_that_is_not_active(world: World) -> None:
    """Blocked and completed tasks are found, and named as such."""
    world.task()
    (world.root / ".agents/workspace/blocked").mkdir()
    world.folder().rename(world.root / ".agents/workspace/blocked" / TASK)
    assert "blocked" in world.refused("TASK_STATE_MISMATCH", "route").message


def test_one_broken_task_disturbs_no_other(world: World) -> None:
    """Bad journal, bad view, bad task.md of another task: this one goes through a step."""
    world.begun(task=OTHER)
    journal = world.journal(OTHER)
    journal.write_bytes(b"{}\n" + journal.read_bytes())
    world.view(OTHER).write_text("{")
    (world.folder(OTHER) / "task.md").write_text("x")
    (world.common / "guards" / OTHER).write_text("not json")
    world.begun()
    world.step()
    world.refused("ORCHESTRATION_JOURNAL_INVALID", "status", task=OTHER)
