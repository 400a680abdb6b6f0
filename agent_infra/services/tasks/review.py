"""The summary of a review, filled from the ledger: nobody has to count."""

from dataclasses import dataclass

from agent_infra.core.artifacts import parse_artifact_name
from agent_infra.core.ledger import parse_ledger, unresolved_counts
from agent_infra.core.reviews import Counts, Verdict, fill_summary, stated_manual
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.services.tasks.current import find_task
from agent_infra.stores.artifacts import artifact_names, read_task
from agent_infra.stores.atomic import locked, read_regular, write_atomic
from agent_infra.stores.workspace import ARTIFACT_LIMIT, TaskPlace


@dataclass(frozen=True)
class Wish:
    """What the reviewer adds to the counts.

    Attributes:
        verdict: None for the one that the counts suggest.
        manual: validations that only a person can do; None for what the summary says, or 0.
        review: bare file name; empty for the pending review, or the newest.
    """

    verdict: Verdict | None = None
    manual: int | None = None
    review: str = ""


@dataclass(frozen=True)
class Finished:
    """The review whose summary was filled."""

    place: TaskPlace
    name: str
    verdict: Verdict
    counts: Counts
    manual: int
    changed: bool


def finish(context: Context, ref: str | None, wish: Wish) -> Finished:
    """Write verdict and counts into a review's summary.

    Raises:
        RefusedError: REVIEW_VERDICT_FINDING_MISMATCH for an approval with unresolved findings;
            ORCHESTRATION_REVIEW_INVALID for a file without a summary; ARTIFACT_NOT_FOUND without a review;
            ORCHESTRATION_LEDGER_INVALID; as for `find_task`.

    Side effects: the review, in one write.
    """
    place = context.active(find_task(context, ref).task_id)
    with locked(context.runs.lock_path, wait=context.lock_wait):
        name = wish.review or _meant(context, place)
        artifact = parse_artifact_name(name)
        if artifact is None or not artifact.family.startswith("review-"):
            raise RefusedError(ErrorCode.ORCHESTRATION_REVIEW_INVALID, f"{name} is no review, such as review-code.md")
        before = read_regular(place.folder / name, limit=ARTIFACT_LIMIT)
        if before is None:
            raise RefusedError(ErrorCode.ARTIFACT_NOT_FOUND, f"{name} is not there; write it first, then finish it")
        counts = unresolved_counts(parse_ledger(read_task(place)), artifact.family.removeprefix("review-"))
        verdict = wish.verdict or (Verdict.CHANGES_REQUESTED if counts.total else Verdict.APPROVED)
        if verdict is Verdict.APPROVED and counts.total:
            message = f"{counts.total} findings are unresolved, so {name} can't approve; settle them or ask for changes"
            raise RefusedError(ErrorCode.REVIEW_VERDICT_FINDING_MISMATCH, message)
        manual = wish.manual if wish.manual is not None else stated_manual(before) or 0
        after = fill_summary(before, name, verdict=verdict, counts=counts, manual=manual)
        if after != before:
            write_atomic(place.folder / name, after)
    return Finished(place, name, verdict, counts, manual, after != before)


def _meant(context: Context, place: TaskPlace) -> str:
    """The review of the pending step, else the newest one there is."""
    state = context.load(place)
    if state and state.pending and state.pending.artifact.startswith("review-"):
        return state.pending.artifact
    found = [
        ((place.folder / name.name).stat().st_mtime_ns, name.name)
        for name in artifact_names(place)
        if name.family.startswith("review-")
    ]
    if not found:
        raise RefusedError(ErrorCode.ARTIFACT_NOT_FOUND, f"{place.task_id} has no review to finish")
    return max(found)[1]
