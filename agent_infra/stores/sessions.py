"""What the hooks of one worktree remember between two events: who starts the pending child, who saw it stop.

It is no truth: the journal is. Without it a run goes on, and knows less about children that got lost.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_infra.errors import CorruptStateError
from agent_infra.stores.atomic import locked, read_regular, remove_durably, write_atomic

NAME = "sessions.json"
LIMIT = 1 << 20
SESSIONS_KEPT = 16
ASKED, RETURNED, FAILED = "asked", "returned", "failed"


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one of the same number by its start."""

    pid: int
    started: str


@dataclass
class Spawn:
    """The start of the pending child, as far as it was seen.

    Attributes:
        receipt: id of the pending receipt.
        state: asked (the tool call was let through), returned, or failed (it led to no child).
        names: what the client calls the child.
        refused: how often another spawn was refused for this one.
        faults: how often the child was asked to go on.
        process: the client's.
        documents: digests of the documents that were put into the child's outbox, by name.
    """

    receipt: str = ""
    session: str = ""
    tool_use: str = ""
    state: str = ASKED
    names: list[str] = field(default_factory=list)
    refused: int = 0
    faults: int = 0
    process: Process | None = None
    documents: dict[str, str] = field(default_factory=dict)


@dataclass
class Stop:
    """A child's stop that was seen and whose result is not taken in yet."""

    child: str
    receipt: str


@dataclass
class Driver:
    """A session whose main agent drives a task.

    Attributes:
        seq: the journal line at its last stop.
        blocks: how often it was kept going since that line.
        waited: the receipt, or journal line, for which a wait was refused.
    """

    task: str
    seq: int = 0
    blocks: int = 0
    waited: str = ""


@dataclass
class Notes:
    """Everything that is remembered of one worktree."""

    spawn: Spawn | None = None
    stop: Stop | None = None
    drivers: dict[str, Driver] = field(default_factory=dict)

    def drive(self, session: str, task: str) -> None:
        """The session drives this task now; of many sessions the last ones are remembered."""
        known = self.drivers.pop(session, None)
        self.drivers[session] = known if known and known.task == task else Driver(task)
        for old in list(self.drivers)[:-SESSIONS_KEPT]:
            del self.drivers[old]


@dataclass(frozen=True)
class SessionStore:
    """The notes in the git dir of a worktree; `folder` is `<git dir>/agent-infra`."""

    folder: Path

    @contextmanager
    def opened(self, wait: float) -> Iterator[Notes]:
        """The notes, for one event at a time; what is left in them when the block ends is kept.

        Raises:
            RefusedError: LOCK_TIMEOUT while another event of this worktree is worked on.

        Side effects:
            The notes' file, also where the block raises.
        """
        with locked(self.folder / "sessions.lock", wait=wait):
            before = self._read()
            notes = _parsed(before)
            try:
                yield notes
            finally:
                self._write(notes, before)

    def keep(self, notes: Notes) -> None:
        """Keep the notes now, before slow work; only within `opened`."""
        self._write(notes, None)

    def _read(self) -> bytes:
        try:
            return read_regular(self.folder / NAME, limit=LIMIT) or b""
        except CorruptStateError:
            return b""

    def _write(self, notes: Notes, before: bytes | None) -> None:
        if notes == Notes():
            if before != b"":
                remove_durably(self.folder / NAME)
            return
        data = json.dumps(asdict(notes), indent=1).encode() + b"\n"
        if data != before:
            write_atomic(self.folder / NAME, data)


def _parsed(data: bytes) -> Notes:
    """The notes; what can't be read is forgotten, since nothing rests on it."""
    try:
        found: dict[str, Any] = json.loads(data)
        spawn, stop = found["spawn"], found["stop"]
        return Notes(
            spawn and Spawn(**{**spawn, "process": _process(spawn["process"])}),
            stop and Stop(**stop),
            {str(session): Driver(**driver) for session, driver in found["drivers"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Notes()


def _process(found: dict[str, Any] | None) -> Process | None:
    return Process(int(found["pid"]), str(found["started"])) if found else None
