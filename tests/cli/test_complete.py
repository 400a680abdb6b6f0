"""`complete`: a child's result is checked before it counts; what is faulty can be mended by the same child."""

import pytest

from tests.support.world import TASK, World


def test_an_equal_complete_twice_is_one(world: World) -> None:
    """The second answer is the first one, task.md has one line, and so it stays after the seal."""
    world.begun()
    step = world.completed()
    text = (world.folder() / "task.md").read_bytes()
    assert world.complete(step)["changed"] is False
    world.stop("executor")
    again = world.complete(step)
    assert (again.exit, again["changed"], again["run"]["pendingDelegation"]["status"]) == (0, False, "sealed")
    assert (world.folder() / "task.md").read_bytes() == text


def test_a_child_may_mend_until_it_stops(world: World) -> None:
    """Another artifact is another digest; task.md still has one line of it."""
    world.begun()
    step = world.completed()
    first = world.pending()["artifactDigest"]
    world.artifact("analysis", text="# better\n")
    assert world.complete(step)["changed"] is True
    assert world.pending()["artifactDigest"] != first
    assert (world.folder() / "task.md").read_text().count("**Analyze Task (Round 1)**") == 1


def test_the_step_may_be_left_out(world: World) -> None:
    """Then it is the pending one."""
    world.begun()
    world.work(world.activated())
    world.ok("complete", "--agent", "claude-code")
    assert world.pending()["agent"] == "claude-code"
    assert "by claude —" in (world.folder() / "task.md").read_text()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"stage": "plan"}, "DELEGATION_STAGE_MISMATCH", id="stage"),
        pytest.param({"round": "2"}, "DELEGATION_STAGE_MISMATCH", id="round"),
        pytest.param({"artifact": "plan.md"}, "DELEGATION_STAGE_MISMATCH", id="artifact"),
        pytest.param({"agent": "codex"}, "DELEGATION_AGENT_MISMATCH", id="agent of another client"),
        pytest.param({"agent": "human"}, "DELEGATION_AGENT_MISMATCH", id="a person"),
        pytest.param({"stage": "plan", "agent": "codex"}, "DELEGATION_STAGE_MISMATCH", id="step, then agent"),
    ],
)
@pytest.mark.parametrize("artifact", [True, False], ids=["artifact there", "no artifact"])
def test_a_wrong_step_or_agent_fails_without_a_pause(
    world: World, changes: dict[str, str], code: str, *, artifact: bool
) -> None:
    """It is asked before the artifact is looked at; the receipt stays activated and the right call still works."""
    world.begun()
    step = world.activated()
    if artifact:
        world.work(step)
    answer = world.complete(step, **changes)
    assert (answer.exit, answer.code, answer["run"]["status"]) == (1, code, "running")
    world.work(step)
    assert world.complete(step).exit == 0


def test_a_receipt_that_nobody_activated_pauses(world: World) -> None:
    """A result without a start is nobody's work."""
    world.begun()
    step = world.prepare()
    world.work(step)
    assert world.complete(step).pause == "DELEGATION_STATE_INVALID"
    assert "abandon" in world.ok("begin").notes


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        pytest.param(None, "ARTIFACT_NOT_FOUND", "analysis.md", id="missing"),
        pytest.param(b"", "ORCHESTRATION_ARTIFACT_INVALID", "empty", id="empty"),
        pytest.param(b" \n\t\n", "ORCHESTRATION_ARTIFACT_INVALID", "empty", id="blank"),
        pytest.param(b"\xff\xfe\x00", "ORCHESTRATION_ARTIFACT_INVALID", "UTF-8", id="no UTF-8"),
        pytest.param(b"---\na: 1\na: 2\n---\nx\n", "ORCHESTRATION_ARTIFACT_INVALID", "analysis.md", id="key twice"),
        pytest.param(b"---\na: &x 1\nb: *x\n---\nx\n", "ORCHESTRATION_ARTIFACT_INVALID", "analysis.md", id="anchor"),
        pytest.param(b"---\na: !!python/name:os.system x\n---\n", "ORCHESTRATION_ARTIFACT_INVALID", "tag", id="tag"),
        pytest.param(b"---\na: 1\n", "ORCHESTRATION_ARTIFACT_INVALID", "analysis.md", id="fence not closed"),
        pytest.param(b"x" * ((4 << 20) + 1), "ORCHESTRATION_ARTIFACT_INVALID", "bytes", id="too large"),
    ],
)
def test_a_faulty_artifact_can_be_mended(world: World, text: bytes | None, code: str, named: str) -> None:
    """It fails, nothing moves, and the child writes it again."""
    world.begun()
    step = world.activated()
    if text is not None:
        (world.folder() / "analysis.md").write_bytes(text)
    answer = world.complete(step)
    assert (answer.exit, answer.code) == (1, code), answer.out
    assert named in answer.message
    assert world.pending()["status"] == "activated"
    world.work(step)
    assert world.complete(step).exit == 0


def reviewing(world: World) -> dict[str, object]:
    world.begun()
    world.step()
    return world.activated()


@pytest.mark.parametrize(
    ("counts", "verdict", "rows", "code"),
    [
        pytest.param((1, 0, 0), "Changes Requested", "", "REVIEW_SUMMARY_COUNT_MISMATCH", id="no row"),
        pytest.param(
            (0, 0, 0),
            "Changes Requested",
            "| AN-1 | analysis | 1 | major | open | |\n",
            "REVIEW_SUMMARY_COUNT_MISMATCH",
            id="a row not counted",
        ),
        pytest.param(
            (0, 1, 0),
            "Approved",
            "| AN-1 | analysis | 1 | major | open | |\n",
            "REVIEW_VERDICT_FINDING_MISMATCH",
            id="approved with a finding",
        ),
        pytest.param((0, 1, 0), "Approved", "", "REVIEW_SUMMARY_COUNT_MISMATCH", id="count, then verdict"),
    ],
)
def test_a_review_counts_what_the_ledger_counts(
    world: World, counts: tuple[int, int, int], verdict: str, rows: str, code: str
) -> None:
    """Summary, verdict and ledger agree, or the reviewer mends them."""
    step = reviewing(world)
    if rows:
        world.row(rows.strip())
    world.review("analysis", verdict=verdict, counts=counts)
    answer = world.complete(step)
    assert (answer.exit, answer.code) == (1, code), answer.out
    assert world.pending()["status"] == "activated"


def test_rejected_without_findings_is_a_verdict(world: World) -> None:
    """Only Approved is tied to the counts."""
    step = reviewing(world)
    world.review("analysis", verdict="Rejected")
    assert world.complete(step).exit == 0
    world.stop("reviewer")
    world.ok("advance")
    assert world.ok("route").step == ("analysis", 2)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# nothing\n", id="no summary"),
        pytest.param("## Review Summary\n\n- **Overall Verdict**: LGTM\n", id="no verdict of ours"),
        pytest.param(
            "## Review Summary\n\n- **Overall Verdict**: Approved\n- **Findings (AI-actionable)**: "
            "{unresolved-blockers} blockers, {unresolved-major} majors, {unresolved-minor} minors\n",
            id="placeholders",
        ),
    ],
)
def test_a_review_that_cannot_be_read_can_be_mended(world: World, text: str) -> None:
    """ORCHESTRATION_REVIEW_INVALID with file and line."""
    step = reviewing(world)
    world.write(f".agents/workspace/active/{TASK}/review-analysis.md", text)
    answer = world.complete(step)
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_REVIEW_INVALID")
    assert "review-analysis.md:" in answer.message
    world.work(step)
    assert world.complete(step).exit == 0


def test_a_review_of_an_older_round_is_refused(world: World) -> None:
    """What it names must be what it was given."""
    step = reviewing(world)
    world.review("analysis", verdict="Rejected")
    assert world.complete(step).exit == 0
    world.stop("reviewer")
    world.ok("advance")
    world.step()
    step = world.activated()
    world.review("analysis", 2, of="analysis.md")
    answer = world.complete(step)
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_REVIEW_INVALID")
    assert "analysis-r2.md" in answer.message
    world.work(step)
    assert world.complete(step).exit == 0


def test_a_step_needs_a_readable_task(world: World) -> None:
    """task.md is written at `complete`, so it must be whole."""
    world.begun()
    step = world.activated()
    world.work(step)
    path = world.folder() / "task.md"
    kept = path.read_text()
    path.write_text(kept.replace("## Activity Log", "## Log"))
    answer = world.complete(step)
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_TASK_INVALID")
    assert "Activity Log" in answer.message
    path.write_text(kept)
    assert world.complete(step).exit == 0


def test_what_an_aborted_reviewer_left_approves_nothing(world: World) -> None:
    """The next reviewer writes its own verdict; the one that lay there is kept aside."""
    world.begun()
    world.step()
    step = world.activated()
    world.work(step)
    assert world.complete(step).exit == 0
    world.ok("abandon", "--reason", "it touched code")
    left = (world.folder() / step["artifact"]).read_bytes()
    answer = world.ok("prepare", "--client", "claude-code")
    assert answer["next"]["artifact"] == step["artifact"]
    assert "kept as" in answer.notes
    assert not (world.folder() / step["artifact"]).exists()
    assert left in [path.read_bytes() for path in (world.common / "logs").iterdir()]
    world.start("reviewer")
    assert world.complete(step).code == "ARTIFACT_NOT_FOUND"
    world.work(step)
    assert world.complete(step).exit == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"agent": "nobody"}, "DELEGATION_AGENT_MISMATCH", id="agent"),
        pytest.param({"round": "2"}, "DELEGATION_STAGE_MISMATCH", id="round"),
    ],
)
def test_a_mistyped_call_pauses_nothing(world: World, changes: dict[str, str], code: str) -> None:
    """Also while the receipt is only prepared, where a well-typed one would pause the run."""
    world.begun()
    step = world.prepare()
    answer = world.complete(step, **changes)
    assert (answer.exit, answer.code) == (1, code)
    assert world.run()["status"] == "running"
