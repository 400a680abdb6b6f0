"""`prepare`: open the next step with a receipt that names the workspace before it.

Snapshots are taken before the lock; under it the run must not have moved, or the verb looks again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_infra.core import clients
from agent_infra.core.facts import input_names
from agent_infra.core.flows import check_flow
from agent_infra.core.lifecycle import Flow, Role, Stage, Step
from agent_infra.core.outlook import Foresight, advice
from agent_infra.core.receipts import Input, PathChange, Receipt
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.git import control
from agent_infra.git.snapshot import index_digest
from agent_infra.services import records
from agent_infra.services.checks import check_required
from agent_infra.services.context import Context, run_config
from agent_infra.services.guard import authorize, foresee
from agent_infra.services.guard.foresee import FORESEEN
from agent_infra.services.orchestrate import Present
from agent_infra.services.outcome import Outcome
from agent_infra.services.setup.mending import mend_hooks
from agent_infra.stores.atomic import remove_durably
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import require
from agent_infra.stores.workspace import TaskPlace

_TRIES = 5


@dataclass(frozen=True)
class Order:
    """Whom the driver is going to start."""

    client: str
    headless: bool = False
    requested_model: str | None = None
    requested_effort: str | None = None
    evidence: Mapping[str, str] = field(default_factory=dict)  # what its client says about the start


class MovedError(Exception):
    """The run moved between our look and the lock; look again."""


def until_still(attempt: Callable[[], Outcome]) -> Outcome:
    """The answer of an attempt during which the run stood still; at most 5 are made.

    Raises:
        RefusedError: LOCK_TIMEOUT where it never does.
    """
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except MovedError:
            continue
    try:
        return attempt()
    except MovedError as error:
        message = f"the run moved {_TRIES} times while this verb looked at it; call it again"
        raise RefusedError(ErrorCode.LOCK_TIMEOUT, message) from error


def prepare(context: Context, ref: str, order: Order) -> Outcome:
    """Open the next step: take the snapshot before it and write its receipt; for a commit also its authorization.

    Raises:
        UsageError: an unknown client.
        RefusedError: ORCHESTRATION_CLIENT_UNSUPPORTED, _RUN_NOT_RUNNING, _WORKTREE_MISMATCH, _BRANCH_MISMATCH,
            _DELEGATION_BUSY, _HOOKS_MISSING, _FLOW_INSUFFICIENT, _SNAPSHOT_FAILED, or what the route refuses, in this
            order.

    Side effects:
        Journal, view, active step; snapshot objects; with `gate.check`, before a code review, what git's other hooks
        do in a place of their own. At the step limit the run is paused (ORCHESTRATION_MAX_STEPS).
    """
    client = clients.client(order.client)
    if not clients.can_orchestrate(client, headless=order.headless):
        kind = "headless" if order.headless else "in session"
        message = f"client {client.id} can't be orchestrated {kind}"
        raise RefusedError(ErrorCode.ORCHESTRATION_CLIENT_UNSUPPORTED, message)
    place = context.active(ref)
    mended = mend_hooks(context, place)
    known: dict[str, Foresight] = {}
    outcome = until_still(lambda: _prepare(context, place, order, known))
    return replace(outcome, notes=(*mended, *outcome.notes)) if mended else outcome


def _prepare(context: Context, place: TaskPlace, order: Order, known: dict[str, Foresight]) -> Outcome:
    state = _preparable(context, place)
    if state.run.step_count >= state.run.max_steps:
        message = f"the run has used its {state.run.max_steps} steps; `begin --max-steps N` raises the limit"
        return records.pause_for(context, place, "prepare", RefusedError(ErrorCode.ORCHESTRATION_MAX_STEPS, message))
    present = Present(context, place, state)
    answer = present.route()
    if answer.step is None:
        raise answer.fault or RefusedError(ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING, "there is no next step")
    present, foreseen = _foreseen(present, answer.step, known)
    event, notes = _preparation(present, answer.step, order)
    if foreseen:
        event, notes = replace(event, facts={FORESEEN: foresee.facts(foreseen)}), (*notes, *advice(foreseen))
    aside: list[str] = []

    def decide(now_state: State | None) -> Event | None:
        if require(now_state, place.task_id).seq != state.seq:
            raise MovedError
        _check_free(context, place)
        aside.extend(_clear_the_desk(context, place, answer.step) if answer.step else ())
        return event

    after, changed = context.change(place, decide)
    after = require(after, place.task_id)
    if after.pending is None:  # nothing was left to commit
        return records.settled(context, place, after, changed=changed, notes=notes)
    notes += tuple(aside)
    records.show_active(context, place, after)
    return Outcome(after.run.status, changed, place.task_id, after.run, answer.step, notes=notes)


def _foreseen(present: Present, step: Step, known: dict[str, Foresight]) -> tuple[Present, Foresight | None]:
    """What git's other hooks would do to the commit that a code review is about, where the settings ask for it.

    Args:
        known: answers by product tree, so that hooks run once though the run moved meanwhile.

    Returns:
        The task as it lies there afterwards, since hooks take their time.
    """
    context, place, state = present.context, present.place, require(present.state, present.place.task_id)
    if step.stage is not Stage.REVIEW_CODE or not run_config(state).gate.check:
        return present, None
    if present.product not in known:
        known[present.product] = foresee.foresee(foresee.Question(context, place, state, present.product))
    after = Present(context, place, state)
    if after.route().step != step:
        raise MovedError
    if after.product == present.product:
        return after, known[present.product]
    return after, replace(known[present.product], trials=(), reason="the product changed while they ran")


def _preparable(context: Context, place: TaskPlace) -> State:
    """The state of a run in which a step may be prepared here and now."""
    state = context.load(place)
    if state is None or state.run.status != RunStatus.RUNNING:
        found = state.run.status if state else "not begun"
        message = f"the run of {place.task_id} is {found}, expected running; {how_to_run(place.task_id, state)}"
        raise RefusedError(ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING, message)
    check_place(context, state)
    if state.pending:
        raise busy(place.task_id, state.pending)
    _check_free(context, place)
    return state


def how_to_run(task_id: str, state: State | None) -> str:
    """The command that makes a run running."""
    verb = "begin"
    if state and state.pending and state.memo.faulty == state.pending.id:
        verb = "abandon"
    elif state and state.run.status == RunStatus.COMPLETED and not state.run.ended:
        verb = "reopen"
    options = {"abandon": " --reason …", "reopen": " --stage STAGE --reason …"}.get(verb, "")
    return f"`agent-infra orchestrate {verb} {task_id}{options}`"


def _clear_the_desk(context: Context, place: TaskPlace, step: Step) -> tuple[str, ...]:
    """A reviewer writes its own verdict: what an aborted one left under that name is kept aside."""
    path = place.folder / step.artifact
    if step.role != Role.REVIEWER or not path.is_file():
        return ()
    kept = records.set_aside(context, place, step.artifact, path.read_bytes())
    remove_durably(path)
    return (f"{step.artifact} lay there from an earlier try; it is kept as {kept}",)


def check_place(context: Context, state: State) -> None:
    """A run is worked on in its own worktree and on its own branch.

    Raises:
        RefusedError: ORCHESTRATION_WORKTREE_MISMATCH or ORCHESTRATION_BRANCH_MISMATCH.
    """
    here = context.here
    if state.run.worktree != here:
        ends = f"`agent-infra orchestrate end {state.run.task_id} --reason …`"
        message = f"the run belongs to worktree {state.run.worktree}, this is {here}; call from there, or {ends}"
        raise RefusedError(ErrorCode.ORCHESTRATION_WORKTREE_MISMATCH, message)
    branch = context.repo.head().branch
    if state.run.branch != branch:
        wanted, found = state.run.branch or "a detached HEAD", branch or "a detached HEAD"
        back = f"`git switch {state.run.branch}`" if state.run.branch else "`git switch --detach`"
        ends = f"`agent-infra orchestrate end {state.run.task_id} --reason …`"
        message = f"the run belongs to {wanted}, but {found} is checked out; {back}, or {ends}"
        raise RefusedError(ErrorCode.ORCHESTRATION_BRANCH_MISMATCH, message)


def _check_free(context: Context, place: TaskPlace) -> None:
    """One pending receipt per worktree."""
    for task_id, state in runs_here(context):
        if task_id != place.task_id and state.pending:
            raise busy(task_id, state.pending)


def runs_here(context: Context) -> list[tuple[str, State]]:
    """The runs that are bound to this worktree; one that can't be read disturbs nobody."""
    found = []
    for guard in context.runs.guards():
        if guard.worktree != context.here:
            continue
        try:
            state = context.runs.seen(guard.task_id)
        except AgentInfraError:
            continue
        if state:
            found.append((guard.task_id, state))
    return found


def busy(task_id: str, receipt: Receipt) -> RefusedError:
    """The refusal that names the pending step and the ways out of it."""
    message = (
        f"{receipt.artifact} of {task_id} is pending ({receipt.status}) in this worktree; finish it, "
        f"or `agent-infra orchestrate abandon {task_id} --reason …`"
    )
    return RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_BUSY, message)


def _preparation(present: Present, step: Step, order: Order) -> tuple[Event, tuple[str, ...]]:
    """The event that opens `step`, and what people should know about it."""
    context, state = present.context, require(present.state, present.place.task_id)
    run_patch: dict[str, Any] = {"nextStage": str(step.stage)}
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    if step.stage is Stage.COMMIT:
        check_required(present.situation, present.product)
        authorization, paths = authorize.issue(present)
        if not paths:
            return authorize.nothing_to_commit(state), ("HEAD has what was reviewed already; nothing to commit",)
        check_flow(Flow(state.run.flow), paths, run_config(state).flow, task_id=state.run.task_id)
        run_patch["commitAuthorization"] = authorization.to_json()
        notes = tuple(f"to commit: {path}" for path in paths)
        facts = authorize.patch_facts(context, authorization)
    if step.stage is Stage.CODE:
        from agent_infra.services.overlap import warnings_for

        notes = warnings_for(context, present.place.task_id)
    items = control.capture(context.repo)
    receipt = _new_receipt(present, step, order, control_before=control.digest(items))
    memo = {"control": items, "faulty": None}
    return Event("prepare", run=run_patch, receipt=receipt.to_json(), memo=memo, facts=facts), notes


def _new_receipt(present: Present, step: Step, order: Order, *, control_before: str) -> Receipt:
    context, state = present.context, require(present.state, present.place.task_id)
    judges_code = step.stage is Stage.REVIEW_CODE
    files = {file.name: file for file in present.situation.folder.newest.values()}
    return Receipt(
        id=context.new_id(),
        task_id=present.place.task_id,
        run_id=state.run.run_id,
        role=step.role.value,
        stage=step.stage.value,
        round=step.round,
        artifact=step.artifact,
        client=order.client,
        origin=context.origin.value,
        requested_model=order.requested_model,
        requested_effort=order.requested_effort,
        inputs=[Input(name=name, sha256=files[name].sha256) for name in input_names(step, present.situation)],
        input_tree=present.product if judges_code else None,
        input_changes=_input_changes(present, state) if judges_code else None,
        before_fingerprint=present.fingerprint,
        head_before=context.repo.head().oid,
        index_before=index_digest(context.repo),
        control_before=control_before,
        evidence=dict(order.evidence) or None,
        created_at=context.now(),
    )


def _input_changes(present: Present, state: State) -> list[PathChange]:
    """What a code review judges: every product path that differs from the baseline."""
    changes = present.context.objects.diff(state.run.baseline.tree, present.product)
    return [PathChange(path=change.name, mode=change.new_mode, oid=change.new_oid) for change in changes]
