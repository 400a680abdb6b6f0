"""What people add to a task: checks, rulings, validations by hand."""

import shlex
import sys
from pathlib import Path

import click

from agent_infra.cli.person import challenge, identity
from agent_infra.cli.refs import TASK
from agent_infra.cli.render import say, tell
from agent_infra.services import checks, rulings
from agent_infra.services.commands import TIMED_OUT
from agent_infra.services.context import open_context


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--timeout", type=click.FloatRange(min=0.1), default=checks.TIMEOUT, show_default=True, help="Seconds.")
@click.argument("ref", metavar="TASK", type=TASK)
@click.argument("command", metavar="-- COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def check(repo: Path, timeout: float, ref: str, command: tuple[str, ...]) -> int:
    """Run COMMAND on the product as it is, and keep how it ended as evidence of TASK's run.

    Exit 0 when it passed and left the product as it was, else 1.
    """
    command = command[1:] if command[0] == "--" else command
    if not command:
        raise click.UsageError("a command is missing after --")
    found = checks.check(open_context(repo), ref, command, write=_pass_on, timeout=timeout)
    tell(f"`{shlex.join(command)}` ended with {found.exit_code} after {found.seconds} s on tree {found.tree}; recorded")
    if found.exit_code == TIMED_OUT:
        tell(f"124 also means that it was stopped after {timeout} s: `--timeout` gives it more")
    if not found.counts:
        tell(f"it changed the product to tree {found.tree_after}, so it proves nothing: ignore what it writes")
    return 0 if found.passed else 1


def _one_line(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A result becomes a line of task.md and of the journal."""
    text = value.strip()
    if not text or not text.isprintable():
        raise click.BadParameter("expected one line of text")
    return text


@click.command()
@click.option("--item", required=True, metavar="ID|N", help="Id of the row, or its place among those that wait.")
@click.option("--result", required=True, callback=_one_line, help="What you decide; it stays on record.")
@click.argument("ref", metavar="TASK", type=TASK)
@click.pass_obj
def decide(repo: Path, item: str, result: str, ref: str) -> None:
    """Settle a row of TASK's ledger that waits for a person, at a terminal."""
    context = open_context(repo)
    row = rulings.find_row(context, ref, item)
    what = f"{row.severity} of {row.stage}, {row.status}"
    # a cell may hold anything, and it must not talk to the terminal
    challenge(f"task decide {row.id} ({''.join(filter(str.isprintable, what))})")
    word = rulings.Word(result, identity(context.repo))
    settled = rulings.decide(context, ref, item=row.id, word=word)
    say(f"{settled.subject} is {'' if settled.changed else 'already '}decided: {settled.written}")
    tell(*settled.notes)


@click.command("validate-manual")
@click.option("--result", required=True, callback=_one_line, help="What you did and found; it stays on record.")
@click.argument("ref", metavar="TASK", type=TASK)
@click.pass_obj
def validate_manual(repo: Path, result: str, ref: str) -> None:
    """Say that what the newest code review of TASK left to a person was validated by hand, at a terminal."""
    context = open_context(repo)
    left = rulings.find_left(context, ref)
    challenge(f"task validate-manual ({left.count} left by {left.review.name})")
    settled = rulings.validate(context, left, rulings.Word(result, identity(context.repo)))
    say(f"{settled.subject} is {'' if settled.changed else 'already '}validated by hand: {settled.written}")
    tell(*settled.notes)


def _pass_on(data: bytes) -> None:
    """Output of a command, as it came."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(data.decode(errors="replace"))
    else:
        binary.write(data)
    sys.stdout.flush()
