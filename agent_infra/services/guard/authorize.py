"""Leave for one commit: which tree it must have, and whether the commit that was made is the one.

The authorized tree is HEAD's tree with every product path that differs between the run's baseline and the reviewed
snapshot set to the reviewed content: an unrelated untracked file is not required, and no unreviewed byte gets in.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_infra.core.history import PATCH
from agent_infra.core.lifecycle import Stage
from agent_infra.core.receipts import ReceiptStatus
from agent_infra.core.run import RUN, CommitAuthorization, RunStatus, State
from agent_infra.errors import ErrorCode, GitError, RefusedError
from agent_infra.git import hooks
from agent_infra.git.patches import patch_digest
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.stores.journal import Event

if TYPE_CHECKING:
    from agent_infra.services.orchestrate import Present

TASK_TRAILER = "Agent-Infra-Task"
RUN_TRAILER = "Agent-Infra-Run"
RECEIPT_TRAILER = "Agent-Infra-Receipt"


def issue(present: "Present") -> tuple[CommitAuthorization, tuple[str, ...]]:
    """The authorization for the reviewed snapshot, and the paths that it commits.

    Raises:
        RefusedError: ORCHESTRATION_HOOKS_MISSING while git would not ask us.
    """
    context, state = present.context, present.state
    if state is None:
        raise RefusedError(ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING, "no run, so nothing can be authorized")
    check_hooks(context)
    head = context.repo.head()
    parent_tree, tree = tree_to_commit(context, state, head.oid, present.product)
    paths = tuple(change.name for change in context.objects.diff(parent_tree, tree))
    context.objects.keep(tree, [])
    authorization = CommitAuthorization(issued_at=context.now(), ref=head.ref or "HEAD", head=head.oid, tree=tree)
    return authorization, paths


def tree_to_commit(context: Context, state: State, head: str | None, product: str) -> tuple[str, str]:
    """The tree of `head`, and the one that a commit on it would have: what the run changed set as it is in `product`.

    Side effects: writes trees to our own store.
    """
    changes = context.objects.diff(state.run.baseline.tree, product)
    parent_tree = records.tree_of(context, head)
    return parent_tree, context.objects.compose(parent_tree, changes)


def patch_facts(context: Context, authorization: CommitAuthorization) -> dict[str, str]:
    """What `verify` knows the commit by after a rebase, when tree and parent are others; none where git can't say."""
    before, after = records.tree_of(context, authorization.head), authorization.tree or ""
    try:
        return {PATCH: patch_digest(context.repo, before, after, env=context.objects.env())}
    except GitError:
        return {}


def check_hooks(context: Context) -> None:
    """git must ask us before a commit is authorized.

    Raises:
        RefusedError: ORCHESTRATION_HOOKS_MISSING.
    """
    report = hooks.inspect(context.repo, program="agent-infra", template=hooks.shim_template())
    if hooks.are_effective(report):
        return
    faulty = ", ".join(f"{state.name} is {state.kind}" for state in hooks.unguarded(report))
    found = faulty or f"core.hooksPath leads elsewhere ({report.configured})"
    message = (
        f"git would not ask before a commit: in {report.hooks_path} {found}; `agent-infra init` installs the hooks"
    )
    raise RefusedError(ErrorCode.ORCHESTRATION_HOOKS_MISSING, message)


def nothing_to_commit(state: State) -> Event:
    """HEAD has the authorized tree already: the run is completed without a commit step."""
    return Event("finish", run={"status": RUN.follow(state.run.status, "finish"), "nextStage": None})


def is_open(state: State) -> bool:
    """Whether a commit may be made right now."""
    receipt, authorization = state.pending, state.run.commit_authorization
    return (
        state.run.status == RunStatus.RUNNING
        and receipt is not None
        and receipt.stage == Stage.COMMIT
        and receipt.status == ReceiptStatus.ACTIVATED
        and authorization.tree is not None
        and authorization.commit is None
    )


def made_commit(context: Context, state: State) -> tuple[str, str]:
    """Id and subject of the commit that the authorization led to.

    Raises:
        RefusedError: ORCHESTRATION_COMMIT_MISSING naming what HEAD lacks.
    """
    oid = context.repo.head().oid
    lacks = lacks_of(context, state, oid)
    if oid is None or lacks:
        task_id = state.run.task_id
        message = f"HEAD is not the authorized commit: {lacks}; `agent-infra commit {task_id} -m MESSAGE` makes it"
        raise RefusedError(ErrorCode.ORCHESTRATION_COMMIT_MISSING, message)
    return oid, context.repo.text("log", "-1", "--format=%s", oid)


def lacks_of(context: Context, state: State, oid: str | None, *, objects: Mapping[str, str] | None = None) -> str:
    """What keeps a commit from being the authorized one, in words; empty where it is.

    Args:
        objects: variables that make objects visible which git is still writing.
    """
    authorization = state.run.commit_authorization
    if oid is None:
        return "there is no commit yet"
    parents, tree, trailers = commit_facts(context, oid, objects=objects)
    if parents != ([authorization.head] if authorization.head else []):
        return f"its parent is {', '.join(parents) or 'none'}, expected {authorization.head}"
    if tree != authorization.tree:
        return f"its tree is {tree}, expected {authorization.tree}"
    if (trailers.get(TASK_TRAILER), trailers.get(RUN_TRAILER)) != (state.run.task_id, state.run.run_id):
        return f"its message names no {TASK_TRAILER} and {RUN_TRAILER} of this run (was the commit-msg hook skipped?)"
    return ""


def commit_facts(
    context: Context, oid: str, *, objects: Mapping[str, str] | None = None
) -> tuple[list[str], str, dict[str, str]]:
    """Parents, tree and our trailers of a commit."""
    # a replacement would show another commit than the one that is there
    asked = ("log", "-1", "--no-show-signature", "--format=%P%n%T%n%(trailers:only,unfold)", oid, "--")
    env = {"GIT_NO_REPLACE_OBJECTS": "1", **(objects or {})}
    shown = os.fsdecode(context.repo.run(*asked, env=env).stdout).rstrip("\n").split("\n")
    pairs = (line.split(": ", 1) for line in shown[2:] if ": " in line)
    return shown[0].split(), shown[1], {pair[0]: pair[1] for pair in pairs}


def trailers(state: State) -> tuple[str, ...]:
    """What `commit-msg` writes: task, run, and the journal line that the commit rests on."""
    run = state.run
    return (f"{TASK_TRAILER}: {run.task_id}", f"{RUN_TRAILER}: {run.run_id}", f"{RECEIPT_TRAILER}: {run.journal_head}")
