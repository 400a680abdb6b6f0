"""What each evidence commit of a task added: lines of the journal, the steps that ended with them, who did those."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_infra.core.receipts import Receipt
from agent_infra.errors import CorruptStateError, ErrorCode


@dataclass(frozen=True)
class Link:
    """One evidence commit.

    Attributes:
        first: number of the first journal line that is new in it; `last` of the last one.
        head: SHA-256 of its last line.
        steps: receipts that ended in it.
        recorded: product commits that were recorded in it.
        reasons: why something was given up or let pass, in the words of whoever did.
    """

    commit: str
    first: int
    last: int
    at: str
    head: str
    ops: tuple[str, ...]
    steps: tuple[Receipt, ...]
    recorded: tuple[str, ...]
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The facts for programs."""
        return {
            "commit": self.commit,
            "at": self.at,
            "lines": [self.first, self.last],
            "journalHead": self.head,
            "ops": list(self.ops),
            "steps": [_step(receipt) for receipt in self.steps],
            "recorded": list(self.recorded),
            "reasons": list(self.reasons),
        }


def _step(receipt: Receipt) -> dict[str, Any]:
    """What a receipt says about who did what on which bytes."""
    kept = (
        *("id", "runId", "stage", "round", "role", "artifact", "artifactDigest", "status", "outcome", "inputs"),
        *("client", "origin", "agent", "childId", "parentId", "beforeFingerprint", "afterFingerprint", "changedPaths"),
    )
    document = receipt.to_json()
    return {name: document[name] for name in kept}


def links(
    events: Sequence[Mapping[str, Any]], heads: Sequence[str], marks: Sequence[tuple[str, int]]
) -> tuple[Link, ...]:
    """The evidence commits with what each added.

    Args:
        events: parsed journal lines that `fold` takes; `heads` their digests.
        marks: evidence commit and how many lines its journal has, oldest first.

    Raises:
        CorruptStateError: ORCHESTRATION_JOURNAL_INVALID for a receipt that is none.
    """
    ended = _ended(events)
    recorded = _recorded(events)
    found: list[Link] = []
    before = 0
    for commit, last in marks:
        new = range(before, last)
        found.append(
            Link(
                commit=commit,
                first=before + 1,
                last=last,
                at=str(events[last - 1]["ts"]),
                head=heads[last - 1],
                ops=tuple(str(events[line]["op"]) for line in new),
                steps=tuple(ended[line] for line in new if line in ended),
                recorded=tuple(recorded[line] for line in new if line in recorded),
                reasons=tuple(reason for line in new if (reason := _reason(events[line]))),
            )
        )
        before = last
    return tuple(found)


def _ended(events: Sequence[Mapping[str, Any]]) -> dict[int, Receipt]:
    """Index of the line that closes a receipt -> the receipt; the same sum as the fold of a run makes."""
    pending: dict[str, Any] = {}
    found: dict[int, Receipt] = {}
    for line, event in enumerate(events):
        pending |= event.get("receipt", {})
        if event.get("close"):
            try:
                found[line] = Receipt.model_validate(pending)
            except ValueError as error:
                message = f"line {line + 1} of the journal closes what is no receipt of ours"
                raise CorruptStateError(ErrorCode.ORCHESTRATION_JOURNAL_INVALID, message) from error
            pending = {}
    return found


def _recorded(events: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Index of the line that names a product commit first -> that commit."""
    found: dict[int, str] = {}
    for line, event in enumerate(events):
        leave = (event.get("run") or {}).get("commitAuthorization") or {}
        commit = leave.get("commit") if isinstance(leave, Mapping) else None
        if commit and str(commit) not in found.values():
            found[line] = str(commit)
    return found


def _reason(event: Mapping[str, Any]) -> str | None:
    """Why, where somebody had to say so."""
    ended = (event.get("run") or {}).get("ended")
    places = (event.get("facts"), ended, event.get("memo"), {"reason": (event.get("receipt") or {}).get("abortReason")})
    words = [place.get("reason") for place in places if isinstance(place, Mapping)]
    return next((word for word in words if isinstance(word, str) and word), None)
