"""The table of workflow warnings: good rows are read, each bad one is named."""

import pytest

from agent_infra.core.markdown import read_document
from agent_infra.core.warnings import COLUMNS, read_warnings, warning_faults

HEAD = f"## Workflow Warnings\n\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"
GOOD = "| WW-1 | t | Plan | IMPORTANT | C | open | x | look \\| here | do | - | - |"


def test_good_rows_are_read() -> None:
    """With escaped bars; a document without the section has none."""
    (found,) = read_warnings(read_document(f"{HEAD}{GOOD}\n".encode()))
    assert (found.id, found.step, found.severity, found.status, found.message, found.action) == (
        "WW-1",
        "Plan",
        "IMPORTANT",
        "open",
        "look | here",
        "do",
    )
    assert read_warnings(read_document(b"# x\n")) == ()
    assert list(warning_faults(read_document(f"{HEAD}{GOOD}\n".encode()))) == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        pytest.param("| WW-1 | t |", "2 cells", id="cells that are missing"),
        pytest.param(GOOD.replace("WW-1", "WW-0"), "ids are WW-n", id="id"),
        pytest.param(GOOD.replace("IMPORTANT", "LOW"), "severity", id="severity"),
        pytest.param(GOOD.replace("open", "done"), "status", id="status"),
        pytest.param(GOOD.replace("| do |", "| - |"), "names no action", id="open without an action"),
        pytest.param(GOOD.replace("open", "ignored"), "without resolved_at", id="ignored without a reason"),
        pytest.param(f"{GOOD}\n{GOOD}", "twice", id="an id twice"),
    ],
)
def test_a_bad_row_is_named_with_its_line(row: str, words: str) -> None:
    """It is not read as a warning."""
    lines = read_document(f"{HEAD}{row}\n".encode())
    (fault,) = warning_faults(lines)
    assert words in fault.reason
    assert fault.line == 5 + row.count("\n")
    assert len(read_warnings(lines)) == row.count("\n") * 2
