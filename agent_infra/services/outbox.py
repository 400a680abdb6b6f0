"""The outbox: a folder in the worktree where a child hands in what its sandbox keeps it from putting into the task.

It is ignored by its own .gitignore and never part of a snapshot. At the child's end the expected file is moved to the
task's folder, and task.md where the child changed its copy.
"""

import hashlib
import os
from pathlib import Path

from agent_infra.core.lifecycle import Stage
from agent_infra.core.receipts import Origin, Receipt
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.stores.artifacts import read_task
from agent_infra.stores.atomic import read_regular, remove_durably, write_atomic
from agent_infra.stores.workspace import ARTIFACT_LIMIT, TASK_LIMIT, TaskPlace

FOLDER = ".agent-infra"
MESSAGE_FILE = "commit.md"
DOCUMENT = "task.md"
_SANDBOXED = frozenset({"codex"})  # clients whose sandbox keeps .agents and .git read-only
# clients whose children are known by name only when they are at work, or that write below their folder alone
_LATE_OR_CONFINED = frozenset({"opencode", "gemini-cli"})


def is_used(receipt: Receipt) -> bool:
    """Whether the child of this receipt hands in through the outbox."""
    if receipt.origin == Origin.DRIVER:
        return receipt.client in _SANDBOXED | _LATE_OR_CONFINED
    return receipt.client in _SANDBOXED and receipt.origin == Origin.HOOK


def folder_of(worktree: str | Path, task_id: str) -> Path:
    """Where a task's outbox lies."""
    return Path(worktree) / FOLDER / task_id


def expected(receipt: Receipt, worktree: str | Path) -> Path:
    """The one file that is awaited."""
    name = MESSAGE_FILE if receipt.stage == Stage.COMMIT else receipt.artifact
    return folder_of(worktree, receipt.task_id) / name


def open_outbox(context: Context, place: TaskPlace, receipt: Receipt) -> dict[str, str]:
    """Make the outbox ready for a child; what an earlier one left there goes.

    Returns:
        Digests of the documents that lie in it, by name.

    Raises:
        RefusedError: STORE_WRITE_FAILED, also where something else lies at its place.

    Side effects:
        The folder with a .gitignore, and a copy of task.md.
    """
    folder = _checked(context.repo.worktree, place.task_id)
    ignore = folder.parent / ".gitignore"
    if not ignore.is_file() or ignore.read_bytes() != b"*\n":
        write_atomic(ignore, b"*\n")
    remove_durably(expected(receipt, context.repo.worktree))
    document = read_task(place)
    write_atomic(folder / DOCUMENT, document)
    return {DOCUMENT: hashlib.sha256(document).hexdigest()}


def _checked(worktree: Path, task_id: str) -> Path:
    """The outbox, made of real folders: a link would lead what is written there elsewhere."""
    folder = folder_of(worktree, task_id)
    for part in (folder.parent, folder):
        if part.is_symlink() or (os.path.lexists(part) and not part.is_dir()):
            message = f"{part} is in the way of the outbox, expected a folder of its own; move it aside"
            raise RefusedError(ErrorCode.STORE_WRITE_FAILED, message)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedError(ErrorCode.STORE_WRITE_FAILED, f"cannot make {folder}: {error.strerror}") from error
    return folder


def take_in(context: Context, place: TaskPlace, receipt: Receipt, given: dict[str, str]) -> dict[str, str]:
    """Move what a child handed in to the task's folder; nothing there is no error here.

    Args:
        given: what `open_outbox` returned, or this function before.

    Returns:
        Digests of the documents that lie in it now, by name.

    Raises:
        CorruptStateError: ORCHESTRATION_ARTIFACT_INVALID for a symlink, folder or oversized file.
        RefusedError: STORE_WRITE_FAILED.

    Side effects:
        The artifact and task.md in the task's folder; the outbox' artifact goes.
    """
    folder = _checked(context.repo.worktree, place.task_id)
    document = _take_document(place, folder / DOCUMENT, given.get(DOCUMENT))
    path = folder / receipt.artifact
    data = None if receipt.stage == Stage.COMMIT else read_regular(path, limit=ARTIFACT_LIMIT)
    if data is not None:
        write_atomic(place.folder / receipt.artifact, data)
        remove_durably(path)
    return {DOCUMENT: document} if document else given


def _take_document(place: TaskPlace, path: Path, given: str | None) -> str | None:
    """Take task.md as the child left its copy, if it changed that and nobody changed the original meanwhile."""
    data = read_regular(path, limit=TASK_LIMIT)
    if data is None or given is None or hashlib.sha256(data).hexdigest() == given:
        return None
    if hashlib.sha256(read_task(place)).hexdigest() != given:
        message = f"{path} was changed, and so was the task's own task.md; copy your rows over from {place.document}"
        raise RefusedError(ErrorCode.ORCHESTRATION_TASK_INVALID, message)
    write_atomic(place.document, data)
    return hashlib.sha256(data).hexdigest()


def message_in(receipt: Receipt, worktree: str | Path) -> str | None:
    """The commit message that a child handed in; None without one.

    Raises:
        RefusedError: ORCHESTRATION_COMMIT_MISSING for a file that holds no message.
    """
    path = expected(receipt, worktree)
    try:
        data = read_regular(path, limit=TASK_LIMIT)
        text = None if data is None else data.decode()
    except (CorruptStateError, UnicodeDecodeError) as error:
        message = f"{path} can't be read as a commit message: {error}"
        raise RefusedError(ErrorCode.ORCHESTRATION_COMMIT_MISSING, message) from error
    if text is not None and not text.strip():
        raise RefusedError(ErrorCode.ORCHESTRATION_COMMIT_MISSING, f"{path} is empty, expected a commit message")
    return text
