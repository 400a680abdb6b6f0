"""A place where a commit can be tried: a repository of its own that looks like the real one with that commit staged.

It has the branch, the refs, the settings and all objects of the real repository, and shares nothing that could be
written: what hooks do to refs (lint-staged keeps a stash), index, files or settings ends with it.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_infra.errors import ErrorCode, GitError
from agent_infra.git.repo import Head, Repo, clean_environment
from agent_infra.git.trees import records
from agent_infra.services.commands import run_group
from agent_infra.services.context import Context

_TAIL = 2_000  # bytes of what git says when it can't write the files
_INFO = ("exclude", "attributes", "grafts")
# what would leave something running, or look for what only the real repository has
_SETTINGS = """[core]
\tbare = false
\tfsmonitor = false
\tuntrackedCache = false
\tsplitIndex = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[submodule]
\trecurse = false
"""


@dataclass(frozen=True)
class State:
    """What would be committed, and what the files are, as trees."""

    index: str
    files: str


@dataclass(frozen=True)
class Rehearsal:
    """The place.

    Attributes:
        repo: of its own; its files and its index are the tree to be committed.
        linked: what was lent to it from the real worktree, repo-relative.
    """

    repo: Repo
    linked: tuple[str, ...] = ()

    @property
    def index(self) -> Path:
        """The index that a commit would be made of."""
        return self.repo.git_dir / "index"

    def look(self) -> State:
        """How things are now.

        Raises:
            GitError: GIT_FAILED for an index that makes no tree.

        Side effects: objects of this place.
        """
        copy = self.repo.git_dir / "look-index"
        shutil.copyfile(self.index, copy)
        env = {"GIT_INDEX_FILE": str(copy)}
        index = self.repo.run("write-tree", env=env).stdout.decode().strip()
        quiet = ("-c", "core.safecrlf=false", "-c", "advice.addEmbeddedRepo=false")
        self.repo.run(*quiet, "add", "-A", env=env)
        return State(index, self.repo.run("write-tree", env=env).stdout.decode().strip())

    def differing(self, before: State, after: State) -> tuple[str, ...]:
        """Paths that are not what they were, in the index or in the files; sorted."""
        found = self._paths(before.index, after.index) | self._paths(before.files, after.files)
        return tuple(os.fsdecode(path) for path in sorted(found))

    def _paths(self, a: str, b: str) -> set[bytes]:
        if a == b:
            return set()
        asked = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", a, b)
        return set(records(self.repo.run(*asked).stdout))


def build(context: Context, folder: Path, tree: str, *, links: Sequence[str], timeout: float) -> Rehearsal | None:
    """Make the place, with `tree` in its index and its files.

    Args:
        context: of the worktree that the commit would be made in.
        folder: empty, of the caller.
        links: patterns of what git ignores there and hooks need; see `gate.check_links`.
        timeout: seconds for writing the files.

    Returns:
        `None` where the time was up.

    Raises:
        GitError: GIT_FAILED.
        OSError: the disk says no.

    Side effects:
        Files below `folder` alone.
    """
    real = context.repo
    worktree = folder / "tree"
    worktree.mkdir()
    made = Repo(worktree, worktree / ".git", worktree / ".git", worktree, real.object_format)
    plain = ("-c", "init.defaultRefFormat=files")  # the refs are written as a file
    made.run(*plain, "init", "-q", "--template=", f"--object-format={real.object_format}", ".")
    context.objects.env()  # makes the store where there is none
    alternates = made.git_dir / "objects" / "info" / "alternates"
    alternates.parent.mkdir(parents=True, exist_ok=True)
    stores = (context.objects.path, real.common_dir / "objects")
    alternates.write_bytes(b"".join(os.fsencode(path) + b"\n" for path in stores))
    _copy_refs(real, made)
    _copy_info(real, made)
    _write_settings(real, made)
    if not _write_files(made, tree, timeout):
        return None
    return Rehearsal(made, _lend(real.worktree, made, links))


def lend_folder(rehearsal: Rehearsal, real: Repo, folder: Path) -> Rehearsal:
    """Lend one more folder of the real worktree, unless the place has one there."""
    if os.path.lexists(rehearsal.repo.worktree / folder):
        return rehearsal
    lent = _link(real.worktree, rehearsal.repo, folder)
    return Rehearsal(rehearsal.repo, (*rehearsal.linked, *lent))


def _copy_refs(real: Repo, made: Repo) -> None:
    """HEAD and every ref, stashes aside; a hook may ask on which branch it is, or what a remote has."""
    listed = real.run("for-each-ref", "--format=%(objectname) %(refname)").stdout
    kept = [line for line in listed.splitlines(keepends=True) if not line.endswith(b" refs/stash\n")]
    (made.git_dir / "packed-refs").write_bytes(b"".join(kept))
    (made.git_dir / "HEAD").write_bytes(_head_line(real.head()))


def _head_line(head: Head) -> bytes:
    return os.fsencode(f"ref: {head.ref}\n" if head.ref else f"{head.oid}\n")


def _copy_info(real: Repo, made: Repo) -> None:
    """Ignore rules and their like, and where the history is cut."""
    info = made.git_dir / "info"
    info.mkdir(exist_ok=True)
    copied = [(real.common_dir / "info" / name, info / name) for name in _INFO]
    copied.append((real.git_dir / "info" / "sparse-checkout", info / "sparse-checkout"))
    copied.append((real.common_dir / "shallow", made.git_dir / "shallow"))
    for source, target in copied:
        if source.is_file():
            shutil.copyfile(source, target)


def _write_settings(real: Repo, made: Repo) -> None:
    """The settings of the real repository, by reference, and after them what must be otherwise here."""
    text = ""
    for path in (real.common_dir / "config", real.git_dir / "config.worktree"):
        if path.is_file():
            text += f"[include]\n\tpath = {_quoted(path)}\n"
    text += _SETTINGS
    if "core.hookspath" in real.config():
        text += f"[core]\n\thooksPath = {_quoted(made.git_dir / 'hooks')}\n"
    if (real.common_dir / "lfs").is_dir():
        text += f"[lfs]\n\tstorage = {_quoted(real.common_dir / 'lfs')}\n"
    with (made.git_dir / "config").open("ab") as file:
        file.write(os.fsencode(text))


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write_files(made: Repo, tree: str, timeout: float) -> bool:
    """Index and files from the tree; whether there was time for it."""
    said = bytearray()
    asked = ("git", "read-tree", "--reset", "-u", tree)
    code = run_group(asked, made.worktree, said.extend, timeout=timeout, env=clean_environment(os.environ))
    if code:
        words = "; ".join(said[-_TAIL:].decode(errors="replace").split("\n")).strip("; ")
        raise GitError(ErrorCode.GIT_FAILED, f"the files of {tree} can't be written for a trial: {words}")
    return code is not None


def _lend(worktree: Path, made: Repo, patterns: Sequence[str]) -> tuple[str, ...]:
    """Symlinks to what matches and is no part of the tree; what a hook writes there is written in the real place."""
    lent: list[str] = []
    for pattern in patterns:
        for path in sorted(worktree.glob(pattern)):
            lent += _link(worktree, made, path.relative_to(worktree))
    return tuple(lent)


def _link(worktree: Path, made: Repo, name: Path) -> tuple[str, ...]:
    place = made.worktree / name
    if os.path.lexists(place) or not _has_real_parents(made.worktree, name):
        return ()
    with suppress(OSError):
        place.symlink_to(worktree / name)
        # a rule such as `node_modules/` is for folders, and this is a link
        rule = re.sub(r"([\\*?\[\]!# ])", r"\\\1", name.as_posix())
        with (made.git_dir / "info" / "exclude").open("ab") as file:
            file.write(os.fsencode(f"\n/{rule}\n"))
        return (name.as_posix(),)
    return ()


def _has_real_parents(top: Path, name: Path) -> bool:
    """Whether the folders on the way are there, and are no links that lead elsewhere."""
    parents = [top / parent for parent in name.parents]
    return all(parent.is_dir() and not parent.is_symlink() for parent in parents)


def commit_environment(made: Repo, base: Mapping[str, str]) -> dict[str, str]:
    """What git tells a hook of a commit about who commits and which index it is.

    Args:
        base: of the caller, without git's own variables.
    """
    told = {"GIT_INDEX_FILE": str(made.git_dir / "index"), "GIT_PREFIX": "", "GIT_EDITOR": ":"}
    asked = made.run("var", "GIT_AUTHOR_IDENT", check=False)
    who = re.fullmatch(r"(.*) <(.*)> (\d+ [+-]\d+)\n", os.fsdecode(asked.stdout))
    if asked.code == 0 and who:
        told |= dict(zip(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"), who.groups(), strict=True))
        told["GIT_AUTHOR_DATE"] = f"@{told['GIT_AUTHOR_DATE']}"
    return dict(base) | told
