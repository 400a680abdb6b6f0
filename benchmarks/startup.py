"""What each verb costs as git, a client or a person calls it: a whole process, with a run of some forty receipts."""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from repositories import generate, git
from timing import Row, Step, added_row, command, measure, rows

from agent_infra.cli.app import run as call
from agent_infra.core.lifecycle import NATIVE_AGENTS, Role

BASE = "`python -c pass`"
FREE = "`git commit`, nothing installed"
QUIET = "`git commit`, hooks installed, nothing guards"
BARE = "`git commit` of an authorized tree, hooks off"
GUARDED = "`git commit` of an authorized tree, hooks on"

_REPEATS = 20  # code and its review, each once a round: with the analysis 41 receipts
_FILES = 50
_PROGRAM = Path(sys.executable).with_name("agent-infra")
_AGENT = {str(role): name for name, role in NATIVE_AGENTS.items()}
_CLIENT = "claude-code"
_ANALYSIS = "# Requirements Analysis\n\nMeasured, not read.\n"
_CODE = "# Implementation Report\n\nMeasured, not read.\n"
_REVIEW = """# Code Review

- **Review Input**:
  - `{judged}`

## Review Summary

- **Overall Verdict**: Approved
- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 0
"""


@dataclass(frozen=True)
class Startup:
    """Both tables.

    Attributes:
        verbs: every process as a ratio to `python -c pass`.
        added: what hooks add to `git commit`, in the same unit.
    """

    verbs: list[Row]
    added: list[Row]


@dataclass(frozen=True)
class Bench:
    """One repository with one task, and copies of its states that are put back between the measured commands."""

    folder: Path
    kept: Path

    def orchestrate(self, verb: str, *args: str) -> dict[str, Any]:
        """The answer of a verb, called without a new process."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            code = call(("--repo", str(self.folder), "orchestrate", verb, *args))
        answer: dict[str, Any] = json.loads(said.getvalue())
        if code or answer["status"] == "paused":
            raise RuntimeError(f"{verb} {args} answered {answer['error'] or answer['run']['pause']}")
        return answer

    def keep(self, name: str) -> None:
        """Keep the present state of the run under a name."""
        for inside in _STATE:
            shutil.copytree(self.folder / inside, self.kept / name / inside)
        (self.kept / name / "head").write_text(git(self.folder, "rev-parse", "HEAD"), encoding="utf-8")

    def restore(self, name: str) -> None:
        """Put a kept state back, the branch too."""
        for inside in _STATE:
            shutil.rmtree(self.folder / inside)
            shutil.copytree(self.kept / name / inside, self.folder / inside)
        git(self.folder, "update-ref", "refs/heads/main", (self.kept / name / "head").read_text(encoding="utf-8"))


# objects need not be put back: they are named by what they hold
_STATE = (".agents/workspace", ".git/agent-infra/runs", ".git/agent-infra/guards", ".git/refs/agent-infra")


def run(*, rounds: int) -> Startup:
    """Build the repositories, measure, remove them."""
    with tempfile.TemporaryDirectory(prefix="agent-infra-bench-") as temporary:
        bench = Bench(Path(temporary) / "repo", Path(temporary) / "kept")
        free = Path(temporary) / "free"
        generate(free, _FILES)
        quiet = Path(temporary) / "quiet"
        generate(quiet, _FILES)
        _quietly("--repo", str(quiet), "init", "--yes")
        _build(bench)
        measured = measure(_steps(bench, free, quiet), rounds=rounds)
        os.chdir("/")
    pairs = ((QUIET, FREE), (GUARDED, BARE))
    return Startup(rows(measured, BASE), [added_row(measured, label, over, BASE) for label, over in pairs])


def _quietly(*argv: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = call(argv)
    if code:
        raise RuntimeError(f"{' '.join(argv)} ended with {code}")


def _build(bench: Bench) -> None:
    """A task whose code was reopened again and again, kept at the points from which the verbs are measured."""
    generate(bench.folder, _FILES)
    _quietly("--repo", str(bench.folder), "init", "--yes")
    git(bench.folder, "add", "-A")
    git(bench.folder, "commit", "-q", "-m", "Set up agent-infra")
    _quietly("--repo", str(bench.folder), "task", "create", "--title", "Measure", "--flow", "streamlined")
    bench.orchestrate("begin", "1", "--max-steps", "200")
    (bench.folder / "pkg00" / "new.py").write_text("NEW = 1\n", encoding="utf-8")
    _do(bench)
    for number in range(_REPEATS):
        _do(bench)
        _do(bench)
        if number < _REPEATS - 1:
            bench.orchestrate("reopen", "1", "--stage", "code", "--reason", "measured")
    bench.keep("approved")
    _open(bench)
    git(bench.folder, "add", "-A")  # all of it was reviewed, so this is the authorized tree
    bench.keep("authorized")
    bench.restore("approved")
    bench.orchestrate("reopen", "1", "--stage", "code", "--reason", "measured")
    bench.keep("idle")
    answer = bench.orchestrate("prepare", "1", "--client", _CLIENT)
    _hand_in(bench, answer)
    bench.keep("prepared")


def _do(bench: Bench) -> None:
    """One whole step."""
    answer = _open(bench)
    _hand_in(bench, answer)
    agent = _AGENT[answer["next"]["role"]]
    bench.orchestrate("complete", "1", "--agent", "claude")
    child = answer["run"]["pendingDelegation"]["id"]
    bench.orchestrate("seal", "1", "--client", _CLIENT, "--native-agent", agent, "--child-id", child)
    bench.orchestrate("advance", "1")


def _open(bench: Bench) -> dict[str, Any]:
    """The next step with its child started; the receipt's id serves as the child's."""
    answer = bench.orchestrate("prepare", "1", "--client", _CLIENT)
    step, child = answer["next"], answer["run"]["pendingDelegation"]["id"]
    bench.orchestrate("activate", "1", *_native(step["role"], child), "--parent-id", "bench", "--spawn-mode", "fresh")
    return answer


def _native(role: str, child: str) -> tuple[str, ...]:
    return "--client", _CLIENT, "--native-agent", _AGENT[role], "--child-id", child


def _hand_in(bench: Bench, answer: dict[str, Any]) -> None:
    """Write what the step has to leave."""
    name = answer["next"]["artifact"]
    if name.startswith("review-"):
        text = _REVIEW.format(judged=name.removeprefix("review-"))
    else:
        text = _ANALYSIS if name.startswith("analysis") else _CODE
    folder = bench.folder / ".agents/workspace/active" / answer["taskId"]
    (folder / name).write_text(text, encoding="utf-8")


def _steps(bench: Bench, free: Path, quiet: Path) -> list[Step]:
    """One round, in the order of a step's life; states are put back with the clock stopped."""

    def verb(name: str, *args: str) -> Step:
        return Step(f"`orchestrate {name}`", command((_PROGRAM, "orchestrate", name, "1", *args), bench.folder))

    def put_back(name: str) -> Step:
        return Step("", partial(bench.restore, name))

    child = _native(str(Role.EXECUTOR), "bench-child")
    message = ("commit", "-q", "-m", "Measured")
    return [
        Step(BASE, command((sys.executable, "-c", "pass"), free)),
        Step("`agent-infra --version`", command((_PROGRAM, "--version"), free)),
        put_back("idle"),
        *(verb("route"), verb("status"), verb("begin")),
        verb("prepare", "--client", _CLIENT),
        verb("brief"),
        verb("abandon", "--reason", "measured"),
        put_back("prepared"),
        verb("activate", *child, "--parent-id", "bench", "--spawn-mode", "fresh"),
        verb("complete", "--agent", "claude"),
        verb("seal", *child),
        verb("advance"),
        verb("pause", "--code", "MEASURED", "--message", "measured"),
        put_back("idle"),
        *_hooks(bench, free),
        Step("shim of pre-commit, nothing guards", command((quiet / ".git/hooks/pre-commit",), quiet)),
        Step("shim of pre-commit, refused", _refused(bench)),
        *_commits(free, FREE, message),
        *_commits(quiet, QUIET, message),
        put_back("authorized"),
        Step(BARE, command(("git", "-c", "core.hooksPath=/dev/null", *message), bench.folder)),
        put_back("authorized"),
        Step(GUARDED, command(("git", *message), bench.folder)),
        put_back("idle"),
    ]


def _hooks(bench: Bench, free: Path) -> list[Step]:
    """Events of a client: such as are none of our business, and one that is answered from the run."""
    session = {"session_id": "bench", "cwd": str(bench.folder), "tool_use_id": "bench"}
    child = {"agent_id": "bench-child", "agent_type": _AGENT[str(Role.REVIEWER)]}
    spawn = {"hook_event_name": "PreToolUse", "tool_name": "Agent", "tool_input": {"subagent_type": "Explore"}}
    write = {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "x.py"}}
    shell = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "pytest -q"}}
    events = {
        "hook: an unmanaged agent is asked for": session | spawn,
        "hook: the main agent stops, no run here": session | {"hook_event_name": "Stop", "cwd": str(free)},
        "hook: a managed child writes": session | child | write,
        "hook: a managed child uses the shell": session | child | shell,
        "hook: a prompt where a run goes on": session | {"hook_event_name": "UserPromptSubmit", "prompt": "go on"},
    }
    return [Step(name, _sent(bench, free, number, event)) for number, (name, event) in enumerate(events.items())]


def _sent(bench: Bench, free: Path, number: int, event: dict[str, Any]) -> Callable[[], None]:
    """The program with an event on its standard input."""
    payload = bench.kept.parent / f"event-{number}.json"
    payload.write_text(json.dumps(event), encoding="utf-8")
    # a shell that becomes the program is the cheapest way to give it an input
    line = f"exec '{_PROGRAM}' hook --client {_CLIENT} < '{payload}'"
    return command(("sh", "-c", line), free)


def _commits(folder: Path, label: str, message: tuple[str, ...]) -> list[Step]:
    """A commit, which is taken back."""
    made = Step(label, command(("git", *message, "--allow-empty"), folder))
    return [made, Step("", partial(git, folder, "update-ref", "refs/heads/main", "HEAD~1"))]


def _refused(bench: Bench) -> Callable[[], None]:
    """The whole hook where a run guards and nothing is authorized."""
    hook = command((bench.folder / ".git/hooks/pre-commit",), bench.folder)

    def expect() -> None:
        try:
            hook()
        except RuntimeError:
            return
        raise RuntimeError("the gate let an unauthorized commit pass")

    return expect
