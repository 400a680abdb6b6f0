"""In which order subtasks run: waves by their dependencies, and one order for one at a time.

Ids are compared by code point, so the order is the same on every machine and for every order of the input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from agent_infra.core.subtasks.conflicts import file_conflicts
from agent_infra.core.subtasks.plan import Subtask
from agent_infra.errors import ErrorCode, RefusedError


class ChildStatus(StrEnum):
    """Where one subtask stands."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    COMPLETED_WITH_WARNINGS = "completed_with_warnings"
    FAILED = "failed"
    BLOCKED = "blocked"
    NEEDS_HUMAN = "needs_human"
    ARCHIVED = "archived"


TERMINAL = frozenset(ChildStatus) - {ChildStatus.PENDING, ChildStatus.RUNNING}
ACCEPTABLE = frozenset({ChildStatus.COMPLETED, ChildStatus.COMPLETED_WITH_WARNINGS})


@dataclass(frozen=True)
class Wave:
    """Subtasks whose dependencies all lie in earlier waves.

    Attributes:
        index: 0-based.
        parallel: ids that may run side by side, sorted.
        serial: ids that share files with another of this wave: one by one, after the parallel ones, sorted.
    """

    index: int
    parallel: tuple[str, ...]
    serial: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As in a result's `executionPlan` and the trail."""
        return {
            "waveIndex": self.index,
            "parallelSubtaskIds": list(self.parallel),
            "serialSubtaskIds": list(self.serial),
        }


def plan_waves(subtasks: Sequence[Subtask]) -> tuple[Wave, ...]:
    """The waves of a split.

    Raises:
        RefusedError: SUBTASK_CYCLE names the members of a cycle.
    """
    graph = {subtask.id: [wanted for wanted in subtask.blocked_by if wanted != subtask.id] for subtask in subtasks}
    sorter = TopologicalSorter({name: [w for w in wanted if w in graph] for name, wanted in sorted(graph.items())})
    try:
        sorter.prepare()
    except CycleError as error:
        raise RefusedError(ErrorCode.SUBTASK_CYCLE, _cycle_words(error.args[1])) from error
    waves: list[Wave] = []
    by_id = {subtask.id: subtask for subtask in subtasks}
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        waves.append(_wave(len(waves), [by_id[name] for name in ready]))
        sorter.done(*ready)
    return tuple(waves)


def _wave(index: int, members: Sequence[Subtask]) -> Wave:
    shared = {name for conflict in file_conflicts(members) for name in conflict.subtasks}
    parallel = tuple(member.id for member in members if member.id not in shared)
    return Wave(index, parallel, tuple(sorted(shared)))


def _cycle_words(members: Sequence[str]) -> str:
    """A cycle from its smallest member on, so that the words don't depend on where it was entered."""
    ring = list(members[:-1])[::-1]  # graphlib lists dependents first
    start = ring.index(min(ring))
    ring = ring[start:] + ring[:start]
    return f"subtasks wait for one another: {' -> '.join([*ring, ring[0]])}; take one `blockedBy` away"


def serial_order(subtasks: Sequence[Subtask], rank: Sequence[str] = ()) -> tuple[str, ...]:
    """One order for one at a time: dependencies first, ready ones by their place in `rank`, then by id.

    Raises:
        RefusedError: SUBTASK_CYCLE names the members of a cycle.
    """
    plan_waves(subtasks)
    places = {name: place for place, name in reversed(list(enumerate(rank)))}
    known = {subtask.id for subtask in subtasks}
    waiting = {subtask.id: {w for w in subtask.blocked_by if w in known} - {subtask.id} for subtask in subtasks}
    order: list[str] = []
    while waiting:
        ready = [name for name, wanted in waiting.items() if wanted <= set(order)]
        first = min(ready, key=lambda name: (places.get(name, len(places)), name))
        order.append(first)
        del waiting[first]
    return tuple(order)


def blocked_dependents(subtasks: Sequence[Subtask], statuses: Mapping[str, ChildStatus]) -> dict[str, str]:
    """Subtasks that can't run any more, with the reason: a dependency ended unacceptably, also through others."""
    known = {subtask.id: subtask for subtask in subtasks}
    ended = {name: status for name, status in statuses.items() if status in TERMINAL}
    blocked: dict[str, str] = {}
    for name in serial_order(subtasks):
        if name in ended:
            continue
        bad = [wanted for wanted in sorted(set(known[name].blocked_by)) if _is_bad(ended.get(wanted))]
        if bad:
            blocked[name] = f"dependency {bad[0]} finished as {ended[bad[0]]}"
            ended[name] = ChildStatus.BLOCKED
    return blocked


def _is_bad(status: ChildStatus | None) -> bool:
    return status is not None and status not in ACCEPTABLE
