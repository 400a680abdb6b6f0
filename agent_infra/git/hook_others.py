"""The hooks of a commit that are not ours: those that our shims call first, and those that lie beside them."""

import os
from pathlib import Path

from agent_infra.git import hook_files, hook_path
from agent_infra.git.repo import Repo

# in the order in which git calls them
OF_A_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg")


def find(repo: Repo, hooks_path: Path) -> dict[str, Path]:
    """The hooks that somebody else has put where git would come by in a commit: name -> file.

    Args:
        hooks_path: the folder that git looks in.
    """
    found = {name: _behind(repo, hooks_path / name) for name in OF_A_COMMIT}
    return {name: path for name, path in found.items() if path.is_file() and _is_theirs(path)}


def _is_theirs(path: Path) -> bool:
    return os.access(path, os.X_OK) and not hook_files.is_shim(path)


def _behind(repo: Repo, called: Path) -> Path:
    """The hook itself, or for a shim of ours the one that it calls."""
    if not hook_files.is_shim(called):
        return called
    ours = hook_path.folder(repo)
    kept = hook_path.previous(repo) if called.parent == ours else None
    return Path(repo.worktree, kept.path) / called.name if kept else ours / "moved" / called.name
