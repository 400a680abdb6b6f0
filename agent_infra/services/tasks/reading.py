"""Looking into a task's folder: its documents, its log, words in them. Changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent_infra.core import ledger as ledgers
from agent_infra.core.activity import LoggedStep, pair_steps
from agent_infra.core.fields import AGENTS
from agent_infra.core.ledger import PENDING
from agent_infra.core.markdown import DocumentError, decode
from agent_infra.core.tasks import log_entries
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.stores.artifacts import read_task
from agent_infra.stores.atomic import read_regular
from agent_infra.stores.runs import VIEW_LIMIT
from agent_infra.stores.workspace import TaskPlace, list_folder

_REVIEWS = {"Review Analysis": "analysis", "Review Plan": "plan", "Review Code": "code"}


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a task; `stem` is its name without `.md`, `mtime` RFC 3339 UTC."""

    name: str
    size: int
    mtime: str

    @property
    def stem(self) -> str:
        """As lists name it."""
        return self.name.removesuffix(".md")


def documents(place: TaskPlace) -> tuple[Document, ...]:
    """The regular files at the top of a task's folder, oldest first; hidden ones are left out."""
    files = (each for each in list_folder(place.folder) if each.kind == "file" and not each.name.startswith("."))
    by_age = sorted(files, key=lambda each: (each.modified, each.name))
    return tuple(Document(each.name, each.size, _shown(each.modified)) for each in by_age)


def _shown(modified: float) -> str:
    return datetime.fromtimestamp(modified, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def read_document(place: TaskPlace, wanted: str) -> tuple[str, bytes]:
    """The name and bytes of a document, by its name with or without `.md`, or by its number in `documents`.

    Raises:
        RefusedError: ARTIFACT_PATH_INVALID for anything but a bare name, ARTIFACT_NOT_FOUND.
        CorruptStateError: ORCHESTRATION_ARTIFACT_INVALID for what is no regular file.
    """
    if wanted in ("", ".", "..") or "/" in wanted or "\\" in wanted or "\x00" in wanted:
        message = f"{wanted[:80]!r} is no name of a document; documents lie directly in the task's folder"
        raise RefusedError(ErrorCode.ARTIFACT_PATH_INVALID, message)
    names = [document.name for document in documents(place)]
    number = wanted.removeprefix("#")
    if number.isascii() and number.isdigit() and wanted not in names:
        place_in_list = int(number[:9])
        if not 1 <= place_in_list <= len(names):
            message = f"there is no document {number[:9]} in {place.task_id}; `task files` numbers {len(names)}"
            raise RefusedError(ErrorCode.ARTIFACT_NOT_FOUND, message)
        wanted = names[place_in_list - 1]
    for name in (wanted, f"{wanted}.md"):
        try:
            data = read_regular(place.folder / name, limit=VIEW_LIMIT)
        except OSError:
            data = None
        if data is not None:
            return name, data
    there = ", ".join(name.removesuffix(".md") for name in names) or "none"
    message = f"there is no document {wanted[:80]!r} in {place.task_id}; there are: {there}"
    raise RefusedError(ErrorCode.ARTIFACT_NOT_FOUND, message)


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that holds the words; `line` is 1-based."""

    place: TaskPlace
    stem: str
    line: int
    text: str


def search(place: TaskPlace, words: str, *, ignore_case: bool) -> Iterator[Hit]:
    """The lines of a task's markdown that hold `words`, literally; what can't be read holds nothing."""
    wanted = words.casefold() if ignore_case else words
    try:
        names = [entry.name for entry in list_folder(place.folder) if entry.kind == "file" and _is_text(entry.name)]
    except AgentInfraError:
        return
    raw = words.encode(errors="surrogateescape")
    for name in names:
        data = _bytes(place.folder / name)
        if not ignore_case and raw not in data:
            continue
        for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
            if wanted in (line.casefold() if ignore_case else line):
                yield Hit(place, name.removesuffix(".md"), number, line.removesuffix("\r"))


def _is_text(name: str) -> bool:
    return name.endswith(".md") and not name.startswith(".")


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path, limit=VIEW_LIMIT) or b""
    except AgentInfraError:
        return b""


def steps(place: TaskPlace) -> tuple[LoggedStep, ...]:
    """The steps of a task's activity log by time.

    Raises:
        RefusedError: TASK_DOCUMENT_INVALID without a log, or for one without an entry.
    """
    data = read_task(place)
    found = pair_steps(log_entries(data))
    if not found:
        line = decode(data).count("\n") + 1
        raise DocumentError(line, f"the activity log of {place.task_id} has no entry")
    return found


def told(step: LoggedStep, data: bytes) -> str:
    """The note of a step; that of a review says how many of its findings still wait for a person.

    Args:
        data: task.md, for its ledger as it is now: what a person has decided does not wait any more.
    """
    stage = next((stage for name, stage in _REVIEWS.items() if step.step.startswith(name)), None)
    head, arrow, artifact = step.note.rpartition(" → ")
    if stage is None or not arrow or not head.startswith("Verdict:"):
        return step.note
    try:
        waiting = sum(row.status == PENDING and row.stage == stage for row in ledgers.parse_ledger(data).rows)
    except RefusedError:
        return step.note
    return f"{head}, Human-decision: {waiting} → {artifact}"


def signed(agent: str) -> str:
    """Who did a step, as lists show it: the token of an agent, everybody else is `human`."""
    return agent if agent in AGENTS else "human"
