"""Clients without a session: each step is one fresh process of Claude Code, Codex, OpenCode or Gemini CLI.

How a program is started and understood is its module's business (`clients.headless`), what a step means the driver's.
What a program says about itself counts only for the record: session, model, tokens, cost.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from uuid import uuid4

from agent_infra.clients.headless import claude_code, codex, gemini_cli, opencode
from agent_infra.clients.headless.hearing import Heard, Hearer
from agent_infra.core.lifecycle import Step
from agent_infra.core.receipts import Told
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.runtime.children import Child, ChildOrder, ChildResult, start_process

HEADLESS = "AGENT_INFRA_HEADLESS"  # tells hooks of ours, if the client has them, that a driver keeps the books
_ASK_TIMEOUT = 30.0  # seconds for a question to a program; one that does not answer is believed
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Program:
    """How one client is found.

    Attributes:
        name: of its executable.
        module: speaks its language.
        oldest: the first version with all that we ask of it.
        package: its name in npm; where it is a script, the version is read beside it.
        log_in: what a person does to log in.
        chooses: whether the session's name is the client's to choose.
        reads_stdin: whether the brief goes in by standard input; else it is the last argument.
    """

    name: str
    module: ModuleType
    oldest: tuple[int, int, int]
    package: str
    log_in: str
    chooses: bool = False
    reads_stdin: bool = True


PROGRAMS: Mapping[str, Program] = {
    "claude-code": Program(
        "claude", claude_code, (2, 1, 0), "@anthropic-ai/claude-code", "start `claude` and log in, or set a key"
    ),
    "codex": Program("codex", codex, (0, 171, 0), "@openai/codex", "`codex login`, or set CODEX_API_KEY", chooses=True),
    "gemini-cli": Program(
        "gemini", gemini_cli, (0, 61, 0), "@google/gemini-cli", "start `gemini` and log in, or set GEMINI_API_KEY"
    ),
    "opencode": Program(
        "opencode", opencode, (1, 18, 0), "opencode-ai", "`opencode auth login`", chooses=True, reads_stdin=False
    ),
}


@dataclass(frozen=True)
class ProgramClient:
    """A headless client that is a program of its own; `model` is empty for its own choice."""

    id: str
    model: str = ""
    _known: list[str] = field(default_factory=list)

    @property
    def _program(self) -> Program:
        return PROGRAMS[self.id]

    def identity(self) -> str:
        """A session's name, where it is ours to choose."""
        return "" if self._program.chooses else str(uuid4())

    def ready(self, worktree: Path) -> None:
        """Raise unless the program is there, new enough and logged in, as far as it tells without being started.

        Raises:
            RefusedError: CLIENT_NOT_FOUND, CLIENT_VERSION_UNSUPPORTED or CLIENT_NOT_LOGGED_IN.

        Side effects:
            Asks the program, once for all steps.
        """
        path = self._path()
        if not self._known:
            self._check_version(path)
            self._check_login(path, worktree)
            self._known.append(path)

    def check(self, step: Step, attempt: int) -> None:  # noqa: ARG002 - the protocol's signature
        """Raise unless the program is still there.

        Raises:
            RefusedError: CLIENT_NOT_FOUND.
        """
        self._path()

    def _path(self) -> str:
        name = self._program.name
        found = shutil.which(name)
        if found is None:
            message = f"client {self.id} can't be started: {name} is not on PATH; install it, then run again"
            raise RefusedError(ErrorCode.CLIENT_NOT_FOUND, message)
        return found

    def _check_version(self, path: str) -> None:
        oldest = self._program.oldest
        said = _packaged(Path(path), self._program.package) or _answer([path, "--version"])[1]
        match = _VERSION.search(said)
        if match and tuple(map(int, match.groups())) < oldest:
            wanted = ".".join(map(str, oldest))
            message = f"{path} is {self.id} {match[0]}, expected {wanted} or newer; update it, then run again"
            raise RefusedError(ErrorCode.CLIENT_VERSION_UNSUPPORTED, message)

    def _check_login(self, path: str, worktree: Path) -> None:
        fault = _LOGINS[self.id](path, worktree, self.model)
        if fault:
            raise self._no_login(fault)

    def _no_login(self, why: str) -> RefusedError:
        message = f"client {self.id} can't work here: {why}; {self._program.log_in}, then run again"
        return RefusedError(ErrorCode.CLIENT_NOT_LOGGED_IN, message)

    def start(self, order: ChildOrder) -> Child:
        """Start a fresh process for one step.

        Side effects: a process in the worktree; its words go to the order's log.
        """
        program = self._program
        argv, brief = [self._path(), *program.module.argv(order, self.model)], order.brief.encode()
        if not program.reads_stdin:
            argv, brief = [*argv, order.brief], b""
        extra = {HEADLESS: "1", **(opencode.environment(order) if program.module is opencode else {})}
        return start_process(argv, order, child_id=order.child_id, stdin=brief, extra=extra, ears=self.ears())

    def ears(self) -> Hearer:
        """Who understands its stream."""
        return CodexHearer(codex.understand) if self.id == "codex" else Hearer(self._program.module.understand)

    def excuse(self, result: ChildResult) -> RefusedError | None:
        """A login that is no more: then no other child can do better."""
        module = self._program.module
        lost = self.id == "gemini-cli" and result.exit_code == gemini_cli.NO_LOGIN
        words = next((line for line in result.stderr_tail.splitlines() if re.search(module.NOT_LOGGED_IN, line)), "")
        return self._no_login(words.strip()[:200] or "it says that nobody is logged in") if lost or words else None


@dataclass
class CodexHearer(Hearer):
    """Codex does not say its model; the file of its thread does."""

    heard: Heard = field(default_factory=Heard)

    def told(self) -> Told:
        """What goes on record."""
        if self.heard.session and not self.heard.model:
            self.heard.named("", codex.model_of(self.heard.session))
        return super().told()


def _packaged(path: Path, package: str) -> str:
    """The version in the package that a script belongs to; empty where there is none."""
    for folder in path.resolve().parents[:3]:
        try:
            found = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and found.get("name") == package:
            return str(found.get("version"))
    return ""


def _answer(argv: list[str], worktree: Path | None = None) -> tuple[int, str]:
    """Exit code and words of a short question; code 0 and no words where none comes in time."""
    try:
        done = subprocess.run(
            argv, cwd=worktree, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0, ""
    return done.returncode, done.stdout.decode(errors="replace")


def _by_status(path: str, worktree: Path, model: str, *, module: ModuleType) -> str:
    del model
    argv = module.login(path, worktree)
    return "nobody is logged in" if argv and _answer(argv, worktree)[0] else ""


def _gemini_login(path: str, worktree: Path, model: str) -> str:
    del path, model
    return "" if gemini_cli.has_login(worktree) else "no way to log in is chosen"


def _opencode_login(path: str, worktree: Path, model: str) -> str:
    code, said = _answer([path, "models"], worktree)
    known = said.split()
    if code or not known:
        return ""  # it says nothing, so it is to show at work
    return f"{model} is none of the models that `opencode models` lists" if model and model not in known else ""


_LOGINS: Mapping[str, Callable[[str, Path, str], str]] = {
    "claude-code": lambda *asked: _by_status(*asked, module=claude_code),
    "codex": lambda *asked: _by_status(*asked, module=codex),
    "gemini-cli": _gemini_login,
    "opencode": _opencode_login,
}
