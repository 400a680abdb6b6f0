"""What a snapshot costs: our way inside the running program against git's own commands, by size of the repository."""

import os
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from repositories import change, clean, generate, git
from timing import Row, Step, command, measure, rows

from agent_infra.core.config import DEFAULT_EXCLUDE
from agent_infra.git.objects import ObjectStore
from agent_infra.git.repo import discover
from agent_infra.git.snapshot import ReferenceSnapshotter

SIZES = (500, 10_000, 100_000)
STATUS = "`git status`"
_RACY = 1.1  # seconds after which git trusts the stat data of a file that was just written


@dataclass(frozen=True)
class Case:
    """One table: a size and a state of the working tree."""

    files: int
    dirty: bool

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.files:,} files, {'20 changed + 20 new' if self.dirty else 'clean'}"


def run(sizes: tuple[int, ...], *, rounds: int) -> list[tuple[Case, list[Row]]]:
    """All cases, as ratios to `git status`."""
    found = []
    for files in sizes:
        with tempfile.TemporaryDirectory(prefix="agent-infra-bench-") as temporary:
            folder = Path(temporary) / "repo"
            generate(folder, files)
            for dirty in (False, True):
                clean(folder)
                time.sleep(_RACY)
                case = Case(files, dirty)
                found.append((case, rows(measure(_steps(folder, case), rounds=rounds), to=STATUS)))
            os.chdir("/")
    return found


def _steps(folder: Path, case: Case) -> list[Step]:
    """One round: all ways look at the same content, which is new in each round where the case is a dirty one."""
    repo = discover(folder)
    ours = ReferenceSnapshotter(repo, ObjectStore(repo))
    before = [Step("", partial(change, folder, case.files, changed=20, new=20))] if case.dirty else []
    return [
        *before,
        Step(STATUS, command(("git", "status", "--porcelain"), folder)),
        Step("`git stash create` (no untracked files)", command(("git", "stash", "create"), folder)),
        Step("three git commands: `read-tree`, `add -A`, `write-tree`", partial(_plain, folder)),
        Step("our snapshot (reference way)", partial(ours.capture, None, exclude=DEFAULT_EXCLUDE)),
    ]


def _plain(folder: Path) -> None:
    """The reference way without anything of ours: a temporary index, and objects in the repository's own store."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["GIT_INDEX_FILE"] = f"{scratch}/index"
        try:
            for words in (("read-tree", "HEAD"), ("add", "-A"), ("write-tree",)):
                git(folder, *words)
        finally:
            del os.environ["GIT_INDEX_FILE"]
