"""The quick look at a task.md says what the strict reader says, or leaves it to that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_infra.core.glance import GLANCE, glance, study

ID = "TASK-20260101-120000"
HEAD = f"---\nid: {ID}\ntype: bugfix\nbranch: fix/the-sum\nempty:\n---\n\n# The sum is wrong\n\n## Description\n"


def test_plain_front_matter_is_read_at_once() -> None:
    """Fields, an empty one too, and the title below."""
    found = glance(HEAD.encode(), ID)
    assert found is not None
    assert found.fields == {"id": ID, "type": "bugfix", "branch": "fix/the-sum", "empty": ""}
    assert (found.title, found.fault) == ("The sum is wrong", "")
    assert found == study(HEAD.encode(), ID)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("# a comment", id="a comment line"),
        pytest.param("", id="a blank line"),
        pytest.param("url: https://example.org/a#b", id="colon and number sign within words"),
        pytest.param("time: 2026-01-01 12:00:00+00:00", id="a time"),
        pytest.param("note: 名字 🎉 it's", id="other scripts, an apostrophe"),
        pytest.param("blanks:   three before and after   ", id="blanks around"),
        pytest.param("dash: a - b -c", id="dashes within"),
    ],
)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_what_is_plain_reads_as_the_strict_reader_has_it(line: str, eol: str) -> None:
    """The quick way is taken, and both ways agree."""
    data = HEAD.replace("empty:", line).replace("\n", eol).encode()
    found = glance(data, ID)
    assert found is not None
    assert found == study(data, ID)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("title: 'quoted'", id="quotes"),
        pytest.param('title: "quoted"', id="double quotes"),
        pytest.param("note: text # comment", id="a comment behind the value"),
        pytest.param("note: one: two", id="a second colon"),
        pytest.param("note: ends:", id="a colon at the end"),
        pytest.param("list: [a]", id="a list"),
        pytest.param("list:\n  - a", id="an indented line"),
        pytest.param("anchor: &a b", id="an anchor"),
        pytest.param("note: - x", id="a dash at the start"),
        pytest.param("type: docs", id="a repeated key"),
        pytest.param("yes: a", id="a key that YAML takes for a truth value"),
        pytest.param("key:value", id="no blank behind the colon"),
        pytest.param("<<<<<<< HEAD", id="a conflict marker"),
        pytest.param("note: a\tb", id="a tab"),
        pytest.param("note: a\x07b", id="a control character"),
        pytest.param("just words", id="no key"),
    ],
)
def test_what_is_more_than_plain_is_left_to_the_strict_reader(line: str) -> None:
    """Nothing is guessed."""
    assert glance(HEAD.replace("empty:", line).encode(), ID) is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"# no front matter\n", id="no front matter"),
        pytest.param(b"---\nid: x\n", id="never closed"),
        pytest.param(HEAD.replace("120000", "120001").encode(), id="another task's id"),
        pytest.param(HEAD.partition("# The")[0].encode(), id="the title lies further down"),
        pytest.param(HEAD.replace("# The", "# 任务：The").encode(), id="a label before the title"),
        pytest.param(HEAD.encode().replace(b"wrong", b"wr\xffng"), id="bytes that are no UTF-8"),
    ],
)
def test_what_can_not_be_told_from_the_first_bytes(data: bytes) -> None:
    """The whole file is read then."""
    assert glance(data[:GLANCE], ID) is None


def test_a_faulty_task_is_shown_with_its_fault() -> None:
    """A list must not fail because of one task."""
    found = study(b"nonsense", ID)
    assert (found.fields, found.title) == ({}, "")
    assert "front matter" in found.fault


ODD = st.text(alphabet=" :#-'\"[]{}&*!|>%@`,?ab~<.=\t\r\n_1é\xa0\u3000🎉", max_size=12)


@given(st.text(max_size=30) | ODD, st.text(max_size=30) | ODD)
def test_the_two_readers_never_disagree(value: str, title: str) -> None:
    """Whatever stands there: the quick reader says the same, or nothing."""
    data = HEAD.replace("empty:", f"empty: {value}").replace("The sum", title).encode(errors="replace")
    found = glance(data[:GLANCE], ID)
    assert found is None or found == study(data, ID)
