"""`agent-infra task show`, `files`, `cat` and `log`: one task, as it lies there."""

from pathlib import Path

import click

from agent_infra.cli.refs import json_option, named_once, one_task
from agent_infra.cli.render import say, say_bytes, say_json
from agent_infra.cli.table import Column, is_coloured, render_table, terminal_width
from agent_infra.core.tasks import parse_task
from agent_infra.services.context import open_context
from agent_infra.services.tasks import reading
from agent_infra.services.tasks.current import present_task
from agent_infra.stores.artifacts import read_task


@click.command()
@one_task
@json_option
@click.pass_obj
def show(repo: Path, task: str | None, named: str | None, as_json: bool) -> None:
    """Print task.md of TASK as it is."""
    context = open_context(repo)
    place = present_task(context, named_once(task, named))
    data = read_task(place)
    if not as_json:
        say_bytes(data)
        return
    found = parse_task(data, place.task_id)
    short_id = context.workspace.short_id_of(place.task_id, short_id_length=context.config.task.short_id_length)
    facts = {"taskId": place.task_id, "shortId": short_id, "state": place.state, "title": found.title}
    say_json(facts | {"path": str(place.document), "fields": found.fields, "text": data.decode("utf-8-sig")})


_FILES = (Column("#", right=True), Column("NAME", least=12), Column("SIZE", right=True), Column("MTIME", drop=1))


@click.command()
@one_task
@json_option
@click.pass_obj
def files(repo: Path, task: str | None, named: str | None, as_json: bool) -> None:
    """List the documents of TASK, oldest first; `cat` takes their numbers too."""
    place = present_task(open_context(repo), named_once(task, named))
    found = reading.documents(place)
    if as_json:
        listed = [{"name": each.name, "size": each.size, "mtime": each.mtime} for each in found]
        say_json({"taskId": place.task_id, "folder": str(place.folder), "files": listed})
        return
    rows = ((str(number), each.stem, str(each.size), each.mtime) for number, each in enumerate(found, 1))
    say(*render_table(_FILES, rows, width=terminal_width(), coloured=is_coloured()))


@click.command()
@click.argument("words", metavar="[TASK] NAME|N", nargs=-1, required=True)
@click.option("--task", "-t", "named", metavar="TASK", help="The task; or TASK as the first word.")
@click.pass_obj
def cat(repo: Path, words: tuple[str, ...], named: str | None) -> None:
    """Print a document of TASK as it is, by its name, with or without .md, or its number in `files`."""
    if len(words) > 2:
        raise click.UsageError("expected a task and the name or number of one document")
    ref = named_once(words[0] if len(words) == 2 else None, named)
    place = present_task(open_context(repo), ref)
    say_bytes(reading.read_document(place, words[-1])[1])


_LOG = (
    Column("#", right=True),
    Column("STEP", least=16),
    Column("AGENT", drop=3),
    Column("STARTED", drop=2),
    Column("DONE", drop=1),
    Column("NOTE", least=12),
)


@click.command()
@one_task
@json_option
@click.pass_obj
def log(repo: Path, task: str | None, named: str | None, as_json: bool) -> None:
    """One line for each step of TASK's activity log, by time."""
    place = present_task(open_context(repo), named_once(task, named))
    steps, data = reading.steps(place), read_task(place)
    if as_json:
        listed = [
            {
                "step": each.step,
                "agent": each.agent,
                "started": each.started,
                "done": each.done,
                "aborted": each.aborted,
                "note": reading.told(each, data),
            }
            for each in steps
        ]
        say_json({"taskId": place.task_id, "steps": listed})
        return
    rows = (
        (
            str(number),
            each.step,
            reading.signed(each.agent),
            each.started or "-",
            "(in progress)" if each.is_open else "(aborted)" if each.aborted else str(each.done),
            reading.told(each, data),
        )
        for number, each in enumerate(steps, 1)
    )
    lines = render_table(_LOG, rows, width=terminal_width(), coloured=is_coloured())
    say(*lines, "", f"Total: {len(steps)} step{'' if len(steps) == 1 else 's'}")
