"""What is asked about one commit of a history only where it matters, since each answer costs a git or two."""

from dataclasses import dataclass
from functools import cached_property

from agent_infra.core.history import Entry, Original
from agent_infra.git.history import History, RawCommit, parse_commit


@dataclass(frozen=True)
class Glance:
    """What is asked about one commit only where it matters; a `core.history.Look`."""

    history: History
    commit: RawCommit

    @property
    def _parent(self) -> str | None:
        return self.commit.parents[0] if self.commit.parents else None

    def entries(self) -> dict[str, Entry]:
        """Every path of its tree."""
        return self.history.entries(self.commit.tree)

    def patch(self) -> str:
        """The digest of what it changed."""
        return self._patch

    @cached_property
    def _patch(self) -> str:
        return self.history.patch(self._parent, self.commit.oid)

    def between(self, first: str | None, last: str) -> str:
        """The digest of what lies between two other commits."""
        return self.history.patch(first, last)

    def original(self, oid: str) -> Original | None:
        """Tree and parents of another commit, where it is here with its parents."""
        data = self.history.object(oid, "commit")
        found = parse_commit(oid, data) if data is not None else None
        if found is None or None in self.history.objects(found.parents, "commit"):
            return None
        return found.tree, found.parents

    def follows(self, oid: str) -> bool:
        """Whether its parent has that commit in its history."""
        return self._parent is not None and self.history.has_ancestor(self._parent, oid)

    def joins(self, last: str) -> bool:
        """Whether git, merging its parent with that commit, makes its tree."""
        return self._parent is not None and self.history.joined(self.commit.tree, self._parent, last)
