"""The session around the children: tell its main agent what comes next, keep it going, name what got lost."""

from agent_infra.core import driving, native
from agent_infra.core.native import Answer
from agent_infra.core.receipts import Origin, Receipt, ReceiptStatus
from agent_infra.core.run import RunStatus
from agent_infra.services.sessions.desk import Desk, Standing, give_up, lost, standing
from agent_infra.stores.sessions import ASKED, FAILED, Driver

BLOCKS = 3  # of a main agent that wants to stop, without a new line of the journal


def wait_asked(desk: Desk) -> Answer:
    """A wait for nothing would hang until its timeout: it is refused once, with what comes next."""
    driver = desk.notes.drivers.get(desk.event.session)
    if driver is None or not _is_about(desk, driver.task):
        return Answer()
    now = standing(desk, driver.task)
    state = desk.state(driver.task)
    line = state.run.journal_head if state else ""
    if now.is_awaited or driver.waited == line:
        return Answer()
    driver.waited = line
    return Answer(native.REFUSE, f"agent-infra: nothing to wait for. {now.text.removeprefix('agent-infra: ')}")


def _is_about(desk: Desk, task: str) -> bool:
    """Whether the children that are waited for are a run's; where the client names none, they may be."""
    state = desk.state(task)
    if not desk.event.awaited or state is None:
        return True
    pending = state.pending
    spawn = desk.spawn_of(pending)
    known = {pending.child_id} | set(spawn.names if spawn else ()) if pending else set()
    return any(child in known or state.knows_child(child) for child in desk.event.awaited)


def wait_returned(desk: Desk) -> Answer:
    """Children were waited for or looked at: one that ended by an error is noted, and the next step told."""
    driver = desk.notes.drivers.get(desk.event.session)
    if driver is None:
        return Answer()
    state = desk.state(driver.task)
    receipt = state.pending if state else None
    if receipt and receipt.origin == Origin.HOOK and _ended(desk, receipt):
        give_up(desk, driver.task, receipt)
    return _told(desk, driver.task)


def _ended(desk: Desk, receipt: Receipt) -> bool:
    spawn = desk.spawn_of(receipt)
    names = {receipt.child_id, *(spawn.names if spawn else ())}
    return any(child in names for child in desk.event.ended)


def prompt_submitted(desk: Desk) -> Answer:
    """The user said something, or a child in the background ended: where the run stands."""
    driver = desk.notes.drivers.get(desk.event.session)
    runs = desk.runs()
    if driver and (not runs or any(task == driver.task for task, _ in runs)):
        return _told(desk, driver.task)
    if len(runs) > 1:
        return Answer(native.TELL, driving.several(tuple(task for task, _ in runs)))
    for task, state in runs:
        if state.pending is None or state.pending.origin not in (Origin.DRIVER, Origin.HUMAN):
            return _told(desk, task)
    return Answer()


def session_stop(desk: Desk) -> Answer:
    """Keep a main agent going that drives a run which is not finished; not for ever."""
    driver = desk.notes.drivers.get(desk.event.session)
    state = desk.state(driver.task) if driver else None
    if driver is None or state is None or state.run.status != RunStatus.RUNNING:
        _forget_finished(desk)
        return Answer()
    if state.pending:
        _note_missing_child(desk, driver.task, state.pending)
    now = standing(desk, driver.task)
    if not now.is_open or _is_at_work(desk, now):
        return Answer()
    seq = (desk.state(driver.task) or state).seq
    if driver.seq != seq:
        driver.seq, driver.blocks = seq, 0
    if driver.blocks >= BLOCKS:
        return Answer()
    driver.blocks += 1
    why = f"agent-infra: the run of {driver.task} is not finished."
    return Answer(native.GO_ON, f"{why} {now.text.removeprefix('agent-infra: ')}")


def _note_missing_child(desk: Desk, task: str, receipt: Receipt) -> None:
    """When a main agent stops, a child that neither started nor is listed as at work is not there."""
    spawn, listed = desk.spawn_of(receipt), desk.event.at_work
    if receipt.origin != Origin.HOOK or spawn is None or spawn.session != desk.event.session:
        return
    if receipt.status == ReceiptStatus.PREPARED:
        if spawn.state == ASKED and not set(listed or ()) & set(native.MANAGED):
            spawn.state = FAILED
    elif listed is not None and receipt.child_id not in listed:
        give_up(desk, task, receipt)


def _is_at_work(desk: Desk, now: Standing) -> bool:
    """Whether the client itself will come back to the main agent when the child has ended."""
    return now.is_awaited and bool(set(desk.event.at_work or ()) & set(native.MANAGED))


def session_started(desk: Desk) -> Answer:
    """Name the children of earlier sessions that can't end any more, and the way out."""
    texts = []
    for task, state in desk.runs():
        why = lost(desk, state.pending) if state.pending and state.run.status == RunStatus.RUNNING else ""
        if state.pending and why:
            only = desk.is_only(task)
            texts.append(driving.again(task, state.pending.step, why, is_only_run=only) + _by_hand(task))
    return Answer(native.TELL, "\n".join(texts)) if texts else Answer()


def session_ended(desk: Desk) -> Answer:
    """With a session its children end; the one at work is named, and the next spawn takes its step up."""
    event = desk.event
    desk.notes.drivers.pop(event.session, None)
    for task, state in desk.runs():
        receipt, spawn = state.pending, desk.spawn_of(state.pending)
        if receipt and spawn and spawn.session == event.session and event.reason != "clear":
            spawn.state = FAILED
            why = lost(desk, receipt) or f"{driving.named(receipt.step)} of {task} is prepared, and its session ended"
            helps = "the next session goes on with it"
            return Answer(native.TELL, f"agent-infra: {why}; {helps}.{_by_hand(task)}")
    _forget_finished(desk)
    return Answer()


def _by_hand(task: str) -> str:
    return f" (By hand: `agent-infra orchestrate abandon {task}` with a --reason.)"


def _told(desk: Desk, task: str) -> Answer:
    """Where a run stands."""
    return Answer(native.TELL, standing(desk, task).text)


def _forget_finished(desk: Desk) -> None:
    """What is over needs no notes."""
    going = {task for task, _ in desk.runs()}
    for session, driver in list(desk.notes.drivers.items()):
        if driver.task not in going and _is_told(desk, session, driver):
            del desk.notes.drivers[session]
    if not going:
        desk.notes.spawn = desk.notes.stop = None


def _is_told(desk: Desk, session: str, driver: Driver) -> bool:
    state = desk.state(driver.task)
    return session == desk.event.session or state is None or bool(state.run.ended)
