"""The main agent asks for a child: prepare its step, or say why not and what comes next."""

import re

from agent_infra.core import driving, native
from agent_infra.core.native import Answer
from agent_infra.core.receipts import Origin, Receipt, ReceiptStatus
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import AgentInfraError, ErrorCode
from agent_infra.services import abandon, outbox, prepare
from agent_infra.services.sessions.desk import Desk, give_up, lost, standing
from agent_infra.stores.runs import require
from agent_infra.stores.sessions import FAILED, RETURNED, Spawn

_NAMED = re.compile(r"\bTASK-[0-9]{8}-[0-9]{6}\b")
REFUSALS = 3  # of another spawn for a prepared step, before the first counts as failed


def spawn_asked(desk: Desk) -> Answer:
    """Let a fitting spawn through with its step prepared; any other is refused, and the next step named.

    Side effects:
        What `prepare` and `abandon` do; the notes.
    """
    found = _task_of(desk)
    if isinstance(found, Answer):
        return found
    task, state = found
    if desk.event.is_isolated:
        why = "the step must be done in the worktree of its run; spawn it again without `isolation`"
        return _refused(f"agent-infra: {why}.")
    desk.notes.drive(desk.event.session, task)
    if state.run.status == RunStatus.PAUSED:
        return _refused(standing(desk, task).text)
    receipt = state.pending
    if receipt is None:
        return _opened(desk, task)
    if why := lost(desk, receipt):
        if receipt.role != desk.event.role:
            return _refused(standing(desk, task).text)
        abandon.abandon(desk.context, task, reason=why)
        return _opened(desk, task)
    return _given(desk, task, receipt)


def _task_of(desk: Desk) -> tuple[str, State] | Answer:
    """The run that a spawn is for: the one that its prompt names, else the only one that runs here."""
    runs = dict(desk.runs())
    if not runs:
        return Answer()
    named = list(dict.fromkeys(_NAMED.findall(desk.event.prompt)))
    if named and not runs.keys() & set(named):
        return _refused(driving.not_here(named[0], tuple(runs)))
    named = [task for task in named if task in runs]
    running = [task for task, state in runs.items() if state.run.status == RunStatus.RUNNING]
    for fitting in (named, running, list(runs)):
        if len(fitting) == 1:
            return fitting[0], runs[fitting[0]]
        if fitting:
            break
    return _refused(driving.several(tuple(named or running or runs)))


def _given(desk: Desk, task: str, receipt: Receipt) -> Answer:
    """A step is pending: it may still be given to a child, or is given already."""
    event, spawn = desk.event, desk.spawn_of(receipt)
    is_ours = receipt.client == event.client and receipt.origin in (Origin.HOOK, Origin.CLI)
    if not is_ours or receipt.status != ReceiptStatus.PREPARED:
        return _refused(standing(desk, task).text)
    is_repeat = spawn and event.tool_use and (spawn.session, spawn.tool_use) == (event.session, event.tool_use)
    if spawn and not is_repeat and _may_start(desk, spawn):
        spawn.refused += 1
        return _refused(driving.wait(task, receipt))
    if receipt.role != event.role:
        return _refused(driving.next_step(task, receipt.step, is_only_run=desk.is_only(task)))
    return _let_through(desk, task, receipt)


def _may_start(desk: Desk, spawn: Spawn) -> bool:
    """Whether the child of an earlier spawn may still report its start."""
    if spawn.state == FAILED or spawn.refused >= REFUSALS:
        return False
    # Codex tells of every spawn that led to a child before the main agent can ask for another
    return not (desk.event.client == "codex" and spawn.session == desk.event.session and spawn.state != RETURNED)


def _opened(desk: Desk, task: str) -> Answer:
    """Prepare the next step if this agent is the one to do it."""
    now = standing(desk, task)
    if now.step is None or now.step.role != desk.event.role:
        return _refused(now.text)
    state = require(desk.state(task), task)
    if abandon.aborted_in_a_row(state, now.step.artifact) >= abandon.ABORTS_IN_A_ROW:
        abandon.give_up(desk.context, desk.place(task), now.step)
        return _refused(standing(desk, task).text)
    try:
        prepare.prepare(desk.context, task, _order(desk))
    except AgentInfraError as error:
        if error.code == ErrorCode.LOCK_TIMEOUT:
            raise
        return _refused(driving.stuck(task, error))
    receipt = require(desk.state(task), task).pending
    return _let_through(desk, task, receipt) if receipt else _refused(standing(desk, task).text)


def _order(desk: Desk) -> prepare.Order:
    event = desk.event
    asked = {"session": event.session, "toolUse": event.tool_use}
    return prepare.Order(event.client, evidence={name: value for name, value in asked.items() if value})


def _let_through(desk: Desk, task: str, receipt: Receipt) -> Answer:
    """The spawn goes ahead; its receipt is prepared."""
    event = desk.event
    spawn = Spawn(receipt.id, event.session, event.tool_use, process=desk.watch.client())
    desk.notes.spawn = spawn
    if outbox.is_used(receipt):
        spawn.documents = outbox.open_outbox(desk.context, desk.place(task), receipt)
    changed = desk.watch.changed_input(event)
    return Answer(native.ALLOW, tool_input=changed) if changed is not None else Answer()


def spawn_returned(desk: Desk) -> Answer:
    """The tool call is over; a child in the foreground has ended by now, any other is about to start."""
    found = _spawned(desk)
    if found:
        task, receipt = found
        spawn = desk.noted(receipt)
        spawn.state = RETURNED if spawn.state != FAILED else FAILED
        spawn.names = [*dict.fromkeys((*spawn.names, *desk.event.awaited))]
        if desk.event.is_over and receipt.child_id in (None, *desk.event.ended):
            give_up(desk, task, receipt)  # its stop would have closed the receipt
    return _told(desk)


def spawn_failed(desk: Desk) -> Answer:
    """The tool call failed: no child came of it, or the one that came is gone."""
    found = _spawned(desk)
    if found:
        give_up(desk, *found)
    return _told(desk)


def _spawned(desk: Desk) -> tuple[str, Receipt] | None:
    """The pending step that this tool call was let through for."""
    event = desk.event
    for task, state in desk.runs():
        spawn = desk.spawn_of(state.pending)
        if state.pending and spawn and (spawn.session, spawn.tool_use) == (event.session, event.tool_use):
            return task, state.pending
    return None


def _told(desk: Desk) -> Answer:
    driver = desk.notes.drivers.get(desk.event.session)
    return Answer(native.TELL, standing(desk, driver.task).text) if driver else Answer()


def _refused(text: str) -> Answer:
    return Answer(native.REFUSE, text)
