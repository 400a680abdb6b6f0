"""Git must go on asking us though a hook manager's own installation runs again in the middle of a run."""

from agent_infra.core.run import State
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import hooks
from agent_infra.services.context import Context
from agent_infra.services.setup.install import this_program
from agent_infra.stores.atomic import locked
from agent_infra.stores.journal import Event
from agent_infra.stores.workspace import TaskPlace

HOOKS_MENDED = "hooks"


def mend_hooks(context: Context, place: TaskPlace) -> tuple[str, ...]:
    """Put our shims back where a known hook manager took their place; nobody is paused for that, but it is on record.

    Returns:
        Notes for people; nothing where all was in place or somebody else did it, which others judge.

    Raises:
        RefusedError: LOCK_TIMEOUT, STORE_WRITE_FAILED.

    Side effects:
        The hooks folder, `core.hooksPath`, and a journal line of facts where the task has a run.
    """
    program, template = this_program(), hooks.shim_template()
    if hooks.are_effective(hooks.inspect(context.repo, program=program, template=template)):
        return ()
    try:
        with locked(context.runs.lock_path, wait=context.lock_wait):
            done = hooks.mend(context.repo, program=program, template=template)
    except RefusedError as error:
        if error.code != ErrorCode.INSTALL_REFUSED:
            raise
        return (f"git's hooks were not put right: {error.message}",)
    if not done:
        return ()

    def decide(state: State | None) -> Event | None:
        return Event(HOOKS_MENDED, facts={"mended": list(done)}) if state and state.run.guards else None

    context.change(place, decide)
    return done
