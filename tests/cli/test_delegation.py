"""One delegation through the verbs: prepared, activated, stage-completed, sealed, consumed, and every refusal."""

import pytest

from tests.support.world import EXECUTOR, OTHER, TASK, World


def test_a_receipt_goes_its_way(world: World) -> None:
    """Each verb moves the one pending receipt a step further; the consumed one joins the list."""
    world.begun()
    assert world.prepare() == {
        "action": "analyze-task",
        "role": "executor",
        "stage": "analysis",
        "round": 1,
        "artifact": "analysis.md",
    }
    receipt = world.pending()
    assert (receipt["status"], receipt["client"], receipt["childId"], receipt["origin"]) == (
        "prepared",
        "claude-code",
        None,
        "cli",
    )
    assert receipt["headBefore"] == world.git("rev-parse", "HEAD")
    assert (world.run()["nextStage"], receipt["inputs"]) == ("analysis", [])
    world.start("executor", child_id="c-1", actual_model="m-1", actual_effort="high")
    receipt = world.pending()
    assert [receipt[k] for k in ("status", "childId", "parentId", "spawnMode", "actualModel", "actualEffort")] == [
        *("activated", "c-1", "parent-1", "fresh", "m-1", "high")
    ]
    step = world.ok("route")["next"]
    world.work(step)
    assert world.complete(step)["run"]["pendingDelegation"]["agent"] == "claude"
    assert world.pending()["status"] == "stage-completed"
    assert len(world.pending()["artifactDigest"]) == 64
    world.stop("executor")
    receipt = world.pending()
    assert (receipt["status"], receipt["outcome"]) == ("sealed", "success")
    folder = f".agents/workspace/active/{TASK}"
    assert receipt["changedPaths"] == [f"{folder}/analysis.md", f"{folder}/task.md"]
    done = world.ok("advance")
    assert (done["run"]["stepCount"], done["run"]["pendingDelegation"], done["run"]["nextStage"]) == (1, None, None)
    assert [r["status"] for r in done["run"]["receipts"]] == ["consumed"]
    assert world.ops() == ["begin", "prepare", "activate", "complete", "seal", "advance"]


def test_what_a_step_was_given_is_on_its_receipt(world: World) -> None:
    """The first input is what is judged or built on; task.md is never among them."""
    world.begun()
    names = {}
    for _ in range(6):
        step = world.step()
        names[step["artifact"]] = [i["name"] for i in world.run()["receipts"][-1]["inputs"]]
    assert names == {
        "analysis.md": [],
        "review-analysis.md": ["analysis.md"],
        "plan.md": ["analysis.md"],
        "review-plan.md": ["plan.md", "analysis.md"],
        "code.md": ["plan.md"],
        "review-code.md": ["code.md", "plan.md"],
    }


def test_task_md_is_written_at_complete(world: World) -> None:
    """Log line, link, step and agent; what people wrote stays."""
    world.begun()
    world.step()
    text = (world.folder() / "task.md").read_text()
    assert "**Analyze Task (Round 1)** by claude — Analysis completed → analysis.md" in text
    assert "[Analysis (Round 1)](analysis.md)" in text
    assert "assigned_to: claude" in text
    world.step()
    text = (world.folder() / "task.md").read_text()
    assert "Verdict: Approved, blockers: 0, major: 0, minor: 0, Manual-validation: 0 → review-analysis.md" in text
    assert "current_step: requirement-analysis-review" in text
    assert "Two and two make four." in text


# -- prepare


@pytest.mark.parametrize("client", ["gemini-cli", "opencode", "scripted"])
def test_a_client_that_cannot_be_orchestrated_in_session(world: World, client: str) -> None:
    """The capability is asked first, before there is a run at all."""
    world.task()
    world.refused("ORCHESTRATION_CLIENT_UNSUPPORTED", "prepare", "--client", client)
    world.ok("begin")
    world.refused("ORCHESTRATION_CLIENT_UNSUPPORTED", "prepare", "--client", client)


def test_headless_clients_are_prepared_as_such(world: World) -> None:
    """What a driver starts needs the headless capability, and its wishes are on the receipt."""
    world.begun()
    args = ("--client", "gemini-cli", "--headless", "--requested-model", "m", "--requested-effort", "low")
    world.ok("prepare", *args)
    receipt = world.pending()
    assert (receipt["client"], receipt["requestedModel"], receipt["requestedEffort"]) == ("gemini-cli", "m", "low")


def test_a_second_receipt_is_refused_while_one_is_pending(world: World) -> None:
    """Busy names the task and the way out, in every state of the receipt."""
    world.begun()
    step = world.prepare()
    for move in (
        lambda: world.start("executor"),
        lambda: world.work(step),
        lambda: world.complete(step),
        lambda: world.stop("executor"),
    ):
        message = world.refused("ORCHESTRATION_DELEGATION_BUSY", "prepare", "--client", "claude-code").message
        assert f"abandon {TASK}" in message
        move()


def test_one_pending_receipt_per_worktree(world: World) -> None:
    """Another task of this worktree waits; in a worktree of its own it need not."""
    world.begun()
    world.prepare()
    world.begun(task=OTHER)
    answer = world.refused("ORCHESTRATION_DELEGATION_BUSY", "prepare", "--client", "codex", task=OTHER)
    assert TASK in answer.message
    world.ok("pause", "--code", "X", "--message", "y")
    world.refused("ORCHESTRATION_DELEGATION_BUSY", "prepare", "--client", "codex", task=OTHER)
    world.ok("end", "--reason", "moves", task=OTHER)
    linked = world.base / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "other")
    world.ok("begin", task=OTHER, cwd=linked)
    world.ok("prepare", "--client", "codex", task=OTHER, cwd=linked)


def test_the_guards_of_prepare_in_their_order(world: World) -> None:
    """Client, run, place, pending, limit, route: the first one that says no is the answer."""
    ours, theirs = ("prepare", "--client", "claude-code"), ("prepare", "--client", "gemini-cli")
    world.begun("--max-steps", "1")
    world.step()
    fault = world.folder() / "plan-r1.md"
    fault.write_text("not an artifact\n")
    assert world.ok(*ours).pause == "ORCHESTRATION_MAX_STEPS"
    world.git("switch", "-q", "-c", "elsewhere")
    world.refused("ORCHESTRATION_CLIENT_UNSUPPORTED", *theirs)
    world.refused("ORCHESTRATION_RUN_NOT_RUNNING", *ours)
    fault.unlink()
    world.ok("begin", "--max-steps", "9")
    world.git("switch", "-q", "main")
    world.prepare()
    world.git("switch", "-q", "elsewhere")
    world.refused("ORCHESTRATION_BRANCH_MISMATCH", *ours)
    world.git("switch", "-q", "main")
    world.refused("ORCHESTRATION_DELEGATION_BUSY", *ours)


def test_another_branch_or_worktree_is_refused_without_a_pause(world: World) -> None:
    """A run belongs to the place in which it was begun."""
    linked = world.base / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "other")
    world.begun()
    args = ("prepare", "--client", "claude-code")
    assert str(world.root) in world.refused("ORCHESTRATION_WORKTREE_MISMATCH", *args, cwd=linked).message
    world.git("switch", "-q", "-c", "elsewhere")
    assert "elsewhere" in world.refused("ORCHESTRATION_BRANCH_MISMATCH", *args).message
    world.git("switch", "-q", "--detach", "main")
    assert "detached" in world.refused("ORCHESTRATION_BRANCH_MISMATCH", *args).message
    world.git("switch", "-q", "main")
    step = world.activated()
    world.work(step)
    world.git("switch", "-q", "elsewhere")
    done = ("--agent", "claude")
    world.refused("ORCHESTRATION_BRANCH_MISMATCH", "complete", *done)
    world.git("switch", "-q", "main")
    world.refused("ORCHESTRATION_WORKTREE_MISMATCH", "complete", *done, cwd=linked)
    stop = ("--client", "claude-code", "--native-agent", EXECUTOR, "--child-id", world.child)
    world.ok("complete", *done)
    world.refused("ORCHESTRATION_WORKTREE_MISMATCH", "seal", *stop, cwd=linked)
    world.ok("seal", *stop)


# -- validate


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"stage": "plan"}, id="stage"),
        pytest.param({"round": "2"}, id="round"),
        pytest.param({"artifact": "analysis-r2.md"}, id="artifact"),
        pytest.param({"role": "reviewer"}, id="role"),
    ],
)
def test_validate_says_no_and_never_pauses(world: World, changes: dict[str, str]) -> None:
    """Stage, round, artifact and role must all be those of the activated receipt."""
    world.begun()
    world.activated()
    step = {"stage": "analysis", "round": "1", "artifact": "analysis.md", "role": "executor"}
    exact = [word for key, value in step.items() for word in (f"--{key}", value)]
    assert world.ok("validate", *exact)["changed"] is False
    other = [word for key, value in (step | changes).items() for word in (f"--{key}", value)]
    world.refused("ORCHESTRATION_PROVENANCE_MISMATCH", "validate", *other)
    assert world.run()["status"] == "running"


def test_validate_wants_an_activated_step(world: World) -> None:
    """Before the start and after the completion nothing is active."""
    world.begun()
    exact = ("--stage", "analysis", "--round", "1", "--artifact", "analysis.md", "--role", "executor")
    world.refused("ORCHESTRATION_PROVENANCE_MISMATCH", "validate", *exact)
    step = world.prepare()
    assert "prepared" in world.refused("ORCHESTRATION_PROVENANCE_MISMATCH", "validate", *exact).message
    world.start("executor")
    world.work(step)
    world.complete(step)
    world.refused("ORCHESTRATION_PROVENANCE_MISMATCH", "validate", *exact)
