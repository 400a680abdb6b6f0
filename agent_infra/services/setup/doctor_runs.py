"""What `doctor` asks of each run: do journal, view, guard, worktree and evidence agree, and does somebody wait?"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from agent_infra.core import tasks
from agent_infra.core.receipts import Origin
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import AgentInfraError, ErrorCode
from agent_infra.git import evidence
from agent_infra.git.repo import discover
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.stores.atomic import is_locked
from agent_infra.stores.runs import Guard, read_view
from agent_infra.stores.workspace import ACTIVE, TaskPlace


class Level(StrEnum):
    """How much a finding matters."""

    FINE = "fine"
    NOTE = "note"
    FAULT = "fault"


Said = tuple[Level, str, str | None]  # how much it matters, the message, what helps

# lines after which the evidence has been written
_SHOWN = frozenset({"advance", "abandon", "end", "committed", "allowed", "upstream"})


def fine(message: str) -> Said:
    """All is well."""
    return Level.FINE, message, None


def note(message: str, helps: str | None = None) -> Said:
    """Worth knowing; nothing is wrong."""
    return Level.NOTE, message, helps


def fault(message: str, helps: str) -> Said:
    """Somebody must do something."""
    return Level.FAULT, message, helps


def known_tasks(context: Context) -> tuple[str, ...]:
    """Every task of which there is a trace of a run: a journal, a guard, a view, or evidence beside its folder."""
    runs, active = context.runs.folder / "runs", context.workspace.folder / ACTIVE
    found = {path.name for path in runs.iterdir()} if runs.is_dir() else set()
    found |= {guard.task_id for guard in context.runs.guards()}
    here = {path.name for path in active.iterdir()} if active.is_dir() else set()
    # evidence that was fetched tells of other people's runs: only where the task lies here is a journal missing
    found |= here & evidence.heads(context.repo).keys()
    found |= {name for name in here if (active / name / "orchestration.json").exists()}
    return tuple(sorted(name for name in found if not name.startswith(".")))


def look_at(context: Context, task_id: str) -> Iterator[Said]:
    """What is wrong with one run; nothing where all is well."""
    repair = f"agent-infra orchestrate repair {task_id}"
    guard = next((guard for guard in context.runs.guards() if guard.task_id == task_id), None)
    if not tasks.TASK_ID.fullmatch(task_id):
        if guard:
            yield fault(f"{task_id} guards, but is no task", f"rm {context.runs.folder / 'guards' / task_id}")
        return
    try:
        place = context.resolve(task_id)
        state = context.load(place)
    except AgentInfraError as error:
        lost = guard is not None and error.code == ErrorCode.TASK_NOT_FOUND  # nothing is left to repair it from
        helps = f"rm {context.runs.folder / 'guards' / task_id}" if lost else repair
        yield fault(f"{task_id}: {error.message} [{error.code}]", helps)
        return
    if state is None:
        if guard:
            yield fault(f"{task_id} guards without a run", f"agent-infra orchestrate begin {task_id}")
        return
    yield from _kept(place, state, guard, repair)
    yield from _shown(context, state, repair)
    if state.run.guards:
        yield from _bound(state)
        yield from _waiting(context, state)


def _kept(place: TaskPlace, state: State, guard: Guard | None, repair: str) -> Iterator[Said]:
    """What is derived from the journal: the view and the guard; and the task's own folder."""
    run = state.run
    if place.state == "missing" and run.guards:
        yield fault(f"{run.task_id}: its folder is gone, its run still guards", repair)
    elif place.state == ACTIVE and read_view(place) is None:
        yield fault(f"{run.task_id}: orchestration.json is missing", repair)
    if run.guards and guard is None:
        yield fault(f"{run.task_id}: its run is {run.status}, but nothing guards it", repair)
    elif run.guards and guard and (guard.worktree, guard.branch) != (run.worktree, run.branch):
        yield fault(f"{run.task_id}: its guard does not say what its journal says", repair)
    elif guard and not run.guards:
        yield fault(f"{run.task_id}: its run is over, but it still guards", repair)


def _shown(context: Context, state: State, repair: str) -> Iterator[Said]:
    """The evidence holds the journal up to the last finished step."""
    task_id = state.run.task_id
    chain = context.runs.journal(task_id).read()
    ended = [number for number, event in enumerate(chain.events if chain else (), 1) if event["op"] in _SHOWN]
    journal = context.runs.journal(task_id).path.read_bytes()
    kept = (evidence.read(context.repo, task_id) or {}).get("journal.jsonl", b"")
    if not journal.startswith(kept):
        yield fault(f"{task_id}: the evidence holds another journal than the one here", repair)
    elif ended and (lines := kept.count(b"\n")) < ended[-1]:
        yield fault(f"{task_id}: the evidence has {lines} lines of the journal, expected {ended[-1]} or more", repair)


def _bound(state: State) -> Iterator[Said]:
    """A run's worktree is there, and its branch is checked out in it."""
    run = state.run
    end = f"agent-infra orchestrate end {run.task_id} --reason …"
    if not Path(run.worktree).is_dir():
        again = f"git worktree add {run.worktree} {run.branch or '--detach'}"
        yield fault(f"{run.task_id}: its worktree {run.worktree} is gone", again)
        return
    try:
        branch = discover(Path(run.worktree)).head().branch
    except AgentInfraError as error:
        yield fault(f"{run.task_id}: its worktree can't be read: {error.message}", end)
        return
    if branch != run.branch:
        wanted, found = run.branch or "a detached HEAD", branch or "a detached HEAD"
        helps = f"git -C {run.worktree} switch {run.branch}" if run.branch else end
        yield fault(f"{run.task_id}: it belongs to {wanted}, but {found} is checked out", helps)


def _waiting(context: Context, state: State) -> Iterator[Said]:
    """Receipts that nobody works on, and pauses."""
    run, pending = state.run, state.pending
    abandon = f"agent-infra orchestrate abandon {run.task_id} --reason …"
    if run.status == RunStatus.PAUSED and run.pause:
        helps = f"agent-infra orchestrate begin {run.task_id}" if run.pause.recoverable else abandon
        yield note(f"{run.task_id} waits for a person: {run.pause.code}: {run.pause.message}", helps)
    lock = context.runs.folder / "drivers" / f"{run.task_id}.lock"
    if pending and pending.origin == Origin.DRIVER and not is_locked(lock):
        yield fault(f"{run.task_id}: {pending.artifact} is {pending.status}, but its driver is gone", abandon)
    elif pending and records.waiting_notes(state, context.now()):
        yield fault(f"{run.task_id}: {pending.artifact} was prepared, and no child started", abandon)
