"""Worktrees for children: made from a commit, in the repository's own store, gone only when their work is safe.

No hook of anybody runs while one is made or removed; nothing here stashes, cleans or forces over somebody's work.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from agent_infra.errors import GitError
from agent_infra.git.repo import Repo

QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")


@dataclass(frozen=True)
class Worktree:
    """A linked worktree as git lists it."""

    path: Path
    head: str
    is_prunable: bool


def add(repo: Repo, path: Path, commit: str) -> None:
    """Make a worktree at `path` with `commit` checked out, on no branch.

    Raises:
        GitError: GIT_FAILED with git's words, also when something lies at `path`.

    Side effects: files at `path`; an entry under `worktrees` in the git dir.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    repo.run(*QUIET, "worktree", "add", "--quiet", "--detach", str(path), commit)


def remove(repo: Repo, path: Path) -> None:
    """Take away a worktree whose work is merged.

    Raises:
        GitError: GIT_FAILED with git's words.

    Side effects: removes the files at `path`, untracked ones too: the caller has made sure that what counts is kept.
    """
    if path.exists():
        repo.run(*QUIET, "worktree", "remove", "--force", str(path))
    else:
        repo.run("worktree", "prune")


def listed(repo: Repo, below: Path) -> tuple[Worktree, ...]:
    """The worktrees that lie below a folder, by path."""
    found: list[Worktree] = []
    for block in os.fsdecode(repo.run("worktree", "list", "--porcelain", "-z").stdout).split("\0\0"):
        lines = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        path = Path(lines.get("worktree", "/"))
        if below in path.parents:
            found.append(Worktree(path, lines.get("HEAD", ""), "prunable" in lines))
    return tuple(sorted(found, key=lambda worktree: str(worktree.path)))


def dirty_paths(repo: Repo, path: Path) -> tuple[str, ...]:
    """What lies in a worktree and in no commit; nothing where git can't look."""
    try:
        done = repo.run("status", "--porcelain", "-z", "--untracked-files=normal", cwd=path)
    except (GitError, OSError):
        return ()
    return tuple(entry[3:] for entry in os.fsdecode(done.stdout).split("\0") if len(entry) > 3)
