"""The evidence of one task, from wherever it came: its chain of commits, and what each of them says."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.chain import Link, links
from agent_infra.core.run import Run, fold
from agent_infra.core.tasks import TASK_ID
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.evidence import JOURNAL
from agent_infra.git.history import History, open_history, parse_commit
from agent_infra.services.context import open_context
from agent_infra.stores.journal import parse_chain


@dataclass(frozen=True)
class Shown:
    """What the evidence of a task says.

    Attributes:
        tip: the newest evidence commit; `refs` are all refs that hold evidence of the task here, with theirs.
        is_cut: older evidence was not fetched.
        files: name -> SHA-256 of what lies in the newest.
    """

    task_id: str
    tip: str
    refs: Mapping[str, str]
    run: Run
    links: tuple[Link, ...]
    is_cut: bool
    files: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The facts for programs."""
        run = self.run.to_json()
        return {
            "status": "ok",
            "task": self.task_id,
            "tip": self.tip,
            "refs": dict(self.refs),
            "run": {name: run[name] for name in ("runId", "status", "flow", "branch", "journalHead", "ended")},
            "cut": self.is_cut,
            "commits": [link.to_json() for link in self.links],
            "files": dict(self.files),
            "error": None,
        }


def show(cwd: Path, ref: str) -> Shown:
    """Read the evidence of a task.

    Raises:
        RefusedError: EVIDENCE_MISSING; VERIFY_EVIDENCE_INVALID for a chain that was rewritten; what resolves `ref`.
        CorruptStateError: ORCHESTRATION_JOURNAL_INVALID.
    """
    task_id = ref if TASK_ID.fullmatch(ref) else open_context(cwd).resolve(ref).task_id
    with open_history(cwd, environment={}) as history:
        known = history.evidence_refs().get(task_id, {})
        if not known:
            message = f"there is no evidence of {task_id} here; `agent-infra evidence fetch` brings that of a remote"
            raise RefusedError(ErrorCode.EVIDENCE_MISSING, message)
        tip = history.newest_evidence(known)
        marks, is_cut = _marks(history, task_id, tip)
        files = history.files(tip, lambda _name: True)
    chain = parse_chain(files[JOURNAL])
    if chain.torn or not chain.events:
        raise _invalid(task_id, "its journal ends in half a line")
    state = fold(chain.events, task_id=task_id, head=chain.head)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return Shown(task_id, tip, known, state.run, links(chain.events, chain.heads, marks), is_cut, digests)


def _marks(history: History, task_id: str, tip: str) -> tuple[list[tuple[str, int]], bool]:
    """The evidence commits with the number of their journal lines, oldest first; and whether older ones are missing.

    Raises:
        RefusedError: VERIFY_EVIDENCE_INVALID where a journal does not go on with the one before.
    """
    marks: list[tuple[str, int]] = []
    oid: str | None = tip
    later: bytes | None = None
    while oid is not None:
        data = history.object(oid, "commit")
        if data is None:
            return marks, True
        journal = history.object(f"{oid}:{JOURNAL}", "blob")
        if journal is None or (later is not None and not later.startswith(journal)):
            raise _invalid(task_id, f"commit {oid[:10]} has no journal that the next one goes on with")
        marks.insert(0, (oid, journal.count(b"\n")))
        later = journal
        oid = next(iter(parse_commit(oid, data).parents), None)
    return marks, False


def _invalid(task_id: str, why: str) -> RefusedError:
    message = f"the evidence of {task_id} is damaged or was changed: {why}; `git log -p` of its ref shows it as it is"
    return RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, message)
