"""`agent-infra verify`: a table for people, one JSON line for programs."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from agent_infra.cli.render import say, tell
from agent_infra.core.history import Kind
from agent_infra.errors import UsageError
from agent_infra.services.proof.judging import Judged
from agent_infra.services.proof.verify import DEFAULT_RANGE, EXIT_INCOMPLETE, Report, Wish
from agent_infra.services.proof.verify import verify as check

_COLOURS = {Kind.VERIFIED: "green", Kind.WEAK: "yellow", Kind.ALLOWED: "yellow", Kind.UNRECEIPTED: "red"}
_NARROW = 40
_STEP = 500


@click.command()
@click.argument("range_", metavar="[RANGE]", required=False)
@click.option("--policy-from", metavar="REF", help="Take the rules from REF instead of the base of the range.")
@click.option("--evidence", metavar="OID", multiple=True, help="An evidence commit that no ref names yet; repeatable.")
@click.option("--branch", metavar="NAME", help="The branch that the commits are for, where RANGE does not say it.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON line.")
@click.pass_obj
def verify(
    repo: Path,
    range_: str | None,
    policy_from: str | None,
    evidence: tuple[str, ...],
    branch: str | None,
    as_json: bool,
) -> int:
    """Check how the commits of RANGE came about (default: @{upstream}..HEAD).

    Exit 0 when all is fine, 1 when a commit is broken or lacks a receipt that it needs, 2 when it could not be checked.
    """
    try:
        wish = Wish(range_, policy_from, evidence, branch)
        report = check(repo, wish, environment=os.environ, tick=_progress())
    except UsageError as error:
        if as_json:
            fault = {"code": str(error.code), "message": error.message}
            asked = {"status": "incomplete", "range": range_ or DEFAULT_RANGE, "policy": policy_from}
            _say_json({**asked, "counts": {}, "commits": [], "error": fault})
        tell(f"agent-infra: {error.message} [{error.code}]", *error.notes)
        return EXIT_INCOMPLETE
    if as_json:
        _say_json(report.to_json())
    else:
        _show(report)
    return report.exit_code


def _say_json(document: object) -> None:
    say(json.dumps(document, separators=(",", ":")))


def _progress() -> Callable[[int, int], None]:
    """Counts on stderr while somebody is looking."""
    if not sys.stderr.isatty():
        return lambda _done, _total: None

    def tick(done: int, total: int) -> None:
        if total > _STEP and (done % _STEP == 0 or done == total):
            click.echo(f"\r{done} of {total} commits", err=True, nl=done == total)

    return tick


def _show(report: Report) -> None:
    """One line for each commit, a second one where something is to be said, and the sum."""
    width = max(shutil.get_terminal_size().columns, _NARROW) if sys.stdout.isatty() else None
    column = max(len(str(one.verdict)) for one in report.commits)
    for one in report.commits:
        _show_one(one, min(column, 30), width)
    counts = ", ".join(f"{count} {kind}" for kind, count in report.counts.items())
    plural = "" if len(report.commits) == 1 else "s"
    say(f"{len(report.commits)} commit{plural}: {counts} (rules: {report.policy})")


def _show_one(one: Judged, column: int, width: int | None) -> None:
    verdict = str(one.verdict)
    lines = [f"{one.commit.oid[:10]}  {verdict.ljust(column)}  {_plain(one.commit.subject)}"]
    if one.verdict.detail and (one.claims or one.verdict.kind is not Kind.VERIFIED):
        lines.append(f"            {_plain(one.verdict.detail)}")
    # a fault is shown whole; only what is fine is cut to fit
    if width and one.passes:
        lines = [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]
    if width and "NO_COLOR" not in os.environ:
        colour = (
            _COLOURS.get(one.verdict.kind, "red") if not (one.passes and one.verdict.kind is Kind.UNRECEIPTED) else None
        )
        lines[0] = lines[0].replace(verdict, click.style(verdict, fg=colour), 1)
    say(*lines)


def _plain(text: str) -> str:
    """What a stranger wrote, without what would move a cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)
