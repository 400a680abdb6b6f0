"""Tables stay aligned, whatever the script of the words; only a terminal cuts them."""

import pytest

from agent_infra.cli.table import Column, cell_width, fit, plain, render_table

COLUMNS = (Column("ID"), Column("NAME", least=6), Column("STEP", least=4, drop=1), Column("N", right=True, drop=2))
ROWS = [("1", "修复 add()", "code", "10"), ("22", "a party 🎉👩‍💻", "analysis", "9"), ("3", "plain", "plan", "1,000")]


def starts(lines: list[str], word: str, cells: list[str]) -> set[int]:
    """At which cell of the terminal a column begins in each line."""
    return {cell_width(line[: line.index(cell)]) for line, cell in zip(lines, [word, *cells], strict=True)}


def test_columns_begin_at_the_same_cell() -> None:
    """Chinese takes two cells a character, an emoji of several characters two in all."""
    lines = render_table(COLUMNS, ROWS)
    assert starts(lines, "NAME", [row[1] for row in ROWS]) == {4}
    assert len(starts(lines, "STEP", [row[2] for row in ROWS])) == 1
    assert len({cell_width(line) for line in lines}) == 1  # the last column stands right


def test_nothing_is_cut_where_no_terminal_is() -> None:
    """A file gets every character, without colours and blanks at the ends."""
    long = "x" * 500
    lines = render_table((Column("ID"), Column("NAME", least=6, colour=lambda _: "red")), [("1", long)])
    assert lines == ["ID  NAME", f"1   {long}"]


@pytest.mark.parametrize("width", [60, 40, 30, 24, 14])
def test_a_terminal_cuts_what_may_be_cut_then_leaves_columns_out(width: int) -> None:
    """No line is wider than the terminal, and the columns that name a row are never cut."""
    lines = render_table(COLUMNS, ROWS, width=width)
    assert all(cell_width(line) <= width for line in lines)
    assert [line.split()[0] for line in lines] == ["ID", "1", "22", "3"]
    assert ("STEP" in lines[0]) == (width >= 24)


def test_what_is_cut_is_marked() -> None:
    """Half of a wide character is no character."""
    assert fit("修复修复", 8) == "修复修复"
    assert fit("修复修复", 7) == "修复修…"
    assert fit("修复修复", 6) == "修复…"
    assert (fit("abc", 2), fit("abc", 1), fit("abc", 0)) == ("a…", "…", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\x1b[2Jb", "a?[2Jb", id="an escape"),
        pytest.param("a\u202eb", "a?b", id="text that turns around"),
        pytest.param("a\nb\tc", "a b c", id="line end and tab"),
        pytest.param("👩‍💻", "👩‍💻", id="a joined emoji"),
        pytest.param("\udcff", "?", id="a byte that is no text"),
    ],
)
def test_words_of_others_do_not_move_the_cursor(text: str, shown: str) -> None:
    """What can't be printed is shown as a question mark."""
    assert plain(text) == shown


def test_colours_do_not_move_columns() -> None:
    """They come around a cell that has its width already."""
    column = Column("STATUS", colour={"active": "green"}.get)
    bare = render_table((column, Column("T")), [("active", "x"), ("odd", "y")])
    coloured = render_table((column, Column("T")), [("active", "x"), ("odd", "y")], coloured=True)
    assert coloured[1] == "\x1b[32mactive\x1b[0m  x"
    assert [line.replace("\x1b[1m", "").replace("\x1b[32m", "").replace("\x1b[0m", "") for line in coloured] == bare
