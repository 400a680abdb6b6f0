"""Writing what was planned for the clients of a project, and taking it away again.

The record is on disk before the first file is touched: a killed `init` is finished by the next one, or undone.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from agent_infra.clients.setup import wanted
from agent_infra.clients.setup.planning import Change, Plan, guarded, in_short, read, text_of
from agent_infra.clients.setup.record import MANIFEST, Record, RecordStore, Trace, digest, path_of
from agent_infra.core import hook_settings, thread_setting
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.stores.atomic import locked, remove_durably, write_atomic

_HOOKS = frozenset(wanted.HOOK_FILES.values())


def install(context: Context, plan: Callable[[], Plan]) -> tuple[str, ...]:
    """Write what is planned; a second time nothing.

    Args:
        plan: asked under the lock, so that what it read is what is changed.

    Returns:
        What was done, a line each.

    Raises:
        RefusedError: what the plan raises; INSTALL_REFUSED while a child works on a step here, who would be blamed.

    Side effects:
        The files of the plan, and the record in the common dir.
    """
    with locked(context.runs.lock_path, wait=context.lock_wait):
        found = plan()
        if not found.changes:
            return ()
        refuse_while_pending(context)
        store = RecordStore(context)
        store.save(_recorded(context, store, found))
        for whole in wanted.files(found.manifest.clients):  # what a later update merges against
            store.keep(whole.data)
        for change in found.changes:
            if change.after is None:
                remove_durably(path_of(context, change.path))
            else:
                write_atomic(path_of(context, change.path), change.after, mode=change.mode)
    lines = in_short([change.says for change in found.changes])
    return tuple(line if line.startswith("took ") else f"wrote {line.removeprefix('file ')}" for line in lines)


def refuse_while_pending(context: Context) -> None:
    """Raises RefusedError: INSTALL_REFUSED where a step is pending in this repository.

    What clients load decides what is asked of agent-infra, so a step that changes it is void, whoever changed it.
    """
    for guard in context.runs.guards():
        state = context.runs.seen(guard.task_id)
        if state and state.pending:
            helps = f"let it finish, or `agent-infra orchestrate abandon {guard.task_id} --reason …` first"
            message = (
                f"{state.pending.artifact} of {guard.task_id} is under way, and clients' files may not change; {helps}"
            )
            raise RefusedError(ErrorCode.INSTALL_REFUSED, message)


def _recorded(context: Context, store: RecordStore, found: Plan) -> Record:
    """The record as it is once the plan is carried out; what lay there before is kept beside it."""
    record = store.load()
    files = dict(record.files)
    for change in found.changes:
        before = _before(store, change, files.get(change.path))
        after = None if change.after is None else digest(change.after)
        if before is None and after is not None:
            # a merged file is not its installed text, so it is never removed: it holds people's work
            after = found.manifest.files.get(change.path, after)
        files[change.path] = Trace(after, before)
    return replace(record, files=files).with_folders(_missing_folders(context, found))


def _before(store: RecordStore, change: Change, old: Trace | None) -> str | None:
    """What is to lie at a path when everything is taken away again, as a digest of a text that is kept."""
    if change.before is None:
        return None
    if old is None or not _holds_ours(change.path, change.before):
        return store.keep(change.before)
    if change.path not in _HOOKS or digest(change.before) == old.after:
        return old.before
    # people went on since our entries came: theirs is what was there before
    earlier = store.text(old.before) if old.before else None
    text = hook_settings.without_hooks(change.before.decode(), earlier.decode() if earlier is not None else None)
    return None if earlier is None and _is_empty(text) else store.keep(text.encode())


def _is_empty(text: str) -> bool:
    return text.strip() in ("", "{}")


def _holds_ours(path: str, data: bytes) -> bool:
    """Whether a file that is there is ours, or has entries of ours already: then it is not what was there before."""
    if path not in _HOOKS:
        return path != wanted.THREADS_FILE
    return hook_settings.LAUNCHER.encode() in data


def _missing_folders(context: Context, found: Plan) -> Iterator[str]:
    root = context.repo.state_root
    for change in found.changes:
        for folder in Path(change.path).parents:
            if folder != Path() and not (root / folder).exists():
                yield str(folder)


def uninstall(context: Context) -> tuple[str, ...]:
    """Take away what this clone's `init` installed; what people changed or added since stays.

    Returns:
        What was done and what was kept, a line each.

    Side effects:
        The files, the folders made for them, and the record.
    """
    with locked(context.runs.lock_path, wait=context.lock_wait):
        store = RecordStore(context)
        record = store.load()
        done = [line for path, trace in record.files.items() for line in _undone(context, store, path, trace)]
        for folder in sorted(record.folders, reverse=True):
            place = context.repo.state_root / folder
            if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
                place.rmdir()
        store.forget()
        if not record.files and path_of(context, MANIFEST).is_file():
            done.append(
                "kept the files that .agents/installed.json lists: they came with the repository, not by init here"
            )
    return in_short(done)


def _undone(context: Context, store: RecordStore, path: str, trace: Trace) -> Iterator[str]:
    """Put one file back as it was before, as far as nobody else changed it."""
    try:
        there = read(context, path)
    except AgentInfraError as error:
        yield f"kept {path}: {error.message}"
        return
    before = store.text(trace.before) if trace.before else None
    if there is None and trace.after is None and before is not None:
        yield from _written(context, path, before, f"put {path} back")
    if there is None or (trace.before is not None and digest(there) == trace.before):
        return
    if digest(there) == trace.after and (before is not None) == (trace.before is not None):
        yield from _written(context, path, before, f"removed {path}" if before is None else f"put {path} back")
    elif path in _HOOKS or path == wanted.THREADS_FILE:
        yield from _emptied(context, path, there, before)
    else:
        yield f"kept {path}: it was changed"


def _emptied(context: Context, path: str, there: bytes, before: bytes | None) -> Iterator[str]:
    """Take our entries out of a file that others have changed since."""
    try:
        text, earlier = text_of(path, there), text_of(path, before) if before is not None else None
        after = guarded(path, text, lambda known: _without(path, known, earlier))
    except RefusedError as error:
        yield f"kept {path}: {error.message}"
        return
    if after is None:
        yield f"kept {path}: {thread_setting.KEY} can't be told from what else is there"
        return
    is_ours_alone = before is None and _is_empty(after)
    data = None if is_ours_alone else after.encode()
    yield from _written(context, path, data, f"removed {path}" if data is None else f"took our entries out of {path}")


def _without(path: str, text: str, before: str | None) -> str | None:
    if path in _HOOKS:
        return hook_settings.without_hooks(text, before)
    return thread_setting.without_threads(text, before)


def _written(context: Context, path: str, data: bytes | None, says: str) -> Iterator[str]:
    place = path_of(context, path)
    if data is None:
        remove_durably(place)
    else:
        write_atomic(place, data)
    yield says
