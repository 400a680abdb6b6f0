"""Which repositories lie around a folder, found by hand: asking git would cost more than most events are worth.

It only answers whether anything may be ours there; whoever then does something asks git which repository it is.
"""

import os

_STATE = "agent-infra"
SESSIONS = "sessions.json"


class Place:
    """A repository around a folder: its worktree and git dir, absolute."""

    __slots__ = ("git_dir", "worktree")

    def __init__(self, worktree: str, git_dir: str) -> None:
        self.worktree = worktree
        self.git_dir = git_dir

    @property
    def active(self) -> str:
        """Where the pending step of this worktree is kept."""
        return f"{self.git_dir}/{_STATE}/active.json"

    @property
    def _notes(self) -> str:
        return f"{self.git_dir}/{_STATE}/{SESSIONS}"

    def has_notes(self) -> bool:
        """Whether a session here has asked for a step."""
        return os.path.exists(self._notes)  # noqa: PTH110

    def knows(self, session: str) -> bool:
        """Whether this session has."""
        import json

        try:
            with open(self._notes, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                return json.dumps(session) in file.read()
        except OSError:
            return False


def around(folder: str) -> "list[Place]":
    """The repositories around `folder` in which something is ours, the innermost first."""
    found: list[Place] = []
    here = os.path.realpath(folder)
    if not os.path.isdir(here):  # noqa: PTH112 - pathlib costs more than this whole module
        return found
    while True:
        git_dir = _git_dir(here)
        if git_dir and (_has_state(git_dir)):
            found.append(Place(here, git_dir))
        above = os.path.dirname(here)  # noqa: PTH120
        if above == here:
            return found
        here = above


def _git_dir(worktree: str) -> str:
    """The git dir of a worktree; empty where the folder is none."""
    dot = f"{worktree}/.git"
    if os.path.isdir(dot):  # noqa: PTH112
        return dot
    line = _first_line(dot)
    if not line.startswith("gitdir:"):
        return ""
    return os.path.normpath(os.path.join(worktree, line[7:].strip()))  # noqa: PTH118


def _has_state(git_dir: str) -> bool:
    """Whether a run guards in this repository, or a session here drove one; a guard that can't be seen may be there."""
    common = os.path.join(git_dir, _first_line(f"{git_dir}/commondir") or ".")  # noqa: PTH118
    try:
        if any(not name.startswith(".") for name in os.listdir(f"{common}/{_STATE}/guards")):  # noqa: PTH208
            return True
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return True
    return os.path.exists(f"{git_dir}/{_STATE}/{SESSIONS}")  # noqa: PTH110


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return file.readline().rstrip("\r\n")
    except OSError:
        return ""
