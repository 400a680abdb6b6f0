"""`agent-infra task ls` and `grep`: what goes over many tasks. Imports little, since people wait for it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent_infra.cli.refs import TASK, json_option
from agent_infra.cli.render import say, say_json, tell
from agent_infra.cli.table import Column, is_coloured, plain, render_table, terminal_width
from agent_infra.errors import AgentInfraError
from agent_infra.git.repo import discover
from agent_infra.stores.listing import Listed, list_tasks
from agent_infra.stores.workspace import Workspace

if TYPE_CHECKING:
    from agent_infra.services.tasks.reading import Hit
    from agent_infra.stores.workspace import TaskPlace

_STATES = ("active", "blocked", "completed")
_COLOURS = {"active": "green", "blocked": "yellow", "completed": "bright_black", "unreadable": "red"}
_COLUMNS = (
    Column("SHORT", drop=1),
    Column("ID"),
    Column("TYPE", drop=4),
    Column("STATUS", drop=3, colour=_COLOURS.get),
    Column("STEP", least=12, drop=2),
    Column("BRANCH", least=8, drop=5),
    Column("TITLE", least=24),
)


@click.command()
@click.option("--all", "all_", is_flag=True, help="Active, blocked and completed ones; not the archive.")
@click.option("--blocked", is_flag=True, help="Blocked ones instead of active ones.")
@click.option("--completed", is_flag=True, help="Completed and cancelled ones instead.")
@json_option
@click.pass_obj
def ls(repo: Path, all_: bool, blocked: bool, completed: bool, as_json: bool) -> None:
    """List the active tasks, sorted by id."""
    if all_ + blocked + completed > 1:
        raise click.UsageError("--all, --blocked and --completed exclude each other")
    states = _STATES if all_ else ("blocked",) if blocked else ("completed",) if completed else ("active",)
    workspace = Workspace(discover(repo).state_root)
    listed = list(list_tasks(workspace, states))
    _warn_of_registry(workspace)
    if as_json:
        say_json({"tasks": [_facts(one) for one in listed], "total": len(listed)})
    elif not listed:
        say(f"no {'' if all_ else f'{states[0]} '}tasks; `agent-infra task create` makes one")
    else:
        lines = render_table(_COLUMNS, map(_row, listed), width=terminal_width(), coloured=is_coloured())
        say(*lines, "", f"Total: {len(listed)} task{'' if len(listed) == 1 else 's'}")


def _warn_of_registry(workspace: Workspace) -> None:
    """A broken registry hides short ids, not tasks."""
    if workspace.registry.exists():
        try:
            workspace.read_registry()
        except AgentInfraError as error:
            tell(f"short ids are not shown: {error.message} [{error.code}]")


def _row(one: Listed) -> tuple[str, ...]:
    fields, short = one.seen.fields, one.short_id or "-"
    if one.seen.fault:
        return (short, one.place.task_id, "-", "unreadable", "-", "-", f"({one.seen.fault})")
    shown = (fields.get(name) or "-" for name in ("type", "status", "current_step", "branch"))
    return (short, one.place.task_id, *shown, one.seen.title or "-")


def _facts(one: Listed) -> dict[str, object]:
    fields = one.seen.fields
    return {
        "taskId": one.place.task_id,
        "shortId": int(one.short_id) if one.short_id else None,
        "state": one.place.state,
        "type": fields.get("type"),
        "status": fields.get("status"),
        "currentStep": fields.get("current_step"),
        "branch": fields.get("branch") or None,
        "priority": fields.get("priority") or None,
        "title": one.seen.title,
        "path": f"{one.place.folder}/task.md",
        "fault": one.seen.fault or None,
    }


@click.command()
@click.argument("words")
@click.option("-i", "--ignore-case", is_flag=True, help="Take capital and small letters for the same.")
@click.option("--current", is_flag=True, help="Search only the active task of the current branch.")
@click.option("--task", "-t", "ref", metavar="TASK", type=TASK, help="Search only this task.")
@json_option
@click.pass_obj
def grep(repo: Path, words: str, ignore_case: bool, current: bool, ref: str | None, as_json: bool) -> int:
    """Print the lines of tasks' documents that hold WORDS, literally.

    Active, blocked and completed tasks are searched. Exit 1 when nothing was found.
    """
    if not words:
        raise click.UsageError("the words to look for are empty")
    if current and ref:
        raise click.UsageError("--current and --task exclude each other")
    found = list(_hits(repo, words, ignore_case=ignore_case, ref=ref, one=current or ref is not None))
    if as_json:
        hits = [{"taskId": hit.place.task_id, "document": f"{hit.stem}.md", "line": hit.line} for _, hit in found]
        say_json({"hits": [facts | {"text": hit.text} for facts, (_, hit) in zip(hits, found, strict=True)]})
    else:
        say(*(f"{hit.place.task_id}{short} {hit.stem}:{hit.line}: {plain(hit.text)}" for short, hit in found))
    return 0 if found else 1


def _hits(repo: Path, words: str, *, ignore_case: bool, ref: str | None, one: bool) -> Iterator[tuple[str, "Hit"]]:
    """The lines that were found, each with the short id of its task in brackets."""
    from agent_infra.services.tasks.reading import search
    from agent_infra.stores.listing import places, registered

    workspace = Workspace(discover(repo).state_root)
    short_ids = registered(workspace)
    everywhere = (place for state in _STATES for place, is_link in places(workspace, state) if not is_link)
    for place in _searched(repo, ref) if one else everywhere:
        short = short_ids.get(place.task_id) if place.state == "active" else None
        for hit in search(place, words, ignore_case=ignore_case):
            yield (f" [#{short}]" if short else ""), hit


def _searched(repo: Path, ref: str | None) -> Iterable["TaskPlace"]:
    from agent_infra.services.context import open_context
    from agent_infra.services.tasks.current import present_task

    return (present_task(open_context(repo), ref),)
