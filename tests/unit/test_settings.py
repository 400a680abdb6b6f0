"""The settings file as text: keys and values as TOML has them, one key changed and nothing else."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_infra.core.config import Config
from agent_infra.core.settings import flat, look_up, parse_key, parse_value, render_value, with_value
from agent_infra.errors import ErrorCode, RefusedError

FILE = '# mine\n[run]  # why\nmax_steps = 9 # nine\n\n[flow]\n"src/**" = "full" # all of it\n\n# the end\n'


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("run", ("run",)),
        ("run.max_steps", ("run", "max_steps")),
        ('flow."src/**"', ("flow", "src/**")),
        ("flow.'a.b'", ("flow", "a.b")),
        ("run . max_steps", ("run", "max_steps")),
    ],
)
def test_a_key_is_what_toml_says(key: str, parts: tuple[str, ...]) -> None:
    """What has more than letters, digits, dash and underscore in it stands in quotes."""
    assert parse_key(key) == parts


@pytest.mark.parametrize(
    "key", ["", ".", "run.", "flow.src/**", "a = 1 #", "a\nb", "[run]", "a = 1, b", 'a."', "a.b.=c"]
)
def test_what_is_no_key(key: str) -> None:
    """It is refused by name."""
    with pytest.raises(RefusedError, match="is no key") as caught:
        parse_key(key)
    assert caught.value.code is ErrorCode.CONFIG_INVALID


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", (7, "7")),
        ("true", (True, "true")),
        ('"7"', ("7",)),
        ("full", ("full",)),
        ('["a", "b"]', (["a", "b"], '["a", "b"]')),
        ("[a", ("[a",)),
        ("", ("",)),
        ("1\nb = 2", ("1\nb = 2",)),
    ],
)
def test_a_value_is_toml_else_text(text: str, values: tuple[object, ...]) -> None:
    """Where both are possible, the type of the key decides."""
    assert parse_value(text) == values


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        pytest.param("run.max_steps", 12, "max_steps = 9 #", "max_steps = 12 #", id="a number"),
        pytest.param('flow."src/**"', "standard", '"full" #', '"standard" #', id="a quoted key"),
    ],
)
def test_one_value_changes_and_nothing_else(key: str, value: object, old: str, new: str) -> None:
    """Comments and blanks stay."""
    edited, _ = with_value(FILE, parse_key(key), [value])
    assert edited == FILE.replace(old, new)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task.short_id_length", 3),
        ("verify.require.paths", ["src/**"]),
        ("gate.required_checks", ["pytest -q", "sh -c 'a && b'"]),
        ('flow."名字/**"', "full"),
        ("engines.sh.argv", ["sh", "-c", "true"]),
        ("subtasks.copy", [".env"]),
    ],
)
@pytest.mark.parametrize("text", ["", FILE, FILE.replace("\n", "\r\n"), "# no line end"])
def test_a_new_key_is_added_and_what_was_there_stays(text: str, key: str, value: object) -> None:
    """Sections that are missing are made; every line that was there is there still."""
    edited, config = with_value(text, parse_key(key), [value])
    assert look_up(config.model_dump(mode="json", by_alias=True), parse_key(key)) == value
    lines = edited.splitlines()
    assert [line for line in text.splitlines() if line not in lines] == []


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        pytest.param("run.max_steps", 0, "greater than or equal to 1", id="too small"),
        pytest.param("run.max_steps", "7", "valid integer", id="a number in quotes"),
        pytest.param("run.max_step", 7, "did you mean max_steps", id="a slip of the pen"),
        pytest.param("runs.max_steps", 7, "did you mean run", id="an unknown section"),
        pytest.param("run", 7, "run", id="a section that is none"),
        pytest.param("flow.src", "fast", "flow.src", id="no such flow"),
        pytest.param('flow."!src"', "full", "no pattern", id="a pattern that takes back"),
        pytest.param('flow."/"', "full", "no pattern", id="a pattern of nothing"),
        pytest.param("run.max_steps.more", 7, "can't be set", id="below a value"),
        pytest.param("gate.required_checks", ["a 'b"], "required_checks", id="a command that can't be split"),
    ],
)
def test_a_value_that_a_key_does_not_take(key: str, value: object, words: str) -> None:
    """The key is named; the caller has no text to write then."""
    with pytest.raises(RefusedError, match=words) as caught:
        with_value(FILE, parse_key(key), [value])
    assert caught.value.code is ErrorCode.CONFIG_INVALID


def test_a_file_that_is_not_toml_is_not_edited() -> None:
    """Nor one whose other keys are wrong: the fault is named."""
    for text in ("[run", "[run]\nmax_step = 3\n"):
        with pytest.raises(RefusedError):
            with_value(text, ("task", "short_id_length"), [3])


def test_the_key_decides_between_toml_and_text() -> None:
    """`config set subtasks.engine 5` means an engine named 5."""
    edited, config = with_value("", ("subtasks", "engine"), parse_value("5"))
    assert config.subtasks.engine == "5"
    assert edited == '[subtasks]\nengine = "5"\n'


def test_what_is_shown_may_be_copied_into_the_file() -> None:
    """Every line of `config show` is TOML, and together they are the settings."""
    settings = Config().model_dump(mode="json", by_alias=True)
    text = "\n".join(f"{key} = {render_value(value)}" for key, value in flat(settings))
    assert tomllib.loads(text) == settings


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8) | st.lists(st.integers(0, 9), max_size=3)))
def test_flat_keys_and_values_are_read_back(settings: dict[str, object]) -> None:
    """Whatever the names are."""
    text = "\n".join(f"{key} = {render_value(value)}" for key, value in flat({"flow": settings}))
    assert tomllib.loads(text) == {"flow": settings}
