"""How we measure: all commands in turn, round by round, and each figure as a ratio to one command of the same round.

A ratio taken within one round cancels most of what a shared machine does to the clock; its median over the rounds
cancels most of the rest. Nothing here knows what is measured.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Action = Callable[[], object]


@dataclass(frozen=True)
class Step:
    """One thing of a round.

    Attributes:
        label: what the table calls it; empty for what is done between the measured things.
        action: what is done; raises if it did not work, since a failure is fast and would look good.
    """

    label: str
    action: Action


@dataclass
class Measured:
    """Seconds of every label, one figure a round: on the clock, and of processor time with all children."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)


def measure(steps: Sequence[Step], *, rounds: int, warmup: int = 1) -> Measured:
    """Do all steps in turn, `warmup` times for nothing and `rounds` times with the clock running."""
    labels = [step.label for step in steps if step.label]
    found = Measured({label: [] for label in labels}, {label: [] for label in labels})
    for number in range(warmup + rounds):
        for step in steps:
            start, worked = time.perf_counter(), _cpu()
            step.action()
            took, worked = time.perf_counter() - start, _cpu() - worked
            if step.label and number >= warmup:
                found.seconds[step.label].append(took)
                found.cpu[step.label].append(worked)
    return found


def _cpu() -> float:
    """Seconds of processor time that this process and its ended children have used."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def command(argv: Sequence[str | Path], cwd: Path) -> Action:
    """A whole process from start to exit, its output thrown away; exit 0 is expected."""
    words = [os.fspath(word) for word in argv]
    # `env -C` would be one more process in the figure, so the folder is ours while the child starts
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]

    def run() -> None:
        os.chdir(cwd)
        pid = os.posix_spawnp(words[0], words, os.environ, file_actions=actions)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise RuntimeError(f"{' '.join(words)} in {cwd} ended with {code}")

    return run


@dataclass(frozen=True)
class Row:
    """One line of a table: a label and its ratios.

    Attributes:
        cpu: median ratio of processor time, which a busy machine disturbs less than the clock.
    """

    label: str
    median: float
    lowest: float
    highest: float
    cpu: float

    def to_json(self) -> dict[str, str | float]:
        """For the results file, rounded to what the noise leaves."""
        return {
            "label": self.label,
            "median": round(self.median, 3),
            "lowest": round(self.lowest, 3),
            "highest": round(self.highest, 3),
            "cpu": round(self.cpu, 3),
        }


def rows(measured: Measured, to: str) -> list[Row]:
    """All labels as ratios to one of them, round by round."""
    return [added_row(measured, label, "", to) for label in measured.seconds]


def added_row(measured: Measured, label: str, over: str, unit: str) -> Row:
    """What `label` takes more than `over` (or at all, where that is empty), in units of `unit`."""
    wall = _ratios(measured.seconds, label, over, unit)
    cpu = _ratios(measured.cpu, label, over, unit)
    return Row(label, statistics.median(wall), min(wall), max(wall), statistics.median(cpu))


def _ratios(figures: Mapping[str, list[float]], label: str, over: str, unit: str) -> list[float]:
    bases = figures[over] if over else [0.0] * len(figures[label])
    return [(mine - base) / one for mine, base, one in zip(figures[label], bases, figures[unit], strict=True)]


def table(title: str, lines: Sequence[Row]) -> str:
    """The rows for people."""
    width = max(len(line.label) for line in lines)
    head = f"{title}\n{'':{width}}  median  lowest highest     cpu\n"
    body = (
        f"{line.label:{width}} {line.median:7.2f} {line.lowest:7.2f} {line.highest:7.2f} {line.cpu:7.2f}"
        for line in lines
    )
    return head + "\n".join(body) + "\n"
