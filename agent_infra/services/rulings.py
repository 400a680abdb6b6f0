"""What only a person may settle: a row of the ledger, and what a code review left to validate by hand.

The caller has made sure that a person asks. task.md is written first, then the journal: cut in between, the same call
goes on where the first one stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from agent_infra import __version__
from agent_infra.core import rulings, tasks
from agent_infra.core.artifacts import ArtifactName
from agent_infra.core.facts import (
    ArtifactFile,
    is_validated,
    phase_facts,
    proven_rows,
    read_ledger,
    receipt_rows,
    remembered,
)
from agent_infra.core.ledger import DECIDED, Row
from agent_infra.core.lifecycle import Stage
from agent_infra.core.reviews import parse_review
from agent_infra.core.routing import ArtifactFact, ReviewFact
from agent_infra.core.run import RunStatus, State
from agent_infra.core.validation import Validation, read_validation, render_validation
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.services import records
from agent_infra.services.context import Context, check_task
from agent_infra.services.orchestrate import Present
from agent_infra.stores.artifacts import artifact_names, read_artifact, read_task
from agent_infra.stores.atomic import write_atomic
from agent_infra.stores.journal import Event
from agent_infra.stores.workspace import TaskPlace

_VALIDATION = "manual-validation"


@dataclass(frozen=True)
class Word:
    """What a person says.

    Attributes:
        result: one line of text.
        person: who says so, for the record.
    """

    result: str
    person: str


@dataclass(frozen=True)
class Settled:
    """What was settled, and where it is written: a row and its ruling, or a review and its report."""

    subject: str
    written: str
    changed: bool
    notes: tuple[str, ...] = ()


# -- rows of the ledger ------------------------------------------------------------------------------------------------


def find_row(context: Context, ref: str, item: str) -> Row:
    """The row that a person means, to be shown before it is decided; changes nothing.

    Raises:
        RefusedError: DECISION_TARGET_INVALID, ORCHESTRATION_LEDGER_INVALID, or what a task is refused for.
    """
    place = context.active(ref)
    return _row(place, _under_way(context.load(place)), item)


def decide(context: Context, ref: str, *, item: str, word: Word) -> Settled:
    """Settle a row by a person's word, also while a step is pending; the same word again changes nothing.

    Args:
        item: id of the row, or its place among those that wait.

    Raises:
        RefusedError: DECISION_TARGET_INVALID; DECISION_CONFLICT where another ruling on the row counts;
            ORCHESTRATION_LEDGER_INVALID, ORCHESTRATION_TASK_INVALID, STORE_WRITE_FAILED or LOCK_TIMEOUT.

    Side effects:
        task.md in one write; with a run also journal, view and evidence.
    """
    place = context.active(ref)
    settled: list[Settled] = []

    def rule(state: State | None) -> Event | None:
        state = _under_way(state)
        row = _row(place, state, item)
        known = state.memo.ledger.get(row.id) if state else None
        # without a run nothing is proven, and task.md is the record
        counts = known is not None and known[3] == DECIDED if state else row.status == DECIDED
        before = read_task(place)
        after, decided = _edited(before, row, _decision(context, word), is_known=counts)
        if after != before:
            write_atomic(place.document, after)
        is_new = state is not None and remembered([decided]).get(row.id) != known
        settled.append(Settled(row.id, decided.evidence, after != before or is_new))
        facts = {"person": word.person, "result": word.result}
        return Event("decide", memo={"ledger": remembered([decided])}, facts=facts) if is_new else None

    state, changed = context.change(place, rule)
    return _kept(context, place, state if changed else None, settled[-1])


def _row(place: TaskPlace, state: State | None, item: str) -> Row:
    task = read_task(place)
    check_task(task, place.task_id)
    known = proven_rows(state) | {row.id: row for row in receipt_rows(state.pending)} if state else None
    return rulings.select_row(read_ledger(task, state), known, item)


def _decision(context: Context, word: Word) -> rulings.Decision:
    at = _stamp(context)
    return rulings.Decision(word.result, at, _fields(at))


def _edited(data: bytes, row: Row, decision: rulings.Decision, *, is_known: bool) -> tuple[bytes, Row]:
    try:
        return rulings.decide_row(data, row, decision, is_known=is_known)
    except RefusedError as error:
        if error.code in (ErrorCode.DECISION_CONFLICT, ErrorCode.MUTATION_INVALID):
            raise
        raise RefusedError(ErrorCode.ORCHESTRATION_TASK_INVALID, f"task.md: {error.message}") from error


# -- manual validation -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Left:
    """What the newest approved code review left to a person.

    Attributes:
        count: how much; above zero.
        is_done: a person has said so before.
    """

    place: TaskPlace
    review: ArtifactFile
    count: int
    is_done: bool


def find_left(context: Context, ref: str) -> Left:
    """What waits for a person's hands, to be shown before it is confirmed; changes nothing.

    Raises:
        RefusedError: MANUAL_VALIDATION_NOT_PENDING where no approved code review left anything;
            ORCHESTRATION_DELEGATION_BUSY while a step is pending; or what a task is refused for.
    """
    place = context.active(ref)
    state = context.load(place)
    _check_open(place, state)
    situation = Present(context, place, state).situation
    review = situation.newest(Stage.REVIEW_CODE)
    phase = phase_facts(situation, Stage.CODE)
    if review is None or (phase.artifact, phase.review) != (ArtifactFact.READY, ReviewFact.APPROVES):
        found = f"{review.name} does not approve the code as it is" if review else "there is no code review"
        raise _not_pending(f"{found}; `agent-infra orchestrate route {place.task_id}` says what is next")
    count = parse_review(review.data, review.name).manual_validation
    if not count:
        raise _not_pending(f"{review.name} leaves {'nothing' if count == 0 else 'no count of anything'} to a person")
    return Left(place, review, count, is_validated(situation, review))


def validate(context: Context, left: Left, word: Word) -> Settled:
    """Take a person's word that what a review left was validated by hand and is fine.

    Args:
        left: as `find_left` found it; a review that has changed since is refused.

    Raises:
        RefusedError: MANUAL_VALIDATION_NOT_PENDING, ORCHESTRATION_DELEGATION_BUSY, ORCHESTRATION_TASK_INVALID,
            STORE_WRITE_FAILED or LOCK_TIMEOUT.

    Side effects:
        `manual-validation[-rN].md`, task.md; with a run also journal, view and evidence.
    """
    place, review = left.place, left.review
    newest = _newest_validation(place)
    if left.is_done:
        return Settled(review.name, newest.name if newest else "the journal", changed=False)
    found = Validation(review.name, review.sha256, word.result)
    is_there = newest is not None and read_validation(newest.data) == found
    round_ = newest.artifact.round + (not is_there) if newest else 1
    name = ArtifactName(_VALIDATION, round_).name

    def take(state: State | None) -> Event | None:
        _check_open(place, state)
        there = read_artifact(place, review.artifact)
        if there is None or there.sha256 != review.sha256:
            raise _not_pending(f"{review.name} has changed meanwhile; look at it again")
        at = _stamp(context)
        task = _logged(read_task(place), round_, name, word, at=at)
        # the report last: without a run it is what counts
        write_atomic(place.document, task)
        if not is_there:
            report = render_validation(name, found, count=left.count, at=at, person=word.person)
            write_atomic(place.folder / name, report)
        facts = {"person": word.person, "result": word.result, "artifact": name}
        return Event("validated", memo={"validated": {review.name: review.sha256}}, facts=facts) if state else None

    state, _ = context.change(place, take)
    return _kept(context, place, state, Settled(review.name, name, changed=True))


def _check_open(place: TaskPlace, state: State | None) -> None:
    """A run that is over has nothing to validate, and a file beside a child at work would look like the child's."""
    if state and state.run.status == RunStatus.COMPLETED:
        raise _not_pending(f"the run of {place.task_id} is over")
    if state and state.pending:
        message = (
            f"{state.pending.artifact} of {place.task_id} is pending; finish it, "
            f"or `agent-infra orchestrate abandon {place.task_id} --reason …`"
        )
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_BUSY, message)


def _newest_validation(place: TaskPlace) -> ArtifactFile | None:
    found = [name for name in artifact_names(place) if name.family == _VALIDATION]
    return read_artifact(place, max(found)) if found else None


def _logged(data: bytes, round_: int, name: str, word: Word, *, at: str) -> bytes:
    """task.md with the line of the log and the link."""
    # the log names its artifact behind the last arrow of the note
    note = tasks.finish_note(_VALIDATION, round_, name, detail=word.result.replace("→", "->"))
    entry = tasks.LogEntry(at, tasks.step_name(_VALIDATION, round_), "human", note)
    try:
        return tasks.record_step(data, entry, fields=_fields(at), link=tasks.ArtifactLink(_VALIDATION, round_))
    except AgentInfraError as error:
        raise RefusedError(ErrorCode.ORCHESTRATION_TASK_INVALID, f"task.md: {error.message}") from error


def _not_pending(message: str) -> RefusedError:
    return RefusedError(ErrorCode.MANUAL_VALIDATION_NOT_PENDING, message)


# -- both --------------------------------------------------------------------------------------------------------------


def _under_way(state: State | None) -> State | None:
    """The run that keeps the ledger; one that was ended keeps nothing any more."""
    return None if state is None or state.run.ended else state


def _kept(context: Context, place: TaskPlace, state: State | None, settled: Settled) -> Settled:
    """The answer, with the evidence renewed: a person's word is not to be lost with this machine's journal."""
    notes = records.write_evidence(context, place, state) if state else ()
    return Settled(settled.subject, settled.written, settled.changed, notes)


def _stamp(context: Context) -> str:
    return datetime.fromisoformat(context.now()).isoformat(sep=" ", timespec="seconds")


def _fields(at: str) -> Mapping[str, str]:
    return {"updated_at": at, "agent_infra_version": f"v{__version__}"}
