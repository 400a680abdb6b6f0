"""Delegation receipts: the evidence that one child did one step, on which workspace before, which after, what changed.

A receipt moves prepared -> activated -> stage-completed -> sealed -> consumed, or to aborted. Each function takes a
receipt and what happened, and returns the changed receipt or raises the rule that says no. Which refusals pause a
run is the services' business. Source: the reference's receipt checks, in its order (lib/task/orchestration.ts).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent_infra.core.clients import accepts_agent
from agent_infra.core.lifecycle import NATIVE_AGENTS, Role, Stage, Step
from agent_infra.core.machines import Arrow, Table
from agent_infra.core.record import Record
from agent_infra.errors import AgentInfraError, ErrorCode, IgnoredEventError, RefusedError


class ReceiptStatus(StrEnum):
    """Where a delegation stands."""

    PREPARED = "prepared"
    ACTIVATED = "activated"
    STAGE_COMPLETED = "stage-completed"
    SEALED = "sealed"
    CONSUMED = "consumed"
    ABORTED = "aborted"


class Outcome(StrEnum):
    """How the child ended; unknown unless it was seen."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class Origin(StrEnum):
    """Who reported the events of a receipt."""

    HOOK = "hook"
    DRIVER = "driver"
    CLI = "cli"
    HUMAN = "human"


class Input(Record):
    """An artifact that a step judged or built on, by its bytes."""

    name: str
    sha256: str


class PathChange(Record):
    """One product path that differs from the baseline: `mode` and `oid` are null where it is gone."""

    path: str
    mode: str | None
    oid: str | None


class Receipt(Record):
    """One delegation: fingerprints are git tree ids, times RFC 3339 UTC with ms, paths repo-relative and sorted."""

    id: str
    task_id: str
    run_id: str
    role: str
    stage: str
    round: int
    artifact: str
    client: str
    origin: str
    requested_model: str | None = None
    requested_effort: str | None = None
    actual_model: str | None = None
    actual_effort: str | None = None
    model_fallback_reason: str | None = None
    parent_id: str | None = None
    child_id: str | None = None
    spawn_mode: str | None = None
    agent: str | None = None
    status: str = ReceiptStatus.PREPARED.value
    outcome: str | None = None
    inputs: list[Input] = []
    artifact_digest: str | None = None
    input_tree: str | None = None
    input_changes: list[PathChange] | None = None
    before_fingerprint: str
    after_fingerprint: str | None = None
    changed_paths: list[str] = []
    head_before: str | None = None
    head_after: str | None = None
    index_before: str | None = None
    index_after: str | None = None
    control_before: str | None = None
    control_after: str | None = None
    ledger: list[list[str]] = []
    usage: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    created_at: str
    activated_at: str | None = None
    completed_at: str | None = None
    sealed_at: str | None = None
    consumed_at: str | None = None
    aborted_at: str | None = None
    abort_reason: str | None = None

    @property
    def step(self) -> Step:
        """What was delegated."""
        return Step(Stage(self.stage), self.round, self.artifact)


@dataclass(frozen=True)
class Activation:
    """A native start: who was started, by whom, how."""

    client: str
    native_agent: str
    child_id: str
    parent_id: str
    spawn_mode: str
    actual_model: str | None = None
    actual_effort: str | None = None
    fallback_reason: str | None = None


@dataclass(frozen=True)
class Told:
    """What a client says about its child beside what happened: allow-listed by its adapter, a reason for nothing.

    Attributes:
        usage: counts by name.
        evidence: words by name.
    """

    usage: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)

    def added_to(self, receipt: Receipt) -> Receipt:
        """The receipt with this in it, beside what is known already."""
        usage = {**(receipt.usage or {}), **self.usage}
        evidence = {**(receipt.evidence or {}), **self.evidence}
        return receipt.evolve(usage=usage or None, evidence=evidence or None)


@dataclass(frozen=True)
class Completion:
    """A child's word that its step is done; `artifact_digest` is ours, not the child's."""

    stage: str
    round: int
    artifact: str
    agent: str
    artifact_digest: str | None = None


@dataclass(frozen=True)
class Sealing:
    """A native stop, and the workspace that the child left.

    Attributes:
        allowed_paths: what a reviewer may have changed.
        head_moved: what became of HEAD and its branch, in words, or `None` where nothing did.
        control_changed: the items of the control digest that changed.
    """

    child_id: str
    native_agent: str
    exit_code: int
    after_fingerprint: str
    changed_paths: tuple[str, ...]
    allowed_paths: tuple[str, ...]
    head_after: str | None
    index_after: str | None
    control_after: str | None
    head_moved: str | None = None
    control_changed: tuple[str, ...] = ()


def native_role(native_agent: str) -> Role:
    """The role of a managed agent, by its exact name.

    Raises:
        IgnoredEventError: the agent is none of ours.
    """
    role = NATIVE_AGENTS.get(native_agent)
    if role is None:
        # the reference answers DELEGATION_IGNORED; we answer in silence
        raise IgnoredEventError(ErrorCode.ORCHESTRATION_DELEGATION_MISSING, f"{native_agent} is not a managed agent")
    return role


def is_same_activation(receipt: Receipt, event: Activation) -> bool:
    """Whether this very start was recorded before."""
    recorded = (receipt.client, receipt.child_id, receipt.parent_id, receipt.spawn_mode)
    return recorded == (event.client, event.child_id, event.parent_id, event.spawn_mode) and (
        NATIVE_AGENTS.get(event.native_agent) == receipt.role
    )


def same_role(receipt: Receipt, event: Activation | Sealing) -> None:
    """The native agent plays the role that was prepared."""
    role = native_role(event.native_agent)
    if role != receipt.role:
        message = (
            f"receipt {receipt.id} of {receipt.stage} is for the {receipt.role}, but {event.native_agent} reported"
        )
        raise RefusedError(ErrorCode.DELEGATION_ROLE_MISMATCH, message)


def own_identity(receipt: Receipt, event: Activation) -> None:
    """Parent and child are named, and not the same."""
    if not event.parent_id or not event.child_id or event.parent_id == event.child_id:
        message = f"parent {event.parent_id!r} and child {event.child_id!r} must be two names"
        raise RefusedError(ErrorCode.DELEGATION_IDENTITY_INVALID, message)
    if receipt.parent_id not in (None, event.parent_id):
        message = f"receipt {receipt.id} belongs to parent {receipt.parent_id}, but {event.parent_id} reported"
        raise RefusedError(ErrorCode.DELEGATION_IDENTITY_INVALID, message)


def fresh_spawn(_receipt: Receipt, event: Activation) -> None:
    """The child started with an empty context."""
    if event.spawn_mode != "fresh":
        message = f"spawn mode is {event.spawn_mode!r}, expected 'fresh': a fork would judge its own work"
        raise RefusedError(ErrorCode.DELEGATION_FORK_FORBIDDEN, message)


def recorded_fallback(receipt: Receipt, event: Activation) -> None:
    """Another model than the requested one came with a reason."""
    requested, actual = receipt.requested_model, event.actual_model
    if requested and actual and requested != actual and not event.fallback_reason:
        message = f"model {requested} was requested and {actual} runs; --fallback-reason must say why"
        raise RefusedError(ErrorCode.DELEGATION_MODEL_FALLBACK_UNRECORDED, message)


def same_step(receipt: Receipt, event: Completion) -> None:
    """The child finished what was delegated, and nothing else."""
    wanted = (receipt.stage, receipt.round, receipt.artifact)
    found = (event.stage, event.round, event.artifact)
    if wanted != found:
        message = f"receipt {receipt.id} is for {_words(wanted)}, but {_words(found)} was reported"
        raise RefusedError(ErrorCode.DELEGATION_STAGE_MISMATCH, message)


def same_agent(receipt: Receipt, event: Completion) -> None:
    """The agent token is one of the receipt's client."""
    if not accepts_agent(receipt.client, event.agent):
        message = f"receipt {receipt.id} belongs to client {receipt.client}, but agent {event.agent!r} reported"
        raise RefusedError(ErrorCode.DELEGATION_AGENT_MISMATCH, message)


def check_child(receipt: Receipt, child_id: str) -> None:
    """The child that was activated is the one that is meant.

    Raises:
        RefusedError: DELEGATION_STOP_INVALID.
    """
    if receipt.child_id != child_id:
        message = f"receipt {receipt.id} belongs to child {receipt.child_id}, but {child_id} reported"
        raise RefusedError(ErrorCode.DELEGATION_STOP_INVALID, message)


def same_child(receipt: Receipt, event: Sealing) -> None:
    """The child that was activated is the one that stopped."""
    check_child(receipt, event.child_id)


def clean_exit(receipt: Receipt, event: Sealing) -> None:
    """The child ended well."""
    if event.exit_code != 0:
        message = f"child {receipt.child_id} ended with exit code {event.exit_code}, expected 0"
        raise RefusedError(ErrorCode.DELEGATION_STOP_INVALID, message)


def head_stayed(receipt: Receipt, event: Sealing) -> None:
    """Nobody moves HEAD or the branch; the commit stage moves it to the authorized commit and no further."""
    if event.head_moved:
        message = f"the {receipt.role} of {receipt.stage} moved HEAD: {event.head_moved}"
        raise RefusedError(ErrorCode.DELEGATION_HEAD_MOVED, message)


def reviewer_wrote_only_review(receipt: Receipt, event: Sealing) -> None:
    """A reviewer changed nothing but its artifact and task.md: no product path, not the index."""
    if receipt.role != Role.REVIEWER:
        return
    strangers = [path for path in event.changed_paths if path not in event.allowed_paths]
    if strangers:
        message = (
            f"the reviewer of {receipt.stage} changed {_some(strangers)}; it may write {_some(event.allowed_paths)}"
        )
        raise RefusedError(ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN, message, *strangers)
    if receipt.index_before != event.index_after:
        message = f"the reviewer of {receipt.stage} changed the git index"
        raise RefusedError(ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN, message)


def control_stayed(receipt: Receipt, event: Sealing) -> None:
    """The child left hooks, git configuration and client settings alone."""
    if event.control_changed:
        message = f"the {receipt.role} of {receipt.stage} changed what controls it: {_some(event.control_changed)}"
        raise RefusedError(ErrorCode.DELEGATION_CONTROL_CHANGED, message, *event.control_changed)


def not_consumed(receipt: Receipt) -> None:
    """A receipt counts once."""
    if receipt.status == ReceiptStatus.CONSUMED:
        raise RefusedError(ErrorCode.DELEGATION_REPLAY, f"receipt {receipt.id} was consumed at {receipt.consumed_at}")


def _refusal(status: str, trigger: str) -> AgentInfraError:
    expected = [arrow.source for arrow in RECEIPT.arrows if arrow.trigger == trigger]
    message = f"the receipt is {status}, but to {trigger} it must be {' or '.join(expected)}"
    return RefusedError(ErrorCode.DELEGATION_STATE_INVALID, message)


_S = ReceiptStatus
RECEIPT = Table(
    "receipt",
    tuple(ReceiptStatus),
    (
        Arrow("activate", _S.PREPARED, _S.ACTIVATED, (same_role, own_identity, fresh_spawn, recorded_fallback)),
        Arrow("complete", _S.ACTIVATED, _S.STAGE_COMPLETED, (same_step, same_agent)),
        # a child may mend its artifact until it stops
        Arrow("mend", _S.STAGE_COMPLETED, _S.STAGE_COMPLETED, (same_step, same_agent)),
        Arrow(
            "seal",
            _S.STAGE_COMPLETED,
            _S.SEALED,
            (same_child, same_role, clean_exit, head_stayed, reviewer_wrote_only_review, control_stayed),
        ),
        Arrow("consume", _S.SEALED, _S.CONSUMED),
        *(Arrow("abort", status, _S.ABORTED) for status in (_S.PREPARED, _S.ACTIVATED, _S.STAGE_COMPLETED, _S.SEALED)),
    ),
    _refusal,
)


def activate(receipt: Receipt, event: Activation, *, now: str) -> Receipt:
    """Bind a prepared receipt to the child that started.

    Raises:
        RefusedError: DELEGATION_STATE_INVALID, _ROLE_MISMATCH, _IDENTITY_INVALID, _FORK_FORBIDDEN or
            _MODEL_FALLBACK_UNRECORDED, in this order.
        IgnoredEventError: the agent is none of ours.
    """
    native_role(event.native_agent)
    return receipt.evolve(
        status=RECEIPT.follow(receipt.status, "activate", receipt, event),
        child_id=event.child_id,
        parent_id=event.parent_id,
        spawn_mode=event.spawn_mode,
        actual_model=event.actual_model,
        actual_effort=event.actual_effort,
        model_fallback_reason=event.fallback_reason,
        activated_at=now,
    )


def complete(receipt: Receipt, event: Completion, *, now: str) -> Receipt:
    """Record that the child says its step is done; the artifact was checked before.

    Raises:
        RefusedError: DELEGATION_STATE_INVALID, _STAGE_MISMATCH or _AGENT_MISMATCH, in this order.
    """
    trigger = "mend" if receipt.status == ReceiptStatus.STAGE_COMPLETED else "complete"
    return receipt.evolve(
        status=RECEIPT.follow(receipt.status, trigger, receipt, event),
        agent=event.agent,
        artifact_digest=event.artifact_digest,
        completed_at=now,
    )


def seal(receipt: Receipt, event: Sealing, *, now: str) -> Receipt:
    """Close a completed step with the workspace that its child left behind.

    Raises:
        RefusedError: DELEGATION_STATE_INVALID, _STOP_INVALID, _ROLE_MISMATCH, _HEAD_MOVED,
            _REVIEWER_WRITE_FORBIDDEN or _CONTROL_CHANGED: the first fault in the table's order.
    """
    return receipt.evolve(
        status=RECEIPT.follow(receipt.status, "seal", receipt, event),
        outcome=Outcome.SUCCESS.value,
        after_fingerprint=event.after_fingerprint,
        changed_paths=list(event.changed_paths),
        head_after=event.head_after,
        index_after=event.index_after,
        control_after=event.control_after,
        sealed_at=now,
    )


def consume(receipt: Receipt, *, now: str) -> Receipt:
    """Let a sealed receipt count.

    Raises:
        RefusedError: DELEGATION_REPLAY if it counted before, DELEGATION_STATE_INVALID unless it is sealed.
    """
    not_consumed(receipt)
    return receipt.evolve(status=RECEIPT.follow(receipt.status, "consume"), consumed_at=now)


def abort(receipt: Receipt, *, reason: str, now: str) -> Receipt:
    """End a receipt that will never count.

    Raises:
        RefusedError: DELEGATION_STATE_INVALID if it is consumed or aborted.
    """
    status = RECEIPT.follow(receipt.status, "abort")
    return receipt.evolve(
        status=status, outcome=receipt.outcome or Outcome.UNKNOWN.value, aborted_at=now, abort_reason=reason
    )


def changes(before: Receipt | None, after: Receipt) -> Mapping[str, Any]:
    """The camelCase fields of `after` that differ from `before`: what an event of the journal holds."""
    known = before.to_json() if before else {}
    return {key: value for key, value in after.to_json().items() if key not in known or known[key] != value}


def _words(step: tuple[str, int, str]) -> str:
    return f"{step[0]} round {step[1]} ({step[2]})"


def _some(names: list[str] | tuple[str, ...], limit: int = 8) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
