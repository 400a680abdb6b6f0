"""What a refusal says: where the runs stand, the ways on, and the exact way back where git wrote files before it asked.

git asks `reference-transaction` last. Some commands have changed index and working tree by then, and leave them so
when the ref may not move.
"""

import shlex
from pathlib import Path

from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError
from agent_infra.git import refs, restore
from agent_infra.git.caller import Command
from agent_infra.git.refs import HEADS
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.services.guard import authorize
from agent_infra.services.guard.ref_rules import Asked, Objection, Watch

# what lies in the git dir while the command can be aborted
_MARKS = {
    "merge": ("MERGE_HEAD",),
    "cherry-pick": ("CHERRY_PICK_HEAD", "sequencer"),
    "revert": ("REVERT_HEAD", "sequencer"),
    "rebase": ("rebase-merge/head-name", "rebase-apply/rebasing"),
    "am": ("rebase-apply",),
}
_SETS_FILES = frozenset({"merge", "cherry-pick", "revert", "rebase", "pull", "checkout", "switch"})
_WRITES_NOTHING = frozenset({"commit", "update-ref", "branch", "fast-import", "fetch", "push", "receive-pack", "tag"})
_NOTHING = "git has changed no file and no index: nothing is to be undone"
_SNAPSHOT_PATHS = 100


def ways_on(watches: tuple[Watch, ...]) -> tuple[str, ...]:
    """Where each run stands, and what may be done instead."""
    notes: list[str] = []
    for watch in watches:
        task = watch.guard.task_id
        state = watch.entry.state
        if state is None:
            notes.append(f"{task}: {watch.entry.fault.message if watch.entry.fault else 'no run'}")
            continue
        if authorize.is_open(state):
            notes.append(f"`agent-infra commit {task} -m MESSAGE` commits exactly what was reviewed")
        else:
            at = f"{state.pending.artifact} is {state.pending.status}" if state.pending else "no step is pending"
            notes.append(f"{task} is {state.run.status}, {at}: its commit comes after the approved code review")
            notes.append(f"go on with it: `agent-infra orchestrate route {task}`")
        notes.append(f"give the run up: `agent-infra orchestrate end {task} --reason …`")
    notes.append(
        "something else meanwhile: `git worktree add ../elsewhere -b <branch>` and work there; "
        "one commit here as a person: `agent-infra gate allow --reason …`"
    )
    return tuple(notes)


def way_back(context: Context, asked: Asked, objection: Objection) -> tuple[str, ...]:
    """How index and working tree become what they were before the command that asks."""
    if not asked.is_here:
        return ("it is not clear in which worktree git works: look at it with `git status` first",)
    git_dir, command, update = context.repo.git_dir, asked.command(), objection.update
    verb = _operation(command, git_dir)
    if update.is_deletion or verb in _WRITES_NOTHING:
        return (_NOTHING,)
    if _is_under_way(git_dir, verb):
        return (f"git stopped in the middle of it; the way back: `git {verb} --abort`",)
    if verb == "rebase" and update.is_branch:
        branch = shlex.quote(update.name.removeprefix(HEADS))
        return (_way(_with_autostash(git_dir, f"git switch {branch}")),)
    if verb in _SETS_FILES:
        return _back_by_trees(context, asked, update.new)
    if verb == "reset":
        return _after_reset(context, asked, objection, command.args)
    return (
        "look at `git status` first: an operation that git says is in progress ends with its `--abort`",
        f"if files of {update.new} lie here now that were not here before:",
        *_back_by_trees(context, asked, update.new),
    )


def _operation(command: Command, git_dir: Path) -> str:
    """The verb that a person called; git's own rebase applies patches with `am`."""
    if command.verb == "am" and (git_dir / "rebase-apply" / "rebasing").exists():
        return "rebase"
    return command.verb


def _is_under_way(git_dir: Path, verb: str) -> bool:
    return any((git_dir / mark).exists() for mark in _MARKS.get(verb, ()))


def _way(command: str) -> str:
    return f"the way back, which keeps local edits: `{command}`"


def _back_by_trees(context: Context, asked: Asked, new: str) -> tuple[str, ...]:
    """From the files of `new` to those of HEAD; what differs from both stays as it is."""
    way = _way(_with_autostash(context.repo.git_dir, f"git read-tree -m -u {new} HEAD"))
    if refs.is_reached(context.repo, new, asked.objects):
        return (way,)
    return (way, f"it takes away too what was staged just as {new} has it; that commit keeps it")


def _with_autostash(git_dir: Path, command: str) -> str:
    """The command, and what brings back local edits that `--autostash` put away before git moved anything."""
    # git must not see its note any more, or it goes on with what it believes to be under way
    for kept, noted in (("MERGE_AUTOSTASH", "MERGE_AUTOSTASH"), ("rebase-apply", "rebase-apply/autostash")):
        if (git_dir / noted).exists():
            stash = (git_dir / noted).read_text(encoding="ascii", errors="replace").strip()
            return f"rm -r {shlex.quote(str(git_dir / kept))} && {command} && git stash apply --quiet --index {stash}"
    return command


def _after_reset(context: Context, asked: Asked, objection: Objection, args: tuple[str, ...]) -> tuple[str, ...]:
    new = objection.update.new
    if "--soft" in args:
        return (_NOTHING,)
    if "--keep" in args:
        return (*_back_by_trees(context, asked, new), "what was staged is there, but staged no more: stage it again")
    if "--hard" not in args and "--merge" not in args:
        return (
            "the way back: `git reset`; files are untouched, but what was staged and not committed is staged no more: "
            "see `git status` and stage it again",
        )
    return (
        f"the way back to the files of HEAD: `git read-tree -m -u {new} HEAD`",
        "edits of tracked files that were not committed are gone: git drops them before it asks",
        *_from_snapshot(context, objection.watches),
    )


def _from_snapshot(context: Context, watches: tuple[Watch, ...]) -> tuple[str, ...]:
    """Edits that a run has in a snapshot can come back from it, as they were then."""
    states = [w.entry.state for w in watches if w.entry.state and w.entry.state.run.worktree == context.here]
    for state in states:
        tree, when, head = _newest_snapshot(state)
        if head != context.repo.head().oid:
            continue  # what was committed since would be undone, not brought back
        try:
            objects = context.objects
            product = objects.product(tree)
            changes = objects.diff(records.tree_of(context, context.repo.head().oid), product)
        except AgentInfraError:
            continue
        if changes and len(changes) <= _SNAPSHOT_PATHS:
            command = restore.way_back(objects, product, [change.name for change in changes])
            return (f"{state.run.task_id} has them as they were at {when}; after that: `{command}`",)
    return ()


def _newest_snapshot(state: State) -> tuple[str, str, str | None]:
    """The tree of the last snapshot of a run, when it was taken, and what HEAD was then."""
    receipt = state.pending
    if receipt is not None:
        return receipt.before_fingerprint, receipt.created_at, receipt.head_before
    for receipt in reversed(state.run.receipts):
        if receipt.after_fingerprint and receipt.sealed_at:
            return receipt.after_fingerprint, receipt.sealed_at, receipt.head_after
    return state.memo.begun_tree, state.run.created_at, state.run.baseline.head
