"""`agent-infra task create`: from options, from a file, or by asking at a terminal."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agent_infra.cli.person import is_terminal
from agent_infra.cli.refs import json_option
from agent_infra.cli.render import say, say_json, tell
from agent_infra.core.creation import CANDIDATE_LIMIT, TaskInput, Wish, parse_candidate
from agent_infra.core.fields import AGENTS
from agent_infra.core.lifecycle import Flow, left_out
from agent_infra.core.tasks import WORKFLOWS
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import open_context
from agent_infra.services.tasks.creation import create as make

F = TypeVar("F", bound=Callable[..., Any])
_TYPES, _FLOWS = list(WORKFLOWS), [str(word) for word in Flow]


def _many(name: str, words: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, metavar="LINE", help=f"{words}; repeatable.")


@click.command()
@click.option("--title", help="One line that says what is wanted; asked for on a terminal.")
@click.option("--type", "type_", type=click.Choice(_TYPES), default="feature", show_default=True)
@click.option("--description", default="", help="More words; - reads them from stdin.")
@click.option("--flow", type=click.Choice(_FLOWS), help="How much process the task gets; full when left out.")
@click.option("--branch", help='The branch of the work; the current one when left out, "" for none.')
@click.option("--branch-slug", "slug", default="", help="Instead: the last words of a branch PROJECT-TYPE-SLUG.")
@click.option("--priority", type=click.Choice(["Urgent", "High", "Medium", "Low"]), default="Medium", show_default=True)
@click.option("--effort", type=click.Choice(["High", "Medium", "Low"]), default="Medium", show_default=True)
@click.option("--agent", type=click.Choice(AGENTS), default="human", show_default=True, help="Who makes it.")
@click.option("--start-date", default="", metavar="YYYY-MM-DD")
@click.option("--target-date", default="", metavar="YYYY-MM-DD")
@click.option("--issue", "issue_number", default="", metavar="N", help="The issue that it comes from.")
@click.option("--delivery-remote", default="", help="Where the branch will be pushed to.")
@click.option("--delivery-base-ref", default="", help="The branch that it will be merged into.")
@_many("--source", "Where the wish comes from")
@_many("--fact", "A confirmed fact, with its evidence")
@_many("--constraint", "What must stay so")
@_many("--decision", "What is decided already")
@_many("--alternative", "An option, or one that was rejected")
@_many("--acceptance", "What must be true in the end")
@_many("--question", "What is still open")
@click.option("--idempotency-key", "key", default="", metavar="UUID", help="The same call again makes no second task.")
@click.option("--from", "file", type=click.Path(path_type=Path), help="All of this as JSON; - is stdin.")
@json_option
@click.pass_context
def create(ctx: click.Context, /, file: Path | None, as_json: bool, **said: Any) -> None:
    """Make a task and say its id. Only the title has no default.

    FILE.json holds exactly: version (1), idempotencyKey (a UUID v4), agent, title, type, branchSlug, priority,
    effort, description, taskInput {sources, facts, constraints, decisions, alternatives, acceptanceCriteria,
    openQuestions}; and may hold: flow, deliveryRemote, deliveryBaseRef.
    """
    if file is not None:
        _refuse_others(ctx)
        wish = parse_candidate(_read(file))
    else:
        wish = _wish(said)
    made = make(open_context(ctx.obj), wish)
    if as_json:
        found = {"taskId": made.place.task_id, "shortId": made.short_id, "path": str(made.place.document)}
        say_json(found | {"changed": made.changed})
    else:
        short = f" (#{made.short_id})" if made.short_id else ""
        say(f"{made.place.task_id}{short}", str(made.place.document))
        tell(*() if made.changed else (f"it was made before with the key {wish.key}",))
    if wish.flow and left_out(wish.flow):
        tell(f"the {wish.flow} flow leaves out: {left_out(wish.flow)}")


def _refuse_others(ctx: click.Context) -> None:
    """A file says everything; an option beside it would be lost."""
    given = [
        name
        for name in ctx.params
        if name not in {"file", "as_json"} and ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"--from says everything; leave out {', '.join(sorted(given))}")


def _wish(said: dict[str, Any]) -> Wish:
    if said["branch"] is not None and said["slug"]:
        raise click.UsageError("--branch and --branch-slug name the branch twice")
    if said["title"] is None:
        if not is_terminal():
            raise click.UsageError("without a terminal, --title or --from is needed")
        said |= _asked(said)
    description = said["description"]
    inputs = TaskInput(
        sources=said["source"],
        facts=said["fact"],
        constraints=said["constraint"],
        decisions=said["decision"],
        alternatives=said["alternative"],
        acceptance_criteria=said["acceptance"],
        open_questions=said["question"],
    )
    return Wish(
        title=said["title"],
        type=said["type_"],
        description=_from_stdin() if description == "-" else description,
        branch=said["branch"],
        slug=said["slug"],
        flow=Flow(said["flow"]) if said["flow"] else None,
        priority=said["priority"],
        effort=said["effort"],
        agent=said["agent"],
        start_date=said["start_date"],
        target_date=said["target_date"],
        issue_number=said["issue_number"],
        delivery_remote=said["delivery_remote"],
        delivery_base_ref=said["delivery_base_ref"],
        inputs=inputs,
        key=said["key"],
    )


def _asked(said: dict[str, Any]) -> dict[str, Any]:
    """What a person at the terminal answers; Enter takes the default."""
    return {
        "title": click.prompt("title", err=True),
        "type_": click.prompt("type", type=click.Choice(_TYPES), default=said["type_"], err=True),
        "description": said["description"]
        or click.prompt("description (one line)", default="", show_default=False, err=True),
        "flow": click.prompt("flow", type=click.Choice(_FLOWS), default=said["flow"] or "full", err=True),
    }


def _read(file: Path) -> bytes:
    """The bytes of a candidate.

    Raises:
        RefusedError: TASK_CREATE_PAYLOAD_INVALID where it can't be read, or is too long.
    """
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(CANDIDATE_LIMIT + 1)
        else:
            with file.open("rb") as opened:
                data = opened.read(CANDIDATE_LIMIT + 1)
    except OSError as error:
        message = f"{file} can't be read: {error.strerror}"
        raise RefusedError(ErrorCode.TASK_CREATE_PAYLOAD_INVALID, message) from error
    if len(data) > CANDIDATE_LIMIT:
        message = f"{file} has more than {CANDIDATE_LIMIT} bytes"
        raise RefusedError(ErrorCode.TASK_CREATE_PAYLOAD_INVALID, message)
    return data


def _from_stdin() -> str:
    return sys.stdin.buffer.read(CANDIDATE_LIMIT).decode(errors="surrogateescape")
