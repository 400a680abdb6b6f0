"""docs/security.md names what `verify` can say, and nothing that it can't."""

import re
from pathlib import Path

from agent_infra.core.receipts import Origin
from agent_infra.errors import ErrorCode

TEXT = (Path(__file__).parents[2] / "docs/security.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    below = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in below.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_table_of_tampering_has_every_code_of_verify_and_no_other() -> None:
    """A code that comes or goes shows in the table."""
    named = [code for row in table("Tampering, and what finds it") for code in re.findall(r"`([A-Z_]{8,})`", row[-1])]
    assert set(named) <= set(ErrorCode)
    assert {code for code in ErrorCode if code.startswith("VERIFY_")} <= set(named)


def test_every_row_says_how_it_is_found() -> None:
    """By a code, or by the verdict that names it."""
    for what, how, anchor, code in table("Tampering, and what finds it"):
        assert what
        assert how
        assert anchor in {"", "trailer", "evidence"}
        assert code or "`unreceipted`" in how, what


def test_every_origin_is_weighed() -> None:
    """Who reads a receipt knows what its origin is worth."""
    assert [row[0].strip("`") for row in table("Where a receipt comes from")] == [str(origin) for origin in Origin]
