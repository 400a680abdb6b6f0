"""What `reference-transaction` and `pre-rebase` answer git; the rules are in `ref_rules`, the words in `way_back`."""

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.refs import HEADS
from agent_infra.services.context import Context
from agent_infra.services.guard import moves, ref_rules, way_back
from agent_infra.services.guard.ref_rules import Asked

__all__ = ["Asked", "pre_rebase", "reference_transaction"]


def reference_transaction(context: Context, asked: Asked) -> None:
    """Let git move these refs, or refuse it before any of them has moved.

    Raises:
        RefusedError: COMMIT_UNAUTHORIZED naming task and ref, the way back and the ways on as notes.

    Side effects:
        Moves to be recorded are noted for `moves.settle`; no lock is taken.
    """
    judged = ref_rules.judge(context, asked)
    if judged.objection is None:
        moves.note(context, judged.noted)
        return
    objection = judged.objection
    names = ", ".join(watch.guard.task_id for watch in objection.watches)
    message = f"{objection.update.ref} may not move: {names} guards here, and {objection.why}"
    back = way_back.way_back(context, asked, objection)
    raise RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, message, *back, *way_back.ways_on(objection.watches))


def pre_rebase(context: Context, branch: str | None) -> None:
    """Refuse a rebase before it starts: it would make commits that nobody reviewed.

    Args:
        branch: what git was told to rebase; None for what is checked out.

    Raises:
        RefusedError: COMMIT_UNAUTHORIZED where the worktree is a run's, or a run guards the branch.
    """
    named = branch.removeprefix(HEADS) if branch else context.repo.head().branch
    watches = ref_rules.watching(context)
    concerned = tuple(
        watch
        for watch in watches
        if watch.guard.worktree in {"", context.here} or (named is not None and watch.guard.branch == named)
    )
    if concerned:
        names = ", ".join(watch.guard.task_id for watch in concerned)
        message = f"{named or 'the detached HEAD'} may not be rebased here: {names} guards the branch or this worktree"
        raise RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, message, *way_back.ways_on(concerned))
