"""May this task be run, and how: the runtime gate, and the bounded loop that makes a plan of the answer.

The loop is a table; its trace says which step followed which and why. It starts nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from agent_infra.core.globs import matches
from agent_infra.core.machines import Arrow, Table
from agent_infra.core.subtasks.conflicts import Conflict, find_conflicts
from agent_infra.core.subtasks.plan import Limits, Split, Subtask
from agent_infra.core.subtasks.waves import Wave, plan_waves, serial_order
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError


class Decision(StrEnum):
    """What the gate says about a task."""

    RUN = "RUN"
    DELEGATE = "DELEGATE"
    BLOCK = "BLOCK"
    NEEDS_HUMAN = "NEEDS_HUMAN"


class LoopState(StrEnum):
    """Where the planning loop is."""

    RECEIVED = "received"
    CLASSIFIED = "classified"
    GATED = "gated"
    DECOMPOSED = "decomposed"
    ASSIGNED = "assigned"
    SCHEDULED = "scheduled"
    COMPLETED = "loop.completed"
    BLOCKED = "loop.blocked"
    NEEDS_HUMAN = "loop.needs_human"


ENDS = frozenset({LoopState.COMPLETED, LoopState.BLOCKED, LoopState.NEEDS_HUMAN})
_STEPS = {
    LoopState.RECEIVED: ("classify", LoopState.CLASSIFIED),
    LoopState.CLASSIFIED: ("gate", LoopState.GATED),
    LoopState.DECOMPOSED: ("assign", LoopState.ASSIGNED),
    LoopState.ASSIGNED: ("schedule", LoopState.SCHEDULED),
    LoopState.SCHEDULED: ("finish", LoopState.COMPLETED),
}


def _no_arrow(state: str, trigger: str) -> AgentInfraError:
    return RefusedError(
        ErrorCode.SUBTASK_PLAN_INVALID, f"the planning loop is {state}, {trigger} leads nowhere from there"
    )


LOOP = Table(
    "planning loop",
    tuple(LoopState),
    (
        *(Arrow(trigger, source, dest) for source, (trigger, dest) in _STEPS.items()),
        Arrow("decompose", LoopState.GATED, LoopState.DECOMPOSED),
        Arrow("run", LoopState.GATED, LoopState.ASSIGNED),
        *(Arrow("block", state, LoopState.BLOCKED) for state in LoopState if state not in ENDS),
        *(Arrow("ask", state, LoopState.NEEDS_HUMAN) for state in LoopState if state not in ENDS),
    ),
    _no_arrow,
)


@dataclass(frozen=True)
class Policy:
    """What a project wants of its subtasks.

    Attributes:
        forbidden: gitignore patterns nobody's subtask may declare.
        protected: patterns for which a person is asked.
        risk: patterns that make a task risky, which is said, not refused.
        max_runs: orchestrations that one task may have.
    """

    forbidden: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    risk: tuple[str, ...] = ()
    max_runs: int = 20


@dataclass(frozen=True)
class Request:
    """All that planning looks at.

    Attributes:
        depth: of this orchestration, counted from 1.
        runs: orchestrations that this task had before.
        engine: the configured default, None where there is none.
        engines: names that the configuration knows.
        preflight: what was found missing before anything was started; empty when all is there.
        rank: ids in the order in which ready ones should be taken, one at a time.
        spent: what of the budget is used up, in words; empty when none is.
    """

    task_id: str
    split: Split
    depth: int = 1
    runs: int = 0
    engine: str | None = None
    engines: frozenset[str] = frozenset()
    preflight: tuple[str, ...] = ()
    spent: tuple[str, ...] = ()
    rank: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True)
class Gate:
    """The runtime gate's answer, with what it rests on."""

    decision: Decision
    reasons: tuple[str, ...]
    classification: dict[str, Any]
    selected_engine: str | None
    runs: int

    def to_json(self, request: Request) -> dict[str, Any]:
        """As in a result's plan."""
        return {
            "decision": str(self.decision),
            "reasons": list(self.reasons),
            "classification": self.classification,
            "selectedManager": "subtasks" if self.decision == Decision.DELEGATE else "direct",
            "selectedEngine": self.selected_engine,
            "preflight": {"ok": not request.preflight, "faults": list(request.preflight)},
            "budget": {"ok": not request.spent, "spent": list(request.spent), "runs": self.runs},
            "policy": {"forbidden": list(request.policy.forbidden), "protected": list(request.policy.protected)},
        }


@dataclass(frozen=True)
class TraceStep:
    """One move of the loop."""

    source: str
    trigger: str
    dest: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """As in a result's trace."""
        return {"from": self.source, "event": self.trigger, "to": self.dest, "reason": self.reason}


@dataclass(frozen=True)
class Planning:
    """What the loop ended with.

    Attributes:
        assignments: engine by subtask id; None where no engine is known.
        order: one order for one at a time.
    """

    state: LoopState = LoopState.RECEIVED
    gate: Gate | None = None
    subtasks: tuple[Subtask, ...] = ()
    assignments: tuple[tuple[str, str | None], ...] = ()
    order: tuple[str, ...] = ()
    waves: tuple[Wave, ...] = ()
    waves_error: str | None = None
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    trace: tuple[TraceStep, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the loop came to its good end."""
        return self.state == LoopState.COMPLETED

    @property
    def refusal(self) -> str | None:
        """Why real mode is refused; None where it may go on."""
        if self.state != LoopState.COMPLETED:
            return self.trace[-1].reason if self.trace else "planning did not begin"
        blocking = [conflict.reason for conflict in self.conflicts if conflict.is_blocking]
        return f"a blocking conflict stands: {blocking[0]}" if blocking else None

    def to_json(self, request: Request) -> dict[str, Any]:
        """A result's `plan`."""
        return {
            "state": str(self.state),
            "completedPlanning": self.is_complete,
            "runtimeGate": self.gate.to_json(request) if self.gate else None,
            "plannedSubtasks": [subtask.to_json() for subtask in self.subtasks],
            "plannedDelegation": {
                "assignments": [{"subtaskId": name, "candidateEngine": engine} for name, engine in self.assignments]
            },
            "simulation": {"order": list(self.order)},
            "conflicts": [conflict.to_json() for conflict in self.conflicts],
            "decisions": [str(self.gate.decision)] if self.gate else [],
            "warnings": list(self.warnings),
            "errors": list(self.errors),
        }


def open_gate(request: Request) -> Gate:
    """Whether a task may run, and whether it is split: counts, policy, budget and preflight, worst answer first."""
    files = sorted({path for subtask in request.split.subtasks for path in subtask.expected_files})
    blocks = [*request.preflight, *request.spent, *_limit_faults(request)]
    blocks += [f"{path} is forbidden by the configuration" for path in files if matches(path, request.policy.forbidden)]
    asks = [f"{path} is protected: a person decides" for path in files if matches(path, request.policy.protected)]
    if blocks:
        decision, reasons = Decision.BLOCK, blocks
    elif asks:
        decision, reasons = Decision.NEEDS_HUMAN, asks
    elif request.split.subtasks:
        decision, reasons = Decision.DELEGATE, [f"the plan names {len(request.split.subtasks)} subtasks"]
    else:
        decision, reasons = Decision.RUN, ["the plan names no subtasks"]
    return Gate(decision, tuple(reasons), _classify(files, request.policy), request.engine, request.runs)


def _limit_faults(request: Request) -> list[str]:
    faults = []
    if request.depth > request.limits.max_depth:
        faults.append(f"depth {request.depth} is above the limit of {request.limits.max_depth}")
    if request.runs >= request.policy.max_runs:
        faults.append(f"the task had {request.runs} orchestrations, the limit is {request.policy.max_runs}")
    return faults


def _classify(files: Sequence[str], policy: Policy) -> dict[str, Any]:
    """How big and how risky the declared files make a task."""
    risky = [path for path in files if matches(path, policy.risk)]
    return {
        "files": len(files),
        "folders": len({path.rpartition("/")[0] for path in files}),
        "risk": "high" if risky else "normal",
        "riskyFiles": risky,
    }


def plan_task(request: Request) -> Planning:
    """Run the loop until it ends or `max_transitions` is reached, which blocks."""
    plan = Planning(warnings=request.split.warnings, errors=request.split.errors)
    while plan.state not in ENDS:
        if len(plan.trace) >= request.limits.max_transitions:
            return _moved(plan, "block", f"more than {request.limits.max_transitions} steps of planning")
        plan = _MOVES[plan.state](plan, request)
    return plan


def _moved(plan: Planning, trigger: str, reason: str, **changes: Any) -> Planning:
    dest = LoopState(LOOP.follow(plan.state, trigger))
    step = TraceStep(str(plan.state), trigger, str(dest), reason)
    errors = (*plan.errors, reason) if trigger == "block" and reason not in plan.errors else plan.errors
    return replace(plan, **{"errors": errors, **changes}, state=dest, trace=(*plan.trace, step))


def _received(plan: Planning, request: Request) -> Planning:
    if plan.errors:
        return _moved(plan, "block", plan.errors[0], subtasks=request.split.subtasks)
    return _moved(plan, "classify", f"{len(request.split.subtasks)} subtasks declared", subtasks=request.split.subtasks)


def _classified(plan: Planning, request: Request) -> Planning:
    gate = open_gate(request)
    return _moved(plan, "gate", f"{gate.decision}: {gate.reasons[0]}", gate=gate)


def _gated(plan: Planning, request: Request) -> Planning:
    gate = plan.gate or open_gate(request)
    if gate.decision == Decision.BLOCK:
        return _moved(plan, "block", gate.reasons[0], errors=(*plan.errors, *gate.reasons))
    if gate.decision == Decision.NEEDS_HUMAN:
        return _moved(plan, "ask", gate.reasons[0], warnings=(*plan.warnings, *gate.reasons))
    trigger = "decompose" if gate.decision == Decision.DELEGATE else "run"
    return _moved(plan, trigger, gate.reasons[0])


def _decomposed(plan: Planning, request: Request) -> Planning:
    """Each subtask's engine: its own, else the configured default."""
    engines = tuple((subtask.id, subtask.engine or request.engine) for subtask in plan.subtasks)
    faults = [_engine_fault(name, engine, request) for name, engine in engines]
    if found := [fault for fault in faults if fault]:
        return _moved(plan, "block", found[0], assignments=engines, errors=(*plan.errors, *found))
    return _moved(plan, "assign", f"{len(engines)} engines assigned", assignments=engines)


def _engine_fault(name: str, engine: str | None, request: Request) -> str | None:
    if engine is None:
        return f"subtask {name} has no engine: name one in the plan, or `subtasks.engine` in .agents/config.toml"
    if engine not in request.engines:
        known = ", ".join(sorted(request.engines)) or "none"
        return f"subtask {name}: the engine {engine} is not configured; known are {known}"
    return None


def _assigned(plan: Planning, request: Request) -> Planning:
    conflicts = find_conflicts(plan.subtasks)
    try:
        waves = plan_waves(plan.subtasks)
    except RefusedError as error:
        message = str(error.message)
        return _moved(plan, "block", message, conflicts=conflicts, waves_error=message)
    order = serial_order(plan.subtasks, request.rank)
    notes = tuple(conflict.reason for conflict in conflicts)
    planned = {"conflicts": conflicts, "waves": waves, "order": order, "warnings": (*plan.warnings, *notes)}
    return _moved(plan, "schedule", f"{len(waves)} waves, {len(conflicts)} conflicts", **planned)


def _scheduled(plan: Planning, _: Request) -> Planning:
    return _moved(plan, "finish", "every subtask has an engine and a place")


_MOVES: dict[LoopState, Callable[[Planning, Request], Planning]] = {
    LoopState.RECEIVED: _received,
    LoopState.CLASSIFIED: _classified,
    LoopState.GATED: _gated,
    LoopState.DECOMPOSED: _decomposed,
    LoopState.ASSIGNED: _assigned,
    LoopState.SCHEDULED: _scheduled,
}
