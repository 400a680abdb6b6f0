"""Making tasks: the folder, its task.md, its short id."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from agent_infra import __version__
from agent_infra.core import tasks
from agent_infra.core.creation import Birth, Wish, check_wish, render_wish
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.services.shapes import task_template
from agent_infra.stores.atomic import locked, read_regular, write_atomic
from agent_infra.stores.workspace import ACTIVE, TaskPlace

_RECEIPTS = ".task-create"
_RECEIPT_LIMIT = 64 << 10
_OTHERS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Made:
    """A task, its short id, and whether it was made now; without a short id it was made before and is not active."""

    place: TaskPlace
    short_id: int | None
    changed: bool = True


def create(context: Context, wish: Wish) -> Made:
    """Make an active task; a wish whose key was used before leads to the task that it made.

    Raises:
        RefusedError: TASK_CREATE_PAYLOAD_INVALID, _TEMPLATE_INVALID or _IDEMPOTENCY_CONFLICT, CONFIG_INVALID, a
            SHORT_ID code, LOCK_TIMEOUT or STORE_WRITE_FAILED.
        CorruptStateError: TASK_CREATE_RECEIPT_INVALID, or a SHORT_ID code.

    Side effects:
        A folder with task.md under `.agents/workspace/active`, and the registry of short ids; with a key what is kept
        about it, first of all, so that a call that was cut is finished by the next one and makes no second task.
    """
    check_wish(wish)
    length = context.config.task.short_id_length
    write = _writer(context, wish)
    with locked(context.runs.lock_path, wait=context.lock_wait):
        now = datetime.fromisoformat(context.now()).astimezone()
        task_id = _promised(context, wish)
        if task_id and (known := _existing(context, task_id)):
            return Made(known, context.workspace.short_id_of(task_id, short_id_length=length), changed=False)
        task_id = task_id or _free_id(context, now)
        data = write(task_id, now)
        if wish.key:
            _promise(context, wish, task_id)
        short_id = context.workspace.register(task_id, short_id_length=length)
        place = TaskPlace(task_id, ACTIVE, context.workspace.folder / ACTIVE / task_id)
        write_atomic(place.document, data)
    return Made(place, short_id)


def _writer(context: Context, wish: Wish) -> Callable[[str, datetime], bytes]:
    """What makes the document of an id; tried once, so that faults and slow imports come before the lock."""
    template = task_template(context)
    branch = _branch(context, wish)

    def write(task_id: str, now: datetime) -> bytes:
        birth = Birth(task_id, now.isoformat(sep=" ", timespec="seconds"), f"v{__version__}", branch)
        return render_wish(template, wish, birth)

    write("TASK-20000101-000000", datetime.fromisoformat(context.now()).astimezone())
    return write


def _branch(context: Context, wish: Wish) -> str:
    """The branch of the work: as it was said, made of the slug, else the one that is checked out."""
    if wish.slug:
        project = _OTHERS.sub("-", context.repo.state_root.name.lower()).strip("-") or "project"
        return f"{project}-{wish.type}-{wish.slug}"
    return (context.repo.head().branch or "") if wish.branch is None else wish.branch


def _free_id(context: Context, now: datetime) -> str:
    """An id of the present second, or of the next one that is free; the archive and old runs keep theirs."""
    while True:
        task_id = f"TASK-{now:%Y%m%d-%H%M%S}"
        taken = context.workspace.has_folder(task_id) or context.runs.journal(task_id).path.parent.exists()
        if not taken:
            return task_id
        now += timedelta(seconds=1)


# -- a wish that may come twice ----------------------------------------------------------------------------------------


def _receipt_path(context: Context, wish: Wish) -> Path:
    return context.workspace.folder / _RECEIPTS / f"{wish.key_digest}.json"


def _promise(context: Context, wish: Wish, task_id: str) -> None:
    kept = {"version": 1, "taskId": task_id, "candidateDigest": wish.digest}
    write_atomic(_receipt_path(context, wish), json.dumps(kept).encode() + b"\n")


def _promised(context: Context, wish: Wish) -> str | None:
    """The id that this very wish was given before.

    Raises:
        RefusedError: TASK_CREATE_IDEMPOTENCY_CONFLICT if its key was used for another wish.
        CorruptStateError: TASK_CREATE_RECEIPT_INVALID.
    """
    if not wish.key:
        return None
    path = _receipt_path(context, wish)
    try:
        data = read_regular(path, limit=_RECEIPT_LIMIT)
        kept = None if data is None else json.loads(data)
    except (AgentInfraError, ValueError, RecursionError) as error:
        raise _bad_receipt(path, str(error)) from error
    if kept is None:
        return None
    task_id = kept.get("taskId") if isinstance(kept, dict) else None
    if not isinstance(task_id, str) or not tasks.TASK_ID.fullmatch(task_id) or kept.get("version") != 1:
        raise _bad_receipt(path, "it names no task")
    if kept.get("candidateDigest") != wish.digest:
        message = f"the key {wish.key} was used for {task_id}, which says something else; use a new key for a new task"
        raise RefusedError(ErrorCode.TASK_CREATE_IDEMPOTENCY_CONFLICT, message)
    return task_id


def _existing(context: Context, task_id: str) -> TaskPlace | None:
    try:
        return context.workspace.find(task_id)
    except RefusedError:
        return None


def _bad_receipt(path: Path, why: str) -> RefusedError:
    message = f"{path}, which says which task a key made, can't be read: {why}; look at it, or use another key"
    return RefusedError(ErrorCode.TASK_CREATE_RECEIPT_INVALID, message)
