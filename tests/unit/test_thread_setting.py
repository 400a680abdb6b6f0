"""The number of children in Codex's settings."""

import tomllib

import pytest

from agent_infra.core.json_text import JsonTextError
from agent_infra.core.thread_setting import with_threads, without_threads


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('model = "x" # why\n', id="a key"),
        pytest.param('model = "x"', id="no line end"),
        pytest.param("[a]\r\nb = 1\r\n", id="CRLF"),
        pytest.param("# agents\n[ agents ] # ours\nother = 1\n[z]\n", id="the table is there"),
        pytest.param("[agents]\n", id="the table is there and empty"),
        pytest.param("[agents.x]\ny = 1\n", id="a table below it"),
        pytest.param("agents.other = 1\n[z]\nk = 2\n", id="a dotted key"),
        pytest.param('s = """\n[agents]\n"""\n', id="the table's name in a string"),
    ],
)
def test_it_is_put_in_and_taken_out(text: str) -> None:
    """Nothing else changes in meaning; a second time nothing at all; taken out, the bytes are those of before."""
    more = with_threads(text)
    said = tomllib.loads(more)
    assert said["agents"].pop("max_threads") == 12
    assert {key: value for key, value in said.items() if value or key in tomllib.loads(text)} == tomllib.loads(text)
    assert with_threads(more) == more
    left = without_threads(more, text)
    assert left is not None
    assert tomllib.loads(left) == tomllib.loads(text)
    assert left == text or not text.endswith("\n") or "agents." in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[agents]\nmax_threads = 3\n", id="fewer"),
        pytest.param("agents = { max_threads = 20 }\n", id="more, inline"),
        pytest.param("[agents]\nmax_concurrent_threads_per_session = 8\n", id="by its other name"),
    ],
)
def test_what_is_said_there_already_stays(text: str) -> None:
    assert with_threads(text) == text


def test_only_our_line_goes_from_a_table_that_others_use_since() -> None:
    more = with_threads("a = 1\n") + "max_depth = 2\n\n[z]\n"
    assert without_threads(more, "a = 1\n") == "a = 1\n\n[agents]\nmax_depth = 2\n\n[z]\n"


def test_what_somebody_changed_is_not_taken_out() -> None:
    text = with_threads("").replace("12", "20")
    assert without_threads(text, "") == text
    assert without_threads("agents = { max_threads = 12 }\n", "") is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a = 1\nb = \n", 2, id="a value is missing"),
        pytest.param("a = [\n", 2, id="cut"),
        pytest.param("x = 1\nagents = 3\n", 2, id="no table"),
    ],
)
def test_what_is_no_toml_is_named_with_its_line(text: str, line: int) -> None:
    with pytest.raises(JsonTextError) as caught:
        with_threads(text)
    assert caught.value.line == line
