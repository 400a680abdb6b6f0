"""What the child of the pending step is told, and the diff that a code reviewer judges, as a file."""

from pathlib import Path

from agent_infra.core.brief import Brief, BriefInput, render_brief
from agent_infra.core.ledger import parse_ledger
from agent_infra.core.lifecycle import Flow, Stage, Step
from agent_infra.core.receipts import Origin, Receipt
from agent_infra.core.run import State
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services import outbox
from agent_infra.services.context import Context, check_task
from agent_infra.services.guard.foresee import told
from agent_infra.services.outcome import Outcome
from agent_infra.services.shapes import artifact_template
from agent_infra.stores.artifacts import read_task
from agent_infra.stores.atomic import write_atomic
from agent_infra.stores.runs import require
from agent_infra.stores.workspace import TaskPlace


def brief(context: Context, ref: str) -> Outcome:
    """The brief of the pending step, under the key `brief`; no state changes.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING, or ORCHESTRATION_DELEGATION_MISSING where no step is pending.

    Side effects:
        The diff to judge is written as a file in the common dir, where it can be made anew at any time.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    text = brief_text(context, place, state)
    step = state.pending.step if state.pending else None
    return Outcome(state.run.status, task_id=place.task_id, run=state.run, next=step, extra={"brief": text})


def brief_text(context: Context, place: TaskPlace, state: State) -> str:
    """What a fresh child must know, at most 8,000 bytes."""
    receipt = state.pending
    if receipt is None:
        message = f"no step of {place.task_id} is pending, so there is nothing to tell; `orchestrate prepare` opens one"
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_MISSING, message)
    step = receipt.step
    hands_in = outbox.is_used(receipt)
    folder = outbox.folder_of(state.run.worktree, place.task_id) if hands_in else place.folder
    return render_brief(
        Brief(
            task_id=place.task_id,
            title=check_task(read_task(place), place.task_id).title,
            run_id=state.run.run_id,
            step=step,
            worktree=Path(state.run.worktree),
            task_dir=place.folder,
            artifact_path=folder / step.artifact,
            inputs=tuple(BriefInput(i.name, place.folder / i.name, i.sha256) for i in receipt.inputs),
            template_text=artifact_template(context, state, receipt),
            client=receipt.client,
            diff_file=_diff_file(context, place, state, receipt),
            diff_text=_diff(context, state, receipt).decode("utf-8", "replace"),
            findings=_findings(place, step),
            flow=Flow(state.run.flow),
            commit_paths=_commit_paths(context, state, step),
            notes=_notes(context, place, state, receipt),
            message_file=folder / outbox.MESSAGE_FILE if hands_in and step.stage is Stage.COMMIT else None,
            document=folder / outbox.DOCUMENT if hands_in else None,
            is_watched=receipt.origin in (Origin.HOOK, Origin.DRIVER),
        )
    )


def _notes(context: Context, place: TaskPlace, state: State, receipt: Receipt) -> tuple[str, ...]:
    """What was foreseen of the commit, and what a child must know of the plan's subtasks, in the stages of each."""
    if receipt.stage not in (Stage.REVIEW_PLAN, Stage.CODE, Stage.REVIEW_CODE):
        return ()
    foreseen = told(context, place.task_id, receipt.id) if receipt.stage == Stage.REVIEW_CODE else ()
    from agent_infra.services.subtasks.lifecycle import notes_for

    return (*foreseen, *notes_for(context, context.situation(place, state, lambda: ""), receipt))


def _findings(place: TaskPlace, step: Step) -> tuple[str, ...]:
    """The ledger's rows of the step's phase: what was found, and how it was answered. None where it can't be read."""
    if step.stage is Stage.COMMIT:
        return ()
    try:
        rows = parse_ledger(read_task(place)).rows
    except RefusedError:
        return ()  # `complete` says what is wrong with it
    mine = [row for row in rows if row.stage == step.stage.phase]
    return tuple(f"{row.id} (round {row.round}), {row.severity}, {row.status}: {row.evidence or '-'}" for row in mine)


def _diff(context: Context, state: State, receipt: Receipt) -> bytes:
    """What a code reviewer judges; empty for anybody else."""
    if receipt.stage != Stage.REVIEW_CODE or receipt.input_tree is None:
        return b""
    return context.objects.patch(state.run.baseline.tree, receipt.input_tree)


def write_diff(context: Context, ref: str, path: Path) -> None:
    """Write the diff that the pending code review judges to a file of the caller's.

    Raises:
        RefusedError: ORCHESTRATION_DELEGATION_MISSING where no code review is pending; STORE_WRITE_FAILED.

    Side effects: the file.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    if state.pending is None or state.pending.stage != Stage.REVIEW_CODE:
        message = f"no code review of {place.task_id} is pending, so there is no diff to judge"
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_MISSING, message)
    write_atomic(path, _diff(context, state, state.pending))


def _diff_file(context: Context, place: TaskPlace, state: State, receipt: Receipt) -> Path | None:
    """The file with what a code reviewer judges, written if it is not there."""
    if receipt.stage != Stage.REVIEW_CODE or receipt.input_tree is None:
        return None
    path = context.runs.folder / "briefs" / place.task_id / f"{receipt.id}.diff"
    if not path.exists():
        write_atomic(path, _diff(context, state, receipt))
    return path


def _commit_paths(context: Context, state: State, step: Step) -> tuple[str, ...]:
    authorized = state.run.commit_authorization
    if step.stage is not Stage.COMMIT or authorized.tree is None:
        return ()
    parent = context.objects.tree_of(authorized.head) or context.objects.empty_tree
    return tuple(change.name for change in context.objects.diff(parent, authorized.tree))
