"""The review summary: what is a verdict, what are counts, and what is refused with file and line."""

import re

import pytest

from agent_infra.core.reviews import Counts, Review, Verdict, approves, parse_review
from agent_infra.errors import ErrorCode, RefusedError

VERDICT = "- **Overall Verdict**: Approved\n"
FINDINGS = "- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 0\n"
HEAD = "# Review\n\n- **Review Input**:\n  - `plan.md`\n\n## Review Summary\n\n"


def review(summary: str, *, tail: str = "\n## Findings\n", name: str = "review-plan.md") -> Review:
    return parse_review(f"{HEAD}{summary}{tail}".encode(), name)


def test_a_plain_review_is_read():
    assert review(VERDICT + FINDINGS) == Review(Verdict.APPROVED, Counts(0, 0, 0), 0, "plan.md")


def test_mark_crlf_and_front_matter_are_understood():
    text = f"---\nof: [plan]\n---\n{HEAD}{VERDICT}{FINDINGS}".replace("\n", "\r\n")
    assert approves(parse_review(b"\xef\xbb\xbf" + text.encode(), "review-plan.md"))


def test_a_chinese_review_is_read():
    text = (
        "# 审查\n\n- **审查输入**：\n  - `analysis.md`\n\n## 审查摘要\n\n- **总体结论**：需要修改\n"
        "- **发现（AI 可处理）**：1 阻塞项，2 主要，3 次要 / **人工校验**：4\n"
    )
    found = parse_review(text.encode(), "review-analysis.md")
    assert found == Review(Verdict.CHANGES_REQUESTED, Counts(1, 2, 3), 4, "analysis.md")


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("- **Overall Verdict**: Approved", Verdict.APPROVED),
        ("* **overall verdict**: CHANGES REQUESTED  ", Verdict.CHANGES_REQUESTED),
        ("**Overall Verdict**：rejected", Verdict.REJECTED),
        ("  **Overall Verdict**:通过", Verdict.APPROVED),
        ("- **总体结论**: 拒绝", Verdict.REJECTED),
    ],
)
def test_verdicts_are_read_in_any_case_and_language(line, verdict):
    assert review(f"{line}\n{FINDINGS}").verdict is verdict


@pytest.mark.parametrize(
    ("value", "counts", "manual"),
    [
        (" 0 blocker, 1 major, 2 minor", Counts(0, 1, 2), None),
        ("3 BLOCKERS,4 Majors,5 minors", Counts(3, 4, 5), None),
        ("1 blockers, 1 majors, 1 minors / none", Counts(1, 1, 1), None),
        ("1 blockers, 1 majors, 1 minors / **Manual-validation**：12 (no Docker)", Counts(1, 1, 1), 12),
        ("1 blockers, 1 majors, 1 minors / **Manual validation**: 1٠", Counts(1, 1, 1), None),
        ("1 blockers, 1 majors, 1 minors / **Manual validation**: 0.5", Counts(1, 1, 1), None),
        ("1 blockers, 1 majors, 1 minors / **Manual validation**: 1.", Counts(1, 1, 1), 1),
        ("0 阻塞项，0 主要，9007199254740991 次要", Counts(0, 0, 9007199254740991), None),
    ],
)
def test_counts_and_manual_validations_stand_in_the_findings_line(value, counts, manual):
    found = review(f"{VERDICT}- **Findings (AI-actionable)**:{value}\n")
    assert (found.counts, found.manual_validation) == (counts, manual)


def test_a_manual_count_on_a_line_of_its_own_is_not_read():
    line = FINDINGS.partition(" /")[0]
    assert review(f"{VERDICT}{line}\n- **Manual validation**: 3\n").manual_validation is None


def findings(value: str) -> str:
    return f"{VERDICT}- **Findings (AI-actionable)**: {value}\n"


@pytest.mark.parametrize(
    ("summary", "line", "reason"),
    [
        pytest.param(FINDINGS, 6, "no line", id="no verdict"),
        pytest.param(VERDICT, 6, "no line", id="no findings"),
        pytest.param(VERDICT + VERDICT + FINDINGS, 9, "a second line", id="two verdicts"),
        pytest.param(VERDICT + FINDINGS + FINDINGS, 10, "a second line", id="two lines of findings"),
        pytest.param(
            "- **Overall Verdict**: Approved with comments\n" + FINDINGS, 8, "Approved with comments", id="more words"
        ),
        pytest.param("- **Overall Verdict**: LGTM\n" + FINDINGS, 8, "LGTM", id="other word"),
        pytest.param("- **Overall Verdict**:\n" + FINDINGS, 8, 'the verdict ""', id="no word"),
        pytest.param("- **Overall Verdict:** Approved\n" + FINDINGS, 6, "no line", id="colon inside the bold"),
        pytest.param("  - **Overall Verdict**: Approved\n" + FINDINGS, 6, "no line", id="indented bullet"),
        pytest.param(f"```\n{VERDICT}{FINDINGS}```\n", 6, "no line", id="inside a fence"),
        pytest.param(f"```\n{VERDICT}{FINDINGS}", 6, "no line", id="fence left open"),
        pytest.param(f"# Other\n{VERDICT}{FINDINGS}", 6, "no line", id="below the next H1"),
        pytest.param(
            findings("{unresolved-blockers} blockers, {unresolved-major} majors, {unresolved-minor} minors"),
            9,
            "placeholders",
            id="placeholders",
        ),
        pytest.param(findings("n blockers, 0 majors, 0 minors"), 9, "the findings", id="a letter"),
        pytest.param(findings("-0 blockers, 0 majors, 0 minors"), 9, "the findings", id="negative"),
        pytest.param(findings("٠ blockers, ٠ majors, ٠ minors"), 9, "the findings", id="Arabic digits"),
        pytest.param(findings("0 blockers , 0 majors, 0 minors"), 9, "the findings", id="blank before a comma"),
        pytest.param(findings("0 blockers, 0 majors, 0 minors."), 9, "the findings", id="full stop"),
        pytest.param(findings("0 blockers, 0 majors"), 9, "the findings", id="two numbers"),
        pytest.param(findings("0 majors, 0 blockers, 0 minors"), 9, "the findings", id="other order"),
        pytest.param(findings("9007199254740992 blockers, 0 majors, 0 minors"), 9, "at most", id="too large"),
        pytest.param(findings("9" * 5000 + " blockers, 0 majors, 0 minors"), 9, "the findings", id="5000 digits"),
        pytest.param(
            findings("0 blockers, 0 majors, 0 minors / **Manual validation**: 0 / **Manual validation**: 2"),
            9,
            "two counts",
            id="two manual counts",
        ),
    ],
)
def test_an_unclear_summary_is_refused_with_file_and_line(summary, line, reason):
    with pytest.raises(RefusedError) as caught:
        review(summary)
    assert caught.value.code is ErrorCode.ORCHESTRATION_REVIEW_INVALID
    assert caught.value.message.startswith(f"review-plan.md:{line}: ")
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("data", "place"),
    [
        pytest.param(b"", "1", id="empty"),
        pytest.param(b"# Review\n\nApproved\n", "1", id="no summary"),
        pytest.param(f"{HEAD}{VERDICT}{FINDINGS}\n## Review Summary\n".encode(), "11", id="second summary"),
        pytest.param(f"{HEAD}{VERDICT}{FINDINGS}\n## 审查摘要\n".encode(), "11", id="second summary in Chinese"),
        pytest.param(f"---\na: b\na: c\n---\n{HEAD}{VERDICT}{FINDINGS}".encode(), "3", id="repeated key"),
        pytest.param(f"---\n{HEAD}{VERDICT}{FINDINGS}".encode(), "1", id="front matter never closed"),
        pytest.param(f"{HEAD}{VERDICT}".encode() + b"\xff", "9", id="not UTF-8"),
    ],
)
def test_a_document_that_is_no_review_is_refused_with_file_and_line(data, place):
    with pytest.raises(RefusedError, match=re.escape(f"review-plan.md:{place}: ")) as caught:
        parse_review(data, "review-plan.md")
    assert caught.value.code is ErrorCode.ORCHESTRATION_REVIEW_INVALID


def test_a_fenced_verdict_neither_counts_nor_disturbs():
    """A quoted diff of another review is not this one's verdict."""
    fenced = f"\n```diff\n{VERDICT}## Review Summary\n```\n"
    assert review("- **Overall Verdict**: Rejected\n" + fenced + FINDINGS).verdict is Verdict.REJECTED


@pytest.mark.parametrize(
    ("head", "name", "found"),
    [
        pytest.param("- **Review Input**: `plan-r3.md`\n", "review-plan-r2.md", "plan-r3.md", id="on the line itself"),
        pytest.param(
            "**Review Input**：`code.md` and `plan.md`\n", "review-plan.md", "plan.md", id="of the family of the review"
        ),
        pytest.param(
            "- **Review Input**:\n" + "x\n" * 10 + "`plan.md`\n", "review-plan.md", "plan.md", id="twelfth line"
        ),
        pytest.param(
            "- **Review Input**:\n" + "x\n" * 11 + "`plan.md`\n", "review-plan.md", None, id="thirteenth line"
        ),
        pytest.param("- **Review Input:** `plan.md`\n", "review-plan.md", None, id="colon inside the bold"),
        pytest.param("- **Review Input**: plan.md\n", "review-plan.md", None, id="not quoted"),
        pytest.param(
            "- **Review Input**: `plan-r01.md` `Plan.md` `plan-risks.md`\n", "review-plan.md", None, id="no artifact"
        ),
        pytest.param("- **Review Input**: `../plan.md`\n", "review-plan.md", None, id="a path"),
        pytest.param("- **Review Input**: `review-plan.md`\n", "review-plan.md", None, id="itself"),
        pytest.param("```\n- **Review Input**: `plan.md`\n```\n", "review-plan.md", None, id="inside a fence"),
        pytest.param(
            "- **Review Input**:\n```\n`plan.md`\n```\n`plan-r2.md`\n",
            "review-plan.md",
            "plan-r2.md",
            id="past a fence",
        ),
        pytest.param("`plan.md`\n", "review-plan.md", None, id="no label"),
        pytest.param("- **Review Input**: `plan.md`\n", "notes.md", None, id="other file"),
        pytest.param("- **Review Input**: `plan.md`\n", "plan.md", None, id="no review"),
        pytest.param("- **Review Input**: `plan.md`\n", "review-plan-r01.md", None, id="name that is none"),
    ],
)
def test_a_review_names_what_it_judged(head, name, found):
    text = f"{head}\n## Review Summary\n{VERDICT}{FINDINGS}"
    assert parse_review(text.encode(), name).input == found


def test_only_approved_without_findings_approves():
    """A finding contradicts an approval; nothing else than Approved approves."""
    for verdict in Verdict:
        for counts in (Counts(0, 0, 0), Counts(1, 0, 0), Counts(0, 1, 0), Counts(0, 0, 1)):
            expected = verdict is Verdict.APPROVED and counts.total == 0
            assert approves(Review(verdict, counts, None, None)) is expected


def test_verdicts_have_words_and_an_order():
    assert [verdict.words for verdict in Verdict] == ["Approved", "Changes Requested", "Rejected"]
    assert [verdict.strictness for verdict in Verdict] == [0, 1, 2]
