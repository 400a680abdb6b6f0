"""YAML as front matter may use it: mappings, lists and text, and nothing that two readers could take differently.

A handler for python-frontmatter on top of PyYAML's safe loader. Its import is slow, so `frontmatter` does it late.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

import yaml
from frontmatter.default_handlers import BaseHandler

from agent_infra.core.markdown import DocumentError, is_conflict_marker, is_unicode

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

MAX_DEPTH = 16
MAX_CHARACTERS = 64 * 1024
_TEXT_TAG = "tag:yaml.org,2002:str"
# YAML or its readers break lines at these, or drop them; we break lines at LF alone
_ODD_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029\ufeff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of the outermost mapping: its value is at `start:end` of the YAML text, its key on line `line`."""

    key: str
    line: int
    column: int
    start: int
    end: int
    value: Value
    one_line: bool


class StrictLoader(yaml.SafeLoader):
    """Composes nodes without anchors, aliases, tags and deep nests."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One node, refused before PyYAML could expand it."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise DocumentError(line, f'an anchor or alias "{event.anchor}"; write the value out')
        if getattr(event, "tag", None) is not None:
            raise DocumentError(line, f'a tag "{event.tag}"; only plain text, lists and mappings are read')
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise DocumentError(line, f"nested deeper than {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class StrictHandler(BaseHandler):
    """python-frontmatter's way to split a document, with our way to read what it split off.

    The text handed to `load` and `entries` begins with the line end of the opening fence, so that YAML counts lines as
    the file does.
    """

    FM_BOUNDARY = re.compile(r"^---\r?$", re.MULTILINE)
    START_DELIMITER = END_DELIMITER = "---"

    def load(self, fm: str) -> dict[str, Value]:
        """Read every field, nested ones too.

        Raises:
            DocumentError: TASK_DOCUMENT_INVALID with the line of the first fault.
        """
        fields: dict[str, Value] = {}
        for entry in self.entries(fm):
            if entry.key in fields:
                raise DocumentError(entry.line, f'the key "{entry.key}" is there twice; keep one')
            fields[entry.key] = entry.value
        return fields

    def entries(self, fm: str) -> tuple[Entry, ...]:
        """Find the fields of the outermost mapping in order, with repeated ones.

        Raises:
            DocumentError: TASK_DOCUMENT_INVALID with the line of the first fault.
        """
        _check_characters(fm)
        root = _compose(fm)
        if root is None:
            return ()
        if not isinstance(root, yaml.MappingNode):
            raise DocumentError(root.start_mark.line + 1, 'front matter is lines of "key: value"')
        return tuple(_entry(key, value) for key, value in root.value)


def _check_characters(fm: str) -> None:
    """Refuse what would be split into other lines than ours, and too much of it."""
    if len(fm) > MAX_CHARACTERS:
        raise DocumentError(1, f"front matter of {len(fm)} characters; at most {MAX_CHARACTERS} are read")
    for number, line in enumerate(fm.split("\n"), 1):
        if is_conflict_marker(line):
            raise DocumentError(number, f'a conflict marker "{line[:7]}"; finish the merge first')
    if odd := _ODD_BREAK.search(fm):
        raise DocumentError(_line_of(fm, odd.start()), f"the character U+{ord(odd[0]):04X}; lines end with LF or CRLF")


def _compose(fm: str) -> yaml.Node | None:
    """The one node of a text; None if it holds only blanks and comments."""
    try:
        loader = StrictLoader(fm)
        return loader.get_single_node()
    except yaml.reader.ReaderError as fault:
        character = fm[fault.position]
        raise DocumentError(_line_of(fm, fault.position), f"the character U+{ord(character):04X}") from fault
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        raise DocumentError(mark.line + 1 if mark else 1, f"not YAML: {fault.problem or fault.context}") from fault
    except (ValueError, OverflowError) as fault:  # PyYAML lets numbers of escapes and of directives through
        raise DocumentError(loader.get_mark().line + 1, "not YAML: a number out of range") from fault


def _entry(key: yaml.Node, value: yaml.Node) -> Entry:
    one_line = key.start_mark.line == value.end_mark.line and getattr(value, "style", None) not in ("|", ">")
    return Entry(
        key=_key(key),
        line=key.start_mark.line + 1,
        column=key.start_mark.column,
        start=value.start_mark.index,
        end=value.end_mark.index,
        value=_value(value),
        one_line=one_line,
    )


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag != _TEXT_TAG:
        raise DocumentError(node.start_mark.line + 1, "a key that is not text; put it into quotes")
    return _text(node)


def _value(node: yaml.Node) -> Value:
    """Text stays as it is written: `0123`, `no` and dates are not turned into something else."""
    if isinstance(node, yaml.ScalarNode):
        return _text(node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    fields: dict[str, Value] = {}
    for key_node, value in node.value:
        key = _key(key_node)
        if key in fields:
            raise DocumentError(key_node.start_mark.line + 1, f'the key "{key}" is there twice; keep one')
        fields[key] = _value(value)
    return fields


def _text(node: yaml.ScalarNode) -> str:
    text: str = node.value
    if not is_unicode(text):
        raise DocumentError(node.start_mark.line + 1, "an escape for half of a character")
    return text


def _line_of(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1
