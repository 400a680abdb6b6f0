"""`task check`: run a command on the product as it is, and keep how it ended as evidence.

The snapshot before names the product tree; only if the one after names the same does the result count. No lock is held
while the command runs.
"""

import hashlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_infra.core.checks import check_key, check_passed
from agent_infra.core.facts import Situation
from agent_infra.core.lifecycle import Stage
from agent_infra.core.run import RUN, State
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.repo import KEPT_PREFIXES, KEPT_VARIABLES
from agent_infra.services.context import Context, run_config
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import require

TIMEOUT = 1800.0  # seconds
TIMED_OUT = 124  # as timeout(1) says it
_POLL = 0.05  # seconds
_GRACE = 2.0  # seconds between asking a command to stop and stopping it


@dataclass(frozen=True)
class Checked:
    """How a command ended on a product tree.

    Attributes:
        exit_code: negative when a signal ended it; 124 at the limit of time.
        tree: the product tree before; tree_after: the one after.
        output: SHA-256 of what it wrote to stdout and stderr, in the order in which it came.
        seconds: how long it took.
    """

    command: tuple[str, ...]
    exit_code: int
    tree: str
    tree_after: str
    output: str
    seconds: float

    @property
    def counts(self) -> bool:
        """Whether the result is one about `tree`: the command changed no product file."""
        return self.tree == self.tree_after

    @property
    def passed(self) -> bool:
        """Whether it is proof for `tree`."""
        return self.counts and self.exit_code == 0


def check(
    context: Context, ref: str, command: Sequence[str], *, write: Callable[[bytes], object], timeout: float = TIMEOUT
) -> Checked:
    """Run a command in the worktree of a task's run, and record how it ended.

    Args:
        write: gets the output as it comes.
        timeout: seconds after which the command and its children are stopped.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING, _RUN_PAUSED or _RUN_NOT_RUNNING, ORCHESTRATION_SNAPSHOT_FAILED, or
            CHECK_NOT_STARTED for a command that can't be started; nothing is recorded then.

    Side effects:
        Whatever the command does; one journal line and the view; snapshot objects.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    RUN.follow(state.run.status, "work")
    tree = context.objects.product(context.snapshot(place, state))
    started = time.monotonic()
    code, digest = _run(command, Path(state.run.worktree), write, timeout)
    seconds = round(time.monotonic() - started, 3)
    after = context.objects.product(context.snapshot(place, state))
    found = Checked(tuple(command), code, tree, after, digest, seconds)

    def decide(now_state: State | None) -> Event | None:
        run = require(now_state, place.task_id).run
        RUN.follow(run.status, "work")
        if run.run_id != state.run.run_id:
            message = f"another run of {place.task_id} began meanwhile; run the check again"
            raise RefusedError(ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING, message)
        return event_of(found)

    context.change(place, decide)
    return found


def event_of(found: Checked) -> Event:
    """The journal line of a check: all that is known as facts, and the result where it counts."""
    facts = {
        "command": list(found.command),
        "exitCode": found.exit_code,
        "tree": found.tree,
        "treeAfter": found.tree_after,
        "output": found.output,
        "seconds": found.seconds,
    }
    memo = {"checks": {check_key(found.tree, found.command): found.exit_code}} if found.counts else None
    return Event("checked", memo=memo, facts=facts)


def check_required(situation: Situation, product: str) -> None:
    """Every check that the run's settings ask for has passed on the product tree that review-code judged.

    Args:
        product: the present product tree, which counts where no receipt names the judged one.

    Raises:
        RefusedError: ORCHESTRATION_CHECK_MISSING.
    """
    state = situation.state
    if state is None:
        return
    review = situation.newest(Stage.REVIEW_CODE)
    receipt = state.newest_receipt(review.name) if review else None
    judged = (receipt.input_tree if receipt else None) or product
    check_passed(run_config(state).gate.required_checks, state.memo.checks, judged, task_id=state.run.task_id)


def _run(command: Sequence[str], folder: Path, write: Callable[[bytes], object], timeout: float) -> tuple[int, str]:
    """Exit code and SHA-256 of the output; stdout and stderr go one way, so that their order is one."""
    try:
        # a group of its own, so that nothing that it started outlives the limit of time
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=_environment(os.environ),
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


def _watch(process: subprocess.Popen[bytes], write: Callable[[bytes], object], deadline: float) -> tuple[int, str]:
    """Hand the output on until the command has ended and said all, or its time is up."""
    digest = hashlib.sha256()
    assert process.stdout is not None  # noqa: S101 - it was asked for
    handle = process.stdout.fileno()
    os.set_blocking(handle, False)
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        is_open = True
        while is_open or process.poll() is None:
            if time.monotonic() >= deadline:
                return TIMED_OUT, digest.hexdigest()
            has_ended = process.poll() is not None
            if not is_open:
                time.sleep(_POLL)
            elif selector.select(_POLL):
                data = os.read(handle, 65536)
                digest.update(data)
                write(data)
                is_open = bool(data)
            elif has_ended:
                break  # something it left in the background keeps the pipe open
    return process.wait(), digest.hexdigest()


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


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    """That of the caller, without what would point git at another repository."""
    return {
        name: value
        for name, value in base.items()
        if not name.startswith("GIT_") or name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }
