"""One real repository at any point of a run, and the ways in which people, git and programs reach it.

A run names its worktree by its absolute path. So a state is built once for all tests, kept as a copy, and put back at
the same path for every test that starts from it.
"""

import errno
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_infra.core.lifecycle import NATIVE_AGENTS, Flow, Stage, Step
from agent_infra.core.receipts import Activation
from agent_infra.services import delegate, orchestrate
from agent_infra.services import prepare as preparing
from agent_infra.services.context import Context, open_context
from agent_infra.services.setup import install

TASK = "TASK-20260101-120000"
OTHER = "TASK-20260101-130000"
CLIENT = "claude-code"
PROGRAM = Path(sys.executable).with_name("agent-infra")
AGENTS = {str(role): name for name, role in NATIVE_AGENTS.items()}
_HIDDEN = ("CI", "CLAUDE", "CODEX", "AGENT_INFRA", "EDITOR", "VISUAL")

TASK_MD = """---
id: {task}
type: bugfix
workflow: bug-fix
status: active
created_at: 2026-01-01 12:00:00+00:00
updated_at: 2026-01-01 12:00:00+00:00
agent_infra_version: v0.1.0
current_step: requirement-analysis
assigned_to: human
---

# Add returns the wrong sum

## Description

add(2, 2) must be 4.

## Review Disagreement Ledger

| id | stage | round | severity | status | evidence |
|---|---|---|---|---|---|

## Activity Log

- 2026-01-01 12:00:00+00:00 — **Create Task** by human — created
"""

FILES = {
    "README.md": "# sample\n",
    "src/app.py": "def add(a, b):\n    return a - b\n",
    "src/old.py": "OLD = 1\n",
    "tool.sh": "#!/bin/sh\n",
    ".gitignore": ".agents/workspace/\nbuild/\n",
}
FIXED = "def add(a, b):\n    return a + b\n"


def artifact_text(step: Step, *, verdict: str = "Approved", counts: tuple[int, int, int] = (0, 0, 0)) -> str:
    """What a child hands in for a step."""
    if not step.stage.startswith("review-"):
        return f"# {step.stage}\n\n- **Artifact File**: `{step.artifact}`\n\nWork of round {step.round}.\n\n$ true\n"
    judged = step.artifact.removeprefix("review-")
    blockers, majors, minors = counts
    return f"""# Review

- **Artifact File**: `{step.artifact}`
- **Review Input**:
  - `{judged}`

## Review Summary

- **Overall Verdict**: {verdict}
- **Findings (AI-actionable)**: {blockers} blockers, {majors} majors, {minors} minors / **Manual validation**: 0

## Findings

None in this round.

## Raw Evidence

$ true
"""


@dataclass
class Answer:
    """How a program ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict), self
        return found

    @property
    def error(self) -> str | None:
        """The code of the refusal in the JSON answer."""
        error = self.json["error"]
        return error["code"] if error else None


@dataclass
class World:
    """A repository at `root`; `root.parent` is the test's to play in.

    Attributes:
        primary: the worktree that holds the tasks, where it is another one.
    """

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    primary: Path | None = None

    def __post_init__(self) -> None:
        self.env = self.env or environment(self.root.parent)

    # -- programs ------------------------------------------------------------------------------------------------------

    def run(self, *argv: str, cwd: Path | None = None, check: bool = True, env: dict[str, str] | None = None) -> Answer:
        done = subprocess.run(
            argv,
            cwd=cwd or self.root,
            env=self.env | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
        )
        answer = Answer(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr))
        assert not check or answer.code == 0, (argv, answer)
        assert "Traceback (most recent call last)" not in answer.err, answer.err
        return answer

    def git(self, *args: str, **options: Any) -> Answer:
        return self.run("git", *args, **options)

    def cli(self, *args: str, **options: Any) -> Answer:
        return self.run(str(PROGRAM), *args, **options)

    def verb(self, name: str, *args: str, code: int = 0, task: str = TASK, **options: Any) -> Answer:
        """A verb of `orchestrate` about the task, with its exit code."""
        answer = self.cli("orchestrate", name, task, *args, check=False, **options)
        assert answer.code == code, answer
        return answer

    # -- what git says -------------------------------------------------------------------------------------------------

    @property
    def head(self) -> str:
        return self.git("rev-parse", "-q", "--verify", "HEAD", check=False).out.strip()

    def committed(self, commit: str = "HEAD") -> list[str]:
        """Name and status of what a commit changed."""
        shown = self.git("show", "--no-renames", "--name-status", "--format=", "-z", commit).out.split("\0")[:-1]
        return [" ".join(pair) for pair in zip(shown[::2], shown[1::2], strict=True)]

    def trailers(self, commit: str = "HEAD") -> dict[str, str]:
        shown = self.git("log", "-1", "--format=%(trailers:only,unfold)", commit).out
        return dict(line.split(": ", 1) for line in shown.splitlines() if line.startswith("Agent-Infra-"))

    def refused(self, *args: str, says: tuple[str, ...] = (), **options: Any) -> str:
        """A commit that git must refuse with these words; HEAD stays."""
        before = self.head
        answer = self.git("commit", *args, check=False, **options)
        assert answer.code != 0, (args, answer)
        assert self.head == before
        assert all(word in answer.err for word in says), answer.err
        return answer.err

    # -- files ---------------------------------------------------------------------------------------------------------

    def write(self, name: str, text: str | bytes, *, mode: int | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        if mode is not None:
            path.chmod(mode)
        return path

    def hook(self, name: str, script: str) -> Path:
        return self.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n", mode=0o755)

    def folder(self, task: str = TASK) -> Path:
        return (self.primary or self.root) / ".agents" / "workspace" / "active" / task

    def make_task(self, task: str = TASK) -> None:
        self.write(f".agents/workspace/active/{task}/task.md", TASK_MD.format(task=task))

    def view(self, task: str = TASK) -> dict[str, Any]:
        found = json.loads((self.folder(task) / "orchestration.json").read_text())
        assert isinstance(found, dict)
        return found

    def journal(self, task: str = TASK) -> list[dict[str, Any]]:
        path = self.root / ".git" / "agent-infra" / "runs" / task / "journal.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()]

    # -- a run, in this process ----------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        return open_context(self.root)

    def begin(self, task: str = TASK, *, flow: Flow = Flow.STREAMLINED) -> None:
        orchestrate.begin(self.context, task, orchestrate.Beginning(flow=flow))

    def open_step(self, task: str = TASK) -> Step:
        """The next step, prepared and activated."""
        preparing.prepare(self.context, task, preparing.Order(CLIENT))
        state = self.context.runs.seen(task)
        assert state
        assert state.pending
        step = state.pending.step
        started = Activation(CLIENT, AGENTS[step.role], f"child-{uuid.uuid4()}", "parent-1", "fresh")
        assert delegate.activate(self.context, task, started).status == "running"
        return step

    def close_step(self, task: str = TASK) -> str:
        """Complete, seal and advance; where the run stands then."""
        delegate.complete(self.context, task, delegate.Claim("claude"))
        self.seal(task)
        return orchestrate.advance(self.context, task).status

    def stop_of(self, task: str = TASK) -> delegate.Stop:
        """The native stop of the pending step's child."""
        state = self.context.runs.seen(task)
        assert state
        assert state.pending
        return delegate.Stop(CLIENT, AGENTS[state.pending.role], str(state.pending.child_id))

    def seal(self, task: str = TASK) -> None:
        """The stop of the pending step's child."""
        sealed = delegate.seal(self.context, task, self.stop_of(task))
        assert sealed.status == "running", sealed

    def finding(self, row: str, task: str = TASK) -> None:
        """Put a row into the ledger, in the place of an older one of the same id."""
        path = self.folder(task) / "task.md"
        kept = [line for line in path.read_text().splitlines() if not line.startswith(row[: row.index("|", 1)])]
        kept.insert(kept.index("|---|---|---|---|---|---|") + 1, row)
        path.write_text("\n".join(kept) + "\n")

    def step(self, task: str = TASK, *, work: Callable[[], None] | None = None, **review: Any) -> Step:
        """The next step from prepare to advance; `work` is what its child does besides the artifact."""
        step = self.open_step(task)
        if work:
            work()
        (self.folder(task) / step.artifact).write_text(artifact_text(step, **review))
        assert self.close_step(task) == "running"
        return step

    def next_stage(self, task: str = TASK) -> str | None:
        step = orchestrate.route_task(self.context, task).next
        return str(step.stage) if step else None

    def fix(self) -> None:
        """The work that the task asks for."""
        self.write("src/app.py", FIXED)

    def to_commit(self, task: str = TASK, *, work: Callable[[], None] | None = None) -> None:
        """Every step up to the commit; `work` is what the code step changes."""
        while (stage := self.next_stage(task)) != Stage.COMMIT:
            self.step(task, work=(work or self.fix) if stage == Stage.CODE else None)


def environment(home: Path) -> dict[str, str]:
    """That of a person's shell: no agent, no CI, our program on PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
    path = os.pathsep.join((str(PROGRAM.parent), kept.get("PATH", "")))
    return kept | {"PATH": path, "HOME": str(home), "NO_COLOR": "1", "GIT_EDITOR": "false"}


def fresh(root: Path, *, files: dict[str, str] | None = None) -> World:
    """A new repository with one commit; without one for no files."""
    root.mkdir(parents=True)
    world = World(root)
    world.git("init", "-q", "-b", "main")
    wanted = FILES if files is None else files
    for name, text in wanted.items():
        world.write(name, text)
    if wanted:
        world.git("add", "-A")
        world.git("commit", "-q", "-m", "first")
    return world


def _installed(world: World) -> None:
    install.init(world.context, program=str(PROGRAM))
    world.git("add", ".agents")
    world.git("commit", "-q", "-m", "install agent-infra")


def _begun(world: World) -> None:
    world.make_task()
    world.begin()


def _ready(world: World) -> None:
    world.to_commit()


def _opened(world: World) -> None:
    world.open_step()


def _worked(world: World) -> None:
    (world.folder() / world.open_step().artifact).write_text(artifact_text(Step(Stage.ANALYSIS, 1, "analysis.md")))
    delegate.complete(world.context, TASK, delegate.Claim("claude"))


def _sealed(world: World) -> None:
    world.seal()


def _committed(world: World) -> None:
    world.git("commit", "-qam", "fix: sum")
    delegate.complete(world.context, TASK, delegate.Claim("claude"))
    world.seal()


# how far a world has come, and from where: hooks installed; a run begun; its first step completed, then sealed;
# all reviewed; the commit step handed to its child; committed and sealed
STATES: dict[str, tuple[str, Callable[[World], None]]] = {
    "installed": ("", _installed),
    "begun": ("installed", _begun),
    "worked": ("begun", _worked),
    "sealed": ("worked", _sealed),
    "ready": ("begun", _ready),
    "opened": ("ready", _opened),
    "committed": ("opened", _committed),
}


def world_at(state: str, factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> World:
    """The world that has come so far, always at the same path."""
    for name in [name for name in os.environ if name.startswith(_HIDDEN)]:
        patch.delenv(name)
    patch.setenv("PATH", environment(Path("/"))["PATH"])
    base = factory.getbasetemp() / "lifecycle"
    play, saved = base / "play", base / "saved"
    missing: list[str] = []
    known = state
    while known and not (saved / known).is_dir():
        missing.insert(0, known)
        known = STATES[known][0]
    if play.exists():
        shutil.rmtree(play)
    if known:
        shutil.copytree(saved / known, play, symlinks=True)
        world = World(play / "repo")
    else:
        world = fresh(play / "repo")
    for name in missing:
        STATES[name][1](world)
        shutil.copytree(play, saved / name, symlinks=True)
    return world


@dataclass
class Terminal:
    """A program at a pseudo-terminal."""

    process: subprocess.Popen[bytes]
    master: int
    seen: str = ""

    def until(self, pattern: str, *, seconds: float = 30) -> re.Match[str]:
        """Read until the pattern shows up; what was matched is not looked at again."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.seen)) is None:
            assert self._read(deadline), f"{pattern!r} never came: {self.seen!r}"
        self.seen = self.seen[found.end() :]
        return found

    def type(self, line: str) -> None:
        os.write(self.master, line.encode() + b"\n")

    def end(self, *, seconds: float = 60) -> tuple[int, str]:
        """Exit code, and what was said since the last `until`."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        try:
            return self.process.wait(timeout=5), self.seen
        finally:
            os.close(self.master)

    def _read(self, deadline: float) -> bool:
        assert time.monotonic() < deadline, f"it hangs: {self.seen!r}"
        if not select.select([self.master], [], [], 0.2)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self.master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux says so once the other side is closed
                raise
            return False
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


def terminal(world: World, *argv: str, env: dict[str, str] | None = None) -> Terminal:
    """Start a program of ours where a person could sit."""
    master, slave = os.openpty()
    try:
        process = subprocess.Popen(
            [str(PROGRAM), *argv],
            cwd=world.root,
            env=world.env | (env or {}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
    finally:
        os.close(slave)
    return Terminal(process, master)
