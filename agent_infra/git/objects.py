"""The object store of the snapshots: git objects that nobody reviewed yet, kept apart from the user's own.

It lies in the common dir with the repository's store as its alternate, so that it reads everything and adds nothing
to what the user keeps or pushes. This module does not look at the working tree and moves no ref.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_infra.git.local import LocalObjects, last_used, touch
from agent_infra.git.repo import Repo
from agent_infra.git.trees import (
    GITLINK,
    Entry,
    TreeChange,
    attempt,
    compare,
    edit_tree,
    parse_raw_diff,
    records,
    write_object,
)

__all__ = ["DURABLE", "EMPTY_TREE", "GITLINK", "ObjectStore", "TreeChange"]

EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
WORKSPACE = ".agents/workspace"
DURABLE = ("-c", "core.fsync=all")
LOOSE_LIMIT = 100  # as `fetch.unpackLimit`: more objects than this stay one pack
SCRATCH = "scratch."
GRACE = 86_400.0  # seconds; what is younger may belong to a step that is not recorded yet


@dataclass(frozen=True)
class ObjectStore:
    """`<common dir>/agent-infra/objects`; made when first needed."""

    repo: Repo
    _products: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def path(self) -> Path:
        """The object folder."""
        return self.repo.common_dir / "agent-infra" / "objects"

    @property
    def empty_tree(self) -> str:
        """The id of the tree without entries."""
        return EMPTY_TREE[self.repo.object_format]

    def env(self) -> dict[str, str]:
        """Variables for git children that shall read and write objects here.

        Replacement refs are off: libgit2 does not know them, and a fingerprint must not depend on them.

        Side effects: makes the store.
        """
        self._ensure()
        return {"GIT_OBJECT_DIRECTORY": str(self.path), "GIT_NO_REPLACE_OBJECTS": "1"}

    def tree_of(self, commit: str | None) -> str | None:
        """The tree of a commit; None for None, a branch without a commit."""
        return None if commit is None else self._git("rev-parse", f"{commit}^{{tree}}").decode().strip()

    def diff(self, a: str, b: str) -> tuple[TreeChange, ...]:
        """What differs between two trees, by path; a moved file is two changes."""
        if a == b:
            return ()
        if self.repo.object_format == "sha1":
            self._ensure()
            found = attempt(self.path, lambda odb: compare(odb, a, b))
            if found is not None:
                return found
        return parse_raw_diff(self._raw_diff(a, b))

    def product(self, tree: str) -> str:
        """The tree without `.agents/workspace`, and without `.agents` if nothing else is in it.

        Side effects: may write trees here.
        """
        if tree not in self._products:
            listed = self._git("ls-tree", "-z", "--full-tree", tree, "--", WORKSPACE)
            self._products[tree] = self._without_workspace(tree) if listed else tree
        return self._products[tree]

    def compose(self, base: str | None, changes: Iterable[TreeChange]) -> str:
        """`base` (None: the empty tree) with the new side of each change.

        Side effects: writes trees here.
        """
        wanted: dict[bytes, Entry | None] = {
            c.path: None if c.new_mode is None or c.new_oid is None else (c.new_mode, c.new_oid) for c in changes
        }
        with self.in_use():
            if self.repo.object_format == "sha1":
                edited = attempt(self.path, lambda odb: edit_tree(odb, base, wanted) or write_object(odb, "tree", b""))
                if edited is not None:
                    return edited
            return self._compose_with_git(base, wanted)

    def patch(self, a: str, b: str) -> bytes:
        """A unified diff for people; a moved file is shown twice, a binary file is only named.

        Content alone decides what is binary: by the attributes of the working tree the author of a change could hide
        it from its reviewer.
        """
        plain = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
        with self.scratch() as empty:
            away = {
                "GIT_DIR": str(self.repo.git_dir),
                "GIT_WORK_TREE": str(empty),
                "GIT_INDEX_FILE": str(empty / "no-index"),
            }
            asked = (
                "-c",
                "core.quotePath=false",
                "diff-tree",
                "-r",
                "-p",
                *plain,
                "--src-prefix=a/",
                "--dst-prefix=b/",
                a,
                b,
            )
            return self.repo.run(*asked, env=self.env() | away, cwd=empty).stdout

    def entry(self, tree: str, path: str | bytes) -> tuple[str, str] | None:
        """Mode and object id of what a tree holds at a path, a folder included; None when nothing is there."""
        name = os.fsdecode(path).rstrip("/")
        listed = self._git("ls-tree", "-z", "--full-tree", tree, "--", name, env={"GIT_LITERAL_PATHSPECS": "1"})
        for record in records(listed):
            mode, _, oid = record.partition(b"\t")[0].decode().split(" ")
            return mode, oid
        return None

    def blob(self, oid: str) -> bytes:
        """The content of a blob as it is stored."""
        return self._git("cat-file", "blob", oid)

    def publish(self, tree: str) -> None:
        """Give the repository's own store every object of `tree` that it lacks.

        Side effects: writes and fsyncs objects in the user's store.
        """
        head_tree = self.tree_of(self.repo.head().oid)
        if tree == head_tree:
            return
        wanted = self._beyond(head_tree, tree)
        packed = self._git("pack-objects", "-q", "--stdout", stdin=_lines(wanted))
        unpack = ("unpack-objects", "-q") if len(wanted) <= LOOSE_LIMIT else ("index-pack", "--stdin")
        self.repo.run(*DURABLE, *unpack, stdin=packed)

    def keep(self, tree: str, commits: Iterable[str] = ()) -> None:
        """Make `tree` and `commits` independent of what git may prune in the user's store.

        git does not write again what dangles there already, so everything that HEAD does not reach is copied here.

        Side effects: may write and fsync a pack here; no ref is made.
        """
        head = self.repo.head().oid
        head_tree = self.tree_of(head)
        with self.in_use():
            wanted = self._beyond(head_tree, tree) if tree != head_tree else set()
            wanted |= self._history(set(commits) - {head}, head)
            ours = LocalObjects(self.path, self.repo.hex_size)
            found = {oid: ours.find(oid) for oid in wanted}
            for file in {file for file in found.values() if file is not None}:
                touch(file)
            self._pack(oid for oid, file in found.items() if file is None)

    def prune(self, live: Iterable[str], *, grace: float = GRACE) -> bool:
        """Drop what no live tree or commit needs; False when the store was in use and nothing was looked at.

        Args:
            live: trees and commits whose objects stay; ids that are not known are passed over.
            grace: age in seconds below which nothing is dropped.

        Side effects: deletes loose objects and packs here; may write one pack.

        Raises:
            GitError: GIT_FAILED when a live tree is incomplete; nothing is dropped then.
        """
        if not self.path.exists():
            return True
        with self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
            if free:
                self._drop(needed=self._history(set(live), self.repo.head().oid), before=time.time() - grace)
        return free

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for an index of ours. Not where TMPDIR says, which may be in the working tree that is captured."""
        self._ensure()
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.path.parent) as folder:
            yield Path(folder)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Hold `prune` off while objects are written whose ids nothing records yet; any number may hold it at once."""
        with self._locked(fcntl.LOCK_SH):
            yield

    @contextmanager
    def _locked(self, operation: int) -> Iterator[bool]:
        self._ensure()
        handle = os.open(self.path.with_name("objects.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, operation)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(handle)

    def _ensure(self) -> None:
        """Make the folder under another name first, so that nobody ever sees it without its alternate."""
        alternates = self.path / "info" / "alternates"
        if alternates.exists():
            return
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=self.path.parent))
        for folder in ("info", "pack"):
            (fresh / folder).mkdir()
        (fresh / "info" / "alternates").write_text("../../objects\n")
        try:
            fresh.rename(self.path)
        except OSError:  # another process was first, or somebody took the alternate away
            if not alternates.exists():
                alternates.parent.mkdir(exist_ok=True)
                (fresh / "info" / "alternates").replace(alternates)
            shutil.rmtree(fresh)

    def _git(self, *args: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        return self.repo.run(*args, stdin=stdin, env=self.env() | dict(env or {})).stdout

    def _raw_diff(self, *args: str) -> bytes:
        """`git diff-tree`; it would read the user's index for attributes, which no raw diff needs."""
        no_index = {"GIT_INDEX_FILE": str(self.path / "info" / "no-index")}
        return self._git("diff-tree", "-r", "-z", "--no-renames", "--ignore-submodules=none", *args, env=no_index)

    def _without_workspace(self, tree: str) -> str:
        root = self._entries(tree)
        agents = root[b".agents"].split(b" ")[2].decode()
        below = self._entries(agents)
        del below[b"workspace"]
        if below:
            root[b".agents"] = b"040000 tree " + self._make_tree(below).encode()
        else:
            del root[b".agents"]
        return self._make_tree(root)

    def _entries(self, tree: str) -> dict[bytes, bytes]:
        """Name -> "mode kind oid", as `mktree` takes it."""
        listed = self._git("ls-tree", "-z", "--full-tree", tree)
        return {name: head for head, _, name in (record.partition(b"\t") for record in records(listed))}

    def _make_tree(self, entries: Mapping[bytes, bytes]) -> str:
        with self.in_use():
            lines = b"".join(b"%s\t%s\0" % (head, name) for name, head in entries.items())
            return self._git(*DURABLE, "mktree", "-z", "--missing", stdin=lines).decode().strip()

    def _compose_with_git(self, base: str | None, wanted: Mapping[bytes, Entry | None]) -> str:
        gone = [b"0 %s\t%s\0" % (self.repo.null_oid.encode(), path) for path, entry in wanted.items() if entry is None]
        here = [b"%s %s\t%s\0" % (e[0].encode(), e[1].encode(), path) for path, e in wanted.items() if e is not None]
        with self.scratch() as folder:
            env = {"GIT_INDEX_FILE": str(folder / "index")}
            quiet = ("-c", "core.splitIndex=false", "-c", "index.sparse=false", "-c", "core.hooksPath=/dev/null")
            self._git(*quiet, "read-tree", base or "--empty", env=env)
            self._git(*quiet, "update-index", "-z", "--index-info", stdin=b"".join(gone + here), env=env)
            return self._git(*DURABLE, "write-tree", "--missing-ok", env=env).decode().strip()

    def _beyond(self, base: str | None, tree: str) -> set[str]:
        """Every object of `tree` that is not at the same place in `base` (None: the empty tree)."""
        raw = self._raw_diff("-t", base or self.empty_tree, tree)
        changes = (c for c in parse_raw_diff(raw) if c.new_mode not in {None, GITLINK})
        return {tree} | {c.new_oid for c in changes if c.new_oid is not None}

    def _history(self, tips: set[str], base: str | None) -> set[str]:
        """Every object that the tips reach and the commit `base` does not; unknown tips are passed over."""
        if not tips:
            return set()
        there = ("--exclude-promisor-objects",) if self.repo.has_promisor else ()
        lines = [*sorted(tips), *([f"^{base}"] if base else [])]
        asked = ("rev-list", "--objects", "--no-object-names", "--ignore-missing", *there, "--stdin")
        return set(self._git(*asked, stdin=_lines(lines)).decode().split())

    def _pack(self, oids: Iterable[str]) -> str:
        """Copy objects into a pack of this store; the name of the pack, empty for no objects."""
        lines = _lines(oids)
        if not lines:
            return ""
        name = str(self.path / "pack" / "pack")
        return (
            self._git(*DURABLE, "-c", "pack.packSizeLimit=0", "pack-objects", "-q", name, stdin=lines).decode().strip()
        )

    def _drop(self, *, needed: set[str], before: float) -> None:
        ours = LocalObjects(self.path, self.repo.hex_size)
        packs = [p for p in ours.packs if not p.is_fixed and last_used(p.path) < before]
        loose = [(oid, file) for oid, file in ours.loose() if last_used(file) < before]
        old = {oid for pack in packs for oid in pack.ids()} | {oid for oid, _ in loose}
        if loose or len(packs) > 1 or not old <= needed:
            kept = f"pack-{self._pack(needed & old)}.pack"  # equal to an old pack if that held just these
            for pack in packs:
                if pack.path.name != kept:
                    pack.remove()
        for file in (*(file for _, file in loose), *(f for f in ours.leftovers() if last_used(f) < before)):
            file.unlink(missing_ok=True)
        for folder in self.path.parent.glob(f"{SCRATCH}*"):
            if last_used(folder) < before:
                shutil.rmtree(folder, ignore_errors=True)


def _lines(oids: Iterable[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode()
