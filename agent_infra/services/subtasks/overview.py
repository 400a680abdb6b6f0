"""What is on record of a task's subtasks: where each stands, what was kept, what may go."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_infra.core.subtasks.result import REAL, Result
from agent_infra.core.subtasks.trail import TrailEvent
from agent_infra.core.subtasks.waves import ChildStatus
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import worktrees
from agent_infra.git.refs import is_ancestor
from agent_infra.services.context import Context
from agent_infra.services.subtasks.evidence import capture
from agent_infra.services.subtasks.planning import Planned
from agent_infra.services.subtasks.results import Results
from agent_infra.stores.atomic import is_locked, locked
from agent_infra.stores.subtasks import ChildRecord, SubtaskStore


@dataclass(frozen=True)
class Kept:
    """A worktree that stays because it holds work that is merged nowhere."""

    subtask: str
    path: Path
    commits: tuple[str, ...]
    files: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "subtask": self.subtask,
            "path": str(self.path),
            "commits": list(self.commits),
            "files": list(self.files),
        }


def on_record(planned: Planned, as_json: Any) -> dict[str, Any]:
    """The state of a task's orchestration as a result, from the trail and the children's records.

    Args:
        as_json: renders one child's record.
    """
    store = planned.store
    records = list(store.records())
    lines = [line for line in store.trail().lines if line.get("parentTaskId") == planned.place.task_id]
    last: Mapping[str, Any] = next((line for line in lines[::-1] if line.get("eventType") == TrailEvent.FINISHED), {})
    is_over = bool(lines) and lines[-1].get("eventType") in (TrailEvent.FINISHED, TrailEvent.BLOCKED)
    found = Result(
        task_id=planned.place.task_id,
        mode=REAL,
        executed=bool(records),
        request=planned.request,
        planning=planned.planning,
        children=[as_json(record) for record in records],
        parent_status=str(lines[-1]["status"]) if is_over and lines[-1].get("status") else None,
        reason=lines[-1].get("reason") if is_over else None,
    ).to_json()
    ended = {"consolidation": last.get("consolidation"), "verification": last.get("verification")} if is_over else {}
    return (
        found
        | ended
        | {"isRunning": is_locked(store.lock_path), "attempts": store.trail().next_attempt(found["taskId"]) - 1}
    )


def ended_directly(planned: Planned) -> str | None:
    """The status of a task that was run without subtasks and is over; None for any other."""
    if planned.planning.subtasks:
        return None
    for record in planned.store.records():
        if record.status not in (ChildStatus.PENDING, ChildStatus.RUNNING):
            return str(record.status)
    return None


def kept_worktrees(context: Context, task_id: str) -> tuple[Kept, ...]:
    """The worktrees of a task's children that hold something."""
    folder = context.runs.folder / "worktrees" / task_id
    store = SubtaskStore(context.runs.folder, task_id)
    bases = {record.worktree: record.base for record in store.records()}
    found = []
    for worktree in worktrees.listed(context.repo, folder):
        base = bases.get(str(worktree.path))
        span = (f"{base}..{worktree.head}",) if base else (worktree.head, "-n", "1")
        commits = context.repo.run("rev-list", *span, check=False).stdout.decode().split()
        files = worktrees.dirty_paths(context.repo, worktree.path)
        found.append(Kept(worktree.path.name.rpartition("-")[0], worktree.path, tuple(commits), files))
    return tuple(found)


def clean(context: Context, task_id: str, *, discard: str | None = None) -> tuple[list[str], tuple[Kept, ...]]:
    """Remove the worktrees whose work is merged; with `discard` also a child's whose work is kept under a ref first.

    Returns:
        What was done, in words, and the worktrees that stay.

    Raises:
        RefusedError: LOCK_TIMEOUT while an orchestration runs; SUBTASK_STATE_INVALID for a child that is not there.

    Side effects: removes worktrees; with `discard` a commit and a ref.
    """
    store = SubtaskStore(context.runs.folder, task_id)
    with locked(store.lock_path, wait=0):
        results = Results(context, context.resolve(task_id), None)
        by_path = {record.worktree: record for record in store.records()}
        if discard is not None and all(record.subtask_id != discard for record in by_path.values()):
            raise RefusedError(ErrorCode.SUBTASK_STATE_INVALID, f"{task_id} has no child {discard} on record")
        done = []
        for kept in kept_worktrees(context, task_id):
            record = by_path.get(str(kept.path))
            if record and record.commit and results.head and is_ancestor(context.repo, record.commit, results.head, {}):
                worktrees.remove(context.repo, kept.path)
                done.append(f"removed {kept.path}: its work is merged")
            elif record and record.subtask_id == discard:
                done.append(_discard(context, store, results, record))
        context.repo.run("worktree", "prune")
    return done, kept_worktrees(context, task_id)


def _discard(context: Context, store: SubtaskStore, results: Results, record: ChildRecord) -> str:
    """Keep what a child's worktree holds under a ref, then remove it."""
    path = Path(record.worktree)
    ref = results.keep_lost(record.run_id, base=record.base, tree=capture(results, path, []))
    worktrees.remove(context.repo, path)
    store.save(replace(record, worktree=""))
    return f"removed {path}: its work is kept as {ref}"
