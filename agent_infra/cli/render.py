"""How answers look: one JSON line for programs, short lines for people; stdout is the answer, stderr the talk."""

import json
import sys
from typing import TYPE_CHECKING, TextIO

from agent_infra.git.repo import display_path

if TYPE_CHECKING:
    from agent_infra.services.outcome import Outcome


def emit(outcome: "Outcome") -> None:
    """One JSON line on stdout; notes for people on stderr too."""
    # JSON is UTF-8 whatever the terminal speaks; elsewhere its escapes keep it readable
    plain = sys.stdout is None or (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    line = _text(json.dumps(outcome.to_json(), ensure_ascii=False, separators=(",", ":")))
    say(json.dumps(json.loads(line), separators=(",", ":")) if plain else line)
    tell(*outcome.notes, *(outcome.error.notes if outcome.error else ()))


def say_json(document: object) -> None:
    """One JSON line on stdout, in the terminal's encoding or with escapes."""
    plain = sys.stdout is None or (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    say(json.dumps(document, ensure_ascii=plain, separators=(",", ":")))


def say_bytes(data: bytes) -> None:
    """A document as it is."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(data.decode(errors="replace"))
    else:
        sys.stdout.flush()
        binary.write(data)
    sys.stdout.flush()


def tell(*lines: str) -> None:
    """Lines for people, on stderr."""
    _write(sys.stderr, lines)


def say(*lines: str) -> None:
    """Lines of an answer for people, on stdout."""
    _write(sys.stdout, lines)


def _text(line: str) -> str:
    """A line whose paths are text: bytes that are no UTF-8 as %XX, as in our records."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return display_path(line.encode("utf-8", "surrogateescape"))
    return line


def _write(stream: TextIO | None, lines: tuple[str, ...]) -> None:
    """Lines in the terminal's encoding; what it lacks is shown escaped. A closed stream wants to hear nothing."""
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    stream.writelines(_text(line).encode(encoding, "backslashreplace").decode(encoding) + "\n" for line in lines)
    stream.flush()


def ways_on(outcome: "Outcome") -> tuple[str, ...]:
    """The commands that leave a pause."""
    begin = f"`agent-infra orchestrate begin {outcome.task_id}`"
    if outcome.run and outcome.run.pending_delegation:
        abandon = f"`agent-infra orchestrate abandon {outcome.task_id} --reason …`"
        return (f"go on: {begin}; where that is not enough {abandon} (`--restore` puts the product back), then begin",)
    return (f"go on: {begin}",)


def show(outcome: "Outcome") -> None:
    """An answer for people: where the run stands, what comes next, and what to know."""
    where = f"{outcome.task_id}: {outcome.status}"
    if outcome.next:
        where += f"; next: {outcome.next.stage} round {outcome.next.round} ({outcome.next.role})"
    say(where)
    if outcome.run and outcome.run.pause and outcome.status == "paused":
        say(f"paused by {outcome.run.pause.code}: {outcome.run.pause.message}", *ways_on(outcome))
    if outcome.error:
        say(f"{outcome.error.code}: {outcome.error.message}")
    tell(*outcome.notes, *(outcome.error.notes if outcome.error else ()))
