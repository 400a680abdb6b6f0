"""Tables for people: aligned whatever the script of the words, cut to a terminal, whole and plain anywhere else.

The width of a character is asked of `rich`; the lines are laid out here, since its tables would take seconds for ten
thousand rows.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import click

_GAP = "  "
_JOINERS = "\u200c\u200d"  # they hold an emoji together; every other unprintable character is shown as ?


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        least: how narrow it may become on a terminal before others are left out; 0 for a column that is never cut.
        drop: columns go from the highest to the lowest of these when even cutting does not help; 0 stays.
        colour: says in which colour a cell is shown, None for none.
    """

    name: str
    least: int = 0
    drop: int = 0
    right: bool = False
    colour: Callable[[str], str | None] | None = None


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none, and nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def is_coloured() -> bool:
    """Whether colours are wanted on stdout."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plain(text: str) -> str:
    """A text of others on one line, without what would move a cursor or turn the line around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else " " if c in "\t\n\r" else "?" for c in text)


def cell_width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int) -> str:
    """A text within `width` cells; what does not fit is cut and marked."""
    if cell_width(text) <= width:
        return text
    if width < 2:
        return "…"[:width]
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…"


def render_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], *, width: int | None = None, coloured: bool = False
) -> list[str]:
    """The lines of a table, its head first.

    Args:
        width: cells of the terminal; nothing is cut or left out where it is None.
    """
    cells = [[_Cell(text := plain(cell), cell_width(text)) for cell in row] for row in rows]
    head = [_Cell(column.name, len(column.name)) for column in columns]
    widths = [max(cell.width for cell in column) for column in zip(head, *cells, strict=True)]
    kept = list(range(len(columns)))
    if width is not None:
        kept, widths = _squeezed(columns, widths, width)
    shown = [_Shown(columns[i], widths[i], i) for i in kept]
    top = _line(shown, head, coloured=False)
    lines = [click.style(top, bold=True) if coloured else top]
    return lines + [_line(shown, row, coloured=coloured) for row in cells]


class _Cell(NamedTuple):
    """A text and how many cells of a terminal it takes."""

    text: str
    width: int


class _Shown(NamedTuple):
    """A column that there is room for; `place` is its place in a row."""

    column: Column
    width: int
    place: int


def _squeezed(columns: Sequence[Column], widths: list[int], width: int) -> tuple[list[int], list[int]]:
    """Which columns are shown, and how wide each is."""
    kept = list(range(len(columns)))
    while True:
        over = sum(widths[i] for i in kept) + len(_GAP) * (len(kept) - 1) - width
        spare = {i: widths[i] - columns[i].least for i in kept if 0 < columns[i].least < widths[i]}
        last = max((i for i in kept if columns[i].drop), key=lambda i: columns[i].drop, default=None)
        if over <= sum(spare.values()) or last is None:
            break
        kept.remove(last)
    narrow = list(widths)
    for i in sorted(spare):
        cut = max(0, min(over, spare[i]))
        narrow[i] -= cut
        over -= cut
    if over > 0 and spare:  # a very narrow terminal: the last column that may be cut gives what is left
        narrow[max(spare)] = max(1, narrow[max(spare)] - over)
    return kept, narrow


def _line(shown: Sequence[_Shown], row: Sequence[_Cell], *, coloured: bool) -> str:
    parts = []
    for column, width, place in shown:
        text, size = row[place]
        if size > width:
            text = fit(text, width)
            size = cell_width(text)
        blank = " " * (width - size)
        colour = column.colour(text) if coloured and column.colour else None
        text = click.style(text, fg=colour) if colour else text
        parts.append(blank + text if column.right else text + blank)
    return _GAP.join(parts).rstrip()
