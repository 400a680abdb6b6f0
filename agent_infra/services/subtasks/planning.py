"""From a task on disk to a planned orchestration. Reads, and writes nothing at all."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_infra.core.config import Config, SubtasksConfig
from agent_infra.core.facts import Situation, phase_facts
from agent_infra.core.frontmatter import Value, has_front_matter, parse_front_matter
from agent_infra.core.lifecycle import STAGES_OF_FLOW, Flow, Role, Stage
from agent_infra.core.routing import ArtifactFact, ReviewFact
from agent_infra.core.run import RunStatus, State
from agent_infra.core.subtasks.plan import Limits, Split, Subtask, read_split
from agent_infra.core.subtasks.planning import Planning, Policy, Request, plan_task
from agent_infra.errors import AgentInfraError
from agent_infra.services.context import Context, run_config
from agent_infra.stores.subtasks import SubtaskStore
from agent_infra.stores.workspace import TaskPlace

_ROOM = 64 << 20  # bytes that must be free before worktrees are made
_INHERITED = {"priority": "priority", "requestKind": "request_kind", "sourceRequest": "source_request"} | {
    "sourceSpec": "source_spec"
}


@dataclass(frozen=True)
class Asked:
    """What a call says beside the task.

    Attributes:
        depth: of this orchestration, counted from 1.
        engine: for subtasks that name none.
        preflight: says what an engine of a name lacks; None when nothing.
        must_run: whether it is for real: then the plan must be approved and the code stage open.
    """

    depth: int = 1
    engine: str = ""
    preflight: Callable[[str], str | None] = lambda _: None
    must_run: bool = False


@dataclass(frozen=True)
class Planned:
    """A planned orchestration, with what it was planned from."""

    place: TaskPlace
    state: State | None
    config: Config
    request: Request
    planning: Planning
    store: SubtaskStore
    fields: dict[str, str]
    plan_name: str | None = None

    def subtask(self, subtask_id: str) -> Subtask:
        """A planned subtask by its id."""
        return next(subtask for subtask in self.planning.subtasks if subtask.id == subtask_id)

    def engine_of(self, subtask_id: str) -> str:
        """The engine that is assigned to a subtask."""
        return dict(self.planning.assignments).get(subtask_id) or self.request.engine or ""

    def inherited(self) -> dict[str, Any]:
        """What children take over from their parent."""
        named = {name: self.fields.get(name, self.fields.get(key)) for name, key in _INHERITED.items()}
        return {name: value for name, value in named.items() if value}


def plan(context: Context, ref: str, asked: Asked) -> Planned:
    """Plan a task's subtasks as the newest plan has them.

    Raises:
        RefusedError: what resolving the task raises; ORCHESTRATION_TASK_INVALID for a broken task.md.
    """
    place = context.active(ref)
    state = context.load(place)
    config = _config(context, state)
    situation = context.situation(place, state, lambda: "")
    fields = parse_front_matter(situation.folder.task, flat=True).fields
    store = SubtaskStore(context.runs.folder, place.task_id)
    split, name, faults = _split(situation, config.subtasks)
    if asked.must_run:
        faults += _not_ready(context, situation, state, split)
    engine = asked.engine or fields.get("engine") or default_engine(config)
    request = Request(
        task_id=place.task_id,
        split=split,
        depth=asked.depth,
        runs=store.trail().next_attempt(place.task_id) - 1,
        engine=engine,
        engines=frozenset(config.engines),
        preflight=(*faults, *_lacking(split, engine, config, asked)),
        spent=_spent(store, config.subtasks),
        limits=limits_of(config.subtasks),
        policy=_policy(config.subtasks),
    )
    return Planned(place, state, config, request, plan_task(request), store, fields, name)


def _config(context: Context, state: State | None) -> Config:
    """A running run goes by the rules of its begin."""
    return run_config(state) if state and state.run.status != RunStatus.COMPLETED else context.config


def default_engine(config: Config) -> str | None:
    """The engine of subtasks that name none: the configured one, or the only one there is."""
    return config.subtasks.engine or (next(iter(config.engines)) if len(config.engines) == 1 else None)


def _lacking(split: Split, engine: str | None, config: Config, asked: Asked) -> list[str]:
    """What the engines in question need and don't find."""
    used = {subtask.engine or engine for subtask in split.subtasks} or {engine}
    known = sorted(name for name in used if name in config.engines)
    return [fault for name in known if (fault := asked.preflight(name))]


def _policy(settings: SubtasksConfig) -> Policy:
    return Policy(tuple(settings.forbidden), tuple(settings.protected), tuple(settings.risk), settings.max_runs)


def limits_of(settings: SubtasksConfig) -> Limits:
    """The limits that a project set."""
    return Limits(settings.max_depth, settings.max_subtasks, settings.max_agents_per_manager, settings.max_transitions)


def _spent(store: SubtaskStore, settings: SubtasksConfig) -> tuple[str, ...]:
    """Which budget of the task is used up."""
    facts = [record.facts for record in store.records()]
    tokens = sum((fact.get("inputTokens") or 0) + (fact.get("outputTokens") or 0) for fact in facts)
    cost = sum(fact.get("costUsd") or 0 for fact in facts)
    seconds = sum(fact.get("durationMs") or 0 for fact in facts) / 1000
    limits = (
        (tokens, settings.max_tokens, "tokens"),
        (cost, settings.max_cost_usd, "USD"),
        (seconds, settings.max_seconds, "seconds"),
    )
    return tuple(f"{used:g} of {limit:g} {name} are used up" for used, limit, name in limits if limit and used >= limit)


def _split(situation: Situation, settings: SubtasksConfig) -> tuple[Split, str | None, list[str]]:
    """The subtasks of the newest plan, its name, and what stands in the way of running them."""
    flow = Flow(situation.flow)
    newest = situation.newest(Stage.PLAN)
    if newest is None or Stage.PLAN not in STAGES_OF_FLOW[flow]:
        return Split(), None, []
    return split_of(newest.data, limits_of(settings)), newest.name, []


def split_of(data: bytes, limits: Limits | None = None) -> Split:
    """The subtasks in a plan's bytes; front matter that can't be read is a fault like any other."""
    try:
        fields: dict[str, Value] = parse_front_matter(data, flat=False).fields if has_front_matter(data) else {}
    except AgentInfraError as error:
        return Split(errors=(error.message,))
    return read_split(fields, limits or Limits())


def _not_ready(context: Context, situation: Situation, state: State | None, split: Split) -> list[str]:
    """What must be so before anything is started."""
    faults = []
    if context.repo.head().oid is None:
        faults.append("there is no commit yet, and children work from one")
    if shutil.disk_usage(context.repo.common_dir).free < _ROOM:
        faults.append(f"less than {_ROOM >> 20} MiB are free for worktrees")
    newest = situation.newest(Stage.PLAN)
    if split.subtasks and newest is not None and not is_approved(situation):
        faults.append(f"{newest.name} is not approved: its review comes first")
    if state is not None and state.run.status != RunStatus.COMPLETED:
        receipt = state.pending
        if state.run.status != RunStatus.RUNNING or receipt is None or receipt.stage != Stage.CODE:
            faults.append(f"the run is {state.run.status} and its code step is not open; subtasks run in that step")
        elif receipt.role != Role.EXECUTOR:
            faults.append("the pending step is a reviewer's; subtasks run in the executor's code step")
    return faults


def is_approved(situation: Situation) -> bool:
    """Whether the newest plan stands and its review approves it."""
    facts = phase_facts(situation, Stage.PLAN)
    return facts.artifact == ArtifactFact.READY and facts.review == ReviewFact.APPROVES


def digest_of(subtask: Subtask, engine: str) -> str:
    """SHA-256 of what a subtask asks for: another text is another piece of work, whatever its id."""
    evidence = [[criterion.text, criterion.command, list(criterion.evidence)] for criterion in subtask.acceptance]
    said = json.dumps([subtask.to_json(), evidence, engine], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(said.encode()).hexdigest()
