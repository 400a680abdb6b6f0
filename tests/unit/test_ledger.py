"""The findings ledger: its table, its rules, and what it lets through."""

import pytest

from agent_infra.core.ledger import (
    GateResult,
    Ledger,
    Row,
    changed_rows,
    gate,
    is_terminal,
    parse_ledger,
    unproven,
    unresolved_counts,
)
from agent_infra.core.reviews import Counts
from agent_infra.errors import ErrorCode, RefusedError

TOP = "---\nid: x\n---\n# T\n\n## Review Disagreement Ledger\n\n"
HEAD = "| id | stage | round | severity | status | evidence |\n|---|:---|---:|:---:|---|---|\n"
GOOD = "| CD-1 | code | 1 | minor | closed | review-code.md#cd-1 |\n"


def ledger(rows: str, *, tail: str = "\n## Activity Log\n") -> Ledger:
    return parse_ledger(f"{TOP}{HEAD}{rows}{tail}".encode())


def row(name: str, **changes: str) -> Row:
    values = {"stage": "code", "round": "1", "severity": "minor", "status": "open", "evidence": ""} | changes
    return Row(name, **values)


def test_rows_are_read_in_order():
    found = ledger(
        GOOD + "| HD-1 | plan | - | decision | human-decided | task.md#HDR-1 |\n|PL-12|plan|3|blocker|open||\n"
    )
    assert found.present
    assert found.rows == (
        row("CD-1", status="closed", evidence="review-code.md#cd-1"),
        row("HD-1", stage="plan", round="-", severity="decision", status="human-decided", evidence="task.md#HDR-1"),
        row("PL-12", stage="plan", round="3", severity="blocker"),
    )


@pytest.mark.parametrize(
    ("text", "present"),
    [
        pytest.param("# T\n", False, id="no section"),
        pytest.param("```\n## Review Disagreement Ledger\n```\n", False, id="section inside a fence"),
        pytest.param("## Review Disagreement Ledger\n\nNone so far.\n", True, id="section without a table"),
        pytest.param(f"## 审查分歧账本\n\n```\n{HEAD}{GOOD}```\n", True, id="table inside a fence"),
        pytest.param(f"{TOP}{HEAD}", True, id="table without rows"),
    ],
)
def test_no_rows_is_not_the_same_as_no_section(text, present):
    assert parse_ledger(text.encode()) == Ledger((), present)


def test_crlf_mark_and_indent_are_understood():
    text = f"{TOP}{HEAD}  {GOOD}".replace("\n", "\r\n")
    assert len(parse_ledger(b"\xef\xbb\xbf" + text.encode()).rows) == 1


@pytest.mark.parametrize(
    ("cell", "evidence"),
    [
        (r"a \| b", "a | b"),
        (r"a \\", "a \\"),
        (r"\\\| c", "\\| c"),
        (r"C:\temp", r"C:\temp"),
        ("中文 `x`", "中文 `x`"),
    ],
)
def test_bars_and_backslashes_are_escaped(cell, evidence):
    (found,) = ledger(f"| CD-1 | code | 1 | minor | closed | {cell} |\n").rows
    assert found.evidence == evidence


@pytest.mark.parametrize(
    ("rows", "line", "reason"),
    [
        pytest.param(GOOD + GOOD, 11, "LEDGER_DUPLICATE_ID", id="repeated id"),
        pytest.param("| PRC-1 | x | - | - | y | z |\n" * 2, 11, "LEDGER_DUPLICATE_ID", id="repeated exemption"),
        pytest.param("| XX-1 | code | 1 | minor | open | |\n", 10, "LEDGER_ID_INVALID", id="unknown prefix"),
        pytest.param("| CD-01 | code | 1 | minor | open | |\n", 10, "LEDGER_ID_INVALID", id="leading zero"),
        pytest.param("| CD-0 | code | 1 | minor | open | |\n", 10, "LEDGER_ID_INVALID", id="number zero"),
        pytest.param("| cd-1 | code | 1 | minor | open | |\n", 10, "LEDGER_ID_INVALID", id="lower case"),
        pytest.param("| CD-٣ | code | 1 | minor | open | |\n", 10, "LEDGER_ID_INVALID", id="Arabic digit"),
        pytest.param("| | code | 1 | minor | open | |\n", 10, "LEDGER_ID_INVALID", id="no id"),
        pytest.param("| CD-1 | review-code | 1 | minor | open | |\n", 10, "LEDGER_STAGE_INVALID", id="unknown stage"),
        pytest.param(
            "| CD-1 | plan | 1 | minor | open | |\n", 10, "LEDGER_STAGE_INVALID", id="stage of another prefix"
        ),
        pytest.param("| CD-1 | plan | 0 | huge | done | |\n", 10, "LEDGER_STATUS_INVALID", id="status before prefix"),
        pytest.param("| CD-1 | code | 1 | minor | done | x |\n", 10, "LEDGER_STATUS_INVALID", id="unknown status"),
        pytest.param(
            "| CD-1 | code | 1 | minor | Closed | x |\n", 10, "LEDGER_STATUS_INVALID", id="status in capitals"
        ),
        pytest.param("| CD-1 | code | 0 | minor | open | |\n", 10, "LEDGER_DOCUMENT_INVALID", id="round zero"),
        pytest.param(
            "| CD-1 | code | - | minor | open | |\n", 10, "LEDGER_DOCUMENT_INVALID", id="finding without a round"
        ),
        pytest.param("| CD-1 | code | 1 | huge | open | |\n", 10, "LEDGER_DOCUMENT_INVALID", id="unknown severity"),
        pytest.param(
            "| CD-1 | code | 1 | decision | open | |\n", 10, "LEDGER_DOCUMENT_INVALID", id="finding as decision"
        ),
        pytest.param(
            "| HD-1 | code | 1 | decision | human-decided | x |\n",
            10,
            "LEDGER_DOCUMENT_INVALID",
            id="decision with a round",
        ),
        pytest.param(
            "| HD-1 | code | - | minor | human-decided | x |\n",
            10,
            "LEDGER_DOCUMENT_INVALID",
            id="decision with a severity",
        ),
        pytest.param(
            "| HD-1 | code | - | decision | closed | x |\n", 10, "LEDGER_DOCUMENT_INVALID", id="closed decision"
        ),
        pytest.param(
            "| CD-1 | code | 1 | minor | closed | |\n", 10, "LEDGER_EVIDENCE_INVALID", id="closed without evidence"
        ),
        pytest.param(
            "| HD-1 | code | - | decision | needs-human-decision | |\n",
            10,
            "LEDGER_EVIDENCE_INVALID",
            id="decision without evidence",
        ),
        pytest.param("| CD-1 | code | 1 | minor | closed |\n", 10, "5 cells", id="missing cell"),
        pytest.param("| CD-1 | code | 1 | minor | closed | a | b |\n", 10, "7 cells", id="bar not escaped"),
        pytest.param("| CD-1 | code | 1 | minor | closed | x\n", 10, "does not end", id="no bar at the end"),
        pytest.param("| CD-1 | code | 1 | minor | closed | x \\|\n", 10, "does not end", id="last bar escaped"),
        pytest.param(
            "| CD-1 | code | 1 | minor | closed | x\\ |\n", 10, "TABLE_CELL_INVALID", id="single backslash at the end"
        ),
        pytest.param("CD-1 | code | 1 | blocker | open | x\n", 10, "TABLE_AMBIGUOUS", id="row without outer bars"),
        pytest.param(GOOD + "\n| CD-2 | code | 1 | blocker | open | |\n", 12, "TABLE_AMBIGUOUS", id="row after a gap"),
        pytest.param(GOOD + "\n" + HEAD + GOOD, 12, "TABLE_AMBIGUOUS", id="second table"),
        pytest.param(GOOD + "\n## Review Disagreement Ledger\n", 12, "a second ledger section", id="second section"),
        pytest.param(GOOD + "\n## 审查分歧账本\n", 12, "a second ledger section", id="second section in Chinese"),
    ],
)
def test_a_faulty_ledger_is_refused_with_line_and_reason(rows, line, reason):
    with pytest.raises(RefusedError) as caught:
        ledger(rows)
    assert caught.value.code is ErrorCode.ORCHESTRATION_LEDGER_INVALID
    assert caught.value.message.startswith(f"task.md:{line}: ")
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("table", "line", "reason"),
    [
        pytest.param("| id | stage |\n|---|---|\n", 8, "TABLE_UNKNOWN_COLUMN", id="other columns"),
        pytest.param(HEAD.replace("id | stage", "stage | id"), 8, "TABLE_UNKNOWN_COLUMN", id="other order"),
        pytest.param(HEAD.partition("\n")[0], 8, "no line of dashes", id="header alone"),
        pytest.param(HEAD.replace("|---|---|", "|--|---|"), 8, "no line of dashes", id="two dashes"),
        pytest.param(HEAD.replace("|:---:", ""), 8, "no line of dashes", id="too few dashes"),
        pytest.param(HEAD.replace("\n|-", "\n\n|-"), 8, "no line of dashes", id="gap below the header"),
        pytest.param("|\n", 8, "TABLE_UNKNOWN_COLUMN", id="a bar alone"),
    ],
)
def test_a_faulty_table_is_refused_with_line_and_reason(table, line, reason):
    with pytest.raises(RefusedError) as caught:
        parse_ledger(f"{TOP}{table}".encode())
    assert caught.value.code is ErrorCode.ORCHESTRATION_LEDGER_INVALID
    assert caught.value.message.startswith(f"task.md:{line}: ")
    assert reason in caught.value.message


def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(RefusedError, match=r"task\.md:2: byte 2") as caught:
        parse_ledger(b"a\n\xff")
    assert caught.value.code is ErrorCode.ORCHESTRATION_LEDGER_INVALID


def test_words_around_the_table_are_free():
    assert len(ledger(GOOD + "\nDecided by a | b, see above.\n").rows) == 1
    assert len(ledger(GOOD + "No further findings.\n").rows) == 1


@pytest.mark.parametrize("status", ["confirmed", "closed", "human-decided"])
def test_resolved_rows_pass_the_gate(status):
    assert is_terminal(status)
    assert gate(Ledger((row("CD-1", status=status),), present=True)) == GateResult((), can_advance=True)


@pytest.mark.parametrize("status", ["open", "accepted", "adjusted", "refuted", "cannot-judge", "needs-human-decision"])
@pytest.mark.parametrize("name", ["AN-1", "PL-1", "CD-1"])
def test_an_unresolved_row_of_any_stage_holds_the_gate(status, name):
    found = row(name, status=status)
    assert gate(Ledger((row("CD-9", status="closed"), found), present=True)) == GateResult((found,), can_advance=False)


def test_an_empty_ledger_passes_the_gate():
    assert gate(Ledger((), present=False)).can_advance


def test_only_a_real_exemption_belongs_to_no_stage():
    exempt = row("PRC-1", stage="post-review-commit", status="open")
    fake = row("PRC-2", stage="code", status="open")
    decision = row("HD-1", stage="post-review-commit", status="needs-human-decision")
    assert gate(Ledger((exempt, fake, decision), present=True)).open_rows == (fake, decision)


def test_unresolved_counts_are_those_of_one_stage_without_decisions():
    rows = (
        row("CD-1", severity="blocker"),
        row("CD-2", severity="major", status="accepted"),
        row("CD-3", severity="major", status="needs-human-decision"),
        row("CD-4", severity="minor", status="closed"),
        row("HD-1", severity="decision", status="needs-human-decision"),
        row("PRC-1", status="open"),
        row("PL-1", stage="plan"),
    )
    found = Ledger(rows, present=True)
    assert unresolved_counts(found, "code") == Counts(1, 2, 0)
    assert unresolved_counts(found, "plan") == Counts(0, 0, 1)
    assert unresolved_counts(found, "analysis") == Counts(0, 0, 0)


def test_changed_rows_are_new_or_different_ones():
    old, other, new = row("CD-1"), row("CD-2"), row("CD-3")
    changed = row("CD-2", status="accepted", evidence="x")
    assert changed_rows({"CD-1": old, "CD-2": other}, Ledger((old, changed, new), present=True)) == (changed, new)


CLOSED = row("CD-1", status="closed", evidence="x")


@pytest.mark.parametrize(
    ("known", "rows", "may_close", "names"),
    [
        pytest.param([row("CD-1")], [], True, ("CD-1",), id="a row vanished"),
        pytest.param([CLOSED], [], False, ("CD-1",), id="a closed row vanished"),
        pytest.param([row("CD-1")], [CLOSED], False, ("CD-1",), id="closed by nobody"),
        pytest.param([row("CD-1")], [CLOSED], True, (), id="closed by a reviewer"),
        pytest.param([], [CLOSED], False, ("CD-1",), id="born closed"),
        pytest.param([], [row("CD-1")], False, (), id="a new open row"),
        pytest.param([CLOSED], [CLOSED], False, (), id="closed before"),
        pytest.param([CLOSED], [row("CD-1")], False, (), id="opened again"),
        pytest.param([row("CD-1"), row("CD-2")], [CLOSED], False, ("CD-2", "CD-1"), id="both faults"),
    ],
)
def test_a_row_is_proven_only_by_a_reviewer_or_a_person(known, rows, may_close, names):
    """Rows do not vanish, and they do not become terminal while an executor works."""
    found = unproven({each.id: each for each in known}, Ledger(tuple(rows), present=True), may_close=may_close)
    assert found == names
