"""Moves of a guarded branch that no run authorized and that were still right: recorded once git has made them.

They are noted as files while git asks, without our lock, and become journal lines when git says that it is done, or at
the next question of git if the lock was busy then.
"""

import hashlib
import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError
from agent_infra.git import refs
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.stores.atomic import remove_durably, write_atomic
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import require

ALLOWED = "allowed"
UPSTREAM = "upstream"
_UNDECIDED = 60.0  # seconds in which git may still be about to make a move


@dataclass(frozen=True)
class Move:
    """A ref that goes from one commit to another.

    Attributes:
        why: ALLOWED, by a person; UPSTREAM, a fast-forward to what is public already.
        tasks: whose journals keep it.
    """

    ref: str
    old: str | None
    new: str
    why: str
    tasks: tuple[str, ...]


def folder(context: Context) -> Path:
    """Where moves are noted; the shim looks whether it is empty."""
    return context.runs.folder / "moves"


def note(context: Context, noted: Iterable[Move]) -> None:
    """Keep in mind what git is about to do.

    Side effects:
        One file for each move.
    """
    for move in noted:
        data = json.dumps(asdict(move)).encode()
        write_atomic(folder(context) / hashlib.sha256(data).hexdigest()[:16], data)


def settle(context: Context) -> None:
    """Record the noted moves that git has made, and forget the others.

    Raises:
        RefusedError: LOCK_TIMEOUT; what was not recorded is kept for the next time.

    Side effects:
        Journal, view and evidence of the runs; the notes are removed.
    """
    for path in sorted(folder(context).glob("[!.]*")):
        move = _read(path)
        held = _held(context, move.ref) if move else None
        if move and held == move.new:
            for task_id in move.tasks:
                _record(context, task_id, move)
        elif move and held == move.old and _is_young(path):
            continue
        remove_durably(path)


def _read(path: Path) -> Move | None:
    try:
        found = json.loads(path.read_bytes())
        return Move(found["ref"], found["old"], found["new"], found["why"], tuple(found["tasks"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_young(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime < _UNDECIDED
    return False


def _held(context: Context, ref: str) -> str | None:
    if ref.startswith(refs.HEADS):
        return refs.values(context.repo, [ref])[0].get(ref)
    return context.repo.head().oid


def _record(context: Context, task_id: str, move: Move) -> None:
    try:
        place = context.resolve(task_id)
        state = context.runs.seen(task_id)
    except AgentInfraError:
        return  # a run that can't be read guards on, and says so itself
    if state is None or not _news(state, move):
        return

    def decide(state: State | None) -> Event | None:
        return _event(require(state, task_id), move)

    after, changed = context.change(place, decide)
    if changed:
        records.write_evidence(context, place, require(after, task_id))


def _event(state: State, move: Move) -> Event | None:
    if not _news(state, move):
        return None
    memo: dict[str, Any] = {"head": move.new} if is_branch_of(state, move.ref) else {}
    if move.why == ALLOWED:
        memo |= {"allowed": None, "allowedHead": None}
        return Event(ALLOWED, memo=memo, facts={"commit": move.new})
    return Event(UPSTREAM, memo=memo, facts={"ref": move.ref, "from": move.old, "to": move.new})


def _news(state: State, move: Move) -> bool:
    """Whether the journal does not say it yet."""
    if not state.run.guards:
        return False
    return bool(state.memo.allowed) if move.why == ALLOWED else state.memo.head != move.new


def is_branch_of(state: State, ref: str | None) -> bool:
    """Whether a ref, by its full name, is the branch of the run."""
    return state.run.branch is not None and ref == refs.HEADS + state.run.branch
