"""What commands leave that were killed while they wrote: found by name and age, and swept away.

Nothing here is ever read again by anybody: a write is known by its final name alone.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agent_infra.stores.throwaway import abandoned, remove_tree

LITTER_AGE = 3600.0  # seconds; what is younger may belong to a command that still runs
_NAMES = re.compile(r"scratch\..+|commit-index\.[0-9]+(\.lock)?|\..+\.[0-9]+\.[0-9a-f]{8}\.tmp")


def find(common_dir: Path, state_root: Path, *, before: float) -> tuple[Path, ...]:
    """Left-over files and folders of ours that were last touched before that time, or that nobody holds; sorted.

    Args:
        before: seconds since 1970.
    """
    entries = (path for folder in _folders(common_dir, state_root) for path in _entries(folder))
    found = [path for path in entries if _NAMES.fullmatch(path.name) and _touched(path) < before]
    return tuple(sorted((*found, *abandoned(common_dir / "agent-infra"))))


def sweep(paths: Iterable[Path]) -> None:
    """Take them away; what is gone already is as good.

    Side effects:
        The files and folders named.
    """
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _folders(common_dir: Path, state_root: Path) -> Iterator[Path]:
    """Where our commands write; never where the working trees of children or objects lie."""
    ours, agents = common_dir / "agent-infra", state_root / ".agents"
    yield from (ours, *(ours / name for name in ("guards", "moves", "logs", "drivers", "hooks", "hooks/moved")))
    yield common_dir / "hooks"
    yield from _entries(ours / "runs")
    yield from (path / "agent-infra" for path in _entries(common_dir / "worktrees"))
    yield from (agents, agents / "workspace")
    for state in ("active", "blocked", "completed"):
        yield agents / "workspace" / state
        yield from _entries(agents / "workspace" / state)


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder; nothing in what is no folder."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _touched(path: Path) -> float:
    """When it was last written to, or anything directly in it; now for what is just going away."""
    try:
        return max(entry.lstat().st_mtime for entry in (path, *_entries(path)))
    except OSError:
        return float("inf")
