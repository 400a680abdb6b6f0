"""The driver: route, prepare, child, complete, seal, advance, until the task's run ends or pauses.

It holds a kernel lock of its own while it drives, so that whoever gets that lock later knows that the child of a
receipt which a driver opened is an orphan.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent_infra.core.clients import client as token_of
from agent_infra.core.driving import agent_of
from agent_infra.core.lifecycle import Role, Stage, Step
from agent_infra.core.receipts import Activation, Origin, Receipt, Told
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.runtime.children import Child, ChildOrder, ChildResult, HeadlessClient, end_orphan, start_time
from agent_infra.services import abandon as abandoning
from agent_infra.services import brief as briefs
from agent_infra.services import delegate, orchestrate, outbox
from agent_infra.services import prepare as preparing
from agent_infra.services.context import Context, run_config
from agent_infra.services.guard import commit as commits
from agent_infra.services.outcome import Outcome
from agent_infra.stores.atomic import locked, write_atomic
from agent_infra.stores.runs import require
from agent_infra.stores.workspace import TaskPlace

_POLL = 0.2  # seconds between looks at a child, so that Ctrl-C is heard
_INTRODUCTION = 30.0  # seconds in which a child that chooses its own name says it; later it gets one of ours
_REASON = 2_000  # characters of the reason why a child's work does not count; it may repeat what a program said
_NOTHING = Told()
_OVERTIME = 124  # exit code of a child that was ended because it took too long


@dataclass(frozen=True)
class Progress:
    """One thing that happened to a step, for a line on the screen.

    Attributes:
        seconds: how long the child has been at work, where nothing but that has happened.
    """

    step: Step | None
    what: str
    seconds: float | None = None


@dataclass(frozen=True)
class Driver:
    """Drives the steps of one task with one client.

    Attributes:
        report: hears what happens.
        reviewer: does the reviews, where that is another client.
        timeout: seconds that one child may take.
    """

    context: Context
    place: TaskPlace
    client: HeadlessClient
    report: Callable[[Progress], None]
    reviewer: HeadlessClient | None = None
    timeout: float = 3600.0

    def drive(self) -> Outcome:
        """Drive until the run is completed or paused, or a step is refused.

        Raises:
            RefusedError: LOCK_TIMEOUT while another driver drives the task; what the verbs refuse.

        Side effects:
            Child processes, and what the verbs write. After Ctrl-C the child is ended; the run can go on later.
        """
        lock = self.context.runs.folder / "drivers" / f"{self.place.task_id}.lock"
        with locked(lock, wait=0):
            self._check_clients()
            outcome = self._begin()
            if outcome.status == RunStatus.RUNNING:  # what paused the run is for a person to look at and put back
                self._reap_orphan()
            while outcome.status == RunStatus.RUNNING:
                outcome = self._step()
        return outcome

    def _check_clients(self) -> None:
        """Nothing is begun for clients that can't work."""
        state = self.context.load(self.place)
        if state and state.run.status == RunStatus.COMPLETED and not state.run.ended:
            return
        for client in (self.client, self.reviewer):
            if client:
                client.ready(self.context.repo.worktree)

    def _begin(self) -> Outcome:
        outcome = orchestrate.begin(self.context, self.place.task_id, orchestrate.Beginning())
        if outcome.changed:
            self.report(
                Progress(None, "the run begins" if outcome.run and not outcome.run.receipts else "the run goes on")
            )
        return outcome

    def _reap_orphan(self) -> None:
        """The lock is ours, so the child of a driver's receipt has no driver any more."""
        receipt = self._state().pending
        if receipt and receipt.origin == Origin.DRIVER:
            self._end_its_child()
            # it may have left half of its work: that state is kept with the receipt
            self._abort(receipt.step, "its driver is gone", keep=True)

    @property
    def _child_file(self) -> Path:
        """Which process the child is, for a driver that comes after a killed one."""
        return self.context.runs.folder / "drivers" / f"{self.place.task_id}.child"

    def _end_its_child(self) -> None:
        """A child that outlived its driver must not write into the next step."""
        try:
            known = json.loads(self._child_file.read_text(encoding="utf-8"))
            end_orphan(int(known["pid"]), known["started"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # it was killed before its child started

    def _step(self) -> Outcome:
        state = self._state()
        if state.pending:
            raise preparing.busy(self.place.task_id, state.pending)
        route = orchestrate.route_task(self.context, self.place.task_id)
        if route.next is None:
            if route.error:
                raise route.error
            return route
        attempt = 1 + abandoning.aborted_in_a_row(state, route.next.artifact)
        if attempt > abandoning.ABORTS_IN_A_ROW:
            return abandoning.give_up(self.context, self.place, route.next)
        client = self._client(route.next)
        client.check(route.next, attempt)
        wish = preparing.Order(client.id, headless=True, requested_model=client.model or None)
        prepared = preparing.prepare(self.context, self.place.task_id, wish)
        if prepared.status != RunStatus.RUNNING or prepared.run is None or prepared.run.pending_delegation is None:
            return prepared
        return self._work(prepared.run.pending_delegation, attempt)

    def _client(self, step: Step) -> HeadlessClient:
        return self.reviewer if self.reviewer and step.role == Role.REVIEWER else self.client

    def _work(self, receipt: Receipt, attempt: int) -> Outcome:
        """One child from start to the end of its step."""
        step, client = receipt.step, self._client(receipt.step)
        order = self._order(receipt, attempt)
        if order.child_id:
            # on record before it starts: a quick child must not find its step still waiting for it
            outcome = self._activate(receipt, order.child_id)
            if outcome.status != RunStatus.RUNNING:
                return outcome
        given = outbox.open_outbox(self.context, self.place, receipt) if outbox.is_used(receipt) else {}
        child = client.start(order)
        try:
            known = {"pid": child.pid, "started": start_time(child.pid)}
            write_atomic(self._child_file, json.dumps(known).encode())
            self.report(Progress(step, f"{step.role} at work ({client.id})"))
            name = order.child_id or self._introduced(step, child)
            if not order.child_id:
                outcome = self._activate(receipt, name)
                if outcome.status != RunStatus.RUNNING:
                    return outcome
            result = self._ended(step, child)
        finally:
            child.stop()
        if result.exit_code == 0 and outbox.is_used(receipt):
            self._take_in(receipt, given)
        return self._take(receipt, name, child, result)

    def _activate(self, receipt: Receipt, child_id: str) -> Outcome:
        started = Activation(receipt.client, agent_of(receipt.step), child_id, f"driver:{receipt.run_id}", "fresh")
        return delegate.activate(self.context, self.place.task_id, started)

    def _introduced(self, step: Step, child: Child) -> str:
        """The name by which a child calls itself, or one of ours if it says none."""
        deadline = time.monotonic() + min(_INTRODUCTION, self.timeout)
        while not child.child_id and time.monotonic() < deadline:
            try:
                child.wait(_POLL)
                break
            except TimeoutError:
                continue
        return child.child_id or f"{self._client(step).id}:{self.context.new_id()}"

    def _take_in(self, receipt: Receipt, given: dict[str, str]) -> None:
        """Fetch what a sandboxed child could not put into its place, and commit for it; what is missing shows later."""
        try:
            outbox.take_in(self.context, self.place, receipt, given)
            message = outbox.message_in(receipt, self.context.repo.worktree) if receipt.stage == Stage.COMMIT else None
            if message is not None:
                commits.commit(self.context, self.place.task_id, message=message)
        except AgentInfraError as error:
            self.report(Progress(receipt.step, f"what it handed in was not taken: {error.message} [{error.code}]"))

    def _ended(self, step: Step, child: Child) -> ChildResult:
        began = time.monotonic()
        while True:
            with suppress(TimeoutError):
                return child.wait(_POLL)
            spent = time.monotonic() - began
            self.report(Progress(step, child.doing, spent))
            if spent >= self.timeout:
                child.stop()
                return ChildResult(_OVERTIME, f"no end after {self.timeout:g} seconds, so it was ended")

    def _take(self, receipt: Receipt, name: str, child: Child, result: ChildResult) -> Outcome:
        """What a child left, or the end of its receipt."""
        step, client = receipt.step, self._client(receipt.step)
        said = child.told()
        told = replace(said, evidence={**said.evidence, "exitCode": str(result.exit_code)})
        if result.exit_code == 0:
            try:
                claim = delegate.Claim(token_of(client.id).token, told=told)
                delegate.complete(self.context, self.place.task_id, claim)
            except RefusedError as error:
                return self._abort(step, f"the result was not taken: {error.message} [{error.code}]", told=told)
        stop = delegate.Stop(client.id, agent_of(step), name, result.exit_code)
        sealed = delegate.seal(self.context, self.place.task_id, stop)
        if sealed.exit_code:
            words = result.stderr_tail.strip().splitlines()
            why = f"the child ended with {result.exit_code}: {words[-1] if words else 'no word'}"
            outcome = self._abort(step, why, told=told)
            if excuse := client.excuse(result):
                raise excuse
            return outcome
        if sealed.status != RunStatus.RUNNING:
            return sealed
        advanced = orchestrate.advance(self.context, self.place.task_id)
        self.report(Progress(step, self._verdict(step)))
        return advanced

    def _verdict(self, step: Step) -> str:
        verdict = self._state().memo.verdicts.get(step.artifact)
        return f"done: {verdict}" if verdict else "done"

    def _abort(self, step: Step, why: str, *, keep: bool = False, told: Told = _NOTHING) -> Outcome:
        self.report(Progress(step, why))
        return abandoning.abandon(self.context, self.place.task_id, reason=why[:_REASON], keep=keep, told=told)

    def _order(self, receipt: Receipt, attempt: int) -> ChildOrder:
        step, worktree = receipt.step, self.context.repo.worktree
        folder = outbox.folder_of(worktree, self.place.task_id) if outbox.is_used(receipt) else self.place.folder
        is_message = outbox.is_used(receipt) and step.stage == Stage.COMMIT
        logs = self.context.runs.folder / "logs" / self.place.task_id / "steps"
        return ChildOrder(
            task_id=self.place.task_id,
            step=step,
            worktree=worktree,
            task_dir=self.place.folder,
            artifact_path=outbox.expected(receipt, worktree) if is_message else folder / step.artifact,
            brief=briefs.brief_text(self.context, self.place, self._state()),
            attempt=attempt,
            child_id=self._client(step).identity(),
            log=logs / f"{step.stage}-r{step.round}-{receipt.id[:8]}.log",
            document=folder / outbox.DOCUMENT,
            aside=self.context.runs.folder / "drivers" / self.place.task_id,
        )

    def _state(self) -> State:
        return require(self.context.load(self.place), self.place.task_id)


def drive(
    context: Context,
    ref: str,
    client: HeadlessClient,
    report: Callable[[Progress], None],
    *,
    reviewer: HeadlessClient | None = None,
) -> Outcome:
    """Drive a task with a headless client; see `Driver.drive`."""
    driving = replace(context, origin=Origin.DRIVER)
    try:
        place = driving.active(ref)
        state = driving.load(place)
        timeout = (run_config(state) if state else driving.config).run.child_timeout
        return Driver(driving, place, client, report, reviewer, timeout).drive()
    except AgentInfraError as error:
        if error.code != ErrorCode.LOCK_TIMEOUT or "drivers" not in error.message:
            raise
        message = f"another driver drives {ref} right now; it goes on by itself"
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_BUSY, message) from error
