"""What each evidence commit added to a journal, from literals alone."""

from typing import Any

import pytest

from agent_infra.core.chain import links
from agent_infra.errors import CorruptStateError, ErrorCode
from tests.support.states import BEGIN, LATER, NOW, receipt

HEADS = tuple(character * 64 for character in "abcdefghij")


def line(op: str, **parts: Any) -> dict[str, Any]:
    return {"v": 1, "ts": NOW, "op": op, **parts}


EVENTS = (
    line("begin", run=BEGIN),
    line("prepare", receipt=receipt("analysis.md").to_json()),
    line("advance", receipt={"status": "consumed", "childId": "c-1"}, close=True),
    line("prepare", receipt=receipt("code.md").to_json()),
    line("abandon", receipt={"status": "aborted", "abortReason": "it hangs"}, close=True, ts=LATER),
    line("committed", run={"commitAuthorization": {"commit": "f" * 40}}),
    line("complete", run={"commitAuthorization": {"commit": "f" * 40}}),
    line("end", run={"ended": {"at": LATER, "reason": "enough"}}),
)


def test_every_line_belongs_to_one_commit() -> None:
    """A commit has the lines since the one before, the receipts that ended in them, and the reasons given there."""
    found = links(EVENTS, HEADS, [("1" * 40, 3), ("2" * 40, 5), ("3" * 40, 8)])
    assert [(link.first, link.last, link.head[0], link.ops) for link in found] == [
        (1, 3, "c", ("begin", "prepare", "advance")),
        (4, 5, "e", ("prepare", "abandon")),
        (6, 8, "h", ("committed", "complete", "end")),
    ]
    assert [[(step.artifact, step.status) for step in link.steps] for link in found] == [
        [("analysis.md", "consumed")],
        [("code.md", "aborted")],
        [],
    ]
    assert found[0].steps[0].child_id == "c-1"
    assert [link.reasons for link in found] == [(), ("it hangs",), ("enough",)]


def test_a_product_commit_stands_where_it_was_recorded_first() -> None:
    """Later lines that repeat it record nothing new."""
    found = links(EVENTS, HEADS, [("1" * 40, 5), ("2" * 40, 7), ("3" * 40, 8)])
    assert [link.recorded for link in found] == [(), ("f" * 40,), ()]


def test_a_commit_that_added_no_line_adds_nothing() -> None:
    """Evidence may be written again because a document changed."""
    again = links(EVENTS, HEADS, [("1" * 40, 3), ("2" * 40, 3)])[1]
    assert (again.ops, again.steps, again.recorded) == ((), (), ())


def test_what_closes_no_receipt_is_named() -> None:
    """A stranger's journal may say anything."""
    events = (*EVENTS[:1], line("advance", receipt={"id": 7}, close=True))
    with pytest.raises(CorruptStateError, match="line 2") as caught:
        links(events, HEADS, [("1" * 40, 2)])
    assert caught.value.code == ErrorCode.ORCHESTRATION_JOURNAL_INVALID
