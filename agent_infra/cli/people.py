"""`agent-infra review TASK` and `work TASK`: a step by hand, in the person's editor."""

from pathlib import Path

import click

from agent_infra.cli.person import require_terminal
from agent_infra.cli.refs import task_argument
from agent_infra.cli.render import show, tell
from agent_infra.core.lifecycle import Role
from agent_infra.errors import AgentInfraError
from agent_infra.runtime import people
from agent_infra.services.context import open_context


def _again(error: AgentInfraError) -> bool:
    tell(f"not taken yet: {error.message} [{error.code}]", *error.notes)
    return click.confirm("open the editor again?", default=True, err=True)


def _tell(notes: tuple[str, ...]) -> None:
    tell(*notes)


def _sit(repo: Path, task: str, role: Role, what: str) -> int:
    require_terminal(what)
    context = people.as_person(open_context(repo))
    outcome = people.do_step(context, task, role, people.Sitting(people.open_editor, _again, _tell))
    show(outcome)
    return outcome.exit_code


@click.command()
@task_argument
@click.pass_obj
def review(repo: Path, task: str) -> int:
    """Do the next review of TASK: your editor opens on the template, the diff lies beside it."""
    return _sit(repo, task, Role.REVIEWER, "review")


@click.command()
@task_argument
@click.pass_obj
def work(repo: Path, task: str) -> int:
    """Do the next analysis, plan or code step of TASK by hand."""
    return _sit(repo, task, Role.EXECUTOR, "work")
