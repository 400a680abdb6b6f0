"""A repository with a task that is split: its plan, what its children do, and the program as a person calls it."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.repos import Sandbox

PROGRAM = Path(sys.executable).parent / "agent-infra"
TASK = "TASK-20260101-120000"
CONFIG = '[engines.sh]\nkind = "command"\nargv = ["sh", "-ec", ". \\"$SCRIPTS/$AGENT_INFRA_SUBTASK.sh\\""]\n'
TASK_MD = f"""---
id: {TASK}
type: feature
workflow: feature-development
status: active
priority: high
created_at: 2026-01-01 12:00:00+00:00
updated_at: 2026-01-01 12:00:00+00:00
agent_infra_version: v0.1.0
current_step: code
assigned_to: human
---

# A big one

## Activity Log
"""
APPROVED = """# Plan Review

- **Review Input**:
  - `plan.md`

## Review Summary

- **Overall Verdict**: Approved
- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 0
"""


@dataclass(frozen=True)
class Answer:
    """How a call ended, and the result that it printed."""

    code: int
    result: dict[str, Any]
    talk: str


@dataclass(frozen=True)
class Board:
    """One repository; `scripts` holds what each child does, outside of it."""

    path: Path
    scripts: Path

    @property
    def sandbox(self) -> Sandbox:
        return Sandbox(self.path)

    def git(self, *args: str) -> str:
        return self.sandbox.git(*args)

    @property
    def folder(self) -> Path:
        return self.path / ".agents" / "workspace" / "active" / TASK

    @property
    def state(self) -> Path:
        return self.path / ".git" / "agent-infra"

    def plan(self, subtasks: str, *, review: bool = True, more: str = "") -> None:
        """Write plan.md with this YAML list, and its approving review."""
        indented = "".join(f"  {line}\n" for line in subtasks.strip("\n").split("\n"))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "plan.md").write_text(f"---\n{more}subtasks:\n{indented}---\n# Technical Design\n")
        if review:
            (self.folder / "review-plan.md").write_text(APPROVED)

    def does(self, **scripts: str) -> None:
        """What each child does."""
        for name, text in scripts.items():
            (self.scripts / f"{name}.sh").write_text(text + "\n")

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "SCRIPTS": str(self.scripts), **more}

    def call(self, *args: str, cwd: Path | None = None, **environment: str) -> Answer:
        """A call of `subtasks`, with `--json`."""
        argv = [PROGRAM, "subtasks", args[0], TASK, *args[1:], "--json"]
        done = subprocess.run(
            argv, cwd=cwd or self.path, env=self.environment(**environment), capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}, done.stderr)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """A run that goes on by itself; whoever starts it waits for it."""
        argv = [PROGRAM, "subtasks", "run", TASK, *args, "--json"]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.path, env=self.environment(), stdout=pipe, stderr=pipe, text=True)

    def trail(self) -> list[dict[str, Any]]:
        path = self.state / "subtasks" / TASK / "trail.jsonl"
        lines = path.read_text().split("\n") if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.trail() if line["eventType"] == kind]

    def record(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "subtasks" / TASK / "children" / f"{name}.json").read_text())
        return found

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def digest(self, *, without: tuple[str, ...] = ()) -> str:
        """Every byte of the repository, git's own files too, but for what is named."""
        found = hashlib.sha256()
        for path in sorted(self.path.rglob("*")):
            name = str(path.relative_to(self.path))
            if any(name == one or name.startswith(f"{one}/") for one in without):
                continue
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found.update(f"{name}\0{path.lstat().st_mode}\0".encode() + data)
        return found.hexdigest()


def make_board(folder: Path) -> Board:
    """A repository with one commit, an active task and an engine that runs shell scripts."""
    board = Board(folder / "repo", folder / "scripts")
    board.path.mkdir()
    board.scripts.mkdir()
    board.git("init", "-q", "-b", "main")
    config = {".agents/config.toml": CONFIG, ".agents/.gitignore": "workspace/\n"}
    board.sandbox.write({"src/base.txt": "base\n", ".gitignore": ".env\n", **config})
    board.sandbox.commit("base")
    board.folder.mkdir(parents=True)
    (board.folder / "task.md").write_text(TASK_MD)
    return board


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Look until something holds; a test that waits longer has failed."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def three(board: Board) -> None:
    """The plan that most tests use: a and b side by side, then c."""
    board.plan(
        """
- {id: a, files: [src/a.py]}
- {id: b, files: [src/b.py]}
- {id: c, files: [src/c.py], blockedBy: [a, b]}
"""
    )
    board.does(
        a="echo 'A = 1' > src/a.py",
        b="echo 'B = 1' > src/b.py",
        c="cat src/a.py src/b.py > src/c.py",
    )
