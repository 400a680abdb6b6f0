"""`agent-infra task block`, `activate` and `cancel`: where a task lies."""

from pathlib import Path

import click

from agent_infra.cli.person import refuse_agents
from agent_infra.cli.refs import json_option, named_once, one_task
from agent_infra.cli.render import say, say_json
from agent_infra.errors import AgentInfraError, ErrorCode
from agent_infra.services.context import Context, open_context
from agent_infra.services.tasks.current import present_task
from agent_infra.services.tasks.moving import move


@click.command()
@one_task
@click.option("--reason", required=True, help="Why, and what would let it go on; one line.")
@json_option
@click.pass_obj
def block(repo: Path, task: str | None, named: str | None, reason: str, as_json: bool) -> None:
    """Set TASK aside: its run ends, its short id is free again; not for agents."""
    _move(repo, named_once(task, named), ("block", reason), as_json=as_json)


@click.command()
@one_task
@json_option
@click.pass_obj
def activate(repo: Path, task: str | None, named: str | None, as_json: bool) -> None:
    """Take up a blocked TASK again, under a short id; not for agents."""
    _move(repo, named_once(task, named), ("activate", ""), as_json=as_json)


@click.command()
@one_task
@click.option("--reason", required=True, help="Why; one line.")
@json_option
@click.pass_obj
def cancel(repo: Path, task: str | None, named: str | None, reason: str, as_json: bool) -> None:
    """Give TASK up for good: its run ends, its short id is free again; not for agents."""
    _move(repo, named_once(task, named), ("cancel", reason), as_json=as_json)


def _move(repo: Path, ref: str | None, wish: tuple[str, str], *, as_json: bool) -> None:
    intent, reason = wish
    refuse_agents(f"task {intent}")
    context = open_context(repo)
    done = move(context, _task_id(context, ref), intent, reason)
    if as_json:
        facts = {"taskId": done.place.task_id, "state": done.place.state, "shortId": done.short_id}
        say_json(facts | {"changed": done.changed})
        return
    number = f" (#{done.short_id})" if done.short_id else ""
    say(f"{done.place.task_id}{number} is {'' if done.changed else 'already '}{done.place.state}")


def _task_id(context: Context, ref: str | None) -> str:
    """A short id also means the task of a move that was cut before its number was given back."""
    try:
        return present_task(context, ref).task_id if ref is None else context.resolve(ref).task_id
    except AgentInfraError as error:
        if error.code != ErrorCode.SHORT_ID_STALE or ref is None:
            raise
        return context.workspace.identify(ref, short_id_length=context.config.task.short_id_length)
