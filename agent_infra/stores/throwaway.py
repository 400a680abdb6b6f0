"""Folders that a command needs for a moment: each is held by a kernel lock, so that what a kill left is known for sure.

Nothing in them is ever a record.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_infra.stores.atomic import is_locked, locked

_PARENT = "worktrees"
_PREFIX = "gate-check."
_LOCK = "lock"


@contextmanager
def throwaway(folder: Path) -> Iterator[Path]:
    """A new folder for as long as the caller needs it; what killed calls left goes first.

    Args:
        folder: `<git common dir>/agent-infra`.

    Raises:
        OSError: the disk says no.

    Side effects:
        A folder in `worktrees/`, gone afterwards.
    """
    parent = folder / _PARENT
    parent.mkdir(parents=True, exist_ok=True)
    for path in abandoned(folder):
        remove_tree(path)
    # nobody takes it for an abandoned one before it is held: that name comes last
    fresh = Path(tempfile.mkdtemp(prefix="scratch.", dir=folder))
    made = parent / f"{_PREFIX}{fresh.name.removeprefix('scratch.')}"
    try:
        with locked(fresh / _LOCK, wait=0):
            fresh.rename(made)
            yield made
    finally:
        remove_tree(made)
        remove_tree(fresh)


def abandoned(folder: Path) -> tuple[Path, ...]:
    """Folders whose command is gone, sorted."""
    parent = folder / _PARENT
    found = sorted(parent.glob(f"{_PREFIX}*")) if parent.is_dir() else []
    return tuple(path for path in found if not is_locked(path / _LOCK))


def remove_tree(path: Path) -> None:
    """Take a folder away with all that is in it, whatever its modes are; no link is followed.

    Side effects:
        What can't be removed stays; the next call tries again.
    """
    shutil.rmtree(path, ignore_errors=True)
    if not path.is_dir():
        return
    for place, _, _ in os.walk(path):  # a folder without its write bit keeps what is in it
        with suppress(OSError):
            Path(place).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
