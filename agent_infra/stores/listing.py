"""Reading many task folders at once: for each only what a list needs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_infra.core import tasks
from agent_infra.core.glance import GLANCE, Glance, glance, study
from agent_infra.errors import AgentInfraError
from agent_infra.stores.atomic import read_regular
from agent_infra.stores.workspace import TASK_LIMIT, TaskPlace, Workspace

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Listed:
    """One task of a list; `short_id` as it is registered, None without one."""

    place: TaskPlace
    seen: Glance
    short_id: str | None = None


def places(workspace: Workspace, state: str) -> Iterator[tuple[TaskPlace, bool]]:
    """What has the name of a task in a hot state, by id, and whether it is a symlink."""
    folder = workspace.folder / state
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_symlink()) for entry in entries if tasks.TASK_ID.match(entry.name))
    except OSError:
        return
    for name, is_link in found:
        yield TaskPlace(name, state, folder / name), is_link


def look(place: TaskPlace) -> Glance | None:
    """What a list shows of a task; None where there is no task.md."""
    path = f"{place.folder}/task.md"
    head = b""
    with suppress(OSError):
        descriptor = os.open(path, _FLAGS)
        try:
            head = os.read(descriptor, GLANCE)
        finally:
            os.close(descriptor)
    if head and (found := glance(head, place.task_id)):
        return found
    try:
        data = read_regular(Path(path), limit=TASK_LIMIT)
    except AgentInfraError as fault:
        return Glance({}, "", fault.message)
    return None if data is None else study(data, place.task_id)


def list_tasks(workspace: Workspace, states: tuple[str, ...]) -> Iterator[Listed]:
    """The tasks of these states, in this order, by id; one that can't be read is listed with its fault."""
    short_ids = registered(workspace)
    for state in states:
        for place, is_link in places(workspace, state):
            if is_link:
                yield Listed(place, Glance({}, "", "the folder is a symlink, expected a folder of its own"))
            elif seen := look(place):
                yield Listed(place, seen, short_ids.get(place.task_id) if state == "active" else None)


def registered(workspace: Workspace) -> dict[str, str]:
    """Task -> short id as it is written in the registry; empty while the registry can't be read."""
    with suppress(AgentInfraError):
        length, ids = workspace.read_registry()
        return {task_id: f"{number:0{length}}" for number, task_id in ids.items()}
    return {}
