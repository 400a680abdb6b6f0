"""`agent-infra evidence`: what is known about how tasks were done, taken elsewhere, brought from there, shown."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent_infra.cli.refs import TASK, json_option, task_argument
from agent_infra.cli.render import say, say_json, tell
from agent_infra.cli.table import Column, is_coloured, render_table, terminal_width
from agent_infra.errors import AgentInfraError

if TYPE_CHECKING:
    from agent_infra.core.chain import Link
    from agent_infra.core.receipts import Receipt
    from agent_infra.services.context import Context
    from agent_infra.services.proof.showing import Shown
    from agent_infra.services.proof.travel import Journey

_EXIT_FAILED = 1


@click.group()
def evidence() -> None:
    """Take the evidence of runs to another repository, bring it from there, show it.

    It holds the documents of tasks, which git ignores: it leaves this repository on request only.
    """


_remote = click.argument("remote", metavar="[REMOTE]", required=False)
_tasks = click.option(
    "--task", "-t", "tasks", metavar="TASK", type=TASK, multiple=True, help="Only this task; may be repeated."
)


@evidence.command()
@_remote
@_tasks
@json_option
@click.pass_obj
def push(repo: Path, remote: str | None, tasks: tuple[str, ...], as_json: bool) -> int:
    """Publish the evidence of the runs here: journals, task.md and artifacts, readable for all who read REMOTE.

    REMOTE may be left out where there is one only. Evidence that REMOTE has is only ever added to.
    """
    from agent_infra.services.proof import travel

    def act() -> "Journey":
        context, wanted = _asked(repo, tasks)
        to = travel.choose(context.repo, remote, os.environ)
        return travel.push(context.repo, to, travel.own(context.repo, wanted))

    return _travelled(act, _pushed, as_json=as_json)


@evidence.command()
@_remote
@_tasks
@json_option
@click.pass_obj
def fetch(repo: Path, remote: str | None, tasks: tuple[str, ...], as_json: bool) -> int:
    """Bring the evidence that REMOTE has, for `verify` and `evidence show`.

    It is kept apart, in refs/agent-infra/remotes, and stands for no run of this repository. REMOTE may be left out
    where there is one only.
    """
    from agent_infra.services.proof import travel

    def act() -> "Journey":
        context, wanted = _asked(repo, tasks)
        return travel.fetch(context.repo, travel.choose(context.repo, remote, os.environ), wanted)

    return _travelled(act, _fetched, as_json=as_json)


def _asked(repo: Path, tasks: Sequence[str]) -> tuple["Context", tuple[str, ...]]:
    """The repository, and the full ids of the tasks."""
    from agent_infra.core.tasks import TASK_ID
    from agent_infra.services.context import open_context

    context = open_context(repo)
    named = (task if TASK_ID.fullmatch(task) else context.resolve(task).task_id for task in tasks)
    return context, tuple(dict.fromkeys(named))


def _travelled(act: Callable[[], "Journey"], words: Callable[["Journey"], Sequence[str]], *, as_json: bool) -> int:
    try:
        journey = act()
    except AgentInfraError as error:
        return _failed(error, {"remote": None, "changed": [], "unchanged": [], "ahead": []}, as_json=as_json)
    if as_json:
        facts = {"remote": journey.place, "changed": list(journey.moved), "unchanged": list(journey.same)}
        say_json({"status": "ok", **facts, "ahead": list(journey.ahead), "error": None})
    else:
        say(*words(journey))
    return 0


def _failed(error: AgentInfraError, facts: Mapping[str, object], *, as_json: bool) -> int:
    if as_json:
        say_json({"status": "failed", **facts, "error": {"code": str(error.code), "message": error.message}})
    tell(f"agent-infra: {error.message} [{error.code}]", *error.notes)
    return _EXIT_FAILED


def _pushed(journey: "Journey") -> list[str]:
    lines = [f"pushed the evidence of {task} to {journey.place}" for task in journey.moved]
    lines += [f"{journey.place} has newer evidence of {task} than this repository" for task in journey.ahead]
    return lines or [f"{journey.place} has all evidence of this repository"]


def _fetched(journey: "Journey") -> list[str]:
    lines = [f"fetched the evidence of {task} from {journey.place}" for task in journey.moved]
    return lines or [f"{journey.place} has no evidence that was not known here"]


_CHAIN = (
    Column("EVIDENCE"),
    Column("AT", drop=2),
    Column("LINES", right=True),
    Column("STEP", least=12),
    Column("WHO", least=12, drop=1),
    Column("WHAT", least=12),
)


@evidence.command()
@task_argument
@json_option
@click.pass_obj
def show(repo: Path, task: str, as_json: bool) -> int:
    """Print how TASK was done: every evidence commit, the steps in it, who did them, and the digests.

    The evidence may be that of a run here or of another repository, once it was fetched.
    """
    from agent_infra.services.proof import showing

    try:
        found = showing.show(repo, task)
    except AgentInfraError as error:
        return _failed(error, {"task": task, "commits": []}, as_json=as_json)
    if as_json:
        say_json(found.to_json())
    else:
        _show(found)
    return 0


def _show(found: "Shown") -> None:
    run = found.run
    say(f"{found.task_id}: run {run.run_id}, {run.status}, {run.flow} flow, on {run.branch or 'a detached HEAD'}")
    say(*(f"{ref} {oid[:10]}" for ref, oid in found.refs.items()))
    if found.is_cut:
        say("older evidence was not fetched")
    rows = [row for link in found.links for row in _rows(link)]
    say(*render_table(_CHAIN, rows, width=terminal_width(), coloured=is_coloured()))
    say(f"journal: {found.links[-1].last} lines, the last has SHA-256 {found.links[-1].head}")


def _rows(link: "Link") -> list[tuple[str, ...]]:
    """The lines of one evidence commit: one for each step, each product commit, or what else happened."""
    parts = [(f"{each.stage} r{each.round}", _who(each), _what(each)) for each in link.steps]
    parts += [("committed", "", oid) for oid in link.recorded]
    if not parts:
        parts = [(", ".join(link.ops) or "nothing new", "", "")]
    if link.reasons:
        step, who, what = parts[-1]
        parts[-1] = (step, who, "; ".join(filter(None, (what, *link.reasons))))
    lines = f"{link.first}-{link.last}" if link.first < link.last else str(link.last)
    head = (link.commit[:10], link.at, lines)
    return [(*(head if number == 0 else ("", "", "")), *part) for number, part in enumerate(parts)]


def _who(receipt: "Receipt") -> str:
    return f"{receipt.role} {receipt.child_id or '-'} ({receipt.client}, {receipt.origin})"


def _what(receipt: "Receipt") -> str:
    digest = f" {receipt.artifact_digest[:12]}" if receipt.artifact_digest else ""
    status = "" if receipt.status == "consumed" else f" ({receipt.status})"
    return f"{receipt.artifact}{digest}{status}"
