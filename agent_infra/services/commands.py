"""Start a command of somebody else's as a group with a time limit, hand its output on, leave nothing of it running."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.repo import KEPT_PREFIXES, KEPT_VARIABLES

TIMED_OUT = 124  # as timeout(1) says it
_POLL = 0.05  # seconds
_GRACE = 2.0  # seconds between asking a command to stop and stopping it


def run_group(
    command: Sequence[str],
    folder: Path,
    write: Callable[[bytes], object],
    *,
    timeout: float,
    env: Mapping[str, str],
) -> int | None:
    """Run a command in a session of its own; stdout and stderr go one way, so that their order is one.

    Args:
        write: gets the output as it comes.
        timeout: seconds after which the command and all that it started is ended.

    Returns:
        The exit code, negative when a signal ended it; `None` at the limit of time.

    Raises:
        RefusedError: CHECK_NOT_STARTED for a command that can't be started.

    Side effects:
        Whatever the command does. SIGTERM to us is an interrupt meanwhile, so that nothing is left running.
    """
    with _interruptible():
        try:
            # a group of its own, so that nothing that it started outlives the limit of time
            process = subprocess.Popen(
                list(command),
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            message = f"{command[0]} can't be started in {folder}: {error}; nothing was recorded"
            raise RefusedError(ErrorCode.CHECK_NOT_STARTED, message) from error
        try:
            return _watch(process, write, time.monotonic() + timeout)
        finally:
            _stop(process)


def plain_environment(base: Mapping[str, str]) -> dict[str, str]:
    """That of the caller, without what would point git at another repository."""
    return {
        name: value
        for name, value in base.items()
        if not name.startswith("GIT_") or name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end us as Ctrl-C does; elsewhere than in the main thread Python can't."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _watch(process: subprocess.Popen[bytes], write: Callable[[bytes], object], deadline: float) -> int | None:
    """Hand the output on until the command has ended and said all, or its time is up."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    handle = process.stdout.fileno()
    os.set_blocking(handle, False)
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        is_open = True
        while is_open or process.poll() is None:
            if time.monotonic() >= deadline:
                return None
            has_ended = process.poll() is not None
            if not is_open:
                time.sleep(_POLL)
            elif selector.select(_POLL):
                data = os.read(handle, 65536)
                write(data)
                is_open = bool(data)
            elif has_ended:
                break  # something it left in the background keeps the pipe open
    return process.wait()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command's group."""
    if process.poll() is None:
        _signal(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    _signal(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that has ended
        os.killpg(group, number)
