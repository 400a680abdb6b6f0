"""`agent-infra init` and `uninstall`."""

import sys
from pathlib import Path

import click

from agent_infra.cli.render import say, tell
from agent_infra.core import clients
from agent_infra.services.context import open_context
from agent_infra.services.setup import install


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Only say what is missing; exit 1 if anything is.")
@click.option("--client", "client_ids", multiple=True, help="An agent client to install for; may be repeated.")
@click.pass_obj
def init(repo: Path, yes: bool, check: bool, client_ids: tuple[str, ...]) -> int:
    """Install the git hooks and the project's settings."""
    for client_id in client_ids:
        clients.client(client_id)
    context = open_context(repo)
    missing = install.plan(context, program=install.this_program()).changes
    if check:
        say(*(f"missing: {line}" for line in missing) if missing else ("everything is in place",))
        return 1 if missing else 0
    if missing and not yes:
        say("init would add:", *(f"  {line}" for line in missing))
        if not sys.stdin.isatty():
            raise click.UsageError("without a terminal, init needs --yes")
        click.confirm("go on?", abort=True, default=True)
    done = install.init(context, program=install.this_program())
    say(*(done or ("everything was in place",)))
    if done:
        tell("commit .agents/ so that your team has the same settings")
    return 0


@click.command()
@click.pass_obj
def uninstall(repo: Path) -> int:
    """Undo init: hooks and files as they were before."""
    say(*(install.uninstall(open_context(repo)) or ("nothing was installed",)))
    return 0
