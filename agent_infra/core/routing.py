"""The route: which step may run next. A table walked over frozen facts; where the walk rests is the step.

Facts come from disk and receipts (`facts.py` gathers them) and are plain values. Nothing here reads anything.
Source: the reference's route rules (lib/task/orchestration.ts), with our differences (`docs/lifecycle.md`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from agent_infra.core.artifacts import MAX_ROUND, artifact_name
from agent_infra.core.lifecycle import PHASES, STAGES_OF_FLOW, Flow, Stage, Step
from agent_infra.core.machines import Path, Walk, mermaid_id
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError


class ArtifactFact(StrEnum):
    """What the newest artifact of an executor stage is worth."""

    ABSENT = "absent"  # none there: round 1
    UNFINISHED = "unfinished"  # its newest receipt was aborted: the same round again
    OUTDATED = "outdated"  # something that it was built on has a newer round, or it was reopened: the next round
    READY = "ready"


class ReviewFact(StrEnum):
    """What the newest review of a stage is worth."""

    ABSENT = "absent"  # none, or none of these very bytes: the next round
    UNFINISHED = "unfinished"  # its newest receipt was aborted: the same round again
    UNREADABLE = "unreadable"  # the summary can't be read: the same round again, and an error
    REJECTS = "rejects"
    APPROVES = "approves"


@dataclass(frozen=True)
class PhaseFacts:
    """One executor stage and its review.

    Attributes:
        round: the newest artifact's round, 0 where there is none.
        review_round: the newest review's round, 0 where there is none.
        review_fault: why the review can't be read.
    """

    artifact: ArtifactFact = ArtifactFact.ABSENT
    round: int = 0
    review: ReviewFact = ReviewFact.ABSENT
    review_round: int = 0
    review_fault: AgentInfraError | None = None


@dataclass(frozen=True)
class Facts:
    """Everything that the route depends on.

    Attributes:
        manual_validation: the count in the newest code review; `None` where it names none.
        ledger_fault: why the ledger does not allow a commit, or `None`.
    """

    flow: Flow = Flow.FULL
    analysis: PhaseFacts = PhaseFacts()
    plan: PhaseFacts = PhaseFacts()
    code: PhaseFacts = PhaseFacts()
    manual_validation: int | None = 0
    ledger_fault: AgentInfraError | None = None

    def phase(self, stage: Stage) -> PhaseFacts:
        """The facts of the phase that `stage` belongs to."""
        return {Stage.ANALYSIS: self.analysis, Stage.PLAN: self.plan, Stage.CODE: self.code}[stage.phase]


@dataclass(frozen=True)
class Route:
    """The answer: a step, a refusal, or both (an unreadable review names the round that mends it)."""

    step: Step | None = None
    fault: AgentInfraError | None = None


@dataclass(frozen=True)
class PhaseCondition:
    """A named predicate over the facts of one phase."""

    name: str
    phase: Stage
    holds: Callable[[PhaseFacts], bool]

    def __call__(self, facts: Facts) -> bool:
        """Whether it holds."""
        return self.holds(facts.phase(self.phase))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FlowCondition:
    """Whether the task's flow has a stage."""

    stage: Stage

    def __call__(self, facts: Facts) -> bool:
        """Whether it holds."""
        return self.stage in STAGES_OF_FLOW[facts.flow]

    def __str__(self) -> str:
        return f"flow has {self.stage}"


def has_artifact(phase: Stage) -> PhaseCondition:
    """The stage's artifact is there, finished, and built on the newest inputs."""
    return PhaseCondition("has_artifact", phase, lambda facts: facts.artifact is ArtifactFact.READY)


def artifact_is_outdated(phase: Stage) -> PhaseCondition:
    """The stage needs a new round, whatever its review said."""
    return PhaseCondition("artifact_is_outdated", phase, lambda facts: facts.artifact is ArtifactFact.OUTDATED)


def review_is_current(phase: Stage) -> PhaseCondition:
    """The newest review judged these very bytes and can be read."""
    current = (ReviewFact.REJECTS, ReviewFact.APPROVES)
    return PhaseCondition("review_is_current", phase, lambda facts: facts.review in current)


def review_approves(phase: Stage) -> PhaseCondition:
    """The newest review says Approved, with no finding left."""
    return PhaseCondition("review_approves", phase, lambda facts: facts.review is ReviewFact.APPROVES)


def rework(phase: Stage) -> str:
    """The state in which an executor stage is done once more."""
    return f"{phase}-rework"


def _paths_of(phase: Stage) -> list[Path]:
    """The paths that leave a phase, first match first."""
    review = Stage(f"review-{phase}")
    following = {Stage.ANALYSIS: (Stage.PLAN, Stage.CODE), Stage.PLAN: (Stage.CODE,), Stage.CODE: (Stage.COMMIT,)}[
        phase
    ]
    reviewed = FlowCondition(review)
    paths = [
        Path(phase, rework(phase), (artifact_is_outdated(phase),)),
        Path(phase, review, (has_artifact(phase), reviewed)),
        Path(review, rework(phase), (review_is_current(phase),), unless=(review_approves(phase),)),
    ]
    for index, stage in enumerate(following):
        skipped = tuple(FlowCondition(earlier) for earlier in following[:index])
        in_flow = (FlowCondition(stage),)
        paths.append(Path(phase, stage, (has_artifact(phase), *in_flow), unless=(reviewed, *skipped)))
        paths.append(Path(review, stage, (review_approves(phase), *in_flow), unless=skipped))
    return paths


ROUTE = Walk(
    states=[*Stage, *(rework(phase) for phase in PHASES)],
    paths=[path for phase in PHASES for path in _paths_of(phase)],
)


def route(facts: Facts) -> Route:
    """What may run next.

    Returns:
        The step; or a fault with code ORCHESTRATION_REVIEW_INVALID (with the reviewer round that mends it),
        ORCHESTRATION_MANUAL_VALIDATION_PENDING, ORCHESTRATION_LEDGER_INVALID, _UNPROVEN or _BLOCKED.
    """
    place = ROUTE.rest(facts)
    if place == Stage.COMMIT:
        return _before_commit(facts)
    stage = Stage(place.removesuffix("-rework"))
    phase = facts.phase(stage)
    if stage.role == "executor":
        again = place == stage and phase.artifact is ArtifactFact.UNFINISHED
        return Route(_step(stage, phase.round if again else phase.round + 1))
    if phase.review is ReviewFact.UNREADABLE:
        return Route(_step(stage, phase.review_round), phase.review_fault)
    again = phase.review is ReviewFact.UNFINISHED
    return Route(_step(stage, phase.review_round if again else phase.review_round + 1))


def _before_commit(facts: Facts) -> Route:
    """The reference's four questions before a commit, in its order."""
    name = artifact_name("review-code", facts.code.review_round)
    if facts.manual_validation is None:
        message = f"{name}:1: the findings line names no manual validation count, which must stand before a commit"
        step = _step(Stage.REVIEW_CODE, facts.code.review_round)
        return Route(step, RefusedError(ErrorCode.ORCHESTRATION_REVIEW_INVALID, message))
    if facts.manual_validation:
        message = (
            f"{name} leaves {facts.manual_validation} manual validation(s) to a person before the commit; "
            "who has done them says so: `agent-infra task validate-manual TASK --result …`"
        )
        return Route(fault=RefusedError(ErrorCode.ORCHESTRATION_MANUAL_VALIDATION_PENDING, message))
    if facts.ledger_fault:
        return Route(fault=facts.ledger_fault)
    return Route(Step(Stage.COMMIT, 1, "commit"))


def _step(stage: Stage, round_: int) -> Step:
    if round_ > MAX_ROUND:
        raise RefusedError(
            ErrorCode.ORCHESTRATION_ARTIFACT_INVALID,
            f"{stage} has had {MAX_ROUND} rounds; there is no round after that",
        )
    return Step(stage, round_, artifact_name(stage, round_))


def route_diagram() -> str:
    """The route as a Mermaid state diagram, from the very paths that are walked."""
    lines = ["stateDiagram-v2", f"    [*] --> {mermaid_id(ROUTE.states[0])}"]
    for path in ROUTE.paths:
        label = ", ".join([*map(str, path.conditions), *(f"not {condition}" for condition in path.unless)])
        lines.append(f"    {mermaid_id(path.source)} --> {mermaid_id(path.dest)}: {label}")
    return "\n".join([*lines, f"    {mermaid_id(Stage.COMMIT)} --> [*]"])
