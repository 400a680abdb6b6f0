"""The children's results as one: what holds together, what is missing, what contradicts itself."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agent_infra.core.subtasks.conflicts import can_meet
from agent_infra.core.subtasks.evidence import Child, given
from agent_infra.core.subtasks.waves import ChildStatus


class ConsolidatedStatus(StrEnum):
    """What all results together amount to."""

    ACCEPTED = "accepted"
    ACCEPTED_WITH_WARNINGS = "accepted_with_warnings"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    NEEDS_HUMAN = "needs_human"


class Completeness(StrEnum):
    """Whether every planned child has a finished run."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    INVALID = "invalid"


_NEXT = {
    ConsolidatedStatus.ACCEPTED: "verify",
    ConsolidatedStatus.ACCEPTED_WITH_WARNINGS: "verify",
    ConsolidatedStatus.REJECTED: "fix",
    ConsolidatedStatus.INCONCLUSIVE: "retry",
    ConsolidatedStatus.NEEDS_HUMAN: "ask_human",
}


@dataclass(frozen=True)
class Consolidation:
    """One consolidated result; every list holds sentences for people, sorted by subtask."""

    task_id: str
    status: ConsolidatedStatus
    completeness: Completeness
    per_subtask: tuple[dict[str, Any], ...] = ()
    evidence: tuple[dict[str, Any], ...] = ()
    missing_evidence: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    code_failures: tuple[str, ...] = ()
    infrastructure_failures: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    inconsistencies: tuple[str, ...] = ()
    invalid_references: tuple[str, ...] = ()
    remaining_issues: tuple[str, ...] = ()
    input_errors: tuple[str, ...] = ()
    next_action: str = "verify"

    def to_json(self) -> dict[str, Any]:
        """A result's `consolidation`."""
        changed = sorted({path for piece in self.evidence if piece["field"] in _TOUCHED for path in piece["value"]})
        return {
            "schemaVersion": 1,
            "taskId": self.task_id,
            "status": str(self.status),
            "consolidationCompleteness": str(self.completeness),
            "perSubtask": list(self.per_subtask),
            "evidence": list(self.evidence),
            "missingEvidence": list(self.missing_evidence),
            "warnings": list(self.warnings),
            "failures": list(self.failures),
            "codeFailures": list(self.code_failures),
            "infrastructureFailures": list(self.infrastructure_failures),
            "conflicts": list(self.conflicts),
            "inconsistencies": list(self.inconsistencies),
            "invalidReferences": list(self.invalid_references),
            "remainingIssues": list(self.remaining_issues),
            "inputErrors": list(self.input_errors),
            "recommendedNextAction": self.next_action,
            "verifierInputHints": {"changedFiles": changed, "open": list(self.remaining_issues)},
            "summary": f"{len(self.per_subtask)} subtasks, {self.status}, {self.completeness}",
        }


_TOUCHED = ("changedFiles", "createdFiles", "deletedFiles")


def unreadable(task_id: str, reason: str) -> Consolidation:
    """What stands in for a consolidation that could not be made: nothing is accepted on it."""
    words = (reason,)
    return Consolidation(
        task_id,
        ConsolidatedStatus.INCONCLUSIVE,
        Completeness.INVALID,
        warnings=words,
        failures=words,
        infrastructure_failures=words,
        remaining_issues=words,
        input_errors=words,
        next_action="block",
    )


def consolidate(task_id: str, planned: Sequence[str], children: Sequence[Child]) -> Consolidation:
    """Bring the children's results together; children that belong to no plan make the input unreadable."""
    by_id = {child.subtask_id: child for child in children}
    strangers = sorted(set(by_id) - set(planned))
    if strangers or len(by_id) != len(children):
        return unreadable(task_id, f"results of no planned subtask, or two of one: {', '.join(strangers) or 'doubled'}")
    known = [by_id.get(name) or Child(name, ChildStatus.PENDING) for name in sorted(planned)]
    missing = _missing(known)
    code, infrastructure = _failures(known)
    inconsistencies = _inconsistencies(known)
    undeclared = _undeclared(known)
    notes = [f"{child.subtask_id}: {word}" for child in known for word in (child.facts or {}).get("warnings") or ()]
    warnings = (*notes, *undeclared, *inconsistencies)
    completeness = Completeness.COMPLETE if all(child.has_run for child in known) else Completeness.PARTIAL
    status = _status(known, bool(code), bool(infrastructure or missing), bool(warnings) or completeness != "complete")
    open_issues = (*code, *infrastructure, *missing, *(f"{c.subtask_id} needs a person" for c in known if _asks(c)))
    return Consolidation(
        task_id,
        status,
        completeness,
        per_subtask=tuple(given(child) for child in known),
        evidence=tuple(piece for item in map(given, known) for piece in item.get("evidence", ())),
        missing_evidence=missing,
        warnings=warnings,
        failures=(*code, *infrastructure),
        code_failures=code,
        infrastructure_failures=infrastructure,
        conflicts=_doubled(known),
        inconsistencies=inconsistencies,
        remaining_issues=open_issues,
        next_action=_NEXT[status],
    )


def _asks(child: Child) -> bool:
    return child.status == ChildStatus.NEEDS_HUMAN


def _status(children: Sequence[Child], code: bool, unclear: bool, odd: bool) -> ConsolidatedStatus:  # noqa: FBT001
    """The first that holds, worst first."""
    if any(map(_asks, children)):
        return ConsolidatedStatus.NEEDS_HUMAN
    if code:
        return ConsolidatedStatus.REJECTED
    if unclear:
        return ConsolidatedStatus.INCONCLUSIVE
    warned = odd or any(child.status == ChildStatus.COMPLETED_WITH_WARNINGS for child in children)
    return ConsolidatedStatus.ACCEPTED_WITH_WARNINGS if warned else ConsolidatedStatus.ACCEPTED


def _missing(children: Sequence[Child]) -> tuple[str, ...]:
    """Runs that say they are done and carry no diff, and children of whom nothing is known."""
    found = []
    for child in children:
        if child.has_run and child.status != ChildStatus.FAILED and "workspaceChanged" not in (child.facts or {}):
            found.append(f"{child.subtask_id}: no workspace-diff")
        if given(child).get("noExecutionReason") == "result_missing":
            found.append(f"{child.subtask_id}: no result")
    return tuple(found)


def _failures(children: Sequence[Child]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Failures by the child's own code, and by what it ran on."""
    code: list[str] = []
    infrastructure: list[str] = []
    for child in children:
        if child.status == ChildStatus.FAILED:
            facts = child.facts or {}
            words = f"{child.subtask_id}: {facts.get('failureCategory') or 'failed'}"
            (infrastructure if facts.get("infrastructureFailure") else code).append(words)
    return tuple(code), tuple(infrastructure)


def _touched(child: Child) -> list[str]:
    facts = child.facts or {}
    return sorted({path for name in _TOUCHED for path in facts.get(name) or ()})


def _inconsistencies(children: Sequence[Child]) -> tuple[str, ...]:
    """What a run says against what git shows."""
    found = []
    for child in children:
        if not child.has_run or child.status == ChildStatus.FAILED:
            continue
        facts = child.facts or {}
        if facts.get("workspaceChanged") is False and not child.no_change_expected:
            found.append(f"{child.subtask_id}: completed without a change, though one was expected")
        paths = _touched(child)
        found += [
            f"{child.subtask_id}: {wanted} was declared and not touched"
            for wanted in child.expected_files
            if paths and not any(can_meet(wanted, path) for path in paths)
        ]
        if facts.get("claimsTests") and not facts.get("checks"):
            found.append(f"{child.subtask_id}: says that tests passed, and no check of ours shows it")
    return (*found, *(f"{words} changed by more than one subtask" for words in _doubled(children)))


def _undeclared(children: Sequence[Child]) -> tuple[str, ...]:
    return tuple(
        f"{child.subtask_id}: {path} was not declared"
        for child in children
        for path in (child.facts or {}).get("undeclaredFiles") or ()
    )


def _doubled(children: Sequence[Child]) -> tuple[str, ...]:
    """Paths that two children changed."""
    counts = Counter(path for child in children if child.has_run for path in _touched(child))
    return tuple(sorted(path for path, count in counts.items() if count > 1))
