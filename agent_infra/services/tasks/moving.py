"""Moving a task between active, blocked and completed: journalled in its folder, so that a repeat finishes it."""

from dataclasses import dataclass, replace
from datetime import datetime

from agent_infra import __version__
from agent_infra.core.frontmatter import parse_front_matter
from agent_infra.core.moves import MOVES, MoveJournal, parse_journal, render_journal, write_move
from agent_infra.core.tasks import log_entries
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.services.orchestrate import end
from agent_infra.stores.artifacts import read_task
from agent_infra.stores.atomic import locked, move_folder, read_regular, remove_durably, write_atomic
from agent_infra.stores.workspace import TASK_LIMIT, TaskPlace

JOURNAL = ".task-lifecycle.json"


@dataclass(frozen=True)
class Moved:
    """Where the task lies now, its short id there, and whether anything moved."""

    place: TaskPlace
    short_id: int | None
    changed: bool


def move(context: Context, task_id: str, intent: str, reason: str = "") -> Moved:
    """Move a task, or finish the same move that was cut; a move that is done already changes nothing.

    Raises:
        RefusedError: LIFECYCLE_SOURCE_INVALID, _TARGET_CONFLICT, _INTENT_CONFLICT, _PAYLOAD_INVALID or
            _DIRECTORY_RENAME_FAILED; TASK_DOCUMENT_INVALID; a SHORT_ID code; LOCK_TIMEOUT, STORE_WRITE_FAILED.
        CorruptStateError: LIFECYCLE_JOURNAL_INVALID.

    Side effects:
        The run ends where the task leaves the active ones; task.md, folder, registry of short ids, in this order.
    """
    if not reason.isprintable() or (intent != "activate" and not reason.strip()):
        raise RefusedError(ErrorCode.LIFECYCLE_PAYLOAD_INVALID, "the reason is one line of text; found other signs")
    wish = MoveJournal(task_id, intent, "", _stamp(context), " ".join(reason.split()))
    first = _under_way(context, wish)
    if first is None:
        return _moved(context, task_id, changed=False)
    state = context.load(context.workspace.find(task_id)) if intent != "activate" else None
    if state and state.run.guards:
        end(context, task_id, reason=f"task {intent}: {wish.reason}")
    with locked(context.runs.lock_path, wait=context.lock_wait):
        found = _under_way(context, wish)
        if found is None:
            return _moved(context, task_id, changed=False)
        _finish(context, found)
    return _moved(context, task_id, changed=True)


def _under_way(context: Context, wish: MoveJournal) -> MoveJournal | None:
    """The move to make or to go on with; None where it is done."""
    place = context.workspace.find(wish.task)
    data = read_regular(place.folder / JOURNAL, limit=TASK_LIMIT)
    if data is not None:
        kept = parse_journal(data, wish.task)
        if kept.digest != wish.digest:
            message = f"{wish.task}: `task {kept.intent}` ({kept.reason!r}) was cut; repeat it with this reason first"
            raise RefusedError(ErrorCode.LIFECYCLE_INTENT_CONFLICT, message)
        return kept
    text = read_task(place)
    fields = parse_front_matter(text, flat=True).fields
    kind = MOVES[wish.intent]
    last = next((e for e in reversed(log_entries(text)) if e.step in {m.step for m in MOVES.values()}), None)
    if place.state == kind.target and last and last.step == kind.step:
        said = last.note.rpartition(" (at ")[0]
        if said == (wish.reason or kind.target):
            return None
    if place.state not in kind.sources:
        message = (
            f"{wish.task} is {place.state}, and `task {wish.intent}` takes one that is {' or '.join(kind.sources)}"
        )
        raise RefusedError(ErrorCode.LIFECYCLE_SOURCE_INVALID, message)
    if fields.get("id") != wish.task:
        message = f"task.md in {place.folder} says id {fields.get('id', '')[:80]!r}, expected the folder's name"
        raise RefusedError(ErrorCode.LIFECYCLE_IDENTITY_INVALID, message)
    if (context.workspace.folder / kind.target / wish.task).exists():
        message = f"something lies at {kind.target}/{wish.task} already; look at it, and move it away"
        raise RefusedError(ErrorCode.LIFECYCLE_TARGET_CONFLICT, message)
    return replace(wish, source=place.state)


def _finish(context: Context, found: MoveJournal) -> None:
    """Make every step that is not made; the caller holds the lock."""
    length = context.config.task.short_id_length
    place = context.workspace.find(found.task)
    before = read_task(place)
    after = write_move(before, found, version=f"v{__version__}")
    context.workspace.check_short_id(found.task, wanted=found.target == "active", short_id_length=length)
    write_atomic(place.folder / JOURNAL, render_journal(found))
    if after != before:
        write_atomic(place.document, after)
    target = context.workspace.folder / found.target / found.task
    if place.folder != target:
        write_atomic(place.folder / JOURNAL, render_journal(replace(found, done=("task-written",))))
        move_folder(place.folder, target)
    write_atomic(target / JOURNAL, render_journal(replace(found, done=("task-written", "directory-moved"))))
    if MOVES[found.intent].keeps_short_id:
        context.workspace.register(found.task, short_id_length=length)
    else:
        context.workspace.release(found.task, short_id_length=length)
    remove_durably(target / JOURNAL)


def _moved(context: Context, task_id: str, *, changed: bool) -> Moved:
    length = context.config.task.short_id_length
    return Moved(
        context.workspace.find(task_id), context.workspace.short_id_of(task_id, short_id_length=length), changed
    )


def _stamp(context: Context) -> str:
    return datetime.fromisoformat(context.now()).astimezone().isoformat(sep=" ", timespec="seconds")
