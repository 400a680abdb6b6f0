"""`agent-infra task`: for now the making of tasks."""

import json
from pathlib import Path

import click

from agent_infra.cli.render import say
from agent_infra.core.lifecycle import Flow
from agent_infra.core.tasks import WORKFLOWS
from agent_infra.services import tasks
from agent_infra.services.context import open_context


@click.group()
def task() -> None:
    """Make tasks."""


@task.command()
@click.option("--title", required=True, help="One line that says what is wanted.")
@click.option("--type", "type_", type=click.Choice(sorted(WORKFLOWS)), default="feature", show_default=True)
@click.option("--description", default="", help="More words.")
@click.option("--branch", default="", help="The branch the work belongs to.")
@click.option(
    "--flow",
    type=click.Choice([str(word) for word in Flow]),
    help="How much process the task gets; full when left out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print id, short id and path as JSON.")
@click.pass_obj
def create(repo: Path, title: str, type_: str, description: str, branch: str, flow: str | None, as_json: bool) -> None:
    """Make a task and say its id."""
    wish = tasks.Wish(title, type_, description, branch, Flow(flow) if flow else None)
    place, short_id = tasks.create(open_context(repo), wish)
    if as_json:
        say(json.dumps({"taskId": place.task_id, "shortId": short_id, "path": str(place.document)}))
    else:
        say(f"{place.task_id} (#{short_id})", str(place.document))
