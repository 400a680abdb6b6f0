"""The route: every combination of facts against a plain oracle, and each rule by name."""

import itertools
from dataclasses import dataclass, replace
from functools import cache

import pytest

from agent_infra.core import routing
from agent_infra.core.lifecycle import ACTIONS, PHASES, Flow, Role, Stage, Step
from agent_infra.core.machines import Walk
from agent_infra.core.routing import ArtifactFact, Facts, PhaseFacts, ReviewFact, Route, route, route_diagram
from agent_infra.errors import ErrorCode, RefusedError

ROUND, REVIEW_ROUND = 3, 5  # of what is there; they only have to differ
UNREADABLE = RefusedError(ErrorCode.ORCHESTRATION_REVIEW_INVALID, "review:7: no verdict")
BLOCKED = RefusedError(ErrorCode.ORCHESTRATION_LEDGER_BLOCKED, "CD-1")


def phase(artifact: ArtifactFact, review: ReviewFact) -> PhaseFacts:
    """The facts of one phase; what is absent has no round."""
    fault = UNREADABLE if review is ReviewFact.UNREADABLE else None
    round_ = 0 if artifact is ArtifactFact.ABSENT else ROUND
    return PhaseFacts(artifact, round_, review, REVIEW_ROUND, fault)


PHASE_FACTS = [phase(*pair) for pair in itertools.product(ArtifactFact, ReviewFact)]
DONE = phase(ArtifactFact.READY, ReviewFact.APPROVES)
ALL_DONE = Facts(analysis=DONE, plan=DONE, code=DONE)


@dataclass(frozen=True)
class PhasesOnly:
    """Facts that know nothing of ledger and manual validation, so that a walk that asked for them would fail."""

    flow: Flow
    analysis: PhaseFacts
    plan: PhaseFacts
    code: PhaseFacts

    phase = Facts.phase


class SharedWalk:
    """The walk, taken once for all facts that differ only in what is asked before the commit."""

    def __init__(self, walk: Walk) -> None:
        self._rest = cache(lambda flow, *phases: walk.rest(PhasesOnly(flow, *phases)))

    def rest(self, facts: Facts) -> str:
        return self._rest(facts.flow, facts.analysis, facts.plan, facts.code)


# --- the oracle: the rules in plain words, sharing nothing with the table ---

REVIEWED = {"full": ("analysis", "plan", "code"), "standard": ("code",), "streamlined": ("code",)}
STATIONS = {
    "full": ("analysis", "plan", "code"),
    "standard": ("analysis", "plan", "code"),
    "streamlined": ("analysis", "code"),
}


def named(family: str, round_: int) -> str:
    return f"{family}.md" if round_ == 1 else f"{family}-r{round_}.md"


def expected(  # noqa: C901 - the rules, one by one
    facts: Facts,
) -> tuple[str | None, int | None, str | None, str | None]:
    """Stage, round, artifact and code by the reference's rules and our differences."""
    for station in STATIONS[facts.flow.value]:
        now: PhaseFacts = getattr(facts, station)
        if now.artifact.value == "absent":
            return station, 1, named(station, 1), None
        if now.artifact.value == "unfinished":
            return station, now.round, named(station, now.round), None
        if now.artifact.value == "outdated":
            return station, now.round + 1, named(station, now.round + 1), None
        if station not in REVIEWED[facts.flow.value]:
            continue
        review = f"review-{station}"
        if now.review.value == "absent":
            return review, now.review_round + 1, named(review, now.review_round + 1), None
        if now.review.value == "unfinished":
            return review, now.review_round, named(review, now.review_round), None
        if now.review.value == "unreadable":
            return review, now.review_round, named(review, now.review_round), "ORCHESTRATION_REVIEW_INVALID"
        if now.review.value == "rejects":
            return station, now.round + 1, named(station, now.round + 1), None
    if facts.manual_validation is None:
        round_ = facts.code.review_round
        return "review-code", round_, named("review-code", round_), "ORCHESTRATION_REVIEW_INVALID"
    if facts.manual_validation > 0:
        return None, None, None, "ORCHESTRATION_MANUAL_VALIDATION_PENDING"
    if facts.ledger_fault is not None:
        return None, None, None, "ORCHESTRATION_LEDGER_BLOCKED"
    return "commit", 1, "commit", None


def plain(answer: Route) -> tuple[str | None, int | None, str | None, str | None]:
    step, code = answer.step, answer.fault.code.value if answer.fault else None
    return (step.stage.value, step.round, step.artifact, code) if step else (None, None, None, code)


@pytest.mark.parametrize("flow", Flow)
def test_every_combination_of_facts(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 48,000 facts of a flow lead where the plain rules say, and nowhere else."""
    monkeypatch.setattr(routing, "ROUTE", SharedWalk(routing.ROUTE))
    ends = list(itertools.product((None, 0, 1), (None, BLOCKED)))
    for analysis, plan, code in itertools.product(PHASE_FACTS, repeat=3):
        for manual_validation, ledger_fault in ends:
            facts = Facts(flow, analysis, plan, code, manual_validation, ledger_fault)
            assert plain(route(facts)) == expected(facts), facts


def test_an_empty_task_begins_with_its_analysis() -> None:
    """No artifact: the executor's first round of the first stage, in every flow."""
    for flow in Flow:
        assert route(Facts(flow)) == Route(Step(Stage.ANALYSIS, 1, "analysis.md"))


def test_a_step_is_printed_as_the_reference_does() -> None:
    """`next` names action, role, stage, round and artifact."""
    step = route(replace(ALL_DONE, plan=phase(ArtifactFact.READY, ReviewFact.ABSENT))).step
    assert step is not None
    assert step.to_json() == {
        "action": "review-plan",
        "role": "reviewer",
        "stage": "review-plan",
        "round": 6,
        "artifact": "review-plan-r6.md",
    }


def test_every_stage_has_an_action_and_a_role() -> None:
    """Stages named `review-…` are the reviewer's, all others the executor's; a review belongs to its stage."""
    assert [ACTIONS[stage] for stage in Stage] == [
        "analyze-task",
        "review-analysis",
        "plan-task",
        "review-plan",
        "code-task",
        "review-code",
        "commit",
    ]
    reviewers = [stage for stage in Stage if stage.role is Role.REVIEWER]
    assert reviewers == [Stage.REVIEW_ANALYSIS, Stage.REVIEW_PLAN, Stage.REVIEW_CODE]
    assert [stage.phase for stage in reviewers] == list(PHASES)


def test_the_questions_before_the_commit_come_in_order() -> None:
    """A missing count is asked before a count above zero, and both before the ledger."""
    assert route(ALL_DONE) == Route(Step(Stage.COMMIT, 1, "commit"))
    pending = route(replace(ALL_DONE, manual_validation=2, ledger_fault=BLOCKED)).fault
    assert pending is not None
    assert pending.code is ErrorCode.ORCHESTRATION_MANUAL_VALIDATION_PENDING
    assert "review-code-r5.md" in pending.message
    assert "2 manual validation(s)" in pending.message
    missing = route(replace(ALL_DONE, manual_validation=None, ledger_fault=BLOCKED)).fault
    assert missing is not None
    assert missing.code is ErrorCode.ORCHESTRATION_REVIEW_INVALID
    assert missing.message.startswith("review-code-r5.md:1:")


def test_the_ledger_says_its_own_fault() -> None:
    """Whatever stands against the ledger is the answer, unchanged."""
    assert route(replace(ALL_DONE, ledger_fault=BLOCKED)) == Route(fault=BLOCKED)


def test_an_unreadable_review_is_no_new_executor_round() -> None:
    """It is answered with its fault and the reviewer round that mends it."""
    answer = route(replace(ALL_DONE, analysis=phase(ArtifactFact.READY, ReviewFact.UNREADABLE)))
    assert answer == Route(Step(Stage.REVIEW_ANALYSIS, REVIEW_ROUND, "review-analysis-r5.md"), UNREADABLE)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(PhaseFacts(ArtifactFact.READY, 999, ReviewFact.REJECTS, 1), id="executor"),
        pytest.param(PhaseFacts(ArtifactFact.READY, 1, ReviewFact.ABSENT, 999), id="reviewer"),
    ],
)
def test_rounds_end_at_999(last: PhaseFacts) -> None:
    """There is no round 1000."""
    with pytest.raises(RefusedError, match="999") as caught:
        route(Facts(analysis=last))
    assert caught.value.code is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID


def test_the_diagram_has_every_path() -> None:
    """It is drawn from the paths that are walked, each with its conditions by name."""
    lines = route_diagram().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> analysis"]
    assert lines[-1] == "    commit --> [*]"
    assert len(lines) == 3 + len(routing.ROUTE.paths)
    assert "    review_code --> commit: review_approves, flow has commit" in lines
    assert "    review_plan --> plan_rework: review_is_current, not review_approves" in lines
