"""Judges the commits of a history one after the other, with the evidence that each of them names.

Keeps what several commits need. Which commits, and by whose rules, is decided in `verify`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from agent_infra.core import history as core
from agent_infra.core.config import RequireConfig
from agent_infra.core.flows import demand_of, is_less
from agent_infra.core.globs import matches
from agent_infra.core.history import Claim, Commit, Entry, Ground, Kind, Look, Verdict
from agent_infra.core.judgement import judge, judge_merge
from agent_infra.core.lifecycle import Flow
from agent_infra.errors import AgentInfraError, ErrorCode, GitError, RefusedError
from agent_infra.git.glance import Glance
from agent_infra.git.history import History, RawCommit
from agent_infra.services.proof.chronicles import Chronicles
from agent_infra.services.proof.recorded import Recorded, Rewrite

_BLOCK = 256  # commits whose changes are asked for together, and forgotten together


@dataclass(frozen=True)
class Judged:
    """One commit and what is known about it.

    Attributes:
        required: whether the policy wants a receipt for it.
        origins: who reported the events of the runs that it stands on.
    """

    commit: RawCommit
    verdict: Verdict
    required: bool
    claims: tuple[Claim, ...] = ()
    origins: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether nothing speaks against it."""
        kind = self.verdict.kind
        return kind in {Kind.VERIFIED, Kind.WEAK, Kind.ALLOWED} or (kind is Kind.UNRECEIPTED and not self.required)

    def to_json(self) -> dict[str, Any]:
        """The facts for programs."""
        return {
            "commit": self.commit.oid,
            "subject": self.commit.subject,
            "author": self.commit.author,
            "verdict": str(self.verdict.kind),
            "reason": self.verdict.reason or None,
            "code": str(self.verdict.code) if self.verdict.code else None,
            "detail": self.verdict.detail or None,
            "required": self.required,
            "tasks": [claim.task_id for claim in self.claims],
            "origins": list(self.origins),
        }


@dataclass
class Judge:
    """Judges one commit after the other and keeps what several of them need."""

    history: History
    policy: RequireConfig
    branch: str | None
    chronicles: Chronicles
    flow: Mapping[str, str] = field(default_factory=dict)
    _known: dict[str, Judged] = field(default_factory=dict)

    def all(self, oids: Sequence[str], tick: Callable[[int, int], None]) -> tuple[Judged, ...]:
        """The commits, parents first, with their verdicts; `tick` is told how many of how many are judged."""
        shallow = self.history.shallow()
        for start in range(0, len(oids), _BLOCK):
            some = oids[start : start + _BLOCK]
            changes = self.history.changes(oid for oid in some if oid not in shallow)
            for raw in self.history.commits(some):
                judged = self._cut(raw) if raw.oid in shallow else self._one(raw, changes.get(raw.oid, {}))
                self._known[raw.oid] = judged
                tick(len(self._known), len(oids))
        return tuple(self._known.values())

    def _cut(self, raw: RawCommit) -> Judged:
        detail = "its parents were cut off; `git fetch --unshallow`"
        return Judged(raw, Verdict(Kind.INCOMPLETE, code=ErrorCode.VERIFY_SHALLOW, detail=detail), required=True)

    def _one(self, raw: RawCommit, changes: Mapping[str, Entry]) -> Judged:
        required = self._is_required(raw, changes)
        try:
            claims = core.check_claims(raw.message)
        except RefusedError as error:
            return Judged(raw, core.broken(error), required)
        if len(raw.parents) > 1:
            verdict = self._merge(raw)
            judged = Judged(raw, verdict, required, claims)
            return judged if judged.passes else self._allowed(raw, required=required) or judged
        commit = Commit(raw.oid, raw.parents, raw.tree, raw.message, changes)
        look = Glance(self.history, raw)
        if not claims:
            return self._without_claims(raw, commit, look, required=required)
        try:
            grounds = [self.chronicles.ground(claim) for claim in claims]
        except AgentInfraError as error:
            return Judged(raw, _failed(error), required, claims)
        origins = tuple(sorted({origin for base in grounds for origin in base.origins}))
        return Judged(raw, self._judged(commit, grounds, look), required, claims, origins)

    def _judged(self, commit: Commit, grounds: Sequence[Ground], look: Look) -> Verdict:
        try:
            verdict = judge(commit, grounds, look)
            if verdict.kind in {Kind.VERIFIED, Kind.WEAK}:
                self._check_flow(commit, grounds)
        except AgentInfraError as error:
            return _failed(error)
        return verdict

    def _check_flow(self, commit: Commit, grounds: Sequence[Ground]) -> None:
        """The policy may demand more process for a path than the run had that changed it.

        Raises:
            RefusedError: VERIFY_FLOW.
        """
        for base in grounds:
            mine = commit.changes if len(grounds) == 1 else commit.changes.keys() & (base.judged or {}).keys()
            demand, had = demand_of(sorted(mine), self.flow), Flow(base.state.run.flow)
            if demand and is_less(had, demand.flow):
                message = (
                    f"{demand.path} needs the {demand.flow} flow at least ([flow] {demand.pattern!r}), it had {had}"
                )
                raise RefusedError(ErrorCode.VERIFY_FLOW, message)

    def _is_required(self, raw: RawCommit, changes: Mapping[str, Entry]) -> bool:
        """Whether the policy wants a receipt; what is not known is wanted."""
        wanted = self.policy
        if self.branch is not None and not any(fnmatchcase(self.branch, glob) for glob in wanted.branches):
            return False
        people = [text.lower() for person in (raw.author, raw.committer) for text in (person, _address(person))]
        if not any(fnmatchcase(text, glob.lower()) for text in people for glob in wanted.authors):
            return False
        if len(raw.parents) > 1 or wanted.paths == RequireConfig().paths:
            return True
        return any(matches(path, wanted.paths) for path in changes)

    # -- merges --------------------------------------------------------------------------------------------------------

    def _merge(self, raw: RawCommit) -> Verdict:
        try:
            answer, odd = self.history.merged(raw)
        except GitError as error:
            return Verdict(Kind.INCOMPLETE, code=error.code, detail=error.message)
        known = [self._known.get(parent) for parent in raw.parents]
        parents = [
            (oid, one.verdict if one else None, one.passes if one else True)
            for oid, one in zip(raw.parents, known, strict=True)
        ]
        return judge_merge(answer, odd, parents)

    # -- commits without trailers --------------------------------------------------------------------------------------

    def _without_claims(self, raw: RawCommit, commit: Commit, look: Look, *, required: bool) -> Judged:
        if allowed := self._allowed(raw, required=required):
            return allowed
        for rewrite in self._rewrites(commit, look):
            try:
                base = self.chronicles.ground(rewrite.claim)
            except AgentInfraError:
                continue
            verdict = self._judged(commit, [base], look)
            if verdict.kind in {Kind.WEAK, Kind.VERIFIED}:
                flaws = "; ".join(dict.fromkeys(["no trailers", *verdict.reason.split("; ")]))
                weak = Verdict(Kind.WEAK, flaws, detail=verdict.detail)
                return Judged(raw, weak, required, (rewrite.claim,), base.origins)
        words = "no receipt" if required else "no receipt, and the policy wants none"
        return Judged(raw, Verdict(Kind.UNRECEIPTED, detail=words), required)

    def _allowed(self, raw: RawCommit, *, required: bool) -> Judged | None:
        """A commit that a person let pass."""
        leave = self._recorded.leave(raw.oid)
        if leave is None:
            return None
        task_id, reason = leave
        return Judged(raw, Verdict(Kind.ALLOWED, detail=f"a person let it pass {task_id}: {reason}"), required)

    def _rewrites(self, commit: Commit, look: Look) -> list[Rewrite]:
        """Recorded commits whose patch this may be."""
        near = self._recorded.near(commit.changes)
        return [one for one in near if one.covers(commit.changes) or (one.patch and one.patch == look.patch())]

    @cached_property
    def _recorded(self) -> Recorded:
        return Recorded(self.chronicles)


def _failed(error: AgentInfraError) -> Verdict:
    """What a failed check means: evidence that is not there could not be checked, all else is broken."""
    if error.code in {ErrorCode.VERIFY_EVIDENCE_MISSING, ErrorCode.GIT_FAILED}:
        return Verdict(Kind.INCOMPLETE, code=error.code, detail=error.message)
    return core.broken(error)


def _address(person: str) -> str:
    return person.rpartition("<")[2].removesuffix(">")
