"""The verbs that move one delegation once it is prepared: activate, validate, complete, seal."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_infra.core import clients, receipts
from agent_infra.core.facts import seen
from agent_infra.core.ledger import Row
from agent_infra.core.lifecycle import NATIVE_AGENTS, Role, Stage, Step
from agent_infra.core.receipts import Activation, Completion, Receipt, ReceiptStatus, Sealing, Told
from agent_infra.core.receipts import Outcome as ChildOutcome
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import ErrorCode, IgnoredEventError, RefusedError
from agent_infra.git import control
from agent_infra.git.snapshot import index_digest
from agent_infra.services import records, results
from agent_infra.services.context import Context
from agent_infra.services.outcome import FAILED, Outcome
from agent_infra.services.prepare import MovedError, check_place, runs_here, until_still
from agent_infra.services.setup.mending import mend_hooks
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import require
from agent_infra.stores.workspace import TaskPlace

AUTO = "auto"
NOTHING = Told()


def activate(context: Context, ref: str, event: Activation, told: Told = NOTHING) -> Outcome:
    """Bind the prepared receipt to the child that started.

    Raises:
        UsageError: an unknown client.
        RefusedError: ORCHESTRATION_DELEGATION_MISSING, _DELEGATION_AMBIGUOUS, _CLIENT_MISMATCH or _RUN_PAUSED.

    Side effects:
        Journal, view, active step. A start that breaks a rule of the receipt pauses the run.
    """
    clients.client(event.client)
    if event.native_agent not in NATIVE_AGENTS:
        return _ignored(context, ref)
    place = _place_of(context, ref, lambda receipt: _awaits(receipt, event), child_id=event.child_id)
    if place is None:
        message = f"no step is prepared for a child of {event.client} in this worktree; do nothing and stop"
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_MISSING, message)

    def decide(state: State | None) -> Event | None:
        state = _worked_on(state)
        pending = state.pending
        if pending and pending.status != ReceiptStatus.PREPARED and receipts.is_same_activation(pending, event):
            return None
        if state.knows_child(event.child_id):
            _check_reuse(state, event.child_id)
        receipt = records.pending(state)
        _check_client(receipt, event.client)
        activated = told.added_to(receipts.activate(receipt, event, now=context.now()))
        return Event("activate", receipt=receipts.changes(receipt, activated))

    return _moved(context, place, "activate", decide)


def _awaits(receipt: Receipt, event: Activation) -> bool:
    """Whether a start that names no task may be meant for this receipt; a repeat of its own start is."""
    if receipt.client != event.client:
        return False
    return receipt.status == ReceiptStatus.PREPARED or receipt.child_id == event.child_id


def _check_reuse(state: State, child_id: str) -> None:
    """A child works once; its late or doubled start is nobody's, unless it takes another step's receipt."""
    if state.pending is None or state.pending.status != ReceiptStatus.PREPARED:
        raise IgnoredEventError(ErrorCode.DELEGATION_IDENTITY_REUSED, f"child {child_id} has worked in this run before")
    message = f"child {child_id} has worked in this run before; {state.pending.artifact} needs a fresh one"
    raise RefusedError(ErrorCode.DELEGATION_IDENTITY_REUSED, message)


def _check_client(receipt: Receipt, client: str) -> None:
    if receipt.client != client:
        message = f"receipt {receipt.id} was prepared for client {receipt.client}, but {client} reported"
        raise RefusedError(ErrorCode.ORCHESTRATION_CLIENT_MISMATCH, message)


def validate(context: Context, ref: str, step: Step, role: Role) -> Outcome:
    """Whether this is the active step; changes nothing and never pauses.

    Raises:
        RefusedError: ORCHESTRATION_PROVENANCE_MISMATCH.
    """
    place = context.active(ref)
    state = context.load(place)
    if state is None:
        return Outcome(RunStatus.RUNNING.value, task_id=place.task_id)
    receipt = state.pending
    active = receipt is not None and receipt.status == ReceiptStatus.ACTIVATED
    if receipt is None or not active or receipt.step != step or receipt.role != role:
        found = f"{receipt.artifact} is {receipt.status}" if receipt else "no step is pending"
        message = f"{step.stage} round {step.round} ({step.artifact}) by the {role} is not the active step: {found}"
        raise RefusedError(ErrorCode.ORCHESTRATION_PROVENANCE_MISMATCH, message)
    return Outcome(state.run.status, task_id=place.task_id, run=state.run, next=receipt.step)


@dataclass(frozen=True)
class Claim:
    """A child's word that its step is done.

    Attributes:
        agent: the agent's token; the receipt's client must accept it.
        told: what the client says beside.
        stage: with `round` and `artifact` the step that it did; those of the pending step where left out.
    """

    agent: str
    stage: str | None = None
    round: int | None = None
    artifact: str | None = None
    told: Told = NOTHING


def complete(context: Context, ref: str, claim: Claim) -> Outcome:
    """Take a child's result: check what it left, write task.md, record the digests.

    Raises:
        RefusedError: ORCHESTRATION_RUN_PAUSED, _DELEGATION_MISSING, _WORKTREE_MISMATCH, _BRANCH_MISMATCH,
            DELEGATION_STAGE_MISMATCH, _AGENT_MISMATCH, and for a faulty result ARTIFACT_NOT_FOUND,
            REVIEW_SUMMARY_COUNT_MISMATCH, REVIEW_VERDICT_FINDING_MISMATCH, ORCHESTRATION_REVIEW_INVALID,
            _ARTIFACT_INVALID, _LEDGER_INVALID, _LEDGER_UNPROVEN, _TASK_INVALID or _COMMIT_MISSING; the receipt
            stays activated, so that the child can mend it.

    Side effects:
        task.md first, then journal and view. A receipt that nobody activated pauses the run.
    """
    place = context.active(ref)
    if context.load(place) is None:
        return Outcome(RunStatus.RUNNING.value, task_id=place.task_id)
    mended = mend_hooks(context, place)  # a commit that git did not ask about can only be made anew with our hooks

    def decide(state: State | None) -> Event | None:
        state = require(state, place.task_id)
        if _was_completed(state, claim):
            return None
        receipt = records.pending(state)
        check_place(context, state)
        event = Completion(
            claim.stage or receipt.stage, claim.round or receipt.round, claim.artifact or receipt.artifact, claim.agent
        )
        # a mistyped call must not pause the run, whatever the receipt's status
        receipts.same_step(receipt, event)
        receipts.same_agent(receipt, event)
        if receipt.status in (ReceiptStatus.ACTIVATED, ReceiptStatus.STAGE_COMPLETED):
            return _taken(context, place, state, event, claim.told)
        return _completed(context, receipt, event)

    outcome = _moved(context, place, "complete", decide)
    return replace(outcome, notes=(*mended, *outcome.notes)) if mended else outcome


def _taken(context: Context, place: TaskPlace, state: State, event: Completion, told: Told) -> Event | None:
    """The event of a result that was found right, after task.md says so; `None` where all that is recorded."""
    receipt = records.pending(state)
    result = results.take(context, place, state)
    if receipt.status == ReceiptStatus.STAGE_COMPLETED and _is_recorded(receipt, event, result.digest):
        return None
    results.write_task(context, place, receipt, result, event.agent)
    return _completed(context, receipt, replace(event, artifact_digest=result.digest), result, told)


def _was_completed(state: State, claim: Claim) -> bool:
    """Whether this very claim led to a result that is sealed already; a repeat gives the first answer again."""
    receipt = state.pending or (state.run.receipts[-1] if state.run.receipts else None)
    if receipt is None or receipt.sealed_at is None:
        return False
    return (claim.stage, claim.round, claim.artifact) == (receipt.stage, receipt.round, receipt.artifact) and (
        claim.agent == receipt.agent
    )


def _is_recorded(receipt: Receipt, event: Completion, digest: str | None) -> bool:
    recorded = (receipt.stage, receipt.round, receipt.artifact, receipt.agent, receipt.artifact_digest)
    return recorded == (event.stage, event.round, event.artifact, event.agent, digest)


def _completed(
    context: Context,
    receipt: Receipt,
    event: Completion,
    result: results.Result | None = None,
    told: Told = NOTHING,
) -> Event:
    completed = receipts.complete(receipt, event, now=context.now())
    if result is None:
        return Event("complete", receipt=receipts.changes(receipt, completed))
    completed = told.added_to(_with_orchestration(context, _with_rows(completed, result.rows)))
    return Event("complete", run=result.run, receipt=receipts.changes(receipt, completed), memo=result.memo)


def _with_orchestration(context: Context, receipt: Receipt) -> Receipt:
    """The receipt of a code step, which also names the orchestration of subtasks that did the work."""
    if receipt.stage != Stage.CODE:
        return receipt
    from agent_infra.services.subtasks.lifecycle import orchestration_of

    known = orchestration_of(context, receipt)
    return receipt.evolve(evidence={**(receipt.evidence or {}), "orchestration": known}) if known else receipt


def _with_rows(receipt: Receipt, rows: tuple[Row, ...]) -> Receipt:
    """The receipt, which also names the ledger rows that its child changed."""
    cells = [[row.id, row.stage, row.round, row.severity, row.status, row.evidence] for row in rows]
    return receipt.evolve(ledger=[*receipt.ledger, *cells]) if cells else receipt


@dataclass(frozen=True)
class Stop:
    """A native stop."""

    client: str
    native_agent: str
    child_id: str
    exit_code: int = 0


def seal(context: Context, ref: str, stop: Stop) -> Outcome:
    """Close a completed step with the workspace that its child left behind.

    Raises:
        UsageError: an unknown client.
        RefusedError: ORCHESTRATION_DELEGATION_MISSING, _RUN_PAUSED, _CLIENT_MISMATCH, or DELEGATION_STOP_INVALID
            for another child.

    Side effects:
        Snapshot, journal, view, active step. A stop that breaks a rule pauses the run; a stop of a child that did
        not finish records that its outcome is unknown.
    """
    clients.client(stop.client)
    if stop.native_agent not in NATIVE_AGENTS:
        return _ignored(context, ref)
    place = _place_of(context, ref, lambda receipt: receipt.child_id == stop.child_id, child_id=stop.child_id)
    if place is None:
        return _ignored(context, ref)
    mended = mend_hooks(context, place)  # before the seal looks at what controls the repository
    outcome = until_still(lambda: _seal(context, place, stop, auto=ref == AUTO))
    return replace(outcome, notes=(*mended, *outcome.notes)) if mended else outcome


def _seal(context: Context, place: TaskPlace, stop: Stop, *, auto: bool) -> Outcome:
    state = _worked_on(context.load(place))
    stranger = state.pending is None or state.pending.child_id != stop.child_id
    if _was_sealed(state, stop) or (auto and stranger):
        return Outcome(state.run.status, task_id=place.task_id, run=state.run)
    receipt = records.pending(state)
    if state.run.worktree != context.here:
        check_place(context, state)
    _check_client(receipt, stop.client)
    if receipt.status != ReceiptStatus.STAGE_COMPLETED:
        return _unfinished(context, place, receipt, stop)
    # the stop of another child says nothing about this one: it fails and pauses nothing
    receipts.check_child(receipt, stop.child_id)
    try:
        sealing = _sealing(context, place, state, stop)
    except RefusedError as error:
        return records.pause_for(context, place, "seal", error)

    def decide(now_state: State | None) -> Event | None:
        if require(now_state, place.task_id).seq != state.seq:
            raise MovedError
        sealed = receipts.seal(receipt, sealing, now=context.now())
        rows = results.late_rows(place, state, may_close=receipt.role == Role.REVIEWER)
        sealed = _with_rows(sealed, rows)
        return Event("seal", receipt=receipts.changes(receipt, sealed), memo={"ledger": seen(rows)})

    outcome = ChildOutcome.FAILURE.value if stop.exit_code else None
    return _moved(context, place, "seal", decide, outcome)


def _was_sealed(state: State, stop: Stop) -> bool:
    """Whether this stop was recorded before; a repeat gives the first answer again."""
    known = [*state.run.receipts, *([state.pending] if state.pending else [])]
    return any(receipt.sealed_at and receipt.child_id == stop.child_id for receipt in known)


def _unfinished(context: Context, place: TaskPlace, receipt: Receipt, stop: Stop) -> Outcome:
    """A stop of a child that did not complete its step: unknown, and no pause."""
    message = f"{receipt.artifact} is {receipt.status}, but to seal it must be stage-completed: the child stopped early"
    error = RefusedError(ErrorCode.DELEGATION_STATE_INVALID, message)
    mine = receipt.status == ReceiptStatus.ACTIVATED and receipt.child_id == stop.child_id

    def decide(state: State | None) -> Event | None:
        pending = require(state, place.task_id).pending
        if not mine or pending is None or pending.id != receipt.id or pending.status != receipt.status:
            return None
        wanted = (ChildOutcome.FAILURE if stop.exit_code else ChildOutcome.UNKNOWN).value
        return Event("stop", receipt={"outcome": wanted}) if pending.outcome != wanted else None

    state, changed = context.change(place, decide)
    run = require(state, place.task_id).run
    return Outcome(FAILED, changed, place.task_id, run, receipt.step, error)


def _sealing(context: Context, place: TaskPlace, state: State, stop: Stop) -> Sealing:
    """What the child left, compared with what was there before it."""
    receipt = records.pending(state)
    after = context.snapshot(place, state)
    head = context.repo.head()
    items = control.capture(context.repo)
    expected = state.run.commit_authorization.commit if receipt.stage == Stage.COMMIT else receipt.head_before
    return Sealing(
        child_id=stop.child_id,
        native_agent=stop.native_agent,
        exit_code=stop.exit_code,
        after_fingerprint=after,
        changed_paths=tuple(change.name for change in context.objects.diff(receipt.before_fingerprint, after)),
        allowed_paths=(place.relative(receipt.artifact), place.relative("task.md")),
        head_after=head.oid,
        index_after=index_digest(context.repo),
        control_after=control.digest(items),
        head_moved=_head_moved(expected, head.oid, state.run.branch, head.branch),
        control_changed=control.changed(state.memo.control, items),
    )


def _head_moved(expected: str | None, found: str | None, branch: str | None, now_on: str | None) -> str | None:
    """What became of HEAD and its branch, in words."""
    if branch != now_on:
        return f"{now_on or 'a detached HEAD'} is checked out instead of {branch or 'a detached HEAD'}"
    if expected != found:
        return f"from {expected or 'no commit'} to {found or 'no commit'}"
    return None


def _moved(
    context: Context,
    place: TaskPlace,
    verb: str,
    decide: Callable[[State | None], Event | None],
    outcome: str | None = None,
) -> Outcome:
    """Let `decide` happen; what it refuses pauses the run where the table says so."""
    try:
        state, changed = context.change(place, decide)
    except IgnoredEventError:
        return _ignored(context, place.task_id)
    except RefusedError as error:
        return records.pause_for(context, place, verb, error, outcome=outcome)
    records.show_active(context, place, state)
    state = require(state, place.task_id)
    return Outcome(state.run.status, changed, place.task_id, state.run, state.pending.step if state.pending else None)


def _worked_on(state: State | None) -> State:
    """The state of a run; without one nothing was delegated."""
    if state is None:
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_MISSING, "no run, so nothing was delegated")
    return state


def _place_of(context: Context, ref: str, fits: Callable[[Receipt], bool], *, child_id: str) -> TaskPlace | None:
    """The task that an event is about; `None` where an `auto` event is nobody's.

    Raises:
        RefusedError: ORCHESTRATION_DELEGATION_AMBIGUOUS for `auto`, else as for `Context.active`.
    """
    if ref != AUTO:
        return context.active(ref)
    here = runs_here(context)
    fitting = [task_id for task_id, state in here if state.pending and fits(state.pending)]
    if len(fitting) > 1:
        message = f"receipts of {', '.join(fitting)} are pending in this worktree; name the task"
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_AMBIGUOUS, message)
    if fitting:
        return context.active(fitting[0])
    known = [task_id for task_id, state in here if state.knows_child(child_id)]
    return context.active(known[0]) if known else None


def _ignored(context: Context, ref: str) -> Outcome:
    """An event that is none of our business: exit 0, nothing moved, nothing said."""
    if ref == AUTO:
        return Outcome(RunStatus.RUNNING.value)
    place = context.active(ref)
    state = context.load(place)
    run = state.run if state else None
    return Outcome(run.status if run else RunStatus.RUNNING.value, task_id=place.task_id, run=run)
