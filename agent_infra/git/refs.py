"""What refs hold and which commits they reach, asked of git while it moves refs. Nothing here moves one.

git calls `reference-transaction` with its locks held and, where it receives a push, with new objects in a quarantine;
`objects` are the variables that make those visible.
"""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_infra.git.repo import Repo

HEADS = "refs/heads/"
_MANY = 500  # names on one command line; for more all branches are listed
_PRUNE_WAIT = 0.5  # seconds in which another git may finish packing refs
_STORE, _ALTERNATES = "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"
_SYMBOLIC = "ref:"


@dataclass(frozen=True)
class Update:
    """One line of a ref transaction: the values before and after, as git says them, and the ref."""

    old: str
    new: str
    ref: str

    @property
    def is_symbolic(self) -> bool:
        """Whether the ref shall lead to another one (git 2.46 and newer tell of these)."""
        return self.new.startswith(_SYMBOLIC)

    @property
    def is_deletion(self) -> bool:
        """Whether the ref shall vanish."""
        return not self.new.strip("0")

    @property
    def is_elsewhere(self) -> bool:
        """Whether the ref is named as another worktree's."""
        return self.ref.startswith(("main-worktree/", "worktrees/"))

    @property
    def name(self) -> str:
        """The ref as its own worktree names it."""
        return self.ref.split("/", 2 if self.ref.startswith("worktrees/") else 1)[-1] if self.is_elsewhere else self.ref

    @property
    def is_head(self) -> bool:
        """Whether it is what a worktree has checked out; a file system may not tell `head` from HEAD."""
        return self.name.upper() == "HEAD"

    @property
    def is_branch(self) -> bool:
        """Whether it is a branch."""
        return self.name.lower().startswith(HEADS)


def parse_updates(data: bytes) -> tuple[Update, ...]:
    """The lines that git gives `reference-transaction`; what is no line of three words is passed over."""
    lines = (os.fsdecode(line).split(" ", 2) for line in data.split(b"\n"))
    return tuple(Update(*parts) for parts in lines if len(parts) == 3)


def hook_objects(environment: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """The variables by which a git child finds the objects that the calling git writes; absolute."""
    found = {name: environment[name] for name in (_STORE, _ALTERNATES) if environment.get(name)}
    if _STORE in found:
        found[_STORE] = str(cwd / found[_STORE])
    if _ALTERNATES in found and '"' not in found[_ALTERNATES]:
        found[_ALTERNATES] = os.pathsep.join(str(cwd / part) for part in found[_ALTERNATES].split(os.pathsep) if part)
    return found | {"GIT_NO_REPLACE_OBJECTS": "1"}


def values(repo: Repo, names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """What branches hold now, and which of them lead to another ref: name -> commit, name -> name."""
    wanted = set(names)
    if not wanted:
        return {}, {}
    asked = sorted(wanted) if len(wanted) < _MANY else [HEADS]
    listed = repo.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)", *asked).stdout
    held: dict[str, str] = {}
    leads: dict[str, str] = {}
    for line in os.fsdecode(listed).splitlines():
        oid, name, target = line.split(" ", 2)
        if name in wanted:
            held[name] = oid
            if target:
                leads[name] = target
    return held, leads


def is_pruning(repo: Repo, update: Update) -> bool:
    """Whether the deletion takes away a loose ref whose value is packed, as `gc` and `pack-refs` do.

    A real deletion takes the packed value too, with packed-refs locked while the hook is asked.
    """
    if update.old.strip("0") == "" or _packed(repo).get(update.ref) != update.old:
        return False
    lock = repo.common_dir / "packed-refs.lock"
    deadline = time.monotonic() + _PRUNE_WAIT
    while lock.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _packed(repo: Repo) -> dict[str, str]:
    try:
        data = (repo.common_dir / "packed-refs").read_bytes()
    except OSError:
        return {}
    lines = (os.fsdecode(line).partition(" ") for line in data.splitlines() if line[:1] not in {b"#", b"^"})
    return {name: oid for oid, _, name in lines}


def is_reached(repo: Repo, commit: str, objects: Mapping[str, str]) -> bool:
    """Whether some ref, or the HEAD of a worktree, reaches a commit."""
    done = repo.run("rev-list", "-n", "1", commit, "--not", "--all", env=objects, check=False)
    return done.code == 0 and not done.stdout


def is_ancestor(repo: Repo, older: str, newer: str, objects: Mapping[str, str]) -> bool:
    """Whether `newer` comes after `older`, or is it."""
    return repo.run("merge-base", "--is-ancestor", older, newer, env=objects, check=False).code == 0


def upstream(repo: Repo, branch: str) -> str | None:
    """The remote-tracking ref that a branch follows; a branch of this repository is nobody's upstream here.

    Args:
        branch: full name.
    """
    name = repo.text("for-each-ref", "--format=%(upstream)", branch).partition("\n")[0]
    return name if name.startswith("refs/remotes/") else None
