"""What tasks cost: tokens, money and time by step, task and client, as the receipts have it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent_infra.core.receipts import Receipt
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError
from agent_infra.services.context import Context
from agent_infra.services.tasks.current import find_task

COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


@dataclass(frozen=True)
class Used:
    """What one step used.

    Attributes:
        seconds: from the child's start to its stop; None where one of them is not on record.
        counts: tokens by name, only those that the client says.
        cost: US dollars; None where the client says none.
    """

    task_id: str
    stage: str
    round: int
    client: str
    model: str
    status: str
    seconds: float | None
    counts: Mapping[str, int]
    cost: float | None

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        named = {"stage": self.stage, "round": self.round, "client": self.client, "model": self.model or None}
        return named | {"status": self.status, "seconds": self.seconds, "costUsd": self.cost, **self.counts}


def used_by(receipt: Receipt) -> Used:
    """What a receipt says of its step."""
    usage = receipt.usage or {}
    counts = {name: usage[name] for name in COUNTS if isinstance(usage.get(name), int)}
    cost = usage.get("costUsd")
    return Used(
        task_id=receipt.task_id,
        stage=receipt.stage,
        round=receipt.round,
        client=receipt.client,
        model=receipt.actual_model or str((receipt.evidence or {}).get("model") or ""),
        status=receipt.status,
        seconds=_seconds(receipt.activated_at, receipt.sealed_at or receipt.aborted_at),
        counts=counts,
        cost=float(cost) if isinstance(cost, int | float) else None,
    )


def _seconds(start: str | None, end: str | None) -> float | None:
    if not start or not end:
        return None
    spent = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    return round(spent, 3) if spent >= 0 else None  # a clock that was set back says nothing


def total(steps: Iterable[Used]) -> dict[str, Any]:
    """Sums over steps; what nobody said is left out."""
    found: dict[str, Any] = {"steps": 0, "seconds": 0.0}
    for step in steps:
        found["steps"] += 1
        found["seconds"] = round(found["seconds"] + (step.seconds or 0), 3)
        for name, count in step.counts.items():
            found[name] = found.get(name, 0) + count
        if step.cost is not None:
            found["costUsd"] = round(found.get("costUsd", 0.0) + step.cost, 6)
    return found


def _all(state: State) -> list[Receipt]:
    """Every receipt of the run, the pending one too."""
    return [*state.run.receipts, *([state.pending] if state.pending else [])]


def usage(context: Context, ref: str | None) -> dict[str, tuple[Used, ...]]:
    """The steps of one task, or of every task with a run here, by task id; a run that can't be read is left out.

    Raises:
        RefusedError: as for `find_task` and `Context.load`, where a task is named.
    """
    if ref is not None:
        place = find_task(context, ref)
        state = context.load(place)
        return {place.task_id: tuple(used_by(receipt) for receipt in _all(state)) if state else ()}
    found: dict[str, tuple[Used, ...]] = {}
    folder = context.runs.folder / "runs"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            state = context.runs.seen(path.name)
        except AgentInfraError:
            continue
        if state:
            found[path.name] = tuple(used_by(receipt) for receipt in _all(state))
    return found
