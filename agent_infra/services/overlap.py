"""Which active tasks mean to write, or have written, the same files.

Looks at plans and receipts alone: no worktree is read, so it costs little and knows nothing of what is being typed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from agent_infra.core.lifecycle import Stage
from agent_infra.core.run import State
from agent_infra.core.subtasks.conflicts import can_meet
from agent_infra.core.tasks import TASK_ID
from agent_infra.errors import AgentInfraError
from agent_infra.services.context import Context
from agent_infra.services.subtasks.planning import split_of
from agent_infra.stores.artifacts import read_folder
from agent_infra.stores.workspace import ACTIVE, TaskPlace

_WORKSPACE = ".agents/workspace/"


@dataclass(frozen=True)
class Claim:
    """What one task writes.

    Attributes:
        planned: paths and patterns that its plan declares. changed: paths that its receipts name.
    """

    task_id: str
    planned: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Both, once each."""
        return tuple(sorted({*self.planned, *self.changed}))


@dataclass(frozen=True)
class Overlap:
    """Two tasks that meet.

    Attributes:
        paths: pairs of what the first and the second declare or changed.
    """

    first: str
    second: str
    paths: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"tasks": [self.first, self.second], "paths": [list(pair) for pair in self.paths]}

    @property
    def words(self) -> str:
        """The places where they meet."""
        return ", ".join(mine if mine == theirs else f"{mine} / {theirs}" for mine, theirs in self.paths)


def find_overlaps(claims: Sequence[Claim]) -> tuple[Overlap, ...]:
    """Every pair of tasks that meet somewhere, by id."""
    pairs = combinations(sorted(claims, key=lambda claim: claim.task_id), 2)
    return tuple(found for one, other in pairs if (found := _meet(one, other)))


def _meet(one: Claim, other: Claim) -> Overlap | None:
    paths = tuple((mine, theirs) for mine in one.paths for theirs in other.paths if can_meet(mine, theirs))
    return Overlap(one.task_id, other.task_id, paths) if paths else None


def overlaps(context: Context) -> tuple[Overlap, ...]:
    """The overlaps among all active tasks; a task that can't be read claims nothing."""
    return find_overlaps(list(_claims(context)))


def warnings_for(context: Context, task_id: str) -> tuple[str, ...]:
    """What to know before a task's code stage begins."""
    found = (overlap for overlap in overlaps(context) if task_id in (overlap.first, overlap.second))
    return tuple(
        f"{overlap.second if overlap.first == task_id else overlap.first} writes the same files: {overlap.words}"
        for overlap in found
    )


def _claims(context: Context) -> Iterator[Claim]:
    active = context.workspace.folder / ACTIVE
    for folder in sorted(active.iterdir()) if active.is_dir() else ():
        if not TASK_ID.fullmatch(folder.name) or folder.is_symlink():
            continue
        try:
            yield _claim(context, TaskPlace(folder.name, ACTIVE, Path(folder)))
        except AgentInfraError:
            continue


def _claim(context: Context, place: TaskPlace) -> Claim:
    newest = read_folder(place).newest.get(Stage.PLAN)
    split = split_of(newest.data) if newest else None
    planned = {path for subtask in split.subtasks for path in subtask.expected_files} if split else set[str]()
    state = context.runs.seen(place.task_id)
    return Claim(place.task_id, tuple(sorted(planned)), _changed(state))


def _changed(state: State | None) -> tuple[str, ...]:
    """The product paths that the receipts of a run under way say were changed."""
    if state is None or not state.run.guards:
        return ()
    receipts = [*state.run.receipts, *([state.pending] if state.pending else [])]
    paths = {path for receipt in receipts for path in receipt.changed_paths}
    return tuple(sorted(path for path in paths if not path.startswith(_WORKSPACE)))
