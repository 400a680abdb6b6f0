"""The findings ledger of task.md: its table, what makes a row invalid, and whether it lets the work go on.

Who may change a row is decided with a run's journal (`changed_rows`, `unproven`); this module writes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from agent_infra.core.markdown import DocumentError, Line, find_sections, read_document, replace_lines
from agent_infra.core.reviews import Counts
from agent_infra.errors import ErrorCode, RefusedError

LEDGER = ("Review Disagreement Ledger", "审查分歧账本")
COLUMNS = ("id", "stage", "round", "severity", "status", "evidence")
DECIDED = "human-decided"  # a person said so, and nobody else may
PENDING = "needs-human-decision"
TERMINAL = frozenset({"confirmed", "closed", DECIDED})

_STATUSES = TERMINAL | {"open", "accepted", "adjusted", "refuted", "cannot-judge", PENDING}
_SEVERITIES = ("blocker", "major", "minor")
_EXEMPT_STAGE = "post-review-commit"
_STAGES = ("analysis", "plan", "code", _EXEMPT_STAGE)
_STAGE_OF_PREFIX = {"AN": "analysis", "PL": "plan", "CD": "code"}
_ID = re.compile(r"(AN|PL|CD|HD|PRC)-[1-9][0-9]*")
_POSITIVE = re.compile(r"[1-9][0-9]{0,14}")
_DASHES = re.compile(r":?-{3,}:?")


@dataclass(frozen=True, slots=True)
class Row:
    """One finding (`AN-1`, `PL-1`, `CD-1`), decision (`HD-1`) or exemption (`PRC-1`), as the table says it."""

    id: str
    stage: str
    round: str
    severity: str
    status: str
    evidence: str

    @property
    def kind(self) -> str:
        """The prefix of the id."""
        return self.id.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Ledger:
    """All rows in the order of the file; `present` is False where task.md has no such section."""

    rows: tuple[Row, ...]
    present: bool


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether the ledger lets the commit be prepared, and the rows that speak against it."""

    open_rows: tuple[Row, ...]
    can_advance: bool


@lru_cache(maxsize=2)  # one look at a task asks several times for the ledger of the same bytes
def parse_ledger(data: bytes) -> Ledger:
    """Read the ledger of a task.md; a missing section and a section without a table have no rows.

    Raises:
        RefusedError: ORCHESTRATION_LEDGER_INVALID, the message begins with `task.md:<line>:` and the reason
            (`LEDGER_STATUS_INVALID`, …), for a second section or table, a faulty table, or a row that breaks a rule.
    """
    try:
        found = find_sections(read_document(data), LEDGER)
        if len(found) > 1:
            raise _fault(found[1].heading, "TASK_DOCUMENT_INVALID", "a second ledger section; keep one")
        rows = [(line, _row(line)) for line in _table_rows(found[0].body)] if found else []
        _check_rows(rows)
    except DocumentError as fault:
        message = f"task.md:{fault.line}: {fault.reason}"
        raise RefusedError(ErrorCode.ORCHESTRATION_LEDGER_INVALID, message) from fault
    return Ledger(tuple(row for _, row in rows), present=bool(found))


def ledger_faults(data: bytes) -> tuple[DocumentError, ...]:
    """Every fault of the ledger, row by row, for whoever mends it; `parse_ledger` stops at the first."""
    found = find_sections(read_document(data), LEDGER)
    faults: list[DocumentError] = []
    try:
        lines = _table_rows(found[0].body) if found else []
    except DocumentError as fault:
        return (fault,)
    seen: set[str] = set()
    for line in lines:
        try:
            row = _row(line)
        except DocumentError as fault:
            faults.append(fault)
            continue
        if row.id in seen:
            faults.append(_fault(line, "LEDGER_DUPLICATE_ID", f'the id "{row.id}" is there twice'))
        elif reason := _fault_of(row):
            faults.append(_fault(line, *reason))
        seen.add(row.id)
    return tuple(faults)


def is_terminal(status: str) -> bool:
    """Whether nothing is left to do about a row with this status."""
    return status in TERMINAL


def gate(ledger: Ledger) -> GateResult:
    """Ask whether every row of every stage is resolved; exemptions of commits after the review belong to no stage."""
    open_rows = tuple(
        row
        for row in ledger.rows
        if not is_terminal(row.status) and not (row.kind == "PRC" and row.stage == _EXEMPT_STAGE)
    )
    return GateResult(open_rows, can_advance=not open_rows)


def unresolved_counts(ledger: Ledger, stage: str) -> Counts:
    """Count the unresolved findings of one stage (`analysis`, `plan`, `code`); decisions are no findings."""
    severities = [
        row.severity
        for row in ledger.rows
        if row.stage == stage and row.kind in _STAGE_OF_PREFIX and not is_terminal(row.status)
    ]
    return Counts(*(severities.count(severity) for severity in _SEVERITIES))


def changed_rows(known: Mapping[str, Row], ledger: Ledger) -> tuple[Row, ...]:
    """The rows that are new or say something else than what was known."""
    return tuple(row for row in ledger.rows if known.get(row.id) != row)


def unproven(known: Mapping[str, Row], ledger: Ledger, *, may_close: bool) -> tuple[str, ...]:
    """The ids that nobody answers for: rows that vanished, and rows that became terminal unless that is allowed.

    What a person decided stays decided, and no step decides in a person's place, whatever it may close.
    """
    there = {row.id for row in ledger.rows}
    vanished = tuple(name for name in known if name not in there)
    return vanished + tuple(row.id for row in ledger.rows if _is_odd(known.get(row.id), row, may_close=may_close))


def _is_odd(before: Row | None, row: Row, *, may_close: bool) -> bool:
    """Whether nobody who may has brought a row to where it is."""
    was = before.status if before else "open"
    if DECIDED in (was, row.status):
        return was != row.status
    return not may_close and is_terminal(row.status) and not is_terminal(was)


def render_row(row: Row) -> str:
    """A row as a line of the table."""
    cells = (row.id, row.stage, row.round, row.severity, row.status, row.evidence)
    return "| " + " | ".join(re.sub(r"([\\|])", r"\\\1", cell) for cell in cells) + " |"


def replace_row(data: bytes, row: Row) -> bytes:
    """The task.md with `row` in the place of the row of its id; every other line keeps its bytes.

    Raises:
        RefusedError: ORCHESTRATION_LEDGER_INVALID, as for `parse_ledger`.
    """
    parse_ledger(data)
    lines = [line for found in find_sections(read_document(data), LEDGER) for line in _table_rows(found.body)]
    old = next(line for line in lines if _row(line).id == row.id)
    indent = old.text[: len(old.text) - len(old.text.lstrip())]
    return replace_lines(data, {old.number: (indent + render_row(row),)})


def add_row(data: bytes, row: Row) -> bytes:
    """The task.md with `row` as the last row of its ledger; a section without a table gets one.

    Raises:
        RefusedError: ORCHESTRATION_LEDGER_INVALID, as for `parse_ledger`; LEDGER_DOCUMENT_INVALID without a section.
    """
    parse_ledger(data)
    found = find_sections(read_document(data), LEDGER)
    if not found:
        message = f'task.md has no section "## {LEDGER[0]}"; add it, then the row'
        raise RefusedError(ErrorCode.LEDGER_DOCUMENT_INVALID, message)
    section = found[0]
    table = [line for line in section.body if line.visible and _is_table(line)]
    if not table:
        head = ("", "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS), render_row(row))
        return replace_lines(data, {section.heading.number: (section.heading.text, *head)})
    last = table[-1]
    return replace_lines(data, {last.number: (last.text, render_row(row))})


def _table_rows(body: Sequence[Line]) -> list[Line]:
    """The lines below the separator of the section's one table.

    Raises:
        DocumentError: a table with other columns, without a separator, or lines of a table outside of it.
    """
    visible = [line for line in body if line.visible]
    start = next((index for index, line in enumerate(visible) if _is_table(line)), None)
    if start is None:
        return []
    header, *below = visible[start:]
    if _cells(header) != COLUMNS:
        raise _fault(header, "TABLE_UNKNOWN_COLUMN", f"the columns of the ledger are {', '.join(COLUMNS)}")
    if not below or not _is_separator(below[0]):
        raise _fault(header, "TASK_DOCUMENT_INVALID", "no line of dashes below the column names")
    rows = below[1:]
    end = next((index for index, line in enumerate(rows) if not _is_table(line)), len(rows))
    # a line with a bar directly below is a row to every markdown viewer, and one more table hides rows from us
    stray = next((line for line in rows[end:] if _is_table(line) or (line is rows[end] and "|" in line.text)), None)
    if stray:
        raise _fault(stray, "TABLE_AMBIGUOUS", 'a line of a table that is not part of the ledger; rows are "| … |"')
    return rows[:end]


def _is_table(line: Line) -> bool:
    return line.text.lstrip().startswith("|")


def _is_separator(line: Line) -> bool:
    cells = _cells(line) if _is_table(line) else ()
    return len(cells) == len(COLUMNS) and all(_DASHES.fullmatch(cell) for cell in cells)


def _cells(line: Line) -> tuple[str, ...]:
    r"""The trimmed cells between the outer bars; `\|` and `\\` are the only escapes.

    Raises:
        DocumentError: no bar at the end, or a backslash there that escapes nothing.
    """
    cells: list[str] = []
    cell = ""
    text = line.text.strip()
    position = 1
    while position < len(text):
        pair = text[position : position + 2]
        if pair in (r"\|", r"\\"):
            cell += pair
        elif pair[0] == "|":
            cells.append(cell.strip())
            cell = ""
        else:
            cell += pair[0]
        position += 2 if pair in (r"\|", r"\\") else 1
    if cell or not text.endswith("|"):
        raise _fault(line, "TASK_DOCUMENT_INVALID", 'a row that does not end with "|"')
    return tuple(_unescape(line, each) for each in cells)


def _unescape(line: Line, cell: str) -> str:
    trailing = len(cell) - len(cell.rstrip("\\"))
    if trailing % 2:
        raise _fault(line, "TABLE_CELL_INVALID", r"a cell that ends with a single backslash; write it as \\")
    return re.sub(r"\\([\\|])", r"\1", cell)


def _row(line: Line) -> Row:
    cells = _cells(line)
    if len(cells) != len(COLUMNS):
        raise _fault(line, "TASK_DOCUMENT_INVALID", f"{len(cells)} cells; a row has {len(COLUMNS)}")
    return Row(*cells)


def _check_rows(rows: Sequence[tuple[Line, Row]]) -> None:
    """Check the rows one by one; the first fault is the reason."""
    seen: set[str] = set()
    for line, row in rows:
        if row.id in seen:
            raise _fault(line, "LEDGER_DUPLICATE_ID", f'the id "{row.id}" is there twice')
        seen.add(row.id)
        if fault := _fault_of(row):
            raise _fault(line, *fault)


def _fault_of(row: Row) -> tuple[str, str] | None:
    """Reason and words of the first rule that a row breaks."""
    if not _ID.fullmatch(row.id):
        return "LEDGER_ID_INVALID", f'the id "{row.id}"; ids are AN-n, PL-n, CD-n, HD-n or PRC-n'
    if row.kind == "PRC":
        return None
    if row.stage not in _STAGES:
        return "LEDGER_STAGE_INVALID", f'the stage "{row.stage}" of {row.id}; it is one of {", ".join(_STAGES)}'
    if row.status not in _STATUSES:
        return "LEDGER_STATUS_INVALID", f'the status "{row.status}" of {row.id}; it is one of {_listed(_STATUSES)}'
    stage = _STAGE_OF_PREFIX.get(row.kind, row.stage)
    if stage != row.stage:
        return "LEDGER_STAGE_INVALID", f'the stage "{row.stage}" of {row.id}; its prefix means {stage}'
    fault = _decision_fault(row) if row.kind == "HD" else _finding_fault(row)
    if fault is None and row.status != "open" and not row.evidence:
        return "LEDGER_EVIDENCE_INVALID", f"{row.id} is {row.status} without evidence; name a file and an anchor"
    return fault


def _decision_fault(row: Row) -> tuple[str, str] | None:
    statuses = (PENDING, DECIDED)
    if (row.round, row.severity) == ("-", "decision") and row.status in statuses:
        return None
    return (
        "LEDGER_DOCUMENT_INVALID",
        f"{row.id} is a decision: round -, severity decision, status {' or '.join(statuses)}",
    )


def _finding_fault(row: Row) -> tuple[str, str] | None:
    if not _POSITIVE.fullmatch(row.round):
        return "LEDGER_DOCUMENT_INVALID", f'the round "{row.round}" of {row.id}; it is a number from 1'
    if row.severity not in _SEVERITIES:
        return (
            "LEDGER_DOCUMENT_INVALID",
            f'the severity "{row.severity}" of {row.id}; it is one of {_listed(_SEVERITIES)}',
        )
    return None


def _listed(words: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(words))


def _fault(line: Line, reason: str, what: str) -> DocumentError:
    return DocumentError(line.number, f"{reason}: {what}")
