"""May this commit be made? What git's hooks ask, and what a person may let pass.

The index that git is committing is judged (`GIT_INDEX_FILE`), which for `commit -a` and `commit PATH` is not the
user's index. Nothing here moves a ref.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agent_infra.core.lifecycle import Stage
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError, ErrorCode, GitError, RefusedError
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.services.guard import authorize
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import Guard, require

_SHOWN = 20
_NO_LEAVE: dict[str, str | None] = {"allowed": None, "allowedHead": None}


@dataclass(frozen=True)
class Guarding:
    """A run that must agree to the commit at hand; without a state its journal can't be read."""

    task_id: str
    state: State | None
    fault: AgentInfraError | None = None


def guarding(context: Context) -> tuple[Guarding, ...]:
    """The runs that guard this worktree, or the branch that is checked out in it."""
    branch = context.repo.head().branch
    here = context.here
    found = [look(context, guard) for guard in context.runs.guards() if _concerns(guard, here, branch)]
    # a guard whose run is over was left by a crash: the next changing verb removes it
    return tuple(entry for entry in found if entry.fault or (entry.state and entry.state.run.guards))


def _concerns(guard: Guard, worktree: str, branch: str | None) -> bool:
    unreadable = not guard.worktree
    return unreadable or guard.worktree == worktree or (branch is not None and guard.branch == branch)


def look(context: Context, guard: Guard) -> Guarding:
    """The run behind a guard file."""
    try:
        state = context.runs.seen(guard.task_id)
    except AgentInfraError as error:
        return Guarding(guard.task_id, None, error)
    if state is None and context.runs.journal(guard.task_id).path.exists():
        # `begin` was cut before its line was written: there is no run
        return Guarding(guard.task_id, None)
    if state is None:
        message = f"the journal of {guard.task_id} is gone; `agent-infra orchestrate repair {guard.task_id}`"
        return Guarding(guard.task_id, None, RefusedError(ErrorCode.ORCHESTRATION_JOURNAL_MISSING, message))
    return Guarding(guard.task_id, state)


def pre_commit(context: Context, index: Path) -> None:
    """Let a commit of `index` pass, or refuse it.

    Args:
        index: the index that git is committing.

    Raises:
        RefusedError: COMMIT_UNAUTHORIZED naming the task, the paths and the way on, as notes.
    """
    runs = guarding(context)
    if not runs or any(entry.state and _is_allowed(context, entry.state) for entry in runs):
        return
    tree = _index_tree(context, index)
    if _authorizing(context, runs, tree) is None:
        raise _refusal(context, runs, tree)


def pre_merge_commit(context: Context) -> None:
    """Let a merge commit pass, or refuse it: no run authorizes a second parent, a person may.

    Raises:
        RefusedError: COMMIT_UNAUTHORIZED naming the tasks, the way back and the ways on, as notes.
    """
    runs = guarding(context)
    if not runs or any(entry.state and _is_allowed(context, entry.state) for entry in runs):
        return
    names = ", ".join(entry.task_id for entry in runs)
    message = f"this merge is not authorized: {names} guards here, and its other parent was not reviewed"
    raise RefusedError(
        ErrorCode.COMMIT_UNAUTHORIZED,
        message,
        "the way back, which keeps local edits: `git merge --abort`",
        *(entry.fault.message for entry in runs if entry.fault),
        "merge elsewhere: `git worktree add ../elsewhere -b <branch>`, "
        "or here as a person: `agent-infra gate allow --reason …`",
        f"give the run up: `agent-infra orchestrate end {runs[0].task_id} --reason …`",
    )


def _is_allowed(context: Context, state: State) -> bool:
    """Whether a person lets the next commit pass; a commit that nobody recorded has used that up too."""
    return bool(state.memo.allowed) and state.memo.allowed_head == context.repo.head().oid


def _authorizing(context: Context, runs: tuple[Guarding, ...], tree: str) -> State | None:
    """The run that has authorized a commit of `tree` on top of HEAD, and of nothing else."""
    head = context.repo.head()
    if _is_merging(context):
        return None
    for entry in runs:
        if entry.state and authorize.is_open(entry.state):
            authorized = entry.state.run.commit_authorization
            if (authorized.ref, authorized.head, authorized.tree) == (head.ref or "HEAD", head.oid, tree):
                return entry.state
    return None


def _is_merging(context: Context) -> bool:
    """Whether git would give the next commit further parents."""
    return (context.repo.git_dir / "MERGE_HEAD").exists()


def _index_tree(context: Context, index: Path) -> str:
    """The tree that git would commit; asked of a copy, so that not even a cache of the index is touched.

    Raises:
        RefusedError: COMMIT_UNAUTHORIZED for an index that makes no tree.
    """
    with tempfile.TemporaryDirectory(prefix="agent-infra-") as folder:
        copy = Path(folder) / "index"
        if index.exists():
            shutil.copyfile(index, copy)
        try:
            env = {**context.objects.env(), "GIT_INDEX_FILE": str(copy)}
            return context.repo.run("write-tree", env=env).stdout.decode().strip()
        except GitError as error:
            message = f"the index can't be judged: {error.message}"
            raise RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, message) from error


def _refusal(context: Context, runs: tuple[Guarding, ...], tree: str) -> RefusedError:
    """Why no run agrees: of the one that is about to commit the differing paths, else where each stands."""
    names = ", ".join(entry.task_id for entry in runs)
    notes: list[str] = []
    for entry in runs:
        if entry.state is None:
            notes.append(f"{entry.task_id}: {entry.fault.message if entry.fault else 'no run'}")
        elif authorize.is_open(entry.state):
            notes += _differences(context, entry.state, tree)
        else:
            notes += _standing(context, entry.state, tree)
    return RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, f"this commit is not authorized: {names} guards here", *notes)


def _differences(context: Context, state: State, tree: str) -> list[str]:
    """How the commit at hand differs from the authorized one, and the command that makes that one."""
    authorized = state.run.commit_authorization
    head = context.repo.head()
    notes = []
    if (head.ref or "HEAD", head.oid) != (authorized.ref, authorized.head):
        notes.append(
            f"authorized on {authorized.ref} at {authorized.head}, but HEAD is {head.ref or 'detached'} at {head.oid}"
        )
        notes.append(f"`agent-infra orchestrate abandon {state.run.task_id} --reason …`, then prepare the commit anew")
    if _is_merging(context):
        notes.append("a merge is under way: the commit would have a parent that nobody reviewed; `git merge --abort`")
    paths = [change.name for change in context.objects.diff(authorized.tree or "", tree)]
    notes += [f"differs from what was reviewed: {path}" for path in _some(paths)]
    if paths:
        again = f"`agent-infra orchestrate abandon {state.run.task_id} --reason …`"
        notes.append(f"if it shall be so, or a hook of yours rewrites it: {again}, then it is reviewed as it is now")
    notes.append(f"`agent-infra commit {state.run.task_id} -m MESSAGE` commits exactly what was reviewed")
    return notes


def _standing(context: Context, state: State, tree: str) -> list[str]:
    """Where a run stands that has not authorized anything, and the ways on."""
    run = state.run
    at = f"{state.pending.artifact} is {state.pending.status}" if state.pending else "no step is pending"
    staged = [change.name for change in context.objects.diff(records.tree_of(context, context.repo.head().oid), tree)]
    why = "its commit comes after the approved code review"
    if state.pending and state.pending.stage == Stage.COMMIT:
        why = f"once its child has started, `agent-infra commit {run.task_id} -m MESSAGE` commits what was reviewed"
    return [
        f"{run.task_id} is {run.status}, {at}: {why}",
        *(f"would be committed: {path}" for path in _some(staged)),
        f"go on with it: `agent-infra orchestrate route {run.task_id}`",
        "commit something else meanwhile: `git worktree add ../elsewhere -b <branch>` and commit there, "
        "or as a person `agent-infra gate allow --reason …`",
        f"give the run up: `agent-infra orchestrate end {run.task_id} --reason …`",
    ]


def _some(paths: list[str]) -> list[str]:
    shown = paths[:_SHOWN]
    return shown if len(paths) <= _SHOWN else [*shown, f"… and {len(paths) - _SHOWN} more"]


def commit_msg(context: Context, message: Path, index: Path) -> None:
    """Write the trailers of the run whose commit this is; an empty message stays empty, so that git refuses it.

    A commit that a person let pass, or a merge, is nobody's, though an authorization is open meanwhile.

    Side effects:
        The message file.
    """
    runs = guarding(context)
    if not any(entry.state and authorize.is_open(entry.state) for entry in runs):
        return
    state = _authorizing(context, runs, _index_tree(context, index))
    if state is None:
        return
    text = message.read_bytes()
    if not context.repo.run("stripspace", "--strip-comments", stdin=text).stdout.strip():
        return
    if not text.endswith(b"\n"):
        # without its end a one-line message and the trailers would be one paragraph, in which git finds no trailers
        message.write_bytes(text + b"\n")
    options = [part for trailer in authorize.trailers(state) for part in ("--trailer", trailer)]
    context.repo.run("interpret-trailers", "--in-place", "--if-exists", "replace", *options, str(message))


def post_commit(context: Context) -> None:
    """Record the commit that was made with its run; it completes nothing.

    Side effects:
        Journal, view, evidence.
    """
    head = context.repo.head()
    runs = [entry for entry in guarding(context) if entry.state]
    made = {r.task_id for r in runs if r.state and authorize.is_open(r.state) and _is_authorized(context, r.state)}
    for entry in runs:
        if entry.state is None or head.oid is None:
            continue
        # one commit came: whatever let it pass, a person's leave is used up
        leave = _NO_LEAVE if entry.state.memo.allowed else {}
        memo = leave | ({"head": head.oid} if entry.state.run.branch == head.branch else {})
        if entry.task_id in made:
            used = entry.state.run.commit_authorization.evolve(commit=head.oid)
            _record(context, entry.task_id, Event("committed", run={"commitAuthorization": used.to_json()}, memo=memo))
        elif leave:
            _record(context, entry.task_id, Event("allowed", memo=memo, facts={"commit": head.oid}))
        elif made and memo and entry.state.memo.head != head.oid:
            # another run's commit on the branch of both
            _record(context, entry.task_id, Event("noted", memo=memo, facts={"commit": head.oid}))


def _is_authorized(context: Context, state: State) -> bool:
    try:
        authorize.made_commit(context, state)
    except RefusedError:
        return False
    return True


def _record(context: Context, task_id: str, event: Event) -> None:
    place = context.resolve(task_id)
    state, _ = context.change(place, lambda _: event)
    records.write_evidence(context, place, require(state, task_id))


def allow(context: Context, *, reason: str, person: str) -> tuple[str, ...]:
    """Let the next commit here pass, on record; the caller has made sure that a person asked.

    Args:
        person: who says so, for the record.

    Returns:
        The tasks whose guard lets it pass.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING where nothing guards.

    Side effects:
        Journal and view of every run that guards here.
    """
    runs = guarding(context)
    if not runs:
        raise RefusedError(ErrorCode.ORCHESTRATION_RUN_MISSING, "no run guards here; commits are free")
    for entry in runs:
        if entry.fault:
            raise entry.fault
    memo = {"allowed": reason, "allowedHead": context.repo.head().oid}
    event = Event("allow", memo=memo, facts={"person": person})
    for entry in runs:
        context.change(context.resolve(entry.task_id), lambda _: event)
    return tuple(entry.task_id for entry in runs)
