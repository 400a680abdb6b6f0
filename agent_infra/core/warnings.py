"""The table of workflow warnings in task.md: what somebody should look at, and what became of it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent_infra.core.markdown import DocumentError, Line, find_sections

WARNINGS = ("Workflow Warnings", "工作流告警")
COLUMNS = (
    "id",
    "time",
    "step",
    "severity",
    "code",
    "status",
    "target",
    "message",
    "action",
    "resolved_at",
    "resolution",
)
_ID = re.compile(r"WW-[1-9][0-9]{0,8}")
_BAR = re.compile(r"(?<!\\)(?:\\\\)*\|")
_DASHES = re.compile(r":?-{3,}:?")
_SEVERITIES, _STATUSES = ("IMPORTANT", "ACTION_REQUIRED"), ("open", "resolved", "ignored")


@dataclass(frozen=True, slots=True)
class Warned:
    """One row that is well-formed."""

    id: str
    step: str
    severity: str
    status: str
    message: str
    action: str


def read_warnings(lines: Sequence[Line]) -> tuple[Warned, ...]:
    """The well-formed rows; the others are `warning_faults`' business."""
    rows = (cells for _, cells in _rows(lines) if not _fault(cells))
    return tuple(Warned(c[0], c[2], c[3], c[5], c[7], c[8]) for c in rows)


def warning_faults(lines: Sequence[Line]) -> Iterator[DocumentError]:
    """What is wrong with the rows, line by line."""
    seen: set[str] = set()
    for line, cells in _rows(lines):
        fault = _fault(cells)
        if not fault and cells[0] in seen:
            fault = f'the id "{cells[0]}" is there twice'
        if fault:
            yield DocumentError(line.number, f"workflow warnings: {fault}")
        seen.add(cells[0])


def _rows(lines: Sequence[Line]) -> Iterator[tuple[Line, tuple[str, ...]]]:
    """The lines of the table below its column names and dashes."""
    for section in find_sections(lines, WARNINGS)[:1]:
        table = [line for line in section.body if line.visible and line.text.lstrip().startswith("|")]
        for line in table:
            cells = tuple(cell.strip().replace("\\|", "|") for cell in _split(line.text))
            if cells != COLUMNS and not all(_DASHES.fullmatch(cell) for cell in cells):
                yield line, cells


def _split(text: str) -> list[str]:
    bars = [match.end() for match in _BAR.finditer(text)]
    return [text[start : end - 1] for start, end in pairwise(bars)]


def _fault(cells: Sequence[str]) -> str:
    """The first rule that a row breaks; empty where it breaks none."""
    if len(cells) != len(COLUMNS):
        return f"{len(cells)} cells; a row has {len(COLUMNS)}: {', '.join(COLUMNS)}"
    row = dict(zip(COLUMNS, cells, strict=True))
    if not _ID.fullmatch(row["id"]):
        return f'the id "{row["id"]}"; ids are WW-n'
    if row["severity"] not in _SEVERITIES:
        return f'the severity "{row["severity"]}" of {row["id"]}; it is one of {", ".join(_SEVERITIES)}'
    if row["status"] not in _STATUSES:
        return f'the status "{row["status"]}" of {row["id"]}; it is one of {", ".join(_STATUSES)}'
    if row["status"] == "open" and row["action"] in ("", "-"):
        return f"{row['id']} is open and names no action"
    if row["status"] != "open" and any(row[name] in ("", "-") for name in ("resolved_at", "resolution")):
        return f"{row['id']} is {row['status']} without resolved_at and resolution"
    return ""
