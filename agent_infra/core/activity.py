"""The activity log as steps: which were started, which ended, which are under way.

A start line has a step that ends in ` [started]`; lines of one step are paired first in, first out.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from agent_infra.core.tasks import LogEntry

STARTED, ABORTED = " [started]", " [aborted]"
_ATTEMPT = re.compile(r"(?:^|; ?)attempt=([^;\s]+)")


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One step: `started` is None where only its end was logged, `done` while it is under way."""

    step: str
    agent: str
    started: str | None
    done: str | None
    note: str
    aborted: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is under way."""
        return self.done is None


def pair_steps(entries: Iterable[LogEntry]) -> tuple[LoggedStep, ...]:
    """The steps of a log by time of their first line; lines of the same time keep the order of the file."""
    steps: list[LoggedStep] = []
    for entry in sorted(entries, key=lambda entry: moment(entry.at)):
        if entry.step.endswith(STARTED):
            steps.append(LoggedStep(entry.step.removesuffix(STARTED), entry.agent, entry.at, None, entry.note))
            continue
        aborted = entry.step.endswith(ABORTED)
        name = entry.step.removesuffix(ABORTED)
        place = _open_place(steps, name, entry.note if aborted else "")
        ended = LoggedStep(name, entry.agent, None, entry.at, entry.note, aborted)
        if place is None:
            steps.append(ended)
        else:
            steps[place] = replace(ended, started=steps[place].started)
    return tuple(steps)


def moment(at: str) -> datetime:
    """The time of a log line, so that lines with other offsets can be compared; without an offset it is UTC.

    A stamp that is no date (the 31st of February) is the oldest of all.
    """
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _open_place(steps: list[LoggedStep], name: str, note: str) -> int | None:
    """Where the oldest open step of that name is; an attempt that the note names wins."""
    places = [place for place, step in enumerate(steps) if step.is_open and step.step == name]
    if attempt := _ATTEMPT.search(note):
        same = (place for place in places if (m := _ATTEMPT.search(steps[place].note)) and m[1] == attempt[1])
        return next(same, None)
    return places[0] if places else None
