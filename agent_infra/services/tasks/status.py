"""`task status`: where a task stands, why no commit is let through, and what to do next. Changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_infra.core.activity import pair_steps
from agent_infra.core.flows import check_flow
from agent_infra.core.glance import Glance, study
from agent_infra.core.lifecycle import Flow, Stage, left_out
from agent_infra.core.receipts import Receipt
from agent_infra.core.routing import Route
from agent_infra.core.run import RunStatus, State
from agent_infra.core.tasks import log_entries
from agent_infra.core.warnings import read_warnings
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.git.repo import discover
from agent_infra.services import records
from agent_infra.services.checks import check_required
from agent_infra.services.context import Context, run_config
from agent_infra.services.guard import authorize
from agent_infra.services.orchestrate import Present
from agent_infra.services.tasks.next_command import next_command
from agent_infra.stores.artifacts import artifact_names, read_task
from agent_infra.stores.workspace import ACTIVE, TaskPlace


@dataclass(frozen=True)
class GitFacts:
    """What git says where the work is done; None where it does not answer.

    Attributes:
        changed: how many paths differ from HEAD, untracked ones too.
    """

    branch: str | None = None
    expected: str | None = None
    head: str | None = None
    changed: int | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None

    @property
    def matches(self) -> bool | None:
        """Whether the checked-out branch is the task's; None where the task names none."""
        return self.branch == self.expected if self.expected else None


@dataclass(frozen=True)
class TaskStatus:
    """Everything that `task status` tells.

    Attributes:
        gate: why no commit of this task is let through; empty while one is.
        stale: approvals that don't count any more, each with the path that moved it.
        faults: what could not be read.
    """

    place: TaskPlace
    short_id: int | None
    seen: Glance
    flow: Flow
    state: State | None
    route: Route
    now: str
    git: GitFacts
    gate: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    last_step: str = ""
    command: str | None = None
    usage: dict[str, float] = field(default_factory=dict)

    @property
    def is_guarded(self) -> bool:
        """Whether the gate asks about this task at all."""
        return self.state is not None and self.state.run.guards

    @property
    def pending(self) -> Receipt | None:
        """The receipt in flight."""
        return self.state.pending if self.state else None

    def age(self, receipt: Receipt) -> float:
        """Seconds since a receipt reached the state that it is in."""
        since = receipt.sealed_at or receipt.completed_at or receipt.activated_at or receipt.created_at
        return (datetime.fromisoformat(self.now) - datetime.fromisoformat(since)).total_seconds()

    def to_json(self) -> dict[str, Any]:
        """The facts for programs."""
        step = self.route.step
        return {
            "taskId": self.place.task_id,
            "shortId": self.short_id,
            "state": self.place.state,
            "title": self.seen.title,
            "fields": self.seen.fields,
            "path": str(self.place.document),
            "flow": {"name": str(self.flow), "leavesOut": left_out(self.flow) or None},
            "run": _run(self.state),
            "next": step.to_json() if step else None,
            "pending": self._pending(),
            "gate": {"open": not self.gate if self.is_guarded else None, "why": list(self.gate)},
            "stale": list(self.stale),
            "notes": list(self.notes),
            "faults": list(self.faults),
            "artifacts": list(self.artifacts),
            "warnings": list(self.warnings),
            "lastStep": self.last_step or None,
            "git": {**vars(self.git), "matches": self.git.matches},
            "usage": self.usage,
            "command": self.command,
        }

    def _pending(self) -> dict[str, Any] | None:
        receipt = self.pending
        if receipt is None:
            return None
        names = ("id", "stage", "round", "role", "artifact", "status", "client", "agent", "origin")
        facts = {name: getattr(receipt, name) for name in names}
        return facts | {"childId": receipt.child_id, "ageSeconds": round(self.age(receipt), 1)}


def _run(state: State | None) -> dict[str, Any] | None:
    if state is None:
        return None
    run = state.run
    return {
        "runId": run.run_id,
        "status": run.status,
        "flow": run.flow,
        "pause": run.pause.to_json() if run.pause else None,
        "ended": run.ended.to_json() if run.ended else None,
        "stepCount": run.step_count,
        "maxSteps": run.max_steps,
        "worktree": run.worktree,
        "branch": run.branch,
        "commit": run.commit_authorization.commit,
    }


def task_status(context: Context, place: TaskPlace) -> TaskStatus:
    """Look at a task from every side; what can't be read is said, and never hides the rest."""
    faults: list[str] = []

    def tried(ask: Callable[[], Any], instead: Any) -> Any:
        try:
            return ask()
        except AgentInfraError as error:
            faults.append(f"{error.code}: {error.message}")
            return instead

    data = tried(lambda: read_task(place), b"")
    seen = study(data, place.task_id) if data else Glance({}, "", "")
    faults += [f"task.md: {seen.fault}"] if seen.fault else []
    state: State | None = tried(lambda: context.load(place), None)
    present = Present(context, place, state)
    is_over = place.state != ACTIVE or (state is not None and state.run.status == RunStatus.COMPLETED)
    route = Route() if is_over or seen.fault or not data else tried(present.route, Route())
    stale = () if is_over or not state else tried(lambda: _stale(context, present), ())
    git = tried(lambda: _git(context, state, seen), GitFacts(expected=seen.fields.get("branch") or None))
    return TaskStatus(
        place=place,
        short_id=context.workspace.short_id_of(place.task_id, short_id_length=_length(context)),
        seen=seen,
        flow=_flow(seen, state),
        state=state,
        route=route,
        now=context.now(),
        git=git,
        gate=_gate(present, route),
        stale=stale,
        notes=records.waiting_notes(state, context.now()) if state else (),
        faults=tuple(faults),
        artifacts=tuple(artifact.name for artifact in sorted(tried(lambda: artifact_names(place), ()))),
        warnings=_warnings(data),
        last_step=_last_step(data),
        command=next_command(place, state, route),
        usage=_usage(state),
    )


def _length(context: Context) -> int:
    try:
        return context.config.task.short_id_length
    except RefusedError:
        return 2


def _flow(seen: Glance, state: State | None) -> Flow:
    """The flow that counts: the run's, else the one that the task asks for."""
    wanted = state.run.flow if state else seen.fields.get("flow", "")
    return Flow(wanted) if wanted in set(Flow) else Flow.FULL


def _stale(context: Context, present: Present) -> tuple[str, ...]:
    return records.moved_notes(context, present.situation, lambda: present.product)


def _gate(present: Present, route: Route) -> tuple[str, ...]:
    """Why no commit of this task is let through, the nearest reason first; nothing while one is."""
    state = present.state
    if state is None or not state.run.guards:
        return ("no run of this task guards a branch, so the gate does not ask about it",)
    if authorize.is_open(state):
        return ()
    run, receipt = state.run, state.pending
    why = []
    if run.commit_authorization.commit:
        why.append(f"its commit {run.commit_authorization.commit[:10]} is made; nothing more is authorized")
    if run.status == RunStatus.PAUSED and run.pause:
        why.append(f"the run is paused, {run.pause.code}: {run.pause.message}")
    if receipt:
        why.append(f"{receipt.artifact} is {receipt.status}, and must be consumed first")
    elif route.fault:
        why.append(f"{route.fault.code}: {route.fault.message}")
    elif route.step and route.step.stage is not Stage.COMMIT:
        why.append(f"{route.step.stage} round {route.step.round} comes first")
    elif route.step:
        why += [*_before_commit(present), "the commit step is not prepared"]
    return tuple(why)


def _before_commit(present: Present) -> list[str]:
    """What `prepare` of the commit would refuse."""
    why = []
    questions: tuple[Callable[[], None], ...] = (
        lambda: authorize.check_hooks(present.context),
        lambda: check_required(present.situation, present.product),
        lambda: _check_flow(present),
    )
    for ask in questions:
        try:
            ask()
        except AgentInfraError as error:
            why.append(f"{error.code}: {error.message}")
    return why


def _check_flow(present: Present) -> None:
    state = present.state
    if state is not None and (rules := run_config(state).flow):
        changes = present.context.objects.diff(state.run.baseline.tree, present.product)
        paths = [change.name for change in changes]
        check_flow(Flow(state.run.flow), paths, rules, task_id=state.run.task_id)


def _git(context: Context, state: State | None, seen: Glance) -> GitFacts:
    """One look by git at the worktree of the run, or at this one.

    Raises:
        AgentInfraError: git can't look.
    """
    repo = context.repo
    if state and state.run.worktree != context.here:
        if not Path(state.run.worktree).is_dir():
            message = f"the run's worktree {state.run.worktree} is gone"
            raise RefusedError(ErrorCode.ORCHESTRATION_WORKTREE_MISMATCH, message)
        repo = discover(Path(state.run.worktree))
    out = repo.run("status", "--porcelain=v2", "--branch", "-z").stdout.decode(errors="replace")
    head: dict[str, str] = {}
    changed = 0
    fields = iter(out.split("\0"))
    for line in fields:
        if line.startswith("# "):
            name, _, value = line[2:].partition(" ")
            head[name] = value
        elif line:
            changed += 1
            if line.startswith("2 "):
                next(fields, "")  # a renamed entry has its old name in a field of its own
    ahead, _, behind = head.get("branch.ab", "").partition(" ")
    branch, oid = head.get("branch.head"), head.get("branch.oid", "")
    return GitFacts(
        branch=None if branch == "(detached)" else branch,
        expected=(state.run.branch if state else None) or seen.fields.get("branch") or None,
        head=None if oid == "(initial)" else oid,
        changed=changed,
        upstream=head.get("branch.upstream"),
        ahead=int(ahead) if ahead else None,
        behind=-int(behind) if behind else None,
    )


def _warnings(data: bytes) -> tuple[str, ...]:
    """The workflow warnings that are open."""
    from agent_infra.core.markdown import DocumentError, read_document

    try:
        rows = read_warnings(read_document(data))
    except DocumentError:
        return ()
    return tuple(f"{row.id} {row.severity}: {row.message} ({row.action})" for row in rows if row.status == "open")


def _last_step(data: bytes) -> str:
    try:
        steps = pair_steps(log_entries(data))
    except AgentInfraError:
        return ""
    if not steps:
        return ""
    last = steps[-1]
    when = f"since {last.started}" if last.is_open else f"at {last.done}"
    return f"{last.step} by {last.agent}, {'in progress' if last.is_open else 'done'} {when}"


def _usage(state: State | None) -> dict[str, float]:
    """What the clients said that the steps took, summed up over the receipts that say it."""
    total: dict[str, float] = {}
    for receipt in state.run.receipts if state else ():
        for name, value in (receipt.usage or {}).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                total[name] = round(total.get(name, 0) + value, 6)
    return total
