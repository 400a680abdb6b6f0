"""The layout of `.agents/workspace`: which folder a task reference means, and the registry of short ids.

The text of task.md is `core.tasks`' business.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_infra.core import tasks
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.atomic import read_regular, write_atomic

TASK_LIMIT = 1 << 20
ARTIFACT_LIMIT = 4 << 20
REGISTRY_LIMIT = 8 << 20
ACTIVE = "active"
_HOT_STATES = (ACTIVE, "blocked", "completed")


@dataclass(frozen=True)
class TaskPlace:
    """Where a task lies.

    Attributes:
        state: active, blocked, completed, archive, or missing where only the run is left of it.
        folder: the task's folder; of a missing task the one that it would have.
    """

    task_id: str
    state: str
    folder: Path

    @property
    def document(self) -> Path:
        """task.md."""
        return self.folder / "task.md"

    @property
    def view(self) -> Path:
        """orchestration.json."""
        return self.folder / "orchestration.json"

    def relative(self, name: str) -> str:
        """The repo-relative path of a file in the folder of the active task."""
        return f".agents/workspace/active/{self.task_id}/{name}"


@dataclass(frozen=True)
class Workspace:
    """The tasks of one repository; `root` is its primary worktree."""

    root: Path

    @property
    def folder(self) -> Path:
        """`.agents/workspace`."""
        return self.root / ".agents" / "workspace"

    @property
    def registry(self) -> Path:
        """The short ids."""
        return self.folder / ACTIVE / ".short-ids.json"

    def resolve(self, ref: str, *, short_id_length: int = 2) -> TaskPlace:
        """The place that a full id, `N` or `#N` means.

        Raises:
            RefusedError: INVALID_TASK_REF, a SHORT_ID code, or TASK_NOT_FOUND.
            CorruptStateError: ORCHESTRATION_ARTIFACT_INVALID where the folder is a symlink.
        """
        task_id = self.identify(ref, short_id_length=short_id_length)
        place = self.find(task_id)
        if ref != task_id and place.state != ACTIVE:
            message = f"short id {ref} names {task_id}, which is {place.state}; use the full id"
            raise RefusedError(ErrorCode.SHORT_ID_STALE, message)
        return place

    def identify(self, ref: str, *, short_id_length: int = 2) -> str:
        """The full id that a reference means, whether or not such a task lies anywhere.

        Raises:
            RefusedError: INVALID_TASK_REF or a SHORT_ID code.
        """
        parsed = tasks.parse_task_ref(ref)
        if isinstance(parsed, str):
            return parsed
        ids = tasks.parse_registry(self._registry_bytes(), short_id_length)
        if parsed >= 10**short_id_length:
            message = f"short id {parsed} is above {10**short_id_length - 1}, the largest of {short_id_length} digits"
            raise RefusedError(ErrorCode.SHORT_ID_CAPACITY_EXCEEDED, message)
        if parsed not in ids:
            raise RefusedError(ErrorCode.SHORT_ID_NOT_FOUND, f"no active task has the short id {parsed}")
        return ids[parsed]

    def find(self, task_id: str) -> TaskPlace:
        """The place of a task by its full id; hot states first, then the archive, newest first.

        Raises:
            RefusedError: TASK_NOT_FOUND.
            CorruptStateError: ORCHESTRATION_ARTIFACT_INVALID where the folder is a symlink.
        """
        for state, folder in self._candidates(task_id):
            if folder.is_symlink() or folder.parent.is_symlink():
                message = f"{folder} is reached through a symlink, expected a folder of its own"
                raise CorruptStateError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, message)
            if os.path.lexists(folder / "task.md"):
                return TaskPlace(task_id, state, folder)
        raise RefusedError(ErrorCode.TASK_NOT_FOUND, f"there is no task {task_id} under {self.folder}")

    def has_folder(self, task_id: str) -> bool:
        """Whether anything lies where a task of that id would, task.md or not."""
        return any(os.path.lexists(folder) for _, folder in self._candidates(task_id))

    def missing(self, task_id: str) -> TaskPlace:
        """The place that an active task would have."""
        return TaskPlace(task_id, "missing", self.folder / ACTIVE / task_id)

    def short_id_of(self, task_id: str, *, short_id_length: int = 2) -> int | None:
        """The short id of an active task; `None` without one, or while the registry can't be read."""
        try:
            ids = tasks.parse_registry(self._registry_bytes(), short_id_length)
        except (RefusedError, CorruptStateError):
            return None
        return next((number for number, owner in ids.items() if owner == task_id), None)

    def register(self, task_id: str, *, short_id_length: int = 2) -> int:
        """Give an active task the lowest free short id; the caller holds the repository's lock.

        Raises:
            RefusedError: a SHORT_ID code; a registry that can't be read stays as it is.
        """
        data = read_regular(self.registry, limit=REGISTRY_LIMIT)
        ids = {} if data is None else tasks.parse_registry(data, short_id_length)
        updated = tasks.allocate(ids, task_id, short_id_length)
        write_atomic(self.registry, tasks.render_registry(updated, short_id_length))
        return next(number for number, owner in updated.items() if owner == task_id)

    def release(self, task_id: str, *, short_id_length: int = 2) -> None:
        """Take the short id of a task back; the caller holds the repository's lock.

        Raises:
            AgentInfraError: a SHORT_ID code; a registry that can't be read stays as it is.
        """
        data = read_regular(self.registry, limit=REGISTRY_LIMIT)
        ids = {} if data is None else tasks.parse_registry(data, short_id_length)
        if task_id in ids.values():
            kept = {number: owner for number, owner in ids.items() if owner != task_id}
            write_atomic(self.registry, tasks.render_registry(kept, short_id_length))

    def check_short_id(self, task_id: str, *, wanted: bool, short_id_length: int = 2) -> None:
        """Ask before anything is written whether the registry can be changed for this task.

        Raises:
            AgentInfraError: a SHORT_ID code.
        """
        data = read_regular(self.registry, limit=REGISTRY_LIMIT)
        ids = {} if data is None else tasks.parse_registry(data, short_id_length)
        if wanted:
            tasks.allocate(ids, task_id, short_id_length)

    def read_registry(self) -> tuple[int, dict[int, str]]:
        """The digits of a short id as the registry has them, and the ids; whatever length the settings ask for.

        Raises:
            AgentInfraError: a SHORT_ID code.
        """
        data = self._registry_bytes()
        length = tasks.registry_length(data)
        return length, tasks.parse_registry(data, length)

    def _registry_bytes(self) -> bytes:
        try:
            data = read_regular(self.registry, limit=REGISTRY_LIMIT)
        except CorruptStateError as error:
            if error.code != ErrorCode.ORCHESTRATION_TASK_READ_FAILED:
                raise
            message = f"{self.registry} can't be read, so short ids mean nothing; use the full id ({error.message})"
            raise CorruptStateError(ErrorCode.SHORT_ID_REGISTRY_READ_FAILED, message) from error
        if data is None:
            message = f"{self.registry} does not exist, so short ids mean nothing; use the full id"
            raise RefusedError(ErrorCode.SHORT_ID_REGISTRY_NOT_FOUND, message)
        return data

    def _candidates(self, task_id: str) -> Iterator[tuple[str, Path]]:
        for state in _HOT_STATES:
            yield state, self.folder / state / task_id
        archive = self.folder / "archive"
        days = archive.glob("[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]") if archive.is_dir() else ()
        for day in sorted(days, reverse=True):
            yield "archive", day / task_id


@dataclass(frozen=True)
class FolderEntry:
    """One name in a task folder; `kind` is file, folder, symlink or other, `modified` in seconds since 1970."""

    name: str
    kind: str
    size: int
    modified: float = 0.0


def list_folder(folder: Path) -> tuple[FolderEntry, ...]:
    """The names in a task folder, sorted; nothing is followed."""
    try:
        entries = [(entry.name, entry.stat(follow_symlinks=False)) for entry in os.scandir(folder)]
    except FileNotFoundError:
        return ()
    except OSError as error:
        message = f"{folder} can't be read: {error.strerror}"
        raise CorruptStateError(ErrorCode.ORCHESTRATION_TASK_READ_FAILED, message) from error
    return tuple(
        sorted(
            (FolderEntry(name, _kind(found.st_mode), found.st_size, found.st_mtime) for name, found in entries),
            key=lambda entry: entry.name,
        )
    )


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "symlink" if stat.S_ISLNK(mode) else "other"
