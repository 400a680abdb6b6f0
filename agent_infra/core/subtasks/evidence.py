"""What one child's run left behind, as facts: from git and the process, never from what the child says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_infra.core.subtasks.waves import ChildStatus


@dataclass(frozen=True)
class Evidence:
    """One piece.

    Attributes:
        type: `run-status`, `workspace-diff`, `syntax-validation`, `host-validation`, `failure-classification`,
            `diagnostics`, `usage`, `exit` or `checks`.
        source_id: the run it comes from.
        field: which fact of it.
        value: plain JSON.
    """

    type: str
    source_id: str
    field: str
    value: Any

    def to_json(self) -> dict[str, Any]:
        """As in a consolidation."""
        return {"type": self.type, "sourceId": self.source_id, "field": self.field, "value": self.value}


_FIELDS = {
    "run-status": ("status",),
    "workspace-diff": ("workspaceChanged", "changedFiles", "createdFiles", "deletedFiles", "undeclaredFiles"),
    "syntax-validation": ("syntaxValidation", "syntaxValidationFailed"),
    "host-validation": ("hostValidation",),
    "failure-classification": ("failureCategory", "infrastructureFailure"),
    "diagnostics": ("warnings",),
    "usage": ("inputTokens", "outputTokens", "costUsd", "durationMs", "model"),
    "exit": ("code", "signal", "timedOut"),
    "checks": ("checks",),
}


def evidence_of(run_id: str, facts: Mapping[str, Any]) -> tuple[Evidence, ...]:
    """The pieces that a run carries; a fact that it lacks makes no piece."""
    return tuple(
        Evidence(kind, run_id, name, facts[name])
        for kind, names in _FIELDS.items()
        for name in names
        if facts.get(name) is not None
    )


@dataclass(frozen=True)
class Child:
    """One subtask as the consolidator sees it.

    Attributes:
        run_id: the run that counts, None where none finished.
        facts: of that run, by the field names of the evidence.
        expected_files: what it declared.
    """

    subtask_id: str
    status: ChildStatus
    run_id: str | None = None
    facts: Mapping[str, Any] | None = None
    expected_files: tuple[str, ...] = ()
    no_change_expected: bool = False

    @property
    def has_run(self) -> bool:
        """Whether a finished run is given to the consolidator."""
        return self.run_id is not None and self.status in _WITH_RUN


_WITH_RUN = frozenset({ChildStatus.COMPLETED, ChildStatus.COMPLETED_WITH_WARNINGS, ChildStatus.FAILED})
_NO_RUN = {
    ChildStatus.BLOCKED: ("blocked", "blocked_before_execution"),
    ChildStatus.NEEDS_HUMAN: ("needs_human", "needs_human_before_execution"),
}


def given(child: Child) -> dict[str, Any]:
    """What the consolidator is told of one child."""
    if not child.has_run:
        status, reason = _NO_RUN.get(child.status, (None, "result_missing"))
        return {"subtaskId": child.subtask_id, "runStatus": status, "noExecutionReason": reason}
    facts = child.facts or {}
    return {
        "subtaskId": child.subtask_id,
        "runId": child.run_id,
        "runStatus": str(child.status),
        "noChangeExpected": child.no_change_expected,
        "evidence": [piece.to_json() for piece in evidence_of(child.run_id or "", facts)],
        "warnings": list(facts.get("warnings") or ()),
        "infrastructureFailure": bool(facts.get("infrastructureFailure")),
    }
