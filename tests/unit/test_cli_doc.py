"""The help of every command: examples that its own parser takes, and docs/cli.md as the commands are."""

import importlib.util
import shlex
from pathlib import Path
from types import ModuleType

import click
import pytest

from agent_infra.cli.app import app
from agent_infra.cli.examples import EXAMPLES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script behind scripts/docs."""
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_up_to_date(generator: ModuleType) -> None:
    """A command, option or example that changed makes the page stale."""
    page = generator.CLI.read_text(encoding="utf-8")
    assert generator.cli_page() == page, "docs/cli.md is stale: run scripts/docs"


def test_every_command_shows_an_example(generator: ModuleType) -> None:
    """Groups too; and no example stands for a command that is not there."""
    helps = {words.removeprefix("agent-infra").strip(): text for words, text in generator.commands()}
    assert [words for words, text in helps.items() if "\n  Examples:\n    agent-infra " not in text] == []
    assert sorted(helps) == sorted(EXAMPLES)


@pytest.mark.parametrize("line", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_every_example_is_a_call_that_is_understood(line: str) -> None:
    """The parser of the command takes it: no option is misspelt, none is missing."""
    words = shlex.split(line, comments=True)
    ctx = click.Context(app, info_name="agent-infra")
    command: click.Command = app
    while isinstance(command, click.Group):
        found = command.get_command(ctx, words.pop(0))
        assert found is not None, line
        command = found
        ctx = click.Context(command, info_name=command.name, parent=ctx)
    command.make_context("example", words)


def test_the_examples_stand_under_their_own_command() -> None:
    """An example of a command that is no group begins with its words."""
    for words, lines in EXAMPLES.items():
        if words not in ("", "task", "orchestrate", "gate", "subtasks", "config"):
            assert all(line.startswith(words) for line in lines), words
