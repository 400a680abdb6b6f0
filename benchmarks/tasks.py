"""What people wait for in a repository with ten thousand tasks: lists, a search, a new task."""

import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from repositories import git
from timing import Row, Step, command, measure, rows

from agent_infra.core.creation import Birth, Wish, render_wish
from agent_infra.resources import resource

TASKS = 10_000
BASE = "`python -c pass`"
_PROGRAM = Path(sys.executable).with_name("agent-infra")
_STATES = ("active", "active", "blocked", "completed")


def run(*, tasks: int, rounds: int) -> list[Row]:
    """Whole processes as ratios to `python -c pass`."""
    folder = Path(tempfile.mkdtemp(prefix="agent-infra-bench-"))
    try:
        _fill(folder, tasks)
        argv = {
            BASE: [sys.executable, "-c", "pass"],
            "`task ls`": [_PROGRAM, "task", "ls"],
            "`task ls --all`": [_PROGRAM, "task", "ls", "--all"],
            "`task ls --all --json`": [_PROGRAM, "task", "ls", "--all", "--json"],
            "`task show` of the branch's task": [_PROGRAM, "task", "show"],
            "`task grep`": [_PROGRAM, "task", "grep", "number 77 "],
        }
        steps = [Step(label, command(words, folder)) for label, words in argv.items()]
        return rows(measure(steps, rounds=rounds), BASE)
    finally:
        shutil.rmtree(folder)


def _fill(folder: Path, tasks: int) -> None:
    """A repository with tasks in every state, with names in two scripts; one of them is the branch's."""
    git(folder, "init", "-q", "-b", "main")
    template = resource("templates", "task.md").read_text(encoding="utf-8")
    born = datetime(2020, 1, 1, tzinfo=UTC)
    known = "TASK-20000101-000000"
    birth = Birth(known, "2026-01-01 12:00:00+00:00", "v0.1.0", "BRANCH")
    text = render_wish(template, Wish("TITLE", description="Measured, not read.\n"), birth).decode()
    for number in range(tasks):
        task_id, state = f"TASK-{born:%Y%m%d-%H%M%S}", _STATES[number % len(_STATES)]
        born += timedelta(minutes=7)
        path = folder / ".agents" / "workspace" / state / task_id / "task.md"
        path.parent.mkdir(parents=True)
        own = text.replace(known, task_id).replace("status: active", f"status: {state}")
        own = own.replace("BRANCH", "main" if number == 1 else f"shop-feature-{number}")
        path.write_text(own.replace("TITLE", f"任务 number {number} of many 🎉"), encoding="utf-8")
