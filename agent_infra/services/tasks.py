"""Making tasks: the folder, its task.md, its short id. Everything else of a task's life comes with its own verbs."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from agent_infra import __version__
from agent_infra.core import tasks
from agent_infra.core.frontmatter import set_fields
from agent_infra.core.lifecycle import Flow
from agent_infra.resources import resource
from agent_infra.services.context import Context
from agent_infra.stores.atomic import locked, write_atomic
from agent_infra.stores.workspace import ACTIVE, TaskPlace


@dataclass(frozen=True)
class Wish:
    """What a person says about a new task; only the title has no default."""

    title: str
    type: str = "feature"
    description: str = ""
    branch: str = ""
    flow: Flow | None = None


def create(context: Context, wish: Wish) -> tuple[TaskPlace, int]:
    """Make an active task.

    Returns:
        Its place and its short id.

    Raises:
        RefusedError: TASK_CREATE_PAYLOAD_INVALID, a SHORT_ID code, LOCK_TIMEOUT or STORE_WRITE_FAILED.

    Side effects:
        A folder with task.md under `.agents/workspace/active`, and the registry of short ids.
    """
    template = resource("templates", "task.md").read_text(encoding="utf-8")
    length = context.config.task.short_id_length
    with locked(context.runs.lock_path, wait=context.lock_wait):
        now = datetime.fromisoformat(context.now()).astimezone()
        task_id = _free_id(context, now)
        data = tasks.render_task(
            template,
            task_id=task_id,
            title=wish.title,
            type=wish.type,
            created_at=now.isoformat(sep=" ", timespec="seconds"),
            version=f"v{__version__}",
            branch=wish.branch,
            description=wish.description,
        )
        if wish.flow:
            data = set_fields(data, {"flow": wish.flow.value})
        short_id = context.workspace.register(task_id, short_id_length=length)
        place = TaskPlace(task_id, ACTIVE, context.workspace.folder / ACTIVE / task_id)
        write_atomic(place.document, data)
    return place, short_id


def _free_id(context: Context, now: datetime) -> str:
    """An id of the present second, or of the next one that is free."""
    while True:
        task_id = f"TASK-{now:%Y%m%d-%H%M%S}"
        places = (context.workspace.folder / state / task_id for state in (ACTIVE, "blocked", "completed"))
        if not any(place.exists() for place in places) and not context.runs.journal(task_id).path.parent.exists():
            return task_id
        now += timedelta(seconds=1)
