"""What the driver starts for one step: the protocol of headless clients, and a child that is a process of its own.

Which program a client starts, and what it says to it, is the business of `agent_infra.clients`.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from agent_infra.core.lifecycle import Step
from agent_infra.core.receipts import Told
from agent_infra.core.redaction import redact
from agent_infra.errors import AgentInfraError
from agent_infra.git.repo import clean_environment
from agent_infra.runtime.voices import Deaf, Ears, Stream, Voice
from agent_infra.stores.logs import StepLog

TAIL_BYTES = 4_000  # of what a child said last
GRACE_SECONDS = 2.0  # between asking a group to end and ending it
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ChildOrder:
    """One step, as it is handed to a client.

    Attributes:
        worktree: where the product is; the child's current folder.
        task_dir: where task.md is; may lie outside of `worktree`.
        artifact_path: where the result is expected.
        brief: what an agent is told.
        attempt: 1-based; which try at this very step.
        log: where its words are kept; None for nowhere.
        child_id: the identity that the receipt has for the child already; empty where the client is to choose one.
        document: the task.md that the child edits.
        aside: a folder of ours for what its client must be given as a file.
    """

    task_id: str
    step: Step
    worktree: Path
    task_dir: Path
    artifact_path: Path
    brief: str
    attempt: int = 1
    child_id: str = ""
    log: Path | None = None
    document: Path | None = None
    aside: Path | None = None


@dataclass(frozen=True)
class ChildResult:
    """How a child ended.

    Attributes:
        exit_code: below zero if a signal ended it.
        stderr_tail: what it said last, at most `TAIL_BYTES`; for the eyes of a person, never for our records.
    """

    exit_code: int
    stderr_tail: str


class Child(Protocol):
    """Somebody at work on one step."""

    @property
    def child_id(self) -> str:
        """The identity that goes into the receipt, never used twice; empty until the client has said it."""
        ...

    @property
    def doing(self) -> str:
        """What it is at now, in a few words."""
        ...

    @property
    def pid(self) -> int:
        """The process that leads its group."""
        ...

    def wait(self, timeout: float | None = None) -> ChildResult:
        """How it ended; `TimeoutError` if it has not within `timeout` seconds."""
        ...

    def stop(self) -> None:
        """End it and everything it started; no error if it has ended already."""
        ...

    def told(self) -> Told:
        """What it has said about itself so far."""
        ...


class HeadlessClient(Protocol):
    """A client that can do one step without a session around it."""

    @property
    def id(self) -> str:
        """Its id in the registry."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked for; empty for its own choice."""
        ...

    def identity(self) -> str:
        """The identity of a child before it starts; empty where the client is to choose one."""
        ...

    def ready(self, worktree: Path) -> None:
        """Raise if it can't work at all, before anything is begun."""
        ...

    def check(self, step: Step, attempt: int) -> None:
        """Raise if it can't do that step, before anything is prepared for it."""
        ...

    def start(self, order: ChildOrder) -> Child:
        """Start a fresh child."""
        ...

    def excuse(self, result: ChildResult) -> AgentInfraError | None:
        """Why no child of it can work now, if a child's end says so: then no other is tried."""
        ...


@dataclass
class ProcessChild:
    """A child that is a process, the leader of its own session and group.

    Whatever the group left running when the child ended is ended too: what it wrote later would belong to nobody.
    A program that made a session of its own (git's background maintenance does) is out of our reach.
    """

    child_id: str
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    grace: float = GRACE_SECONDS
    voice: Voice | None = None
    _result: ChildResult | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        """Process id, which is the id of its group too."""
        return self.process.pid

    @property
    def doing(self) -> str:
        """What it is at now, in a few words."""
        return self.voice.ears.doing if self.voice else ""

    def told(self) -> Told:
        """What it has said about itself so far."""
        return self.voice.ears.told() if self.voice else Told()

    def _listen(self, *, last: bool = False) -> None:
        if self.voice:
            self.voice.listen(last=last)
            self.child_id = self.child_id or self.voice.ears.session

    def wait(self, timeout: float | None = None) -> ChildResult:
        """How it ended; asked again, the same answer.

        Raises:
            TimeoutError: it is still running after `timeout` seconds.

        Side effects:
            Ends what is left of its group.
        """
        if self._result is None:
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._listen()
                raise TimeoutError(f"child {self.child_id} is still running after {timeout} seconds") from None
            self._result = self._settle()
        return self._result

    def stop(self) -> None:
        """End the whole group: TERM, then KILL for what is left after the grace.

        Side effects:
            Signals the group, and nothing once the child was waited for: its number may be somebody else's by then.
        """
        if self._result is None:
            self._result = self._settle()

    def _settle(self) -> ChildResult:
        _end_group(self.process, self.grace)
        self._listen(last=True)
        with self.said:
            self.said.seek(max(0, self.said.seek(0, os.SEEK_END) - TAIL_BYTES))
            tail = self.said.read(TAIL_BYTES).decode(errors="replace")
        fault = ""
        if self.voice:
            self.voice.out.file.close()
            fault = self.voice.ears.fault
        return ChildResult(self.process.wait(), redact(f"{tail}\n{fault}" if fault else tail))


def start_process(  # noqa: PLR0913 - all that decides what a process is
    argv: Sequence[str],
    order: ChildOrder,
    *,
    child_id: str,
    stdin: bytes,
    extra: Mapping[str, str] | None = None,
    ears: Ears | None = None,
) -> ProcessChild:
    """Start the program of a child in the worktree, in a session of its own, without a shell.

    `stdin` reaches it as a file: neither side can block the other. What it says is kept in the order's log; `ears`
    hear its standard output, of which then nothing is in the tail.

    Raises:
        OSError: the program or the worktree is not there.

    Side effects:
        Starts a process; the caller waits for it or stops it.
    """
    said = tempfile.TemporaryFile()  # noqa: SIM115 - the child's whole life long; closed when it has ended
    out = tempfile.TemporaryFile() if ears else said  # noqa: SIM115 - same
    try:
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            process = subprocess.Popen(
                argv,
                stdin=given,
                stdout=out,
                stderr=said,
                cwd=order.worktree,
                # some programs trust this variable more than the folder that they are started in
                env=child_environment(os.environ, order.task_id) | {"PWD": str(order.worktree)} | dict(extra or {}),
                start_new_session=True,
            )
    except BaseException:
        out.close()
        said.close()
        raise
    log = StepLog(order.log) if order.log else None
    voice = Voice(Stream(out), Stream(said) if ears else None, ears or Deaf(), log)
    return ProcessChild(child_id, process, said, voice=voice)


def start_time(pid: int) -> str | None:
    """When a process started, in the words of its system; with the number it names a process for good.

    Returns:
        `None` where no such process is.
    """
    try:
        # what follows the name, which may hold anything: the 20th word is the start in ticks since boot
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def end_orphan(pid: int, started: str | None, grace: float = GRACE_SECONDS) -> bool:
    """End the group of a child whose driver is gone.

    Args:
        started: its start time; a process of the same number that started at another time is somebody else's.

    Returns:
        Whether it was still there.

    Side effects:
        Signals the group: TERM, then KILL for what is left after the grace.
    """
    if started is None or start_time(pid) != started or not _signal_group(pid, signal.SIGTERM):
        return False
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and _signal_group(pid, 0):
        time.sleep(_POLL_SECONDS)
    _signal_group(pid, signal.SIGKILL)
    return True


def child_environment(environment: Mapping[str, str], task_id: str) -> dict[str, str]:
    """The environment of a child: ours, without what would lead its git astray, with the task it works on."""
    kept = clean_environment(environment)
    return {name: value for name, value in environment.items() if name in kept} | {"AGENT_INFRA_TASK": task_id}


def _end_group(leader: subprocess.Popen[bytes], grace: float) -> None:
    """TERM to the group, KILL to what is left after `grace` seconds."""
    if not _signal_group(leader.pid, signal.SIGTERM):
        return
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        leader.poll()  # reaps it, or its own zombie would keep the group alive
        if not _signal_group(leader.pid, 0):
            return
        time.sleep(_POLL_SECONDS)
    _signal_group(leader.pid, signal.SIGKILL)


def _signal_group(group: int, number: int) -> bool:
    """Send `number` to the group (0 only asks); False if nobody is left in it who can be reached."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return False
    return True
