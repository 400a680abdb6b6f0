"""What may become of a row of the ledger, by whom."""

from itertools import product

import pytest

from agent_infra.core.findings import (
    FINDING,
    RESPONSES,
    REVIEWS,
    Finding,
    Move,
    add_decision,
    add_finding,
    answer,
)
from agent_infra.core.ledger import Ledger, Row, add_row, parse_ledger
from agent_infra.errors import ErrorCode, RefusedError

PENDING = "needs-human-decision"


def row(status="open", *, round_="1", severity="major", id_="CD-1"):
    return Row(id_, "code", round_, severity, status, "" if status == "open" else "code-r2.md#CD-1")


def moved(by, before, status, *, round_=2, evidence="x.md#CD-1"):
    return answer(Move(before, status, round_, evidence), by=by)


# what the reference's table says, where no guard speaks
REVIEWED = {
    "accepted": {"closed", "open", PENDING},
    "adjusted": {"confirmed", "open", PENDING},
    "refuted": {"confirmed", "open", PENDING},
    "cannot-judge": {"open", PENDING},
}


@pytest.mark.parametrize(("before", "after"), list(product(FINDING.states, RESPONSES)))
def test_an_executor_answers_what_is_open(before, after):
    """And nothing else; the row's round becomes that of the answer."""
    if before == "open":
        found = moved("executor", row(), after)
        assert (found.status, found.round, found.evidence) == (after, "2", "x.md#CD-1")
        return
    with pytest.raises(RefusedError) as refused:
        moved("executor", row(before), after)
    assert refused.value.code == ErrorCode.LEDGER_TRANSITION_INVALID


@pytest.mark.parametrize(("before", "after"), list(product(FINDING.states, REVIEWS)))
def test_a_reviewer_settles_what_was_answered(before, after):
    """Every pair of states against the reference's table; an open one is another test's."""
    if before == "open":
        return
    if after in REVIEWED.get(before, ()):
        assert moved("reviewer", row(before, round_="2"), after).status == after
        return
    with pytest.raises(RefusedError) as refused:
        moved("reviewer", row(before, round_="2"), after)
    assert refused.value.code == ErrorCode.LEDGER_TRANSITION_INVALID


@pytest.mark.parametrize(
    ("before", "by", "status", "round_", "words"),
    [
        pytest.param(row(), "executor", "accepted", 3, "of round 2, not 3", id="an answer of a later round"),
        pytest.param(row(), "executor", "accepted", 1, "of round 2, not 1", id="an answer of the same round"),
        pytest.param(row(), "reviewer", "closed", 1, "only a minor finding", id="a major closed unanswered"),
        pytest.param(row(severity="minor"), "reviewer", "closed", 2, "only a minor", id="a minor of another round"),
        pytest.param(row(), "reviewer", PENDING, 2, "not answered yet", id="a person asked too early"),
        pytest.param(row("refuted", round_="3"), "reviewer", "open", 3, "limit is 3", id="once more at the limit"),
        pytest.param(Row("HD-1", "code", "-", "decision", PENDING, "x"), "reviewer", "closed", 1, "no find", id="HD"),
    ],
)
def test_what_a_guard_refuses(before, by, status, round_, words):
    """The message says what was found and what would do."""
    with pytest.raises(RefusedError, match=words) as refused:
        moved(by, before, status, round_=round_)
    assert refused.value.code == ErrorCode.LEDGER_TRANSITION_INVALID


def test_what_the_guards_allow():
    """A minor mended in its own round is closed; at the limit an open row goes to a person."""
    assert moved("reviewer", row(severity="minor"), "closed", round_=1).status == "closed"
    assert moved("reviewer", row(round_="3"), PENDING, round_=3).status == PENDING


def test_the_same_words_again_change_nothing():
    """A repeat is no move."""
    once = moved("executor", row(), "accepted")
    assert moved("executor", once, "accepted", round_=2) == once


@pytest.mark.parametrize("evidence", ["", "  ", "two\nlines"])
def test_an_answer_shows_something(evidence):
    """One line of evidence."""
    with pytest.raises(RefusedError) as refused:
        moved("executor", row(), "accepted", evidence=evidence)
    assert refused.value.code == ErrorCode.LEDGER_EVIDENCE_INVALID


def ledger(*rows):
    return Ledger(rows, present=True)


def test_a_finding_gets_the_next_id_of_its_stage():
    """Open, of the review's round, at its anchor in the review."""
    there = ledger(row(), Row("PL-7", "plan", "1", "minor", "open", ""))
    found = add_finding(there, Finding("review-code-r2.md", "minor"))
    assert found == Row("CD-2", "code", "2", "minor", "open", "review-code-r2.md#CD-2")
    assert add_finding(there, Finding("review-plan.md", "major", anchor="f1")).evidence == "review-plan.md#f1"
    assert add_finding(ledger(), Finding("review-analysis.md", "blocker")).id == "AN-1"


def test_the_same_finding_again_is_no_new_one():
    """Neither before nor after it was answered; another one under that id is a conflict."""
    first = add_finding(ledger(), Finding("review-code.md", "major"))
    assert add_finding(ledger(first), Finding("review-code.md", "major", "CD-1")) == first
    answered = moved("executor", first, "accepted", round_=2)
    later = Finding("review-code-r2.md", "major", "CD-1", "CD-1")
    assert add_finding(ledger(answered), later) == answered
    for other in (Finding("review-code.md", "minor", "CD-1"), Finding("review-code.md", "major", "CD-3")):
        with pytest.raises(RefusedError) as refused:
            add_finding(ledger(first), other)
        assert refused.value.code == ErrorCode.LEDGER_IDENTITY_CONFLICT


@pytest.mark.parametrize(
    "finding",
    [
        Finding("code.md", "major"),
        Finding("../review-code.md", "major"),
        Finding("review-code-r01.md", "major"),
        Finding("review-code.md", "major", anchor="a b"),
        Finding("review-code.md", "major", anchor="a#b"),
    ],
)
def test_a_finding_stands_in_a_review(finding):
    """In a canonical file, at an anchor without blanks."""
    with pytest.raises(RefusedError) as refused:
        add_finding(ledger(), finding)
    assert refused.value.code == ErrorCode.LEDGER_EVIDENCE_INVALID


def test_a_question_for_a_person():
    """The next number over all stages; told of in an artifact of its stage."""
    there = ledger(Row("HD-4", "plan", "-", "decision", PENDING, "plan.md#HD-4"))
    assert add_decision(there, "code", "code.md") == Row("HD-5", "code", "-", "decision", PENDING, "code.md#HD-5")
    with pytest.raises(RefusedError) as refused:
        add_decision(there, "code", "plan.md")
    assert refused.value.code == ErrorCode.LEDGER_EVIDENCE_INVALID


HEAD = b"| id | stage | round | severity | status | evidence |\n|---|---|---|---|---|---|\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"", HEAD, id="no table yet"),
        pytest.param(HEAD, HEAD, id="an empty table"),
        pytest.param(HEAD + b"| CD-9 | code | 1 | minor | open |  |\n", None, id="rows"),
    ],
)
def test_a_row_goes_to_the_end_of_the_table(before, after):
    """Every other byte stays; what comes out can be read."""
    new = Row("CD-10", "code", "1", "major", "open", "a|b")
    text = b"# T\n\n## Review Disagreement Ledger\n\n" + before + b"\n## Activity Log\n"
    edited = add_row(text, new)
    assert parse_ledger(edited).rows[-1] == new
    assert edited.startswith(b"# T\n\n## Review Disagreement Ledger\n")
    assert edited.endswith(b"\n## Activity Log\n")
    assert (after or before) in edited


def test_a_document_without_a_ledger_is_named():
    """Nothing is guessed about where it belongs."""
    with pytest.raises(RefusedError) as refused:
        add_row(b"# T\n", row())
    assert refused.value.code == ErrorCode.LEDGER_DOCUMENT_INVALID
