"""Everything that is wrong with a document of a task, not only the first thing: file, line, code, words.

What a run needs is refused elsewhere with its first fault; this is for the person who mends a document in one go.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent_infra.core.activity import moment
from agent_infra.core.artifacts import FAMILIES, parse_artifact_name
from agent_infra.core.fields import FIELDS, check_fields, nearest
from agent_infra.core.frontmatter import has_front_matter, parse_front_matter
from agent_infra.core.ledger import LEDGER, ledger_faults
from agent_infra.core.markdown import (
    DocumentError,
    Line,
    body_line,
    decode,
    find_sections,
    is_conflict_marker,
    read_document,
    read_lines,
)
from agent_infra.core.reviews import approves, parse_review, review_faults
from agent_infra.core.subtasks.plan import read_split
from agent_infra.core.tasks import ACTIVITY_LOG, parse_log_line, section_names
from agent_infra.core.warnings import WARNINGS, warning_faults
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError

_NEEDED = (ACTIVITY_LOG,)


class Level(StrEnum):
    """Whether a finding is wrong, or only odd."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding; `line` is 1-based, None where a file as a whole is meant."""

    file: str
    line: int | None
    code: str
    message: str
    level: Level = Level.ERROR

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        mark = " (warning)" if self.level is Level.WARNING else ""
        return f"{where}: {self.message} [{self.code}]{mark}"


def task_faults(data: bytes, task_id: str, state: str) -> tuple[Fault, ...]:
    """The faults of task.md, by line.

    Args:
        state: where the task lies: active, blocked, completed or archive.
    """
    name = "task.md"
    try:
        lines = read_document(data)
    except DocumentError as fault:
        return (_at(name, fault),)
    found = [
        *(_at(name, fault) for fault in _front_faults(decode(data))),
        *_field_faults(name, data, task_id, state),
        *_common(name, data, lines),
        *_section_faults(name, lines),
        *_log_faults(name, lines),
        *(Fault(name, f.line, ErrorCode.ORCHESTRATION_LEDGER_INVALID, f.reason) for f in ledger_faults(data)),
        *(_at(name, fault) for fault in warning_faults(lines)),
    ]
    return _sorted(found)


def artifact_faults(name: str, data: bytes) -> tuple[Fault, ...]:
    """The faults of an artifact: its text, its front matter, and of a review its summary."""
    try:
        lines = read_document(data)
    except DocumentError as fault:
        return (_at(name, fault),)
    found = [*_common(name, data, lines)]
    artifact = parse_artifact_name(name)
    if has_front_matter(data):
        found += _plan_faults(name, data, is_plan=artifact is not None and artifact.family == "plan")
    if artifact and artifact.family in FAMILIES and artifact.family.startswith("review-"):
        found += _review_faults(name, data)
    return _sorted(found)


def _sorted(found: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(dict.fromkeys(found), key=lambda fault: fault.line or 0))


def _at(name: str, fault: DocumentError, level: Level = Level.ERROR) -> Fault:
    return Fault(name, fault.line, fault.code, fault.reason, level)


# -- front matter ------------------------------------------------------------------------------------------------------


def _front_faults(text: str) -> Iterator[DocumentError]:
    """Every line of a flat front matter that can't be read; else the one fault that concerns it as a whole."""
    whole = _fault_of(text.encode())
    if whole is None:
        return
    end = body_line(text) - 1
    found = [whole] if end < 2 else [*_line_faults(text.split("\n")[1 : end - 1])]
    yield from found or [whole]


def _fault_of(data: bytes) -> DocumentError | None:
    try:
        parse_front_matter(data, flat=True)
    except DocumentError as fault:
        return fault
    return None


def _line_faults(lines: Sequence[str]) -> Iterator[DocumentError]:
    """The faults of single lines, and keys that are there again."""
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 2):
        try:
            fields = parse_front_matter(f"---\n{line}\n---\n".encode(), flat=True).fields
        except DocumentError as fault:
            yield DocumentError(number, fault.reason)
            continue
        for key in fields:
            if key in seen:
                yield DocumentError(number, f'the key "{key}" is there twice, first on line {seen[key]}; keep one')
            seen.setdefault(key, number)


def _field_faults(name: str, data: bytes, task_id: str, state: str) -> Iterator[Fault]:
    """What is wrong with the values, each at the line of its field."""
    try:
        fields = parse_front_matter(data, flat=True).fields
    except DocumentError:
        return
    lines = decode(data).split("\n")
    where = {key: next((n for n, line in enumerate(lines, 1) if line.startswith(f"{key}:")), 1) for key in FIELDS}
    faults = check_fields(fields, state)
    if fields.get("id") != task_id:
        faults["id"] = f'the id is "{fields.get("id", "")}", but the folder is {task_id}; make them equal'
    for key, message in faults.items():
        yield Fault(name, where[key], ErrorCode.TASK_DOCUMENT_INVALID, message)
    for key in fields:
        near = nearest(key) if key not in FIELDS else None
        if near and near not in fields:
            line = next((n for n, text in enumerate(lines, 1) if text.startswith(f"{key}:")), 1)
            words = f'nobody reads the field "{key}"; did you mean {near}?'
            yield Fault(name, line, ErrorCode.TASK_DOCUMENT_INVALID, words, Level.WARNING)


# -- text --------------------------------------------------------------------------------------------------------------


def _common(name: str, data: bytes, lines: Sequence[Line]) -> Iterator[Fault]:
    """What no document may have: marks of a merge, a fence that hides the rest."""
    for line in lines:
        if line.visible and is_conflict_marker(line.text):
            yield _at(name, DocumentError(line.number, f'a conflict marker "{line.text[:7]}"; finish the merge first'))
    text = decode(data)
    probe = read_lines(f"{text}\nx", body=body_line(text))
    if lines and not probe[-1].visible and lines[-1].number >= body_line(text):
        start = next(n for n in range(len(probe), 0, -1) if n == 1 or probe[n - 2].visible)
        words = "a fence opens here and is never closed, so nothing below is read; close it"
        yield _at(name, DocumentError(start, words), Level.WARNING)


def _section_faults(name: str, lines: Sequence[Line]) -> Iterator[Fault]:
    """Sections that are there twice, and the one that must be there."""
    for names in section_names() | {ACTIVITY_LOG, LEDGER, WARNINGS}:
        for again in find_sections(lines, names)[1:]:
            yield _at(name, DocumentError(again.heading.number, f'a second section "{names[0]}"; keep one'))
    for names in _NEEDED:
        if not find_sections(lines, names):
            words = f'no visible heading "## {names[0]}"; a task has exactly one'
            yield _at(name, DocumentError(len(lines) or 1, words))


def _log_faults(name: str, lines: Sequence[Line]) -> Iterator[Fault]:
    """Items of the activity log that are no lines of a log; times that go back are only odd."""
    latest = None
    for section in find_sections(lines, ACTIVITY_LOG)[:1]:
        for line in section.body:
            if not line.visible or not line.text.startswith("- "):
                continue
            entry = parse_log_line(line.text)
            if entry is None:
                words = "no line of a log; write - YYYY-MM-DD HH:MM:SS+00:00 — **Step** by agent — note"
                yield _at(name, DocumentError(line.number, words))
                continue
            at = moment(entry.at)
            if latest and at < latest:
                words = f"{entry.at} is before the line above; lines of a log follow each other"
                yield _at(name, DocumentError(line.number, words), Level.WARNING)
            latest = at


# -- artifacts ---------------------------------------------------------------------------------------------------------


def _plan_faults(name: str, data: bytes, *, is_plan: bool) -> Iterator[Fault]:
    try:
        fields = parse_front_matter(data, flat=False).fields
    except DocumentError as fault:
        yield _at(name, fault)
        return
    for words in read_split(fields).errors if is_plan else ():
        yield Fault(name, 1, ErrorCode.SUBTASK_PLAN_INVALID, words)


def _review_faults(name: str, data: bytes) -> Iterator[Fault]:
    faults = review_faults(data)
    for fault in faults:
        yield Fault(name, fault.line, ErrorCode.ORCHESTRATION_REVIEW_INVALID, fault.reason)
    if faults:
        return
    try:
        review = parse_review(data, name)
    except RefusedError:
        return  # its front matter, which is said already
    if review.verdict == "approved" and not approves(review):
        words = f"Approved, but {review.counts.total} findings are counted; change the verdict or close the findings"
        yield Fault(name, None, ErrorCode.REVIEW_VERDICT_FINDING_MISMATCH, words)
    if review.input is None:
        words = 'it names no artifact that it judged; write "**Review Input**: `plan.md`"'
        yield Fault(name, None, ErrorCode.ORCHESTRATION_REVIEW_INVALID, words, Level.WARNING)


def refusal(file: str, error: AgentInfraError, level: Level = Level.ERROR) -> Fault:
    """A refusal of a store or a rule as a finding about a file."""
    return Fault(file, None, error.code, error.message, level)
