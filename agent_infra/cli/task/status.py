"""`agent-infra task status`: labels and words for people, one JSON line for programs."""

from collections.abc import Iterator
from pathlib import Path

import click

from agent_infra.cli.refs import json_option, named_once, one_task
from agent_infra.cli.render import say, say_json
from agent_infra.cli.table import is_coloured, plain
from agent_infra.core.lifecycle import left_out
from agent_infra.services.context import open_context
from agent_infra.services.tasks.current import find_task
from agent_infra.services.tasks.status import GitFacts, TaskStatus, task_status

_LABEL = 10
_COLOURS = {"gate": "yellow", "stale": "red", "fault": "red", "warning": "yellow", "command": "cyan"}


@click.command()
@one_task
@json_option
@click.pass_obj
def status(repo: Path, task: str | None, named: str | None, as_json: bool) -> int:
    """Where TASK stands: its run, the next step, the pending child, why the gate is shut, git, usage, what to do.

    Exit 1 when a part of it could not be read.
    """
    context = open_context(repo)
    found = task_status(context, find_task(context, named_once(task, named)))
    if as_json:
        say_json(found.to_json())
    else:
        say(*_lines(found, coloured=is_coloured()))
    return 1 if found.faults else 0


def _lines(found: TaskStatus, *, coloured: bool) -> Iterator[str]:
    short = f" (#{found.short_id})" if found.short_id else ""
    yield plain(f"{found.place.task_id}{short}  {found.seen.title}".rstrip())
    for label, words in _words(found):
        colour = _COLOURS.get(label) if coloured else None
        shown = label.ljust(_LABEL)
        yield (click.style(shown, fg=colour) if colour else shown) + plain(words)


def _words(found: TaskStatus) -> Iterator[tuple[str, str]]:
    fields = found.seen.fields
    named = ("current_step", "type", "priority", "assigned_to")
    about = [f"{name.replace('_', ' ')} {fields[name]}" for name in named if fields.get(name)]
    yield "task", ", ".join([found.place.state, *about])
    yield "flow", f"{found.flow}" + (f": leaves out {left_out(found.flow)}" if left_out(found.flow) else "")
    yield "run", _run(found)
    if found.route.step and not found.pending:
        step = found.route.step
        yield "next", f"{step.stage} round {step.round}, by the {step.role}"
    if found.pending:
        yield "pending", _pending(found)
    yield "gate", _gate(found)
    yield from (("", f"      {why}") for why in found.gate[1:])
    for label, lines in (("stale", found.stale), ("note", found.notes), ("warning", found.warnings)):
        yield from ((label, line) for line in lines)
    if found.artifacts:
        yield "documents", ", ".join(found.artifacts)
    if found.last_step:
        yield "log", found.last_step
    yield "git", _git(found.git)
    if found.usage:
        yield "usage", ", ".join(f"{name} {value:,}" for name, value in found.usage.items())
    yield from (("fault", line) for line in found.faults)
    if found.command:
        yield "command", found.command


def _gate(found: TaskStatus) -> str:
    if not found.gate:
        return "open"
    return f"shut: {found.gate[0]}" if found.is_guarded else found.gate[0]


def _run(found: TaskStatus) -> str:
    if found.state is None:
        return "none"
    run = found.state.run
    words = f"{'ended' if run.ended else run.status}, {run.step_count} of {run.max_steps} steps"
    if run.pause and run.status == "paused":
        words += f"; {run.pause.code}: {run.pause.message}"
    if run.commit_authorization.commit:
        words += f"; commit {run.commit_authorization.commit[:10]}"
    return words


def _pending(found: TaskStatus) -> str:
    receipt = found.pending
    if receipt is None:
        return ""
    child = f" {receipt.child_id}" if receipt.child_id else ""
    who = f"{receipt.role} of {receipt.client}{child}"
    return f"{receipt.stage} round {receipt.round}, {who}, {receipt.status} {_age(found.age(receipt))} ago"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _git(git: GitFacts) -> str:
    if git.changed is None:
        return "-"
    words = [f"branch {git.branch or '(detached)'}"]
    if git.matches is False:
        words[0] += f" (the task's is {git.expected})"
    words.append(f"{git.changed} changed path{'' if git.changed == 1 else 's'}")
    if git.upstream:
        words.append(f"{git.ahead or 0} ahead and {git.behind or 0} behind {git.upstream}")
    return ", ".join(words)
