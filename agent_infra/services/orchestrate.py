"""The verbs that move a run as a whole: begin, route, status, advance, pause, end, reopen."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from agent_infra.core import ledger as ledgers
from agent_infra.core import receipts
from agent_infra.core.facts import Situation, counted, gather, remembered
from agent_infra.core.flows import check_beginning
from agent_infra.core.lifecycle import STAGES_OF_FLOW, Flow, Stage, Step, left_out
from agent_infra.core.receipts import ReceiptStatus
from agent_infra.core.routing import Route, route
from agent_infra.core.rulings import said
from agent_infra.core.run import RUN, Baseline, CommitAuthorization, Ended, Memo, Pause, Run, RunStatus, State
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.git.repo import Head
from agent_infra.services import records
from agent_infra.services.context import Context, check_task
from agent_infra.services.guard import authorize
from agent_infra.services.outcome import Outcome, failed
from agent_infra.services.setup.mending import mend_hooks
from agent_infra.stores.artifacts import digests, read_task
from agent_infra.stores.journal import GENESIS, Event
from agent_infra.stores.runs import require
from agent_infra.stores.workspace import TaskPlace


@dataclass
class Present:
    """A task as it lies there now; the snapshot is taken at most once, and only when somebody asks."""

    context: Context
    place: TaskPlace
    state: State | None

    @cached_property
    def fingerprint(self) -> str:
        """The tree of the whole workspace."""
        return self.context.snapshot(self.place, self.state)

    @cached_property
    def product(self) -> str:
        """The same without `.agents/workspace/`."""
        return self.context.objects.product(self.fingerprint)

    @cached_property
    def situation(self) -> Situation:
        """What lies in the task folder."""
        return self.context.situation(self.place, self.state, lambda: self.product)

    def route(self) -> Route:
        """The step that may run next; a step under way is answered as it is."""
        if self.state and self.state.pending:
            return Route(self.state.pending.step)
        return route(gather(self.situation))


@dataclass(frozen=True)
class Beginning:
    """How a person wants a run to begin."""

    max_steps: int | None = None
    flow: Flow | None = None
    from_head: bool = False
    adopt_reviews: bool = False


def begin(context: Context, ref: str, wish: Beginning) -> Outcome:
    """Begin the run of a task, or resume it.

    Raises:
        RefusedError: what a task, its documents, the config or the snapshot are refused for.

    Side effects:
        Journal, view and guard; a snapshot.
    """
    place = context.active(ref)
    state = context.load(place)
    anew = state is None or state.run.ended
    outcome = _begin_anew(context, place, state, wish) if anew else _resume(context, place, wish)
    mended = mend_hooks(context, place)
    return replace(outcome, notes=(*outcome.notes, *mended)) if mended else outcome


def _begin_anew(context: Context, place: TaskPlace, before: State | None, wish: Beginning) -> Outcome:
    event = _beginning(context, place, wish)
    flow = Flow((event.run or {})["flow"])
    less = check_beginning(flow, context.config.flow, task_id=place.task_id)

    def decide(state: State | None) -> Event | None:
        same = (state.seq if state else 0) == (before.seq if before else 0)
        return event if same else None

    state, changed = context.change(place, decide)
    records.show_active(context, place, state)
    run = require(state, place.task_id).run
    notes = less + _unguarded(context) + _neighbours(context, place.task_id, run.branch)
    return Outcome(run.status, changed, place.task_id, run, notes=notes)


def _beginning(context: Context, place: TaskPlace, wish: Beginning) -> Event:
    """The line that begins a run: what was asked for, and what lies there now."""
    task = read_task(place)
    document = check_task(task, place.task_id)
    ledger = ledgers.parse_ledger(task)
    found = digests(place)
    begun_tree = context.objects.product(context.snapshot(place, None))
    head = context.repo.head()
    _check_branch(head)
    tree = context.objects.product(records.tree_of(context, head.oid)) if wish.from_head else begun_tree
    run = Run(
        task_id=place.task_id,
        run_id=context.new_id(),
        status=RunStatus.RUNNING.value,
        flow=(wish.flow or _flow_of(document.fields)).value,
        max_steps=wish.max_steps or context.config.run.max_steps,
        baseline=Baseline(head=head.oid, tree=tree),
        worktree=context.here,
        branch=head.branch,
        created_at=context.now(),
        updated_at=context.now(),
        journal_head=GENESIS,
    )
    memo = Memo(
        found=found,
        adopt_reviews=wish.adopt_reviews,
        begun_tree=begun_tree,
        ledger=remembered(ledger.rows),
        ledger_present=ledger.present,
        config=context.config.model_dump(mode="json"),
        config_digest=hashlib.sha256(context.config_text().encode()).hexdigest(),
    )
    derived = ("pendingDelegation", "receipts", "journalHead", "updatedAt")
    shown = {key: value for key, value in run.to_json().items() if key not in derived}
    return Event("begin", run=shown, memo=memo.to_json())


def _check_branch(head: Head) -> None:
    """The guarded branch is compared by its name, which must be what records can hold."""
    if head.ref is not None and head.ref != f"refs/heads/{head.branch}":
        message = f"the branch {head.branch} has a name that is not UTF-8, and records are; rename it: `git branch -m`"
        raise RefusedError(ErrorCode.ORCHESTRATION_BRANCH_MISMATCH, message)


def _flow_of(fields: Mapping[str, str]) -> Flow:
    """The flow that task.md asks for, full without a word."""
    wanted = fields.get("flow", "")
    return Flow(wanted) if wanted in set(Flow) else Flow.FULL


def _unguarded(context: Context) -> tuple[str, ...]:
    """A warning where git will not ask us, said at the start and not only before the commit."""
    try:
        authorize.check_hooks(context)
    except AgentInfraError as error:
        return (f"nothing guards the branch yet: {error.message}",)
    return ()


def _neighbours(context: Context, task_id: str, branch: str | None) -> tuple[str, ...]:
    """Warnings about other runs that guard the same branch or worktree."""
    others = [guard for guard in context.runs.guards() if guard.task_id != task_id]
    same = [g.task_id for g in others if g.branch == branch or g.worktree == context.here]
    if not same:
        return ()
    return (
        f"{', '.join(same)} also guards branch {branch} or this worktree: one of the runs must authorize a commit; "
        "for a run of its own use another worktree: `git worktree add ../elsewhere -b <branch>`, then begin there",
    )


def _resume(context: Context, place: TaskPlace, wish: Beginning) -> Outcome:
    notes: list[str] = []
    if wish.flow or wish.from_head or wish.adopt_reviews:
        notes.append("the run has begun already: --flow, --from-head and --adopt-reviews count at its beginning alone")

    def decide(state: State | None) -> Event | None:
        run = require(state, place.task_id).run
        patch: dict[str, Any] = {}
        memo: dict[str, Any] = {}
        if wish.max_steps and wish.max_steps > run.max_steps and run.guards:
            patch["maxSteps"] = wish.max_steps
        if run.status == RunStatus.PAUSED and run.pause:
            why = _stays_paused(require(state, place.task_id), run.pause)
            notes.extend([why] if why else [])
            if why is None:
                patch |= {"status": RUN.follow(run.status, "resume"), "pause": None}
                if run.pause.code == ErrorCode.DELEGATION_NO_RESULT:
                    memo = {"forgiven": len(run.receipts)}  # else the next child would be given up unseen
        return Event("resume" if "status" in patch else "limit", run=patch, memo=memo) if patch else None

    state, changed = context.change(place, decide)
    run = require(state, place.task_id).run
    return Outcome(run.status, changed, place.task_id, run, notes=tuple(notes))


def _stays_paused(state: State, pause: Pause) -> str | None:
    """Why `begin` does not end this pause, and what does."""
    helps = f"`agent-infra orchestrate abandon {state.run.task_id} --reason …` makes the run recoverable"
    if not pause.recoverable:
        return f"the pause {pause.code} is final; {helps}"
    if state.pending and state.memo.faulty == state.pending.id:
        return f"the pause {pause.code} is the fault of the pending receipt of {state.pending.artifact}; {helps}"
    return None


def route_task(context: Context, ref: str) -> Outcome:
    """The next step of a task, or why there is none; changes nothing."""
    place = context.active(ref)
    state = context.load(place)
    if state and state.run.status == RunStatus.COMPLETED:
        return Outcome(state.run.status, task_id=place.task_id, run=state.run)
    answer = Present(context, place, state).route()
    run = state.run if state else None
    if answer.fault:
        return failed(answer.fault, task_id=place.task_id, run=run, step=answer.step)
    return Outcome(run.status if run else RunStatus.RUNNING.value, task_id=place.task_id, run=run, next=answer.step)


def status(context: Context, ref: str) -> Outcome:
    """Where a run stands; changes nothing.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    notes = records.waiting_notes(state, context.now()) + said(state) + _sparing(state)
    step: Step | None = None
    if state.run.status != RunStatus.COMPLETED:
        present = Present(context, place, state)
        try:
            answer = present.route()
            step = answer.step
            notes += (answer.fault.message,) if answer.fault else ()
            notes += records.moved_notes(context, present.situation, lambda: present.product)
        except AgentInfraError as error:
            # the run can be shown though its documents can't be read
            notes += (f"{error.code}: {error.message}",)
    return Outcome(state.run.status, task_id=place.task_id, run=state.run, next=step, notes=notes)


def _sparing(state: State) -> tuple[str, ...]:
    """What the flow of a run leaves out, for whoever relies on what was reviewed."""
    words = left_out(Flow(state.run.flow))
    return (f"the {state.run.flow} flow leaves out {words}",) if words else ()


def advance(context: Context, ref: str) -> Outcome:
    """Let the sealed receipt count and open the next step.

    Side effects:
        Journal, view, evidence; a snapshot, to record drift. The commit stage completes the run.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    drift = _drift(context, place, state)

    def decide(state: State | None) -> Event | None:
        state = require(state, place.task_id)
        receipt = records.pending(state)
        consumed = receipts.consume(receipt, now=context.now())
        patch: dict[str, Any] = {"nextStage": None, "stepCount": state.run.step_count + 1, "pause": None}
        if receipt.stage == Stage.COMMIT:
            patch["status"] = RUN.follow(state.run.status, "finish")
            used = state.run.commit_authorization.evolve(consumed_at=consumed.consumed_at)
            patch["commitAuthorization"] = used.to_json()
        return Event(
            "advance",
            run=patch,
            receipt=receipts.changes(receipt, consumed),
            close=True,
            memo={"control": {}, "ledger": counted(receipt, state.memo.ledger)},
            facts={"drift": drift} if drift else None,
        )

    try:
        after, changed = context.change(place, decide)
    except RefusedError as error:
        return records.pause_for(context, place, "advance", error)
    return records.settled(context, place, after, changed=changed, notes=tuple(f"drift: {path}" for path in drift))


def _drift(context: Context, place: TaskPlace, state: State) -> list[str]:
    """Product paths that are no longer as they were sealed: nobody's work, but on record."""
    sealed = state.pending
    if sealed is None or sealed.status != ReceiptStatus.SEALED or sealed.after_fingerprint is None:
        return []
    objects = context.objects
    now = objects.product(context.snapshot(place, state))
    return [change.name for change in objects.diff(objects.product(sealed.after_fingerprint), now)]


def pause(context: Context, ref: str, *, code: str, message: str, recoverable: bool) -> Outcome:
    """Make a run wait for a person; a paused run waits for the new reason, and a final pause stays final.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING or _RUN_COMPLETED.
    """
    place = context.active(ref)

    def decide(state: State | None) -> Event | None:
        run = require(state, place.task_id).run
        standing = run.pause if run.status == RunStatus.PAUSED else None
        can_resume = recoverable and (standing is None or standing.recoverable)
        wanted = Pause(code=code, message=message, recoverable=can_resume)
        if standing == wanted:
            return None
        status = run.status if standing else RUN.follow(run.status, "pause")
        return Event("pause", run={"status": status, "pause": wanted.to_json()})

    state, changed = context.change(place, decide)
    run = require(state, place.task_id).run
    return Outcome(run.status, changed, place.task_id, run)


def end(context: Context, ref: str, *, reason: str) -> Outcome:
    """Give a run up: the guard is lifted, the journal kept, the next `begin` starts a new run.

    Side effects:
        Journal, view, evidence; a pending receipt becomes aborted; snapshots of ended runs are pruned.
    """
    place = context.resolve(ref)

    def decide(state: State | None) -> Event | None:
        state = require(state, place.task_id)
        if state.run.ended:
            return None
        patch: dict[str, Any] = {
            "status": RUN.follow(state.run.status, "end"),
            "ended": Ended(at=context.now(), reason=reason).to_json(),
            "nextStage": None,
        }
        if state.run.guards and state.run.commit_authorization.commit is None:
            patch["commitAuthorization"] = CommitAuthorization().to_json()
        return records.with_abort(state, Event("end", run=patch), reason=f"run ended: {reason}", now=context.now())

    state, changed = context.change(place, decide)
    return records.settled(context, place, state, changed=changed)


def reopen(context: Context, ref: str, *, stage: Stage, reason: str) -> Outcome:
    """Ask for a new round of an approved stage; what depends on it becomes stale; a completed run runs again.

    Raises:
        RefusedError: ORCHESTRATION_REOPEN_INVALID where the stage has nothing to reopen or a step is pending.
    """
    place = context.active(ref)

    def decide(state: State | None) -> Event | None:
        state = require(state, place.task_id)
        round_ = _reopened_round(context, place, state, stage)
        patch: dict[str, Any] = {"worktree": state.run.worktree, "branch": state.run.branch}
        if state.run.status == RunStatus.COMPLETED:
            patch |= {
                "status": RUN.follow(state.run.status, "reopen"),
                "commitAuthorization": CommitAuthorization().to_json(),
            }
        return Event("reopen", run=patch, memo={"reopened": {str(stage): round_}}, facts={"reason": reason})

    state, changed = context.change(place, decide)
    records.show_active(context, place, state)
    run = require(state, place.task_id).run
    answer = Present(context, place, state).route()
    return Outcome(run.status, changed, place.task_id, run, answer.step)


def _reopened_round(context: Context, place: TaskPlace, state: State, stage: Stage) -> int:
    """The newest round of the stage, which is not enough any more."""
    flow = Flow(state.run.flow)
    if state.run.ended:
        raise _reopen_invalid(f"the run was ended; `agent-infra orchestrate begin {place.task_id}` starts a new one")
    if state.pending:
        raise _reopen_invalid(f"the step {state.pending.artifact} is pending; `abandon` or finish it first")
    if stage is Stage.COMMIT or stage not in STAGES_OF_FLOW[flow]:
        raise _reopen_invalid(f"{stage} can't be reopened in the {flow} flow")
    newest = context.situation(place, state, lambda: "").newest(stage)
    if newest is None:
        raise _reopen_invalid(f"{stage} has no round yet")
    return newest.artifact.round


def _reopen_invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.ORCHESTRATION_REOPEN_INVALID, message)
