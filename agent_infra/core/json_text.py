"""JSON text that belongs to somebody else: one entry put in or taken out, and every other byte stays.

It knows positions, not meanings. What was put in and is taken out again leaves the text as it was.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^\s,\]}]+")
_INDENT = re.compile(r"\n([ \t]+)\S")
_BOM = "\ufeff"
_DECODER = json.JSONDecoder()


class JsonTextError(ValueError):
    """The text is not what was expected.

    Attributes:
        line: 1-based.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Node:
    """A value and where it stands.

    Attributes:
        start: its first character; of a member of an object, that of its key.
        open: where the value itself begins.
        end: after its last character.
        key: of a member of an object.
        items: the entries of an array or object, in order; `None` for anything else.
    """

    start: int
    open: int
    end: int
    value: Any
    key: str | None = None
    items: "tuple[Node, ...] | None" = field(default=None, compare=False)

    def get(self, key: str) -> "Node | None":
        """The member of that name."""
        return next((item for item in self.items or () if item.key == key), None)


class _ConstantError(Exception):
    """NaN or an infinity, which Python reads and JSON does not have."""


def parse(text: str) -> Node:
    """The value of a text, with positions.

    Raises:
        JsonTextError: it is no JSON, or a key occurs twice, so that nobody can say which one counts.
    """
    try:
        json.loads(text.removeprefix(_BOM), parse_constant=_no_constant)
        return _value(text, _blank(text, len(_BOM) if text.startswith(_BOM) else 0))
    except json.JSONDecodeError as error:
        raise JsonTextError(f"it is not JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.lineno) from error
    except _ConstantError as error:
        name = str(error)
        raise JsonTextError(f"it is not JSON: {name} is no value", text.count("\n", 0, text.find(name)) + 1) from error
    except RecursionError as error:
        raise JsonTextError("it is nested too deeply", 1) from error


def line_of(text: str, node: Node) -> int:
    """The line on which a value begins, 1-based."""
    return text.count("\n", 0, node.open) + 1


def appended(text: str, node: Node, value: Any, *, key: str | None = None) -> str:
    """The text with one more entry at the end of an array or object, laid out as what stands there."""
    items = node.items or ()
    newline = "\r\n" if "\r\n" in text else "\n"
    if items:
        indent = _indent_before(text, items[-1].start)
        if indent is None:
            gap = " " if ", " in text or '": ' in text else ""
            return f"{text[: items[-1].end]},{gap}{_rendered(value, key, None, gap)}{text[items[-1].end :]}"
        shown = _rendered(value, key, _unit(text), " ").replace("\n", newline + indent)
        return f"{text[: items[-1].end]},{newline}{indent}{shown}{text[items[-1].end :]}"
    whole = text.removeprefix(_BOM).strip()
    if "\n" not in whole and len(whole) > node.end - node.open:
        gap = " " if ", " in text or '": ' in text else ""
        return f"{text[: node.open + 1]}{_rendered(value, key, None, gap)}{text[node.end - 1 :]}"
    outer = _line_indent(text, node.start)
    inner = newline + outer + _unit(text)
    shown = _rendered(value, key, _unit(text), " ").replace("\n", inner)
    return f"{text[: node.open + 1]}{inner}{shown}{newline}{outer}{text[node.end - 1 :]}"


def without(text: str, node: Node, item: Node) -> str:
    """The text without one entry of an array or object, and without the comma that it needed."""
    items = node.items or ()
    at = next(index for index, each in enumerate(items) if each.start == item.start)
    if len(items) == 1:
        return text[: node.open + 1] + text[node.end - 1 :]
    if at:
        return text[: items[at - 1].end] + text[item.end :]
    return text[: item.start] + text[items[1].start :]


def replaced(text: str, item: Node, value: Any) -> str:
    """The text with another value in the place of one."""
    indent = _indent_before(text, item.start)
    newline = "\r\n" if "\r\n" in text else "\n"
    if indent is None:
        shown = _rendered(value, None, None, " ")
    else:
        shown = _rendered(value, None, _unit(text), " ").replace("\n", newline + indent)
    return text[: item.open] + shown + text[item.end :]


def _rendered(value: Any, key: str | None, unit: str | None, gap: str) -> str:
    separators = (",", ": ") if unit is not None else (f",{gap}", f":{gap}")
    shown = json.dumps(value, ensure_ascii=False, indent=unit, separators=separators)
    return shown if key is None else f"{json.dumps(key, ensure_ascii=False)}{separators[1]}{shown}"


def _unit(text: str) -> str:
    """What one level is indented by."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _indent_before(text: str, at: int) -> str | None:
    """The blanks before a position, if it is the first on its line."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if not before.strip(" \t") and "\n" in text[:at] else None


def _line_indent(text: str, at: int) -> str:
    """The blanks at the beginning of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _no_constant(name: str) -> NoReturn:
    raise _ConstantError(name)


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> Node:
    """The value that begins at a position of a text that is known to be JSON."""
    if text[at] == "{":
        items = tuple(_entries(text, at, is_object=True))
        keys = [str(item.key) for item in items]
        twice = next((item for index, item in enumerate(items) if item.key in keys[:index]), None)
        if twice:
            raise JsonTextError(f"the key {twice.key!r} occurs twice", text.count("\n", 0, twice.start) + 1)
        value = {item.key: item.value for item in items}
        return Node(at, at, _close(text, at, items), value, items=items)
    if text[at] == "[":
        items = tuple(_entries(text, at, is_object=False))
        return Node(at, at, _close(text, at, items), [item.value for item in items], items=items)
    if text[at] == '"':
        string, end = _DECODER.raw_decode(text, at)
        return Node(at, at, end, string)
    found = _SCALAR.match(text, at)
    end = found.end() if found else at
    return Node(at, at, end, json.loads(text[at:end]))


def _entries(text: str, at: int, *, is_object: bool) -> Iterator[Node]:
    at = _blank(text, at + 1)
    while text[at] not in "]}":
        start, key = at, None
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _blank(text, _blank(text, at) + 1)
        node = _value(text, at)
        yield Node(start, node.open, node.end, node.value, key, node.items)
        at = _blank(text, node.end)
        if text[at] == ",":
            at = _blank(text, at + 1)


def _close(text: str, at: int, items: tuple[Node, ...]) -> int:
    return _blank(text, items[-1].end if items else at + 1) + 1
