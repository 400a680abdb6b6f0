"""Runs, receipts and task folders as values, for tests that need no repository."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from agent_infra.core.artifacts import ArtifactName, parse_artifact_name
from agent_infra.core.facts import ArtifactFile, Folder, Situation
from agent_infra.core.lifecycle import Flow, Stage
from agent_infra.core.receipts import Input, Receipt, ReceiptStatus
from agent_infra.core.run import Baseline, Memo, Run, State

TASK = "TASK-20260101-120000"
OTHER = "TASK-20260101-130000"
NOW = "2026-01-01T12:00:00.000Z"
LATER = "2026-01-01T12:05:00.000Z"
TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
TASK_MD = b"---\nid: TASK-20260101-120000\n---\n# Adding is wrong\n\n## Activity Log\n"


def review_text(verdict: str = "Approved", *, majors: int = 0, manual: str = "0", judged: str = "plan.md") -> bytes:
    """A review with one summary."""
    tail = f" / **Manual validation**: {manual}" if manual else ""
    return (
        f"# Review\n\n- **Review Input**:\n  - `{judged}`\n\n## Review Summary\n\n- **Overall Verdict**: {verdict}\n"
        f"- **Findings (AI-actionable)**: 0 blockers, {majors} majors, 0 minors{tail}\n"
    ).encode()


def ledger_text(*rows: str) -> bytes:
    """A task.md whose ledger has these rows, each `CD-1 code open` with an optional evidence as fourth word."""
    lines = []
    for row in rows:
        id_, stage, status, *evidence = row.split()
        lines.append(f"| {id_} | {stage} | 1 | major | {status} | {' '.join(evidence)} |\n")
    table = "| id | stage | round | severity | status | evidence |\n|---|---|---|---|---|---|\n"
    return TASK_MD + b"\n## Review Disagreement Ledger\n\n" + table.encode() + "".join(lines).encode()


def file(name: str, data: bytes = b"words\n") -> ArtifactFile:
    """An artifact on disk."""
    artifact = parse_artifact_name(name)
    assert artifact is not None, name
    return ArtifactFile(artifact, hashlib.sha256(data).hexdigest(), data)


def receipt(name: str = "plan.md", **changes: Any) -> Receipt:
    """A prepared receipt for the artifact of that name."""
    artifact = parse_artifact_name(name) or ArtifactName("commit", 1)
    stage = Stage(artifact.family)
    return Receipt(
        id=f"r-{name}",
        task_id=TASK,
        run_id="run-1",
        role=str(stage.role),
        stage=str(stage),
        round=artifact.round,
        artifact=name,
        client="claude-code",
        origin="cli",
        before_fingerprint=TREE,
        created_at=NOW,
    ).evolve(**changes)


def consumed(made: ArtifactFile, *inputs: ArtifactFile, **changes: Any) -> Receipt:
    """A receipt that counts: who made `made` was given `inputs`."""
    given = [Input(name=each.name, sha256=each.sha256) for each in inputs]
    facts = {"status": ReceiptStatus.CONSUMED.value, "inputs": given, "artifact_digest": made.sha256}
    return receipt(made.name, **(facts | changes))


def aborted(name: str, **changes: Any) -> Receipt:
    """A receipt that never counts."""
    return receipt(name, status=ReceiptStatus.ABORTED.value, abort_reason="lost", **changes)


def run(*receipts: Receipt, **changes: Any) -> Run:
    """A running run."""
    return Run(
        task_id=TASK,
        run_id="run-1",
        status="running",
        baseline=Baseline(head=None, tree=TREE),
        worktree="/repo",
        branch="refs/heads/main",
        receipts=list(receipts),
        created_at=NOW,
        updated_at=NOW,
        journal_head="0" * 64,
    ).evolve(**changes)


def state(*receipts: Receipt, pending: Receipt | None = None, **memo: Any) -> State:
    """What a journal says after these receipts."""
    return State(run=run(*receipts, pending_delegation=pending), memo=Memo(**memo), seq=1)


def situation(
    *files: ArtifactFile,
    state: State | None = None,
    task: bytes = TASK_MD,
    flow: Flow = Flow.FULL,
    product_tree: Callable[[], str] = lambda: TREE,
) -> Situation:
    """A task folder with these newest artifacts."""
    newest: Mapping[str, ArtifactFile] = {each.artifact.family: each for each in files}
    return Situation(Folder(task, newest), flow, state, product_tree)


BEGIN: Mapping[str, Any] = {
    "taskId": TASK,
    "runId": "run-1",
    "status": "running",
    "baseline": {"head": None, "tree": TREE},
    "worktree": "/repo",
    "branch": "refs/heads/main",
    "createdAt": NOW,
}
"""The `run` part of an event that begins a run."""
