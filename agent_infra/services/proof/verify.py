"""Was a history made that way? Every commit of a range, judged by its evidence; read-only, running nothing of it.

The journals of this machine have no say: only what a clone can fetch (evidence refs), or what is named. Nothing here
takes a lock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.config import Config, parse_config
from agent_infra.core.history import Kind
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError, UsageError
from agent_infra.git.history import History, open_history
from agent_infra.services.proof.chronicles import Chronicles
from agent_infra.services.proof.judging import Judge, Judged
from agent_infra.stores.journal import parse_chain

DEFAULT_RANGE = "@{upstream}..HEAD"
CONFIG = ".agents/config.toml"
EXIT_FINE, EXIT_FAULTY, EXIT_INCOMPLETE = 0, 1, 2


@dataclass(frozen=True)
class Wish:
    """What is to be checked, and by which rules.

    Attributes:
        policy_from: a revision whose settings count, instead of those of the base of the range.
        evidence: evidence commits that no ref names yet; they win over the refs.
        branch: the branch that the commits are for, where the range does not say it.
    """

    range: str | None = None
    policy_from: str | None = None
    evidence: tuple[str, ...] = ()
    branch: str | None = None


@dataclass(frozen=True)
class Report:
    """What a check came to."""

    range: str
    policy: str
    commits: tuple[Judged, ...]

    @property
    def exit_code(self) -> int:
        """0 all fine, 1 when something is broken or lacks a receipt that it needs, 2 when it could not be checked."""
        faulty = [one for one in self.commits if not one.passes]
        if any(one.verdict.kind is not Kind.INCOMPLETE for one in faulty):
            return EXIT_FAULTY
        return EXIT_INCOMPLETE if faulty or not self.commits else EXIT_FINE

    @property
    def counts(self) -> dict[str, int]:
        """How many commits got which verdict, in the order of the kinds."""
        kinds = [one.verdict.kind for one in self.commits]
        return {str(kind): kinds.count(kind) for kind in Kind if kind in kinds}

    def to_json(self) -> dict[str, Any]:
        """The facts for programs."""
        return {
            "status": {EXIT_FINE: "ok", EXIT_FAULTY: "failed", EXIT_INCOMPLETE: "incomplete"}[self.exit_code],
            "range": self.range,
            "policy": self.policy,
            "counts": self.counts,
            "commits": [one.to_json() for one in self.commits],
            "error": None,
        }


def verify(
    cwd: Path,
    wish: Wish,
    *,
    environment: Mapping[str, str],
    tick: Callable[[int, int], None] = lambda _done, _total: None,
) -> Report:
    """Judge the commits of a range, parents first.

    Args:
        environment: of the caller; only the quarantine of a push is taken from it.
        tick: told how many commits of how many are judged.

    Raises:
        UsageError: it can't be checked at all: VERIFY_RANGE_INVALID for a range that is unknown or empty,
            VERIFY_EVIDENCE_MISSING for named evidence that is none, CONFIG_INVALID, REPO_ROOT_NOT_FOUND.
    """
    try:
        with open_history(cwd, environment=environment) as history:
            range_ = wish.range or DEFAULT_RANGE
            oids = _listed(history, range_)
            policy, named = _policy(history, wish, range_)
            branch, chronicles = _branch(history, wish, range_), Chronicles(history, _named_evidence(history, wish))
            judge = Judge(history, policy.verify.require, branch, chronicles, policy.flow)
            return Report(range_, named, judge.all(oids, tick))
    except UsageError:
        raise
    except AgentInfraError as error:
        raise UsageError(error.code, error.message, *error.notes) from error


def _listed(history: History, range_: str) -> tuple[str, ...]:
    """The commits of the range; at least one.

    Raises:
        UsageError: VERIFY_RANGE_INVALID.
    """
    oids = None if range_.startswith("-") else history.listed(range_)
    if oids is None:
        helps = "; this branch has no upstream, so name a range: `agent-infra verify BASE..HEAD`"
        message = f"the range {range_} means nothing here{helps if range_ == DEFAULT_RANGE else ''}"
        if history.shallow():
            message += "; the clone is shallow: `git fetch --unshallow`"
        raise UsageError(ErrorCode.VERIFY_RANGE_INVALID, message)
    if not oids:
        raise UsageError(ErrorCode.VERIFY_RANGE_INVALID, f"the range {range_} is empty: nothing was checked")
    return oids


def _policy(history: History, wish: Wish, range_: str) -> tuple[Config, str]:
    """The rules, and where they come from: never from the commits that are judged.

    Raises:
        UsageError: VERIFY_RANGE_INVALID for an unknown revision.
        RefusedError: CONFIG_INVALID.
    """
    left, dots, _ = range_.partition("..")
    source = wish.policy_from or ((left or "HEAD") if dots else None)
    if source is None:
        return Config(), "defaults"
    commit = history.resolve(source)
    if commit is None:
        message = f"{source} is no commit here, so there are no rules to check by"
        raise UsageError(ErrorCode.VERIFY_RANGE_INVALID, message)
    data = history.object(f"{commit}:{CONFIG}", "blob")
    if data is None:
        return Config(), f"defaults ({source} has no {CONFIG})"
    try:
        return parse_config(data.decode()), f"{source}:{CONFIG}"
    except UnicodeDecodeError as error:
        raise RefusedError(ErrorCode.CONFIG_INVALID, f"{source}:{CONFIG} is not UTF-8") from error


def _branch(history: History, wish: Wish, range_: str) -> str | None:
    """The branch that the range is about; None where nothing says it."""
    if wish.branch is not None:
        return wish.branch.removeprefix("refs/heads/")
    right = range_.rpartition("..")[2].removeprefix(".") or "HEAD"
    ref = history.ref_of(right)
    if ref is None:
        return None
    if ref.startswith("refs/remotes/"):
        return ref.split("/", 3)[3] if ref.count("/") > 2 else None
    return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None


def _named_evidence(history: History, wish: Wish) -> dict[str, str]:
    """Task -> evidence commit, for the evidence that was named.

    Raises:
        UsageError: VERIFY_EVIDENCE_MISSING.
    """
    found: dict[str, str] = {}
    for name in wish.evidence:
        oid = history.resolve(name)
        try:
            data = history.files(oid, lambda file: file == "journal.jsonl") if oid else {}
            found[str(parse_chain(data["journal.jsonl"]).events[0]["run"]["taskId"])] = str(oid)
        except (AgentInfraError, KeyError, IndexError, TypeError) as error:
            message = f"{name} is no evidence commit: it has no journal that names its task"
            raise UsageError(ErrorCode.VERIFY_EVIDENCE_MISSING, message) from error
    return found
