"""From what lies in a task folder and what the journal says to the facts that the route depends on.

Pure: the folder arrives as values, the present product tree as a question that is asked only where it matters.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_infra.core import ledger as ledgers
from agent_infra.core.artifacts import ArtifactName
from agent_infra.core.ledger import DECIDED, PENDING, Ledger, Row
from agent_infra.core.lifecycle import PHASES, STAGES_OF_FLOW, Flow, Stage, Step
from agent_infra.core.receipts import Receipt, ReceiptStatus
from agent_infra.core.reviews import Review, Verdict, approves, parse_review
from agent_infra.core.routing import ArtifactFact, Facts, PhaseFacts, ReviewFact
from agent_infra.core.run import State
from agent_infra.core.validation import read_validation
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError


@dataclass(frozen=True)
class ArtifactFile:
    """One artifact as it lies on disk."""

    artifact: ArtifactName
    sha256: str
    data: bytes

    @property
    def name(self) -> str:
        """Its file name."""
        return self.artifact.name


@dataclass(frozen=True)
class Folder:
    """A task folder: task.md and the newest artifact of each family."""

    task: bytes
    newest: Mapping[str, ArtifactFile] = field(default_factory=dict)


@dataclass(frozen=True)
class Situation:
    """What facts are gathered from.

    Attributes:
        state: the run, or `None` where none exists: then names alone tie a review to its artifact.
        product_tree: asks for the present product tree; only called where a code review would approve.
    """

    folder: Folder
    flow: Flow
    state: State | None
    product_tree: Callable[[], str]

    def newest(self, family: str) -> ArtifactFile | None:
        """The newest artifact of a family."""
        return self.folder.newest.get(family)


def gather(situation: Situation) -> Facts:
    """The facts of a task.

    Raises:
        AgentInfraError: whatever asking for the product tree raises.
    """
    phases = {str(phase): phase_facts(situation, phase) for phase in PHASES}
    return Facts(
        flow=situation.flow,
        **phases,
        manual_validation=_manual_validation(situation),
        ledger_fault=ledger_fault(situation.folder.task, situation.state),
    )


def phase_facts(situation: Situation, phase: Stage) -> PhaseFacts:
    """The facts of one executor stage and its review."""
    artifact = situation.newest(phase)
    review = situation.newest(f"review-{phase}")
    round_ = artifact.artifact.round if artifact else 0
    review_round = review.artifact.round if review else 0
    if artifact is None:
        return PhaseFacts(review_round=review_round)
    worth = _artifact_fact(situation, artifact)
    fault: AgentInfraError | None = None
    try:
        judged = _review_fact(situation, artifact, review) if review else ReviewFact.ABSENT
    except RefusedError as error:
        judged, fault = ReviewFact.UNREADABLE, error
    return PhaseFacts(worth, round_, judged, review_round, fault)


def _artifact_fact(situation: Situation, artifact: ArtifactFile) -> ArtifactFact:
    state = situation.state
    if state is None:
        return ArtifactFact.READY
    receipt = state.newest_receipt(artifact.name)
    if receipt and receipt.status == ReceiptStatus.ABORTED:
        return ArtifactFact.UNFINISHED
    family = artifact.artifact.family
    if state.memo.reopened.get(family, 0) >= artifact.artifact.round:
        return ArtifactFact.OUTDATED
    if any(_has_newer_round(situation, name) for name in _built_on(state, artifact, receipt)):
        return ArtifactFact.OUTDATED
    return ArtifactFact.READY


def _built_on(state: State, artifact: ArtifactFile, receipt: Receipt | None) -> list[str]:
    """Names of what an artifact was built on; without a receipt, what its first review judged it against."""
    if receipt is None:
        receipt = next((r for r in state.run.receipts if r.inputs and r.inputs[0].name == artifact.name), None)
    own = artifact.artifact.family
    names = [entry.name for entry in receipt.inputs] if receipt else []
    # its own family is what a rework answers, not what it stands on
    return [name for name in names if _family(name) in PHASES and _family(name) != own]


def _has_newer_round(situation: Situation, name: str) -> bool:
    newest = situation.newest(_family(name))
    return newest is not None and newest.name != name


def _family(name: str) -> str:
    stem = name.removesuffix(".md")
    base, dash, digits = stem.rpartition("-r")
    return base if dash and digits.isascii() and digits.isdigit() else stem


def _review_fact(situation: Situation, artifact: ArtifactFile, review: ArtifactFile) -> ReviewFact:
    """What the newest review says about this very artifact.

    Raises:
        RefusedError: ORCHESTRATION_REVIEW_INVALID.
    """
    state = situation.state
    if state is None:
        return _by_name(artifact, review)
    if state.memo.reopened.get(review.artifact.family, 0) >= review.artifact.round:
        return ReviewFact.ABSENT
    receipt = state.newest_receipt(review.name)
    if receipt is None:
        return _adopted(situation, artifact, review)
    if receipt.status == ReceiptStatus.ABORTED:
        return ReviewFact.UNFINISHED
    judged = receipt.inputs[0] if receipt.inputs else None
    if judged is None or (judged.name, judged.sha256) != (artifact.name, artifact.sha256):
        return ReviewFact.ABSENT
    found = parse_review(review.data, review.name)
    if receipt.artifact_digest != review.sha256:
        recorded = Verdict(state.memo.verdicts.get(review.name, Verdict.REJECTED))
        # an edited review counts only against its author's interest
        return ReviewFact.REJECTS if found.verdict.strictness > recorded.strictness else ReviewFact.ABSENT
    return _verdict(found, lambda: _judged_product_is_there(situation, review, receipt.input_tree))


def _by_name(artifact: ArtifactFile, review: ArtifactFile) -> ReviewFact:
    """Without a run only the name in the review ties it to an artifact."""
    found = parse_review(review.data, review.name)
    return _verdict(found, lambda: True) if found.input == artifact.name else ReviewFact.ABSENT


def _adopted(situation: Situation, artifact: ArtifactFile, review: ArtifactFile) -> ReviewFact:
    """A review without a receipt counts only if it lay there at `begin` and a person said so."""
    memo = situation.state.memo if situation.state else None
    if memo is None or not memo.adopt_reviews:
        return ReviewFact.ABSENT
    if any(memo.found.get(file.name) != file.sha256 for file in (artifact, review)):
        return ReviewFact.ABSENT
    fact = _by_name(artifact, review)
    approved = fact is ReviewFact.APPROVES
    return fact if not approved or _judged_product_is_there(situation, review, memo.begun_tree) else ReviewFact.ABSENT


def _judged_product_is_there(situation: Situation, review: ArtifactFile, judged: str | None) -> bool:
    """A code review approves one product tree and no other."""
    return review.artifact.family != Stage.REVIEW_CODE or judged == situation.product_tree()


def _verdict(review: Review, still_there: Callable[[], bool]) -> ReviewFact:
    if not approves(review):
        return ReviewFact.REJECTS
    return ReviewFact.APPROVES if still_there() else ReviewFact.ABSENT


def _manual_validation(situation: Situation) -> int | None:
    review = situation.newest(Stage.REVIEW_CODE)
    if review is None:
        return None
    try:
        left = parse_review(review.data, review.name).manual_validation
    except RefusedError:
        return None
    return 0 if left and is_validated(situation, review) else left


def is_validated(situation: Situation, review: ArtifactFile) -> bool:
    """Whether a person has validated by hand what this very code review left; a later round is another review."""
    state = situation.state
    if state:
        return state.memo.validated.get(review.name) == review.sha256
    newest = situation.newest("manual-validation")
    found = read_validation(newest.data) if newest else None
    return found is not None and (found.review, found.sha256) == (review.name, review.sha256)


def proven_rows(state: State) -> dict[str, Row]:
    """The ledger rows that the journal knows, by id."""
    return {id_: Row(id_, *cells) for id_, cells in state.memo.ledger.items()}


def read_ledger(task: bytes, state: State | None) -> Ledger:
    """The ledger of task.md.

    Raises:
        RefusedError: ORCHESTRATION_LEDGER_INVALID, also where the section was there at `begin` and is gone.
    """
    ledger = ledgers.parse_ledger(task)
    if state and state.memo.ledger_present and not ledger.present:
        message = "task.md: the ledger section that was there at `begin` is gone; put it back"
        raise RefusedError(ErrorCode.ORCHESTRATION_LEDGER_INVALID, message)
    return ledger


def check_proof(ledger: Ledger, state: State, *, may_close: bool) -> None:
    """No row may vanish, and none becomes terminal but by a reviewer or a person.

    Raises:
        RefusedError: ORCHESTRATION_LEDGER_UNPROVEN naming the rows.
    """
    odd = ledgers.unproven(proven_rows(state), ledger, may_close=may_close)
    if odd:
        message = (
            f"ledger rows {', '.join(odd)} vanished or were closed outside a review; put them back as they were, "
            f"or a person decides: `agent-infra task decide {state.run.task_id} --item {odd[0]} --result …`"
        )
        raise RefusedError(ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN, message)


def ledger_fault(task: bytes, state: State | None) -> AgentInfraError | None:
    """Why the ledger does not allow a commit, or `None`."""
    try:
        ledger = read_ledger(task, state)
        if state:
            check_proof(ledger, state, may_close=False)
    except RefusedError as error:
        return error
    gate = ledgers.gate(ledger)
    if gate.can_advance:
        return None
    rows = ", ".join(f"{row.id} ({row.status})" for row in gate.open_rows)
    waiting = next((row.id for row in gate.open_rows if row.status == PENDING), None)
    helps = "a reviewer must settle them"
    if waiting:
        task_id = state.run.task_id if state else "TASK"
        command = f"agent-infra task decide {task_id} --item {waiting} --result …"
        helps = f"a reviewer settles them, a person what needs a human decision: `{command}`"
    message = f"the ledger holds unresolved rows: {rows}; {helps}"
    return RefusedError(ErrorCode.ORCHESTRATION_LEDGER_BLOCKED, message)


def changed_rows(ledger: Ledger, state: State, *, may_close: bool) -> tuple[Row, ...]:
    """The rows that the pending step changed and its receipt does not name yet; closed ones only where it may close.

    What a person decided is nobody's change, neither the ruling nor an edit of it.
    """
    proven = proven_rows(state)
    decided = {name for name, row in proven.items() if row.status == DECIDED}
    known = proven | {row.id: row for row in receipt_rows(state.pending)}
    changed = (row for row in ledgers.changed_rows(known, ledger) if row.id not in decided and row.status != DECIDED)
    return tuple(row for row in changed if may_close or not ledgers.is_terminal(row.status))


def receipt_rows(receipt: Receipt | None) -> tuple[Row, ...]:
    """The ledger rows that a receipt names, oldest change first."""
    return tuple(Row(*cells) for cells in receipt.ledger) if receipt else ()


def remembered(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Rows as the journal remembers them, by id; of two changes of one row the later."""
    return {row.id: [row.stage, row.round, row.severity, row.status, row.evidence] for row in rows}


def counted(receipt: Receipt, known: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """What the journal remembers once a receipt counts: its rows, but for those that a person decided meanwhile.

    Args:
        known: the rows that the journal knows, as it remembers them.
    """
    decided = {name for name, cells in known.items() if cells[3] == DECIDED}
    return remembered(row for row in receipt_rows(receipt) if row.id not in decided)


def seen(rows: Iterable[Row]) -> dict[str, list[str]]:
    """What the journal remembers while a step is not sealed and counted: open rows, which must not vanish any more.

    A closed row is proven by a receipt that counts, so it is remembered when that receipt is consumed.
    """
    return remembered(row for row in rows if not ledgers.is_terminal(row.status))


def input_names(step: Step, situation: Situation) -> tuple[str, ...]:
    """What a step is given: first what it judges or builds on, then what that stands on and what it must answer."""
    stage = step.stage
    if stage is Stage.COMMIT:
        return _present(situation, Stage.CODE, Stage.REVIEW_CODE)
    upstream = _upstream(stage.phase, situation.flow)
    if stage.role == "reviewer":
        return _present(situation, stage.phase, *upstream)
    answers = (f"review-{stage}",) if step.round > 1 else ()
    return _present(situation, *upstream, *answers)


def _upstream(phase: Stage, flow: Flow) -> tuple[str, ...]:
    """The executor stage before `phase` in this flow: plan stands on analysis, code on plan or else analysis."""
    earlier = [stage for stage in PHASES[: PHASES.index(phase)] if stage in STAGES_OF_FLOW[flow]]
    return (earlier[-1],) if earlier else ()


def _present(situation: Situation, *families: str) -> tuple[str, ...]:
    found = (situation.newest(family) for family in families)
    return tuple(file.name for file in found if file)
