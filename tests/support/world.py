"""A throwaway repository, and what agents, people and clients do in it; the program is called as they call it.

Every answer of a verb is checked for what all answers promise: one JSON line, six keys, an exit code that fits, and
nothing on disk moved where it says `changed: false`.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_infra.cli import app

TASK = "TASK-20260101-120000"
OTHER = "TASK-20260102-120000"
EXECUTOR, REVIEWER = "agent-infra-lifecycle-executor", "agent-infra-lifecycle-reviewer"
KEYS = {"status", "changed", "taskId", "run", "next", "error"}
PROGRAM = Path(sys.executable).parent / "agent-infra"
LEDGER_HEAD = "| id | stage | round | severity | status | evidence |\n|---|---|---|---|---|---|\n"
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
{extra}---

# The sum is wrong

## Description

Two and two make four.

## Analysis

## Design

## Implementation Notes

## Review Feedback

## Review Disagreement Ledger

{ledger}
## Activity Log

- 2026-01-01 12:00:00+00:00 — **Create Task** by human — created
"""


def name_of(family: str, round_: int) -> str:
    return f"{family}.md" if round_ == 1 else f"{family}-r{round_}.md"


@dataclass
class Answer:
    """What one call said."""

    exit: int
    out: str
    err: str
    json: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.json[key]

    @property
    def code(self) -> str | None:
        return (self.json.get("error") or {}).get("code")

    @property
    def message(self) -> str:
        return str((self.json.get("error") or {}).get("message", ""))

    @property
    def pause(self) -> str | None:
        """The code of the pause that this answer reports."""
        return ((self.json.get("run") or {}).get("pause") or {}).get("code") if self["status"] == "paused" else None

    @property
    def step(self) -> tuple[str, int] | None:
        """Stage and round of the next step."""
        step = self.json.get("next")
        return (step["stage"], step["round"]) if step else None

    @property
    def notes(self) -> str:
        return "\n".join(self.json.get("notes", []))


class World:
    """One repository under `base / "repo"`, with one commit."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "repo"
        self.root.mkdir(parents=True)
        self.born = 0
        self.child = ""
        self.git("init", "-q", "-b", "main")
        self.write("README.md", "# sample\n")
        self.write("src/app.py", "def add(a, b):\n    return a - b\n")
        self.write(".gitignore", ".agents/workspace/\nbuild/\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")

    # -- the outside world

    @property
    def common(self) -> Path:
        return self.root / ".git" / "agent-infra"

    def folder(self, task: str = TASK) -> Path:
        return self.root / ".agents/workspace/active" / task

    def journal(self, task: str = TASK) -> Path:
        return self.common / "runs" / task / "journal.jsonl"

    def view(self, task: str = TASK) -> Path:
        return self.folder(task) / "orchestration.json"

    def run(self, task: str = TASK) -> dict[str, Any]:
        """The run as orchestration.json shows it."""
        shown: dict[str, Any] = json.loads(self.view(task).read_text())
        return shown

    def pending(self, task: str = TASK) -> dict[str, Any]:
        receipt: dict[str, Any] = self.run(task)["pendingDelegation"]
        return receipt

    def events(self, task: str = TASK) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.journal(task).read_text().splitlines()]

    def ops(self, task: str = TASK) -> list[str]:
        return [event["op"] for event in self.events(task)]

    def git(self, *args: str, check: bool = True, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.root, env=self.environment(), capture_output=True, check=False
        )
        assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
        self.said = os.fsdecode(done.stderr)
        return os.fsdecode(done.stdout).strip()

    def environment(self) -> dict[str, str]:
        """What git and the program are started with: the program of this checkout is found first."""
        return os.environ | {"PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}

    def write(self, path: str, text: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        return target

    def moved(self) -> dict[str, bytes]:
        """Everything that is state: journals, guards, the active step, task folders, our refs."""
        found: dict[str, bytes] = {}
        dirs = [self.common / "runs", self.common / "guards", self.common / "logs", self.root / ".agents"]
        for folder in [*dirs, self.root / ".git/refs/agent-infra"]:
            found |= {str(p): b"" if p.is_symlink() else _bytes(p) for p in folder.rglob("*") if not p.is_dir()}
        for path in (self.common / "active.json", self.root / ".git/packed-refs"):
            found |= {str(path): path.read_bytes()} if path.is_file() else {}
        return found

    # -- calls

    def call(self, *args: str, cwd: Path | None = None) -> Answer:
        """Any command, in this process."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = app.run(["--repo", str(cwd or self.root), *args])
        return _checked(Answer(code, out.getvalue(), err.getvalue()))

    def process(
        self,
        *args: str | bytes,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> Answer:
        """Any command, as a process of its own, perhaps started by the words `before` it."""
        done = subprocess.run(
            [*before, PROGRAM, *args],
            cwd=cwd or self.root,
            env=self.environment() | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return _checked(Answer(done.returncode, done.stdout.decode(), done.stderr.decode()))

    def verb(self, name: str, *args: str, task: str = TASK, cwd: Path | None = None) -> Answer:
        """One verb of `orchestrate`; what every answer promises is checked."""
        before = self.moved()
        answer = self.call("orchestrate", name, task, *args, cwd=cwd)
        check_answer(answer)
        if not answer["changed"]:
            assert self.moved() == before, f"{name} {args} says changed: false, but something moved"
        return answer

    def ok(self, name: str, *args: str, task: str = TASK, cwd: Path | None = None) -> Answer:
        """A verb that must not fail."""
        answer = self.verb(name, *args, task=task, cwd=cwd)
        assert answer.exit == 0, (name, args, answer.out, answer.err)
        return answer

    def refused(self, code: str, name: str, *args: str, task: str = TASK, cwd: Path | None = None) -> Answer:
        """A verb that must fail with `code`, exit 1, a sentence, and nothing moved."""
        before = self.moved()
        answer = self.verb(name, *args, task=task, cwd=cwd)
        assert (answer.exit, answer.code) == (1, code), (name, args, answer.out, answer.err)
        assert answer["changed"] is False
        assert len(answer.message) > 10, answer.message
        assert (
            answer.message[0] == answer.message[0].lower()
            or answer.message.split()[0].isupper()
            or (answer.message.startswith(("TASK-", "Plan", "HEAD")))
        ), answer.message
        assert self.moved() == before
        return answer

    # -- documents

    def task(self, task: str = TASK, *, ledger: str | None = "", extra: str = "", newline: str = "\n") -> Path:
        table = "" if ledger is None else LEDGER_HEAD + ledger
        text = TASK_MD.format(task=task, ledger=table, extra=extra)
        if ledger is None:
            text = text.replace("## Review Disagreement Ledger\n\n\n", "")
        return self.write(f".agents/workspace/active/{task}/task.md", text.replace("\n", newline))

    def row(self, row: str, task: str = TASK) -> None:
        """Add a row to the ledger."""
        path = self.folder(task) / "task.md"
        text = path.read_text()
        path.write_text(text.replace("\n\n## Activity Log", f"\n{row}\n\n## Activity Log"))

    def artifact(self, family: str, round_: int = 1, text: str = "", task: str = TASK) -> Path:
        name = name_of(family, round_)
        body = text or f"# {family}\n\n- **Artifact File**: `{name}`\n\nRound {round_}.\n\n$ true\n"
        return self.write(f".agents/workspace/active/{task}/{name}", body)

    def review(
        self,
        family: str,
        round_: int = 1,
        *,
        of: str | None = None,
        verdict: str = "Approved",
        counts: tuple[int, int, int] = (0, 0, 0),
        manual: int | None = 0,
        task: str = TASK,
    ) -> Path:
        name = name_of(f"review-{family}", round_)
        b, m, n = counts
        tail = "" if manual is None else f" / **Manual validation**: {manual}"
        text = (
            f"# Review of {family}\n\n- **Review Input**:\n  - `{of or name_of(family, round_)}`\n\n"
            f"## Review Summary\n\n- **Overall Verdict**: {verdict}\n"
            f"- **Findings (AI-actionable)**: {b} blockers, {m} majors, {n} minors{tail}\n\n## Findings\n\n$ true\n"
        )
        return self.write(f".agents/workspace/active/{task}/{name}", text)

    def reviewed(self, *families: str) -> None:
        """Artifacts of these families with approving reviews, as if people had written them."""
        for family in families:
            self.artifact(family)
            self.review(family)

    # -- one delegation

    def begun(self, *args: str, task: str = TASK) -> Answer:
        """A task whose run has begun."""
        self.task(task)
        return self.ok("begin", *args, task=task)

    def prepare(self, task: str = TASK, client: str = "claude-code") -> dict[str, Any]:
        step: dict[str, Any] = self.ok("prepare", "--client", client, task=task)["next"]
        return step

    def start(self, role: str, task: str = TASK, **changes: str) -> Answer:
        """A native start; `changes` replace or add options."""
        self.born += 1
        event = {
            "client": "claude-code",
            "native_agent": EXECUTOR if role == "executor" else REVIEWER,
            "child_id": f"child-{self.born}",
            "parent_id": "parent-1",
            "spawn_mode": "fresh",
        } | changes
        self.child = event["child_id"]
        return self.verb("activate", *_options(event), task=task)

    def stop(self, role: str, task: str = TASK, **changes: str) -> Answer:
        """A native stop of the last child."""
        event = {
            "client": "claude-code",
            "native_agent": EXECUTOR if role == "executor" else REVIEWER,
            "child_id": self.child,
        } | changes
        return self.verb("seal", *_options(event), task=task)

    def complete(self, step: dict[str, Any], task: str = TASK, **changes: str) -> Answer:
        event = {
            "stage": step["stage"],
            "round": str(step["round"]),
            "artifact": step["artifact"],
            "agent": "claude",
        } | changes
        return self.verb("complete", *_options(event), task=task)

    def work(self, step: dict[str, Any], task: str = TASK) -> None:
        """What a good child leaves."""
        stage, round_ = step["stage"], step["round"]
        if stage.startswith("review-"):
            family = stage.removeprefix("review-")
            newest = max(r for r in range(1, 30) if (self.folder(task) / name_of(family, r)).exists())
            self.review(family, round_, of=name_of(family, newest), task=task)
        elif stage == "commit":
            self.git("add", "-A", "src")
            self.git("commit", "-q", "-m", "fix: the sum")
        else:
            if stage == "code":
                self.write("src/app.py", f"def add(a, b):\n    return a + b  # {round_}\n")
            self.artifact(stage, round_, task=task)

    def activated(self, task: str = TASK) -> dict[str, Any]:
        """The next step, prepared and started."""
        step = self.prepare(task)
        answer = self.start(step["role"], task)
        assert answer["run"]["pendingDelegation"]["status"] == "activated", answer.out
        return step

    def completed(self, task: str = TASK) -> dict[str, Any]:
        """The next step, prepared, started, done and completed."""
        step = self.activated(task)
        self.work(step, task)
        answer = self.complete(step, task)
        assert answer.exit == 0, answer.out
        return step

    def sealed(self, task: str = TASK) -> dict[str, Any]:
        """The next step up to its seal."""
        step = self.completed(task)
        answer = self.stop(step["role"], task)
        assert answer["run"]["pendingDelegation"]["status"] == "sealed", answer.out
        return step

    def step(self, task: str = TASK) -> dict[str, Any]:
        """The whole next step."""
        step = self.sealed(task)
        self.ok("advance", task=task)
        return step

    def to(self, stage: str, task: str = TASK) -> None:
        """Every step of a run that has begun, up to `stage`."""
        while self.ok("route", task=task)["next"]["stage"] != stage:
            self.step(task)

    def rejecting(self, step: dict[str, Any], row: str, counts: tuple[int, int, int], task: str = TASK) -> None:
        """A review that asks for changes, with its finding in the ledger."""
        family = step["stage"].removeprefix("review-")
        self.row(row, task)
        self.review(family, step["round"], verdict="Changes Requested", counts=counts, task=task)


def check_answer(answer: Answer) -> None:
    """What every answer of a verb promises."""
    assert answer.out.count("\n") == 1, answer.out
    assert answer.json.keys() >= KEYS, (answer.out, answer.err)
    assert answer.json.keys() <= KEYS | {"notes", "brief"}, answer.json.keys()
    failed = answer["status"] == "failed"
    assert failed == (answer.exit in {1, 2}), (answer.exit, answer.out)
    assert failed == (answer["error"] is not None), answer.out
    assert failed or answer["status"] in {"running", "paused", "completed"}
    assert isinstance(answer["changed"], bool)
    for note in answer.json.get("notes", []):
        assert note in answer.err, (note, answer.err)


def walked(world: World) -> None:
    """A run with two finished steps and a third under way."""
    world.begun()
    world.step()
    world.step()
    world.activated()


def copy_of(world: World, base: Path) -> World:
    """The same world at another place."""
    twin = object.__new__(World)
    twin.base, twin.root, twin.born, twin.child = base, base / "repo", 0, ""
    shutil.copytree(world.root, twin.root, symlinks=True)
    return twin


def _options(event: dict[str, str]) -> list[str]:
    return [word for key, value in event.items() for word in (f"--{key.replace('_', '-')}", value)]


def _checked(answer: Answer) -> Answer:
    assert "Traceback" not in answer.err, answer.err
    assert answer.exit in {0, 1, 2}, (answer.exit, answer.out, answer.err)
    with contextlib.suppress(ValueError):
        found = json.loads(answer.out)
        answer.json = found if isinstance(found, dict) else {}
    return answer


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b"no file"
