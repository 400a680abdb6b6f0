"""Front matter: read strictly, edited by line, never dumped anew.

What stands in the fields is the business of `tasks` and of plans; this module knows no field by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, overload

from agent_infra.core.markdown import BOM, DocumentError, decode, is_conflict_marker, is_unicode
from agent_infra.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from agent_infra.core.strict_yaml import Entry

Value: TypeAlias = "str | list[Value] | dict[str, Value]"
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class FrontMatter(Generic[V]):
    """The fields in the order of the file, and the 1-based number of the first line after the closing fence."""

    fields: dict[str, V]
    body: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """A text cut at its two fences: `head + yaml + tail`; `yaml` begins with the line end of the opening fence."""

    head: str
    yaml: str
    tail: str

    @property
    def eol(self) -> str:
        return "\r\n" if self.head.endswith("\r") else "\n"


@overload
def parse_front_matter(data: bytes, *, flat: Literal[True]) -> FrontMatter[str]: ...
@overload
def parse_front_matter(data: bytes, *, flat: Literal[False]) -> FrontMatter[Value]: ...
def parse_front_matter(data: bytes, *, flat: bool) -> FrontMatter[str] | FrontMatter[Value]:
    """Read what a document says about itself; `flat` allows nothing but one-line text.

    Raises:
        DocumentError: TASK_DOCUMENT_INVALID with `line N:` if a fence is missing, a key is there twice, or the YAML has
            anchors, tags, conflict markers or a fault; in flat ones also if a value is nested or takes several lines.
    """
    from agent_infra.core.strict_yaml import StrictHandler

    parts = _cut(decode(data))
    body = parts.yaml.count("\n") + 2
    if not flat:
        return FrontMatter(StrictHandler().load(parts.yaml), body)
    fields: dict[str, str] = {}
    for entry, value in _flat_entries(parts.yaml):
        if entry.key in fields:
            raise _repeated(entry)
        fields[entry.key] = value
    return FrontMatter(fields, body)


def has_front_matter(data: bytes) -> bool:
    """Whether the first line means to open a front matter, well-formed or not."""
    first, _, _ = data.removeprefix(BOM).partition(b"\n")
    return first.rstrip() == b"---"


def set_fields(data: bytes, changes: Mapping[str, str], remove: Sequence[str] = ()) -> bytes:
    """Change flat fields and no other byte: a known key keeps its place and comment, a new one goes to the end.

    Raises:
        RefusedError: MUTATION_INVALID if a key or value can't be written, a key is set and removed, or a key to be
            touched is there twice; TASK_DOCUMENT_INVALID if the document is not flat front matter.
    """
    _check_request(changes, remove)
    parts = _cut(decode(data))
    entries = _flat_entries(parts.yaml)
    known = _unique(entries, {*changes, *remove})
    wanted = {key: value for key, (_, value) in known.items() if key not in remove} | dict(changes)
    edited = _edit(parts, known, changes, remove)
    result = f"{parts.head}{edited}{parts.tail}".encode()
    _check_written(result, wanted)
    return (BOM if data.startswith(BOM) else b"") + result


def render_scalar(value: str) -> str:
    """Write a value so that it reads back as the same text: plain where that works, else in quotes."""
    quoted = "'" + value.replace("'", "''") + "'"
    for text in (value, quoted):
        if _reads_as(text, value):
            return text
    return '"' + "".join(_escape(character) for character in value) + '"'


def _cut(text: str) -> _Parts:
    """Find the two fences, by the rule of the handler.

    Raises:
        DocumentError: TASK_DOCUMENT_INVALID if one is missing.
    """
    from agent_infra.core.strict_yaml import StrictHandler

    handler = StrictHandler()
    first = text.partition("\n")[0].removesuffix("\r")
    if is_conflict_marker(first):
        raise DocumentError(1, f'a conflict marker "{first[:7]}"; finish the merge first')
    if not handler.detect(text):
        raise DocumentError(1, f'front matter opens with "---", found "{first[:40]}"')
    try:
        yaml, _ = handler.split(text)
    except ValueError as fault:
        raise DocumentError(1, 'front matter opens here and is never closed; put "---" below its last field') from fault
    head = 4 if text.startswith("---\r") else 3
    return _Parts(text[:head], yaml, text[head + len(yaml) :])


def _flat_entries(yaml: str) -> list[tuple["Entry", str]]:
    """The fields with their text, repeated keys too.

    Raises:
        DocumentError: TASK_DOCUMENT_INVALID unless each line is blank, a comment, or one field with one line of text.
    """
    from agent_infra.core.strict_yaml import StrictHandler

    for number, line in enumerate(yaml.split("\n"), 1):
        if line[:1] in (" ", "\t") and line.strip():
            raise DocumentError(number, "an indented line; fields here are one line each")
    entries = []
    for entry in StrictHandler().entries(yaml):
        if not isinstance(entry.value, str) or not entry.one_line or entry.column:
            raise DocumentError(entry.line, f'the field "{entry.key}" is not one line of text')
        entries.append((entry, entry.value))
    return entries


def _unique(entries: list[tuple["Entry", str]], touched: set[str]) -> dict[str, tuple["Entry", str]]:
    known: dict[str, tuple[Entry, str]] = {}
    for entry, value in entries:
        if entry.key in known and entry.key in touched:
            raise _cannot(f'the key "{entry.key}" is there twice (line {entry.line}); keep one before it is changed')
        if entry.key in known:
            raise _repeated(entry)
        known[entry.key] = (entry, value)
    return known


def _edit(
    parts: _Parts, known: Mapping[str, tuple["Entry", str]], changes: Mapping[str, str], remove: Sequence[str]
) -> str:
    """The YAML text with every edit made, from the end to the start so that places stay true."""
    yaml = parts.yaml
    added = "".join(_new_line(key, changes[key], parts.eol) for key in changes if key not in known)
    end = yaml.find("\n", len(yaml.rstrip(" \t\r\n"))) + 1  # behind the last line that is not blank
    yaml = yaml[:end] + added + yaml[end:]
    for entry, value in sorted(known.values(), key=lambda item: -item[0].start):
        if entry.key in remove:
            start = yaml.rindex("\n", 0, entry.start) + 1
            yaml = yaml[:start] + yaml[yaml.index("\n", entry.start) + 1 :]
        elif changes.get(entry.key, value) != value:
            yaml = _with_value(yaml, entry, changes[entry.key])
    return yaml


def _with_value(yaml: str, entry: "Entry", value: str) -> str:
    before, after = yaml[: entry.start].rstrip(" \t"), yaml[entry.end :]
    text = render_scalar(value)
    gap = yaml[len(before) : entry.start] or " "
    return f"{before}{gap}{text}{after}" if text else f"{before}{after}"


def _new_line(key: str, value: str, eol: str) -> str:
    return f"{key}: {render_scalar(value)}".rstrip(" ") + eol


def _check_request(changes: Mapping[str, str], remove: Sequence[str]) -> None:
    for key in (*changes, *remove):
        if not key or any(mark in key for mark in "\r\n:") or not is_unicode(key):
            raise _cannot(f"the key {key!r}; a key has at least one character and no line end or colon")
    for key, value in changes.items():
        if "\n" in value or "\r" in value or not is_unicode(value):
            raise _cannot(f'the value {value[:60]!r} of "{key}"; a value is one line of text')
    if len(set(remove)) != len(remove) or set(remove) & set(changes):
        raise _cannot("a key to be removed is named once, and not set as well")


def _check_written(data: bytes, wanted: Mapping[str, str]) -> None:
    """Read the result again: what can't be read back as it was meant is never written."""
    try:
        found = parse_front_matter(data, flat=True).fields
    except DocumentError as fault:
        raise _cannot(f"the result would not be front matter any more: {fault.message}") from fault
    if found != wanted:
        odd = sorted(wanted.keys() ^ found.keys())
        raise _cannot(f"the keys {odd} would not read back as they were meant; use letters, digits, - and _")


def _reads_as(text: str, value: str) -> bool:
    try:
        return [found for _, found in _flat_entries(f"\nk: {text}\n")] == [value]
    except DocumentError:
        return False


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08X}"


def _repeated(entry: "Entry") -> DocumentError:
    return DocumentError(entry.line, f'the key "{entry.key}" is there twice; keep one')


def _cannot(what: str) -> RefusedError:
    return RefusedError(ErrorCode.MUTATION_INVALID, what)
