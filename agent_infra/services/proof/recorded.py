"""Which runs speak of a commit that names none: one light look through all evidence, and nothing counts unproven.

The look trusts nobody and checks nothing; it only tells whose evidence is worth being read in earnest.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agent_infra.core.grounds import check_shown
from agent_infra.core.history import PATCH, Claim, Entry
from agent_infra.errors import AgentInfraError
from agent_infra.services.proof.chronicles import Chronicles

# the lines that say what was judged, committed and let pass; the others are most of a journal
_TELLING = re.compile(rb'"op" *: *"(?:begin|prepare|committed|complete|allowed)"')


@dataclass(frozen=True)
class Rewrite:
    """A recorded commit that a commit without trailers may be a new version of.

    Attributes:
        judged: what the code review judged: path -> new side.
        patch: the digest of the patch that was authorized, or `None` in older records.
    """

    claim: Claim
    judged: Mapping[str, Entry]
    patch: str | None

    def covers(self, changes: Mapping[str, Entry]) -> bool:
        """Whether all of these changes were judged."""
        return all(path in self.judged and self.judged[path] == entry for path, entry in changes.items())


@dataclass
class _Index:
    """What the journals say, by what is asked for."""

    leaves: dict[str, list[str]] = field(default_factory=dict)  # commit -> tasks that a person let it pass
    rewrites: list[Rewrite] = field(default_factory=list)
    by_path: dict[str, list[int]] = field(default_factory=dict)  # places in `rewrites`

    def add(self, rewrite: Rewrite) -> None:
        """One more recorded commit."""
        for path in rewrite.judged:
            self.by_path.setdefault(path, []).append(len(self.rewrites))
        self.rewrites.append(rewrite)


@dataclass
class Recorded:
    """What all runs together recorded; looked through when a commit is asked about for the first time."""

    chronicles: Chronicles

    def leave(self, oid: str) -> tuple[str, str] | None:
        """The task that a person let a commit pass, and why; proven."""
        for task_id in reversed(self._index.leaves.get(oid, [])):
            try:
                chronicle = self.chronicles.of(task_id)
                check_shown(chronicle)
                reason = chronicle.story.leaves.get(oid)
            except AgentInfraError:
                continue  # evidence that can't be read speaks for nobody
            if reason is not None:
                return task_id, reason
        return None

    def near(self, paths: Collection[str]) -> list[Rewrite]:
        """The recorded commits that judged one of these paths; not proven yet."""
        index = self._index
        places = {place for path in paths for place in index.by_path.get(path, ())}
        return [index.rewrites[place] for place in sorted(places)]

    @cached_property
    def _index(self) -> _Index:
        index = _Index()
        for task_id, journal in self.chronicles.journals():
            events = list(_telling(journal))
            try:
                for rewrite in _rewrites(task_id, events):
                    index.add(rewrite)
            except (AttributeError, KeyError, TypeError, ValueError):
                continue  # it will not be found right either
            for event in events:
                if event["op"] == "allowed":
                    index.leaves.setdefault(str((event.get("facts") or {}).get("commit")), []).append(task_id)
        return index


def _telling(journal: bytes) -> Iterator[dict[str, Any]]:
    for line in journal.split(b"\n"):
        if not _TELLING.search(line):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _rewrites(task_id: str, events: list[dict[str, Any]]) -> Iterator[Rewrite]:
    """The claims that the commits of one journal could make."""
    run_id, patch = "", None
    changes: list[dict[str, Any]] | None = None
    for event in events:
        run = event.get("run") or {}
        used = (run.get("commitAuthorization") or {}).get("commit")
        if event["op"] == "begin":
            run_id = str(run.get("runId", run_id))
        elif event["op"] == "prepare":
            patch = (event.get("facts") or {}).get(PATCH)
            if event["receipt"]["stage"] == "review-code":
                changes = event["receipt"].get("inputChanges")
        elif event["op"] in {"committed", "complete"} and used and changes is not None:
            judged = {change["path"]: _side(change) for change in changes}
            # the trailer names the last line before the commit was recorded
            yield Rewrite(Claim(task_id, run_id, event["prev"]), judged, patch)


def _side(change: Mapping[str, Any]) -> Entry:
    return None if change["mode"] is None else (str(change["mode"]), str(change["oid"]))
