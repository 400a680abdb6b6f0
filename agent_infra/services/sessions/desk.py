"""What one event is worked on with: the repository, the event, the notes, and what is known of the processes around."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_infra.core import driving
from agent_infra.core.lifecycle import Step
from agent_infra.core.native import Event
from agent_infra.core.receipts import Origin, Outcome, Receipt, ReceiptStatus, Told
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import AgentInfraError
from agent_infra.services import delegate, orchestrate
from agent_infra.services.context import Context
from agent_infra.services.prepare import how_to_run, runs_here
from agent_infra.stores.sessions import FAILED, Notes, Process, SessionStore, Spawn
from agent_infra.stores.workspace import TaskPlace


@dataclass(frozen=True)
class Watch:
    """What is known from outside of our records.

    Attributes:
        client: the client's process.
        is_there: whether a process still runs.
        used: what the child of an event used, by its client's own account.
        changed_input: the input with which a spawn is let through; None leaves it as it is.
    """

    client: Callable[[], Process | None]
    is_there: Callable[[Process], bool]
    used: Callable[[Event], Told]
    changed_input: Callable[[Event], dict[str, Any] | None]


@dataclass(frozen=True)
class Desk:
    """One event at work; the notes are this event's alone until it is done."""

    context: Context
    event: Event
    notes: Notes
    store: SessionStore
    watch: Watch

    def runs(self) -> list[tuple[str, State]]:
        """The runs of this worktree that are not over."""
        return [(task, state) for task, state in runs_here(self.context) if state.run.guards]

    def state(self, task: str) -> State | None:
        """A run as its journal has it now."""
        return self.context.runs.seen(task)

    def place(self, task: str) -> TaskPlace:
        """Where a task lies."""
        return self.context.active(task)

    def is_only(self, task: str) -> bool:
        """Whether a spawn here needs no task's name."""
        return all(other == task or state.run.status != RunStatus.RUNNING for other, state in self.runs())

    def spawn_of(self, receipt: Receipt | None) -> Spawn | None:
        """What is noted about the start of a receipt's child."""
        noted = self.notes.spawn
        return noted if noted and receipt and noted.receipt == receipt.id else None

    def noted(self, receipt: Receipt) -> Spawn:
        """The same, made where nothing was noted."""
        spawn = self.spawn_of(receipt)
        if spawn is None:
            spawn = self.notes.spawn = Spawn(receipt.id, self.event.session, process=self.watch.client())
        return spawn

    def pending_child(self, child: str) -> tuple[str, Receipt] | None:
        """The task and receipt that a child of this client is at work on."""
        for task, state in self.runs():
            receipt = state.pending
            if receipt and receipt.child_id == child and receipt.client == self.event.client:
                return task, receipt
        return None


def lost(desk: Desk, receipt: Receipt) -> str:
    """Why a pending step will not be finished by whom it was given to, in words; empty while it may be."""
    if receipt.origin not in (Origin.HOOK, Origin.CLI):
        return ""
    spawn = desk.spawn_of(receipt)
    child = f"child {receipt.child_id}" if receipt.child_id else "the child"
    has_ended = receipt.outcome in (Outcome.UNKNOWN, Outcome.FAILURE) or (spawn and spawn.state == FAILED)
    if receipt.child_id and has_ended:
        return f"{child} of {driving.named(receipt.step)} ended without a result"
    if spawn and spawn.process and not desk.watch.is_there(spawn.process):
        return f"{child} of {driving.named(receipt.step)} can't end any more: its client is gone"
    return ""


def give_up(desk: Desk, task: str, receipt: Receipt) -> None:
    """Put on record that the child of a pending step ended, or never came, without a stop that we saw.

    Side effects:
        The notes; a journal line that says that its outcome is unknown.
    """
    desk.noted(receipt).state = FAILED
    if receipt.status == ReceiptStatus.ACTIVATED and receipt.child_id:
        stop = delegate.Stop(receipt.client, driving.agent_of(receipt.step), receipt.child_id)
        delegate.seal(desk.context, task, stop)


@dataclass(frozen=True)
class Standing:
    """Where a run stands, as the main agent is told.

    Attributes:
        is_open: the main agent can do something about it: spawn, or wait.
        is_awaited: a child is at work or about to start.
        step: what may be spawned now.
    """

    text: str
    is_open: bool = False
    is_awaited: bool = False
    step: Step | None = None


def standing(desk: Desk, task: str) -> Standing:
    """What the main agent of this session must know about a run."""
    state = desk.state(task)
    if state is None or state.run.status == RunStatus.COMPLETED:
        return Standing(driving.completed(task, state.run.commit_authorization.commit if state else None))
    if state.run.status == RunStatus.PAUSED and state.run.pause:
        pause = state.run.pause
        return Standing(driving.paused(task, pause.code, pause.message, way_on(task, state)))
    receipt = state.pending
    return _of_pending(desk, task, receipt) if receipt else _of_route(desk, task)


def way_on(task: str, state: State) -> str:
    """The command that ends a pause."""
    return how_to_run(task, state)


def _of_pending(desk: Desk, task: str, receipt: Receipt) -> Standing:
    spawn, only = desk.spawn_of(receipt), desk.is_only(task)
    if receipt.client != desk.event.client or receipt.origin in (Origin.DRIVER, Origin.HUMAN):
        return Standing(driving.elsewhere(task, receipt))
    if why := lost(desk, receipt):
        return Standing(driving.again(task, receipt.step, why, is_only_run=only), is_open=True, step=receipt.step)
    if receipt.status == ReceiptStatus.PREPARED and (spawn is None or spawn.state == FAILED):
        return Standing(driving.next_step(task, receipt.step, is_only_run=only), is_open=True, step=receipt.step)
    if spawn and spawn.session not in ("", desk.event.session):
        return Standing(driving.elsewhere(task, receipt))
    if spawn is None:
        return Standing(driving.unknown(task, receipt), is_open=True)
    return Standing(driving.wait(task, receipt), is_open=True, is_awaited=True)


def _of_route(desk: Desk, task: str) -> Standing:
    try:
        answer = orchestrate.route_task(desk.context, task)
    except AgentInfraError as error:
        return Standing(driving.stuck(task, error))
    if answer.error:
        return Standing(driving.stuck(task, answer.error))
    if answer.next is None:
        return Standing(driving.completed(task, None))
    text = driving.next_step(task, answer.next, is_only_run=desk.is_only(task))
    return Standing(text, is_open=True, step=answer.next)
