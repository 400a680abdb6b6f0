"""How answers look: one JSON line for programs, short lines for people; stdout is the answer, stderr the talk."""

import json
import sys

from agent_infra.services.outcome import Outcome


def emit(outcome: Outcome) -> None:
    """One JSON line on stdout; notes for people on stderr too."""
    sys.stdout.write(json.dumps(outcome.to_json(), ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()
    tell(*outcome.notes, *(outcome.error.notes if outcome.error else ()))


def tell(*lines: str) -> None:
    """Lines for people, on stderr."""
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def say(*lines: str) -> None:
    """Lines of an answer for people, on stdout."""
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show(outcome: Outcome) -> None:
    """An answer for people: where the run stands, what comes next, and what to know."""
    where = f"{outcome.task_id}: {outcome.status}"
    if outcome.next:
        where += f"; next: {outcome.next.stage} round {outcome.next.round} ({outcome.next.role})"
    say(where)
    if outcome.run and outcome.run.pause and outcome.status == "paused":
        say(f"paused by {outcome.run.pause.code}: {outcome.run.pause.message}")
    if outcome.error:
        say(f"{outcome.error.code}: {outcome.error.message}")
    tell(*outcome.notes, *(outcome.error.notes if outcome.error else ()))
