"""The working tree as a git tree id: what git would store, and the documents of one task.

The user's index, HEAD, refs and object store are never written. Ignored files, empty folders, FIFOs and what lies in a
dirty submodule are not seen.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from agent_infra.errors import ErrorCode, GitError, RefusedError
from agent_infra.git.objects import WORKSPACE, ObjectStore
from agent_infra.git.repo import Repo, display_path, failure, is_true, promises_objects
from agent_infra.git.trees import records

ADDED = (f"{WORKSPACE}/active",)  # <task id>/ below it: the task's own folder, ignored or not, as raw bytes
LEFT_OUT = (WORKSPACE, ".agent-infra")  # from the root of the worktree, tracked or not
# The bracket keeps git from refusing the whole snapshot where `.agents` is a symlink or a submodule.
EVERYTHING_ELSE = (":/", *(f":(top,glob,exclude)[.]{path[1:]}{below}" for path in LEFT_OUT for below in ("", "/**")))
LEFT_OUT_OF_TASK = (".*", "*.tmp", "*~", "#*#")  # names at any depth of the task's folder: other programs' siblings
VIEW = "orchestration.json"  # our own view of the run, which every verb rewrites

QUIET = (
    *("-c", "core.hooksPath=/dev/null"),  # post-index-change would run for an index that is ours
    *("-c", "core.fsmonitor=", "-c", "core.untrackedCache=false"),  # the files are asked, nobody's memory of them
    *("-c", "core.ignoreStat=false", "-c", "core.safecrlf=false", "-c", "add.ignoreErrors=false"),
    *("-c", "core.splitIndex=false", "-c", "index.sparse=false"),  # a split index would leave a file in the git dir
    *("-c", "advice.addEmbeddedRepo=false"),
    *("-c", "core.fsync=loose-object,pack", "-c", "core.fsyncMethod=batch"),
)


@dataclass(frozen=True)
class TaskFolder:
    """The documents of one task.

    Attributes:
        task_id: names the folder in the fingerprint.
        path: where it is; may lie in another worktree, be gone, or be a symlink, which is then recorded as such.
    """

    task_id: str
    path: Path


class Snapshotter(Protocol):
    """Turns the working tree into a fingerprint; every way must give the same id."""

    def capture(self, task: TaskFolder | None, *, exclude: Sequence[str], keep: Sequence[str] = ()) -> str:
        """The tree id of the working tree.

        Args:
            task: whose documents belong to it.
            exclude: gitignore patterns; files that match and are neither in HEAD nor in the user's index stay out.
            keep: commits that must survive together with the snapshot.

        Raises:
            RefusedError: ORCHESTRATION_SNAPSHOT_FAILED with git's words.
        """
        ...


@dataclass(frozen=True)
class ReferenceSnapshotter:
    """The plain way: an index of its own, HEAD read into it, everything added. Reads and hashes every file."""

    repo: Repo
    store: ObjectStore

    def capture(self, task: TaskFolder | None, *, exclude: Sequence[str], keep: Sequence[str] = ()) -> str:
        """See `Snapshotter.capture`.

        Raises:
            RefusedError: ORCHESTRATION_SNAPSHOT_FAILED with git's words.

        Side effects: writes objects to our store.
        """
        try:
            with self.store.in_use(), self.store.scratch() as folder:
                tree = Capture(self.repo, self.store, folder, self.repo.config()).tree(task, exclude)
                self.store.keep(tree, keep)
                return tree
        except (GitError, OSError) as error:
            words = error.message if isinstance(error, GitError) else str(error)
            raise RefusedError(
                ErrorCode.ORCHESTRATION_SNAPSHOT_FAILED,
                f"the working tree at {self.repo.worktree} can't be captured: {words}",
            ) from error


@dataclass(frozen=True)
class Capture:
    """One snapshot in the making; `folder` is a temporary folder that holds its index."""

    repo: Repo
    store: ObjectStore
    folder: Path
    config: dict[str, list[str]]

    def tree(self, task: TaskFolder | None, exclude: Sequence[str]) -> str:
        """The fingerprint, the plain way."""
        head_tree = self.store.tree_of(self.repo.head().oid)
        self.git("read-tree", head_tree or "--empty")
        if exclude:
            self.add_all_but(exclude)
        else:
            self.add_all()
        self.set_workspace(task)
        missing_ok = ("--missing-ok",) if promises_objects(self.config) else ()  # else git fetches what was not needed
        return self.git("write-tree", *missing_ok).decode().strip()

    def git(self, *args: str, stdin: bytes | None = None) -> bytes:
        """Ask git about the index in the making; what it stores goes to our own store."""
        env = self.store.env() | {"GIT_INDEX_FILE": str(self.folder / "index")}
        return self.repo.run(*QUIET, *args, stdin=stdin, env=env).stdout

    def add_all(self, *options: str) -> None:
        """Bring the index to what the files say."""
        places = ("--", *EVERYTHING_ELSE)
        if not is_true(self.config, "core.sparsecheckout"):
            self.git(*options, "add", "-A", *places)
            return
        # outside of the sparse patterns an absent file is not deleted, but one that is there must not hide
        self.git(*options, "add", "-u", *places)
        self.git(*options, "add", "--sparse", "--ignore-removal", *places)

    def add_all_but(self, patterns: Sequence[str]) -> None:
        """Bring the index to what the files say, without the untracked files that match `patterns`.

        The patterns go before the user's own global ones, so that git does not even read what they name. A .gitignore
        can overrule them there, so what still got in is taken out; and they hide what the user has staged.
        """
        ours = self.folder / "patterns"
        ours.write_text("".join(f"{pattern}\n" for pattern in patterns), encoding="utf-8")
        both = self.folder / "excludes"
        both.write_bytes(ours.read_bytes() + b"\n" + self.global_excludes())
        matching = ("ls-files", "-c", "-i", "-z", "-X", str(ours))
        in_head = set(records(self.git(*matching)))
        staged = set(records(self.repo.run(*QUIET, *matching).stdout))
        self.add_all("-c", f"core.excludesFile={both}")
        added = set(records(self.git(*matching)))
        self.index_info((path, None) for path in added - in_head - staged)
        self.add_staged(staged - added)

    def global_excludes(self) -> bytes:
        """What the user ignores everywhere."""
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - no HOME, no error
        configured = self.config.get("core.excludesfile", [f"{home}/git/ignore"])[-1]
        if not configured:
            return b""
        try:
            path = self.repo.worktree / os.path.expanduser(configured)  # noqa: PTH111 - as above
            return path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        except OSError:  # git passes it over as well
            return b""

    def add_staged(self, paths: Iterable[bytes]) -> None:
        """Add files that the user has staged as new and that only our patterns leave out."""
        here = sorted(path for path in paths if _is_file_below(self.repo.worktree, path) and not is_left_out(path))
        if not here:
            return
        asked = ("check-ignore", "--no-index", "-z", "--stdin")
        names = [b"./" + path for path in here]  # else a name that starts with a colon is read as pathspec magic
        answer = self.repo.run(*QUIET, *asked, stdin=_joined(names), check=False)
        if answer.code not in {0, 1}:
            raise failure(asked, answer)
        ignored = {name.removeprefix(b"./") for name in records(answer.stdout)}
        wanted = [path for path in here if path not in ignored]
        self.git("update-index", "--add", "--replace", "-z", "--stdin", stdin=_joined(wanted))

    def set_workspace(self, task: TaskFolder | None) -> None:
        """Take out of the index what never belongs to a fingerprint and put the task's documents in."""
        listed = set(records(self.git("--literal-pathspecs", "ls-files", "-z", "--", *LEFT_OUT, ".agents")))
        if task is not None and b".agents" in listed:
            raise GitError(
                ErrorCode.GIT_FAILED,
                "`.agents` is a file, symlink or submodule to git; a task's documents need an ordinary folder there",
            )
        self.index_info((path, None) for path in sorted(listed) if is_left_out(path))
        if task is not None:
            self.index_info(self.documents(task))

    def documents(self, task: TaskFolder) -> Iterator[tuple[bytes, str]]:
        """Write a task's documents as raw blobs; yields path and "mode oid" for the index."""
        return self.stored(_documents(task), f"{ADDED[0]}/{task.task_id}".encode())

    def stored(self, documents: Iterable[tuple[bytes, str, bytes]], root: bytes) -> Iterator[tuple[bytes, str]]:
        """Write documents as raw blobs; yields path and "mode oid" for the index."""
        found = list(documents)
        for number, (_, _, data) in enumerate(found):
            (self.folder / f"document-{number}").write_bytes(data)
        names = "".join(f"{self.folder}/document-{number}\n" for number in range(len(found)))
        oids = self.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=os.fsencode(names)).decode().split()
        for (name, mode, _), oid in zip(found, oids, strict=True):
            yield (root + b"/" + name if name else root), f"{mode} {oid}"

    def index_info(self, entries: Iterable[tuple[bytes, str | None]]) -> None:
        """Set paths of the index to "mode oid", or take them out for None."""
        gone = f"0 {self.repo.null_oid}"
        lines = b"".join(b"%s\t%s\0" % ((entry or gone).encode(), path) for path, entry in entries)
        if lines:
            self.git("update-index", "-z", "--index-info", stdin=lines)


def index_digest(repo: Repo) -> str:
    """SHA-256 of what the user's index says: entries, stages and bits, not stat data; a refresh does not change it."""
    return hashlib.sha256(repo.run(*QUIET, "ls-files", "-s", "-v", "-z").stdout).hexdigest()


def _documents(task: TaskFolder) -> Iterator[tuple[bytes, str, bytes]]:
    """Name below the task's folder, mode and content of everything that belongs to a fingerprint."""
    root = os.fsencode(task.path)
    if os.path.islink(root):  # noqa: PTH114 - names are bytes here
        yield b"", "120000", os.readlink(root)  # noqa: PTH115 - same
    elif os.path.isdir(root):  # noqa: PTH112 - same
        yield from _walk(root, b"")


def _walk(root: bytes, below: bytes) -> Iterator[tuple[bytes, str, bytes]]:
    with os.scandir(os.path.join(root, below)) as listing:  # noqa: PTH118 - names are bytes here
        found = sorted(listing, key=lambda entry: entry.name)
    for entry in found:
        name = below + entry.name
        if _is_sibling(entry.name) or name == VIEW.encode():
            continue
        if entry.is_symlink():
            yield name, "120000", os.readlink(entry.path)  # noqa: PTH115 - names are bytes here
        elif entry.is_dir():
            yield from _walk(root, name + b"/")
        elif (data := _read_regular(entry.path)) is not None:
            yield name, "100644", data


def _is_sibling(name: bytes) -> bool:
    return any(fnmatchcase(display_path(name), pattern) for pattern in LEFT_OUT_OF_TASK)


def _read_regular(path: bytes) -> bytes | None:
    """The content of a regular file; None for anything else, without following a link or waiting for a FIFO."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None


def is_left_out(path: bytes) -> bool:
    """Whether a path never belongs to a fingerprint, a task's own documents aside."""
    return any(path == top or path.startswith(top + b"/") for top in (name.encode() for name in LEFT_OUT))


def _is_file_below(worktree: Path, path: bytes) -> bool:
    """Whether a file, symlink or nested repository is at `path`, with real folders on the way."""
    full = worktree / os.fsdecode(path)
    parents = full.parents[: len(full.parts) - len(worktree.parts) - 1]
    is_entry = full.is_symlink() or full.is_file() or (full / ".git").exists()
    return is_entry and not any(parent.is_symlink() for parent in parents)


def _joined(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
