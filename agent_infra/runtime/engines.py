"""What does a subtask: the protocol of engines, a process with a limit of time and words, and how its end is classed.

A child leaves its exit code in a file before it is gone, so that an orchestrator that comes after a killed one learns
how the child ended instead of doing its work again.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.runtime.children import ProcessChild, child_environment, end_orphan, start_time

# the group is asked to leave its code behind even where its leader was told to go
_KEEPER = 'f=$1; shift; echo $$ >"$f.pid"; "$@"; c=$?; echo "$c" >"$f.new" && mv "$f.new" "$f"; exit "$c"'
MISSING = (126, 127)  # exit codes by which a shell says that a program can't be started
_POLL = 0.02


@dataclass(frozen=True)
class EngineOrder:
    """One subtask, as it is handed to an engine.

    Attributes:
        environment: what the child finds beside ours: task, subtask, prompt file, depth.
        log: where its words go. exit_file: where its exit code goes.
        timeout: seconds. output_limit: bytes.
    """

    task_id: str
    subtask_id: str
    attempt: int
    worktree: Path
    prompt_file: Path
    log: Path
    exit_file: Path
    environment: Mapping[str, str]
    output_limit: int


class Engine(Protocol):
    """Somebody who can do subtasks."""

    @property
    def name(self) -> str:
        """As the configuration calls it."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds for one child."""
        ...

    def preflight(self) -> str | None:
        """What is missing before it can start, without starting it; None when nothing is."""
        ...

    def start(self, order: EngineOrder) -> "EngineChild":
        """Start one child."""
        ...

    def usage(self, order: EngineOrder) -> dict[str, Any]:
        """What it reported of tokens and cost, by the field names of the evidence; empty where it reports nothing."""
        ...


@dataclass(frozen=True)
class End:
    """How a child ended.

    Attributes:
        code: None where a signal ended it, or nobody saw it end.
        signal: the number of the signal that ended it.
    """

    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    too_much: bool = False

    @property
    def category(self) -> str | None:
        """The class of a failure: missing-program, timeout, infrastructure or code; None where it ended well."""
        if self.timed_out:
            return "timeout"
        if self.too_much or self.signal is not None or self.code is None:
            return "infrastructure"
        if self.code in MISSING:
            return "missing-program"
        return "code" if self.code else None

    @property
    def is_known(self) -> bool:
        """Whether anybody saw how it ended."""
        return self.code is not None or self.signal is not None or self.timed_out or self.too_much

    @property
    def is_infrastructure(self) -> bool:
        """Whether the child's own work is not to blame."""
        return self.category not in (None, "code")

    def facts(self) -> dict[str, Any]:
        """As evidence."""
        failed = {"failureCategory": self.category, "infrastructureFailure": self.is_infrastructure}
        ended = {"code": self.code, "signal": self.signal, "timedOut": self.timed_out}
        return {**ended, **(failed if self.category else {})}


@dataclass
class EngineChild:
    """A child at work: a process group with a deadline."""

    process: ProcessChild
    order: EngineOrder
    deadline: float
    began: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        """The leader of its group."""
        return self.process.pid

    @property
    def started(self) -> str | None:
        """When it started, in the system's words."""
        return start_time(self.pid)

    @property
    def duration_ms(self) -> int:
        """How long it has been at work."""
        return int((time.monotonic() - self.began) * 1000)

    def poll(self) -> End | None:
        """How it ended; None while it is at work. One that is over its limits is ended.

        Side effects: may signal its group.
        """
        if time.monotonic() >= self.deadline:
            self.process.stop()
            return End(timed_out=True)
        if _size(self.order.log) > self.order.output_limit:
            self.process.stop()
            return End(too_much=True)
        try:
            result = self.process.wait(0)
        except TimeoutError:
            return None
        return _end(result.exit_code)

    def stop(self) -> None:
        """End it and all that it started."""
        self.process.stop()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _end(code: int) -> End:
    """The end that an exit code tells of; the shell around the child says 128 and the number for a signal."""
    if code < 0:
        return End(signal=-code)
    return End(signal=code - 128) if code > 128 and code - 128 in set(signal.Signals) else End(code=code)


def start_engine(argv: Sequence[str], order: EngineOrder, *, timeout: float, stdin: bytes = b"") -> EngineChild:
    """Start a program in a child's worktree, in a session of its own.

    Raises:
        RefusedError: SUBTASK_CHILD_NOT_STARTED where there is no shell, worktree or log.

    Side effects: starts a process group; the caller polls it to its end or stops it.
    """
    try:
        for folder in (order.log.parent, order.exit_file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        for stale in (order.exit_file, order.exit_file.with_name(f"{order.exit_file.name}.pid")):
            stale.unlink(missing_ok=True)
        said = order.log.open("w+b")
    except OSError as error:
        raise _not_started(order, error) from error
    environment = child_environment(os.environ, order.task_id) | dict(order.environment)
    try:
        with tempfile.TemporaryFile() as given:  # a file: neither side can block the other
            given.write(stdin)
            given.seek(0)
            process = subprocess.Popen(
                ["sh", "-c", _KEEPER, "agent-infra", str(order.exit_file), *argv],
                stdin=given,
                stdout=said,
                stderr=said,
                cwd=order.worktree,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        said.close()
        raise _not_started(order, error) from error
    child = ProcessChild(f"{order.subtask_id}-{order.attempt}", process, said)
    return EngineChild(child, order, time.monotonic() + timeout)


def _not_started(order: EngineOrder, error: OSError) -> RefusedError:
    message = f"subtask {order.subtask_id} could not be started in {order.worktree}: {error.strerror or error}"
    return RefusedError(ErrorCode.SUBTASK_CHILD_NOT_STARTED, message)


def await_orphan(pid: int, started: str | None, exit_file: Path, *, seconds: float) -> End:
    """How a child ended whose orchestrator is gone: one still at work is waited for, then ended.

    Args:
        seconds: how long it may go on.

    Side effects: signals its group at the end of that time, and whatever the group left running.
    """
    deadline = time.monotonic() + seconds
    while started is not None and start_time(pid) == started and time.monotonic() < deadline:
        if _is_zombie(pid):
            break
        time.sleep(_POLL)
    timed_out = end_orphan(pid, started) and time.monotonic() >= deadline
    try:
        return _end(int(exit_file.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return End(timed_out=timed_out)


def find_orphan(exit_file: Path) -> tuple[int, str] | None:
    """A child whose orchestrator was killed before it could write down its number: number and start time."""
    try:
        pid = int(exit_file.with_name(f"{exit_file.name}.pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    asked = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)
    started = start_time(pid)
    # a later process of the same number has other arguments
    return (pid, started) if started is not None and os.fsencode(exit_file) in asked.stdout else None


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and nobody has asked how; its number stands until then."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] == "Z"
        )
    except (OSError, IndexError):
        return False


@dataclass(frozen=True)
class CommandEngine:
    """A program of the project's own: `kind = "command"`."""

    name: str
    argv: tuple[str, ...]
    timeout: float
    root: Path

    def preflight(self) -> str | None:
        """The program must be there: on PATH, or as a path from the worktree's root."""
        program = self.argv[0]
        found = shutil.which(program) or ("/" in program and shutil.which(str(self.root / program)))
        return None if found else f"the program {program} of the engine {self.name} is not there"

    def start(self, order: EngineOrder) -> EngineChild:
        """Start it; the prompt lies in `AGENT_INFRA_PROMPT_FILE`."""
        return start_engine(self.argv, order, timeout=self.timeout)

    def usage(self, order: EngineOrder) -> dict[str, Any]:  # noqa: ARG002 - the protocol's signature
        """A program reports nothing."""
        return {}
