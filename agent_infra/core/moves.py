"""The moves of a task between active, blocked and completed: what each needs, and what it writes into task.md."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from agent_infra.core.frontmatter import set_fields
from agent_infra.core.markdown import find_sections, read_document
from agent_infra.core.tasks import ACTIVITY_LOG, LogEntry, parse_log_line, record_step
from agent_infra.errors import CorruptStateError, ErrorCode

STEPS = ("task-written", "directory-moved", "registry-committed")


@dataclass(frozen=True)
class Move:
    """One kind of move; `keeps_short_id` says whether the task has a short id afterwards."""

    sources: tuple[str, ...]
    target: str
    step: str
    stamp: str = ""
    removes: tuple[str, ...] = ()

    @property
    def keeps_short_id(self) -> bool:
        """Only active tasks have one."""
        return self.target == "active"


MOVES: Mapping[str, Move] = {
    "block": Move(("active",), "blocked", "Block Task", "blocked_at"),
    "activate": Move(
        ("blocked",), "active", "Activate Task", "", ("completed_at", "blocked_at", "cancelled_at", "cancel_reason")
    ),
    "cancel": Move(("active", "blocked"), "completed", "Cancel Task", "cancelled_at"),
}


@dataclass(frozen=True)
class MoveJournal:
    """What `.task-lifecycle.json` says: a move under way; `at` and `reason` are its metadata."""

    task: str
    intent: str
    source: str
    at: str
    reason: str
    done: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """Where the task goes."""
        return MOVES[self.intent].target

    @property
    def digest(self) -> str:
        """What makes two calls the same wish."""
        return hashlib.sha256(json.dumps([self.task, self.intent, self.reason]).encode()).hexdigest()


def render_journal(move: MoveJournal) -> bytes:
    """The bytes of the file."""
    kept = {
        "version": 1,
        "task": move.task,
        "intent": move.intent,
        "digest": move.digest,
        "source": move.source,
        "target": move.target,
        "metadata": {"at": move.at, "reason": move.reason},
        "completed": list(move.done),
    }
    return json.dumps(kept, ensure_ascii=False).encode() + b"\n"


def parse_journal(data: bytes, task_id: str) -> MoveJournal:
    """Read the file of a task.

    Raises:
        CorruptStateError: LIFECYCLE_JOURNAL_INVALID.
    """
    try:
        kept = json.loads(data)
        about = kept["metadata"]
        move = MoveJournal(
            kept["task"], kept["intent"], kept["source"], about["at"], about["reason"], tuple(kept["completed"])
        )
        sound = render_journal(move) == data and move.task == task_id and set(move.done) <= set(STEPS)
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        sound = False
    if not sound or move.source not in MOVES[move.intent].sources:
        message = f".task-lifecycle.json of {task_id} is not as it was written; look at it, then remove it"
        raise CorruptStateError(ErrorCode.LIFECYCLE_JOURNAL_INVALID, message)
    return move


def write_move(data: bytes, move: MoveJournal, *, version: str) -> bytes:
    """task.md after the move; the same bytes where it says so already.

    Raises:
        RefusedError: TASK_DOCUMENT_INVALID, MUTATION_INVALID.
    """
    kind = MOVES[move.intent]
    # the time keeps the line of a second block for the same reason apart from the first
    note = f"{move.reason or move.target} (at {move.at})"
    entry = LogEntry(move.at, kind.step, "human", note)
    logged = {
        found.note
        for section in find_sections(read_document(data), ACTIVITY_LOG)
        for line in section.body
        if line.visible and (found := parse_log_line(line.text)) and found.step == kind.step
    }
    if note in logged:
        return data
    fields = {"status": kind.target, "updated_at": move.at, "agent_infra_version": version}
    if kind.stamp:
        fields[kind.stamp] = move.at
    if move.intent == "cancel":
        fields["cancel_reason"] = move.reason
    if move.intent == "activate":
        fields["assigned_to"] = "human"
    edited = record_step(data, entry, fields=fields, link=None)
    edited = set_fields(edited, {}, kind.removes) if kind.removes else edited
    if move.intent == "block" and not find_sections(read_document(edited), ("Blocking Information", "阻塞信息")):
        edited = edited.rstrip() + f"\n\n## Blocking Information\n\n- {move.at}: {move.reason}\n".encode()
    return edited
