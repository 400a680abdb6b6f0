"""`task review finish`, and what a reviewer's brief carries."""

import json

import pytest

from tests.support.world import TASK, Answer, World

ROW = "| CD-1 | code | 1 | major | open | review-code.md#CD-1 |"
TEMPLATE = """# Code Review

- **Review Input**:
  - `code.md`

## Review Summary

- **Overall Verdict**: Changes Requested
- **Findings (AI-actionable)**: {unresolved-blockers} blockers, {unresolved-major} majors, {unresolved-minor} minors / **Manual validation**: 2

## Findings

- **Overall Verdict**: said elsewhere, left alone
"""  # noqa: E501


@pytest.fixture
def judging(world: World) -> World:
    """A code review is pending, its file is the template."""
    world.begun("--flow", "streamlined")
    world.to("review-code")
    world.activated()
    (world.folder() / "review-code.md").write_text(TEMPLATE)
    return world


def finish(world: World, *args: str, code: str = "") -> Answer:
    answer = world.call("task", "review", "finish", TASK, *args)
    assert answer.exit == (1 if code else 0), answer
    assert code in answer.err
    return answer


def summary(world: World) -> list[str]:
    return (world.folder() / "review-code.md").read_text().splitlines()[7:9]


def test_the_counts_come_from_the_ledger(judging: World) -> None:
    """The unresolved rows of the stage; the verdict follows unless one is given; only two lines move."""
    finish(judging)
    assert summary(judging) == [
        "- **Overall Verdict**: Approved",
        "- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 2",
    ]
    judging.row(ROW)
    said = json.loads(finish(judging, "--manual", "0", "--json").out)
    assert (said["verdict"], said["counts"]["major"], said["changed"]) == ("changes-requested", 1, True)
    assert "0 blockers, 1 majors, 0 minors / **Manual validation**: 0" in summary(judging)[1]
    assert json.loads(finish(judging, "--json").out)["changed"] is False
    finish(judging, "--verdict", "rejected")
    assert summary(judging)[0] == "- **Overall Verdict**: Rejected"
    assert "said elsewhere, left alone" in (judging.folder() / "review-code.md").read_text()


def test_what_is_finished_can_be_completed(judging: World) -> None:
    """The summary that is written is the one that `complete` takes."""
    judging.row(ROW)
    finish(judging)
    assert judging.ok("complete", "--agent", "claude")["run"]["pendingDelegation"]["status"] == "stage-completed"


def test_what_can_not_be_finished(judging: World) -> None:
    """An approval over open findings, a file without a summary, no review at all."""
    judging.row(ROW)
    before = (judging.folder() / "review-code.md").read_bytes()
    finish(judging, "--verdict", "approved", code="REVIEW_VERDICT_FINDING_MISMATCH")
    assert (judging.folder() / "review-code.md").read_bytes() == before
    finish(judging, "--review", "code.md", code="ORCHESTRATION_REVIEW_INVALID")
    (judging.folder() / "review-code.md").write_text("# nothing\n")
    finish(judging, code="ORCHESTRATION_REVIEW_INVALID")
    (judging.folder() / "review-code.md").unlink()
    finish(judging, code="ARTIFACT_NOT_FOUND")


def test_a_reviewers_brief_carries_diff_and_findings(judging: World) -> None:
    """The hunks, as far as there is room, the rows of the stage, and the whole diff in a file of one's own."""
    judging.row(ROW)
    target = judging.base / "to-judge.diff"
    brief = judging.call("orchestrate", "brief", TASK, "--text", "--diff-file", str(target)).out
    assert "CD-1 (round 1), major, open: review-code.md#CD-1" in brief
    assert "+    return a + b" in brief
    assert "+    return a + b" in target.read_text()
    assert len(brief.encode()) <= 8_001
