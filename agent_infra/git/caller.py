"""Which git command runs the hook that we answer, so that a refusal can say how to undo what git did before asking.

It only helps to word an answer: nothing is allowed or refused because of it, since a process can call itself anything.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_GENERATIONS = 8  # shim, hook manager, shell, …
_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"})
_DRY = re.compile(r"--dr[a-z-]*|-[46dfquv]*n[46dfnquv]*")
_NAME = re.compile(r"git(?:-(?P<verb>[a-z-]+))?(?:\.exe)?")


@dataclass(frozen=True)
class Command:
    """A git command: its verb, empty where it is not known, and what follows it."""

    verb: str = ""
    args: tuple[str, ...] = ()


def calling_command(environment: Mapping[str, str]) -> Command:
    """The git command among our ancestors, or what git says it is about in GIT_REFLOG_ACTION."""
    pid = os.getppid()
    for _ in range(_GENERATIONS):
        parent, argv = look(pid)
        if argv and (found := parse_command(argv)):
            return found
        if parent <= 1:
            break
        pid = parent
    action = environment.get("GIT_REFLOG_ACTION", "").split()
    return Command(action[0].rstrip(":"), tuple(action[1:])) if action else Command()


def is_dry_run(command: Command) -> bool:
    """Whether a command was told to change nothing (`git push -n`); a hook of git is not told."""
    return any(_DRY.fullmatch(word) for word in command.args)


def parse_command(argv: tuple[str, ...]) -> Command | None:
    """The verb of a command line of git; None for another program."""
    named = _NAME.fullmatch(Path(argv[0]).name)
    if not named:
        return None
    rest = list(argv[1:])
    if named["verb"]:
        return Command(named["verb"], tuple(rest))
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return Command(rest[0], tuple(rest[1:])) if rest else Command()


def look(pid: int) -> tuple[int, tuple[str, ...]]:
    """Parent and command line of a process; (0, ()) where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        argv = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")[:-1]
        return int(stat.rpartition(b")")[2].split()[1]), tuple(argv)
    except (OSError, ValueError, IndexError):
        return _ask_ps(pid)


def _ask_ps(pid: int) -> tuple[int, tuple[str, ...]]:
    """The same where there is no /proc; words with spaces fall apart, which does not matter for verb and options."""
    try:
        told = subprocess.run(
            ["ps", "-o", "ppid=", "-o", "args=", "-p", str(pid)], capture_output=True, check=False, timeout=2
        )
        parent, *argv = os.fsdecode(told.stdout).split()
        return int(parent), tuple(argv)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0, ()
