"""The run: what the journal's events add up to, and which moves its status allows."""

from typing import Any

import pytest

from agent_infra.core.run import RUN, Run, RunStatus, State, fold
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from tests.support.states import BEGIN, LATER, NOW, OTHER, TASK, TREE, consumed, file, receipt, run, state

HEAD = "f" * 64


def event(op: str, *, ts: str = NOW, **parts: Any) -> dict[str, Any]:
    return {"op": op, "ts": ts, **parts}


BEGUN = event("begin", run=dict(BEGIN))
PREPARED = event("prepare", run={"nextStage": "plan"}, receipt=receipt("plan.md").to_json())


def folded(*events: dict[str, Any]) -> State:
    return fold(events, task_id=TASK, head=HEAD)


def test_a_begun_run() -> None:
    """The first event gives the run; what it does not name has its default."""
    found = folded(BEGUN)
    assert found.run == run(journal_head=HEAD)
    assert (found.seq, found.pending) == (1, None)
    assert (found.run.schema_version, found.run.flow, found.run.max_steps, found.run.step_count) == (1, "full", 24, 0)


def test_every_event_moves_the_clock() -> None:
    """`updatedAt` is the time of the last event, `createdAt` stays."""
    found = folded(BEGUN, event("note", ts=LATER)).run
    assert (found.created_at, found.updated_at) == (NOW, LATER)


def test_a_receipt_grows_and_is_closed() -> None:
    """Fields of the pending receipt are put together; `close` puts it behind the ended ones."""
    prepared = folded(BEGUN, PREPARED)
    assert prepared.pending == receipt("plan.md")
    started = event("activate", receipt={"status": "activated", "childId": "c-1"})
    activated = folded(BEGUN, PREPARED, started)
    assert activated.pending == receipt("plan.md", status="activated", child_id="c-1")
    ended = folded(BEGUN, PREPARED, started, event("abandon", receipt={"status": "aborted"}, close=True))
    assert ended.pending is None
    assert ended.run.receipts == [receipt("plan.md", status="aborted", child_id="c-1")]


def test_a_new_run_starts_anew() -> None:
    """A second `begin` with a run id forgets receipts and memories; the journal counts on."""
    again = event("begin", run={**BEGIN, "runId": "run-2"})
    found = folded(event("begin", run=dict(BEGIN), memo={"reopened": {"plan": 1}}), PREPARED, again)
    assert (found.run.run_id, found.run.receipts, found.pending, found.memo.reopened, found.seq) == (
        "run-2",
        [],
        None,
        {},
        3,
    )


def test_resuming_keeps_what_was() -> None:
    """A `begin` without a run id resumes: everything stays."""
    found = folded(BEGUN, PREPARED, event("begin", run={"status": "running", "pause": None}), event("begin"))
    assert found.pending == receipt("plan.md")
    assert found.run.run_id == "run-1"


def test_memories_are_merged() -> None:
    """Mappings key by key, anything else is replaced; the control items belong to one receipt and are replaced."""
    first = {
        "reopened": {"plan": 1},
        "control": {"a": "1"},
        "faulty": "r-1",
        "verdicts": {"review-plan.md": "approved"},
    }
    second = {"reopened": {"code": 2}, "control": {"b": "2"}, "faulty": None}
    memo = folded(event("begin", run=dict(BEGIN), memo=first), event("x", memo=second)).memo
    assert memo.reopened == {"plan": 1, "code": 2}
    assert memo.control == {"b": "2"}
    assert memo.faulty is None
    assert memo.verdicts == {"review-plan.md": "approved"}


@pytest.mark.parametrize(
    ("events", "words"),
    [
        pytest.param([], "line 0", id="no events"),
        pytest.param([event("prepare")], "line 1 .*does not begin a run", id="something before the begin"),
        pytest.param(
            [event("begin", run={"status": "running"})], "line 1 .*does not begin", id="a begin without an id"
        ),
        pytest.param([BEGUN, event("advance", close=True)], "line 2 .*none is pending", id="closing nothing"),
        pytest.param([BEGUN, event("x", run={"colour": "red"})], "line 2 .*not one of ours", id="unknown key"),
        pytest.param([BEGUN, event("x", run={"maxSteps": "many"})], "line 2 ", id="wrong type"),
        pytest.param([BEGUN, event("x", receipt={"status": "sealed"})], "line 2 ", id="half a receipt"),
        pytest.param([BEGUN, event("x", memo={"reopened": 7})], "line 2 ", id="a memory of the wrong kind"),
        pytest.param([BEGUN, event("x", memo={"mood": "good"})], "line 2 ", id="an unknown memory"),
        pytest.param([event("begin", run={**BEGIN, "taskId": OTHER})], f"belongs to {OTHER}", id="another task's run"),
        pytest.param(
            [BEGUN, event("x", receipt=receipt("plan.md", task_id=OTHER).to_json())],
            f"belongs to {TASK}, {OTHER}",
            id="another task's pending receipt",
        ),
        pytest.param(
            [BEGUN, event("x", receipt=receipt("plan.md", task_id=OTHER).to_json(), close=True)],
            f"belongs to {TASK}, {OTHER}",
            id="another task's ended receipt",
        ),
    ],
)
def test_events_that_make_no_sense(events: list[dict[str, Any]], words: str) -> None:
    """The line is named, and nothing is made of the rest."""
    with pytest.raises(CorruptStateError, match=words) as caught:
        folded(*events)
    assert caught.value.code is ErrorCode.ORCHESTRATION_JOURNAL_INVALID


def test_the_view_has_the_references_fields() -> None:
    """Names on disk are the reference's, in camelCase, plus ours; the record is read back as it was."""
    shown = run(consumed(file("plan.md"))).to_json()
    assert list(shown) == [
        "schemaVersion",
        "taskId",
        "runId",
        "status",
        "flow",
        "nextStage",
        "stepCount",
        "maxSteps",
        "baseline",
        "worktree",
        "branch",
        "pendingDelegation",
        "receipts",
        "pause",
        "commitAuthorization",
        "ended",
        "createdAt",
        "updatedAt",
        "journalHead",
    ]
    assert list(shown["commitAuthorization"]) == ["issuedAt", "consumedAt", "ref", "head", "tree", "commit"]
    assert shown["baseline"] == {"head": None, "tree": TREE}
    assert Run.model_validate(shown) == run(consumed(file("plan.md")))


def test_receipts_are_found_by_artifact() -> None:
    """The newest ended receipt of a name counts; children are known by their ids."""
    old, new = receipt("plan.md", status="aborted", child_id="c-1"), receipt("plan.md", status="consumed")
    found = state(old, new, receipt("code.md", child_id="c-2"))
    assert found.newest_receipt("plan.md") == new
    assert found.newest_receipt("analysis.md") is None
    assert found.knows_child("c-1")
    assert not found.knows_child("c-9")


MOVES = {
    ("running", "work"): "running",
    ("running", "pause"): "paused",
    ("running", "finish"): "completed",
    ("paused", "resume"): "running",
    ("completed", "reopen"): "running",
    ("running", "end"): "completed",
    ("paused", "end"): "completed",
    ("completed", "end"): "completed",
}


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("trigger", ["work", "pause", "resume", "finish", "end", "reopen"])
def test_moves_of_a_run(status: RunStatus, trigger: str) -> None:
    """What a paused run refuses is RUN_PAUSED; a completed run can't be paused, nor does it run."""
    expected = MOVES.get((status.value, trigger))
    if expected:
        assert RUN.follow(status, trigger) == expected
        return
    with pytest.raises(RefusedError, match=f"the run is {status}, so it can't {trigger}") as caught:
        RUN.follow(status, trigger)
    codes = {
        "paused": ErrorCode.ORCHESTRATION_RUN_PAUSED,
        "running": ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING,
        "completed": ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING,
    }
    code = ErrorCode.ORCHESTRATION_RUN_COMPLETED if (status, trigger) == ("completed", "pause") else codes[status]
    assert caught.value.code is code


def test_a_paused_run_guards_still() -> None:
    """Only a completed run lets git alone."""
    assert [status for status in RunStatus if run(status=status.value).guards] == ["running", "paused"]
