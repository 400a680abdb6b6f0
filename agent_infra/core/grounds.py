"""May a commit stand on this run? The evidence of a task, held against every rule that needs no commit.

Pure: journal lines and documents arrive as values.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from agent_infra.core import ledger as ledgers
from agent_infra.core.artifacts import ArtifactName, parse_artifact_name
from agent_infra.core.checks import check_passed
from agent_infra.core.config import GateConfig
from agent_infra.core.facts import ArtifactFile, Folder, Situation, gather, ledger_fault, proven_rows
from agent_infra.core.history import PATCH, Chronicle, Claim, Ground, newest_receipt
from agent_infra.core.ledger import Ledger
from agent_infra.core.lifecycle import STAGES_OF_FLOW, Flow, Role, Stage
from agent_infra.core.receipts import Receipt, ReceiptStatus
from agent_infra.core.routing import route
from agent_infra.core.rulings import said
from agent_infra.core.run import Run, RunStatus, State
from agent_infra.errors import ErrorCode, RefusedError


def ground(chronicle: Chronicle, documents: Mapping[str, bytes], claim: Claim) -> Ground:
    """What the evidence says for a claim, after every check that needs no commit.

    1. the trailer's digest is a line of this journal, whose chain was read from its first line on
    2. the lines are of one schema and of this task and run, and the view beside them shows them
    3. every transition is one that the tables allow: no reviewer was an executor, and each wrote only what it may
    4. at that line a commit was authorized, and its step was under way
    5. the artifacts of the receipts are there, with their digests
    6. the ledger is proven and clear
    7. every review that the flow asks for approves, by the very route that the run went
    8. what the settings of the run required had passed on the judged tree when the commit was authorized

    Args:
        documents: task.md and artifacts of the evidence, by name.

    Raises:
        AgentInfraError: the code of the first check that failed.
    """
    line = check_anchor(chronicle, claim)
    state = check_schema(chronicle, claim, line)
    story = chronicle.story
    receipt = check_step(state, claim)
    edited = check_artifacts(state, documents)
    folder = _folder(documents)
    check_ledger(state, folder.task)
    check_route(state, folder)
    check_required(chronicle, line)
    flaws = [f"adopted {name}" for name in _adopted(state, folder)]
    flaws += [f"edited {name}" for name in edited]
    if story.outcomes.get(receipt.id) == ReceiptStatus.ABORTED:
        flaws.append("aborted")
    prepared = next(e for e in reversed(chronicle.events[:line]) if e["op"] == "prepare")
    patch = prepared.get("facts", {}).get(PATCH)
    digest = patch if isinstance(patch, str) else None
    return Ground(claim, state, story.commits.get(receipt.id), tuple(flaws), digest, said(state))


def check_anchor(chronicle: Chronicle, claim: Claim) -> int:
    """The line that the trailer names.

    Raises:
        RefusedError: VERIFY_TRAILER_UNKNOWN.
    """
    line = chronicle.line_of(claim.receipt)
    if line is None:
        message = (
            f"no line of the evidence of {claim.task_id} has the digest {claim.receipt[:12]}…: "
            "the evidence is older than the commit, or it is not the one that the commit was made with"
        )
        raise RefusedError(ErrorCode.VERIFY_TRAILER_UNKNOWN, message)
    return line


def check_schema(chronicle: Chronicle, claim: Claim, line: int) -> State:
    """The run at a line; the whole journal is a run of ours, and the view shows it.

    Raises:
        CorruptStateError: ORCHESTRATION_JOURNAL_INVALID.
        RefusedError: VERIFY_EVIDENCE_INVALID, VERIFY_TRAILER_UNKNOWN.
    """
    state = chronicle.state(line)
    if state.run.run_id != claim.run_id:
        message = f"that line belongs to run {state.run.run_id}, but the trailers name run {claim.run_id}"
        raise RefusedError(ErrorCode.VERIFY_TRAILER_UNKNOWN, message)
    check_shown(chronicle)
    return state


def check_shown(chronicle: Chronicle) -> None:
    """The view beside the journal shows it to its last line, whose digest no later line names.

    Raises:
        CorruptStateError: ORCHESTRATION_JOURNAL_INVALID.
        RefusedError: VERIFY_EVIDENCE_INVALID.
    """
    try:
        shown: Any = Run.model_validate(json.loads(chronicle.view))
    except (ValueError, RecursionError) as error:
        message = f"orchestration.json in the evidence of {chronicle.task_id} is not a run"
        raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, message) from error
    if shown != chronicle.last.run:
        message = f"orchestration.json in the evidence of {chronicle.task_id} does not show its journal"
        raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, message)


def check_step(state: State, claim: Claim) -> Receipt:
    """The commit receipt that was at work.

    Raises:
        RefusedError: VERIFY_TREE_UNAUTHORIZED.
    """
    receipt, leave = state.pending, state.run.commit_authorization
    is_open = (
        state.run.status == RunStatus.RUNNING
        and receipt is not None
        and (receipt.stage, receipt.status) == (Stage.COMMIT, ReceiptStatus.ACTIVATED)
        and leave.tree is not None
        and leave.commit is None
    )
    if receipt is None or not is_open:
        message = f"at the line that the trailers name no commit of {claim.task_id} was authorized"
        raise RefusedError(ErrorCode.VERIFY_TREE_UNAUTHORIZED, message)
    return receipt


def check_artifacts(state: State, documents: Mapping[str, bytes]) -> tuple[str, ...]:
    """What the consumed receipts left is there; the names of what was edited after nobody looked at it any more.

    Raises:
        RefusedError: VERIFY_ARTIFACT_DIGEST where it is gone, or an approval stood on other bytes.
    """
    known: dict[str, str] = {}
    weighty: set[str] = set()
    for receipt in state.run.receipts:
        known |= {entry.name: entry.sha256 for entry in receipt.inputs}
        if receipt.status != ReceiptStatus.CONSUMED or receipt.artifact_digest is None:
            continue
        known[receipt.artifact] = receipt.artifact_digest
        if receipt.role == Role.REVIEWER and state.memo.verdicts.get(receipt.artifact) == "approved":
            weighty |= {receipt.artifact, *(entry.name for entry in receipt.inputs[:1])}
    pending = state.pending
    known |= {entry.name: entry.sha256 for entry in pending.inputs} if pending else {}
    made = {receipt.artifact for receipt in state.run.receipts if receipt.status == ReceiptStatus.CONSUMED}
    gone = sorted(name for name in made if name not in documents and name != Stage.COMMIT)
    if gone:
        message = f"{', '.join(gone)} is not in the evidence, though a receipt says that it was handed in"
        raise RefusedError(ErrorCode.VERIFY_ARTIFACT_DIGEST, message)
    odd = sorted(
        name for name in known if name in documents and hashlib.sha256(documents[name]).hexdigest() != known[name]
    )
    if weighty & set(odd):
        message = f"{', '.join(sorted(weighty & set(odd)))} in the evidence has other bytes than its receipt says"
        raise RefusedError(ErrorCode.VERIFY_ARTIFACT_DIGEST, message)
    return tuple(odd)


def check_ledger(state: State, task: bytes) -> None:
    """No row was open, neither in the journal nor in task.md, and none was closed by nobody.

    Raises:
        RefusedError: VERIFY_LEDGER.
    """
    left = ledgers.gate(Ledger(tuple(proven_rows(state).values()), present=True))
    if not left.can_advance:
        names = ", ".join(row.id for row in left.open_rows)
        raise RefusedError(ErrorCode.VERIFY_LEDGER, f"the journal holds unresolved findings: {names}")
    fault = ledger_fault(task, state)
    if fault:
        raise RefusedError(ErrorCode.VERIFY_LEDGER, f"task.md of the evidence: {fault.message}")


def check_route(state: State, folder: Folder) -> None:
    """The route of the run leads to its commit: each reviewed stage of its flow is approved, by a receipt.

    Raises:
        RefusedError: VERIFY_REVIEW_MISSING.
    """
    review = newest_receipt(state, Stage.REVIEW_CODE)
    # the product tree is not in the evidence; that it is the judged one follows from the diff of the commit
    judged = (review.input_tree if review else None) or state.memo.begun_tree
    answer = route(gather(Situation(folder, Flow(state.run.flow), state, lambda: judged)))
    if answer.fault or answer.step is None or answer.step.stage is not Stage.COMMIT:
        found = answer.fault.message if answer.fault else f"{answer.step.artifact if answer.step else 'nothing'} is due"
        message = f"the evidence does not lead to a commit: {found}"
        raise RefusedError(ErrorCode.VERIFY_REVIEW_MISSING, message)


def check_required(chronicle: Chronicle, line: int) -> None:
    """The checks that the run requires had passed on the judged product tree when its commit was prepared.

    Raises:
        RefusedError: ORCHESTRATION_CHECK_MISSING, VERIFY_EVIDENCE_INVALID.
    """
    prepared = max(number for number, event in enumerate(chronicle.events[:line], 1) if event["op"] == "prepare")
    state = chronicle.state(prepared)
    try:
        required = GateConfig.model_validate(state.memo.config.get("gate", {})).required_checks
    except ValueError as error:
        message = f"the settings in the journal of {chronicle.task_id} name no required checks that can be read"
        raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, message) from error
    review = newest_receipt(state, Stage.REVIEW_CODE)
    judged = (review.input_tree if review else None) or state.memo.begun_tree
    check_passed(required, state.memo.checks, judged, task_id=chronicle.task_id)


def _folder(documents: Mapping[str, bytes]) -> Folder:
    newest: dict[str, ArtifactFile] = {}
    for name, data in documents.items():
        artifact: ArtifactName | None = parse_artifact_name(name)
        if artifact is None:
            continue
        known = newest.get(artifact.family)
        if known is None or known.artifact.round < artifact.round:
            newest[artifact.family] = ArtifactFile(artifact, hashlib.sha256(data).hexdigest(), data)
    if "task.md" not in documents:
        raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, "there is no task.md in the evidence")
    return Folder(documents["task.md"], newest)


def _adopted(state: State, folder: Folder) -> tuple[str, ...]:
    """Reviews that count without a receipt, since a person adopted them."""
    wanted = [stage for stage in STAGES_OF_FLOW[Flow(state.run.flow)] if stage.role == Role.REVIEWER]
    there = (folder.newest.get(stage) for stage in wanted)
    return tuple(file.name for file in there if file and state.newest_receipt(file.name) is None)
