"""A child starts, works and stops: hand it its step, take what it leaves, or ask it to go on."""

from agent_infra.core import clients, driving, native
from agent_infra.core.lifecycle import Stage
from agent_infra.core.native import Answer
from agent_infra.core.receipts import Activation, Origin, Receipt, ReceiptStatus, Told
from agent_infra.core.run import RunStatus
from agent_infra.errors import AgentInfraError
from agent_infra.services import brief, delegate, orchestrate, outbox
from agent_infra.services.guard import commit as commits
from agent_infra.services.sessions.desk import Desk, give_up
from agent_infra.stores.runs import require
from agent_infra.stores.sessions import Stop

ASKED_TO_GO_ON = 3  # times, before a child's outcome stays unknown


def child_started(desk: Desk) -> Answer:
    """Bind the prepared step to the child and hand it its brief; a child without a step is told so.

    Side effects:
        What `activate` does; the notes. It never pauses a run for a child that it knows nothing of.
    """
    event = desk.event
    found = desk.pending_child(event.child) or _prepared_for(desk)
    if found is None or event.child == event.session:
        return Answer(native.TELL, driving.stepless(event.agent_type))
    task, receipt = found
    if receipt.role != event.role:
        return Answer(native.TELL, driving.stepless(event.agent_type))
    started = Activation(
        event.client, event.agent_type, event.child, event.session, "fresh", event.told.get("model") or None
    )
    desk.noted(receipt).names.append(event.child)
    outcome = delegate.activate(desk.context, task, started, Told(evidence=event.told))
    if outcome.status != RunStatus.RUNNING or outcome.run is None or outcome.run.pending_delegation is None:
        return Answer(native.TELL, driving.stepless(event.agent_type))
    state = require(desk.state(task), task)
    return Answer(native.TELL, brief.brief_text(desk.context, desk.place(task), state))


def _prepared_for(desk: Desk) -> tuple[str, Receipt] | None:
    """The step that was prepared for a child of this session, if this child can be that one."""
    event = desk.event
    runs = desk.runs()
    if any(state.knows_child(event.child) for _, state in runs):
        return None
    for task, state in runs:
        receipt = state.pending
        if not receipt or receipt.status != ReceiptStatus.PREPARED or state.run.status != RunStatus.RUNNING:
            continue
        spawn = desk.spawn_of(receipt)
        is_ours = receipt.client == event.client and receipt.origin in (Origin.HOOK, Origin.CLI)
        if is_ours and receipt.role == event.role and (spawn is None or spawn.session == event.session):
            return task, receipt
    return None


def child_stopped(desk: Desk) -> Answer:
    """Take what a child leaves and let its step count; for a missing or faulty result it is asked to go on.

    Raises:
        AgentInfraError: what keeps us from taking it in and is not the child's fault; a later event goes on with it.

    Side effects:
        What `complete`, `seal` and `advance` do; at the commit stage perhaps the commit; the notes.
    """
    event = desk.event
    found = desk.pending_child(event.child)
    if found is None or found[1].role != event.role:
        return Answer()
    task, receipt = found
    desk.notes.stop = Stop(event.child, receipt.id)
    desk.noted(receipt)
    desk.store.keep(desk.notes)  # what follows may be slow, and we may be killed in it
    if require(desk.state(task), task).run.status != RunStatus.RUNNING:
        return Answer()
    fault = _take(desk, task, receipt, _heard(desk))
    if fault is None:
        return Answer()
    spawn = desk.noted(receipt)
    spawn.faults += 1
    if spawn.faults > ASKED_TO_GO_ON:
        give_up(desk, task, receipt)
        return Answer()
    where = _where(desk, task, receipt)
    return Answer(native.GO_ON, driving.mend(receipt.step, fault, where, ASKED_TO_GO_ON - spawn.faults))


def _heard(desk: Desk) -> Told:
    used = desk.watch.used(desk.event)
    return Told(used.usage, {**desk.event.told, **used.evidence})


def _where(desk: Desk, task: str, receipt: Receipt) -> str:
    """Where the result belongs, for a child that has left none or a faulty one."""
    if outbox.is_used(receipt):
        return f"It belongs into {outbox.expected(receipt, desk.context.repo.worktree)}."
    if receipt.stage == Stage.COMMIT:
        return f"Commit with: agent-infra commit {task} -m MESSAGE."
    return f"It belongs into {desk.place(task).folder / receipt.artifact}."


def child_failed(desk: Desk) -> Answer:
    """A child ended by an error of its client."""
    found = desk.pending_child(desk.event.child)
    if found:
        give_up(desk, *found)
    return Answer()


def _take(desk: Desk, task: str, receipt: Receipt, told: Told) -> AgentInfraError | None:
    """The whole end of a step; the fault in it that its child can mend, if there is one.

    Raises:
        AgentInfraError: any other fault; the stop stays noted.
    """
    try:
        if receipt.status in (ReceiptStatus.ACTIVATED, ReceiptStatus.STAGE_COMPLETED):
            _hand_in(desk, task, receipt)
            token = clients.client(receipt.client).token
            delegate.complete(desk.context, task, delegate.Claim(token, told=told))
    except AgentInfraError as error:
        if error.code not in driving.MENDABLE:
            raise
        desk.notes.stop = None
        return error
    _close(desk, task, receipt)
    desk.notes.stop = None
    return None


def _hand_in(desk: Desk, task: str, receipt: Receipt) -> None:
    """Fetch what a sandboxed child could not put into its place, and commit for it."""
    if not outbox.is_used(receipt):
        return
    spawn = desk.noted(receipt)
    spawn.documents = outbox.take_in(desk.context, desk.place(task), receipt, spawn.documents)
    if receipt.stage != Stage.COMMIT:
        return
    message = outbox.message_in(receipt, desk.context.repo.worktree)
    state = require(desk.state(task), task)
    if message is not None and state.run.commit_authorization.commit is None:
        commits.commit(desk.context, task, message=message)


def _close(desk: Desk, task: str, receipt: Receipt) -> None:
    """Seal and advance, as far as that is still to be done; a seal that finds a fault pauses the run."""
    now = require(desk.state(task), task).pending
    if now and now.id == receipt.id and now.status == ReceiptStatus.STAGE_COMPLETED and now.child_id:
        agent = driving.agent_of(receipt.step)
        delegate.seal(desk.context, task, delegate.Stop(receipt.client, agent, now.child_id))
    state = require(desk.state(task), task)
    is_sealed = state.pending and state.pending.id == receipt.id and state.pending.status == ReceiptStatus.SEALED
    if is_sealed and state.run.status == RunStatus.RUNNING:
        orchestrate.advance(desk.context, task)


def finish_what_was_left(desk: Desk) -> None:
    """Take in a stop that was seen by a hook which did not get to its end.

    Side effects:
        As for `child_stopped`; a faulty result leaves the outcome unknown, since the child can't be asked any more.
    """
    for task, state in desk.runs():
        receipt, stop = state.pending, desk.notes.stop
        if receipt is None or state.run.status != RunStatus.RUNNING:
            continue
        if receipt.status == ReceiptStatus.SEALED and receipt.origin == Origin.HOOK:
            _close(desk, task, receipt)
        elif stop and stop.receipt == receipt.id and _take(desk, task, receipt, Told()) is not None:
            give_up(desk, task, receipt)
    if desk.notes.stop and not any(s.pending and s.pending.id == desk.notes.stop.receipt for _, s in desk.runs()):
        desk.notes.stop = None
