"""A person's ruling on a row of the ledger: which rows wait for one, and how task.md says it.

That a person said so is the caller's business. Every edit is made by line and keeps the bytes that it does not mean to
change.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent_infra.core import ledger as ledgers
from agent_infra.core.ledger import DECIDED, PENDING, Ledger, Row
from agent_infra.core.markdown import DocumentError, Section, find_sections, read_document, read_heading, replace_lines
from agent_infra.core.run import State
from agent_infra.core.tasks import ACTIVITY_LOG, LogEntry, record_step
from agent_infra.errors import ErrorCode, RefusedError

RULINGS = ("Human Rulings", "Human Decisions", "Human Decision", "人工裁决")
STEP = "Human Decision"

_HEADING = re.compile(r"HDR-([1-9][0-9]{0,8})\b")
_EVIDENCE = re.compile(r"task\.md#HDR-([1-9][0-9]{0,8})")
_FIELD = re.compile(r"- \*\*(Ledger ID|Result)\*\*: (.*)")
_ORDINAL = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Ruling:
    """One block of the section Human Rulings; id and result are empty where the block names none."""

    number: int
    ledger_id: str
    result: str

    @property
    def id(self) -> str:
        """`HDR-1`."""
        return f"HDR-{self.number}"

    @property
    def evidence(self) -> str:
        """How a row of the ledger names it."""
        return f"task.md#{self.id}"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person says about a row.

    Attributes:
        result: one line.
        at: when, as logs write it.
        fields: of the front matter, set with it.
    """

    result: str
    at: str
    fields: Mapping[str, str]


def decidable(ledger: Ledger, known: Mapping[str, Row] | None) -> tuple[Row, ...]:
    """The rows that wait for a person, in the order of the table: asked for, or closed by nobody who may.

    Args:
        known: the rows that the journal and the pending receipt know; None without a run, where nothing is proven.
    """
    odd = ledgers.unproven(known, ledger, may_close=False) if known is not None else ()
    asked = {row.id for row in ledgers.gate(ledger).open_rows if row.status == PENDING}
    return tuple(row for row in ledger.rows if row.id in asked or row.id in odd)


def select_row(ledger: Ledger, known: Mapping[str, Row] | None, item: str) -> Row:
    """The row that a person means: its id, or its 1-based place among those that wait; one decided before, too.

    Raises:
        RefusedError: DECISION_TARGET_INVALID saying what was found and which rows wait.
    """
    waiting = decidable(ledger, known)
    names = ", ".join(row.id for row in waiting) or "none"
    if _ORDINAL.fullmatch(item):
        if not 1 <= int(item) <= len(waiting):
            raise _no_target(f"there is no row {item} among the {len(waiting)} that wait for a person: {names}")
        return waiting[int(item) - 1]
    row = next((row for row in ledger.rows if row.id == item.upper()), None)
    if row is None:
        gone = (known or {}).get(item.upper())
        if gone:
            raise _no_target(f"{gone.id} vanished from the ledger; put it back first: {ledgers.render_row(gone)}")
        raise _no_target(f"{item[:80]!r} is no row of the ledger; waiting for a person: {names}")
    if row not in waiting and row.status != DECIDED:
        whose = "it is settled" if ledgers.is_terminal(row.status) else "a reviewer settles it or asks for a person"
        raise _no_target(f"{row.id} is {row.status}, expected {PENDING}: {whose}; waiting for a person: {names}")
    return row


def read_rulings(data: bytes) -> tuple[Ruling, ...]:
    """Every ruling of task.md, in the order of the file.

    Raises:
        DocumentError: TASK_DOCUMENT_INVALID for a second such section, or one that can't be read.
    """
    section = _section(data)
    found: list[Ruling] = []
    for line in section.body if section else ():
        heading = read_heading(line)
        match = _HEADING.match(heading[1]) if heading and heading[0] == 3 else None
        if match:
            found.append(Ruling(int(match[1]), "", ""))
        elif found and line.visible and (field := _FIELD.fullmatch(line.text)):
            last, text = found[-1], field[2].strip()
            found[-1] = replace(last, ledger_id=text) if field[1] == "Ledger ID" else replace(last, result=text)
    return tuple(found)


def decide_row(data: bytes, row: Row, decision: Decision, *, is_known: bool) -> tuple[bytes, Row]:
    """Write a ruling into task.md: the row, its block on top of Human Rulings, its line in the log.

    Args:
        row: as `select_row` found it.
        is_known: a ruling on this row counts already, so another one contradicts it.

    Returns:
        The document and the decided row; unchanged where they say this very ruling already.

    Raises:
        RefusedError: DECISION_CONFLICT; MUTATION_INVALID for a result that is not one line;
            ORCHESTRATION_LEDGER_INVALID or TASK_DOCUMENT_INVALID if task.md can't be edited.
    """
    rulings = read_rulings(data)
    if row.status == DECIDED:
        stands = next((each for each in rulings if each.evidence == row.evidence and each.ledger_id == row.id), None)
        if stands and stands.result == decision.result:
            return data, row
        if is_known:
            words = f"{stands.id}: {stands.result}" if stands else row.evidence
            raise RefusedError(ErrorCode.DECISION_CONFLICT, f"{row.id} was decided before, otherwise ({words})")
    ruling = Ruling(_next_number(data, rulings), row.id, decision.result)
    decided = replace(row, status=DECIDED, evidence=ruling.evidence)
    entry = LogEntry(decision.at, STEP, "human", f"{row.id} decided → {ruling.id}")
    edited = _put_on_top(ledgers.replace_row(data, decided), _block(ruling, decision.at))
    if ruling not in read_rulings(edited):
        message = f"the result {decision.result[:80]!r} would not read back, expected one line of text"
        raise RefusedError(ErrorCode.MUTATION_INVALID, message)
    return record_step(edited, entry, fields=decision.fields, link=None), decided


def said(state: State) -> tuple[str, ...]:
    """What a run rests on by a person's word alone."""
    decided = [f"{name} ({cells[4]})" for name, cells in state.memo.ledger.items() if cells[3] == DECIDED]
    words = [f"decided by a person: {', '.join(decided)}"] if decided else []
    if state.memo.validated:
        words.append(f"validated by a person: what {', '.join(state.memo.validated)} left")
    return tuple(words)


def _next_number(data: bytes, rulings: Sequence[Ruling]) -> int:
    """One more than any ruling that task.md holds or that a row still names."""
    named = (_EVIDENCE.fullmatch(row.evidence) for row in ledgers.parse_ledger(data).rows)
    return max([0, *(each.number for each in rulings), *(int(match[1]) for match in named if match)]) + 1


def _block(ruling: Ruling, at: str) -> tuple[str, ...]:
    return (
        f"### {ruling.id}",
        "",
        f"- **Ledger ID**: {ruling.ledger_id}",
        f"- **Decided At**: {at}",
        f"- **Result**: {ruling.result}",
    )


def _put_on_top(data: bytes, block: Sequence[str]) -> bytes:
    """The document with a block as the first of its rulings; a missing section is made before the activity log."""
    section = _section(data)
    if section:
        below = section.body[:1]
        gap = [""] if below and below[0].text.strip() else []
        return replace_lines(data, {section.heading.number: (section.heading.text, "", *block, *gap)})
    log = find_sections(read_document(data), ACTIVITY_LOG)
    if not log:
        raise DocumentError(1, 'no visible heading "## Activity Log"; a task has exactly one')
    heading = log[0].heading
    return replace_lines(data, {heading.number: (f"## {RULINGS[0]}", "", *block, "", heading.text)})


def _section(data: bytes) -> Section | None:
    found = find_sections(read_document(data), RULINGS)
    if len(found) > 1:
        raise DocumentError(found[1].heading.number, f'a second section "{RULINGS[0]}"; keep one')
    return found[0] if found else None


def _no_target(message: str) -> RefusedError:
    return RefusedError(ErrorCode.DECISION_TARGET_INVALID, message)
