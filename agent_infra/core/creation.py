"""What a person or program says about a new task, and the task.md that it becomes.

A candidate (`task create --from FILE.json`) is a closed JSON object that may come twice: its idempotency key makes the
second one the first. Where the task lies and which id it gets is decided elsewhere.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from agent_infra.core.fields import check_value
from agent_infra.core.frontmatter import set_fields
from agent_infra.core.lifecycle import Flow
from agent_infra.core.markdown import find_sections, is_unicode, read_document, read_heading, replace_lines
from agent_infra.core.record import Record
from agent_infra.core.tasks import render_task
from agent_infra.errors import ErrorCode, RefusedError

MAX_TITLE = 100  # characters
MAX_DESCRIPTION = 8 << 10  # bytes of UTF-8
MAX_ITEMS = 50
MAX_ITEM = 2 << 10  # bytes of UTF-8
CANDIDATE_LIMIT = 2 << 20  # bytes of a candidate's file: seven full lists fit

_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
_TASK_INPUT = ("Task Input", "任务输入")
_INPUTS: Mapping[str, tuple[str, ...]] = {
    "sources": ("Sources", "来源"),
    "facts": ("Confirmed Facts and Evidence", "已确认事实与证据"),
    "constraints": ("Constraints", "约束"),
    "decisions": ("Confirmed Decisions", "已确认决策"),
    "alternatives": ("Candidate and Rejected Options", "候选与否决方案"),
    "acceptance_criteria": ("Acceptance Criteria", "验收标准"),
    "open_questions": ("Open Questions", "未决事项"),
}


@dataclass(frozen=True, slots=True)
class TaskInput:
    """What is known before the analysis: lists of lines, one for each heading below `Task Input`."""

    sources: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    acceptance_criteria: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """What is said about a new task; only the title has no default.

    Attributes:
        branch: None where nothing was said about it; empty for a task without one.
        slug: the last part of the branch name `<project>-<type>-<slug>`, instead of `branch`.
        agent: who makes it: `human`, or the token of an agent.
        key: a UUID that makes a second wish the first one again.
    """

    title: str
    type: str = "feature"
    description: str = ""
    branch: str | None = None
    slug: str = ""
    flow: Flow | None = None
    priority: str = "Medium"
    effort: str = "Medium"
    agent: str = "human"
    start_date: str = ""
    target_date: str = ""
    issue_number: str = ""
    delivery_remote: str = ""
    delivery_base_ref: str = ""
    inputs: TaskInput = TaskInput()
    key: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of everything but the key: the same wish said again has the same."""
        said = asdict(self) | {"key": ""}
        return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

    @property
    def key_digest(self) -> str:
        """SHA-256 of the key, in lower case as UUIDs are compared."""
        return hashlib.sha256(self.key.lower().encode()).hexdigest()


def _one_line(text: str) -> str:
    if not text.strip() or not _is_printable(text):
        raise ValueError("expected one line of text")
    if len(text.encode()) > MAX_ITEM:
        raise ValueError(f"expected at most {MAX_ITEM} bytes")
    return text


def _is_printable(text: str) -> bool:
    """One line of Unicode; the joiners of emoji and of some scripts are letters here."""
    return text.translate({0x200C: None, 0x200D: None}).isprintable()


_Item = Annotated[str, AfterValidator(_one_line)]
_Items = Annotated[list[_Item], Field(max_length=MAX_ITEMS)]


class _Inputs(Record):
    sources: _Items = []
    facts: _Items = []
    constraints: _Items = []
    decisions: _Items = []
    alternatives: _Items = []
    acceptance_criteria: _Items = []
    open_questions: _Items = []


class _Candidate(Record):
    version: int
    idempotency_key: str
    agent: str
    title: str
    type: str
    branch_slug: str
    priority: str
    effort: str
    description: str
    task_input: _Inputs
    delivery_remote: str = ""
    delivery_base_ref: str = ""
    flow: Literal["full", "standard", "streamlined"] | None = None


def parse_candidate(data: bytes) -> Wish:
    """Read the JSON of a new task.

    Raises:
        RefusedError: TASK_CREATE_PAYLOAD_INVALID naming the key that is missing, unknown or wrong;
            TASK_CREATE_VERSION_INVALID for a version that we don't know.
    """
    try:
        found = json.loads(data.decode(), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as fault:
        raise _bad(f"the candidate is not JSON: {fault}") from fault
    version = found.get("version") if isinstance(found, dict) else None
    if type(version) is int and version != 1:
        message = f"a candidate of version {version}; 1 is known"
        raise RefusedError(ErrorCode.TASK_CREATE_VERSION_INVALID, message)
    try:
        candidate = _Candidate.model_validate(found)
    except ValidationError as fault:
        raise _bad(_words(fault)) from fault
    given = candidate.model_dump(
        by_alias=False, exclude={"version", "idempotency_key", "branch_slug", "task_input", "flow"}
    )
    inputs = TaskInput(
        **{name: tuple(items) for name, items in candidate.task_input.model_dump(by_alias=False).items()}
    )
    wish = Wish(
        **given,
        slug=candidate.branch_slug,
        key=candidate.idempotency_key,
        flow=Flow(candidate.flow) if candidate.flow else None,
        inputs=inputs,
    )
    if not wish.slug:
        raise _bad("branchSlug: expected at least two words of lower-case letters and digits with - between them")
    if not wish.key:
        raise _bad("idempotencyKey: expected a UUID of version 4")
    check_wish(wish)
    return wish


def check_wish(wish: Wish) -> None:
    """Refuse what would not make a good task.

    Raises:
        RefusedError: TASK_CREATE_PAYLOAD_INVALID naming the field.
    """
    title = " ".join(wish.title.split())
    if not title or len(title) > MAX_TITLE or not _is_printable(title):
        raise _bad(f"title: one line of 1 to {MAX_TITLE} characters, found {len(title)}: {title[:60]!r}")
    size = len(wish.description.encode(errors="surrogatepass"))
    if size > MAX_DESCRIPTION or not is_unicode(wish.description) or "\x00" in wish.description:
        raise _bad(f"description: at most {MAX_DESCRIPTION} bytes of Unicode text, found {size}")
    if wish.slug and (len(wish.slug) > 64 or not _SLUG.fullmatch(wish.slug)):
        raise _bad(f"branchSlug: two words or more, as in fix-sum, at most 64 characters, found {wish.slug[:80]!r}")
    if wish.key and not _KEY.fullmatch(wish.key):
        raise _bad(f"idempotencyKey: a UUID of version 4, found {wish.key[:60]!r}")
    for name, value in _written(wish).items():
        if fault := check_value(name, value):
            raise _bad(fault)
    for name in _INPUTS:
        _check_items(name, getattr(wish.inputs, name))


def _check_items(name: str, items: Sequence[str]) -> None:
    if len(items) > MAX_ITEMS:
        raise _bad(f"{name}: at most {MAX_ITEMS} items, found {len(items)}")
    for item in items:
        try:
            _one_line(item)
        except (ValueError, UnicodeEncodeError) as fault:
            raise _bad(f"{name}: {fault}, found {item[:60]!r}") from fault


@dataclass(frozen=True, slots=True)
class Birth:
    """What a new task gets from where and when it is made; `branch` is what the wish's branch or slug came to."""

    task_id: str
    created_at: str
    version: str
    branch: str


def render_wish(template: str, wish: Wish, birth: Birth) -> bytes:
    """The task.md of a new task.

    Raises:
        RefusedError: TASK_CREATE_PAYLOAD_INVALID, or TASK_CREATE_TEMPLATE_INVALID for a template that makes no task.
    """
    check_wish(wish)
    try:
        data = render_task(
            template,
            title=wish.title,
            type=wish.type,
            description=wish.description,
            agent=wish.agent,
            **asdict(birth),
        )
    except RefusedError as fault:
        if fault.code is not ErrorCode.TASK_DOCUMENT_INVALID:
            raise
        raise RefusedError(ErrorCode.TASK_CREATE_TEMPLATE_INVALID, f"the template: {fault.message}") from fault
    data = set_fields(data, _written(wish) | _marks(wish))
    return _with_inputs(data, wish.inputs)


def _written(wish: Wish) -> dict[str, str]:
    """The fields of the front matter that the template does not fill itself; empty ones only where it has them."""
    always = {"type": wish.type, "priority": wish.priority, "effort": wish.effort, "assigned_to": wish.agent}
    optional = {
        "flow": wish.flow.value if wish.flow else "",
        "branch": wish.branch or "",
        "start_date": wish.start_date,
        "target_date": wish.target_date,
        "issue_number": wish.issue_number,
        "delivery_remote": wish.delivery_remote,
        "delivery_base_ref": wish.delivery_base_ref,
    }
    return always | {name: value for name, value in optional.items() if value}


def _marks(wish: Wish) -> dict[str, str]:
    if not wish.key:
        return {}
    return {"task_create_key_digest": wish.key_digest, "task_create_candidate_digest": wish.digest}


def _with_inputs(data: bytes, inputs: TaskInput) -> bytes:
    """The document with a list below each heading that something was said about."""
    section = next(iter(find_sections(read_document(data), _TASK_INPUT)), None)
    headings = [(line, found[1]) for line in (section.body if section else ()) if (found := read_heading(line))]
    changes: dict[int, tuple[str, ...]] = {}
    for field in fields(TaskInput):
        items: tuple[str, ...] = getattr(inputs, field.name)
        line = next((line for line, title in headings if title in _INPUTS[field.name]), None)
        if items and line is None:
            message = f'the template has no heading "### {_INPUTS[field.name][0]}" below "## Task Input"'
            raise RefusedError(ErrorCode.TASK_CREATE_TEMPLATE_INVALID, message)
        if items and line:
            changes[line.number] = (line.text, "", *(f"- {' '.join(item.split())}" for item in items))
    return replace_lines(data, changes)


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _bad("a key is there twice")
    return found


def _words(error: ValidationError) -> str:
    """The first fault, by the key as it is written."""
    fault: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in fault["loc"]) or "the candidate"
    if fault["type"] == "missing":
        return f"{key} is missing"
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key}"
    return f"{key}: {str(fault['msg']).removeprefix('Value error, ').lower()}, found {str(fault['input'])[:60]!r}"


def _bad(what: str) -> RefusedError:
    return RefusedError(ErrorCode.TASK_CREATE_PAYLOAD_INVALID, what)
