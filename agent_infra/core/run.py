"""The run of a task: the record that `orchestration.json` shows, and the fold that makes it of the journal's events.

An event holds what it changed: `run` (top-level fields), `receipt` (fields of the pending one), `close` (the pending
receipt joins the list) and `memo` (what we must remember but do not show). Nothing here reads a file or a clock.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from agent_infra.core.lifecycle import Flow
from agent_infra.core.machines import Arrow, Table
from agent_infra.core.receipts import Receipt
from agent_infra.core.record import Record
from agent_infra.errors import AgentInfraError, CorruptStateError, ErrorCode, RefusedError

SCHEMA_VERSION = 1
DEFAULT_MAX_STEPS = 24


class RunStatus(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"


class Pause(Record):
    """Why a run waits; `recoverable` pauses end with the next `begin`."""

    code: str
    message: str
    recoverable: bool


class Baseline(Record):
    """What the task started from: HEAD's commit (null on an unborn branch) and a product tree."""

    head: str | None
    tree: str


class CommitAuthorization(Record):
    """Leave for one commit: this tree, on this parent, on this ref."""

    issued_at: str | None = None
    consumed_at: str | None = None
    ref: str | None = None
    head: str | None = None
    tree: str | None = None
    commit: str | None = None


class Ended(Record):
    """A run that was given up."""

    at: str
    reason: str


class Run(Record):
    """One orchestration of a task, as `orchestration.json` shows it."""

    schema_version: int = SCHEMA_VERSION
    task_id: str
    run_id: str
    status: str
    flow: str = Flow.FULL.value
    next_stage: str | None = None
    step_count: int = 0
    max_steps: int = DEFAULT_MAX_STEPS
    baseline: Baseline
    worktree: str
    branch: str | None
    pending_delegation: Receipt | None = None
    receipts: list[Receipt] = []
    pause: Pause | None = None
    commit_authorization: CommitAuthorization = CommitAuthorization()
    ended: Ended | None = None
    created_at: str
    updated_at: str
    journal_head: str

    @property
    def guards(self) -> bool:
        """Whether git must still refuse what this run did not authorize."""
        return self.status != RunStatus.COMPLETED


class Memo(Record):
    """What a run remembers beside its view.

    Attributes:
        found: digests of what lay in the task folder at `begin`, by name.
        adopt_reviews: a person said at `begin` that the reviews found there count.
        begun_tree: the product tree at `begin`, whatever the baseline is.
        ledger: the last proven state of every ledger row, by id: [stage, round, severity, status, evidence].
        ledger_present: whether task.md had a ledger section at `begin`.
        config: the settings that count for this run.
        config_digest: SHA-256 of the settings file at `begin`, or null without one.
        reopened: newest round of a family when it was reopened.
        verdicts: verdict of each completed review, by file name.
        control: the items of the pending receipt's control digest.
        faulty: id of the receipt whose fault paused the run; such a pause ends by `abandon`, not by `begin`.
        forgiven: how many receipts there were when the run was last resumed after children that left no result;
            the aborted ones among them don't count any more.
        allowed: why a person lets the next commit pass, or null; used up by that commit.
        allowed_head: the commit that it must follow; the leave is void once HEAD has moved.
        head: where the run last saw its branch, or null while that is where it began.
        checks: exit code of the last run of a command on a product tree, by `core.checks.check_key`.
        validated: code reviews whose manual validation a person has done: digest by file name.
    """

    found: dict[str, str] = {}
    adopt_reviews: bool = False
    begun_tree: str = ""
    ledger: dict[str, list[str]] = {}
    ledger_present: bool = False
    config: dict[str, Any] = {}
    config_digest: str | None = None
    reopened: dict[str, int] = {}
    verdicts: dict[str, str] = {}
    control: dict[str, str] = {}
    faulty: str | None = None
    forgiven: int = 0
    allowed: str | None = None
    allowed_head: str | None = None
    head: str | None = None
    checks: dict[str, int] = {}
    validated: dict[str, str] = {}


class State(Record):
    """Everything that the journal says."""

    run: Run
    memo: Memo
    seq: int

    @property
    def pending(self) -> Receipt | None:
        """The receipt in flight."""
        return self.run.pending_delegation

    def newest_receipt(self, artifact: str) -> Receipt | None:
        """The last ended receipt for an artifact's name."""
        return next((receipt for receipt in reversed(self.run.receipts) if receipt.artifact == artifact), None)

    def knows_child(self, child_id: str) -> bool:
        """Whether a child with this id worked in the run before."""
        return any(receipt.child_id == child_id for receipt in self.run.receipts)


def _refusal(status: str, trigger: str) -> AgentInfraError:
    codes = {RunStatus.PAUSED.value: ErrorCode.ORCHESTRATION_RUN_PAUSED}
    code = codes.get(status, ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING)
    if trigger == "pause" and status == RunStatus.COMPLETED:
        code = ErrorCode.ORCHESTRATION_RUN_COMPLETED
    helps = "`agent-infra orchestrate begin` resumes it" if status == RunStatus.PAUSED else "see `orchestrate status`"
    return RefusedError(code, f"the run is {status}, so it can't {trigger}; {helps}")


_R = RunStatus
RUN = Table(
    "run",
    tuple(RunStatus),
    (
        # every verb that moves a receipt asks this arrow first
        Arrow("work", _R.RUNNING, _R.RUNNING),
        Arrow("pause", _R.RUNNING, _R.PAUSED),
        Arrow("resume", _R.PAUSED, _R.RUNNING),
        Arrow("finish", _R.RUNNING, _R.COMPLETED),
        *(Arrow("end", status, _R.COMPLETED) for status in _R),
        Arrow("reopen", _R.COMPLETED, _R.RUNNING),
    ),
    _refusal,
)


def fold(events: Iterable[Mapping[str, Any]], *, task_id: str, head: str) -> State:
    """The state that a sequence of events adds up to.

    Args:
        events: parsed journal lines, oldest first, at least one; chained and numbered already.
        head: SHA-256 of the last line.

    Raises:
        CorruptStateError: ORCHESTRATION_JOURNAL_INVALID naming the line that makes no sense.
    """
    run: dict[str, Any] = {}
    pending: dict[str, Any] | None = None
    receipts: list[dict[str, Any]] = []
    memo: dict[str, Any] = {}
    seq = 0
    for seq, event in enumerate(events, start=1):
        if event["op"] == "begin" and "run" in event and "runId" in event["run"]:
            run, pending, receipts, memo = {}, None, [], {}
        elif not run:
            raise _invalid(seq, "it does not begin a run")
        run |= event.get("run", {}) | {"updatedAt": event["ts"]}
        if "receipt" in event:
            pending = (pending or {}) | event["receipt"]
        if event.get("close"):
            if pending is None:
                raise _invalid(seq, "it closes a receipt, but none is pending")
            receipts, pending = [*receipts, pending], None
        if "memo" in event:
            memo = merged(memo, event["memo"])
    run |= {"pendingDelegation": pending, "receipts": receipts, "journalHead": head}
    return _validated({"run": run, "memo": memo, "seq": seq}, seq, task_id)


def _validated(document: Mapping[str, Any], seq: int, task_id: str) -> State:
    """The closed records of a folded document, which must be this task's."""
    try:
        state = State.model_validate(document)
    except ValueError as error:
        raise _invalid(seq, f"the run is not one of ours up to here ({_first_line(error)})") from error
    owners = {state.run.task_id} | {receipt.task_id for receipt in state.run.receipts}
    owners |= {state.pending.task_id} if state.pending else set()
    if owners != {task_id}:
        raise _invalid(seq, f"it belongs to {', '.join(sorted(owners))}, not to {task_id}")
    return state


def merged(memo: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """What is remembered after a line: mappings are merged key by key, anything else is replaced.

    `control` belongs to one receipt and is replaced.
    """
    after = dict(memo)
    for key, value in patch.items():
        old = after.get(key)
        after[key] = old | value if isinstance(old, dict) and isinstance(value, dict) and key != "control" else value
    return after


def _invalid(line: int, why: str) -> CorruptStateError:
    return CorruptStateError(ErrorCode.ORCHESTRATION_JOURNAL_INVALID, f"line {line} of the journal is not valid: {why}")


def _first_line(error: ValueError) -> str:
    return "; ".join(str(error).splitlines()[1:3]).strip() or str(error)
