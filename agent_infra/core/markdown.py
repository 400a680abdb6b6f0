"""The lines of a markdown document: which of them are read, and which section they belong to.

Text inside a fence is never read, and neither is the front matter; both stay in the list, for edits are made by line.
This module knows no section by name, no task and no review; it renders nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent_infra.errors import ErrorCode, RefusedError

BOM = b"\xef\xbb\xbf"
MAX_LINES = 250_000  # four million empty lines fit into an artifact, and would take seconds at every look
_MARKERS = ("<<<<<<<", ">>>>>>>")


class DocumentError(RefusedError):
    """TASK_DOCUMENT_INVALID that knows where: `line` is 1-based, `reason` is the message without it."""

    def __init__(self, line: int, reason: str, *notes: str) -> None:
        super().__init__(ErrorCode.TASK_DOCUMENT_INVALID, f"line {line}: {reason}", *notes)
        self.line = line
        self.reason = reason


class Line(NamedTuple):
    """One line as it lies in the file: `text + eol` are its characters; `visible` is False for what nobody reads."""

    number: int
    text: str
    eol: str
    visible: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and all lines up to the next one that ends it, hidden lines too."""

    heading: Line
    body: tuple[Line, ...]

    @property
    def last(self) -> Line:
        """The last line that is not blank, which is the heading itself in an empty section."""
        return next((line for line in reversed(self.body) if line.text.strip()), self.heading)


def decode(data: bytes) -> str:
    """The text of a document, without its byte order mark.

    Raises:
        DocumentError: TASK_DOCUMENT_INVALID at the first byte that is not UTF-8.
    """
    try:
        return data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as fault:
        offset = fault.start + (len(BOM) if data.startswith(BOM) else 0)
        line = data.count(b"\n", 0, offset) + 1
        raise DocumentError(line, f"byte {offset} is not UTF-8; save the file as UTF-8") from fault


def read_lines(text: str, *, body: int = 1) -> tuple[Line, ...]:
    """Split at LF alone and hide what stands inside fences; every line before number `body` is hidden too."""
    lines: list[Line] = []
    fence = ""
    for number, part in enumerate(text.split("\n"), 1):
        content = part.removesuffix("\r")
        visible = number >= body
        if visible and (fence or "```" in content or "~~~" in content):
            fence, visible = _follow_fence(fence, content)
        lines.append(Line(number, content, "\n" if len(content) == len(part) else "\r\n", visible))
    # what stands behind the last LF is a line only if it is something, and it has no end
    last = text.rpartition("\n")[2]
    rest = [Line(len(lines), last, "", lines[-1].visible)] if last else []
    return (*lines[:-1], *rest)


def read_document(data: bytes) -> tuple[Line, ...]:
    """Read the lines of a document that may begin with front matter, which is hidden.

    Raises:
        DocumentError: TASK_DOCUMENT_INVALID if it is not UTF-8, or has more than 250,000 lines.
    """
    text = decode(data)
    if text.count("\n") > MAX_LINES:
        raise DocumentError(MAX_LINES + 1, f"more than {MAX_LINES} lines; no document needs that many")
    return read_lines(text, body=body_line(text))


def body_line(text: str) -> int:
    """The number of the first line after the front matter; 1 where there is none or it never ends."""
    if not text.startswith(("---\n", "---\r\n")):
        return 1
    for number, line in enumerate(text.split("\n")[1:], 2):
        if line.removesuffix("\r") == "---":
            return number + 1
    return 1


def find_sections(lines: Sequence[Line], names: Iterable[str], *, stop_level: int = 2) -> tuple[Section, ...]:
    """Every section whose visible H2 is one of `names` (case ignored); it ends at the next visible H2.

    With `stop_level=1` an H1 ends it too.
    """
    wanted = {name.casefold() for name in names}
    headings = [(index, *found) for index, line in enumerate(lines) if (found := read_heading(line))]
    borders = [heading for heading in headings if stop_level <= heading[1] <= 2]
    ends = [index for index, _, _ in borders[1:]] + [len(lines)]
    return tuple(
        Section(lines[index], tuple(lines[index + 1 : end]))
        for (index, level, title), end in zip(borders, ends, strict=False)
        if level == 2 and title.casefold() in wanted
    )


def read_heading(line: Line) -> tuple[int, str] | None:
    """Level and title of a visible ATX heading; None for every other line."""
    if not line.visible or "#" not in line.text:
        return None
    text = line.text.lstrip(" ")
    if not text.startswith("#") or len(line.text) - len(text) > 3:
        return None
    rest = text.lstrip("#")
    level = len(text) - len(rest)
    if level > 6 or (rest and rest[0] not in " \t\r"):
        return None
    title = rest.strip()
    bare = title.rstrip("#")  # a closing run of number signs counts only after a space
    if bare != title and bare[-1:] in ("", " ", "\t"):
        title = bare.rstrip()
    return level, title


def replace_lines(data: bytes, changes: Mapping[int, Sequence[str]]) -> bytes:
    """The document with other lines in the place of some, by 1-based number; every other byte is kept.

    Raises:
        DocumentError: as for `read_document`.
    """
    lines = read_document(data)
    usual = next((line.eol for line in lines if line.eol), "\n")
    parts = [
        (line.eol or usual).join(changes[line.number]) + line.eol if line.number in changes else line.text + line.eol
        for line in lines
    ]
    return (BOM if data.startswith(BOM) else b"") + "".join(parts).encode()


def check_no_conflict(lines: Iterable[Line]) -> None:
    """Refuse a document that still holds the marks of an unfinished merge.

    Raises:
        DocumentError: TASK_DOCUMENT_INVALID at the first visible mark.
    """
    for line in lines:
        if line.visible and is_conflict_marker(line.text):
            raise DocumentError(line.number, f'a conflict marker "{line.text[:7]}"; finish the merge first')


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: no half of a character came in through an escape or a file name."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def is_conflict_marker(text: str) -> bool:
    """Whether git left this line at the border of a conflict."""
    return text.startswith(_MARKERS) and text[7:8] in ("", " ", "\r")


def _follow_fence(fence: str, text: str) -> tuple[str, bool]:
    """The open fence after this line (empty: none), and whether the line is visible."""
    bare = text.lstrip(" ")
    mark = bare[:1]
    run = len(bare) - len(bare.lstrip(mark)) if mark in ("`", "~") and len(text) - len(bare) <= 3 else 0
    rest = bare[run:]
    if fence:
        closes = run >= len(fence) and mark == fence[0] and not rest.strip(" \t\r")
        return ("" if closes else fence), False
    # a run of backticks with another backtick behind it is code within a line
    opens = run >= 3 and not (mark == "`" and "`" in rest)
    return (mark * run if opens else ""), not opens
