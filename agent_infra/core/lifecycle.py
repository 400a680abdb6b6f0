"""The vocabulary of the route: stages, roles, actions, flows and steps. What may run next is decided in `routing`."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who does a step."""

    EXECUTOR = "executor"
    REVIEWER = "reviewer"


class Stage(StrEnum):
    """One station of the lifecycle."""

    ANALYSIS = "analysis"
    REVIEW_ANALYSIS = "review-analysis"
    PLAN = "plan"
    REVIEW_PLAN = "review-plan"
    CODE = "code"
    REVIEW_CODE = "review-code"
    COMMIT = "commit"

    @property
    def role(self) -> Role:
        """The role that does this stage."""
        return Role.REVIEWER if self.value.startswith("review-") else Role.EXECUTOR

    @property
    def phase(self) -> "Stage":
        """The executor stage that this stage belongs to: `review-plan` belongs to `plan`."""
        return Stage(self.value.removeprefix("review-"))


class Flow(StrEnum):
    """How much process a task gets; chosen by a person, recorded at `begin`."""

    FULL = "full"
    STANDARD = "standard"
    STREAMLINED = "streamlined"


PHASES: tuple[Stage, ...] = (Stage.ANALYSIS, Stage.PLAN, Stage.CODE)

STAGES_OF_FLOW: dict[Flow, tuple[Stage, ...]] = {
    Flow.FULL: tuple(Stage),
    Flow.STANDARD: (Stage.ANALYSIS, Stage.PLAN, Stage.CODE, Stage.REVIEW_CODE, Stage.COMMIT),
    Flow.STREAMLINED: (Stage.ANALYSIS, Stage.CODE, Stage.REVIEW_CODE, Stage.COMMIT),
}

_LEFT_OUT: dict[Flow, str] = {
    Flow.FULL: "",
    Flow.STANDARD: "the reviews of analysis and plan; the first look at them is the review of the code",
    Flow.STREAMLINED: "the plan and the review of the analysis; the first look at the work is the review of the code",
}


def left_out(flow: Flow) -> str:
    """What a flow spares, in words; empty for the full one."""
    return _LEFT_OUT[flow]


ACTIONS: dict[Stage, str] = {
    Stage.ANALYSIS: "analyze-task",
    Stage.REVIEW_ANALYSIS: "review-analysis",
    Stage.PLAN: "plan-task",
    Stage.REVIEW_PLAN: "review-plan",
    Stage.CODE: "code-task",
    Stage.REVIEW_CODE: "review-code",
    Stage.COMMIT: "commit",
}

# what `current_step` of task.md says once a stage is completed
CURRENT_STEPS: dict[Stage, str] = {
    Stage.ANALYSIS: "requirement-analysis",
    Stage.REVIEW_ANALYSIS: "requirement-analysis-review",
    Stage.PLAN: "technical-design",
    Stage.REVIEW_PLAN: "technical-design-review",
    Stage.CODE: "code",
    Stage.REVIEW_CODE: "code-review",
    Stage.COMMIT: "commit",
}

# the two agent names that we manage, exactly
NATIVE_AGENTS: dict[str, Role] = {
    "agent-infra-lifecycle-executor": Role.EXECUTOR,
    "agent-infra-lifecycle-reviewer": Role.REVIEWER,
}


@dataclass(frozen=True)
class Step:
    """One delegation that may run next.

    Attributes:
        round: 1-based.
        artifact: a bare file name; `commit` for the commit stage.
    """

    stage: Stage
    round: int
    artifact: str

    @property
    def role(self) -> Role:
        """Who does it."""
        return self.stage.role

    @property
    def action(self) -> str:
        """The reference's name of the work."""
        return ACTIONS[self.stage]

    def to_json(self) -> dict[str, object]:
        """The `next` object of every verb's answer."""
        return {
            "action": self.action,
            "role": str(self.role),
            "stage": str(self.stage),
            "round": self.round,
            "artifact": self.artifact,
        }
