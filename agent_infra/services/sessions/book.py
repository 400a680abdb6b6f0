"""Which event is worked on by whom, one at a time in a worktree."""

from collections.abc import Callable

from agent_infra.core import native
from agent_infra.core.native import Answer, Event
from agent_infra.services.context import Context
from agent_infra.services.sessions import children, driving, spawning
from agent_infra.services.sessions.desk import Desk, Watch
from agent_infra.stores.atomic import HOOK_LOCK_WAIT
from agent_infra.stores.sessions import SessionStore

PATIENCE = 20.0  # seconds: the event before may be taking a snapshot

_BOOK: dict[str, Callable[[Desk], Answer]] = {
    native.SPAWN_ASKED: spawning.spawn_asked,
    native.SPAWN_RETURNED: spawning.spawn_returned,
    native.SPAWN_FAILED: spawning.spawn_failed,
    native.CHILD_STARTED: children.child_started,
    native.CHILD_STOPPED: children.child_stopped,
    native.CHILD_FAILED: children.child_failed,
    native.WAIT_ASKED: driving.wait_asked,
    native.WAIT_RETURNED: driving.wait_returned,
    native.PROMPT_SUBMITTED: driving.prompt_submitted,
    native.SESSION_STOP: driving.session_stop,
    native.SESSION_STARTED: driving.session_started,
    native.SESSION_ENDED: driving.session_ended,
}
# these bring work that must not be lost, so they wait for the event before; the others only tell
_PATIENT = frozenset({native.SPAWN_ASKED, native.CHILD_STARTED, native.CHILD_STOPPED, native.SPAWN_FAILED})


def keep(context: Context, event: Event, watch: Watch) -> Answer:
    """Keep the books about one event, and say what its client is answered.

    Raises:
        AgentInfraError: LOCK_TIMEOUT, or what keeps the books from being kept.

    Side effects:
        What the event means for a run of this worktree: journal, view, evidence, task.md, at the commit stage a
        commit; the notes of the worktree's hooks.
    """
    store = SessionStore(context.repo.git_dir / "agent-infra")
    with store.opened(PATIENCE if event.kind in _PATIENT else HOOK_LOCK_WAIT) as notes:
        desk = Desk(context, event, notes, store, watch)
        if event.kind != native.CHILD_STOPPED:
            children.finish_what_was_left(desk)
        return _BOOK[event.kind](desk)
