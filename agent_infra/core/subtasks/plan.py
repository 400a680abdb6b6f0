"""The split of a task as a plan's front matter says it: subtasks, their limits, and every fault of the text.

Knows no order and no conflict; reads the values that `frontmatter` yields, where every scalar is text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_infra.core.frontmatter import Value

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}")
_TRUE, _FALSE = ("true", "yes"), ("false", "no")
_KNOWN = frozenset(
    ("id", "title", "description", "expectedFiles", "files", "acceptance", "blockedBy", "engine", "priority")
) | {"noChangeExpected", "expectedNoChange", "requires"}


@dataclass(frozen=True)
class Limits:
    """How far a task may be split.

    Attributes:
        max_depth: orchestrations inside one another, counted from 1.
        max_subtasks: of one plan.
        max_agents_per_manager: children of one parent that may run at once.
        max_transitions: steps of one planning loop.
    """

    max_depth: int = 2
    max_subtasks: int = 8
    max_agents_per_manager: int = 4
    max_transitions: int = 40


@dataclass(frozen=True)
class Criterion:
    """One acceptance criterion.

    Attributes:
        text: as it was written.
        command: what proves it when it was written as `run: COMMAND`, else None.
        evidence: names of the pieces that prove a criterion of words: `path:GLOB`, `check:COMMAND`, `subtask:ID`.
    """

    text: str
    command: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subtask:
    """One part of the task.

    Attributes:
        expected_files: repo-relative paths, folders or globs that it means to write, "/".
        blocked_by: ids of the subtasks that must be done before, as written.
        engine: by name; None leaves it to the parent or the configured default.
        no_change_expected: a result without a changed file is a good one.
    """

    id: str
    title: str
    description: str = ""
    expected_files: tuple[str, ...] = ()
    acceptance: tuple[Criterion, ...] = ()
    blocked_by: tuple[str, ...] = ()
    engine: str | None = None
    no_change_expected: bool = False

    def to_json(self) -> dict[str, Any]:
        """As a planned subtask of a result."""
        return {
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "expectedFiles": list(self.expected_files),
            "acceptance": [criterion.text for criterion in self.acceptance],
            "blockedBy": list(self.blocked_by),
            "engine": self.engine,
            "noChangeExpected": self.no_change_expected,
        }


@dataclass(frozen=True)
class Split:
    """What a plan says: the subtasks in the order of the text, and what is wrong or odd about them."""

    subtasks: tuple[Subtask, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass
class _Reader:
    """Collects every fault of one plan, so that its author mends them in one go."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def text(self, value: "Value | None", where: str) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        self.errors.append(f"{where} is not text")
        return ""

    def texts(self, value: "Value | None", where: str) -> tuple[str, ...]:
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(item, str) and item for item in value):
            return tuple(str(item) for item in value)
        self.errors.append(f"{where} is not a list of texts")
        return ()

    def flag(self, value: "Value | None", where: str) -> bool | None:
        if value is None or value == "":
            return None
        if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        self.errors.append(f"{where} is neither true nor false")
        return None

    def criteria(self, value: "Value | None", where: str) -> tuple[Criterion, ...]:
        if value is None or value == "":
            return ()
        items = value if isinstance(value, list) else [value]
        return tuple(self._criterion(item, where) for item in items)

    def _criterion(self, item: Value, where: str) -> Criterion:
        if isinstance(item, str) and item:
            return criterion_of(item)
        if isinstance(item, dict) and set(item) == {"run"}:  # `- run: COMMAND` is a mapping to YAML
            return criterion_of(f"run: {self.text(item['run'], where)}")
        if isinstance(item, dict) and "text" in item and set(item) <= {"text", "evidence"}:
            return Criterion(self.text(item["text"], where), None, self.texts(item.get("evidence"), where))
        self.errors.append(f"{where} holds something else than texts, `run: COMMAND` and text with evidence")
        return Criterion("")


def criterion_of(text: str) -> Criterion:
    """A criterion from its line: `run: COMMAND` is run by us, names in back quotes are the evidence of words."""
    head, found, command = text.partition("run:")
    if found and not head.strip() and command.strip():
        return Criterion(text, command.strip())
    return Criterion(text, None, tuple(name for name in re.findall(r"`([^`]+)`", text) if name.strip()))


def read_split(fields: Mapping[str, Value], limits: Limits = Limits()) -> Split:
    """The subtasks of a plan's front matter; a plan without `subtasks` has none.

    An unknown dependency, a subtask that waits for itself, an id that is there twice (also by case alone: worktrees
    are named after ids) and too many subtasks are faults of the plan.
    """
    value = fields.get("subtasks")
    if value is None or value in ("", []):
        return Split()
    if not isinstance(value, list):
        return Split(errors=("subtasks is not a list",))
    reader = _Reader()
    parent = reader.criteria(fields.get("acceptance"), "acceptance")
    read = [_subtask(reader, item, number, parent) for number, item in enumerate(value, 1)]
    subtasks = tuple(subtask for subtask in read if subtask)
    errors = (*reader.errors, *_relations(subtasks))
    if len(value) > limits.max_subtasks:
        errors = (*errors, f"{len(value)} subtasks, the limit is {limits.max_subtasks}")
    return Split(subtasks, errors, tuple(reader.warnings))


def _subtask(reader: _Reader, item: Value, number: int, parent: tuple[Criterion, ...]) -> Subtask | None:
    if not isinstance(item, dict):
        reader.errors.append(f"subtask {number} is not a mapping")
        return None
    name = item.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name) or name.endswith((".lock", ".")):
        reader.errors.append(f"subtask {number}: the id {name!r} is not 1 to 64 letters, digits, dots, - and _")
        return None
    where = f"subtask {name}"
    odd = sorted(set(item) - _KNOWN)
    if odd:
        reader.warnings.append(f"{where}: unknown fields {', '.join(odd)}")
    files = reader.texts(item.get("expectedFiles", item.get("files")), f"{where}: expectedFiles")
    return Subtask(
        id=name,
        title=reader.text(item.get("title"), f"{where}: title") or name,
        description=reader.text(item.get("description"), f"{where}: description"),
        expected_files=files,
        acceptance=reader.criteria(item.get("acceptance"), f"{where}: acceptance") if "acceptance" in item else parent,
        blocked_by=reader.texts(item.get("blockedBy"), f"{where}: blockedBy"),
        engine=reader.text(item.get("engine"), f"{where}: engine") or None,
        no_change_expected=_no_change(reader, item, files, where),
    )


def _no_change(reader: _Reader, item: Mapping[str, Value], files: Sequence[str], where: str) -> bool:
    """Said outright, or nothing to write is named and writing is not required."""
    said = [reader.flag(item.get(key), f"{where}: {key}") for key in ("noChangeExpected", "expectedNoChange")]
    requires = item.get("requires")
    if requires not in (None, "") and not isinstance(requires, dict):
        reader.errors.append(f"{where}: requires is not a mapping")
    writes = requires.get("filesystemWrite") if isinstance(requires, dict) else None
    return True in said or (not files and reader.flag(writes, f"{where}: requires.filesystemWrite") is False)


def _relations(subtasks: Sequence[Subtask]) -> tuple[str, ...]:
    """Faults that lie between subtasks."""
    faults: list[str] = []
    seen: dict[str, str] = {}
    for subtask in subtasks:
        twin = seen.get(subtask.id.casefold())
        if twin is not None:
            faults.append(f"the id {subtask.id} is there twice" + (f" (as {twin})" if twin != subtask.id else ""))
        seen[subtask.id.casefold()] = subtask.id
    known = {subtask.id for subtask in subtasks}
    for subtask in subtasks:
        for wanted in dict.fromkeys(subtask.blocked_by):
            if wanted == subtask.id:
                faults.append(f"subtask {subtask.id} waits for itself")
            elif wanted not in known:
                faults.append(f"subtask {subtask.id} waits for {wanted}, which is no subtask of this plan")
    return tuple(faults)
