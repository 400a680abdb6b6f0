"""The activity log as steps: starts and ends are paired, first in, first out."""

import pytest

from agent_infra.core.activity import LoggedStep, moment, pair_steps
from agent_infra.core.tasks import LogEntry

NINE, TEN, NOON = "2026-01-01 09:00:00+00:00", "2026-01-01 10:00:00+00:00", "2026-01-01 12:00:00+00:00"


def entry(at: str, step: str, note: str = "n") -> LogEntry:
    return LogEntry(at, step, "claude", note)


def test_a_start_and_its_end_are_one_step() -> None:
    """The note is that of the end."""
    steps = pair_steps([entry(NINE, "Plan Task (Round 1) [started]", "started"), entry(TEN, "Plan Task (Round 1)")])
    assert steps == (LoggedStep("Plan Task (Round 1)", "claude", NINE, TEN, "n"),)


def test_a_start_without_an_end_is_under_way() -> None:
    """And an end without a start is a row of its own."""
    steps = pair_steps([entry(NINE, "Code Task (Round 1)"), entry(TEN, "Commit [started]", "started")])
    assert [(step.step, step.started, step.done, step.is_open) for step in steps] == [
        ("Code Task (Round 1)", None, NINE, False),
        ("Commit", TEN, None, True),
    ]


def test_two_starts_of_one_step_end_in_their_order() -> None:
    """First in, first out."""
    steps = pair_steps([entry(NINE, "A [started]"), entry(TEN, "A [started]"), entry(NOON, "A")])
    assert [(step.started, step.done) for step in steps] == [(NINE, NOON), (TEN, None)]


def test_an_aborted_attempt_ends_its_own_start() -> None:
    """The note says which one."""
    first, second = "started; attempt=aaaaaaaa", "started; attempt=bbbbbbbb"
    steps = pair_steps(
        [
            entry(NINE, "Commit [started]", first),
            entry(TEN, "Commit [started]", second),
            entry(NOON, "Commit [aborted]", "attempt=bbbbbbbb"),
        ]
    )
    assert [(step.started, step.done, step.aborted) for step in steps] == [(NINE, None, False), (TEN, NOON, True)]


def test_lines_are_sorted_by_time_and_not_by_text() -> None:
    """Other offsets are compared as the moments that they are; ties keep the order of the file."""
    east = "2026-01-01 11:30:00+05:30"  # six in the morning, UTC
    steps = pair_steps([entry(NINE, "B"), entry(east, "A"), entry(NINE, "C")])
    assert [step.step for step in steps] == ["A", "B", "C"]


@pytest.mark.parametrize("at", ["2026-02-31 00:00:00+00:00", "2026-01-01 25:00:00+00:00"])
def test_a_stamp_that_is_no_date_is_the_oldest(at: str) -> None:
    """It is shown all the same."""
    assert moment(at) < moment("0001-01-02 00:00:00+00:00")
    assert moment("2026-01-01T09:00:00") == moment(NINE)
