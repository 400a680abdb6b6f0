"""What a child says while it works: heard line by line, kept as a log without secrets."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Protocol

from agent_infra.core.receipts import Told
from agent_infra.stores.logs import StepLog

_CHUNK = 1 << 20
_LINE_LIMIT = 32 << 20  # bytes; a longer line is heard in pieces, which say nothing


class Ears(Protocol):
    """Who understands what a child says on its standard output."""

    @property
    def session(self) -> str:
        """How the child calls itself; empty before it said so."""
        ...

    @property
    def doing(self) -> str:
        """What it is at now, in a few words."""
        ...

    @property
    def fault(self) -> str:
        """The last fault that it named."""
        ...

    def hear(self, line: bytes) -> None:
        """One whole line."""
        ...

    def told(self) -> Told:
        """What goes on record."""
        ...


class Deaf:
    """Hears nothing: for a child whose words mean nothing to us."""

    session = doing = fault = ""

    def hear(self, line: bytes) -> None:
        """Nothing."""

    def told(self) -> Told:
        """Nothing."""
        return Told()


@dataclass
class Stream:
    """One output of a child, which it writes to a file of its own: neither side can block the other."""

    file: IO[bytes]
    _at: int = field(default=0, init=False)
    _rest: bytes = field(default=b"", init=False)

    def lines(self, *, last: bool = False) -> list[bytes]:
        """The whole lines since the last look; at the end what is left too."""
        data = self._rest
        while piece := os.pread(self.file.fileno(), _CHUNK, self._at):  # the child's own place in the file stays
            self._at += len(piece)
            data += piece
        whole, newline, self._rest = data.rpartition(b"\n")
        if last or len(self._rest) > _LINE_LIMIT:
            whole, self._rest = data, b""
        return whole.split(b"\n") if whole or newline else []


@dataclass
class Voice:
    """The outputs of one child.

    Attributes:
        err: None where both are one.
        log: where they are kept; None for nowhere.
    """

    out: Stream
    err: Stream | None
    ears: Ears = field(default_factory=Deaf)
    log: StepLog | None = None

    def listen(self, *, last: bool = False) -> None:
        """Hear what was said since the last time.

        Side effects:
            The log; a disk that is full keeps nobody from working.
        """
        kept: list[bytes] = []
        for line in self.out.lines(last=last):
            kept.append(line)
            self.ears.hear(line)
        kept += self.err.lines(last=last) if self.err else []
        if self.log and kept:
            with suppress(OSError):
                self.log.add("".join(f"{line.decode(errors='replace')}\n" for line in kept if line))
