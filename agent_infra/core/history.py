"""What is known about a commit, what it claims, and the evidence that a claim is held against: values alone.

The checks are in `grounds` (a run and its evidence) and `judgement` (a commit). What the journal of this machine says
is never looked at.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from agent_infra.core.lifecycle import Stage
from agent_infra.core.receipts import PathChange, Receipt, ReceiptStatus
from agent_infra.core.replay import NEW_WORK, Story, replay
from agent_infra.core.run import State, fold
from agent_infra.core.tasks import TASK_ID
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError

PATCH = "patchId"  # the fact of a commit's `prepare` line that outlives a rebase

_TRAILER = re.compile(r"[ \t]*Agent-Infra-(Task|Run|Receipt):[ \t]*(\S*)\s*")
_DIGEST = re.compile(r"[0-9a-f]{64}")

Entry = tuple[str, str] | None  # mode and object id of a path; None where it is gone
Original = tuple[str, tuple[str, ...]]  # tree and parents of a commit


class Kind(StrEnum):
    """What is known about a commit."""

    VERIFIED = "verified"
    WEAK = "verified-weak"
    ALLOWED = "allowed"
    UNRECEIPTED = "unreceipted"
    BROKEN = "broken"
    INCOMPLETE = "incomplete"  # it could not be checked


@dataclass(frozen=True)
class Verdict:
    """The answer for one commit.

    Attributes:
        reason: a word or two: why it is weak.
        code: the rule that is broken, or why it could not be checked.
        detail: a sentence for people.
    """

    kind: Kind
    reason: str = ""
    code: ErrorCode | None = None
    detail: str = ""

    def __str__(self) -> str:
        inner = self.reason or (str(self.code) if self.code else "")
        return f"{self.kind}({inner})" if inner else str(self.kind)


def broken(error: AgentInfraError) -> Verdict:
    """The verdict that a failed check means."""
    return Verdict(Kind.BROKEN, code=error.code, detail=error.message)


@dataclass(frozen=True, order=True)
class Claim:
    """What the trailers of a commit say: this task, this run, and the journal line that it rests on."""

    task_id: str
    run_id: str
    receipt: str


@dataclass(frozen=True)
class Commit:
    """A commit as the history has it.

    Attributes:
        tree: object id.
        message: all of it; what is not UTF-8 replaced.
        changes: what differs from its only parent (or from nothing), by path as records spell it.
    """

    oid: str
    parents: tuple[str, ...]
    tree: str
    message: str
    changes: Mapping[str, Entry]


class Look(Protocol):
    """What is asked about a commit only where it matters."""

    def entries(self) -> Mapping[str, Entry]:
        """Every path of its tree."""

    def patch(self) -> str:
        """The digest of its patch; see `git.patches`."""

    def between(self, first: str | None, last: str) -> str:
        """The digest of the patch between two commits that are here; the first may be nothing."""

    def original(self, oid: str) -> Original | None:
        """Another commit, where it is here."""

    def follows(self, oid: str) -> bool:
        """Whether its parent has that commit in its history."""

    def joins(self, last: str) -> bool:
        """Whether git, merging its parent with that commit, makes its tree."""


@dataclass(frozen=True)
class Chronicle:
    """The journal of one task's evidence, the view beside it, and what was found to be right about both."""

    task_id: str
    events: tuple[Mapping[str, Any], ...]
    heads: tuple[str, ...]
    view: bytes

    @cached_property
    def story(self) -> Story:
        """The journal told again.

        Raises:
            RefusedError: a VERIFY code, or ORCHESTRATION_JOURNAL_INVALID.
        """
        return replay(self.events)

    @cached_property
    def last(self) -> State:
        """What all lines add up to.

        Raises:
            CorruptStateError: ORCHESTRATION_JOURNAL_INVALID.
        """
        return fold(self.events, task_id=self.task_id, head=self.heads[-1])

    def state(self, line: int) -> State:
        """What the first lines add up to.

        Args:
            line: 1-based.

        Raises:
            CorruptStateError: ORCHESTRATION_JOURNAL_INVALID.
        """
        return fold(self.events[:line], task_id=self.task_id, head=self.heads[line - 1])

    def line_of(self, receipt: str) -> int | None:
        """The number of the line with this digest."""
        return self.heads.index(receipt) + 1 if receipt in self.heads else None

    def work_ends(self, line: int) -> int:
        """How many lines there are before other work begins after `line`; up to there the documents are its own."""
        later = (n for n, event in enumerate(self.events[line:], start=line) if event["op"] in NEW_WORK)
        return next(later, len(self.events))


@dataclass(frozen=True)
class Ground:
    """What a commit may stand on: a run that was found right up to the line that the trailers name.

    Attributes:
        state: the run at that line.
        recorded: the commit that the run says it led to.
        flaws: why the record is good, but not as good as it could be.
        patch: the digest of the patch that was authorized, or `None` in older records.
        said: what it rests on by a person's word alone.
    """

    claim: Claim
    state: State
    recorded: str | None
    flaws: tuple[str, ...]
    patch: str | None
    said: tuple[str, ...] = ()

    @property
    def judged(self) -> Mapping[str, Entry] | None:
        """What the code review judged: path -> new side; `None` for an adopted review."""
        review = newest_receipt(self.state, Stage.REVIEW_CODE)
        changes: Sequence[PathChange] | None = review.input_changes if review else None
        if changes is None:
            return None
        return {change.path: _entry(change) for change in changes}

    @property
    def origins(self) -> tuple[str, ...]:
        """Who reported the events of the run, sorted."""
        return tuple(sorted({receipt.origin for receipt in self.state.run.receipts}))


def newest_receipt(state: State, stage: Stage) -> Receipt | None:
    """The last consumed receipt of a stage."""
    of_stage = (r for r in reversed(state.run.receipts) if r.stage == stage and r.status == ReceiptStatus.CONSUMED)
    return next(of_stage, None)


def _entry(change: PathChange) -> Entry:
    return None if change.mode is None or change.oid is None else (change.mode, change.oid)


def check_claims(message: str) -> tuple[Claim, ...]:
    """The claims of a commit's message in its order; a squash has several, also above its last paragraph.

    Raises:
        RefusedError: VERIFY_TRAILER_INVALID for trailers in the last paragraph that make no whole claim.
    """
    last = message.rstrip().replace("\r", "").rsplit("\n\n", 1)[-1]
    found = _claims(message) or _claims(last)
    if _trailers(last) and not found:
        message = "the Agent-Infra trailers are incomplete or malformed; a commit has Task, Run and Receipt, once each"
        raise RefusedError(ErrorCode.VERIFY_TRAILER_INVALID, message)
    return found


def _trailers(text: str) -> list[tuple[str, str]]:
    matches = (_TRAILER.fullmatch(line) for line in text.split("\n"))
    return [(match[1], match[2]) for match in matches if match]


def _claims(text: str) -> tuple[Claim, ...]:
    """Whole claims: Task, Run and Receipt in any order, a repeated key begins the next one."""
    groups: list[dict[str, str]] = [{}]
    for key, value in _trailers(text):
        if key in groups[-1]:
            groups.append({})
        groups[-1][key] = value
    whole = [group for group in groups if len(group) == 3 and _is_sound(group)]
    if len(whole) != len([group for group in groups if group]):
        return ()
    return tuple(dict.fromkeys(Claim(group["Task"], group["Run"], group["Receipt"]) for group in whole))


def _is_sound(group: Mapping[str, str]) -> bool:
    return bool(TASK_ID.fullmatch(group["Task"]) and group["Run"] and _DIGEST.fullmatch(group["Receipt"]))
