"""`agent-infra task validate` and `edit`: what is wrong with a task's documents, and changing its fields."""

from pathlib import Path

import click

from agent_infra.cli.refs import json_option, named_once, one_task
from agent_infra.cli.render import say, say_json, tell
from agent_infra.services.context import open_context
from agent_infra.services.tasks.current import present_task
from agent_infra.services.tasks.editing import Edit
from agent_infra.services.tasks.editing import edit as change
from agent_infra.services.tasks.validation import examine


@click.command()
@one_task
@json_option
@click.pass_obj
def validate(repo: Path, task: str | None, named: str | None, as_json: bool) -> int:
    """Check every document of TASK, and say all that is wrong with file, line and code.

    Exit 0 when nothing is wrong, else 1; warnings are nothing wrong.
    """
    context = open_context(repo)
    found = examine(context, present_task(context, named_once(task, named)))
    if as_json:
        say_json(found.to_json())
    else:
        say(*map(str, found.faults))
        errors = sum(fault.level == "error" for fault in found.faults)
        warnings = len(found.faults) - errors
        sums = [f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((errors, "fault"), (warnings, "warning")) if n]
        say(f"{found.place.task_id}: {', '.join(sums) or 'nothing is wrong'}")
    return 0 if found.is_valid else 1


@click.command()
@one_task
@click.option("--set", "changes", multiple=True, metavar="FIELD=VALUE", help="Give a field a value; repeatable.")
@click.option("--unset", "remove", multiple=True, metavar="FIELD", help="Take a field away; repeatable.")
@click.option("--add", is_flag=True, help="Let fields in that are not known.")
@json_option
@click.pass_obj
def edit(
    repo: Path,
    task: str | None,
    named: str | None,
    changes: tuple[str, ...],
    remove: tuple[str, ...],
    add: bool,
    as_json: bool,
) -> None:
    """Change fields of TASK's front matter; comments, order and line ends stay."""
    if not changes and not remove:
        raise click.UsageError("nothing to change: --set FIELD=VALUE or --unset FIELD")
    wanted = dict(map(_pair, changes))
    if len(wanted) != len(changes) or len(set(remove)) != len(remove) or set(wanted) & set(remove):
        raise click.UsageError("a field is named twice")
    done = change(open_context(repo), named_once(task, named), Edit(wanted, remove, may_add=add))
    if as_json:
        say_json({"taskId": done.place.task_id, "changed": done.changed, "fields": dict(done.fields)})
        return
    if not done.changed:
        tell("it is so already")
    say(*(f"{name}: {done.fields.get(name, '(gone)')}" for name in (*wanted, *remove)))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.UsageError(f"expected FIELD=VALUE, found {text[:60]!r}")
    return name.strip(), value.strip()
