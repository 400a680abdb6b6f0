"""Real repositories for tests, and the plain answers of git that our own answers are compared with."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_infra.errors import RefusedError
from agent_infra.git.fast_snapshot import FastSnapshotter
from agent_infra.git.objects import ObjectStore
from agent_infra.git.repo import Repo, discover
from agent_infra.git.snapshot import ReferenceSnapshotter, Snapshotter, TaskFolder

FILES = {"f1": "a1\n", "f2": "a2\n", "f3": "a3\n", "d/g1": "b1\n", "d/e/h1": "c1\n", ".gitignore": "*.log\n"}


@dataclass(frozen=True)
class AllWays:
    """The reference way, and the fast one with a new and with a known base: all must give one id, or all refuse."""

    repo: Repo
    store: ObjectStore

    def capture(self, task: TaskFolder | None, *, exclude: Sequence[str], keep: Sequence[str] = ()) -> str:
        fast = FastSnapshotter(self.repo, self.store)
        try:
            expected = ReferenceSnapshotter(self.repo, self.store).capture(task, exclude=exclude, keep=keep)
        except RefusedError as refusal:
            with pytest.raises(RefusedError, match=str(refusal.code)):
                fast.capture(task, exclude=exclude, keep=keep)
            raise
        assert [fast.capture(task, exclude=exclude, keep=keep) for _ in range(2)] == [expected] * 2
        return expected


@dataclass(frozen=True)
class Sandbox:
    """A worktree that a test plays in."""

    path: Path

    def git(self, *args: str, stdin: bytes | None = None, check: bool = True, env: dict[str, str] | None = None) -> str:
        """The output of git, stripped."""
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *args],
            cwd=self.path,
            env=os.environ | (env or {}),
            input=stdin or b"",
            capture_output=True,
            check=False,
        )
        assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
        return os.fsdecode(done.stdout).strip()

    def sh(self, script: str) -> None:
        """Run a shell script in the worktree; any failing line fails the test."""
        done = subprocess.run(["sh", "-ec", script], cwd=self.path, capture_output=True, check=False)
        assert done.returncode == 0, (script, done.stdout, done.stderr)

    def write(self, files: dict[str, str]) -> None:
        """Write text files, with the folders they need."""
        for name, text in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def commit(self, message: str = "work") -> str:
        """Commit everything; the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--no-verify", "-m", message)
        return self.git("rev-parse", "HEAD")

    @property
    def repo(self) -> Repo:
        """The worktree as the product sees it."""
        return discover(self.path)

    @property
    def store(self) -> ObjectStore:
        """Its object store for snapshots."""
        return ObjectStore(self.repo)

    @property
    def snapshots(self) -> Snapshotter:
        """Every way of taking a snapshot at once."""
        return AllWays(self.repo, self.store)

    def listing(self, tree: str) -> dict[str, str]:
        """Path -> "mode oid" of a tree, read by git from our store."""
        objects = str(self.repo.common_dir / "agent-infra" / "objects")
        out = self.git("ls-tree", "-r", "-z", tree, env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": objects})
        entries = (line.split("\t", 1) for line in out.split("\0") if line)
        return {name: " ".join(head.split()[::2]) for head, name in entries}

    def show(self, tree: str, name: str) -> bytes:
        """The content of a file in a tree of our store."""
        found = self.store.entry(tree, name)
        assert found is not None, name
        return self.store.blob(found[1])


def sandbox(path: Path, *options: str, files: dict[str, str] | None = None) -> Sandbox:
    """A new repository at `path` with one commit; no commit for empty `files`."""
    path.mkdir(parents=True)
    box = Sandbox(path)
    box.git("init", "-q", "-b", "main", *options, ".")
    wanted = FILES if files is None else files
    box.write(wanted)
    if wanted:
        box.commit("first")
    return box


def partial_clone(origin: Sandbox, path: Path) -> Sandbox:
    """A clone that fetches blobs only when they are needed; older blobs are absent."""
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
    origin.git("clone", "-q", "--filter=blob:none", f"file://{origin.path}", str(path))
    return Sandbox(path)


def plain_tree(box: Sandbox, copy: Path) -> str:
    """The tree that git itself makes of the files: `git add -A` in a copy of everything with an index from HEAD.

    It is the independent answer: a copy, so that nothing of ours is involved and the user's index can't matter.
    """
    shutil.copytree(box.path, copy, symlinks=True, ignore=_no_fifos)
    twin = Sandbox(copy)
    (copy / ".git" / "index").unlink(missing_ok=True)
    if twin.git("rev-parse", "-q", "--verify", "HEAD", check=False):
        twin.git("read-tree", "HEAD")
    twin.git("add", "-A")
    return twin.git("write-tree")


def _no_fifos(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_fifo()]


def user_state(box: Sandbox) -> dict[str, str]:
    """Digest of every file in the git dir that is the user's: objects, refs, index, HEAD, config, logs."""
    common = box.repo.common_dir
    files = (path for path in sorted(common.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(common)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if "agent-infra" not in path.relative_to(common).parts[:3:2]  # of the repository and of a linked worktree
    }
