"""What only a person may settle, as values: rulings on rows of the ledger, and validations by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from agent_infra.core.facts import changed_rows, check_proof, counted, gather, ledger_fault, proven_rows, read_ledger
from agent_infra.core.ledger import Row, parse_ledger, render_row, replace_row
from agent_infra.core.markdown import DocumentError, replace_lines
from agent_infra.core.replay import replay
from agent_infra.core.replay_rules import RULES, Moment
from agent_infra.core.rulings import Decision, Ruling, decidable, decide_row, read_rulings, said, select_row
from agent_infra.core.run import State
from agent_infra.core.tasks import log_entries
from agent_infra.core.validation import Validation, read_validation, render_validation
from agent_infra.errors import ErrorCode, RefusedError
from tests.support.states import (
    BEGIN,
    NOW,
    TASK_MD,
    consumed,
    file,
    ledger_text,
    receipt,
    review_text,
    situation,
    state,
)

AT = "2026-01-02 08:00:00+00:00"
DECISION = Decision("take A", AT, {"updated_at": AT})
WAITING = "CD-1 code needs-human-decision review-code.md#cd-1"
DECIDED = "CD-1 code human-decided task.md#HDR-1"
RULED = b"\n## Human Rulings\n\n### HDR-4\n\n- **Ledger ID**: AN-1\n- **Result**: older\n"


def rows_of(*rows: str) -> dict[str, Row]:
    return {row.id: row for row in parse_ledger(ledger_text(*rows)).rows}


def ledgered(*rows: str, **changes: Any) -> State:
    """A run whose journal knows these rows."""
    cells = {id_: [row.stage, row.round, row.severity, row.status, row.evidence] for id_, row in rows_of(*rows).items()}
    return state(ledger=cells, ledger_present=True, **changes)


def decided(data: bytes, item: str = "1", decision: Decision = DECISION) -> bytes:
    return decide_row(data, select_row(parse_ledger(data), None, item), decision, is_known=False)[0]


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(RefusedError) as caught:
        call()
    return caught.value.code


# --- which row ---


def test_rows_that_ask_for_a_person_wait_in_the_order_of_the_table() -> None:
    """Open and settled rows don't; in a run, a row that was closed by nobody does."""
    ledger = parse_ledger(ledger_text("CD-9 code closed a.md", "CD-2 code open", WAITING))
    assert [row.id for row in decidable(ledger, None)] == ["CD-1"]
    known = rows_of("CD-9 code open", "CD-2 code open", WAITING)
    assert [row.id for row in decidable(ledger, known)] == ["CD-9", "CD-1"]


@pytest.mark.parametrize("item", ["1", "CD-1", "cd-1"])
def test_a_row_is_named_by_place_or_id(item: str) -> None:
    assert select_row(parse_ledger(ledger_text("CD-2 code open", WAITING)), None, item).id == "CD-1"


@pytest.mark.parametrize(
    ("item", "says"),
    [
        pytest.param("0", "no row 0 among the 1 that wait for a person: CD-1", id="zero"),
        pytest.param("2", "no row 2 among the 1", id="beyond"),
        pytest.param("CD-7", "'CD-7' is no row of the ledger; waiting for a person: CD-1", id="unknown"),
        pytest.param("one", "'one' is no row", id="neither"),
        pytest.param("CD-2", "CD-2 is open, expected needs-human-decision: a reviewer settles it", id="open"),
        pytest.param("CD-3", "CD-3 is closed, expected needs-human-decision: it is settled", id="settled"),
        pytest.param("CD-4", "CD-4 vanished from the ledger; put it back first: | CD-4 | code |", id="vanished"),
    ],
)
def test_what_does_not_wait_for_a_person_is_refused_by_name(item: str, says: str) -> None:
    ledger = parse_ledger(ledger_text(WAITING, "CD-2 code open", "CD-3 code closed a.md"))
    known = rows_of(WAITING, "CD-2 code open", "CD-3 code closed a.md", "CD-4 code open")
    with pytest.raises(RefusedError) as caught:
        select_row(ledger, known, item)
    assert caught.value.code is ErrorCode.DECISION_TARGET_INVALID
    assert says in caught.value.message


def test_with_nothing_waiting_the_refusal_says_so() -> None:
    with pytest.raises(RefusedError, match="among the 0 that wait for a person: none"):
        select_row(parse_ledger(TASK_MD), None, "1")


# --- the document ---


def test_a_ruling_is_row_block_and_line_of_the_log() -> None:
    """The section is made before the log where there is none, and every other line stays."""
    before = ledger_text("CD-2 code open", WAITING) + b"\ntail\n"
    after = decided(before)
    kept = [line for line in before.splitlines() if b"CD-1" not in line and not line.startswith(b"updated_at")]
    there = after.splitlines()
    assert [line for line in there if line in kept and line] == [line for line in kept if line]
    assert parse_ledger(after).rows[1] == rows_of(DECIDED)["CD-1"]
    assert read_rulings(after) == (Ruling(1, "CD-1", "take A"),)
    assert there.index(b"## Human Rulings") < there.index(b"## Activity Log")
    assert [(entry.step, entry.agent, entry.note) for entry in log_entries(after)] == [
        ("Human Decision", "human", "CD-1 decided → HDR-1")
    ]
    assert f"- **Decided At**: {AT}".encode() in there
    assert f"updated_at: {AT}".encode() in there


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(RULED, id="ours"),
        pytest.param(RULED.replace(b"Rulings\n\n", b"Rulings\n"), id="no gap"),
        pytest.param(RULED.replace(b"Human Rulings", "人工裁决".encode()), id="chinese"),
    ],
)
def test_the_newest_ruling_stands_on_top(section: bytes) -> None:
    """Its number is one more than any there, and what was ruled before keeps its bytes."""
    after = decided(ledger_text(WAITING) + section)
    assert read_rulings(after) == (Ruling(5, "CD-1", "take A"), Ruling(4, "AN-1", "older"))
    assert b"\n\n### HDR-4\n\n- **Ledger ID**: AN-1\n- **Result**: older\n" in after


def test_an_empty_section_at_the_end_is_filled() -> None:
    after = decided(ledger_text(WAITING) + b"\n## Human Rulings")
    assert after.endswith(b"## Human Rulings\n\n### HDR-1\n\n- **Ledger ID**: CD-1\n" + AT_LINE)


AT_LINE = f"- **Decided At**: {AT}\n- **Result**: take A".encode()


def test_a_number_that_a_row_names_is_not_used_again() -> None:
    """Though its block is gone."""
    after = decided(ledger_text(WAITING, "CD-2 code human-decided task.md#HDR-7"))
    assert read_rulings(after)[0].number == 8


def test_line_ends_mark_indent_and_escapes_survive() -> None:
    """The line of the row is written anew, with its own indent and line end."""
    data = ledger_text(r"CD-1 code needs-human-decision a\|b").replace(b"| CD-1", b"  | CD-1").replace(b"\n", b"\r\n")
    after = decided(b"\xef\xbb\xbf" + data)
    assert after.startswith(b"\xef\xbb\xbf---\r\n")
    assert b"\n" not in after.replace(b"\r\n", b"")
    assert b"  | CD-1 | code | 1 | major | human-decided | task.md#HDR-1 |\r\n" in after
    row = Row("CD-1", "code", "1", "major", "open", "a|b\\c")
    assert parse_ledger(replace_row(data, row)).rows == (row,)
    assert render_row(row) == r"| CD-1 | code | 1 | major | open | a\|b\\c |"


def test_lines_are_replaced_by_number() -> None:
    assert replace_lines(b"a\r\nb", {1: ("x", "y"), 2: ("z", "")}) == b"x\r\ny\r\nz\r\n"
    assert replace_lines(b"a", {1: ("x", "y")}) == b"x\ny"


def test_the_same_ruling_again_changes_nothing_and_another_one_is_refused() -> None:
    """A row decided without a ruling that can be read is decided all the same."""
    data = decided(ledger_text(WAITING))
    row = parse_ledger(data).rows[0]
    assert decide_row(data, row, DECISION, is_known=True) == (data, row)
    other = Decision("take B", AT, {})
    with pytest.raises(RefusedError, match=r"CD-1 was decided before, otherwise \(HDR-1: take A\)") as caught:
        decide_row(data, row, other, is_known=True)
    assert caught.value.code is ErrorCode.DECISION_CONFLICT
    bare = ledger_text(DECIDED)
    with pytest.raises(RefusedError, match=r"otherwise \(task.md#HDR-1\)"):
        decide_row(bare, parse_ledger(bare).rows[0], DECISION, is_known=True)


def test_a_ruling_that_nobody_proved_is_ruled_over() -> None:
    """Somebody wrote `human-decided` by hand: the person's own words come on top."""
    data = decided(ledger_text(WAITING))
    after, row = decide_row(data, parse_ledger(data).rows[0], Decision("take B", AT, {}), is_known=False)
    assert row.evidence == "task.md#HDR-2"
    assert [each.result for each in read_rulings(after)] == ["take B", "take A"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(ledger_text(WAITING) + RULED + RULED, 'second section "Human Rulings"', id="two sections"),
        pytest.param(ledger_text(WAITING).replace(b"## Activity", b"## Other"), "no visible heading", id="no log"),
    ],
)
def test_a_document_that_can_not_be_edited_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(DocumentError, match=says):
        decided(data)


def test_a_result_that_would_not_read_back_is_refused() -> None:
    data = ledger_text(WAITING)
    assert code_of(lambda: decided(data, "1", Decision("two\nlines", AT, {}))) is ErrorCode.MUTATION_INVALID


def test_text_in_a_fence_or_outside_of_a_block_is_no_ruling() -> None:
    data = TASK_MD + b"\n## Human Rulings\n\n- **Result**: x\n\n```\n### HDR-1\n```\n\n### Notes\n\n### HDR-2\n"
    assert read_rulings(data) == (Ruling(2, "", ""),)


# --- what stays ---


def test_no_step_decides_in_a_person_s_place() -> None:
    """Not even a reviewer: the row is unproven at `complete`, and no receipt names it."""
    there = ledgered(WAITING)
    ledger = read_ledger(ledger_text(DECIDED), there)
    assert code_of(lambda: check_proof(ledger, there, may_close=True)) is ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN
    assert changed_rows(ledger, there, may_close=True) == ()


@pytest.mark.parametrize("status", ["open", "closed", "needs-human-decision"])
def test_what_a_person_decided_stays_decided(status: str) -> None:
    """A later step that changes the row is told so, and the journal goes on knowing the ruling."""
    there = ledgered(DECIDED)
    ledger = read_ledger(ledger_text(f"CD-1 code {status} a.md"), there)
    assert code_of(lambda: check_proof(ledger, there, may_close=True)) is ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN
    assert changed_rows(ledger, there, may_close=True) == ()
    assert [row.id for row in decidable(ledger, proven_rows(there))] == ["CD-1"]


def test_a_receipt_that_counts_does_not_undo_a_ruling_made_meanwhile() -> None:
    """The receipt named the row before the person decided it."""
    cells = [["CD-1", "code", "1", "major", "needs-human-decision", "a.md"], ["CD-2", "code", "1", "minor", "open", ""]]
    pending = receipt("review-code.md", ledger=cells)
    ruled = {"CD-1": ["code", "1", "major", "human-decided", "task.md#HDR-1"]}
    assert counted(pending, ruled) == {"CD-2": ["code", "1", "minor", "open", ""]}
    assert set(counted(pending, {})) == {"CD-1", "CD-2"}
    there = ledgered(DECIDED, pending=pending)
    assert changed_rows(read_ledger(ledger_text(DECIDED), there), there, may_close=True) == ()


def test_the_refusals_name_the_command() -> None:
    """A blocked ledger names the first row that waits; an unproven one the first odd row."""
    blocked = ledger_fault(ledger_text("CD-2 code open", WAITING), None)
    assert blocked
    assert "`agent-infra task decide TASK --item CD-1 --result …`" in blocked.message
    there = ledgered("CD-2 code open", WAITING)
    blocked = ledger_fault(ledger_text("CD-2 code open", WAITING), there)
    assert blocked
    assert "task decide TASK-20260101-120000 --item CD-1" in blocked.message
    unproven = ledger_fault(ledger_text("CD-2 code closed a.md", WAITING), there)
    assert unproven
    assert "task decide TASK-20260101-120000 --item CD-2" in unproven.message


# --- validation by hand ---

LEFT = file("review-code.md", review_text(manual="2", judged="code.md"))
DONE = Validation(LEFT.name, LEFT.sha256, "looked at `it`")
REPORT = render_validation("manual-validation.md", DONE, count=2, at=AT, person="me@x.org")


def manual(*files: str, there: State | None, data: bytes = REPORT) -> int | None:
    reports = [file(name, data) for name in files]
    return gather(situation(file("code.md"), LEFT, *reports, state=there)).manual_validation


def test_a_report_reads_back() -> None:
    assert read_validation(REPORT) == DONE


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(REPORT.replace(b"passed", b"failed"), id="failed"),
        pytest.param(REPORT.replace(b"Verdict", b"Word"), id="no verdict"),
        pytest.param(REPORT + b"- **Verdict**: passed\n", id="two verdicts"),
        pytest.param(b"```\n" + REPORT + b"```\n", id="in a fence"),
        pytest.param(b"\xff", id="not text"),
    ],
)
def test_what_is_no_report_of_success_counts_for_nothing(data: bytes) -> None:
    assert read_validation(data) is None
    assert manual("manual-validation.md", there=None, data=data) == 2


def test_without_a_run_the_report_of_this_very_review_counts() -> None:
    """Another name or other bytes are another review."""
    assert manual(there=None) == 2
    assert manual("manual-validation.md", there=None) == 0
    other = render_validation("x", Validation("review-code-r2.md", LEFT.sha256, "x"), count=1, at=AT, person="x")
    assert manual("manual-validation.md", there=None, data=other) == 2
    assert manual("manual-validation.md", there=None, data=REPORT.replace(LEFT.sha256.encode(), b"0" * 64)) == 2


def test_in_a_run_the_journal_says_which_review_was_validated() -> None:
    """A report that nobody vouched for is nothing there."""
    assert manual("manual-validation.md", there=state()) == 2
    assert manual(there=state(validated={LEFT.name: LEFT.sha256})) == 0
    assert manual(there=state(validated={LEFT.name: "0" * 64, "review-code-r2.md": LEFT.sha256})) == 2


def test_a_person_s_word_stands_out() -> None:
    assert said(ledgered(WAITING)) == ()
    there = ledgered(DECIDED, validated={LEFT.name: LEFT.sha256})
    assert said(there) == (
        "decided by a person: CD-1 (task.md#HDR-1)",
        "validated by a person: what review-code.md left",
    )


# --- the journal told again ---

OPEN = ["code", "1", "major", "needs-human-decision", "a.md"]
RULING = ["code", "1", "major", "human-decided", "task.md#HDR-1"]
RUNNING = {"status": "running"}
BEGUN: dict[str, Any] = {"op": "begin", "ts": NOW, "run": {**BEGIN, "branch": "main"}}


def line(op: str, **parts: Any) -> dict[str, Any]:
    return {"op": op, "ts": NOW, **parts}


@pytest.mark.parametrize(
    ("memo", "says"),
    [
        pytest.param({}, "it decides no row", id="nothing"),
        pytest.param({"ledger": {"CD-1": OPEN}}, "leaves CD-1 undecided", id="not decided"),
        pytest.param({"validated": {}}, "changes validated of the memo", id="something else"),
    ],
)
def test_a_ruling_decides_rows_and_nothing_else(memo: dict[str, Any], says: str) -> None:
    assert replay([BEGUN, line("decide", memo={"ledger": {"CD-1": RULING}})])
    with pytest.raises(RefusedError, match=says) as caught:
        replay([BEGUN, line("decide", memo=memo)])
    assert caught.value.code is ErrorCode.VERIFY_TRANSITION_INVALID


VALIDATED = {LEFT.name: LEFT.sha256}
HANDED_IN = Moment(RUNNING, ended=(consumed(LEFT),))


@pytest.mark.parametrize(
    ("before", "told", "says"),
    [
        pytest.param(HANDED_IN, {}, "it validates no review", id="nothing"),
        pytest.param(Moment(RUNNING), VALIDATED, "nobody handed in", id="no such review"),
        pytest.param(HANDED_IN, {LEFT.name: "0" * 64}, "nobody handed in", id="other bytes"),
        pytest.param(Moment(RUNNING, memo={"found": VALIDATED}), VALIDATED, "nobody handed in", id="not adopted"),
        pytest.param(Moment(RUNNING, receipt()), VALIDATED, "a step is pending", id="pending"),
        pytest.param(Moment({"status": "completed"}), VALIDATED, "the run is over", id="over"),
    ],
)
def test_only_a_review_that_was_handed_in_is_validated(before: Moment, told: dict[str, str], says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        RULES["validated"].check(before, before, line("validated", memo={"validated": told}))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(HANDED_IN, id="by its receipt"),
        pytest.param(Moment(RUNNING, memo={"adoptReviews": True, "found": VALIDATED}), id="adopted"),
    ],
)
def test_a_review_of_the_run_can_be_validated(before: Moment) -> None:
    RULES["validated"].check(before, before, line("validated", memo={"validated": VALIDATED}))


def test_a_receipt_that_counts_decides_nothing() -> None:
    """A line that says so was not written by us, whoever the receipt's role is."""
    ledger = [["CD-1", *RULING]]
    pending = receipt("review-code.md", status="sealed", ledger=ledger, sealed_at=NOW)
    before = Moment(RUNNING, pending)
    after = Moment({**RUNNING, "stepCount": 1}, None, (pending.evolve(status="consumed"),))
    with pytest.raises(RefusedError, match="the reviewer decides CD-1 of the ledger, which only a person may"):
        RULES["advance"].check(before, after, line("advance", memo={"ledger": {"CD-1": RULING}}))
