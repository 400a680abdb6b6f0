"""The evidence of the tasks of a history: found, read, held against what it was before, kept for later commits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TypeVar

from agent_infra.core.artifacts import parse_artifact_name
from agent_infra.core.grounds import check_anchor, ground
from agent_infra.core.history import Chronicle, Claim, Ground
from agent_infra.errors import AgentInfraError, ErrorCode, GitError, RefusedError
from agent_infra.git.history import History, parse_commit
from agent_infra.stores.journal import parse_chain

_AT_ONCE = 8  # older evidence that is asked for together; a streamlined run leaves five pieces

_JOURNALS = 32  # journals that are asked for together

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Chronicles:
    """What the evidence of each task says.

    Attributes:
        named: task -> evidence commit that no ref names yet; it wins over the ref.
    """

    history: History
    named: Mapping[str, str]
    _chronicles: dict[str, Chronicle | AgentInfraError] = field(default_factory=dict)
    _grounds: dict[Claim, Ground | AgentInfraError] = field(default_factory=dict)
    _read_files: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def journals(self) -> Iterator[tuple[str, bytes]]:
        """The newest journal of every task that has evidence, as it lies there: nothing of it is checked."""
        tasks = sorted({*self._known_refs, *self.named})
        for some in (tasks[start : start + _JOURNALS] for start in range(0, len(tasks), _JOURNALS)):
            names = [f"{self._newest(task)}:journal.jsonl" for task in some]
            for task, journal in zip(some, self.history.objects(names, "blob"), strict=True):
                if journal is not None:
                    yield task, journal

    def ground(self, claim: Claim) -> Ground:
        """What a claim stands on, found once.

        Raises:
            AgentInfraError: why it stands on nothing.
        """
        if claim not in self._grounds:
            try:
                _remember(self._grounds, claim, self._make_ground(claim))
            except AgentInfraError as error:
                _remember(self._grounds, claim, error)
        found = self._grounds[claim]
        if isinstance(found, AgentInfraError):
            raise found
        return found

    def _make_ground(self, claim: Claim) -> Ground:
        chronicle = self.of(claim.task_id)
        line = check_anchor(chronicle, claim)
        documents = self._documents(claim.task_id, chronicle.work_ends(line), len(chronicle.heads))
        return ground(chronicle, documents, claim)

    @cached_property
    def _known_refs(self) -> dict[str, dict[str, str]]:
        return self.history.evidence_refs()

    def _newest(self, task_id: str) -> str | None:
        """The newest evidence commit of a task."""
        if task_id in self.named:
            return self.named[task_id]
        known = self._known_refs.get(task_id)
        return self.history.newest_evidence(known) if known else None

    def of(self, task_id: str) -> Chronicle:
        """The chronicle of a task, read once.

        Raises:
            AgentInfraError: why there is none: VERIFY_EVIDENCE_MISSING, VERIFY_EVIDENCE_INVALID,
                ORCHESTRATION_JOURNAL_INVALID.
        """
        if task_id not in self._chronicles:
            try:
                _remember(self._chronicles, task_id, self._read(task_id))
            except AgentInfraError as error:
                _remember(self._chronicles, task_id, error)
        found = self._chronicles[task_id]
        if isinstance(found, AgentInfraError):
            raise found
        return found

    def _read(self, task_id: str) -> Chronicle:
        """The journal and view of a task's newest evidence; its evidence has only ever grown.

        Raises:
            AgentInfraError: VERIFY_EVIDENCE_MISSING, VERIFY_EVIDENCE_INVALID, ORCHESTRATION_JOURNAL_INVALID.
        """
        oid = self._newest(task_id)
        if oid is None:
            message = (
                f"there is no evidence of {task_id} here; fetch it: `agent-infra evidence fetch`, in CI "
                "`git fetch origin 'refs/agent-infra/runs/*:refs/agent-infra/runs/*'`, or name it with --evidence; "
                "it gets there from where the commit was made, by `agent-infra evidence push`"
            )
            raise RefusedError(ErrorCode.VERIFY_EVIDENCE_MISSING, message)
        files = self._files(oid)
        if not {"journal.jsonl", "orchestration.json"} <= files.keys():
            message = f"the evidence of {task_id} has no journal or no view"
            raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, message)
        journal = files["journal.jsonl"]
        chain = parse_chain(journal)
        if chain.torn or not chain.events:
            raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, f"the journal of {task_id} ends in half a line")
        self._check_grown(task_id, oid, journal)
        return Chronicle(task_id, chain.events, chain.heads, files["orchestration.json"])

    def _check_grown(self, task_id: str, oid: str, journal: bytes) -> None:
        """All evidence of a task before, and all that is known here of it besides, began just so.

        Raises:
            RefusedError: VERIFY_EVIDENCE_INVALID.
        """
        later = journal
        for before in self._journals_before(oid):
            if before is None or not later.startswith(before):
                message = f"the journal of {task_id} is not what it was before with lines added: it was written anew"
                raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, message)
            later = before
        for ref, known in self._known_refs.get(task_id, {}).items():
            beside = self._journal(known) if known != oid else None
            if beside is not None and not (journal.startswith(beside) or beside.startswith(journal)):
                message = f"{ref} tells another story than the newest evidence of {task_id}: one of them was rewritten"
                raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, message)

    def _journals_before(self, oid: str) -> Iterator[bytes | None]:
        """The journals of older evidence, newest first, as far as it was fetched; None where the chain is none."""
        for start in count(1, _AT_ONCE):
            names = [f"{oid}~{number}" for number in range(start, start + _AT_ONCE)]
            found = self.history.objects([f"{oid}~{start - 1}", *names], "commit")
            there = [parse_commit(oid, data) for data in found if data is not None]
            if any(len(each.parents) > 1 for each in there):
                yield None  # what a second parent holds would be passed over
            yield from self.history.objects([f"{name}:journal.jsonl" for name in names[: len(there) - 1]], "blob")
            if len(there) <= _AT_ONCE:
                return

    def _files(self, oid: str) -> dict[str, bytes]:
        if oid not in self._read_files:
            try:
                _remember(self._read_files, oid, self.history.files(oid, _is_evidence), limit=1)
            except GitError as error:
                message = f"evidence can't be read: {error.message}"
                raise RefusedError(ErrorCode.VERIFY_EVIDENCE_MISSING, message) from error
        return self._read_files[oid]

    def _journal(self, oid: str) -> bytes | None:
        """The journal of an older evidence commit; None where the evidence was fetched without its past."""
        return self.history.object(f"{oid}:journal.jsonl", "blob")

    def _documents(self, task_id: str, lines: int, total: int) -> dict[str, bytes]:
        """task.md and artifacts as they were before other work of the task began.

        Args:
            lines: how many lines the journal had then; `total` how many it has.
        """
        oid = newest = wanted = self._newest(task_id)
        while oid is not None and lines < total:
            journal = self._journal(oid)
            if journal is None:
                break
            if journal.count(b"\n") <= lines:
                wanted = oid
                break
            oid = next(iter(self.history.commit(oid).parents), None)
        files = self._files(str(wanted or newest))
        return {name: data for name, data in files.items() if name not in {"journal.jsonl", "orchestration.json"}}


def _remember(cache: dict[K, V], key: K, value: V, *, limit: int = 64) -> None:
    """Keep the newest few: commits of one task lie near each other, and a long history has thousands of tasks."""
    cache[key] = value
    while len(cache) > limit:
        del cache[next(iter(cache))]


def _is_evidence(name: str) -> bool:
    """Whether a file of the evidence is read.

    Raises:
        RefusedError: ORCHESTRATION_ARTIFACT_INVALID.
    """
    return name in {"journal.jsonl", "orchestration.json", "task.md"} or parse_artifact_name(name) is not None
