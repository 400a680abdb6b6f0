"""What a child of an orchestration costs beside its own work: against a bare `git worktree add` and `remove`."""

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from repositories import generate, git
from timing import Row, Step, measure, rows

_PROGRAM = Path(sys.executable).with_name("agent-infra")
_PLAN = """---
subtasks:
  - {id: a1, files: [new/a1.txt]}
  - {id: a2, files: [new/a2.txt]}
  - {id: a3, files: [new/a3.txt]}
  - {id: a4, files: [new/a4.txt]}
  - {id: b1, files: [new/b1.txt], blockedBy: [a1]}
  - {id: b2, files: [new/b2.txt], blockedBy: [a2]}
  - {id: b3, files: [new/b3.txt], blockedBy: [a3]}
  - {id: c1, files: [new/c1.txt], blockedBy: [b1, b2, b3]}
---
# Technical Design
"""
_REVIEW = """# Plan Review

- **Review Input**:
  - `plan.md`

## Review Summary

- **Overall Verdict**: Approved
- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 0
"""
CHILDREN = 8
_WORK = "mkdir -p new; echo x > new/$AGENT_INFRA_SUBTASK.txt"

BARE = "bare `git worktree add` and `remove`, four at a time"
OURS = "`subtasks run --parallel 4`, three waves"


def run(*, files: int, rounds: int) -> list[Row]:
    """Eight children in three waves, each of them against a worktree that git alone adds and removes."""
    with tempfile.TemporaryDirectory(prefix="agent-infra-bench-") as temporary:
        folder = Path(temporary).resolve() / "repo"
        generate(folder, files)
        config = f'[engines.sh]\nargv = ["sh", "-c", {json.dumps(_WORK)}]\n'
        (folder / ".agents").mkdir()
        (folder / ".agents" / "config.toml").write_text(config, encoding="utf-8")
        steps = [
            Step(BARE, partial(_bare, folder)),
            Step(OURS, partial(_orchestrate, folder)),
            Step("", partial(_tidy, folder)),
        ]
        return rows(measure(steps, rounds=rounds, warmup=0), BARE)


def _bare(folder: Path) -> None:
    """What git alone does for eight children."""
    for first in range(0, CHILDREN, 4):
        places = [folder.parent / f"bare-{first + number}" for number in range(4)]
        adding = [
            subprocess.Popen(["git", "worktree", "add", "-q", "--detach", str(place), "HEAD"], cwd=folder)
            for place in places
        ]
        if any(process.wait() for process in adding):
            raise RuntimeError("git worktree add did not work")
        for place in places:
            git(folder, "worktree", "remove", "--force", str(place))


def _orchestrate(folder: Path) -> None:
    """A whole orchestration; its engines do next to nothing."""
    asked = [_PROGRAM, "task", "create", "--title", "Bench", "--json"]
    task = json.loads(subprocess.run(asked, cwd=folder, capture_output=True, check=True).stdout)
    place = Path(task["path"]).parent
    (place / "plan.md").write_text(_PLAN, encoding="utf-8")
    (place / "review-plan.md").write_text(_REVIEW, encoding="utf-8")
    argv = [_PROGRAM, "subtasks", "run", task["taskId"], "--parallel", "4", "--json"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def _tidy(folder: Path) -> None:
    shutil.rmtree(folder / "new")
