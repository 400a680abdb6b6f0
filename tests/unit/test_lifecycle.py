"""The vocabulary of the route: the words that users and the reference know."""

import pytest

from agent_infra.core.lifecycle import CURRENT_STEPS, NATIVE_AGENTS, PHASES, STAGES_OF_FLOW, Flow, Role, Stage, Step

REVIEWERS = (Stage.REVIEW_ANALYSIS, Stage.REVIEW_PLAN, Stage.REVIEW_CODE)


def test_stages_come_in_their_order() -> None:
    """The seven stages, by their values on disk."""
    words = ["analysis", "review-analysis", "plan", "review-plan", "code", "review-code", "commit"]
    assert [stage.value for stage in Stage] == words


@pytest.mark.parametrize("stage", list(Stage))
def test_roles_and_phases(stage: Stage) -> None:
    """A review is the reviewer's and belongs to the stage that it judges; all else is the executor's own."""
    reviews = stage in REVIEWERS
    assert stage.role is (Role.REVIEWER if reviews else Role.EXECUTOR)
    assert stage.phase.value == stage.value.removeprefix("review-")
    assert Step(stage, 1, "x.md").role is stage.role


def test_a_flow_leaves_stages_out() -> None:
    """Every flow keeps the order, has a code review before the commit, and no review without its stage."""
    full = list(Stage)
    left_out = {flow: [stage.value for stage in full if stage not in stages] for flow, stages in STAGES_OF_FLOW.items()}
    assert left_out == {
        Flow.FULL: [],
        Flow.STANDARD: ["review-analysis", "review-plan"],
        Flow.STREAMLINED: ["review-analysis", "plan", "review-plan"],
    }
    for stages in STAGES_OF_FLOW.values():
        assert sorted(stages, key=full.index) == list(stages)
        assert stages[-2:] == (Stage.REVIEW_CODE, Stage.COMMIT)


def test_phases_are_the_stages_that_leave_work() -> None:
    """Three stages have an artifact and a review."""
    assert [phase.value for phase in PHASES] == ["analysis", "plan", "code"]


def test_the_words_of_current_step() -> None:
    """`current_step` of task.md has the reference's word for every stage."""
    assert {stage.value: word for stage, word in CURRENT_STEPS.items()} == {
        "analysis": "requirement-analysis",
        "review-analysis": "requirement-analysis-review",
        "plan": "technical-design",
        "review-plan": "technical-design-review",
        "code": "code",
        "review-code": "code-review",
        "commit": "commit",
    }


def test_two_agent_names_are_managed() -> None:
    """One per role, exactly."""
    names = {"agent-infra-lifecycle-executor": "executor", "agent-infra-lifecycle-reviewer": "reviewer"}
    assert names == NATIVE_AGENTS
