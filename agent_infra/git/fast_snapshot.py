"""The fast way to a fingerprint: git's status on an index of our own names what differs from HEAD, and that is read.

It must give the same id as the reference way. Where it can't be sure, it asks the reference way.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_infra.errors import GitError
from agent_infra.git.base_index import BaseIndex
from agent_infra.git.objects import ObjectStore
from agent_infra.git.repo import Repo, is_true, promises_objects
from agent_infra.git.snapshot import QUIET, Capture, ReferenceSnapshotter, TaskFolder, is_left_out
from agent_infra.git.trees import TreeChange, records

# the cache of untracked files is made and used only where "all" is a setting, not an option
_LOOKING = ("-c", "status.showUntrackedFiles=all", "-c", "status.renames=false", "-c", "status.relativePaths=false")
_MANY = 2_000  # changed paths beyond which reading all is no slower
_NAMES = 500  # untracked names on one command line


class _DoubtError(Exception):
    """The fast way can't be sure here."""


@dataclass(frozen=True)
class FastSnapshotter:
    """Reads what changed since HEAD; the same ids as `ReferenceSnapshotter`, which it asks on any doubt."""

    repo: Repo
    store: ObjectStore

    def capture(self, task: TaskFolder | None, *, exclude: Sequence[str], keep: Sequence[str] = ()) -> str:
        """See `Snapshotter.capture`.

        Raises:
            RefusedError: ORCHESTRATION_SNAPSHOT_FAILED with git's words.

        Side effects: writes objects to our store; renews the base index in the git dir of the worktree.
        """
        try:
            with self.store.in_use(), self.store.scratch() as folder:
                tree = self._tree(folder, task, exclude)
                self.store.keep(tree, keep)
                return tree
        except (_DoubtError, GitError, OSError, ValueError):
            return ReferenceSnapshotter(self.repo, self.store).capture(task, exclude=exclude, keep=keep)

    def _tree(self, folder: Path, task: TaskFolder | None, exclude: Sequence[str]) -> str:
        config = self.repo.config()
        if is_true(config, "core.sparsecheckout") or promises_objects(config):
            raise _DoubtError
        head_tree = self.repo.text("rev-parse", "-q", "--verify", "HEAD^{tree}")  # refused on a branch without a commit
        capture = Capture(self.repo, self.store, folder, config)
        base = BaseIndex(self.repo, QUIET)
        with base.locked():
            if not base.bring_to(head_tree, config):
                raise _DoubtError
            status = self._status(base, capture, exclude)
        changes = self._changes(capture, status, exclude)
        if task is not None:
            changes += self._documents(capture, task)
        return self.store.compose(head_tree, changes) if changes else head_tree

    def _status(self, base: BaseIndex, capture: Capture, exclude: Sequence[str]) -> bytes:
        """What differs from HEAD, in git's porcelain v2."""
        ours = ("-c", f"core.excludesFile={self._excludes(base, capture, exclude)}") if exclude else ()
        asked = ("status", "--porcelain=v2", "-z", "--ignore-submodules=dirty")
        return base.look(*asked, settings=(*_LOOKING, *ours))

    def _excludes(self, base: BaseIndex, capture: Capture, exclude: Sequence[str]) -> Path:
        """Our patterns before the user's global ones, in a file that stays: git's cache of untracked files knows it."""
        path = base.path.with_name("excludes")
        wanted = "".join(f"{pattern}\n" for pattern in exclude).encode() + b"\n" + capture.global_excludes()
        if not path.is_file() or path.read_bytes() != wanted:
            path.write_bytes(wanted)
        return path

    def _changes(self, capture: Capture, status: bytes, exclude: Sequence[str]) -> list[TreeChange]:
        """The new side of every path that differs from HEAD."""
        tracked, untracked = _parse(status)
        untracked = [path for path in untracked if not is_left_out(path)]
        paths = [*tracked, *untracked]
        if b".agents" in paths:  # a link, file or submodule, where a task's documents need a folder
            raise _DoubtError
        if len(paths) > _MANY or any(path.rpartition(b"/")[2] == b".gitattributes" for path in paths):
            raise _DoubtError  # other files may become other blobs, and stat data can't tell which
        self._check_staged(set(paths))
        self._check_unhidden(capture, untracked, exclude)
        if not paths:
            return []
        return self._read(capture, tracked, paths)

    def _read(self, capture: Capture, tracked: dict[bytes, str], paths: Sequence[bytes]) -> list[TreeChange]:
        """Let git read these paths into an index that holds nothing else.

        What HEAD has of them is put in before: modes and line ends of a file depend on what was there.
        """
        capture.index_info(tracked.items())
        names = b"".join(path + b"\0" for path in paths)
        capture.git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
        found = _entries(capture.git("ls-files", "-s", "-z"))
        gone = [TreeChange(path, "", None, "", None) for path in paths if path not in found]
        return [*gone, *(TreeChange(path, None, mode, None, oid) for path, (mode, oid) in found.items())]

    def _documents(self, capture: Capture, task: TaskFolder) -> list[TreeChange]:
        """The task's own documents, as raw bytes."""
        stored = capture.documents(task)
        return [TreeChange(path, None, *_mode_and_oid(entry)) for path, entry in stored]

    def _check_staged(self, listed: set[bytes]) -> None:
        """A file that the user has staged as new counts even where our patterns would leave it out.

        Raises:
            _DoubtError: one is staged that status does not name.
        """
        asked = ("diff-index", "--cached", "--no-renames", "--name-only", "--diff-filter=A", "-z", "HEAD")
        staged = set(records(self.repo.run(*QUIET, *asked).stdout))
        if any(path not in listed and not is_left_out(path) for path in staged):
            raise _DoubtError

    def _check_unhidden(self, capture: Capture, untracked: Sequence[bytes], exclude: Sequence[str]) -> None:
        """A .gitignore can overrule our patterns for status, but not for a fingerprint.

        Raises:
            _DoubtError: an untracked file matches our patterns, or there are too many to ask.
        """
        if not exclude or not untracked:
            return
        if len(untracked) > _NAMES:
            raise _DoubtError
        ours = capture.folder / "patterns"
        ours.write_text("".join(f"{pattern}\n" for pattern in exclude), encoding="utf-8")
        asked = ("--literal-pathspecs", "ls-files", "-o", "-i", "-z", "-X", str(ours), "--")
        nothing = {"GIT_INDEX_FILE": str(capture.folder / "no-index")}
        done = self.repo.run(*QUIET, *asked, *map(os.fsdecode, untracked), env=nothing)
        if done.stdout:
            raise _DoubtError


def _parse(status: bytes) -> tuple[dict[bytes, str], list[bytes]]:
    """Changed tracked paths with "mode oid" of HEAD, and untracked ones.

    Raises:
        _DoubtError: a line of another kind, as of an unmerged path; our index has none.
    """
    tracked: dict[bytes, str] = {}
    untracked: list[bytes] = []
    for line in records(status):
        if line.startswith(b"1 "):
            parts = line.split(b" ", 8)
            tracked[parts[8]] = f"{parts[4].decode()} {parts[7].decode()}"
        elif line.startswith(b"? "):
            untracked.append(line[2:].removesuffix(b"/"))  # a nested repository is named with a slash
        else:
            raise _DoubtError
    return tracked, untracked


def _entries(listed: bytes) -> dict[bytes, tuple[str, str]]:
    """Path -> mode and object id of `ls-files -s`."""
    found = {}
    for line in records(listed):
        head, _, path = line.partition(b"\t")
        mode, oid, _ = head.decode().split(" ")
        found[path] = (mode, oid)
    return found


def _mode_and_oid(entry: str) -> tuple[str, None, str]:
    """The rest of a change after its path and old mode: new mode, old oid, new oid."""
    mode, _, oid = entry.partition(" ")
    return mode, None, oid
