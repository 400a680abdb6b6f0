"""Which task is meant: the one that is named, else the one active task of the current branch."""

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.stores.listing import list_tasks
from agent_infra.stores.workspace import ACTIVE, TaskPlace


def find_task(context: Context, ref: str | None) -> TaskPlace:
    """The task of a reference; without one the active task whose `branch`, or whose run, is the current branch.

    Raises:
        RefusedError: as for `Context.resolve`; TASK_CONTEXT_DETACHED_HEAD, _NOT_FOUND, _AMBIGUOUS or _UNREADABLE.
    """
    if ref is not None:
        return context.resolve(ref)
    branch = context.repo.head().branch
    if branch is None:
        message = "no branch is checked out, so no task can be guessed; name it: TASK-…, N or #N"
        raise RefusedError(ErrorCode.TASK_CONTEXT_DETACHED_HEAD, message)
    listed = list(list_tasks(context.workspace, (ACTIVE,)))
    running = {guard.task_id for guard in context.runs.guards() if guard.branch == branch}
    here = [one for one in listed if one.place.task_id in running or (one.seen.fields.get("branch") == branch)]
    if len(here) > 1:
        names = ", ".join(f"{one.place.task_id} (#{one.short_id or '-'})" for one in here[:8])
        more = f" and {len(here) - 8} more" if len(here) > 8 else ""
        message = f"{len(here)} active tasks belong to the branch {branch}: {names}{more}; name one"
        raise RefusedError(ErrorCode.TASK_CONTEXT_AMBIGUOUS, message)
    if here:
        return here[0].place
    faulty = next((one for one in listed if one.seen.fault), None)
    if faulty:
        message = (
            f"no readable active task belongs to the branch {branch}, and {faulty.place.task_id} can't be read: "
            f"{faulty.seen.fault}; name the task, or mend it"
        )
        raise RefusedError(ErrorCode.TASK_CONTEXT_UNREADABLE, message)
    message = f"no active task belongs to the branch {branch}; name one, `agent-infra task ls` lists them"
    raise RefusedError(ErrorCode.TASK_CONTEXT_NOT_FOUND, message)


def present_task(context: Context, ref: str | None) -> TaskPlace:
    """The same, where the folder must be there.

    Raises:
        RefusedError: as for `find_task`; ORCHESTRATION_TASK_MISSING where only the run is left.
    """
    place = find_task(context, ref)
    if place.state == "missing":
        return context.active(place.task_id)
    return place
