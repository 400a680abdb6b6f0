"""`agent-infra init` and `uninstall`."""

import sys
from collections.abc import Callable
from pathlib import Path

import click

from agent_infra.cli.render import say, tell
from agent_infra.clients.setup import installing, planning, updating
from agent_infra.services.context import Context, open_context
from agent_infra.services.setup import install


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Only say what is missing; exit 1 if anything is.")
@click.option(
    "--client", "clients", multiple=True, metavar="C", help="An agent client to install for; may be repeated."
)
@click.option("--update", is_flag=True, help="Bring files of an earlier release up to date; your changes are merged.")
@click.option("--keep", multiple=True, metavar="PATH", help="With --update: leave this file as it is.")
@click.option("--take", multiple=True, metavar="PATH", help="With --update: take this release's text of this file.")
@click.pass_obj
def init(
    repo: Path,
    yes: bool,
    check: bool,
    clients: tuple[str, ...],
    update: bool,
    keep: tuple[str, ...],
    take: tuple[str, ...],
) -> int:
    """Install the git hooks, the project's settings, and what agents read.

    With --client also the agents, hooks and settings of claude-code, codex, gemini-cli or opencode. What is there
    already stays as it is. With --update what an earlier release installed is renewed: where you and the release
    changed the same lines, nothing is written, both are shown, and the exit code is 1.
    """
    if (keep or take) and not update:
        raise click.UsageError("--keep and --take say what --update may do; add --update")
    context = open_context(repo)
    choice = updating.Choice(keep, take) if update else None
    planned = _planned(context, clients, choice)
    missing = (
        *install.plan(context, program=install.this_program()).changes,
        *planning.in_short([change.says for change in planned.changes]),
    )
    if check:
        say(*(f"missing: {line}" for line in missing) if missing else ("everything is in place",))
        tell(*planned.kept)
        return 1 if missing else 0
    if missing and not yes:
        _ask(missing)
    _carry_out(context, planned, lambda: _planned(context, clients, choice))
    return 0


def _planned(context: Context, clients: tuple[str, ...], choice: updating.Choice | None) -> planning.Plan:
    return updating.plan_update(context, clients, choice) if choice else planning.plan(context, clients)


def _ask(missing: tuple[str, ...]) -> None:
    say("init would add:", *(f"  {line}" for line in missing))
    if not sys.stdin.isatty():
        raise click.UsageError("without a terminal, init needs --yes")
    click.confirm("go on?", abort=True, default=True)


def _carry_out(context: Context, planned: planning.Plan, again: Callable[[], planning.Plan]) -> None:
    if planned.changes:
        installing.refuse_while_pending(context)
    done = install.init(context, program=install.this_program())
    done = (*done, *installing.install(context, again))
    say(*(done or ("everything was in place",)))
    tell(*planned.kept)
    if not done:
        return
    tell("commit what was written, so that your team and linked worktrees have the same")
    tell(
        "the evidence of a run (refs/agent-infra/runs/*) holds documents that git ignores: task.md, artifacts and",
        "the journal; it is published on request only: `agent-infra evidence push`, or evidence.push = true",
    )
    guards = [guard.task_id for guard in context.runs.guards()]
    if guards and planned.changes:
        tell(f"{', '.join(guards)} is under way: until it is committed, what was written counts as its product")


@click.command()
@click.pass_obj
def uninstall(repo: Path) -> int:
    """Undo init: hooks and files as they were before."""
    context = open_context(repo)
    install.refuse_while_guarding(context)
    done = (*installing.uninstall(context), *install.uninstall(context))
    say(*(done or ("nothing was installed",)))
    return 0
