"""journal.jsonl: the truth about a run. One canonical-JSON line per event, each naming the SHA-256 of the line before.

Appending and fsyncing a line *is* the transition. What the lines add up to is `core.run.fold`'s business.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.errors import CorruptStateError, ErrorCode
from agent_infra.stores.atomic import append_durably, read_regular, truncate_durably

VERSION = 1
GENESIS = "0" * 64
LIMIT = 1 << 30

_KEYS = frozenset({"v", "seq", "prev", "ts", "op", "run", "receipt", "close", "memo", "facts"})


@dataclass(frozen=True)
class Event:
    """What one transition changed; see `core.run.fold` for what the parts mean.

    Attributes:
        op: what happened, for people and for the replay of a history.
        facts: what else is worth keeping about it (drift, reasons, notes); the fold does not read it.
    """

    op: str
    run: Mapping[str, Any] | None = None
    receipt: Mapping[str, Any] | None = None
    close: bool = False
    memo: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Chain:
    """The valid lines of a journal.

    Attributes:
        events: parsed lines, oldest first.
        heads: SHA-256 of each line.
        size: bytes of the valid lines; what follows is a torn last line.
        torn: whether bytes follow.
    """

    events: tuple[dict[str, Any], ...] = ()
    heads: tuple[str, ...] = ()
    size: int = 0
    torn: bool = False

    @property
    def head(self) -> str:
        """SHA-256 of the last line."""
        return self.heads[-1] if self.heads else GENESIS

    def extended(self, event: Event, *, now: str) -> "tuple[bytes, Chain]":
        """The line of `event`, and the chain as it is once that line is appended."""
        line = render_line(event, seq=len(self.events) + 1, prev=self.head, now=now)
        digest = hashlib.sha256(line[:-1]).hexdigest()
        return line, Chain((*self.events, json.loads(line)), (*self.heads, digest), self.size + len(line))


def render_line(event: Event, *, seq: int, prev: str, now: str) -> bytes:
    """One canonical line: sorted keys, no spaces, UTF-8, one newline at the end."""
    document: dict[str, Any] = {"v": VERSION, "seq": seq, "prev": prev, "ts": now, "op": event.op}
    parts = {"run": event.run, "receipt": event.receipt, "memo": event.memo, "facts": event.facts}
    document |= {name: part for name, part in parts.items() if part}
    if event.close:
        document["close"] = True
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def parse_chain(data: bytes) -> Chain:
    """The chain of a journal's bytes.

    Raises:
        CorruptStateError: ORCHESTRATION_JOURNAL_INVALID naming the first bad line; a last line without its newline
            is torn, not bad.
    """
    events: list[dict[str, Any]] = []
    heads: list[str] = []
    size = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        events.append(_parse_line(line, number, heads[-1] if heads else GENESIS))
        heads.append(hashlib.sha256(line).hexdigest())
        size += len(line) + 1
    return Chain(tuple(events), tuple(heads), size, torn=bool(lines[-1]))


def _parse_line(line: bytes, number: int, prev: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _invalid(number, "it is not JSON") from error
    if not isinstance(event, dict) or event.get("v") != VERSION:
        version = event.get("v") if isinstance(event, dict) else None
        raise _invalid(number, f"its version is {version!r}, expected {VERSION}")
    if unknown := sorted(event.keys() - _KEYS):
        raise _invalid(number, f"it has the unknown keys {', '.join(unknown)}")
    if type(event.get("seq")) is not int or event["seq"] != number or event.get("prev") != prev:
        raise _invalid(number, "it does not follow the line before (sequence number or digest)")
    if not isinstance(event.get("op"), str) or not isinstance(event.get("ts"), str):
        raise _invalid(number, "it names no operation or no time")
    if any(not isinstance(event.get(part, {}), dict) for part in ("run", "receipt", "memo", "facts")):
        raise _invalid(number, "what it changed is not an object")
    if event.get("close", True) is not True:
        raise _invalid(number, "what closes a receipt is not true")
    return event


def _invalid(line: int, why: str) -> CorruptStateError:
    helps = "`agent-infra orchestrate repair TASK` can restore it from the evidence"
    message = f"line {line} of the journal is not valid: {why}; {helps}"
    return CorruptStateError(ErrorCode.ORCHESTRATION_JOURNAL_INVALID, message)


@dataclass(frozen=True)
class Journal:
    """The journal file of one task."""

    path: Path

    def has_lines(self) -> bool:
        """Whether anything was ever written to it."""
        try:
            return self.path.stat().st_size > 0
        except OSError:
            return False

    def read(self) -> Chain | None:
        """The valid chain, or `None` where there is no file.

        Raises:
            CorruptStateError: ORCHESTRATION_JOURNAL_INVALID.
        """
        try:
            data = read_regular(self.path, limit=LIMIT)
        except CorruptStateError as error:
            message = f"{error.message}, at {self.path}"
            raise CorruptStateError(ErrorCode.ORCHESTRATION_JOURNAL_INVALID, message) from error
        return None if data is None else parse_chain(data)

    def append(self, chain: Chain, line: bytes) -> None:
        """Make the event of `line` happen; the caller holds the lock and has read `chain` under it.

        Side effects:
            A torn last line is cut, the new line appended and fsynced.
        """
        if chain.torn:
            truncate_durably(self.path, chain.size)
        append_durably(self.path, line)
