"""`abandon`: the way out of a step that went wrong, and out of every pause."""

from dataclasses import replace
from typing import Any

from agent_infra.core.lifecycle import Stage, Step
from agent_infra.core.receipts import ReceiptStatus, Told, changes
from agent_infra.core.run import RUN, CommitAuthorization, Pause, RunStatus, State
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import restore
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.services.outcome import Outcome
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import require
from agent_infra.stores.workspace import TaskPlace

ABORTS_IN_A_ROW = 3
_NOTHING = Told()


def abandon(  # noqa: PLR0913 - what a person may want of it, and what a client said
    context: Context,
    ref: str,
    *,
    reason: str,
    restored: bool = False,
    keep: bool = False,
    told: Told = _NOTHING,
) -> Outcome:
    """End the pending receipt as aborted and make the run recoverable; nothing pending is no error.

    Args:
        restored: put back every product file that differs from the receipt's fingerprint before the step.
        keep: name the present state of the workspace in the receipt, so that nobody's work is lost with it;
            `restored` does so too.
        told: what the client says of the child; its tokens were spent all the same.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING; ORCHESTRATION_WORKTREE_MISMATCH where files can't be put back.

    Side effects:
        Journal, view, evidence; with `restored` files of the worktree, after a snapshot of the present state.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    kept = context.snapshot(place, state) if (restored or keep) and state.pending else None
    notes = _put_back(context, state, kept) if restored and kept else ()

    def decide(state: State | None) -> Event | None:
        state = require(state, place.task_id)
        event = Event("abandon", run=_patch(context, state), memo={"faulty": None}, facts={"reason": reason})
        changed = state.pending is not None or event.run or state.memo.faulty
        if not changed:
            return None
        event = records.with_abort(state, event, reason=reason, now=context.now())
        if state.pending and event.receipt:
            event = replace(event, receipt={**event.receipt, **changes(state.pending, told.added_to(state.pending))})
        return replace(event, receipt={**event.receipt, "afterFingerprint": kept}) if event.receipt and kept else event

    after, changed = context.change(place, decide)
    return records.settled(context, place, after, changed=changed, notes=notes)


def _patch(context: Context, state: State) -> dict[str, Any]:
    """What abandoning changes in the run itself."""
    run = state.run
    patch: dict[str, Any] = {}
    if run.pause and run.status == RunStatus.PAUSED and not run.pause.recoverable:
        pause = Pause(code=run.pause.code, message=run.pause.message, recoverable=True)
        patch["pause"] = pause.to_json()
    if state.pending and state.pending.stage == Stage.COMMIT:
        if run.commit_authorization.commit is None:
            patch["commitAuthorization"] = CommitAuthorization().to_json()
        else:
            # the commit is history: the step counts as done, though nobody sealed it
            used = run.commit_authorization.evolve(consumed_at=context.now())
            patch |= {"commitAuthorization": used.to_json(), "status": RUN.follow(run.status, "end"), "pause": None}
    return patch


def _put_back(context: Context, state: State, kept: str) -> tuple[str, ...]:
    """Make the product files as they were before the step; says how to come back."""
    receipt = state.pending
    here = context.here
    if receipt is None:
        return ()
    if state.run.worktree != here:
        message = f"the run belongs to worktree {state.run.worktree}, this is {here}; call from there to put files back"
        raise RefusedError(ErrorCode.ORCHESTRATION_WORKTREE_MISMATCH, message)
    objects = context.objects
    present = objects.product(kept)
    wanted = objects.product(receipt.before_fingerprint)
    paths = restore.restore(context.repo, objects, wanted=wanted, present=present)
    notes = [f"put back: {path}" for path in paths]
    if paths:
        notes.append(f"the state before was {present}; `{restore.way_back(objects, present, paths)}` brings it back")
    head = context.repo.head().oid
    if head != receipt.head_before:
        notes.append(
            f"HEAD moved during the step and stays at {head}; before the step it was {receipt.head_before} "
            "(a person undoes that commit with `git reset`)"
        )
    return tuple(notes)


def aborted_in_a_row(state: State, artifact: str) -> int:
    """How many of the last receipts for an artifact were aborted, counted back from the newest of the run.

    A person who resumes a run that was given up forgives what was counted until then.
    """
    count = 0
    for receipt in reversed(state.run.receipts[state.memo.forgiven :]):
        if receipt.artifact != artifact or receipt.status != ReceiptStatus.ABORTED:
            break
        count += 1
    return count


def give_up(context: Context, place: TaskPlace, step: Step) -> Outcome:
    """Pause the run of a step that several children in a row left undone.

    Side effects:
        Journal and view.
    """
    message = f"{ABORTS_IN_A_ROW} children in a row left no {step.artifact} that could be taken"
    return records.pause_for(context, place, "drive", RefusedError(ErrorCode.DELEGATION_NO_RESULT, message))
