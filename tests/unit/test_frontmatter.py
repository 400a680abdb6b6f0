"""Front matter: what is read, what is refused with which line, and what an edit leaves alone."""

import re

import pytest

from agent_infra.core.frontmatter import has_front_matter, parse_front_matter, render_scalar, set_fields
from agent_infra.errors import ErrorCode, RefusedError


def flat(yaml: str) -> dict[str, str]:
    return parse_front_matter(f"---\n{yaml}---\nbody\n".encode(), flat=True).fields


def nested(yaml: str) -> object:
    return parse_front_matter(f"---\n{yaml}---\n".encode(), flat=False).fields


def refused(data: bytes, *, is_flat: bool = True) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        parse_front_matter(data, flat=True) if is_flat else parse_front_matter(data, flat=False)
    assert caught.value.code is ErrorCode.TASK_DOCUMENT_INVALID
    return caught.value


@pytest.mark.parametrize(
    ("yaml", "fields"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("# only a comment\n\n", {}, id="comment and blank line"),
        pytest.param("id: TASK-20260101-120000\n", {"id": "TASK-20260101-120000"}, id="plain"),
        pytest.param(
            "a: 0123\nb: no\nc: 2026-01-01\nd: ~\ne: 1e3\n",
            dict(zip("abcde", ["0123", "no", "2026-01-01", "~", "1e3"], strict=True)),
            id="all is text",
        ),
        pytest.param("a:\nb: ''\nc:   # none\n", {"a": "", "b": "", "c": ""}, id="empty values"),
        pytest.param("a: 2026-01-01 12:00:00+00:00\n", {"a": "2026-01-01 12:00:00+00:00"}, id="colons inside"),
        pytest.param("a: b # c\nd: 'e # f'\n", {"a": "b", "d": "e # f"}, id="comments behind values"),
        pytest.param(
            "content: a\nhandler: b\nself: c\n",
            {"content": "a", "handler": "b", "self": "c"},
            id="names of the library",
        ),
        pytest.param('"true": a\n中文: b\n"": c\n', {"true": "a", "中文": "b", "": "c"}, id="quoted and Chinese keys"),
    ],
)
def test_flat_fields_are_text_as_it_is_written(yaml, fields):
    """No value turns into a number, a date or a truth value."""
    assert flat(yaml) == fields


def test_mark_and_crlf_are_understood():
    """A file from Windows reads as any other; the body begins after the closing fence."""
    found = parse_front_matter(b"\xef\xbb\xbf---\r\na: b\r\n\r\n---\r\nbody\r\n", flat=True)
    assert (found.fields, found.body) == ({"a": "b"}, 5)


def test_artifacts_may_nest():
    yaml = "subtasks:\n  - id: a\n    needs: [b, 1]\n    prompt: |\n      ```\n      x\n"
    assert nested(yaml) == {"subtasks": [{"id": "a", "needs": ["b", "1"], "prompt": "```\nx\n"}]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", 'line 1: front matter opens with "---"', id="empty file"),
        pytest.param(b"# title\n", "line 1: front matter opens with", id="missing fence"),
        pytest.param(b"\n---\na: b\n---\n", "line 1: front matter opens with", id="blank line first"),
        pytest.param(b"--- \na: b\n---\n", "line 1: front matter opens with", id="blank behind the fence"),
        pytest.param(b"----\na: b\n----\n", "line 1: front matter opens with", id="four dashes"),
        pytest.param(b"+++\na = 1\n+++\n", "line 1: front matter opens with", id="TOML"),
        pytest.param(b'{\n"a": 1\n}\n', "line 1: front matter opens with", id="JSON"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbf---\na: b\n---\n", "line 1: front matter opens with", id="two marks"),
        pytest.param(b"---\na: b\n", "line 1: .*never closed", id="unclosed"),
        pytest.param(b"---\na: b\n--- \n", "line 1: .*never closed", id="closing fence with a blank"),
        pytest.param(b"<<<<<<< HEAD\n---\n", "line 1: a conflict marker", id="conflict before"),
        pytest.param(b"---\na: b\n<<<<<<< HEAD\nc: d\n---\n", "line 3: a conflict marker", id="conflict"),
        pytest.param(b"---\na: b\na: c\n---\n", 'line 3: the key "a" is there twice', id="repeated key"),
        pytest.param(b"---\na: b\n'a': c\n---\n", 'line 3: the key "a" is there twice', id="repeated in quotes"),
        pytest.param(b"---\na: &x b\n---\n", "line 2: an anchor", id="anchor"),
        pytest.param(b"---\na: &x\n---\n", "line 2: an anchor", id="anchor of nothing"),
        pytest.param(b"---\na: *x\n---\n", "line 2: an anchor", id="alias"),
        pytest.param(b"---\na: !!str b\n---\n", "line 2: a tag", id="tag"),
        pytest.param(b"---\na: ! b\n---\n", "line 2: a tag", id="tag without a name"),
        pytest.param(b"---\na: !!python/object:os.system b\n---\n", "line 2: a tag", id="Python tag"),
        pytest.param(b"---\n1: b\n---\n", "line 2: a key that is not text", id="number as key"),
        pytest.param(b"---\na: b\nyes: b\n---\n", "line 3: a key that is not text", id="truth value as key"),
        pytest.param(b"---\n<<: b\n---\n", "line 2: a key that is not text", id="merge key"),
        pytest.param(b"---\n[a]: b\n---\n", "line 2: a key that is not text", id="list as key"),
        pytest.param(b"---\na: b\n  c\n---\n", "line 3: an indented line", id="indented"),
        pytest.param(b"---\na:\n\tb\n---\n", "line 3: an indented line", id="tab"),
        pytest.param(b"---\na: [b]\n---\n", 'line 2: the field "a" is not one line of text', id="list"),
        pytest.param(b"---\na: {b: c}\n---\n", 'line 2: the field "a" is not one line of text', id="mapping"),
        pytest.param(b"---\n{a: b}\n---\n", 'line 2: the field "a" is not one line of text', id="braces around all"),
        pytest.param(b'---\na: "b\nc: d"\n---\n', 'line 2: the field "a" is not one line of text', id="open quote"),
        pytest.param(b"---\na: |\n---\n", 'line 2: the field "a" is not one line of text', id="block"),
        pytest.param(b"---\n- a: b\n---\n", "line 2: front matter is lines of", id="list at the root"),
        pytest.param(b"---\njust words\n---\n", "line 2: front matter is lines of", id="text at the root"),
        pytest.param(b"---\na: b\nc\n---\n", "line [34]: not YAML", id="line without a colon"),
        pytest.param(b"---\na: b\n...\nc: d\n---\n", "line [34]: not YAML", id="end of a document"),
        pytest.param(b"---\na: 'b\n---\n", "line .: not YAML", id="quote never closed"),
        pytest.param(b'---\na: "\\UFFFFFFFF"\n---\n', "line 2: not YAML: a number", id="escape out of range"),
        pytest.param(b'---\na: "\\ud800"\n---\n', "line 2: an escape for half", id="half a character"),
        pytest.param(b"---\na: b\nc: \x00\n---\n", r"line 3: the character U\+0000", id="NUL"),
        pytest.param("---\na: b\u2028c: d\n---\n".encode(), r"line 2: the character U\+2028", id="line separator"),
        pytest.param(b"---\na: b\rc: d\n---\n", r"line 2: the character U\+000D", id="lone CR"),
        pytest.param(b"---\na: \xff\n---\n", "line 2: byte 7", id="not UTF-8"),
        pytest.param(
            b"---\na: " + b"b" * 70_000 + b"\n---\n", "line 1: front matter of 70005 characters", id="too long"
        ),
    ],
)
def test_what_is_not_flat_front_matter_is_refused_with_its_line(data, message):
    """The library would crash on some of these and read others as nothing at all."""
    refusal = refused(data)
    assert refusal.message.startswith("line ")
    assert re.search(message, refusal.message), refusal.message


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        pytest.param("a:\n  b: c\n  b: d\n", 'line 4: the key "b"', id="repeated key inside"),
        pytest.param("a: b\nc: d\na: e\n", 'line 4: the key "a"', id="repeated key"),
        pytest.param("a: [&x b, *x]\n", "line 2: an anchor", id="anchor inside"),
        pytest.param("a:\n  - !!int 1\n", "line 3: a tag", id="tag inside"),
        pytest.param("a:\n  1.5: c\n", "line 3: a key that is not text", id="number as key inside"),
        pytest.param("a: " + "[" * 16 + "]" * 16 + "\n", "line 2: nested deeper than 16", id="deep"),
        pytest.param("a: " + "[" * 20_000 + "\n", "line 2: nested deeper than 16", id="very deep"),
    ],
)
def test_nested_front_matter_is_as_strict(yaml, message):
    assert message in refused(f"---\n{yaml}---\n".encode(), is_flat=False).message


def test_sixteen_levels_are_read():
    assert nested("a: " + "[" * 15 + "]" * 15 + "\n")


@pytest.mark.parametrize(
    ("data", "there"),
    [
        (b"---\na: b\n---\n", True),
        (b"\xef\xbb\xbf---\r\n", True),
        (b"--- \n", True),
        (b"----\n", False),
        (b"# x\n---\n", False),
    ],
)
def test_a_first_line_of_three_dashes_means_front_matter(data, there):
    assert has_front_matter(data) is there


EDITED = b"""\xef\xbb\xbf---\r
# who and what\r
id: "a"   # the id\r
status:active: x\r
\r
branch:   # none yet\r
"owner" :  'me'\r
\r
---\r
# Title\r
---\r
text without an end"""


def test_an_edit_keeps_every_other_byte():
    """Comments, order, quotes of untouched values, mark, CRLF, blank lines and a missing last line end survive."""
    edited = set_fields(EDITED, {"id": "b", "branch": "x", "new": "a: b", "owner": "me"}, ["status:active"][:0])
    assert edited == (
        EDITED.replace(b'id: "a"   #', b"id: b   #")
        .replace(b"branch:   # none yet", b"branch: x   # none yet")
        .replace(b"'me'\r\n", b"'me'\r\nnew: 'a: b'\r\n")
    )


def test_the_same_values_change_nothing():
    assert set_fields(EDITED, {"id": "a", "branch": ""}) == EDITED


def test_a_field_can_be_emptied_and_removed():
    """Emptying keeps the comment, removing takes the whole line; an absent key is no fault."""
    edited = set_fields(EDITED, {"id": ""}, ["branch", "absent"])
    assert edited == EDITED.replace(b'id: "a"   #', b"id:   #").replace(b"branch:   # none yet\r\n", b"")


def test_front_matter_that_is_empty_gets_its_first_field():
    assert set_fields(b"---\n---\n", {"a": "b", "c": ""}) == b"---\na: b\nc:\n---\n"


@pytest.mark.parametrize(
    ("changes", "remove"),
    [
        pytest.param({"": "a"}, [], id="empty key"),
        pytest.param({"a:b": "c"}, [], id="colon in a key"),
        pytest.param({"a\nb": "c"}, [], id="line end in a key"),
        pytest.param({"a": "b\nid: c"}, [], id="line end in a value"),
        pytest.param({"a": "b\rc"}, [], id="CR in a value"),
        pytest.param({"a": "\ud800"}, [], id="half a character"),
        pytest.param({"- a": "b"}, [], id="key that opens a list"),
        pytest.param({"# a": "b"}, [], id="key that is a comment"),
        pytest.param({"1": "b"}, [], id="key that is a number"),
        pytest.param({" a": "b"}, [], id="indented key"),
        pytest.param({"'a'": "b"}, [], id="key that would lose its quotes"),
        pytest.param({"a": "b" * 70_000}, [], id="more than is read"),
        pytest.param({"id": "b"}, ["id"], id="set and removed"),
        pytest.param({}, ["id", "id"], id="removed twice"),
        pytest.param({}, ["a\r"], id="odd key removed"),
    ],
)
def test_a_request_that_cannot_be_written_is_refused(changes, remove):
    with pytest.raises(RefusedError) as caught:
        set_fields(b"---\nid: a\n---\n", changes, remove)
    assert caught.value.code is ErrorCode.MUTATION_INVALID


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"a": "d"}, ErrorCode.MUTATION_INVALID), ({"z": "d"}, ErrorCode.TASK_DOCUMENT_INVALID)],
)
def test_a_repeated_key_is_never_edited(changes, code):
    """Whoever touches it is told so; whoever does not learns that the document is faulty."""
    with pytest.raises(RefusedError) as caught:
        set_fields(b"---\na: b\nx: y\na: c\n---\n", changes)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain words", "plain words"),
        ("2026-01-01 12:00:00+00:00", "2026-01-01 12:00:00+00:00"),
        ("7", "7"),
        ("", ""),
        ("a: b", "'a: b'"),
        ("a # b", "'a # b'"),
        (" a", "' a'"),
        ("it's 1", "it's 1"),
        ("it's #1", "'it''s #1'"),
        ("'a'", "'''a'''"),
        ("&a", "'&a'"),
        ("|", "'|'"),
        ('a\u2028"\\', '"a\\U00002028\\"\\\\"'),
        ("\x07", '"\\U00000007"'),
    ],
)
def test_a_value_is_quoted_only_where_needed(value, text):
    assert render_scalar(value) == text
