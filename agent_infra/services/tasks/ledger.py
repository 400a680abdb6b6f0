"""The findings ledger by command: what would be typed into task.md by hand, with the rules of the table looked after.

What is written here is proven like any other edit: a row becomes terminal within a reviewer's receipt or by a person.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent_infra.core import findings
from agent_infra.core.findings import Finding, Move
from agent_infra.core.ledger import Ledger, Row, add_row, is_terminal, parse_ledger, replace_row
from agent_infra.core.lifecycle import Role
from agent_infra.core.rulings import decidable
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.services.tasks.current import find_task
from agent_infra.stores.artifacts import read_task
from agent_infra.stores.atomic import locked, write_atomic
from agent_infra.stores.workspace import TaskPlace


@dataclass(frozen=True)
class Written:
    """The row as it stands now, and whether a byte of task.md moved."""

    place: TaskPlace
    row: Row
    changed: bool


def rows(context: Context, ref: str | None) -> tuple[TaskPlace, Ledger]:
    """The ledger of a task, as task.md has it.

    Raises:
        RefusedError: as for `find_task`; ORCHESTRATION_LEDGER_INVALID.
    """
    place = find_task(context, ref)
    return place, parse_ledger(read_task(place))


def waiting(context: Context, ref: str | None) -> tuple[TaskPlace, tuple[Row, ...]]:
    """The rows that wait for a person, in the order by which `task decide --item N` takes them.

    Raises:
        RefusedError: as for `rows`.
    """
    from agent_infra.core.facts import proven_rows, receipt_rows

    place, ledger = rows(context, ref)
    state = context.load(place)
    if state is None or state.run.ended:
        return place, decidable(ledger, None)
    known = proven_rows(state) | {row.id: row for row in receipt_rows(state.pending)}
    return place, decidable(ledger, known)


def add(context: Context, ref: str | None, finding: Finding) -> Written:
    """Put a finding into the ledger; the same finding again changes nothing.

    Raises:
        RefusedError: LEDGER_EVIDENCE_INVALID, LEDGER_IDENTITY_CONFLICT, LEDGER_DOCUMENT_INVALID; as for `rows`;
            LOCK_TIMEOUT, STORE_WRITE_FAILED.

    Side effects: task.md, in one write.
    """
    return _write(context, ref, lambda ledger, _: findings.add_finding(ledger, finding))


def ask(context: Context, ref: str | None, *, stage: str, artifact: str, row_id: str = "") -> Written:
    """Put a question for a person into the ledger; as `add`."""
    return _write(context, ref, lambda ledger, _: findings.add_decision(ledger, stage, artifact, row_id))


@dataclass(frozen=True)
class Answer:
    """What is said about a row.

    Attributes:
        by: `executor` or `reviewer`.
        round: 1-based; None for the one that fits.
    """

    row_id: str
    status: str
    evidence: str
    by: str
    round: int | None = None


def answer(context: Context, ref: str | None, said: Answer) -> Written:
    """Answer a finding, or settle an answered one; the same words again change nothing.

    Raises:
        RefusedError: LEDGER_NOT_FOUND, LEDGER_TRANSITION_INVALID, LEDGER_EVIDENCE_INVALID;
            ORCHESTRATION_LEDGER_UNPROVEN where a row would become terminal outside of a reviewer's step; as for `add`.

    Side effects: task.md, in one write.
    """
    limit = context.config.review.max_handshake_rounds

    def decide(ledger: Ledger, state: State | None) -> Row:
        row = next((each for each in ledger.rows if each.id == said.row_id.upper()), None)
        if row is None:
            known = ", ".join(each.id for each in ledger.rows) or "none"
            raise RefusedError(
                ErrorCode.LEDGER_NOT_FOUND, f"{said.row_id[:40]} is no row of the ledger; there are: {known}"
            )
        own = int(row.round) if row.round.isdigit() else 0
        round_ = said.round if said.round is not None else own + (said.by == "executor")
        after = findings.answer(Move(row, said.status, round_, said.evidence, limit), by=said.by)
        if is_terminal(after.status) and not is_terminal(row.status):
            _check_reviewer(state, row)
        return after

    return _write(context, ref, decide)


def _check_reviewer(state: State | None, row: Row) -> None:
    """Once a run has begun, only a reviewer's step makes a row terminal; else the next step would find it unproven."""
    if state is None or state.run.status == RunStatus.COMPLETED:
        return
    if state.pending is None or state.pending.role != Role.REVIEWER:
        at = f"{state.pending.artifact} is pending" if state.pending else "no step is pending"
        message = f"{row.id} is closed within a reviewer's step, or by a person: `agent-infra task decide`; now {at}"
        raise RefusedError(ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN, message)


def _write(context: Context, ref: str | None, decide: Callable[[Ledger, State | None], Row]) -> Written:
    """Let `decide` make a row of the present ledger, and put it where it belongs."""
    place = find_task(context, ref)
    place = context.active(place.task_id)
    state = context.load(place)
    with locked(context.runs.lock_path, wait=context.lock_wait):
        before = read_task(place)
        ledger = parse_ledger(before)
        row = decide(ledger, state)
        there = next((each for each in ledger.rows if each.id == row.id), None)
        if there == row:
            return Written(place, row, changed=False)
        after = add_row(before, row) if there is None else replace_row(before, row)
        parse_ledger(after)  # what can't be read back is never written
        write_atomic(place.document, after)
    return Written(place, row, changed=True)
