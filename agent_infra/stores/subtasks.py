"""What an orchestration of subtasks keeps on disk: its trail, a record per child, the prompts.

Everything lies under the git common dir, so that no snapshot and no `git clean` reaches it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from agent_infra.core.subtasks.trail import Trail, read_trail, render_line
from agent_infra.core.subtasks.waves import ChildStatus
from agent_infra.errors import CorruptStateError, ErrorCode
from agent_infra.stores.atomic import append_durably, read_regular, write_atomic

RECORD_LIMIT = 4 << 20
TRAIL_LIMIT = 256 << 20


@dataclass(frozen=True)
class ChildRecord:
    """One child: which subtask it is, where it works, how it ended.

    Attributes:
        digest: SHA-256 of the subtask's definition; another definition is another piece of work.
        attempt: 1-based.
        base: the commit that its worktree was made from.
        pid: leads its process group; `started` tells it from a later process of the same number.
        facts: evidence by field name (`core.subtasks.evidence`).
        commit: its result.
        ended_at: RFC 3339 UTC, like `started_at`.
    """

    subtask_id: str
    digest: str
    attempt: int = 1
    status: ChildStatus = ChildStatus.PENDING
    engine: str = ""
    orchestration: str = ""
    worktree: str = ""
    base: str = ""
    pid: int | None = None
    started: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    commit: str | None = None
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    inherited: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """The id of this attempt, by which evidence names its source."""
        return f"{self.subtask_id}-{self.attempt}"

    def to_bytes(self) -> bytes:
        """The file."""
        return (json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace")

    @classmethod
    def from_bytes(cls, data: bytes, path: Path) -> Self:
        """The record of a file.

        Raises:
            CorruptStateError: SUBTASK_STATE_INVALID naming the file, which stays as it is.
        """
        try:
            found = json.loads(data)
            # an unknown key is a TypeError of the constructor: state that only we write is closed
            return cls(**found | {"status": ChildStatus(found["status"])})
        except (ValueError, TypeError, KeyError) as error:
            message = f"{path} can't be read: {error}; `agent-infra subtasks clean` keeps it aside"
            raise CorruptStateError(ErrorCode.SUBTASK_STATE_INVALID, message) from error


@dataclass(frozen=True)
class SubtaskStore:
    """The files of one task's orchestrations; `root` is `agent-infra` in the git common dir."""

    root: Path
    task_id: str

    @property
    def folder(self) -> Path:
        """Where everything but the worktrees and logs lies."""
        return self.root / "subtasks" / self.task_id

    @property
    def lock_path(self) -> Path:
        """Held while an orchestration of this task runs."""
        return self.root / "drivers" / f"{self.task_id}.subtasks.lock"

    @property
    def trail_path(self) -> Path:
        """The append-only story."""
        return self.folder / "trail.jsonl"

    def worktree(self, subtask_id: str, attempt: int) -> Path:
        """Where a child works: no other child, task or attempt has the same."""
        return self.root / "worktrees" / self.task_id / f"{subtask_id}-{attempt}"

    def log(self, subtask_id: str, attempt: int) -> Path:
        """What a child said."""
        return self.root / "logs" / self.task_id / "subtasks" / f"{subtask_id}-{attempt}.log"

    def prompt(self, subtask_id: str, attempt: int) -> Path:
        """What a child was told."""
        return self.folder / "prompts" / f"{subtask_id}-{attempt}.md"

    def exit_file(self, subtask_id: str, attempt: int) -> Path:
        """Where a child's exit code is left, also for an orchestrator that comes after a killed one."""
        return self.folder / "exits" / f"{subtask_id}-{attempt}"

    def trail(self) -> Trail:
        """The lines so far; those that can't be read are counted."""
        return read_trail(read_regular(self.trail_path, limit=TRAIL_LIMIT) or b"")

    def append(self, line: Mapping[str, Any]) -> None:
        """Add one event; when this returns, it is on disk. A torn last line is closed first: it must spoil no other."""
        data = read_regular(self.trail_path, limit=TRAIL_LIMIT) or b""
        torn = b"" if data.endswith(b"\n") or not data else b"\n"
        append_durably(self.trail_path, torn + render_line(line))

    def record_path(self, subtask_id: str) -> Path:
        """The file of one child."""
        return self.folder / "children" / f"{subtask_id}.json"

    def load(self, subtask_id: str) -> ChildRecord | None:
        """A child's record; None where it never was begun.

        Raises:
            CorruptStateError: SUBTASK_STATE_INVALID.
        """
        path = self.record_path(subtask_id)
        data = read_regular(path, limit=RECORD_LIMIT)
        return None if data is None else ChildRecord.from_bytes(data, path)

    def save(self, record: ChildRecord) -> None:
        """Keep a child's record, whole or not at all."""
        write_atomic(self.record_path(record.subtask_id), record.to_bytes())

    def records(self) -> Iterator[ChildRecord]:
        """Every child on record, by id.

        Raises:
            CorruptStateError: SUBTASK_STATE_INVALID.
        """
        for path in sorted((self.folder / "children").glob("*.json")):
            found = self.load(path.stem)
            if found:
                yield found
