"""Delegation receipts: each step of their one way, and every rule that says no, in its order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from agent_infra.core import receipts
from agent_infra.core.lifecycle import Stage, Step
from agent_infra.core.receipts import RECEIPT, Activation, Completion, Receipt, ReceiptStatus, Sealing
from agent_infra.errors import ErrorCode, IgnoredEventError, RefusedError
from tests.support.states import LATER, NOW, TREE, receipt

EXECUTOR, REVIEWER = "agent-infra-lifecycle-executor", "agent-infra-lifecycle-reviewer"
AFTER = "1" * 40
INDEX = "a" * 64
REVIEW = ".agents/workspace/active/TASK-20260101-120000/review-plan.md"

PREPARED = receipt("review-plan.md", index_before=INDEX, head_before="c" * 40, requested_model="large")
START = Activation("claude-code", REVIEWER, "child-1", "parent-1", "fresh", actual_model="large")
DONE = Completion("review-plan", 1, "review-plan.md", "claude", artifact_digest="d" * 64)
STOP = Sealing("child-1", REVIEWER, 0, AFTER, (REVIEW,), (REVIEW,), "c" * 40, INDEX, "e" * 64)

ACTIVATED = receipts.activate(PREPARED, START, now=NOW)
COMPLETED = receipts.complete(ACTIVATED, DONE, now=NOW)
SEALED = receipts.seal(COMPLETED, STOP, now=NOW)
CONSUMED = receipts.consume(SEALED, now=NOW)
ABORTED = receipts.abort(PREPARED, reason="lost", now=NOW)
ALL = {each.status: each for each in (PREPARED, ACTIVATED, COMPLETED, SEALED, CONSUMED, ABORTED)}


def refused(call: Any, code: ErrorCode, words: str | None = None) -> RefusedError:
    with pytest.raises(RefusedError, match=words) as caught:
        call()
    assert caught.value.code is code, caught.value
    return caught.value


def test_the_one_way() -> None:
    """Prepared, activated, stage-completed, sealed, consumed: each step adds what it saw, and when."""
    assert PREPARED.status == "prepared"
    assert PREPARED.step == Step(Stage.REVIEW_PLAN, 1, "review-plan.md")
    assert (PREPARED.after_fingerprint, PREPARED.changed_paths) == (None, [])
    assert (
        PREPARED.evolve(
            status="activated",
            child_id="child-1",
            parent_id="parent-1",
            spawn_mode="fresh",
            actual_model="large",
            activated_at=NOW,
        )
        == ACTIVATED
    )
    assert (
        ACTIVATED.evolve(status="stage-completed", agent="claude", artifact_digest="d" * 64, completed_at=NOW)
        == COMPLETED
    )
    assert (
        COMPLETED.evolve(
            status="sealed",
            outcome="success",
            after_fingerprint=AFTER,
            changed_paths=[REVIEW],
            head_after="c" * 40,
            index_after=INDEX,
            control_after="e" * 64,
            sealed_at=NOW,
        )
        == SEALED
    )
    assert SEALED.evolve(status="consumed", consumed_at=NOW) == CONSUMED


MOVES: dict[str, tuple[Callable[[Receipt], Receipt], set[str]]] = {
    "activate": (lambda each: receipts.activate(each, START, now=LATER), {"prepared"}),
    "complete": (lambda each: receipts.complete(each, DONE, now=LATER), {"activated", "stage-completed"}),
    "seal": (lambda each: receipts.seal(each, STOP, now=LATER), {"stage-completed"}),
    "consume": (lambda each: receipts.consume(each, now=LATER), {"sealed"}),
    "abort": (
        lambda each: receipts.abort(each, reason="x", now=LATER),
        {"prepared", "activated", "stage-completed", "sealed"},
    ),
}


@pytest.mark.parametrize("status", list(ReceiptStatus))
@pytest.mark.parametrize("move", list(MOVES))
def test_each_move_has_its_place(move: str, status: ReceiptStatus) -> None:
    """From any other status it is DELEGATION_STATE_INVALID; only a consumed receipt is DELEGATION_REPLAY to consume."""
    call, allowed = MOVES[move]
    if status.value in allowed:
        assert call(ALL[status]).status != "prepared"
        return
    if (move, status.value) == ("consume", "consumed"):
        refused(lambda: call(ALL[status]), ErrorCode.DELEGATION_REPLAY, f"consumed at {NOW}")
        return
    refused(lambda: call(ALL[status]), ErrorCode.DELEGATION_STATE_INVALID, f"is {status.value}, but to {move}")


def test_a_refusal_names_the_status_that_would_do() -> None:
    """The message says where the receipt stands and where it would have to."""
    error = refused(lambda: receipts.seal(ACTIVATED, STOP, now=NOW), ErrorCode.DELEGATION_STATE_INVALID)
    assert error.message == "the receipt is activated, but to seal it must be stage-completed"


@pytest.mark.parametrize(
    ("start", "code"),
    [
        pytest.param({"native_agent": EXECUTOR}, ErrorCode.DELEGATION_ROLE_MISMATCH, id="the other role"),
        pytest.param({"parent_id": ""}, ErrorCode.DELEGATION_IDENTITY_INVALID, id="no parent"),
        pytest.param({"child_id": ""}, ErrorCode.DELEGATION_IDENTITY_INVALID, id="no child"),
        pytest.param({"child_id": "parent-1"}, ErrorCode.DELEGATION_IDENTITY_INVALID, id="its own parent"),
        pytest.param({"spawn_mode": "fork"}, ErrorCode.DELEGATION_FORK_FORBIDDEN, id="forked"),
        pytest.param({"spawn_mode": ""}, ErrorCode.DELEGATION_FORK_FORBIDDEN, id="spawned nobody knows how"),
        pytest.param({"actual_model": "small"}, ErrorCode.DELEGATION_MODEL_FALLBACK_UNRECORDED, id="another model"),
    ],
)
def test_starts_that_do_not_count(start: dict[str, Any], code: ErrorCode) -> None:
    """Only a fresh child of the prepared role, with a name of its own and the model that was asked for, may start."""
    refused(lambda: receipts.activate(PREPARED, replace(START, **start), now=NOW), code)


def test_a_receipt_keeps_its_parent() -> None:
    """A receipt that knows its parent is not activated by another one."""
    bound = PREPARED.evolve(parent_id="parent-0")
    refused(
        lambda: receipts.activate(bound, START, now=NOW),
        ErrorCode.DELEGATION_IDENTITY_INVALID,
        "belongs to parent parent-0, but parent-1 reported",
    )
    assert receipts.activate(PREPARED.evolve(parent_id="parent-1"), START, now=NOW).status == "activated"


@pytest.mark.parametrize("name", ["agent-infra-lifecycle-reviewer ", "Agent-infra-lifecycle-reviewer", "general", ""])
@pytest.mark.parametrize("status", [ReceiptStatus.PREPARED, ReceiptStatus.SEALED])
def test_an_unmanaged_agent_is_ignored_first(name: str, status: ReceiptStatus) -> None:
    """The two names are exact; whoever else starts is none of our business, whatever the receipt's status."""
    with pytest.raises(IgnoredEventError, match="not a managed agent"):
        receipts.activate(ALL[status], replace(START, native_agent=name), now=NOW)


@pytest.mark.parametrize(
    "models",
    [
        pytest.param({"actual_model": None}, id="the start names no model"),
        pytest.param({"actual_model": "small", "fallback_reason": "large is down"}, id="with a reason"),
    ],
)
def test_models_that_pass(models: dict[str, Any]) -> None:
    """Only two known and different models need a reason."""
    assert receipts.activate(PREPARED, replace(START, **models), now=NOW).status == "activated"
    free = PREPARED.evolve(requested_model=None)
    assert receipts.activate(free, replace(START, actual_model="small"), now=NOW).actual_model == "small"


def test_a_fallback_is_recorded() -> None:
    """The model that ran, its effort and the reason are on the receipt."""
    start = replace(START, actual_model="small", actual_effort="high", fallback_reason="large is down")
    found = receipts.activate(PREPARED, start, now=NOW)
    assert (found.actual_model, found.actual_effort, found.model_fallback_reason) == ("small", "high", "large is down")


def in_order(call: Any, event: Any, faults: list[tuple[dict[str, Any], ErrorCode]]) -> None:
    """With all faults at once the first is the code; as each is mended, the next one shows."""
    for index in range(len(faults)):
        changes = {key: value for fault, _ in reversed(faults[index:]) for key, value in fault.items()}
        refused(lambda changes=changes: call(replace(event, **changes)), faults[index][1])


def test_the_order_of_a_start() -> None:
    """Status, role, identity, fork, model."""
    everything = replace(
        START, native_agent=EXECUTOR, parent_id="", spawn_mode="fork", actual_model="small", fallback_reason=None
    )
    refused(lambda: receipts.activate(ACTIVATED, everything, now=NOW), ErrorCode.DELEGATION_STATE_INVALID)
    in_order(
        lambda event: receipts.activate(PREPARED, event, now=NOW),
        START,
        [
            ({"native_agent": EXECUTOR}, ErrorCode.DELEGATION_ROLE_MISMATCH),
            ({"parent_id": ""}, ErrorCode.DELEGATION_IDENTITY_INVALID),
            ({"spawn_mode": "fork"}, ErrorCode.DELEGATION_FORK_FORBIDDEN),
            ({"actual_model": "small"}, ErrorCode.DELEGATION_MODEL_FALLBACK_UNRECORDED),
        ],
    )


@pytest.mark.parametrize(
    ("native_agent", "changes"),
    [
        pytest.param(EXECUTOR, {}, id="another role"),
        pytest.param(REVIEWER, {"client": "codex"}, id="another client"),
        pytest.param(REVIEWER, {"child_id": "child-2"}, id="another child"),
        pytest.param(REVIEWER, {"parent_id": "parent-2"}, id="another parent"),
        pytest.param(REVIEWER, {"spawn_mode": "fork"}, id="another spawn mode"),
    ],
)
def test_a_repeated_start_is_recognised(native_agent: str, changes: dict[str, Any]) -> None:
    """The same start again is the same in client, role, child, parent and spawn mode."""
    assert receipts.is_same_activation(ACTIVATED, START)
    assert not receipts.is_same_activation(PREPARED, START)
    assert not receipts.is_same_activation(ACTIVATED, replace(START, native_agent=native_agent, **changes))


@pytest.mark.parametrize(
    ("done", "code"),
    [
        pytest.param({"stage": "plan"}, ErrorCode.DELEGATION_STAGE_MISMATCH, id="another stage"),
        pytest.param({"round": 2}, ErrorCode.DELEGATION_STAGE_MISMATCH, id="another round"),
        pytest.param({"artifact": "review-plan-r2.md"}, ErrorCode.DELEGATION_STAGE_MISMATCH, id="another artifact"),
        pytest.param({"agent": "codex"}, ErrorCode.DELEGATION_AGENT_MISMATCH, id="another client's agent"),
        pytest.param({"agent": ""}, ErrorCode.DELEGATION_AGENT_MISMATCH, id="no agent"),
    ],
)
@pytest.mark.parametrize("status", [ReceiptStatus.ACTIVATED, ReceiptStatus.STAGE_COMPLETED])
def test_completions_that_do_not_count(status: ReceiptStatus, done: dict[str, Any], code: ErrorCode) -> None:
    """Only the delegated stage, round and artifact, by an agent of the receipt's client; when it is mended, too."""
    refused(lambda: receipts.complete(ALL[status], replace(DONE, **done), now=NOW), code)


def test_the_order_of_a_completion() -> None:
    """Status, step, agent."""
    wrong = replace(DONE, stage="plan", agent="codex")
    refused(lambda: receipts.complete(PREPARED, wrong, now=NOW), ErrorCode.DELEGATION_STATE_INVALID)
    in_order(
        lambda event: receipts.complete(ACTIVATED, event, now=NOW),
        DONE,
        [({"round": 7}, ErrorCode.DELEGATION_STAGE_MISMATCH), ({"agent": "x"}, ErrorCode.DELEGATION_AGENT_MISMATCH)],
    )


@pytest.mark.parametrize("agent", ["claude", "claude-code", " Claude "])
def test_agents_sign_with_their_tokens(agent: str) -> None:
    """Claude Code signs as `claude` or `claude-code`; case and outer blanks do not matter."""
    assert receipts.complete(ACTIVATED, replace(DONE, agent=agent), now=NOW).agent == agent


def test_a_completed_step_may_be_mended_until_the_child_stops() -> None:
    """Completing again records the artifact as it is now."""
    mended = receipts.complete(COMPLETED, replace(DONE, artifact_digest="f" * 64), now=LATER)
    assert mended == COMPLETED.evolve(artifact_digest="f" * 64, completed_at=LATER)


OTHER_PATH = "src/add.py"


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        pytest.param({"child_id": "child-2"}, ErrorCode.DELEGATION_STOP_INVALID, id="another child"),
        pytest.param({"native_agent": EXECUTOR}, ErrorCode.DELEGATION_ROLE_MISMATCH, id="another role"),
        pytest.param({"exit_code": 1}, ErrorCode.DELEGATION_STOP_INVALID, id="it failed"),
        pytest.param({"exit_code": -9}, ErrorCode.DELEGATION_STOP_INVALID, id="it was killed"),
        pytest.param({"head_moved": "main is at f00"}, ErrorCode.DELEGATION_HEAD_MOVED, id="HEAD moved"),
        pytest.param(
            {"changed_paths": (REVIEW, OTHER_PATH)},
            ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN,
            id="a reviewer changed code",
        ),
        pytest.param(
            {"index_after": "b" * 64}, ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN, id="a reviewer staged something"
        ),
        pytest.param(
            {"control_changed": ("core.hooksPath",)}, ErrorCode.DELEGATION_CONTROL_CHANGED, id="the hooks were moved"
        ),
    ],
)
def test_stops_that_do_not_count(stop: dict[str, Any], code: ErrorCode) -> None:
    """Only the activated child, ending well, having written what it may, seals its step."""
    refused(lambda: receipts.seal(COMPLETED, replace(STOP, **stop), now=NOW), code)


def test_the_order_of_a_stop() -> None:
    """Status, child, role, exit code, HEAD, write rules, control: the first fault is the code."""
    refused(
        lambda: receipts.seal(ACTIVATED, replace(STOP, child_id="child-2"), now=NOW), ErrorCode.DELEGATION_STATE_INVALID
    )
    in_order(
        lambda event: receipts.seal(COMPLETED, event, now=NOW),
        STOP,
        [
            ({"child_id": "child-2"}, ErrorCode.DELEGATION_STOP_INVALID),
            ({"native_agent": EXECUTOR}, ErrorCode.DELEGATION_ROLE_MISMATCH),
            ({"exit_code": 3}, ErrorCode.DELEGATION_STOP_INVALID),
            ({"head_moved": "moved"}, ErrorCode.DELEGATION_HEAD_MOVED),
            ({"changed_paths": (OTHER_PATH,)}, ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN),
            ({"control_changed": ("filter.x",)}, ErrorCode.DELEGATION_CONTROL_CHANGED),
        ],
    )


def test_a_child_and_its_exit_code_are_told_apart() -> None:
    """Both are DELEGATION_STOP_INVALID, so the message says which it was."""
    other = refused(
        lambda: receipts.seal(COMPLETED, replace(STOP, child_id="c-2", exit_code=1), now=NOW),
        ErrorCode.DELEGATION_STOP_INVALID,
    )
    assert other.message == "receipt r-review-plan.md belongs to child child-1, but c-2 reported"
    failed = refused(
        lambda: receipts.seal(COMPLETED, replace(STOP, exit_code=1), now=NOW), ErrorCode.DELEGATION_STOP_INVALID
    )
    assert failed.message == "child child-1 ended with exit code 1, expected 0"


def test_a_forbidden_write_names_every_path() -> None:
    """The sentence stays short; the notes have all of them."""
    strangers = tuple(f"src/{number:02}.py" for number in range(20))
    error = refused(
        lambda: receipts.seal(COMPLETED, replace(STOP, changed_paths=strangers), now=NOW),
        ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN,
        "and 12 more",
    )
    assert error.notes == strangers


def test_executors_may_write() -> None:
    """An executor may change the product and the index; HEAD and what controls it are not its own."""
    done = receipt("plan.md", status="stage-completed", child_id="child-1", index_before=INDEX)
    stop = replace(STOP, native_agent=EXECUTOR, changed_paths=(OTHER_PATH,), index_after="b" * 64, allowed_paths=())
    assert receipts.seal(done, stop, now=NOW).changed_paths == [OTHER_PATH]
    moved = replace(stop, head_moved="main is at f00")
    refused(lambda: receipts.seal(done, moved, now=NOW), ErrorCode.DELEGATION_HEAD_MOVED, "the executor of plan moved")
    hooks = replace(stop, control_changed=("core.hooksPath",))
    refused(lambda: receipts.seal(done, hooks, now=NOW), ErrorCode.DELEGATION_CONTROL_CHANGED, "core.hooksPath")


def test_aborting_keeps_what_was_seen() -> None:
    """An outcome that was seen stays; one that nobody saw is unknown."""
    assert PREPARED.evolve(status="aborted", outcome="unknown", aborted_at=NOW, abort_reason="lost") == ABORTED
    failed = ACTIVATED.evolve(outcome="failure")
    assert receipts.abort(failed, reason="x", now=NOW).outcome == "failure"
    assert receipts.abort(SEALED, reason="x", now=NOW).outcome == "success"


def test_an_event_holds_only_what_changed() -> None:
    """The whole receipt at first, then the fields that differ, by their names on disk."""
    assert receipts.changes(None, PREPARED) == PREPARED.to_json()
    assert receipts.changes(SEALED, CONSUMED) == {"status": "consumed", "consumedAt": NOW}
    assert receipts.changes(SEALED, SEALED) == {}


def test_receipts_are_closed() -> None:
    """An unknown key, a wrong type and a missing field are refused; names on disk are camelCase."""
    stored = PREPARED.to_json()
    assert stored["beforeFingerprint"] == TREE
    assert Receipt.model_validate(stored) == PREPARED
    for odd in (stored | {"extra": 1}, stored | {"round": "1"}, {key: stored[key] for key in stored if key != "id"}):
        with pytest.raises(ValidationError):
            Receipt.model_validate(odd)
    with pytest.raises(ValidationError):
        PREPARED.evolve(no_such_field=1)


def test_statuses_have_their_wire_values() -> None:
    """The table's states are the values on disk, dashes and all."""
    assert RECEIPT.states == ("prepared", "activated", "stage-completed", "sealed", "consumed", "aborted")
