"""What every verb answers: where the run stands, whether anything moved, and what comes next."""

from dataclasses import dataclass, field
from typing import Any

from agent_infra.core.lifecycle import Step
from agent_infra.core.run import Run
from agent_infra.errors import AgentInfraError

FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """One answer.

    Attributes:
        status: running, paused, completed or failed.
        changed: `False` promises that no state moved.
        notes: warnings and ways back, for people.
        extra: further keys of one verb (`brief`).
    """

    status: str
    changed: bool = False
    task_id: str | None = None
    run: Run | None = None
    next: Step | None = None
    error: AgentInfraError | None = None
    notes: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 for running, paused and completed, 1 for failed."""
        return 1 if self.status == FAILED else 0

    def to_json(self) -> dict[str, Any]:
        """The object of the one JSON line: six keys always, `notes` and extras where there are any."""
        error = {"code": str(self.error.code), "message": self.error.message} if self.error else None
        answer: dict[str, Any] = {
            "status": self.status,
            "changed": self.changed,
            "taskId": self.task_id,
            "run": self.run.to_json() if self.run else None,
            "next": self.next.to_json() if self.next else None,
            "error": error,
        }
        notes = (*self.notes, *(self.error.notes if self.error else ()))
        return answer | ({"notes": list(notes)} if notes else {}) | self.extra


def failed(
    error: AgentInfraError, *, task_id: str | None = None, run: Run | None = None, step: Step | None = None
) -> Outcome:
    """The answer to a refusal: nothing moved."""
    return Outcome(FAILED, task_id=task_id, run=run, next=step, error=error)
