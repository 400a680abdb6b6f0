"""task.md and what refers to it: ids, short ids, the document, its activity log, and the step that is written into it.

Every edit is made by line and keeps the bytes that it does not mean to change. Where a task lies is the business of
`stores`, the findings ledger that of `ledger`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_infra.core.artifacts import artifact_name
from agent_infra.core.frontmatter import parse_front_matter, render_scalar, set_fields
from agent_infra.core.markdown import (
    BOM,
    DocumentError,
    Line,
    Section,
    body_line,
    check_no_conflict,
    find_sections,
    is_unicode,
    read_document,
    read_heading,
)
from agent_infra.core.reviews import Review
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError

TASK_ID = re.compile(r"\ATASK-[0-9]{8}-[0-9]{6}\Z")
ACTIVITY_LOG = ("Activity Log", "活动日志")
WORKFLOWS: dict[str, str] = {
    "feature": "feature-development",
    "bugfix": "bug-fix",
    "refactor": "refactoring",
    "docs": "feature-development",
    "chore": "feature-development",
}

_SHORT_REF = re.compile(r"#?([0-9]+)")
_STAMP = re.compile(r"- ([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[+-][0-9]{2}:[0-9]{2})?) — \*\*")
_FIRST_KEY = re.compile(rb'"ids"\s*:\s*\{\s*"([0-9]{1,9})"')
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_FAKES = re.compile(r"(?m)^( {0,3})(?=#|```|~~~|<{7}|>{7})")

# family: step in the log, label of the link, headings of the section that the link goes to
_STEPS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "analysis": ("Analyze Task (Round {})", "Analysis", ("Analysis", "分析")),
    "review-analysis": ("Review Analysis (Round {})", "Analysis Review", ("Review Feedback", "审查反馈")),
    "plan": ("Plan Task (Round {})", "Plan", ("Design", "设计")),
    "review-plan": ("Review Plan (Round {})", "Plan Review", ("Review Feedback", "审查反馈")),
    "code": ("Code Task (Round {})", "Code", ("Implementation Notes", "实现备注")),
    "review-code": ("Review Code (Round {})", "Code Review", ("Review Feedback", "审查反馈")),
    "manual-validation": ("Complete Manual Validation", "Manual Validation", ("Implementation Notes", "实现备注")),
    "validation-run": ("Run Manual Validation (Round {})", "Validation Run", ("Implementation Notes", "实现备注")),
    "commit": ("Commit", "Commit", ()),
}
_NOTES = {
    "analysis": "Analysis completed",
    "plan": "Plan completed",
    "code": "Code implemented",
    "manual-validation": "Manual validation passed",
    "validation-run": "Validation evidence recorded",
}


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """What task.md says about its task; `title` is empty where it has no H1."""

    id: str
    title: str
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the activity log; `at` is `YYYY-MM-DD HH:MM:SS±HH:MM`."""

    at: str
    step: str
    agent: str
    note: str

    @property
    def artifact(self) -> str | None:
        """What the note says after its arrow: the file that the step left."""
        _, arrow, tail = self.note.rpartition(" → ")
        return tail.partition(";")[0].strip() if arrow else None


@dataclass(frozen=True, slots=True)
class ArtifactLink:
    """A link from task.md to what a step left; `round` is 1-based."""

    family: str
    round: int

    @property
    def file(self) -> str:
        """The bare name it leads to."""
        return artifact_name(self.family, self.round)

    @property
    def text(self) -> str:
        """The markdown of the link."""
        return f"[{_STEPS[self.family][1]} (Round {self.round})]({self.file})"

    @property
    def section(self) -> tuple[str, ...]:
        """The headings it may stand under."""
        return _STEPS[self.family][2]


def parse_task_ref(ref: str) -> str | int:
    """What a person means by a task: a full id as it is, or the number of `7`, `07` and `#7`.

    Raises:
        RefusedError: INVALID_TASK_REF for anything else, SHORT_ID_RESERVED for zero, SHORT_ID_CAPACITY_EXCEEDED for a
            number that no registry could hold.
    """
    if TASK_ID.fullmatch(ref):
        return ref
    match = _SHORT_REF.fullmatch(ref)
    if match is None:
        message = f"{ref[:80]!r} is no task; write a full id (TASK-20260101-120000) or a short one (7, #7)"
        raise RefusedError(ErrorCode.INVALID_TASK_REF, message)
    digits = match[1].lstrip("0")
    if not digits:
        raise RefusedError(ErrorCode.SHORT_ID_RESERVED, f"{ref[:80]} is reserved; short ids start at 1")
    if len(digits) > 9:
        message = f"a short id of {len(digits)} digits; no registry holds that many"
        raise RefusedError(ErrorCode.SHORT_ID_CAPACITY_EXCEEDED, message)
    return int(digits)


def parse_task(data: bytes, task_id: str) -> TaskDocument:
    """Read task.md of the folder `task_id`.

    Raises:
        RefusedError: TASK_DOCUMENT_INVALID with the line if the front matter is faulty, its id is not the folder's, or
            marks of a merge are left outside of fences.
    """
    fields = parse_front_matter(data, flat=True).fields
    lines = read_document(data)
    check_no_conflict(lines)
    found = fields.get("id")
    if found != task_id:
        raise DocumentError(1, f'the id is "{found or ""}", but the folder is {task_id}; make them equal')
    return TaskDocument(task_id, _title(lines), fields)


def section_names() -> set[tuple[str, ...]]:
    """The headings that links go to, English first; each is there once at most."""
    return {names for _, _, names in _STEPS.values() if names}


def step_name(stage: str, round: int) -> str:  # noqa: A002 - the word of the domain
    """The step that the activity log and people know a stage by: `Plan Task (Round 2)`."""
    return _STEPS[stage][0].format(round)


def finish_note(
    stage: str,
    round: int,  # noqa: A002 - the word of the domain
    artifact: str,
    *,
    review: Review | None = None,
    detail: str = "",
) -> str:
    """What the log says once a step is done; `detail` is hash and subject of a commit, or a result."""
    if stage == "commit":
        return detail or "Commit completed"
    if review is not None:
        counts = review.counts
        found = f"blockers: {counts.blocker}, major: {counts.major}, minor: {counts.minor}"
        manual = f"Manual-validation: {review.manual_validation or 0}"
        return f"Verdict: {review.verdict.words}, {found}, {manual} → {artifact}"
    note = "Code revised" if stage == "code" and round > 1 else _NOTES.get(stage, "Review completed")
    return f"{note} → {artifact}" + (f"; {detail}" if detail else "")


def parse_log_line(text: str) -> LogEntry | None:
    """Read one line of an activity log; None for every line that is none."""
    stamp = _STAMP.match(text)
    if stamp is None:
        return None
    step, by, rest = text[stamp.end() :].partition("** by ")
    agent, dash, note = rest.partition(" — ")
    if not (by and dash and step and agent):
        return None
    return LogEntry(stamp[1], step, agent, note)


def render_log_line(entry: LogEntry) -> str:
    """Write one line of an activity log; runs of blanks and line ends become one space.

    Raises:
        RefusedError: MUTATION_INVALID if it would read back as another entry.
    """
    clean = LogEntry(*(" ".join(part.split()) for part in (entry.at, entry.step, entry.agent, entry.note)))
    line = f"- {clean.at} — **{clean.step}** by {clean.agent} — {clean.note}"
    if parse_log_line(line) != clean or not is_unicode(line):
        raise RefusedError(ErrorCode.MUTATION_INVALID, f"{line[:120]!r} would not read back as a line of the log")
    return line


def log_entries(data: bytes) -> tuple[LogEntry, ...]:
    """Every well-formed visible line of the activity log, in the order of the file.

    Raises:
        RefusedError: TASK_DOCUMENT_INVALID unless there is exactly one such section.
    """
    return _entries(_activity_log(read_document(data)))


def record_step(data: bytes, entry: LogEntry, *, fields: Mapping[str, str], link: ArtifactLink | None) -> bytes:
    """Write a finished step into task.md: its line in the log, its link, its fields; nothing if its line is there.

    Raises:
        RefusedError: TASK_DOCUMENT_INVALID if the document or its log can't be edited, MUTATION_INVALID if the entry or
            a field can't be written.
    """
    lines = read_document(data)
    log = _activity_log(lines)
    line = render_log_line(entry)
    if _has_step(log, line):
        return data
    raw = [each.text + each.eol for each in lines]
    _append(raw, log, line)
    if link and (section := _link_section(lines, link)):
        _append(raw, section, f"- {link.text}")
    bom = BOM if data.startswith(BOM) else b""
    edited = bom + "".join(raw).encode()
    if not _has_step(_activity_log(read_document(edited)), line):
        raise DocumentError(log.heading.number, "the activity log ends inside an open fence; close the fence")
    return set_fields(edited, fields)


def parse_registry(data: bytes, length: int) -> dict[int, str]:
    """Read the short ids of the active tasks; keys have exactly `length` digits.

    Raises:
        CorruptStateError: SHORT_ID_REGISTRY_INVALID_JSON, _INVALID_SCHEMA or _DUPLICATE_TASK.
    """
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as fault:
        message = f"the short id registry is not JSON: {fault}"
        raise CorruptStateError(ErrorCode.SHORT_ID_REGISTRY_INVALID_JSON, message) from fault
    if not isinstance(found, dict) or found.keys() != {"version", "ids"} or not isinstance(found["ids"], dict):
        raise _bad_registry('it is {"version": 1, "ids": {…}}')
    if type(found["version"]) is not int or found["version"] != 1:
        raise _bad_registry(f"version {str(found['version'])[:40]}; 1 is known")
    ids: dict[int, str] = {}
    keys: dict[str, str] = {}
    for key, task_id in found["ids"].items():
        ids[_registry_number(key, task_id, length)] = task_id
        if keys.setdefault(task_id, key) != key:
            message = f"{task_id} has two short ids, {keys[task_id]} and {key}; keep one"
            raise CorruptStateError(ErrorCode.SHORT_ID_REGISTRY_DUPLICATE_TASK, message)
    return ids


def registry_length(data: bytes) -> int:
    """How many digits the keys of a registry have, by its first key; 2 where it has none or can't be read."""
    first = _FIRST_KEY.search(data)
    return len(first[1]) if first else 2


def render_registry(ids: Mapping[int, str], length: int) -> bytes:
    """Write the short ids in order, each with `length` digits."""
    keys = {f"{number:0{length}}": ids[number] for number in sorted(ids)}
    return (json.dumps({"version": 1, "ids": keys}, indent=2) + "\n").encode()


def allocate(ids: Mapping[int, str], task_id: str, length: int) -> dict[int, str]:
    """Give a task the lowest free short id; a task that has one keeps it.

    Raises:
        RefusedError: SHORT_ID_CAPACITY_EXCEEDED if all numbers of `length` digits are taken.
    """
    if task_id in ids.values():
        return dict(ids)
    number = next(number for number in range(1, len(ids) + 2) if number not in ids)
    if number >= 10**length:
        message = f"all {len(ids)} short ids are taken; complete or block a task, or raise the length of short ids"
        raise RefusedError(ErrorCode.SHORT_ID_CAPACITY_EXCEEDED, message)
    return {**ids, number: task_id}


def render_task(  # noqa: PLR0913 - the fields of a new task
    template: str,
    *,
    task_id: str,
    title: str,
    type: str,  # noqa: A002 - the word of the domain
    created_at: str,
    version: str,
    branch: str,
    description: str,
    agent: str = "human",
) -> bytes:
    """Fill `{{name}}` in a template: id or task_id, and each argument; workflow follows from the type.

    Values in the front matter are quoted where needed; lines of a description that would be headings, fences or
    conflict markers are escaped, so that no text can pass for the document's own structure.

    Raises:
        RefusedError: TASK_CREATE_PAYLOAD_INVALID for an empty title, an unknown type, or text that is not Unicode;
            TASK_DOCUMENT_INVALID for a template that does not make a task.
    """
    heading = " ".join(title.split())
    _check_payload(heading, type, (title, created_at, version, branch, agent, description))
    values = {
        "task_id": task_id,
        "id": task_id,
        "title": heading,
        "type": type,
        "workflow": WORKFLOWS[type],
        "created_at": created_at,
        "version": version,
        "branch": branch,
        "agent": agent,
    }
    body = body_line(template)
    lines = template.split("\n")
    top = _fill("\n".join(lines[: body - 1]), {name: render_scalar(value) for name, value in values.items()})
    rest = _fill("\n".join(lines[body - 1 :]), values | {"description": _escape(description)})
    data = f"{top}\n{rest}".encode()
    parse_task(data, task_id)
    return data


def _title(lines: Sequence[Line]) -> str:
    for line in lines:
        found = read_heading(line)
        if found and found[0] == 1:
            title = line.text.lstrip(" ")[1:].strip()
            return next(
                (title[len(label) :].strip() for label in ("任务:", "任务：") if title.startswith(label)), title
            )
    return ""


def _activity_log(lines: Sequence[Line]) -> Section:
    found = find_sections(lines, ACTIVITY_LOG)
    if not found:
        raise DocumentError(len(lines) or 1, 'no visible heading "## Activity Log"; a task has exactly one')
    if len(found) > 1:
        raise DocumentError(found[1].heading.number, 'a second "## Activity Log"; a task has exactly one')
    return found[0]


def _entries(log: Section) -> tuple[LogEntry, ...]:
    return tuple(entry for line in log.body if line.visible and (entry := parse_log_line(line.text)))


def _has_step(log: Section, line: str) -> bool:
    """Whether a line of the same step is there: its name and artifact, or its whole note where it left none."""

    def mark(entry: LogEntry) -> tuple[str, str]:
        return entry.step, entry.artifact or entry.note

    wanted = parse_log_line(line)
    return wanted is not None and mark(wanted) in {mark(known) for known in _entries(log)}


def _link_section(lines: Sequence[Line], link: ArtifactLink) -> Section | None:
    """The section that still lacks this link; None where it is there, or no such section is."""
    found = find_sections(lines, link.section)
    if len(found) > 1:
        raise DocumentError(found[1].heading.number, f'a second section "{link.section[0]}"; keep one')
    if not found or any(line.visible and f"]({link.file})" in line.text for line in found[0].body):
        return None
    return found[0]


def _append(raw: list[str], section: Section, text: str) -> None:
    """Put a line behind the last one of a section that is not blank; below a bare heading a blank line goes first."""
    last = section.last
    eol = last.eol or ("\r\n" if raw[0].endswith("\r\n") else "\n")
    gap = eol if last is section.heading else ""
    raw[last.number - 1] += f"{gap}{text}{eol}" if last.eol else f"{eol}{gap}{text}"


def _registry_number(key: str, task_id: object, length: int) -> int:
    if not re.fullmatch(r"[0-9]+", key) or len(key) != length or not key.strip("0"):
        raise _bad_registry(f"the key {key[:40]!r}; keys have {length} digits and start at 1")
    if not isinstance(task_id, str) or not TASK_ID.fullmatch(task_id):
        raise _bad_registry(f"{str(task_id)[:80]!r} under {key} is no task id")
    return int(key)


def _without_repeats(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _bad_registry("a key is there twice")
    return found


def _bad_registry(what: str) -> CorruptStateError:
    return CorruptStateError(ErrorCode.SHORT_ID_REGISTRY_INVALID_SCHEMA, f"the short id registry: {what}")


def _check_payload(heading: str, type_: str, texts: Sequence[str]) -> None:
    fault = None
    if not heading:
        fault = "a title is at least one character"
    elif type_ not in WORKFLOWS:
        fault = f'the type "{type_}"; it is one of {", ".join(WORKFLOWS)}'
    elif not all(is_unicode(text) for text in texts):
        fault = "text that is not Unicode"
    if fault:
        raise RefusedError(ErrorCode.TASK_CREATE_PAYLOAD_INVALID, fault)


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Put the values in, in one pass: what a value says is not read as a placeholder again."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise DocumentError(1, f'the template has a placeholder "{match[0]}" that nothing fills')
        return values[match[1]]

    return _PLACEHOLDER.sub(value_of, text)


def _escape(description: str) -> str:
    """Keep a description from opening sections, fences and conflicts of its own."""
    text = description.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    return _FAKES.sub(r"\1" + "\\\\", text)
