"""`agent-infra completion SHELL`: the lines that a shell needs, made by click."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from agent_infra.cli.render import say

_VARIABLE = "_AGENT_INFRA_COMPLETE"
_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the lines that let SHELL complete commands, options and task ids.

    bash must be 4.4 or newer.
    """
    maker = _SHELLS[shell](ctx.find_root().command, {}, "agent-infra", _VARIABLE)
    say(maker.source().rstrip("\n"))
