"""Commits made and merged in memory: no worktree, no index and no branch moves.

libgit2 merges where it can open the objects; elsewhere `git merge-tree` does (git 2.38 and newer).
"""

import os
from dataclasses import dataclass

from agent_infra.errors import ErrorCode, GitError
from agent_infra.git.evidence import IDENTITY, NO_HOOKS
from agent_infra.git.objects import DURABLE
from agent_infra.git.repo import Repo, display_path, failure


@dataclass(frozen=True)
class Merged:
    """What became of a merge: a tree, or the paths that nobody can merge by rule."""

    tree: str | None
    conflicts: tuple[str, ...] = ()


def merge_trees(repo: Repo, *, ancestor: str, ours: str, theirs: str) -> Merged:
    """Merge two trees that came from a third.

    Args:
        ancestor: tree or commit, like `ours` and `theirs`.

    Raises:
        GitError: GIT_FAILED where neither libgit2 nor git can merge here.

    Side effects: writes objects in the user's store.
    """
    trees = [repo.text("rev-parse", f"{name}^{{tree}}") for name in (ancestor, ours, theirs)]
    if trees[1] == trees[2] or trees[0] == trees[2]:
        return Merged(trees[1])
    if trees[0] == trees[1]:
        return Merged(trees[2])
    return _with_libgit2(repo, *trees) or _with_git(repo, *trees)


def _with_libgit2(repo: Repo, ancestor: str, ours: str, theirs: str) -> Merged | None:
    """The merge, or None where libgit2 can't open the repository or lacks an object."""
    import pygit2

    try:
        opened = pygit2.Repository(str(repo.common_dir))
        pygit2.settings.enable_fsync_gitdir(True)
        index = opened.merge_trees(ancestor, ours, theirs, flags=pygit2.enums.MergeFlag(0))
        if index.conflicts is not None:
            found = {side.path for entry in index.conflicts for side in entry if side is not None}
            return Merged(None, tuple(sorted(display_path(os.fsencode(path)) for path in found)))
        return Merged(str(index.write_tree(opened)))
    except (pygit2.GitError, KeyError, ValueError, TypeError):
        return None


def _with_git(repo: Repo, ancestor: str, ours: str, theirs: str) -> Merged:
    """git merges commits, so each tree gets one."""
    base = commit_tree(repo, ancestor, (), "base", "1970-01-01T00:00:00Z")
    sides = [commit_tree(repo, tree, (base,), "side", "1970-01-01T00:00:00Z") for tree in (ours, theirs)]
    asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *sides)
    done = repo.run(*asked, check=False)
    words = os.fsdecode(done.stdout).split("\0")
    if done.code == 0:
        return Merged(words[0])
    if done.code == 1:
        return Merged(None, tuple(sorted({display_path(os.fsencode(path)) for path in words[1:] if path})))
    message = f"children can't be merged here: libgit2 can't open this repository, and {done.words} (git 2.38 can)"
    raise GitError(ErrorCode.GIT_FAILED, message)


def commit_tree(repo: Repo, tree: str, parents: tuple[str, ...], message: str, when: str) -> str:
    """Make a commit of a tree, with our identity and nothing of the user's configuration.

    Side effects: writes and fsyncs one object in the user's store.
    """
    name, _, mail = IDENTITY.partition(" <")
    who = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", name), ("EMAIL", mail.rstrip(">")), ("DATE", when))
    }
    asked = (*DURABLE, "-c", "commit.gpgSign=false", "commit-tree", tree, *(f"-p{parent}" for parent in parents))
    return repo.run(*asked, "-F-", stdin=message.encode(), env=who).stdout.decode().strip()


def move_ref(repo: Repo, ref: str, new: str, old: str | None) -> None:
    """Move one of our refs from a known value.

    Raises:
        GitError: GIT_FAILED when it holds something else, or git refuses.

    Side effects: moves the ref.
    """
    moved = ("update-ref", "--no-deref", ref, new, repo.null_oid if old is None else old)
    done = repo.run(*NO_HOOKS, *DURABLE, *moved, check=False)
    if done.code:
        raise failure(moved, done)


def value_of(repo: Repo, ref: str) -> str | None:
    """The commit that a ref holds; None without it."""
    done = repo.run("rev-parse", "-q", "--verify", f"{ref}^{{commit}}", check=False)
    return done.stdout.decode().strip() or None
