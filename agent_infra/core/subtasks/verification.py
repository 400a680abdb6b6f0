"""The consolidated result against the acceptance criteria, and what the parent task becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agent_infra.core.subtasks.conflicts import can_meet
from agent_infra.core.subtasks.consolidation import Completeness, ConsolidatedStatus, Consolidation
from agent_infra.core.subtasks.plan import Criterion


class Outcome(StrEnum):
    """What verification says."""

    VERIFIED = "verified"
    VERIFIED_WITH_WARNINGS = "verified_with_warnings"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    BLOCKED = "blocked"
    NEEDS_HUMAN = "needs_human"


class ParentStatus(StrEnum):
    """What the parent task becomes."""

    COMPLETED = "completed"
    COMPLETED_WITH_WARNINGS = "completed_with_warnings"
    FAILED = "failed"
    BLOCKED = "blocked"
    NEEDS_HUMAN = "needs_human"


@dataclass(frozen=True)
class CheckRun:
    """A command that we ran on the merged tree.

    Attributes:
        exit_code: None where it could not be started or ran out of time.
        tree: id of the product tree it ran on.
    """

    command: str
    exit_code: int | None
    tree: str
    reason: str = ""


@dataclass(frozen=True)
class Verification:
    """The outcome, and each criterion with what it rests on."""

    outcome: Outcome
    criteria: tuple[dict[str, Any], ...] = ()
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A result's `verification`."""
        return {"outcome": str(self.outcome), "criteria": list(self.criteria), "reasons": list(self.reasons)}


_BY_CONSOLIDATION = {
    ConsolidatedStatus.NEEDS_HUMAN: Outcome.NEEDS_HUMAN,
    ConsolidatedStatus.REJECTED: Outcome.REJECTED,
    ConsolidatedStatus.INCONCLUSIVE: Outcome.INCONCLUSIVE,
}


def verify_result(
    consolidation: Consolidation, criteria: Sequence[Criterion], checks: Mapping[str, CheckRun]
) -> Verification:
    """Hold a consolidated result against what was asked; `checks` are by command line."""
    worse = _BY_CONSOLIDATION.get(consolidation.status)
    if worse or consolidation.completeness == Completeness.INVALID:
        reasons = consolidation.remaining_issues or (f"consolidation is {consolidation.status}",)
        return Verification(worse or Outcome.INCONCLUSIVE, reasons=reasons)
    judged = [_judge(criterion, consolidation, checks) for criterion in dict.fromkeys(criteria)]
    reasons = tuple(f"{item['text']}: {item['reason']}" for item in judged if item["met"] is not True)
    if any(item["met"] is False for item in judged):
        return Verification(Outcome.REJECTED, tuple(judged), reasons)
    if reasons:
        return Verification(Outcome.INCONCLUSIVE, tuple(judged), reasons)
    warned = consolidation.status == ConsolidatedStatus.ACCEPTED_WITH_WARNINGS
    return Verification(Outcome.VERIFIED_WITH_WARNINGS if warned else Outcome.VERIFIED, tuple(judged))


def _judge(criterion: Criterion, consolidation: Consolidation, checks: Mapping[str, CheckRun]) -> dict[str, Any]:
    """Whether one criterion is met: True, False, or None where nothing shows it."""
    if criterion.command is not None:
        met, reason = _command_met(checks.get(criterion.command))
    else:
        met, reason = _words_met(criterion, consolidation, checks)
    return {"text": criterion.text, "met": met, "reason": reason}


def _command_met(run: CheckRun | None) -> tuple[bool | None, str]:
    if run is None or run.exit_code is None:
        return None, run.reason if run and run.reason else "the command was not run"
    return run.exit_code == 0, f"exit {run.exit_code} on tree {run.tree}"


def _words_met(
    criterion: Criterion, consolidation: Consolidation, checks: Mapping[str, CheckRun]
) -> tuple[bool | None, str]:
    if not criterion.evidence:
        return None, "names no evidence: write a path, a check or a subtask in back quotes, or `run: COMMAND`"
    lacking = [name for name in criterion.evidence if not _is_shown(name, consolidation, checks)]
    if lacking:
        return None, f"no evidence for {', '.join(lacking)}"
    return True, f"shown by {', '.join(criterion.evidence)}"


def _is_shown(name: str, consolidation: Consolidation, checks: Mapping[str, CheckRun]) -> bool:
    """Whether a named piece of evidence is there: a touched path, a passed check, a subtask that is done."""
    kind, found, rest = name.partition(":")
    kinds = (kind,) if found and kind in ("path", "check", "subtask") else ("path", "check", "subtask")
    wanted = rest if len(kinds) == 1 else name
    facts = consolidation.to_json()["verifierInputHints"]["changedFiles"]
    done = {item["subtaskId"] for item in consolidation.per_subtask if str(item["runStatus"]).startswith("completed")}
    check = checks.get(wanted)
    return (
        ("path" in kinds and any(can_meet(wanted, path) for path in facts))
        or ("check" in kinds and check is not None and check.exit_code == 0)
        or ("subtask" in kinds and wanted in done)
    )


_ACCEPTED = (ConsolidatedStatus.ACCEPTED, ConsolidatedStatus.ACCEPTED_WITH_WARNINGS)
_VERIFIED = (Outcome.VERIFIED, Outcome.VERIFIED_WITH_WARNINGS)
_FULL = (Completeness.COMPLETE, Completeness.PARTIAL)


def settle_parent(outcome: Outcome, status: ConsolidatedStatus, completeness: Completeness) -> tuple[ParentStatus, str]:
    """The parent's status and the reason: the decision table, read from the top."""
    if outcome == Outcome.BLOCKED:
        return ParentStatus.BLOCKED, "verifier blocked"
    if outcome == Outcome.NEEDS_HUMAN or status == ConsolidatedStatus.NEEDS_HUMAN:
        return ParentStatus.NEEDS_HUMAN, "human review"
    if outcome == Outcome.REJECTED:
        return ParentStatus.FAILED, "verifier rejected"
    if outcome == Outcome.INCONCLUSIVE:
        return ParentStatus.BLOCKED, "inconclusive"
    if outcome in _VERIFIED and status in _ACCEPTED and completeness in _FULL:
        best = (outcome, status, completeness) == (_VERIFIED[0], _ACCEPTED[0], _FULL[0])
        return (ParentStatus.COMPLETED if best else ParentStatus.COMPLETED_WITH_WARNINGS), "verified"
    return ParentStatus.BLOCKED, "needs accepted and verified"
