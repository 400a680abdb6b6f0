"""What a child leaves: is it what its step asks for, and what do journal and task.md learn from it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agent_infra import __version__
from agent_infra.core import frontmatter, tasks
from agent_infra.core import ledger as ledgers
from agent_infra.core.artifacts import parse_artifact_name
from agent_infra.core.facts import ArtifactFile, changed_rows, check_proof, read_ledger, seen
from agent_infra.core.ledger import Ledger, Row
from agent_infra.core.lifecycle import CURRENT_STEPS, Role, Stage
from agent_infra.core.receipts import Receipt
from agent_infra.core.reviews import Counts, Review, approves, parse_review
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.services import records
from agent_infra.services.context import Context, check_task
from agent_infra.services.guard import authorize
from agent_infra.stores.artifacts import read_artifact, read_task
from agent_infra.stores.atomic import write_atomic
from agent_infra.stores.workspace import TaskPlace

# what the log calls an agent, where it differs from what the agent calls itself
_LOG_NAMES = {"claude-code": "claude"}


@dataclass(frozen=True)
class Result:
    """A step's result that was found to be right.

    Attributes:
        digest: SHA-256 of the artifact; of a commit the commit's id.
        task: task.md as it was read for the checks.
        rows: the ledger rows that the step changed.
        memo: what the journal remembers of it.
        run: fields of the run that it changes.
    """

    digest: str | None
    task: bytes
    review: Review | None = None
    detail: str = ""
    rows: tuple[Row, ...] = ()
    memo: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] | None = None


def take(context: Context, place: TaskPlace, state: State) -> Result:
    """The result of the pending step, checked.

    Raises:
        RefusedError: what `complete` refuses a result for; see there.
    """
    receipt = records.pending(state)
    task = read_task(place)
    check_task(task, place.task_id)
    if receipt.stage == Stage.COMMIT:
        commit, subject = authorize.made_commit(context, state)
        used = state.run.commit_authorization.evolve(commit=commit)
        run = {"commitAuthorization": used.to_json()}
        return Result(commit, task, detail=f"{commit[:10]} {subject}", memo={"head": commit}, run=run)
    file = _artifact(place, receipt)
    may_close = receipt.role == Role.REVIEWER
    ledger = read_ledger(task, state)
    check_proof(ledger, state, may_close=may_close)
    review = _check_review(place, receipt, file, ledger) if may_close else None
    if review is None:
        _check_document(file)
    rows = changed_rows(ledger, state, may_close=may_close)
    memo: dict[str, Any] = {"ledger": seen(rows)}
    if review:
        memo["verdicts"] = {file.name: review.verdict.value}
    return Result(file.sha256, task, review=review, rows=rows, memo=memo)


def _artifact(place: TaskPlace, receipt: Receipt) -> ArtifactFile:
    name = parse_artifact_name(receipt.artifact)
    file = read_artifact(place, name) if name else None
    if file is None:
        message = f"{receipt.artifact} is not in {place.folder}; write it, then call `complete` again"
        raise RefusedError(ErrorCode.ARTIFACT_NOT_FOUND, message)
    return file


def _check_document(file: ArtifactFile) -> None:
    """An executor's artifact is text that says something; a front matter, where there is one, can be read."""
    try:
        text = file.data.decode()
        if frontmatter.has_front_matter(file.data):
            frontmatter.parse_front_matter(file.data, flat=False)
    except (UnicodeDecodeError, AgentInfraError) as error:
        words = error.message if isinstance(error, AgentInfraError) else f"it is not UTF-8 ({error.reason})"
        raise RefusedError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, f"{file.name}: {words}") from error
    if not text.strip():
        raise RefusedError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, f"{file.name} is empty")


def _check_review(place: TaskPlace, receipt: Receipt, file: ArtifactFile, ledger: Ledger) -> Review:
    """A review can be read, counts what the ledger counts, and does not approve what it faults."""
    review = parse_review(file.data, file.name)
    judged = receipt.inputs[0].name
    if review.input not in (None, judged) and (place.folder / str(review.input)).is_file():
        message = f"{file.name}:1: it names {review.input} as its input, but it was to judge {judged}"
        raise RefusedError(ErrorCode.ORCHESTRATION_REVIEW_INVALID, message)
    stage = Stage(receipt.stage).phase
    unresolved = ledgers.unresolved_counts(ledger, stage)
    if review.counts != unresolved:
        message = (
            f"{file.name} counts {_counts(review.counts)}, but the ledger of task.md holds {_counts(unresolved)} "
            f"unresolved of stage {stage}; write each finding as a ledger row, or mend the counts"
        )
        raise RefusedError(ErrorCode.REVIEW_SUMMARY_COUNT_MISMATCH, message)
    if review.verdict == "approved" and not approves(review):
        message = f"{file.name} says Approved with {_counts(review.counts)} left; Approved needs none"
        raise RefusedError(ErrorCode.REVIEW_VERDICT_FINDING_MISMATCH, message)
    if receipt.stage == Stage.REVIEW_CODE and approves(review) and review.manual_validation is None:
        message = f"{file.name}:1: an approved code review says how much is left to validate by hand, 0 included"
        raise RefusedError(ErrorCode.ORCHESTRATION_REVIEW_INVALID, message)
    return review


def _counts(counts: Counts) -> str:
    return f"{counts.blocker} blockers, {counts.major} majors, {counts.minor} minors"


def late_rows(place: TaskPlace, state: State, *, may_close: bool) -> tuple[Row, ...]:
    """The ledger rows that changed after `complete`; what can't be read now is said by `route`."""
    try:
        return changed_rows(read_ledger(read_task(place), state), state, may_close=may_close)
    except AgentInfraError:
        return ()


def write_task(context: Context, place: TaskPlace, receipt: Receipt, result: Result, agent: str) -> None:
    """Log a finished step in task.md, link its artifact and set `current_step`; a step that is there is left.

    Raises:
        RefusedError: ORCHESTRATION_TASK_INVALID, STORE_WRITE_FAILED.

    Side effects:
        task.md.
    """
    stage = Stage(receipt.stage)
    at = datetime.fromisoformat(context.now()).isoformat(sep=" ", timespec="seconds")
    name = _LOG_NAMES.get(agent.lower(), agent.lower())
    note = tasks.finish_note(stage, receipt.round, receipt.artifact, review=result.review, detail=result.detail)
    entry = tasks.LogEntry(at, tasks.step_name(stage, receipt.round), name, note)
    link = None if stage is Stage.COMMIT else tasks.ArtifactLink(stage, receipt.round)
    fields = {
        "current_step": CURRENT_STEPS[stage],
        "assigned_to": name,
        "updated_at": at,
        "agent_infra_version": f"v{__version__}",
    }
    try:
        data = tasks.record_step(result.task, entry, fields=fields, link=link)
    except AgentInfraError as error:
        raise RefusedError(ErrorCode.ORCHESTRATION_TASK_INVALID, f"task.md: {error.message}") from error
    if data != result.task:
        write_atomic(place.document, data)
