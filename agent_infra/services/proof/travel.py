"""Evidence goes to another repository and comes from there, on request only; it grows and is never rewound.

What comes is kept apart from the runs of this repository (`git.remotes`): `verify` and `evidence show` read it, and it
guards nothing, blocks nothing and stands for no run here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_infra.core.tasks import TASK_ID
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import evidence, refs, remotes
from agent_infra.git.remotes import Remote
from agent_infra.git.repo import Repo

ATTEMPTS = 3  # how often somebody else may be faster
_SHOWN = 10


@dataclass(frozen=True)
class Journey:
    """What travelled.

    Attributes:
        place: the remote, as git was told it.
        moved: tasks whose evidence is new on the other side, sorted.
        same: tasks whose evidence was there already.
        ahead: tasks of which the remote holds newer evidence than this repository.
    """

    place: str
    moved: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()


def choose(repo: Repo, name: str | None, environment: Mapping[str, str]) -> Remote:
    """The remote that is meant: the one that is named, or else the only one.

    Raises:
        RefusedError: EVIDENCE_REMOTE_INVALID.
    """
    known = remotes.names(repo)
    if not known:
        message = "this repository has no remote, so evidence has nowhere to go; `git remote add origin ADDRESS`"
    elif name is None and len(known) > 1:
        message = f"there are {len(known)} remotes, so name one of {', '.join(known)}: documents go to one place alone"
    elif name is not None and name not in known:
        message = f"{name} is no remote of this repository; known here: {', '.join(known)}"
    else:
        chosen = known[0] if name is None else name
        return Remote(chosen, chosen, remotes.connecting(environment))
    raise RefusedError(ErrorCode.EVIDENCE_REMOTE_INVALID, message)


def push(repo: Repo, remote: Remote, offers: Mapping[str, str]) -> Journey:
    """Let a remote hold the evidence that is offered.

    Args:
        offers: task -> commit.

    Raises:
        RefusedError: EVIDENCE_DIVERGED or EVIDENCE_REMOTE_FAILED, with nothing pushed.

    Side effects:
        Refs and objects of the remote; what it holds is noted here.
    """
    for _ in range(ATTEMPTS):
        there = remotes.held(repo, remote)
        journey = _sorted_out(repo, remote, offers, there)
        wanted = {task: offers[task] for task in journey.moved}
        done = remotes.send(repo, remote, wanted)
        if done.code == 0:
            before = remotes.tracked(repo, remote)
            now = wanted | {task: offers[task] for task in journey.same}
            moves = {task: (oid, before.get(task)) for task, oid in now.items() if before.get(task) != oid}
            remotes.track(repo, remote, moves)  # beaten to it: somebody else has just noted what is there
            return journey
        if remotes.held(repo, remote) == there:
            break  # nobody was faster: it does not take them
    raise remotes.unreachable(remote, "did not take the evidence", done)


def _sorted_out(repo: Repo, remote: Remote, offers: Mapping[str, str], there: Mapping[str, str]) -> Journey:
    """What is to be pushed, and what need not be.

    Raises:
        RefusedError: EVIDENCE_DIVERGED, naming the tasks.
    """
    differing = {task: there[task] for task, oid in offers.items() if there.get(task, oid) != oid}
    known = remotes.tracked(repo, remote)
    remotes.bring(repo, remote, [task for task, oid in differing.items() if known.get(task) != oid])
    relations = {task: relation(repo, offers[task], theirs) for task, theirs in differing.items()}
    _check_grown(remote, relations, "nothing was pushed")
    ahead = {task for task, found in relations.items() if found == AHEAD}
    same = {task for task, oid in offers.items() if there.get(task) == oid}
    moved = offers.keys() - ahead - same
    return Journey(remote.place, tuple(sorted(moved)), tuple(sorted(same)), tuple(sorted(ahead)))


def fetch(repo: Repo, remote: Remote, tasks: Iterable[str] = ()) -> Journey:
    """Note the evidence that a remote holds, so that histories can be checked by it.

    Args:
        tasks: only these; all where none is named.

    Raises:
        RefusedError: EVIDENCE_MISSING, EVIDENCE_DIVERGED, EVIDENCE_REMOTE_FAILED or VERIFY_EVIDENCE_INVALID, with no
            ref moved.

    Side effects:
        Objects, and refs below `refs/agent-infra/remotes`; never the evidence of a run of this repository.
    """
    wanted = tuple(tasks)
    for _ in range(ATTEMPTS):
        there = remotes.held(repo, remote)
        _check_there(remote, there, wanted)
        there = {task: oid for task, oid in there.items() if not wanted or task in wanted}
        before = remotes.tracked(repo, remote)
        new = {task: oid for task, oid in there.items() if before.get(task) != oid}
        # asked for even where they are here: a partial clone would get them without the documents otherwise
        remotes.bring(repo, remote, new)
        kinds = remotes.kinds(repo, new.values())
        if "missing" in kinds.values():
            continue  # it has moved since it was asked
        _check_commits(remote, new, kinds)
        _check_fetched(repo, remote, new, before)
        if remotes.track(repo, remote, {task: (oid, before.get(task)) for task, oid in new.items()}):
            return Journey(remote.place, tuple(sorted(new)), tuple(sorted(there.keys() - new.keys())))
    message = f"the evidence at {remote.place} kept moving while it was fetched; nothing was changed, try again"
    raise RefusedError(ErrorCode.EVIDENCE_REMOTE_FAILED, message)


def _check_there(remote: Remote, there: Mapping[str, str], wanted: Iterable[str]) -> None:
    missing = [task for task in wanted if task not in there]
    if missing:
        raise RefusedError(ErrorCode.EVIDENCE_MISSING, f"{remote.place} has no evidence of {', '.join(missing)}")
    if not there:
        message = f"{remote.place} has no evidence at all; whoever has it pushes it: `agent-infra evidence push` there"
        raise RefusedError(ErrorCode.EVIDENCE_MISSING, message)


def _check_commits(remote: Remote, there: Mapping[str, str], kinds: Mapping[str, str]) -> None:
    for task, oid in sorted(there.items()):
        if kinds[oid] != "commit":
            message = f"what {remote.place} has as the evidence of {task} is a {kinds[oid]}, expected a commit"
            raise RefusedError(ErrorCode.VERIFY_EVIDENCE_INVALID, f"{message}; nothing was fetched")


def _check_fetched(repo: Repo, remote: Remote, new: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Evidence grows: what comes goes on with what was noted before, and tells no other story than a run here.

    Raises:
        RefusedError: EVIDENCE_DIVERGED.
    """
    older = {task: before[task] for task in sorted(new) if task in before}
    rewound = [task for task, oid in older.items() if not refs.is_ancestor(repo, oid, new[task], {})]
    if rewound:
        message = (
            f"{remote.place} has rewritten the evidence of {_named(rewound)}: it does not go on with what was there"
        )
        ways = [f"git log -p {remote.folder}{task} shows what was there" for task in rewound[:_SHOWN]]
        accept = "if the new one is the right one, `git update-ref -d` of that ref forgets the old, then fetch again"
        raise RefusedError(ErrorCode.EVIDENCE_DIVERGED, f"{message}; nothing was fetched", *ways, accept)
    ours = evidence.heads(repo)
    relations = {task: relation(repo, ours[task], oid) for task, oid in new.items() if task in ours}
    _check_grown(remote, {task: found for task, found in relations.items() if found == OTHER}, "nothing was fetched")


# how evidence here stands to evidence elsewhere
GROWN, AHEAD, REBUILT, OTHER = "grown", "ahead", "rebuilt", "other"


def relation(repo: Repo, ours: str, theirs: str) -> str:
    """How one evidence commit stands to another of the same task.

    Returns:
        GROWN: ours goes on with theirs, or is it. AHEAD: theirs goes on with ours. REBUILT: the journals agree, but
        the chain of commits was made anew. OTHER: they contradict each other.
    """
    if ours == theirs or refs.is_ancestor(repo, theirs, ours, {}):
        return GROWN
    if refs.is_ancestor(repo, ours, theirs, {}):
        return AHEAD
    mine, other = remotes.journal(repo, ours), remotes.journal(repo, theirs)
    if not mine or not other or not (mine.startswith(other) or other.startswith(mine)):
        return OTHER
    return REBUILT


def _check_grown(remote: Remote, relations: Mapping[str, str], outcome: str) -> None:
    other = sorted(task for task, found in relations.items() if found == OTHER)
    rebuilt = sorted(task for task, found in relations.items() if found == REBUILT)
    if other:
        message = (
            f"the evidence of {_named(other)} at {remote.place} and the evidence here contradict each other: one of "
            f"them was rewritten, or two repositories used the same task id; {outcome}"
        )
        helps = "compare them: `agent-infra evidence show TASK` there and here; `--task` names others alone"
        raise RefusedError(ErrorCode.EVIDENCE_DIVERGED, message, helps)
    if rebuilt:
        message = (
            f"the evidence of {_named(rebuilt)} was built anew here, so it does not go on with the commits at "
            f"{remote.place}, though the journals agree; {outcome}"
        )
        ways = [
            f"go on with those: `agent-infra evidence fetch {remote.name or ''}`, `git update-ref -d "
            f"{evidence.ref_name(task)}`, `agent-infra orchestrate repair {task}`"
            for task in rebuilt[:_SHOWN]
        ]
        raise RefusedError(ErrorCode.EVIDENCE_DIVERGED, message, *ways)


def _named(tasks: Iterable[str]) -> str:
    listed = list(tasks)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{', '.join(listed[:_SHOWN])}{more}"


def own(repo: Repo, tasks: Iterable[str] = ()) -> dict[str, str]:
    """Task -> evidence of the runs of this repository; of all of them where none is named.

    Raises:
        RefusedError: EVIDENCE_MISSING.
    """
    heads = {task: oid for task, oid in evidence.heads(repo).items() if TASK_ID.fullmatch(task)}
    wanted = tuple(tasks) or tuple(heads)
    missing = [task for task in wanted if task not in heads]
    if missing or not wanted:
        what = f"of {', '.join(missing)} here" if missing else "here yet"
        message = f"there is no evidence {what}; a run leaves it with every finished step"
        raise RefusedError(ErrorCode.EVIDENCE_MISSING, message)
    return {task: heads[task] for task in wanted}
