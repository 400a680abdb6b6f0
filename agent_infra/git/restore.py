"""Puts product files of the working tree back to an earlier snapshot, through git: filters, modes and links are right.

The user's index and HEAD, ignored files, submodules and everything that is equal in both snapshots stay as they are.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote_to_bytes

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.objects import ObjectStore
from agent_infra.git.repo import Repo, display_path
from agent_infra.git.snapshot import QUIET
from agent_infra.git.trees import GITLINK, TreeChange, records

ATTRIBUTES = b".gitattributes"


def restore(repo: Repo, store: ObjectStore, *, wanted: str, present: str) -> tuple[str, ...]:
    """Make every product file that differs between two snapshots what it was in `wanted`.

    Args:
        repo: the worktree to write to.
        store: where the snapshots are.
        wanted: the tree to go back to.
        present: the tree that was just taken of the worktree.

    Returns:
        The paths that were written or removed, as people see them; submodules are passed over.

    Raises:
        RefusedError: GIT_FAILED when a folder that holds other files stands where a file has to be; nothing is written.
        GitError: GIT_FAILED with git's words.

    Side effects: writes and removes files of the worktree, and folders that become empty.
    """
    differing = store.diff(store.product(present), store.product(wanted))
    changes = [c for c in differing if GITLINK not in {c.old_mode, c.new_mode}]
    gone = [c.path for c in changes if c.new_oid is None]
    back = [c for c in changes if c.new_oid is not None]
    _check_room(repo.worktree, [c.path for c in back], gone)
    for path in gone:
        _remove(repo.worktree, path)
    _check_out(repo, store, back)
    return tuple(c.name for c in changes)


def way_back(store: ObjectStore, tree: str, paths: Sequence[str]) -> str:
    """The shell command that makes `paths` what they are in `tree`: the way back from a `restore`.

    Args:
        store: where `tree` is.
        tree: what `restore` was given as `present`.
        paths: what `restore` returned.
    """
    listed = records(store.repo.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree, env=store.env()).stdout)
    names = {display_path(name): name for name in listed}
    here = [names[path] for path in paths if path in names]
    gone = [_on_disk(store.repo.worktree, path) for path in paths if path not in names]
    steps = [f"cd {shlex.quote(str(store.repo.worktree))}"]
    if gone:
        steps.append("rm -f -- " + " ".join(_quote(path) for path in gone))
    if here:
        objects = shlex.quote(_alternate(str(store.path)))
        listing = " ".join(_quote(path) for path in here)
        steps.append(
            f"GIT_ALTERNATE_OBJECT_DIRECTORIES={objects} GIT_LITERAL_PATHSPECS=1 "
            f"git restore --source={tree} --worktree --ignore-skip-worktree-bits -- {listing}"
        )
    return " && ".join(steps)


def _quote(path: bytes) -> str:
    """A shell word; bytes that a terminal would spoil go through printf, which loses a line break at the end."""
    text = os.fsdecode(path)
    if (text.isprintable() and display_path(path) == text) or text.endswith("\n"):
        return shlex.quote(text)
    octal = "".join(f"\\0{byte:03o}" for byte in path)
    return f"\"$(printf %b '{octal}')\""


def _on_disk(worktree: Path, name: str) -> bytes:
    """The file that a displayed path means: %XX may stand for a byte or for itself."""
    literal, decoded = os.fsencode(name), unquote_to_bytes(name)
    return decoded if os.path.lexists(worktree / os.fsdecode(decoded)) else literal


def _alternate(path: str) -> str:
    """The folder as git takes it in a list that is separated by colons."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check_room(worktree: Path, back: Iterable[bytes], gone: Sequence[bytes]) -> None:
    """Git removes whatever stands in a file's way, whole folders with ignored files in them too; so look first."""
    removed = set(gone)
    for path in back:
        for file in _in_the_way(worktree, worktree / os.fsdecode(path)):
            if os.fsencode(file.relative_to(worktree)) not in removed:
                raise RefusedError(
                    ErrorCode.GIT_FAILED,
                    f"{display_path(path)} can't be put back: {file} is in its way and no snapshot holds it; "
                    "move it away and try again",
                )


def _in_the_way(worktree: Path, full: Path) -> Iterator[Path]:
    """Files that have to go before `full` can be a file: those in a folder of that name, one that is no folder."""
    yield from (p for p in _parents(worktree, full) if p.is_symlink() or p.is_file())
    if full.is_dir() and not full.is_symlink():
        for folder, below, names in os.walk(full):
            yield from (Path(folder, name) for name in names)
            yield from (Path(folder, name) for name in below if Path(folder, name).is_symlink())


def _parents(worktree: Path, full: Path) -> Sequence[Path]:
    """The folders between a file and the root of the worktree, nearest first."""
    return full.parents[: len(full.parts) - len(worktree.parts) - 1]


def _remove(worktree: Path, path: bytes) -> None:
    full = worktree / os.fsdecode(path)
    parents = _parents(worktree, full)
    if any(parent.is_symlink() for parent in parents) or (full.is_dir() and not full.is_symlink()):
        return  # that path is no longer what the snapshot saw
    with suppress(FileNotFoundError, NotADirectoryError):
        full.unlink()
    for parent in parents:
        try:
            parent.rmdir()
        except OSError:
            return


def _check_out(repo: Repo, store: ObjectStore, changes: Sequence[TreeChange]) -> None:
    """Write files through a temporary index; attribute files first, since they say how the others are written."""
    with store.scratch() as folder:
        env = store.env() | {"GIT_INDEX_FILE": str(folder / "index")}
        lines = b"".join(b"%s %s\t%s\0" % (str(c.new_mode).encode(), str(c.new_oid).encode(), c.path) for c in changes)
        repo.run(*QUIET, "update-index", "-z", "--index-info", stdin=lines, env=env)
        attributes = [c.path for c in changes if c.path.rpartition(b"/")[2] == ATTRIBUTES]
        others = [c.path for c in changes if c.path.rpartition(b"/")[2] != ATTRIBUTES]
        for paths in (attributes, others):
            if paths:
                names = b"".join(path + b"\0" for path in paths)
                repo.run(*QUIET, "checkout-index", "-f", "-z", "--stdin", stdin=names, env=env)
