"""A repository that goes away: merges are made again in it, and nothing is written where the history lies.

No merge driver, attribute or setting of anybody counts there.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_infra.git.repo import Completed, failure, git_process

_NOBODY = {f"GIT_{role}_{key}": "nobody" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
_OWN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1", **_NOBODY}


@dataclass
class Scratch:
    """An empty bare repository that reads the objects of another one; made when it is needed first.

    Attributes:
        stores: object folders that are read.
    """

    object_format: str
    stores: Sequence[str]
    _folder: "tempfile.TemporaryDirectory[str] | None" = field(default=None, init=False)

    @property
    def folder(self) -> Path:
        """Where it is.

        Raises:
            GitError: GIT_FAILED when it can't be made.
        """
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="agent-infra-")
            made = ("init", "-q", "--bare", f"--object-format={self.object_format}", "--template=", ".")
            done = git_process(*made, cwd=Path(self._folder.name))
            if done.code:
                raise failure(made, done)
        return Path(self._folder.name)

    def git(self, *args: str) -> Completed:
        """git, with the objects of both."""
        store = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(self.stores)}
        return git_process(*args, cwd=self.folder, env={**_OWN, **store})

    def merge(self, parents: Sequence[str]) -> tuple[str | None, bool]:
        """The tree that git makes of all parents, one after the other, and whether it has marks of conflicts.

        No tree where git can't say: before 2.38 it merges in a working tree alone.
        """
        ours, tree = parents[0], None
        for number, theirs in enumerate(parents[1:], start=2):
            done = self.git("merge-tree", "--write-tree", "--no-messages", ours, theirs)
            tree = done.stdout.split(b"\n", 1)[0].decode("ascii", "replace")
            if done.code not in {0, 1} or not re.fullmatch("[0-9a-f]{40,64}", tree):
                return None, False
            if done.code == 1:
                return tree, True
            if number < len(parents):
                sides = (word for parent in parents[:number] for word in ("-p", parent))
                ours = self.git("commit-tree", tree, *sides, "-m", "so far").stdout.decode().strip()
        return tree, False

    def library_makes(self, tree: str, ours: str, theirs: str) -> bool:
        """Whether libgit2 makes this very tree of two commits; it may do so where git is too old to be asked."""
        import pygit2

        try:
            opened = pygit2.Repository(str(self.folder))
            for store in self.stores:
                opened.odb.add_disk_alternate(store)
            index = opened.merge_commits(ours, theirs)
            return index.conflicts is None and str(index.write_tree(opened)) == tree
        except (pygit2.GitError, KeyError, ValueError, TypeError):
            return False

    def close(self) -> None:
        """Drop it with all that was written in it."""
        if self._folder is not None:
            folder, self._folder = self._folder, None
            folder.cleanup()
