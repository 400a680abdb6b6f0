"""Editing the front matter of task.md: by line, so that comments, order and line ends stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agent_infra import __version__
from agent_infra.core.fields import FIELDS, check_value, nearest
from agent_infra.core.frontmatter import parse_front_matter, set_fields
from agent_infra.core.tasks import WORKFLOWS
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.services.tasks.current import present_task
from agent_infra.stores.artifacts import read_task
from agent_infra.stores.atomic import locked, write_atomic
from agent_infra.stores.workspace import TaskPlace


@dataclass(frozen=True)
class Edit:
    """What is to change; `may_add` lets a field in that nobody knows."""

    changes: Mapping[str, str]
    remove: Sequence[str] = ()
    may_add: bool = False


@dataclass(frozen=True)
class Edited:
    """The task, whether a byte moved, and its fields as they are now."""

    place: TaskPlace
    changed: bool
    fields: Mapping[str, str]


def edit(context: Context, ref: str | None, wish: Edit) -> Edited:
    """Change fields of a task; a change of the type brings its workflow along.

    Raises:
        RefusedError: MUTATION_INVALID for a field or value that can't be set; TASK_DOCUMENT_INVALID for a front matter
            that can't be read; as for `present_task`; LOCK_TIMEOUT, STORE_WRITE_FAILED.

    Side effects:
        task.md in one write, with `updated_at` and `agent_infra_version` renewed; nothing where nothing changes.
    """
    place = present_task(context, ref)
    with locked(context.runs.lock_path, wait=context.lock_wait):
        before = read_task(place)
        known = parse_front_matter(before, flat=True).fields
        check_edit(wish, known)
        changes = dict(wish.changes)
        if changes.get("type") in WORKFLOWS and "workflow" not in changes:
            changes["workflow"] = WORKFLOWS[changes["type"]]
        after = set_fields(before, changes, [name for name in wish.remove if name in known])
        if after != before:
            after = set_fields(after, _renewed(context))
            write_atomic(place.document, after)
    return Edited(place, after != before, parse_front_matter(after, flat=True).fields)


def check_edit(wish: Edit, known: Mapping[str, str]) -> None:
    """Refuse fields that only we set, values that a field does not take, and slips of the pen.

    Raises:
        RefusedError: MUTATION_INVALID.
    """
    for name in (*wish.changes, *wish.remove):
        field = FIELDS.get(name)
        if field is None and name not in known and not wish.may_add:
            near = nearest(name)
            helps = f"did you mean {near}?" if near else "`--add` makes a new field"
            raise _bad(f"{name[:80]!r} is no field of a task; {helps}")
        if field and field.own:
            raise _bad(f"{name} can't be set: {field.own}")
        if field and field.required and not wish.changes.get(name):
            raise _bad(f"{name} can't be empty: {field.wanted}")
    for name, value in wish.changes.items():
        if fault := check_value(name, value):
            raise _bad(fault)
    workflow = WORKFLOWS.get(wish.changes.get("type") or known.get("type", ""))
    if "workflow" in wish.changes and workflow and wish.changes["workflow"] != workflow:
        raise _bad(f"workflow: {workflow} goes with the type, found {wish.changes['workflow']!r}")


def _renewed(context: Context) -> Mapping[str, str]:
    at = datetime.fromisoformat(context.now()).astimezone().isoformat(sep=" ", timespec="seconds")
    return {"updated_at": at, "agent_infra_version": f"v{__version__}"}


def _bad(what: str) -> RefusedError:
    return RefusedError(ErrorCode.MUTATION_INVALID, what)
