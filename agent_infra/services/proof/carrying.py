"""What `git push` takes along where `evidence.push` is set: the evidence of the commits that are pushed.

It goes before them, so that whoever checks them finds it. Nothing here asks another hook: there is no way around.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent_infra.core.history import check_claims
from agent_infra.errors import AgentInfraError, RefusedError
from agent_infra.git import remotes
from agent_infra.git.evidence import RUNS
from agent_infra.git.history import History, open_history
from agent_infra.git.remotes import Remote
from agent_infra.services.context import Context
from agent_infra.services.proof import travel

_AT_ONCE = 100
_WITHOUT = "push without evidence, and without any other pre-push hook: `git push --no-verify`"


@dataclass(frozen=True)
class Update:
    """One line that git gives `pre-push`: what is here and its commit, what is there and its commit."""

    local: str
    new: str
    remote: str
    old: str


@dataclass(frozen=True)
class Pushed:
    """A push that git is about to make.

    Attributes:
        place: the name of the remote, or its address where it has none; `address` is where git goes.
        dry: nothing is really pushed.
    """

    place: str
    address: str
    updates: tuple[Update, ...]
    dry: bool = False


def parse_updates(data: bytes) -> tuple[Update, ...]:
    """The lines that git gives `pre-push`; what is no line of four words is passed over."""
    lines = (os.fsdecode(line).split(" ") for line in data.split(b"\n"))
    return tuple(Update(*parts) for parts in lines if len(parts) == 4)


def pre_push(context: Context, pushed: Pushed, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Push the evidence of the commits that are about to be pushed, where the settings say so.

    Returns:
        What is to be said about it.

    Raises:
        RefusedError: why the evidence did not get there; then git pushes nothing either.

    Side effects:
        As for `travel.push`.
    """
    if not context.config.evidence.push:
        return ()
    repo = context.repo
    name = pushed.place if pushed.place in remotes.names(repo) else None
    remote = Remote(name or pushed.address or pushed.place, name, remotes.connecting(environment))
    with open_history(repo.common_dir, environment={}) as history:
        tasks = _tasks(history, pushed.updates, remotes.heads(repo, name))
        offers, missing = _offers(history, tasks)
    if pushed.dry:
        return (
            (f"agent-infra: the evidence of {', '.join(offers)} would be pushed to {pushed.place}",) if offers else ()
        )
    try:
        journey = travel.push(repo, remote, offers) if offers else None
        there = remotes.held(repo, remote) if missing else {}
    except AgentInfraError as error:
        message = f"evidence.push is set, and {error.message}; so git pushes nothing"
        raise RefusedError(error.code, message, *error.notes, _WITHOUT) from error
    return _said(pushed.place, journey.moved if journey else (), [task for task in missing if task not in there])


def _tasks(history: History, updates: Sequence[Update], known: Iterable[str]) -> tuple[str, ...]:
    """The tasks that commits of the push name, without those whose evidence git itself pushes."""
    here = _here(history, [oid for update in updates for oid in (update.new, update.old)])
    wanted = [update.new for update in updates if update.new in here and not update.local.startswith(RUNS)]
    if not wanted:
        return ()
    lines = [*wanted, *(f"^{oid}" for oid in (*known, *(update.old for update in updates if update.old in here)))]
    asked = ("rev-list", "--stdin", "--fixed-strings", "--grep=Agent-Infra-Task:")
    oids = history.run(*asked, stdin="".join(f"{line}\n" for line in lines).encode()).stdout.decode().split()
    found: set[str] = set()
    for commit in history.commits(oids):
        with suppress(RefusedError):  # trailers that name nothing
            found |= {claim.task_id for claim in check_claims(commit.message)}
    return tuple(sorted(found - {update.remote.removeprefix(RUNS) for update in updates}))


def _here(history: History, oids: Iterable[str]) -> frozenset[str]:
    """Which of these are commits that are here, or tags of such."""
    asked = list(dict.fromkeys(oid for oid in oids if oid.strip("0")))
    found: set[str] = set()
    for start in range(0, len(asked), _AT_ONCE):
        some = asked[start : start + _AT_ONCE]
        answers = history.objects([f"{oid}^{{commit}}" for oid in some], "commit")
        found |= {oid for oid, data in zip(some, answers, strict=True) if data is not None}
    return frozenset(found)


def _offers(history: History, tasks: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Task -> its newest evidence that is known here; and the tasks without any."""
    known = history.evidence_refs()
    offers = {task: history.newest_evidence(known[task]) for task in tasks if task in known}
    return offers, [task for task in tasks if task not in known]


def _said(place: str, moved: Sequence[str], missing: Sequence[str]) -> tuple[str, ...]:
    lines = [f"agent-infra: pushed the evidence of {', '.join(moved)} to {place}"] if moved else []
    if missing:
        lines.append(
            f"agent-infra: commits of {', '.join(missing)} are pushed without their evidence: neither this repository "
            f"nor {place} has it; whoever has it pushes it: `agent-infra evidence push`"
        )
    return tuple(lines)
