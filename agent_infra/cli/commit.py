"""`agent-infra commit TASK -m MESSAGE`."""

from pathlib import Path

import click

from agent_infra.cli.person import is_terminal, require_terminal
from agent_infra.cli.refs import task_argument
from agent_infra.cli.render import emit, show
from agent_infra.runtime import people
from agent_infra.services.context import open_context
from agent_infra.services.guard import commit as commits


@click.command()
@task_argument
@click.option("-m", "--message", required=True, help="The commit message; the trailers are added by the hook.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON line.")
@click.pass_obj
def commit(repo: Path, task: str, message: str, as_json: bool) -> int:
    """Commit exactly what was reviewed.

    With no step pending, or with one that you left open, on a terminal, do the whole commit step as a person.
    """
    context = open_context(repo)
    state = context.load(context.active(task))
    mine = state is not None and state.pending is not None and state.pending.client == people.CLIENT and is_terminal()
    if state is None or (state.pending is not None and not mine):
        outcome = commits.commit(context, task, message=message)
    else:
        require_terminal(f"no step of {task} is pending, and doing its commit step by hand")
        outcome = people.commit_step(people.as_person(context), task, message=message)
    (emit if as_json else show)(outcome)
    return outcome.exit_code
