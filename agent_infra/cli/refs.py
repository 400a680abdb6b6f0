"""TASK on the command line: how it is given, and what a shell completes it to."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_MOST = 200  # completions that a person can still look through


class TaskRef(click.ParamType[str]):
    """A full id, `N` or `#N`; which task that is, is looked up when the command runs."""

    name = "task"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The words as they were typed."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """The active tasks that begin so: by short id, else by full id, with their titles."""
        from agent_infra.errors import AgentInfraError
        from agent_infra.git.repo import discover
        from agent_infra.stores.listing import list_tasks
        from agent_infra.stores.workspace import ACTIVE, Workspace

        repo = ctx.find_root().params.get("repo") or Path.cwd()
        try:
            listed = list(list_tasks(Workspace(discover(Path(repo)).state_root), (ACTIVE,)))
        except AgentInfraError:
            return []
        names = [(one.place.task_id, one) for one in listed]
        names += [(str(int(one.short_id)), one) for one in listed if one.short_id]
        found = ((name, one) for name, one in names if name.startswith(incomplete))
        return [CompletionItem(name, help=one.seen.title or None) for name, one in islice(found, _MOST)]


TASK = TaskRef()
task_argument = click.argument("task", metavar="TASK", type=TASK)
optional_task = click.argument("task", metavar="[TASK]", type=TASK, required=False)
_TASK_OPTION = click.option("--task", "-t", "named", metavar="TASK", type=TASK, help="The task; or TASK as a word.")


def one_task(command: Callable[..., Any]) -> Callable[..., Any]:
    """TASK as a word or as `--task`, or left out; the command gets `task` and `named`, and asks `named_once`."""
    return optional_task(_TASK_OPTION(command))


def named_once(task: str | None, named: str | None) -> str | None:
    """The one reference that was given.

    Raises:
        click.UsageError: it was given both ways.
    """
    if task and named:
        raise click.UsageError(f"the task is named twice: {task} and --task {named}")
    return task or named


json_option = click.option("--json", "as_json", is_flag=True, help="Print the facts as one JSON line.")
