"""`agent-infra commit`: put exactly the authorized tree into a commit, so that nobody has to guess it."""

import os
from collections.abc import Mapping

from agent_infra.core.redaction import tail
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError, ErrorCode, GitError, RefusedError
from agent_infra.git.repo import Completed, display_path
from agent_infra.git.trees import records as records_of
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.services.guard import authorize
from agent_infra.services.outcome import Outcome
from agent_infra.services.prepare import check_place
from agent_infra.services.setup.mending import mend_hooks
from agent_infra.stores.runs import require

_SHOWN = 20  # paths in a sentence
_LINES = 30  # of what git and its hooks said last
_CHARACTERS = 4_000


def commit(context: Context, ref: str, *, message: str) -> Outcome:
    """Commit the authorized tree through git and its hooks.

    Raises:
        RefusedError: COMMIT_UNAUTHORIZED unless the commit step is activated and HEAD is where it was, or where a hook
            has rewritten what was reviewed.
        GitError: GIT_FAILED with git's own words where a hook or git refuses.

    Side effects:
        One commit on the run's branch. The user's index changes for the committed paths alone.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    check_place(context, state)
    _check_open(context, state)
    mended = mend_hooks(context, place)
    tree = state.run.commit_authorization.tree or ""
    paths = [change.path for change in context.objects.diff(records.tree_of(context, context.repo.head().oid), tree)]
    # until now the reviewed content lies in our own store alone
    context.objects.publish(tree)
    _commit_tree(context, state, tree, message)
    notes = (*mended, f"committed {context.repo.head().oid}", *_take_over(context, paths))
    after = require(context.load(place), place.task_id)
    return Outcome(after.run.status, changed=True, task_id=place.task_id, run=after.run, notes=notes)


def _check_open(context: Context, state: State) -> None:
    task_id = state.run.task_id
    receipt = state.pending
    if not authorize.is_open(state):
        at = f"{receipt.artifact} is {receipt.status}" if receipt else "no step is pending"
        if state.run.commit_authorization.commit:
            at = f"{state.run.commit_authorization.commit} was committed already"
        message = f"no commit of {task_id} is authorized: {at}; the commit step must be prepared and its child started"
        raise RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, message)
    head = context.repo.head()
    authorized = state.run.commit_authorization
    if (head.ref or "HEAD", head.oid) != (authorized.ref, authorized.head):
        message = (
            f"the commit was authorized on {authorized.head}, but HEAD is {head.oid}; "
            f"`agent-infra orchestrate abandon {task_id} --reason …`, then prepare it anew"
        )
        raise RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, message)


def _commit_tree(context: Context, state: State, tree: str, message: str) -> None:
    """Let git commit an index of our own."""
    index = context.repo.git_dir / "agent-infra" / f"commit-index.{os.getpid()}"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.unlink(missing_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    try:
        context.repo.run("read-tree", tree, env=env)
        edited = _edited(context, tree, env)
        done = context.repo.run("commit", "--quiet", "--file=-", stdin=message.encode(), env=env, check=False)
        if done.code != 0:
            raise _refused(state.run.task_id, done, sorted(_edited(context, tree, env) - edited))
    finally:
        index.unlink(missing_ok=True)


def _edited(context: Context, tree: str, env: Mapping[str, str]) -> set[str]:
    """Paths of the index or of the files that are not as the tree has them; what is in neither tree nor index aside."""
    asked = ("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
    found = [context.repo.run(*asked, *which, tree, "--", env=env).stdout for which in ((), ("--cached",))]
    return {display_path(path) for output in found for path in records_of(output)}


def _refused(task_id: str, done: Completed, rewritten: list[str]) -> AgentInfraError:
    """git's words, and where hooks have rewritten something on the way, which paths, and the way on."""
    said = tail(done.stderr + done.stdout, lines=_LINES, limit=_CHARACTERS).splitlines()
    if not rewritten:
        return GitError(ErrorCode.GIT_FAILED, f"`git commit` ended with {done.code}; nothing was committed", *said)
    shown = ", ".join(rewritten[:_SHOWN]) + (f" and {len(rewritten) - _SHOWN} more" if rewritten[_SHOWN:] else "")
    message = f"a hook of yours rewrote {shown}, which is not what was reviewed any more; nothing was committed"
    return RefusedError(
        ErrorCode.COMMIT_UNAUTHORIZED,
        message,
        f"the way on: `agent-infra orchestrate abandon {task_id} --reason …`, then the review judges what the hook "
        f"left (`agent-infra orchestrate route {task_id}`); `--restore` takes back what it did to the files",
        "`gate.check = true` in .agents/config.toml says so before the review",
        *said,
    )


def _take_over(context: Context, paths: list[bytes]) -> tuple[str, ...]:
    """Set the committed paths in the user's index; what else is staged stays staged.

    Returns:
        What keeps the index as it was, where something does: the commit is made all the same.
    """
    listed = b"".join(path + b"\0" for path in paths)
    options = ("reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", "HEAD")
    try:
        context.repo.run(*options, stdin=listed, env={"GIT_LITERAL_PATHSPECS": "1"})
    except GitError as error:
        return (f"your index still has the paths as they were before ({error.message}); `git reset` renews it",)
    return ()
