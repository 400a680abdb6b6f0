"""Is this commit the one that its run authorized, or that one made again elsewhere? And is a merge nothing but a merge?

Pure: what is dear to find out (a patch, a whole tree) is asked only where it matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise

from agent_infra.core.history import Commit, Entry, Ground, Kind, Look, Verdict, broken
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError


def judge(commit: Commit, grounds: Sequence[Ground], look: Look) -> Verdict:
    """The verdict for a commit without a second parent, whose claims have these grounds.

    9. its tree and parent are the authorized ones
    10. its diff is what the code review judged

    A commit that fails 9 may be one that was authorized, made again elsewhere: after a rebase, a squash or an amended
    message. It is as good as its patch, so the verdict is weak and says why.
    """
    try:
        verdict = _squashed(commit, grounds, look) if len(grounds) > 1 else _single(commit, grounds[0], look)
    except AgentInfraError as error:
        return broken(error)
    if verdict.kind is Kind.BROKEN:
        return verdict
    # a person's word is as good as a receipt, but whoever reads the verdict shall see it
    words = (verdict.detail, *(word for base in grounds for word in base.said))
    return replace(verdict, detail="; ".join(filter(None, words)))


def _single(commit: Commit, base: Ground, look: Look) -> Verdict:
    try:
        check_tree(commit, base)
        check_parent(commit, base)
    except RefusedError as error:
        return _rewritten(commit, base, look, error)
    check_diff(commit, base, look)
    if base.recorded == commit.oid:
        return _good(base.flaws)
    if base.recorded:
        return _good(("amended", *base.flaws), f"the commit that was recorded is {base.recorded}")
    return _good(("unrecorded", *base.flaws), "the run never recorded the commit that it led to")


def check_tree(commit: Commit, base: Ground) -> None:
    """The tree is the authorized one.

    Raises:
        RefusedError: VERIFY_TREE_UNAUTHORIZED.
    """
    wanted = base.state.run.commit_authorization.tree
    if commit.tree != wanted:
        message = f"its tree is {commit.tree}, but {base.claim.task_id} authorized {wanted}"
        raise RefusedError(ErrorCode.VERIFY_TREE_UNAUTHORIZED, message)


def check_parent(commit: Commit, base: Ground) -> None:
    """The one parent is the authorized one.

    Raises:
        RefusedError: VERIFY_PARENT_UNAUTHORIZED.
    """
    wanted = base.state.run.commit_authorization.head
    if commit.parents != ((wanted,) if wanted else ()):
        found = ", ".join(commit.parents) or "none"
        message = f"its parent is {found}, but {base.claim.task_id} authorized a commit on {wanted or 'nothing'}"
        raise RefusedError(ErrorCode.VERIFY_PARENT_UNAUTHORIZED, message)


def check_diff(commit: Commit, base: Ground, look: Look) -> None:
    """Every change was judged, and everything that was judged is there.

    Raises:
        RefusedError: VERIFY_DIFF naming the paths.
    """
    odd = differing(commit, base.judged, look)
    if odd:
        message = f"{', '.join(odd[:8])} differ from what the code review of {base.claim.task_id} judged"
        raise RefusedError(ErrorCode.VERIFY_DIFF, message)


def differing(commit: Commit, judged: Mapping[str, Entry] | None, look: Look) -> tuple[str, ...]:
    """The paths of a commit that are not as they were judged; what the parent has already need not be in its diff."""
    if judged is None:
        return ()
    odd = {path for path, entry in commit.changes.items() if path not in judged or judged[path] != entry}
    quiet = judged.keys() - commit.changes.keys()
    if quiet:
        entries = look.entries()
        odd |= {path for path in quiet if entries.get(path) != judged[path]}
    return tuple(sorted(odd))


def _rewritten(commit: Commit, base: Ground, look: Look, otherwise: RefusedError) -> Verdict:
    """The verdict for a commit that is not the authorized one: its patch may be.

    Only what was recorded can have been rewritten: a patch that was authorized and never used is no excuse for a
    commit made past the gate.
    """
    if base.recorded is None or base.recorded == commit.oid or len(commit.parents) > 1:
        return broken(otherwise)
    if commit.changes and _is_same_work(commit, base, look):
        detail = f"the same patch as {base.recorded}, which {base.claim.task_id} authorized"
        return _good(("rebased", *base.flaws), detail)
    return broken(otherwise)


def _is_same_work(commit: Commit, base: Ground, look: Look) -> bool:
    """Whether the patch is the authorized one; its content alone would let old work undo what came after it."""
    if base.patch is not None:
        return base.patch == look.patch()
    return base.judged is not None and not differing(commit, base.judged, look)


def _squashed(commit: Commit, grounds: Sequence[Ground], look: Look) -> Verdict:
    """The verdict for a commit with the trailers of several: together they must have changed just this."""
    names = ", ".join(base.claim.task_id for base in grounds)
    complete = all(base.recorded is not None and base.judged is not None for base in grounds)
    if complete and len(commit.parents) <= 1 and _is_all_of(commit, _linked(grounds), look):
        return _good(("squashed", *(flaw for base in grounds for flaw in base.flaws)), f"made of {names}")
    message = f"it has the trailers of {names}, but is not what they committed together"
    raise RefusedError(ErrorCode.VERIFY_TREE_UNAUTHORIZED, message)


def _is_all_of(commit: Commit, order: Sequence[Ground], look: Look) -> bool:
    """Whether a commit is what several were together: their patch, or their content where that can't be asked."""
    linked = all(_follows(after, before) for before, after in pairwise(order))
    if linked and all(_is_here(base, look) for base in order):
        head, last = order[0].state.run.commit_authorization.head, str(order[-1].recorded)
        return look.between(head, last) == look.patch() or bool(head and look.follows(head) and look.joins(last))
    if any(look.follows(str(base.recorded)) for base in order):
        return False  # content of old work would undo what came after it
    return any(not differing(commit, _together(each), look) for each in (order, tuple(reversed(order))))


def _follows(after: Ground, before: Ground) -> bool:
    return after.state.run.commit_authorization.head == before.recorded


def _is_here(base: Ground, look: Look) -> bool:
    """Whether the recorded commit is here and is the authorized one; no trailer holds the line that names it."""
    leave = base.state.run.commit_authorization
    return look.original(str(base.recorded)) == (leave.tree, (leave.head,) if leave.head else ())


def _together(order: Sequence[Ground]) -> Mapping[str, Entry]:
    changes: dict[str, Entry] = {}
    for base in order:
        changes |= base.judged or {}
    return changes


def _linked(grounds: Sequence[Ground]) -> tuple[Ground, ...]:
    """Oldest first: what stands on another's commit comes after it; otherwise as the message has them."""
    left = list(grounds)
    order: list[Ground] = []
    while left:
        made = {base.recorded for base in left}
        first = next((base for base in left if base.state.run.commit_authorization.head not in made), left[0])
        left.remove(first)
        order.append(first)
    return tuple(order)


def _good(flaws: Sequence[str], detail: str = "") -> Verdict:
    unique = tuple(dict.fromkeys(flaws))
    return Verdict(Kind.WEAK, "; ".join(unique), detail=detail) if unique else Verdict(Kind.VERIFIED)


# -- merges ------------------------------------------------------------------------------------------------------------


class Merged(StrEnum):
    """Whether a merge holds nothing of its own."""

    CLEAN = "clean"
    BY_HAND = "by hand"
    UNKNOWN = "unknown"


def merge_by_paths(
    ours: Mapping[str, Entry], theirs: Mapping[str, Entry], result: Mapping[str, Entry]
) -> tuple[Merged, tuple[str, ...]]:
    """Compare a merge with its sides path by path, where git can't make it again; content is not merged here.

    Args:
        ours: what the first parent changed since the merge base; `theirs` the second parent, `result` the merge.

    Returns:
        By hand with the paths that no side has, unknown where content had to be merged or a file may have been moved.
    """
    both = {path for path in ours.keys() & theirs.keys() if ours[path] != theirs[path]}
    expected = {**theirs, **ours}
    odd = sorted(
        path
        for path in (expected.keys() | result.keys()) - both
        if path not in expected or path not in result or expected[path] != result[path]
    )
    moved = any(ours[path] is None or theirs[path] is None for path in both)
    if odd and not moved:
        return Merged.BY_HAND, tuple(odd)
    return (Merged.UNKNOWN if both or odd else Merged.CLEAN), ()


def judge_merge(answer: Merged, odd: Sequence[str], parents: Sequence[tuple[str, Verdict | None, bool]]) -> Verdict:
    """The verdict for a merge: as good as its parents, if it holds nothing of its own.

    Args:
        parents: id, verdict, and whether that one passes; without a verdict outside of the range.
    """
    if answer is Merged.BY_HAND:
        what = f": {', '.join(odd[:8])}" if odd else ""
        return Verdict(Kind.UNRECEIPTED, detail=f"the merge is not what git makes of its parents{what}")
    faulty = next((oid for oid, verdict, passes in parents if verdict and not passes), None)
    if faulty:
        return Verdict(Kind.UNRECEIPTED, detail=f"a merge of {faulty[:10]}, which is not verified")
    if answer is Merged.UNKNOWN:
        detail = "the merge can't be made again here, so its content is not proven; git 2.38 and newer can"
        return Verdict(Kind.INCOMPLETE, code=ErrorCode.GIT_FAILED, detail=detail)
    weak = [oid for oid, verdict, _ in parents if verdict and verdict.kind is not Kind.VERIFIED]
    if weak:
        return Verdict(Kind.WEAK, "merge", detail=f"a clean merge; {weak[0][:10]} is not fully verified")
    return Verdict(Kind.VERIFIED)
