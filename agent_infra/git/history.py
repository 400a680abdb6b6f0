"""A history as it is stored: commits, what they changed, the evidence beside them. Read-only, and without a worktree.

Raw objects are read, so that no setting, replacement, graft, attribute or driver of anybody changes what is seen.
A bare repository will do, and so will the quarantine of a push.
"""

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from agent_infra.core.history import Entry
from agent_infra.core.judgement import Merged, merge_by_paths
from agent_infra.errors import ErrorCode, GitError, RefusedError
from agent_infra.git import evidence
from agent_infra.git.objects import EMPTY_TREE
from agent_infra.git.patches import patch_digest
from agent_infra.git.repo import Completed, Repo, clean_environment, git_process
from agent_infra.git.scratch import Scratch
from agent_infra.git.trees import TreeChange, parse_raw_diff

OBJECT_LIMIT = 64 << 20
_RAW = ("diff-tree", "-r", "-z", "--no-renames", "--ignore-submodules=none")
_FOLDER = "40000"
_AT_ONCE = 100


@dataclass(frozen=True)
class RawCommit:
    """A commit object; `author` and `committer` are `Name <address>`."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    author: str
    committer: str
    message: str

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.lstrip("\n").partition("\n")[0]


@dataclass
class History:
    """The objects and refs of one repository.

    Attributes:
        quarantine: the variables by which git tells a hook of a push where its objects are.
    """

    repo: Repo
    quarantine: Mapping[str, str] = field(default_factory=dict)
    _batch: "subprocess.Popen[bytes] | None" = None

    @property
    def env(self) -> dict[str, str]:
        """What every git of ours gets to know."""
        fixed = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull, "GIT_NO_LAZY_FETCH": "1"}
        return {**self.quarantine, **fixed, "GIT_DIR": str(self.repo.git_dir)}

    def run(self, *args: str, stdin: bytes | None = None, check: bool = True) -> Completed:
        """Ask git.

        Raises:
            GitError: GIT_FAILED where `check` is set.
        """
        return self.repo.run(*args, stdin=stdin, env=self.env, check=check, cwd=self.repo.common_dir)

    def resolve(self, name: str) -> str | None:
        """The commit that a revision means."""
        done = self.run("rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}", check=False)
        return done.stdout.decode().strip() or None if done.code == 0 else None

    def ref_of(self, name: str) -> str | None:
        """The full name of the ref that a revision is; None for an id and anything computed."""
        done = self.run("rev-parse", "-q", "--verify", "--symbolic-full-name", "--end-of-options", name, check=False)
        found = os.fsdecode(done.stdout).strip()
        return found if done.code == 0 and found.startswith("refs/") else None

    def listed(self, range_: str) -> tuple[str, ...] | None:
        """The commits of a range, parents first; None where git does not know what is meant."""
        done = self.run("rev-list", "--topo-order", "--reverse", "--end-of-options", range_, "--", check=False)
        return tuple(done.stdout.decode().split()) if done.code == 0 else None

    def shallow(self) -> frozenset[str]:
        """The commits whose parents were cut off."""
        try:
            return frozenset((self.repo.common_dir / "shallow").read_text(encoding="ascii").split())
        except FileNotFoundError:
            return frozenset()

    def evidence_refs(self) -> dict[str, dict[str, str]]:
        """Task -> its newest evidence commits by their refs: that of a run here first, then what remotes held."""
        asked = ("for-each-ref", "--format=%(objectname) %(refname)", evidence.RUNS, evidence.TRACKED)
        lines = (line.split(" ", 1) for line in os.fsdecode(self.run(*asked).stdout).splitlines())
        found: dict[str, dict[str, str]] = {}
        for oid, ref in sorted(lines, key=lambda line: not line[1].startswith(evidence.RUNS)):
            task = ref.removeprefix(evidence.RUNS) if ref.startswith(evidence.RUNS) else ref.rpartition("/runs/")[2]
            found.setdefault(task, {})[ref] = oid
        return found

    def newest_evidence(self, known: Mapping[str, str]) -> str:
        """Of the evidence of one task, by ref, the commit with the longest journal; the first of equal ones."""
        oids = tuple(dict.fromkeys(known.values()))
        if len(oids) == 1:
            return oids[0]
        journals = self.objects([f"{oid}:{evidence.JOURNAL}" for oid in oids], "blob")
        return max(zip(oids, journals, strict=True), key=lambda pair: len(pair[1] or b""))[0]

    # -- objects -------------------------------------------------------------------------------------------------------

    def commit(self, oid: str) -> RawCommit:
        """A commit.

        Raises:
            GitError: GIT_FAILED where it is not one.
        """
        data = self.object(oid, "commit")
        if data is None:
            raise GitError(ErrorCode.GIT_FAILED, f"commit {oid} is missing")
        return parse_commit(oid, data)

    def commits(self, oids: Sequence[str]) -> Iterator[RawCommit]:
        """Many commits, in this order.

        Raises:
            GitError: GIT_FAILED where one is missing.
        """
        for start in range(0, len(oids), _AT_ONCE):
            some = oids[start : start + _AT_ONCE]
            # answered before the next question: the pipes stay in step
            for oid, data in zip(some, self.objects(some, "commit"), strict=True):
                if data is None:
                    raise GitError(ErrorCode.GIT_FAILED, f"commit {oid} is missing")
                yield parse_commit(oid, data)

    def object(self, oid: str, kind: str) -> bytes | None:
        """The content of an object of that kind; None where there is none.

        Raises:
            GitError: GIT_FAILED for one above 64 MiB.
        """
        return self.objects([oid], kind)[0]

    def objects(self, oids: Sequence[str], kind: str) -> list[bytes | None]:
        """The same for some at once; not so many that the questions fill a pipe."""
        batch = self._started()
        if batch.stdin is None or batch.stdout is None:
            raise GitError(ErrorCode.GIT_FAILED, "git cat-file has no pipes")
        batch.stdin.write("".join(f"{oid}\n" for oid in oids).encode())
        batch.stdin.flush()
        return [self._answer(batch, oid, kind) for oid in oids]

    def _answer(self, batch: "subprocess.Popen[bytes]", oid: str, kind: str) -> bytes | None:
        if batch.stdout is None:
            return None
        words = batch.stdout.readline().split()
        if not words:
            raise GitError(ErrorCode.GIT_FAILED, f"git cat-file ended at {oid}")
        if len(words) != 3:
            return None
        size = int(words[2])
        if size > OBJECT_LIMIT:
            self.close()
            raise GitError(ErrorCode.GIT_FAILED, f"object {oid} has {size} bytes; at most {OBJECT_LIMIT} are read")
        data = batch.stdout.read(size)
        batch.stdout.read(1)
        return data if words[1].decode() == kind else None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._batch is None or self._batch.poll() is not None:
            self._batch = subprocess.Popen(
                ["git", "cat-file", "--batch"],
                cwd=self.repo.common_dir,
                env=clean_environment(os.environ) | self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._batch

    def tree(self, oid: str) -> dict[bytes, tuple[str, str]]:
        """The entries of one folder: name -> mode, object id."""
        data = self.object(oid, "tree")
        if data is None:
            raise GitError(ErrorCode.GIT_FAILED, f"tree {oid} is missing")
        return parse_entries(data, self.repo.hex_size // 2)

    def files(self, commit: str, wanted: Callable[[str], bool]) -> dict[str, bytes]:
        """The files at the top of a commit's tree whose name is wanted.

        Raises:
            GitError: GIT_FAILED where one is missing.
        """
        entries = self.tree(f"{commit}^{{tree}}")
        named = {name.decode("utf-8", "replace"): entry for name, entry in entries.items() if entry[0] != _FOLDER}
        names = [name for name in named if wanted(name)]
        found = dict(zip(names, self.objects([named[name][1] for name in names], "blob"), strict=True))
        gone = [name for name, data in found.items() if data is None]
        if gone:
            raise GitError(ErrorCode.GIT_FAILED, f"{gone[0]} of commit {commit} is missing")
        return {name: data for name, data in found.items() if data is not None}

    # -- what commits changed ------------------------------------------------------------------------------------------

    def changes(self, oids: Iterable[str]) -> dict[str, dict[str, Entry]]:
        """What each of these commits changed against its one parent; merges and empty commits are left out."""
        stdin = "".join(f"{oid}\n" for oid in oids).encode()
        raw = self.run(*_RAW, "--stdin", "--root", stdin=stdin).stdout
        return {oid: new_sides(parse_raw_diff(part)) for oid, part in _parts(raw)}

    def between(self, a: str, b: str) -> dict[str, Entry]:
        """What differs between two commits or trees, by the new side."""
        return new_sides(parse_raw_diff(self.run(*_RAW, a, b).stdout))

    def entries(self, tree: str) -> dict[str, Entry]:
        """Every path of a tree."""
        return self.between(EMPTY_TREE[self.repo.object_format], tree)

    def patch(self, a: str | None, b: str) -> str:
        """The digest of what lies between two commits, or since nothing."""
        return patch_digest(self.repo, a or EMPTY_TREE[self.repo.object_format], b, env=self.env)

    def has_ancestor(self, commit: str, oid: str) -> bool:
        """Whether a commit is another one or has it in its history."""
        return self.run("merge-base", "--is-ancestor", oid, commit, check=False).code == 0

    # -- merges --------------------------------------------------------------------------------------------------------

    def merged(self, commit: RawCommit) -> tuple[Merged, tuple[str, ...]]:
        """Whether a merge is what git makes of its parents by itself, and the paths that are not."""
        tree, conflicts = self._scratch.merge(commit.parents)
        if tree is not None:
            odd = self._scratch.git(*_RAW, tree, commit.tree).stdout
            answer = Merged.BY_HAND if conflicts or odd else Merged.CLEAN
            return answer, tuple(sorted(change.name for change in parse_raw_diff(odd)))
        if len(commit.parents) != 2:
            return Merged.UNKNOWN, ()
        if self._scratch.library_makes(commit.tree, *commit.parents):
            return Merged.CLEAN, ()
        return self._by_paths(commit)

    def joined(self, tree: str, ours: str, theirs: str) -> bool:
        """Whether a tree is what a merge makes of two commits, without a conflict."""
        made, conflicts = self._scratch.merge((ours, theirs))
        if made is None:
            return self._scratch.library_makes(tree, ours, theirs)
        return made == tree and not conflicts

    @cached_property
    def _scratch(self) -> Scratch:
        theirs = [self.quarantine.get(name, "") for name in QUARANTINE[:2]]
        parts = [part for each in theirs for part in each.split(os.pathsep) if part]
        return Scratch(self.repo.object_format, (str(self.repo.common_dir / "objects"), *parts))

    def _by_paths(self, commit: RawCommit) -> tuple[Merged, tuple[str, ...]]:
        """For a git before 2.38, which can't merge without a working tree."""
        bases = self.run("merge-base", "--all", *commit.parents, check=False).stdout.decode().split()
        if len(bases) != 1:
            return Merged.UNKNOWN, ()
        ours, theirs, result = (self.between(bases[0], side) for side in (*commit.parents, commit.oid))
        return merge_by_paths(ours, theirs, result)

    def close(self) -> None:
        """End the git that reads objects, and drop what was written aside."""
        if self._batch is not None:
            batch, self._batch = self._batch, None
            for pipe in (batch.stdin, batch.stdout):
                if pipe is not None:
                    pipe.close()
            batch.kill()
            batch.wait()
        self._scratch.close()


QUARANTINE = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH")


@contextmanager
def open_history(cwd: Path, *, environment: Mapping[str, str]) -> Iterator[History]:
    """The history of the repository around `cwd`, a bare one too.

    Args:
        environment: of the caller; only the quarantine of a push is taken from it.

    Raises:
        RefusedError: REPO_ROOT_NOT_FOUND.
    """
    asked = ("rev-parse", "--path-format=absolute", "--show-object-format", "--git-dir", "--git-common-dir")
    done = git_process(*asked, cwd=cwd) if cwd.is_dir() else Completed(128, b"", b"no such folder")
    if done.code and "GIT_QUARANTINE_PATH" in environment and environment.get("GIT_DIR"):
        # a server may forbid to find bare repositories (safe.bareRepository); the hook of a push was told where it is
        done = git_process(*asked, cwd=cwd, env={"GIT_DIR": environment["GIT_DIR"]})
    lines = os.fsdecode(done.stdout).removesuffix("\n").split("\n")
    if done.code or len(lines) != 3:
        raise RefusedError(ErrorCode.REPO_ROOT_NOT_FOUND, f"{cwd} is not in a git repository ({done.words})")
    object_format, git_dir, common_dir = lines[0], Path(lines[1]).resolve(), Path(lines[2]).resolve()
    repo = Repo(common_dir, git_dir, common_dir, common_dir, object_format)
    quarantine: dict[str, str] = {}
    if "GIT_QUARANTINE_PATH" in environment:
        quarantine = {
            name: os.pathsep.join(str((cwd / part).resolve()) for part in environment[name].split(os.pathsep))
            for name in QUARANTINE
            if environment.get(name)
        }
    history = History(repo, quarantine)
    try:
        yield history
    finally:
        history.close()


def parse_commit(oid: str, data: bytes) -> RawCommit:
    """A raw commit object; bytes that are not UTF-8 are replaced, since only ASCII is looked for."""
    head, _, message = data.partition(b"\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.decode("utf-8", "replace").split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    author, committer = ((fields.get(role) or [""])[0].rsplit(" ", 2)[0] for role in ("author", "committer"))
    parents = tuple(fields.get("parent", ()))
    return RawCommit(oid, fields["tree"][0], parents, author, committer, message.decode("utf-8", "replace"))


def parse_entries(data: bytes, size: int) -> dict[bytes, tuple[str, str]]:
    """The entries of a raw tree object; `size` is the bytes of an id."""
    entries: dict[bytes, tuple[str, str]] = {}
    position = 0
    while position < len(data):
        end = data.index(0, position)
        mode, name = data[position:end].split(b" ", 1)
        entries[name] = (mode.decode(), data[end + 1 : end + 1 + size].hex())
        position = end + 1 + size
    return entries


def new_sides(changes: Iterable[TreeChange]) -> dict[str, Entry]:
    """What each changed path has become."""
    return {
        change.name: None if change.new_mode is None or change.new_oid is None else (change.new_mode, change.new_oid)
        for change in changes
    }


def _parts(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """The output of `diff-tree --stdin -z`, cut at the commits: an id, then pairs of a head and a path."""
    fields = raw.split(b"\0")[:-1]
    position = 0
    while position < len(fields):
        oid, start = fields[position].decode(), position + 1
        position = start
        while position < len(fields) and fields[position].startswith(b":"):
            position += 2
        yield oid, b"".join(part + b"\0" for part in fields[start:position])
