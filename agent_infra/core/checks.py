"""Claims that are checked: commands that must have passed on the very product tree that the code review judged.

Which command ran on which tree, and how it ended, is remembered by the run; who starts it is somebody else's business.
"""

import shlex
from collections.abc import Mapping, Sequence

from agent_infra.errors import ErrorCode, RefusedError


def words_of(command: str) -> tuple[str, ...]:
    """The words of a command line, as a POSIX shell splits it; nothing is expanded.

    Raises:
        ValueError: a quotation has no end, or there is no word.
    """
    words = tuple(shlex.split(command))
    if not words:
        raise ValueError("a command needs a word at least")
    return words


def check_key(tree: str, words: Sequence[str]) -> str:
    """What a run remembers the result of a command by: the product tree and the command, spelled in one way."""
    return f"{tree} {shlex.join(words)}"


def check_passed(required: Sequence[str], results: Mapping[str, int], tree: str, *, task_id: str) -> None:
    """Every required command has ended with 0 on `tree`, the last time that it ran there.

    Args:
        required: command lines of `gate.required_checks`.
        results: exit codes by `check_key`.
        tree: the product tree that the code review judged.

    Raises:
        RefusedError: ORCHESTRATION_CHECK_MISSING naming the first command and the tree; the others follow as notes.
    """
    missing = [_missing(words_of(command), results, tree, task_id) for command in required]
    faults = [fault for fault in missing if fault]
    if faults:
        raise RefusedError(ErrorCode.ORCHESTRATION_CHECK_MISSING, faults[0], *faults[1:])


def _missing(words: Sequence[str], results: Mapping[str, int], tree: str, task_id: str) -> str:
    """Why a command does not count, and what helps; empty where it does."""
    code = results.get(check_key(tree, words))
    if code == 0:
        return ""
    command = shlex.join(words)
    found = "has not run" if code is None else f"ended with {code}"
    return (
        f"the required check `{command}` {found} on the reviewed tree {tree}, expected to pass there; "
        f"`agent-infra task check {task_id} -- {command}`"
    )
