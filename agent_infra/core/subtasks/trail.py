"""The append-only story of an orchestration: which events there are, and how attempts are counted."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class TrailEvent(StrEnum):
    """What a line tells."""

    STARTED = "orchestration_started"
    BLOCKED = "orchestration_blocked"
    FINISHED = "orchestration_finished"
    CHILD_STARTED = "child_started"
    CHILD_FINISHED = "child_finished"
    WAVE_FINISHED = "wave_finished"
    MERGE_FINISHED = "merge_finished"
    RESUMED = "resumed"


_ATTEMPTS = (TrailEvent.STARTED, TrailEvent.BLOCKED)


@dataclass(frozen=True)
class Trail:
    """The lines that could be read, in order, and how many could not."""

    lines: tuple[Mapping[str, Any], ...] = ()
    unreadable: int = 0

    def next_attempt(self, parent_task_id: str) -> int:
        """One more than the highest attempt on record, and than the started and blocked events.

        The count alone would give a number out twice where a line can't be read.
        """
        mine = [line for line in self.lines if line.get("parentTaskId") == parent_task_id]
        counted = sum(line.get("eventType") in _ATTEMPTS for line in mine)
        named = [line["attempt"] for line in mine if isinstance(line.get("attempt"), int)]
        return max(counted, *named, 0) + 1 if named else counted + 1


def read_trail(data: bytes) -> Trail:
    """The trail of a file's bytes; lines that are no JSON object are passed over and counted."""
    lines, unreadable = [], 0
    for raw in data.split(b"\n"):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            line = None
        if isinstance(line, dict):
            lines.append(line)
        else:
            unreadable += 1
    return Trail(tuple(lines), unreadable)


def render_line(fields: Mapping[str, Any]) -> bytes:
    """One line, compact and in UTF-8."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"


def children_on_record(
    trail: Trail, parent_task_id: str, attempts: Iterable[int]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The child events of some attempts by subtask id, in order."""
    wanted = set(attempts)
    found: dict[str, list[Mapping[str, Any]]] = {}
    for line in trail.lines:
        if line.get("parentTaskId") == parent_task_id and line.get("attempt") in wanted and "subtaskId" in line:
            found.setdefault(str(line["subtaskId"]), []).append(line)
    return dict(found)
