"""What a checkout is like at a moment: HEAD, index, refs, and the files that differ; so that foreign writing shows.

Cheap enough to be asked after every child: git's own status, and the bytes of what it names.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from agent_infra.git.repo import Repo, display_path

_OURS = ("refs/agent-infra/",)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Checkout:
    """One moment of a checkout.

    Attributes:
        head: commit and branch.
        index: SHA-256 of what is staged.
        refs: SHA-256 of all refs but ours.
        files: path (as on disk) -> digest of what git calls changed or untracked.
    """

    head: str
    index: str
    refs: str
    files: dict[bytes, str]

    def differences(self, later: "Checkout") -> tuple[str, ...]:
        """What is not the same any more, in words."""
        parts = (
            ("HEAD", self.head, later.head),
            ("the index", self.index, later.index),
            ("refs", self.refs, later.refs),
        )
        moved = [name for name, before, after in parts if before != after]
        paths = {path for path, digest in self.files.items() ^ later.files.items()}
        return (*moved, *sorted(display_path(path) for path in paths))


def capture(repo: Repo) -> Checkout:
    """The checkout as it is now; the index is not refreshed and no lock is taken."""
    head = repo.head()
    staged = repo.run("ls-files", "-s", "-z").stdout
    refs = repo.run("for-each-ref", "--format=%(refname) %(objectname)").stdout
    kept = b"\n".join(line for line in refs.splitlines() if not line.decode(errors="replace").startswith(_OURS))
    return Checkout(f"{head.ref} {head.oid}", _digest(staged), _digest(kept), _files(repo))


def _files(repo: Repo) -> dict[bytes, str]:
    """The bytes of every file that git's status names."""
    asked = ("--no-renames", "--untracked-files=all", "--ignore-submodules=dirty")
    done = repo.run("-c", "core.fsmonitor=false", "status", "--porcelain", "-z", *asked)
    paths = [entry[3:] for entry in done.stdout.split(b"\0") if len(entry) > 3]
    return {path: _digest_of(repo.worktree / os.fsdecode(path)) for path in paths}


def _digest_of(path: Path) -> str:
    """Kind, permission and content of what lies at a path."""
    try:
        if path.is_symlink():
            return _digest(os.fsencode(path.readlink()))
        if not path.is_file():
            return "folder" if path.is_dir() else "none"
        digest = hashlib.sha256(b"x" if os.access(path, os.X_OK) else b"-")
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()
    except OSError:
        return "unreadable"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
