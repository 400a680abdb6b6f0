"""The answer of `subtasks plan|run|resume|status`: one shape, whatever became of the task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_infra.core.subtasks.consolidation import Consolidation
from agent_infra.core.subtasks.planning import Planning, Request
from agent_infra.core.subtasks.verification import Verification

DRY_RUN, REAL = "dry-run", "real"
MAX_CONCURRENT = 4
DEFAULT_CONCURRENT = 2


@dataclass(frozen=True)
class Strategy:
    """How many children run side by side.

    Attributes:
        parallel: None for one at a time; else what the person asked for, as text.
        limit: the most that the configuration allows.
    """

    parallel: str | None = None
    limit: int = MAX_CONCURRENT

    @property
    def name(self) -> str:
        """As in results and the trail."""
        return "serial" if self.parallel is None else "controlled-parallel"

    @property
    def max_concurrent(self) -> int:
        """1 to the limit; what is no number counts as 2."""
        if self.parallel is None:
            return 1
        text = self.parallel.strip()
        asked = int(text) if text.lstrip("+-").isascii() and text.lstrip("+-").isdigit() else DEFAULT_CONCURRENT
        return max(1, min(asked, self.limit))


@dataclass(frozen=True)
class Result:
    """What is known of one orchestration.

    Attributes:
        executed: whether a child was started or found done.
        children: one entry per subtask, in the order of ids.
        observed: the largest number of children that ran at once.
    """

    task_id: str
    mode: str
    strategy: Strategy = field(default_factory=Strategy)
    executed: bool = False
    request: Request | None = None
    planning: Planning | None = None
    children: Sequence[Mapping[str, Any]] = ()
    observed: int = 0
    consolidation: Consolidation | None = None
    verification: Verification | None = None
    parent_status: str | None = None
    reason: str | None = None
    warnings: Sequence[str] = ()
    errors: Sequence[str] = ()

    @property
    def succeeded(self) -> bool:
        """Whether the command ends with 0: a plan that could run, or a parent that is completed."""
        if self.mode == DRY_RUN:
            return not self.errors and self.planning is not None and self.planning.refusal is None
        return self.parent_status in ("completed", "completed_with_warnings")

    def to_json(self) -> dict[str, Any]:
        """The whole answer."""
        said: dict[str, Any] = {
            "schemaVersion": 1,
            "taskId": self.task_id,
            "mode": self.mode,
            "executed": self.executed,
            "plan": self.planning.to_json(self.request) if self.planning and self.request else None,
        }
        if self.strategy.parallel is not None:
            said["executionPlan"] = self._execution_plan()
        planned = self.planning
        return said | {
            "children": [dict(child) for child in self.children],
            "consolidation": self.consolidation.to_json() if self.consolidation else None,
            "verification": self.verification.to_json() if self.verification else None,
            "parentStatus": self.parent_status,
            "statusOverrideReason": self.reason,
            "trace": [step.to_json() for step in planned.trace] if planned else [],
            "warnings": list(dict.fromkeys((*(planned.warnings if planned else ()), *self.warnings))),
            "errors": list(dict.fromkeys((*(planned.errors if planned else ()), *self.errors))),
            "summary": self.summary,
        }

    def _execution_plan(self) -> dict[str, Any]:
        """How children would run side by side; the error where waves can't be made."""
        planned = self.planning
        found: dict[str, Any] = {
            "strategy": self.strategy.name,
            "concurrency": {"maxConcurrent": self.strategy.max_concurrent, "observedMaxActive": self.observed},
            "waves": [wave.to_json() for wave in planned.waves] if planned else [],
        }
        if planned and planned.waves_error:
            found["error"] = planned.waves_error
        return found

    @property
    def summary(self) -> str:
        """One sentence for people."""
        count = len(self.planning.subtasks) if self.planning else 0
        if self.mode == DRY_RUN:
            waves = len(self.planning.waves) if self.planning else 0
            return f"{self.task_id}: {count} subtasks in {waves} waves would run"
        done = sum(str(child.get("status", "")).startswith("completed") for child in self.children)
        return f"{self.task_id}: {done} of {count} subtasks done, {self.parent_status or 'not run'}"
