"""What the lifecycle knows of a task's subtasks: what reviewers are shown, and what a receipt carries of them."""

from agent_infra.core.facts import Situation
from agent_infra.core.lifecycle import Stage
from agent_infra.core.receipts import Receipt
from agent_infra.core.subtasks.conflicts import find_conflicts
from agent_infra.core.subtasks.plan import Split
from agent_infra.core.subtasks.trail import TrailEvent
from agent_infra.core.subtasks.waves import plan_waves
from agent_infra.errors import RefusedError
from agent_infra.services.context import Context
from agent_infra.services.subtasks.planning import split_of
from agent_infra.stores.subtasks import SubtaskStore


def notes_for(context: Context, situation: Situation, receipt: Receipt) -> tuple[str, ...]:
    """What a child of this step must know of the plan's subtasks; nothing where there are none."""
    newest = situation.newest(Stage.PLAN)
    if newest is None or receipt.stage not in (Stage.REVIEW_PLAN, Stage.CODE, Stage.REVIEW_CODE):
        return ()
    split = split_of(newest.data)
    if not split.subtasks and not split.errors:
        return ()
    if receipt.stage == Stage.REVIEW_PLAN:
        return shape(split)
    known = orchestration_of(context, receipt) if receipt.stage == Stage.CODE else None
    if receipt.stage == Stage.CODE and known is None:
        run = f"run `agent-infra subtasks run {receipt.task_id}`, then report on it"
        return (f"{newest.name} splits this step into {len(split.subtasks)} subtasks: {run}",)
    return (f"{newest.name} split the code into {len(split.subtasks)} subtasks: `agent-infra subtasks status`",)


def shape(split: Split) -> tuple[str, ...]:
    """The waves and conflicts of a split, a sentence each, and every fault."""
    faults = tuple(f"fault of the subtasks: {error}" for error in split.errors)
    if faults:
        return faults
    try:
        waves = plan_waves(split.subtasks)
    except RefusedError as error:
        return (f"fault of the subtasks: {error.message}",)
    lines = [
        f"wave {wave.index + 1} of {len(waves)}: side by side {', '.join(wave.parallel) or 'none'}"
        + (f"; one by one {', '.join(wave.serial)}" if wave.serial else "")
        for wave in waves
    ]
    conflicts = find_conflicts(split.subtasks)
    return (*lines, *(f"{'blocking conflict' if c.is_blocking else 'conflict'}: {c.reason}" for c in conflicts))


def orchestration_of(context: Context, receipt: Receipt) -> str | None:
    """The newest orchestration that began while this receipt was pending."""
    lines = SubtaskStore(context.runs.folder, receipt.task_id).trail().lines
    started = [
        str(line["orchestrationId"])
        for line in lines
        if line.get("eventType") == TrailEvent.STARTED and str(line.get("startTime", "")) >= receipt.created_at
    ]
    return started[-1] if started else None
