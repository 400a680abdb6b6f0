"""Which subtasks may not run side by side, and which targets nobody may write.

Works on declared paths alone: text, never the disk. Paths are compared with forward slashes, in one case and one
Unicode form, because somebody's file system does.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from agent_infra.core.subtasks.plan import Subtask

SHARED, PARALLEL_WRITE, FORBIDDEN = "shared-files", "parallel-write", "forbidden-target"
_DRIVE = re.compile(r"[a-z]:")
_SECRETS = re.compile(r"\.env(?:\..+)?")
_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_OURS = (".git", ".agent-infra", ".agents/workspace")


@dataclass(frozen=True)
class Conflict:
    """One reason not to do things at the same time, or not at all.

    Attributes:
        type: `shared-files`, `parallel-write` or `forbidden-target`.
        severity: `critical` or `warning`.
        parallel: whether it would happen side by side; ours are put one after the other, so it is False.
        target: the path or pattern in question; empty where none was declared.
        subtasks: ids, sorted.
    """

    type: str
    severity: str
    parallel: bool
    target: str
    subtasks: tuple[str, ...]
    reason: str

    @property
    def is_blocking(self) -> bool:
        """Whether it refuses real mode."""
        return (
            self.severity == "critical"
            or self.type == PARALLEL_WRITE
            or self.parallel
            or forbidden_reason(self.target) is not None
        )

    def to_json(self) -> dict[str, Any]:
        """As in a result's plan."""
        return {
            "type": self.type,
            "severity": self.severity,
            "parallel": self.parallel,
            "target": self.target,
            "subtasks": list(self.subtasks),
            "reason": self.reason,
            "blocking": self.is_blocking,
        }


def forbidden_reason(target: str) -> str | None:
    """Why nobody may write a declared target; None where it may be written; no target is none."""
    slashed = target.replace("\\", "/").strip()
    path = _key(target)
    parts = path.split("/")
    if slashed.startswith(("/", "~")) or _DRIVE.match(path):
        return "it is absolute"
    if ".." in parts:
        return "it leaves the worktree"
    if "\0" in target or any(unicodedata.category(character) == "Cc" for character in target):
        return "it holds control characters"
    if any(_SECRETS.fullmatch(part) and part not in _SAMPLES for part in parts):
        return "it holds secrets"
    if ".git" in parts or any(path == own or path.startswith(f"{own}/") for own in _OURS):
        return "it belongs to git or to agent-infra"
    return None


def find_conflicts(subtasks: Sequence[Subtask]) -> tuple[Conflict, ...]:
    """Every conflict of a split, sorted: forbidden targets, and files shared by subtasks that run at any time."""
    forbidden = [
        Conflict(FORBIDDEN, "critical", False, target, (subtask.id,), f"{target}: {reason}")
        for subtask in subtasks
        for target in subtask.expected_files
        if (reason := forbidden_reason(target))
    ]
    before = _ancestors(subtasks)
    loose = [pair for pair in _pairs(subtasks) if not _in_order(pair, before)]
    shared = [conflict for pair in loose if (conflict := _shared(*pair))]
    return tuple(sorted((*forbidden, *shared), key=lambda found: (found.type, found.subtasks, found.target)))


def file_conflicts(subtasks: Sequence[Subtask]) -> tuple[Conflict, ...]:
    """The shared files among subtasks that would run at the same time, whatever they wait for."""
    return tuple(conflict for pair in _pairs(subtasks) if (conflict := _shared(*pair)))


def _pairs(subtasks: Sequence[Subtask]) -> list[tuple[Subtask, Subtask]]:
    return list(combinations(sorted(subtasks, key=lambda subtask: subtask.id), 2))


def _shared(one: Subtask, other: Subtask) -> Conflict | None:
    """The files that two subtasks may both write; one that declares none may write all."""
    ids = (one.id, other.id)
    silent = [subtask.id for subtask in (one, other) if not subtask.expected_files and not subtask.no_change_expected]
    if silent and not (one.no_change_expected or other.no_change_expected):
        return Conflict(SHARED, "warning", False, "", ids, f"{silent[0]} declares no files, so it may write any")
    for mine in sorted(one.expected_files):
        for theirs in sorted(other.expected_files):
            if can_meet(mine, theirs):
                words = f"both write {mine}" if mine == theirs else f"{mine} and {theirs} can be one file"
                return Conflict(SHARED, "warning", False, mine, ids, words)
    return None


def _ancestors(subtasks: Sequence[Subtask]) -> dict[str, set[str]]:
    """For each subtask all that it waits for, also through others; cycles do no harm here."""
    direct = {subtask.id: set(subtask.blocked_by) for subtask in subtasks}
    found: dict[str, set[str]] = {}
    for name, wanted in direct.items():
        reached: set[str] = set()
        open_ends = set(wanted)
        while open_ends:
            one = open_ends.pop()
            if one not in reached:
                reached.add(one)
                open_ends |= direct.get(one, set())
        found[name] = reached
    return found


def _in_order(pair: tuple[Subtask, Subtask], before: dict[str, set[str]]) -> bool:
    one, other = pair
    return other.id in before[one.id] or one.id in before[other.id]


def can_meet(one: str, other: str) -> bool:
    """Whether two declared paths, folders or globs can name one file, or one a folder above the other."""
    return _paths_meet(tuple(_key(one).split("/")), tuple(_key(other).split("/")))


def _key(path: str) -> str:
    """A path as file systems may see it: "/", one case, one Unicode form, no empty or `.` parts."""
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path.strip()).casefold()).replace("\\", "/")
    return "/".join(part for part in text.split("/") if part not in ("", "."))


@lru_cache(maxsize=4096)
def _paths_meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    if not one or not other:
        return True  # a folder, and what lies below it
    if one[0] == "**":
        return _paths_meet(one[1:], other) or _paths_meet(one, other[1:])
    if other[0] == "**":
        return _paths_meet(other, one)
    return _names_meet(one[0], other[0]) and _paths_meet(one[1:], other[1:])


@lru_cache(maxsize=4096)
def _names_meet(one: str, other: str) -> bool:
    """Whether two patterns of one path part fit a common name; a class counts as any character."""
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*":
        return _names_meet(one[1:], other) or _names_meet(one, _rest(other))
    if other[0] == "*":
        return _names_meet(other, one)
    same = one[0] == other[0] or one[0] in "?[" or other[0] in "?["
    return same and _names_meet(_rest(one), _rest(other))


def _rest(pattern: str) -> str:
    """The pattern behind its first character, wildcard or class."""
    end = pattern.find("]", 2) if pattern[0] == "[" else 0
    return pattern[max(end, 0) + 1 :]
