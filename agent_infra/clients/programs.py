"""Clients without a session: each step is one fresh process of Claude Code, Codex, OpenCode or Gemini CLI.

How a program is started and how its words are read is a table; what a step means is the driver's business. What it says
about itself counts only for the record: session, model, tokens, cost.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.lifecycle import Step
from agent_infra.core.receipts import Told
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.runtime.children import Child, ChildOrder, start_process

HEADLESS = "AGENT_INFRA_HEADLESS"  # tells hooks of ours, if the client has them, that a driver keeps the books
_LOG_LIMIT = 64 << 20
Argv = Callable[[ChildOrder, str], list[str]]
_CLAUDE_TOOLS = "Read,Grep,Glob,Bash,Write,Edit"  # a reviewer needs the same: the seal says what it may have changed
_TOKENS = {
    "inputTokens": ("input_tokens", "prompt", "input"),
    "outputTokens": ("output_tokens", "candidates", "output"),
    "cacheReadTokens": ("cache_read_input_tokens", "cached_input_tokens", "cached"),
    "cacheWriteTokens": ("cache_creation_input_tokens",),
    "reasoningTokens": ("reasoning_output_tokens", "thoughts", "reasoning"),
}


@dataclass(frozen=True)
class Program:
    """How one client is started, and what its output tells.

    Attributes:
        names: of its executable, in the order in which they are looked for.
        argv: its arguments for an order and a model (empty: its own choice).
        told: reads its output.
        reads_stdin: whether the brief goes in by standard input; else it is the last argument.
    """

    names: tuple[str, ...]
    argv: Argv
    told: Callable[[Sequence[Mapping[str, Any]]], Told]
    reads_stdin: bool = True


def _claude_argv(order: ChildOrder, model: str) -> list[str]:
    # the session's id is ours to choose, so that it is the child's
    session = order.child_id.rpartition(":")[2]
    fixed = ["-p", "--output-format", "json", "--session-id", session, "--permission-mode", "acceptEdits"]
    return [*fixed, "--allowedTools", _CLAUDE_TOOLS, *(["--model", model] if model else [])]


def _codex_argv(order: ChildOrder, model: str) -> list[str]:
    del order
    return ["exec", "--json", "--sandbox", "workspace-write", *(["--model", model] if model else []), "-"]


def _gemini_argv(order: ChildOrder, model: str) -> list[str]:
    del order
    return ["--approval-mode", "yolo", "--output-format", "json", *(["--model", model] if model else [])]


def _opencode_argv(order: ChildOrder, model: str) -> list[str]:
    del order
    return ["run", "--format", "json", *(["--model", model] if model else [])]


def _claude_told(lines: Sequence[Mapping[str, Any]]) -> Told:
    result: Mapping[str, Any] = next((line for line in reversed(lines) if line.get("type") == "result"), {})
    models = result.get("modelUsage")
    usage = _counts(_mapping(result.get("usage"))) | _cost(result.get("total_cost_usd"))
    return Told(usage, _words(session=result.get("session_id"), model=next(iter(_mapping(models)), None)))


def _codex_told(lines: Sequence[Mapping[str, Any]]) -> Told:
    thread = next((line.get("thread_id") for line in lines if line.get("type") == "thread.started"), None)
    turns = [_mapping(line.get("usage")) for line in lines if line.get("type") == "turn.completed"]
    return Told(_added(turns), _words(session=thread))


def _gemini_told(lines: Sequence[Mapping[str, Any]]) -> Told:
    whole: Mapping[str, Any] = next((line for line in reversed(lines) if "stats" in line or "response" in line), {})
    models = _mapping(_mapping(whole.get("stats")).get("models"))
    turns = [_mapping(_mapping(model).get("tokens")) for model in models.values()]
    return Told(_added(turns), _words(session=whole.get("session_id"), model=next(iter(models), None)))


def _opencode_told(lines: Sequence[Mapping[str, Any]]) -> Told:
    session = next((line.get("sessionID") for line in lines if line.get("sessionID")), None)
    parts = [_mapping(line.get("part")) for line in lines if line.get("type") == "step_finish"]
    usage = _added([_mapping(part.get("tokens")) for part in parts])
    costs = [part["cost"] for part in parts if isinstance(part.get("cost"), int | float)]
    return Told(usage | (_cost(sum(costs)) if costs else {}), _words(session=session))


PROGRAMS: Mapping[str, Program] = {
    "claude-code": Program(("claude",), _claude_argv, _claude_told),
    "codex": Program(("codex",), _codex_argv, _codex_told),
    "gemini-cli": Program(("gemini",), _gemini_argv, _gemini_told),
    "opencode": Program(("opencode",), _opencode_argv, _opencode_told, reads_stdin=False),
}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _words(**found: object) -> dict[str, str]:
    """Short words by name; anything else that a program says is not kept."""
    return {name: value for name, value in found.items() if isinstance(value, str) and 0 < len(value) <= 200}


def _cost(value: object) -> dict[str, float]:
    return {"costUsd": round(float(value), 6)} if isinstance(value, int | float) and not isinstance(value, bool) else {}


def _counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """The token counts of one turn, by our names."""
    found = {}
    for ours, theirs in _TOKENS.items():
        value = next((usage[name] for name in theirs if name in usage), None)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            found[ours] = value
    return found


def _added(turns: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for turn in turns:
        for name, count in _counts(turn).items():
            total[name] = total.get(name, 0) + count
    return total


def told_by(client_id: str, log: bytes) -> Told:
    """What a client's output says about its child; nothing where it can't be read."""
    program = PROGRAMS.get(client_id)
    return program.told(list(_objects(log))) if program else Told()


def _objects(log: bytes) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in a log: one a line, or the whole of it, perhaps with words before."""
    found = False
    for line in log.splitlines():
        if line.lstrip().startswith(b"{"):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                found = True
                yield value
    start = log.find(b"\n{") + 1 if not log.startswith(b"{") else 0
    if not found and start >= 0:
        try:
            value = json.loads(log[start : log.rindex(b"}") + 1])
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            yield value


@dataclass(frozen=True)
class ProgramClient:
    """A headless client that is a program of its own; `model` is empty for its own choice."""

    id: str
    model: str = ""

    def check(self, step: Step, attempt: int) -> None:  # noqa: ARG002 - the protocol's signature
        """Raise unless the program is there, before anything is prepared.

        Raises:
            RefusedError: CLIENT_NOT_FOUND.
        """
        self._program()

    def _program(self) -> str:
        names = PROGRAMS[self.id].names
        found = next((path for name in names if (path := shutil.which(name))), None)
        if found is None:
            message = (
                f"client {self.id} can't be started: {' or '.join(names)} is not on PATH; install it, then run again"
            )
            raise RefusedError(ErrorCode.CLIENT_NOT_FOUND, message)
        return found

    def start(self, order: ChildOrder) -> Child:
        """Start a fresh process for one step.

        Side effects: a process in the worktree; its words go to the order's log.
        """
        program = PROGRAMS[self.id]
        argv = [self._program(), *program.argv(order, self.model)]
        brief = order.brief.encode()
        if not program.reads_stdin:
            argv, brief = [*argv, order.brief], b""
        return start_process(argv, order, child_id=order.child_id, stdin=brief, extra={HEADLESS: "1"})

    def told(self, log: Path) -> Told:
        """What the program said about itself."""
        try:
            with log.open("rb") as file:
                return told_by(self.id, file.read(_LOG_LIMIT))
        except OSError:
            return Told()
