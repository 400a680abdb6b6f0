"""Which file names are artifacts, which only look like one, and which are nobody's business."""

import pytest

from agent_infra.core.artifacts import (
    FAMILIES,
    ArtifactName,
    artifact_name,
    newest_rounds,
    parse_artifact_name,
    round_gaps,
)
from agent_infra.errors import ErrorCode, RefusedError


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", [1, 2, 9, 10, 99, 999])
def test_names_are_read_as_they_are_written(family, number):
    name = artifact_name(family, number)
    assert parse_artifact_name(name) == ArtifactName(family, number)


def test_the_first_round_has_no_number():
    assert (artifact_name("plan", 1), artifact_name("review-plan", 2)) == ("plan.md", "review-plan-r2.md")


@pytest.mark.parametrize(("family", "number"), [("plan", 0), ("plan", -1), ("plan", 1000), ("plans", 1), ("commit", 1)])
def test_no_name_is_made_for_what_is_no_round(family, number):
    with pytest.raises(RefusedError) as caught:
        artifact_name(family, number)
    assert caught.value.code is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("plan-r1.md", id="round one with a number"),
        pytest.param("plan-r0.md", id="round zero"),
        pytest.param("plan-r01.md", id="padded round one"),
        pytest.param("review-plan-r02.md", id="padded"),
        pytest.param("plan-r1000.md", id="beyond 999"),
        pytest.param("plan-r" + "9" * 240 + ".md", id="240 digits"),
        pytest.param("plan-r٣.md", id="Arabic digit"),
        pytest.param("plan-r２.md", id="full-width digit"),
        pytest.param("plan-r.md", id="no digit"),
        pytest.param("Plan.md", id="upper case"),
        pytest.param("PLAN-R2.MD", id="all upper case"),
        pytest.param("analyſis.md", id="long s"),
        pytest.param("plan\u200b.md", id="invisible space"),
        pytest.param("plan-r2.md\n", id="line end"),
        pytest.param(" plan.md", id="blank in front"),
    ],
)
def test_a_name_that_means_an_artifact_but_is_none_is_refused(name):
    """A slip in a name would otherwise hide a round, or be a second file on another file system."""
    with pytest.raises(RefusedError, match="looks like an artifact") as caught:
        parse_artifact_name(name)
    assert caught.value.code is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID


@pytest.mark.parametrize(
    "name",
    [
        "task.md",
        "plan-risks.md",
        "plan-r2-notes.md",
        "plan-r-2.md",
        "plan-r2.md.md",
        "plan-r2.md~",
        ".plan.md.17.tmp",
        "code-refactor.txt",
        "code.txt",
        "my-code.md",
        "review.md",
        "implementation.md",
        "orchestration.json",
        "",
    ],
)
def test_other_names_are_nobodys_business(name):
    assert parse_artifact_name(name) is None


def test_the_newest_round_is_the_highest_number():
    names = ["plan.md", "plan-r10.md", "plan-r9.md", "review-plan-r2.md", "task.md"]
    assert newest_rounds(names) == {"plan": 10, "review-plan": 2}


def test_gaps_are_the_missing_rounds_below_the_newest():
    names = ["plan-r4.md", "plan-r2.md", "analysis.md", "code-r2.md"]
    assert [gap.name for gap in round_gaps(names)] == ["code.md", "plan.md", "plan-r3.md"]
