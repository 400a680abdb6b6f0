"""From an event that may be ours to the books: which repository it is, which processes are there, what a child used."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_infra.core.native import Answer, Event
from agent_infra.core.receipts import Origin, Told
from agent_infra.errors import AgentInfraError, ErrorCode
from agent_infra.runtime import ancestry
from agent_infra.services.context import Context, open_context
from agent_infra.services.sessions import book
from agent_infra.services.sessions.desk import Watch
from agent_infra.stores.atomic import HOOK_LOCK_WAIT

TRANSCRIPT_LIMIT = 32 << 20  # bytes; of a longer one nothing is counted, since half a count says nothing


def opened(folder: Path) -> Context:
    """The repository around a folder, as hooks work in it.

    Raises:
        RefusedError: REPO_ROOT_NOT_FOUND.
    """
    return open_context(folder, origin=Origin.HOOK, lock_wait=HOOK_LOCK_WAIT)


def keep(adapter: ModuleType, event: Event, opener: Callable[[Path], Context] = opened) -> Answer:
    """The answer to an event in whose repository something may be ours.

    Raises:
        AgentInfraError: as for `book.keep`.

    Side effects:
        As for `book.keep`.
    """
    try:
        context = opener(Path(event.cwd))
    except AgentInfraError as error:
        if error.code == ErrorCode.REPO_ROOT_NOT_FOUND:
            return Answer()
        raise

    def used(of: Event) -> Told:
        usage, model = adapter.usage_in(_lines(of.transcript))
        return Told(usage, {"model": model} if model else {})

    watch = Watch(ancestry.client_process, ancestry.is_there, used, adapter.changed_input)
    return book.keep(context, event, watch)


def _lines(path: str) -> list[dict[str, Any]]:
    """The objects of a transcript, which is its client's private file: what can't be read says nothing."""
    file = Path(path)
    try:
        if not file.is_absolute() or not file.is_file() or file.stat().st_size > TRANSCRIPT_LIMIT:
            return []
        found = (_parsed(line) for line in file.read_bytes().splitlines())
        return [line for line in found if line]
    except OSError:
        return []


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
