"""What the verbs share: the pending receipt, which refusals pause a run, what is renewed after a change."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_infra.core import receipts
from agent_infra.core.facts import Situation
from agent_infra.core.lifecycle import PHASES, Role, Stage
from agent_infra.core.receipts import Receipt, ReceiptStatus
from agent_infra.core.reviews import Verdict
from agent_infra.core.run import RUN, Pause, RunStatus, State
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.git import evidence
from agent_infra.git.repo import discover, display_path
from agent_infra.services import outbox
from agent_infra.services.context import Context
from agent_infra.services.outcome import Outcome
from agent_infra.stores.artifacts import read_all
from agent_infra.stores.atomic import write_atomic
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import render_view, require, write_active
from agent_infra.stores.workspace import TaskPlace

ACTIVATION_WAIT = 60.0  # seconds after which a prepared receipt that nobody activated is reported

# Which refusals of a verb make the run wait for a person; all others fail and leave it as it is.
PAUSES: dict[str, frozenset[ErrorCode]] = {
    "prepare": frozenset({ErrorCode.ORCHESTRATION_MAX_STEPS}),
    "activate": frozenset(
        {
            ErrorCode.DELEGATION_STATE_INVALID,
            ErrorCode.DELEGATION_ROLE_MISMATCH,
            ErrorCode.DELEGATION_IDENTITY_INVALID,
            ErrorCode.DELEGATION_IDENTITY_REUSED,
            ErrorCode.DELEGATION_FORK_FORBIDDEN,
            ErrorCode.DELEGATION_MODEL_FALLBACK_UNRECORDED,
        }
    ),
    "complete": frozenset({ErrorCode.DELEGATION_STATE_INVALID}),
    "seal": frozenset(
        {
            ErrorCode.ORCHESTRATION_SNAPSHOT_FAILED,
            ErrorCode.DELEGATION_ROLE_MISMATCH,
            ErrorCode.DELEGATION_STOP_INVALID,
            ErrorCode.DELEGATION_HEAD_MOVED,
            ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN,
            ErrorCode.DELEGATION_CONTROL_CHANGED,
        }
    ),
    "advance": frozenset({ErrorCode.DELEGATION_STATE_INVALID, ErrorCode.DELEGATION_REPLAY}),
    "drive": frozenset({ErrorCode.DELEGATION_NO_RESULT}),
}

# After these the pending receipt is still good, so `begin` may resume with it.
_BLAMELESS = frozenset({"prepare", "advance", "drive"})


def pending(state: State) -> Receipt:
    """The receipt in flight of a run that is not paused.

    Raises:
        RefusedError: ORCHESTRATION_RUN_PAUSED, or ORCHESTRATION_DELEGATION_MISSING.
    """
    if state.run.status == RunStatus.PAUSED:
        RUN.follow(state.run.status, "work")
    if state.pending is None:
        task_id = state.run.task_id
        message = f"no step of {task_id} is pending; `agent-infra orchestrate prepare {task_id}` opens one"
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_MISSING, message)
    return state.pending


def pause_for(
    context: Context, place: TaskPlace, verb: str, error: AgentInfraError, *, outcome: str | None = None
) -> Outcome:
    """Pause the run for a refusal that the table says pauses it; raise any other.

    Args:
        outcome: how the child ended, where that is why.

    Side effects:
        Journal and view.
    """
    if error.code not in PAUSES[verb]:
        raise error

    def decide(state: State | None) -> Event | None:
        state = require(state, place.task_id)
        if state.run.status != RunStatus.RUNNING:
            raise error
        pause = Pause(code=str(error.code), message=error.message, recoverable=True)
        faulty = state.pending.id if state.pending and verb not in _BLAMELESS else None
        return Event(
            "pause",
            run={"status": RUN.follow(state.run.status, "pause"), "pause": pause.to_json()},
            receipt={"outcome": outcome} if outcome and state.pending else None,
            memo={"faulty": faulty},
            facts={"verb": verb},
        )

    state, changed = context.change(place, decide)
    run = require(state, place.task_id).run
    return Outcome(run.status, changed, place.task_id, run, notes=error.notes)


def set_aside(context: Context, place: TaskPlace, name: str, data: bytes) -> Path:
    """Keep an odd or left-over file of a task where nothing reads it.

    Side effects:
        A file in the common dir's `logs/`; the one in the task folder is the caller's business.
    """
    stamp = context.now().replace(":", "").replace(".", "")
    path = context.runs.folder / "logs" / f"{place.task_id}-{stamp}-{name}"
    write_atomic(path, data)
    return path


def with_abort(state: State, event: Event, *, reason: str, now: str) -> Event:
    """The event, which also aborts the pending receipt where there is one."""
    if state.pending is None:
        return event
    aborted = receipts.abort(state.pending, reason=reason, now=now)
    memo: dict[str, Any] = {**(event.memo or {}), "control": {}, "faulty": None}
    run = {**(event.run or {}), "nextStage": None}
    return replace(event, run=run, receipt=receipts.changes(state.pending, aborted), close=True, memo=memo)


def settled(
    context: Context, place: TaskPlace, state: State | None, *, changed: bool, notes: tuple[str, ...] = ()
) -> Outcome:
    """The answer after a step ended, with evidence and active step renewed."""
    state = require(state, place.task_id)
    show_active(context, place, state)
    if changed:
        notes += write_evidence(context, place, state)
        if not state.run.guards:
            prune(context)
    return Outcome(state.run.status, changed, place.task_id, state.run, notes=notes)


def write_evidence(context: Context, place: TaskPlace, state: State) -> tuple[str, ...]:
    """Commit journal, view and documents to the evidence ref; a fault is a note, since the journal can rebuild it.

    Side effects:
        Objects and one ref in the repository.
    """
    try:
        documents = dict(read_all(place)) if place.folder.is_dir() else {}
        documents["journal.jsonl"] = context.runs.journal(place.task_id).path.read_bytes()
        documents["orchestration.json"] = render_view(state.run)
        message = f"{place.task_id}: journal line {state.seq}\n"
        evidence.write(context.repo, place.task_id, documents, message=message, when=state.run.updated_at)
    except (AgentInfraError, OSError) as error:
        return (f"the evidence was not written ({error}); `agent-infra orchestrate repair {place.task_id}` writes it",)
    return ()


def show_active(context: Context, place: TaskPlace, state: State | None) -> None:
    """Renew what the hooks of the run's worktree look at first; the step happened whether this can be shown or not.

    Side effects:
        `agent-infra/active.json` in the git dir of the run's worktree.
    """
    if state is not None:
        with suppress(AgentInfraError):
            _show_active(context, place, state)


def _show_active(context: Context, place: TaskPlace, state: State) -> None:
    git_dir = context.repo.git_dir
    if state.run.worktree != context.here:
        worktree = Path(state.run.worktree)
        if not worktree.is_dir():
            return
        git_dir = discover(worktree).git_dir
    allowed = tuple(display_path(os.fsencode(path)) for path in _allowed(place, state))
    write_active(git_dir, place.task_id, state, allowed)


def _allowed(place: TaskPlace, state: State) -> tuple[Path, ...]:
    """What a reviewer's tools may write; where it hands in through its outbox, that too."""
    receipt = state.pending
    if receipt is None or receipt.role != Role.REVIEWER:
        return ()
    paths = (place.folder / receipt.artifact, place.document)
    if not outbox.is_used(receipt):
        return paths
    folder = outbox.folder_of(state.run.worktree, place.task_id)
    return (folder / receipt.artifact, folder / outbox.DOCUMENT, *paths)


def waiting_notes(state: State, now: str) -> tuple[str, ...]:
    """What somebody should know about the pending receipt; nothing is decided by a clock."""
    receipt = state.pending
    if receipt is None or receipt.status != ReceiptStatus.PREPARED:
        return ()
    waited = (datetime.fromisoformat(now) - datetime.fromisoformat(receipt.created_at)).total_seconds()
    if waited < ACTIVATION_WAIT:
        return ()
    task = state.run.task_id
    return (
        f"{receipt.artifact} was prepared {waited:.0f} s ago and no child started; start one, "
        f"or `agent-infra orchestrate abandon {task} --reason …`",
    )


def moved_notes(context: Context, situation: Situation, product: Callable[[], str]) -> tuple[str, ...]:
    """Which approvals do not count any more, and which path moved them."""
    notes: list[str] = []
    state = situation.state
    for phase in PHASES if state else ():
        artifact, review = situation.newest(phase), situation.newest(f"review-{phase}")
        receipt = state.newest_receipt(review.name) if state and review else None
        if not (state and artifact and review and receipt) or receipt.status != ReceiptStatus.CONSUMED:
            continue
        if state.memo.verdicts.get(review.name) != Verdict.APPROVED:
            continue
        judged = receipt.inputs[0]
        if judged.name == artifact.name and judged.sha256 != artifact.sha256:
            notes.append(f"{review.name} is stale: {artifact.name} changed after it was judged")
        elif receipt.stage == Stage.REVIEW_CODE and receipt.input_tree and receipt.input_tree != product():
            paths = [change.name for change in context.objects.diff(receipt.input_tree, product())]
            notes.append(f"{review.name} is stale: {', '.join(paths[:8])} changed after it was judged")
    return tuple(notes)


def tree_of(context: Context, commit: str | None) -> str:
    """The tree of a commit; the empty tree of an unborn branch."""
    if commit is None:
        return context.objects.compose(None, ())
    return context.repo.text("rev-parse", "--verify", f"{commit}^{{tree}}")


def prune(context: Context) -> None:
    """Drop the snapshots of runs that are over.

    Side effects:
        Our own object store; never the user's.
    """
    live: set[str] = set()
    for guard in context.runs.guards():
        try:
            state = context.runs.seen(guard.task_id)
        except AgentInfraError:
            return  # a journal that can't be read may need anything
        if state:
            live |= _trees(state)
    context.objects.prune(live)


def _trees(state: State) -> set[str]:
    run = state.run
    found = {run.baseline.tree, run.commit_authorization.tree, state.memo.begun_tree}
    for receipt in [*run.receipts, *([run.pending_delegation] if run.pending_delegation else [])]:
        found |= {receipt.before_fingerprint, receipt.after_fingerprint, receipt.input_tree}
        found |= {receipt.head_before, receipt.head_after}
    return {oid for oid in found if oid}
