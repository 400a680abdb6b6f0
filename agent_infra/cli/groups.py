"""Groups of commands that import a command's module when the command is called, and the examples in their help."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from agent_infra.cli.examples import EXAMPLES

# command: module of agent_infra.cli, attribute, one line of help
Table = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported one by one."""

    def __init__(self, *args: Any, table: Table, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All command names."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now, with its examples."""
        if cmd_name not in self.table:
            return None
        module, attribute, _ = self.table[cmd_name]
        command: click.Command = getattr(import_module(f"agent_infra.cli.{module}"), attribute)
        show_examples(command, f"{_words_before(ctx)}{cmd_name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - same
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self.table.items()])


def show_examples(command: click.Command, name: str) -> None:
    """Put the examples of a command, and of those below it, at the end of their help."""
    lines = EXAMPLES.get(name)
    if lines:
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  agent-infra {line}".rstrip() for line in lines)
    if isinstance(command, click.Group) and not isinstance(command, LazyGroup):
        for below, inner in command.commands.items():
            show_examples(inner, f"{name} {below}")


def _words_before(ctx: click.Context) -> str:
    """The words of the groups above: `task ` within `agent-infra task`, nothing at the top."""
    words: list[str] = []
    here: click.Context | None = ctx
    while here and here.parent:
        words.insert(0, here.info_name or "")
        here = here.parent
    return "".join(f"{word} " for word in words)
