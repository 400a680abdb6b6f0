"""Which lines of a document are read."""

import pytest

from agent_infra.core.markdown import (
    DocumentError,
    body_line,
    check_no_conflict,
    decode,
    find_sections,
    is_unicode,
    read_document,
    read_heading,
    read_lines,
)
from agent_infra.errors import ErrorCode


def visible(text: str) -> list[str]:
    return [line.text for line in read_lines(text) if line.visible]


def test_lines_are_split_at_lf_alone_and_keep_their_ends():
    """A vertical tab, a lone CR and U+2028 are characters of a line; numbers start at 1."""
    text = "a\r\nb\vc\u2028d\re\n\nlast\r"
    lines = read_lines(text)
    assert [(line.number, line.text, line.eol) for line in lines] == [
        (1, "a", "\r\n"),
        (2, "b\vc\u2028d\re", "\n"),
        (3, "", "\n"),
        (4, "last\r", ""),
    ]
    assert "".join(line.text + line.eol for line in lines) == text


def test_an_empty_text_has_no_lines():
    assert read_lines("") == ()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param("a\n```\nb\n```\nc", ["a", "c"], id="backticks"),
        pytest.param("~~~ text\nb\n~~~\nc", ["c"], id="tildes with a word"),
        pytest.param("```a`b\nc", ["```a`b", "c"], id="backticks within a line are no fence"),
        pytest.param("~~~a`b\nc", [], id="tildes may be followed by a backtick"),
        pytest.param("``\na\n``", ["``", "a", "``"], id="two are too few"),
        pytest.param("    ```\na", ["    ```", "a"], id="four spaces make no fence"),
        pytest.param("   ```\na\n   ```  \nb", ["b"], id="three spaces do"),
        pytest.param("````\na\n```\nb\n`````\nc", ["c"], id="the end is at least as long"),
        pytest.param("```\na\n~~~\nb\n```\nc", ["c"], id="the end has the same character"),
        pytest.param("```\na\n``` x\nb", [], id="a word after the end is none, and an open fence hides the rest"),
        pytest.param("```\r\na\r\n```\r\nb\r\n", ["b"], id="CRLF"),
    ],
)
def test_fences_hide_what_is_inside(text, seen):
    """A fence hides itself and its content until it is closed as CommonMark closes it."""
    assert visible(text) == seen


def test_front_matter_is_hidden_and_opens_no_fence():
    """A value that looks like a fence hides nothing of the body."""
    lines = read_document(b"\xef\xbb\xbf---\r\nkey: x\r\n~~~: y\r\n---\r\n# Title\r\n")
    assert [line.text for line in lines if line.visible] == ["# Title"]


@pytest.mark.parametrize(
    ("text", "line"),
    [("---\na: b\n---\nx", 4), ("---\n---", 3), ("# x\n---\n", 1), ("---\na: b\n", 1), ("----\na\n---\n", 1), ("", 1)],
)
def test_the_body_begins_after_the_closing_fence(text, line):
    assert body_line(text) == line


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"a\nb\xff", "line 2: byte 3 is not UTF-8", id="stray byte"),
        pytest.param(b"\xef\xbb\xbf\xe9", "line 1: byte 3 is not UTF-8", id="Latin-1 after a mark"),
        pytest.param("ab".encode("utf-16"), "line 1: byte 0 is not UTF-8", id="UTF-16"),
        pytest.param(b"\xed\xa0\x80", "line 1: byte 0 is not UTF-8", id="half of a pair"),
    ],
)
def test_bytes_that_are_not_utf8_are_refused_by_place(data, message):
    with pytest.raises(DocumentError, match=message) as caught:
        decode(data)
    assert caught.value.code is ErrorCode.TASK_DOCUMENT_INVALID


def test_one_byte_order_mark_is_understood():
    assert decode(b"\xef\xbb\xbfa") == "a"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("## Design", (2, "Design")),
        ("   # x", (1, "x")),
        ("## Design ##  ", (2, "Design")),
        ("## C#", (2, "C#")),
        ("##", (2, "")),
        ("## ##", (2, "")),
        ("##\tx", (2, "x")),
        ("    ## x", None),
        ("##x", None),
        ("####### x", None),
        ("x", None),
        ("\\## x", None),
    ],
)
def test_headings_are_read_as_markdown_shows_them(text, found):
    assert read_heading(read_lines(text)[0]) == found


def test_a_hidden_heading_is_none():
    assert [read_heading(line) for line in read_lines("```\n## x\n```")] == [None, None, None]


def test_a_section_runs_to_the_next_visible_h2():
    """Smaller headings, H1 and fenced headings do not end it; other names are other sections."""
    lines = read_lines("## Design\na\n### b\n```\n## Plan\n```\n# c\n## Plan\nd\n## 设计\n")
    english, chinese = find_sections(lines, ("design", "设计"))
    assert [line.text for line in english.body] == ["a", "### b", "```", "## Plan", "```", "# c"]
    assert (english.last.text, chinese.body, chinese.last.text) == ("# c", (), "## 设计")


def test_a_section_may_end_at_an_h1():
    (section,) = find_sections(read_lines("## A\na\n\n# B\nb"), ("A",), stop_level=1)
    assert [line.text for line in section.body] == ["a", ""]
    assert section.last.text == "a"


@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", ">>>>>>> branch", "<<<<<<<", ">>>>>>>\r"])
def test_conflict_markers_are_refused_with_their_line(mark):
    with pytest.raises(DocumentError, match="line 2: a conflict marker"):
        check_no_conflict(read_lines(f"a\n{mark}\n"))


@pytest.mark.parametrize("text", ["```\n<<<<<<< HEAD\n```\n", " <<<<<<< HEAD", "<<<<<<<<<\n", "=======\n"])
def test_what_only_resembles_a_conflict_is_let_through(text):
    check_no_conflict(read_lines(text))


def test_half_a_character_is_not_unicode():
    assert is_unicode("a😀")
    assert not is_unicode("a\ud83d")


def test_a_document_of_too_many_lines_is_refused():
    """A file within the size limit may still hold millions of empty lines."""
    assert len(read_document(b"\n" * 250_000)) == 250_000
    with pytest.raises(DocumentError, match="line 250001: more than"):
        read_document(b"\n" * 250_001)
