"""Project settings: every key has a default, and what we don't know is named."""

import pytest

from agent_infra.core.config import DEFAULT_EXCLUDE, Config, parse_config
from agent_infra.errors import ErrorCode, RefusedError


def test_an_empty_file_is_the_defaults() -> None:
    """Nothing has to be set."""
    assert parse_config("") == Config()
    assert tuple(Config().snapshot.exclude) == DEFAULT_EXCLUDE
    assert (Config().task.short_id_length, Config().run.max_steps) == (2, 24)


def test_every_key_can_be_set() -> None:
    """A value that is set replaces its default, and no other."""
    text = "[snapshot]\nexclude = ['*.log']\n[task]\nshort_id_length = 3\n[run]\nmax_steps = 7\n"
    found = parse_config(text)
    assert (found.snapshot.exclude, found.task.short_id_length, found.run.max_steps) == (["*.log"], 3, 7)
    assert parse_config("[run]\nmax_steps = 7\n").task == Config().task


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("[run", "is not TOML", id="not TOML"),
        pytest.param("[run]\nmax_step = 3\n", "unknown key run.max_step; did you mean max_steps", id="near miss"),
        pytest.param("[run]\nzebra = 3\n", "unknown key run.zebra; known here: max_steps", id="unknown key"),
        pytest.param("[runs]\n", "unknown key runs; did you mean run", id="near section"),
        pytest.param("[zebra]\n", "unknown key zebra; known here: snapshot, task, run", id="unknown section"),
        pytest.param("[run]\nmax_steps = 0\n", "run.max_steps: .*, found 0", id="too small"),
        pytest.param("[run]\nmax_steps = '7'\n", "run.max_steps: .*, found '7'", id="a number in quotes"),
        pytest.param("[run]\nmax_steps = true\n", "run.max_steps: .*, found True", id="a boolean for a number"),
        pytest.param("[task]\nshort_id_length = 7\n", "task.short_id_length: .*, found 7", id="too large"),
        pytest.param("[snapshot]\nexclude = '*.log'\n", "snapshot.exclude: ", id="one pattern instead of a list"),
        pytest.param("run = 3\n", "run: ", id="a section that is none"),
        pytest.param("[gate]\ncheck_timeout = 0\n", "gate.check_timeout: .*, found 0", id="no time"),
        pytest.param("[gate]\ncheck_timeout = inf\n", "gate.check_timeout: ", id="time without end"),
        pytest.param("[gate]\ncheck_links = ['../up']\n", "below the worktree", id="a link to elsewhere"),
        pytest.param("[gate]\ncheck_links = ['/etc']\n", "below the worktree", id="an absolute link"),
        pytest.param("[gate]\ncheck_links = ['**/x']\n", "below the worktree", id="a search of everything"),
        pytest.param("[gate]\ncheck_links = ['.git/x']\n", "below the worktree", id="a link into the git dir"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    """The key is named, with what was found and the nearest known one."""
    with pytest.raises(RefusedError, match=words) as caught:
        parse_config(text)
    assert caught.value.code is ErrorCode.CONFIG_INVALID
    assert caught.value.message.startswith(".agents/config.toml")
