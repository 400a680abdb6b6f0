"""`task check`: run a command on the product as it is, and keep how it ended as evidence.

The snapshot before names the product tree; only if the one after names the same does the result count. No lock is held
while the command runs.
"""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_infra.core.checks import check_key, check_passed
from agent_infra.core.facts import Situation
from agent_infra.core.lifecycle import Stage
from agent_infra.core.run import RUN, State
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.commands import TIMED_OUT, plain_environment, run_group
from agent_infra.services.context import Context, run_config
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import require

TIMEOUT = 1800.0  # seconds


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
    started, digest = time.monotonic(), hashlib.sha256()

    def pass_on(data: bytes) -> None:
        digest.update(data)
        write(data)

    environment = plain_environment(os.environ)
    ended = run_group(command, Path(state.run.worktree), pass_on, timeout=timeout, env=environment)
    code = TIMED_OUT if ended is None else ended
    seconds = round(time.monotonic() - started, 3)
    after = context.objects.product(context.snapshot(place, state))
    found = Checked(tuple(command), code, tree, after, digest.hexdigest(), seconds)

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
