"""Evidence in other repositories: which remotes there are, what one holds, bringing that here, taking ours there.

What a remote had when it was last asked is kept in `refs/agent-infra/remotes/<remote>/runs/<task>`, apart from the
evidence of the runs of this repository: it never stands for one. What may be taken or brought is decided elsewhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_infra.core.redaction import redact
from agent_infra.core.tasks import TASK_ID
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.evidence import JOURNAL, NO_HOOKS, RUNS, TRACKED, ref_name
from agent_infra.git.objects import DURABLE
from agent_infra.git.repo import Completed, Repo

_AT_ONCE = 1000  # refs on one command line
_ALONE = ("--quiet", "--recurse-submodules=no")
# no ref of this repository moves, and a partial clone gets the documents too: `verify` fetches nothing
_FETCH = (*_ALONE, "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-prune", "--no-filter", "--no-auto-gc")
_PUSH = (*_ALONE, "--no-verify", "--no-follow-tags")
# how git reaches a remote; none of them says which repository is ours
_CONNECTING = frozenset(
    {"GIT_TERMINAL_PROMPT", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_PROXY_COMMAND", "GIT_ALLOW_PROTOCOL"}
)
_CONNECTING_PREFIXES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_HTTP_")


@dataclass(frozen=True)
class Remote:
    """Another repository.

    Attributes:
        place: what git is given: the name of a remote, or an address.
        name: under which name its evidence is kept here; None where it has none.
        env: the caller's variables by which git reaches it.
    """

    place: str
    name: str | None
    env: Mapping[str, str]

    @property
    def folder(self) -> str:
        """Where its evidence is kept."""
        return f"{TRACKED}{self.name}/runs/"


def names(repo: Repo) -> tuple[str, ...]:
    """The remotes that are configured, sorted."""
    return tuple(sorted(repo.text("remote").splitlines()))


def connecting(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which a caller's git reaches other repositories; git asks for a password where it may."""
    kept = {k: v for k, v in environment.items() if k in _CONNECTING or k.startswith(_CONNECTING_PREFIXES)}
    return {"GIT_TERMINAL_PROMPT": "1"} | kept


def held(repo: Repo, remote: Remote) -> dict[str, str]:
    """Task -> newest evidence that a remote holds now.

    Raises:
        RefusedError: EVIDENCE_REMOTE_FAILED.
    """
    done = repo.run("ls-remote", "--refs", "--", remote.place, f"{RUNS}*", env=remote.env, check=False)
    if done.code:
        raise unreachable(remote, "could not be asked for evidence", done)
    pairs = (line.partition("\t")[::2] for line in done.stdout.decode("utf-8", "replace").splitlines())
    found = {name.removeprefix(RUNS): oid for oid, name in pairs if name.startswith(RUNS)}
    return {task: oid for task, oid in found.items() if TASK_ID.fullmatch(task)}


def tracked(repo: Repo, remote: Remote) -> dict[str, str]:
    """Task -> evidence that a remote held when it was last asked."""
    if remote.name is None:
        return {}
    listed = repo.text("for-each-ref", "--format=%(objectname) %(refname)", remote.folder)
    pairs = (line.split(" ", 1) for line in listed.splitlines())
    return {name.removeprefix(remote.folder): oid for oid, name in pairs}


def heads(repo: Repo, name: str | None) -> tuple[str, ...]:
    """The commits that a remote's branches were seen at."""
    return tuple(repo.text("for-each-ref", "--format=%(objectname)", f"refs/remotes/{name}/").split()) if name else ()


def kinds(repo: Repo, oids: Iterable[str]) -> dict[str, str]:
    """What objects are, by their id; `missing` where they are not here."""
    asked = list(dict.fromkeys(oids))
    stdin = "".join(f"{oid}\n" for oid in asked).encode()
    answer = repo.run("cat-file", "--batch-check=%(objecttype)", stdin=stdin).stdout.decode().splitlines()
    return {oid: line.rpartition(" ")[2] for oid, line in zip(asked, answer, strict=True)}


def journal(repo: Repo, oid: str) -> bytes | None:
    """The journal in an evidence commit; None where there is none."""
    done = repo.run("cat-file", "blob", f"{oid}:{JOURNAL}", check=False)
    return done.stdout if done.code == 0 else None


def bring(repo: Repo, remote: Remote, tasks: Iterable[str]) -> None:
    """Get the objects of a remote's evidence; no ref is touched.

    Raises:
        RefusedError: EVIDENCE_REMOTE_FAILED.

    Side effects:
        Objects in the user's store.
    """
    stdin = "".join(f"{ref_name(task)}\n" for task in tasks).encode()
    if not stdin:
        return
    asked = ("fetch", *_FETCH, "--stdin", "--", remote.place)
    done = repo.run(*NO_HOOKS, *asked, stdin=stdin, env=remote.env, check=False)
    if done.code:
        raise unreachable(remote, "did not hand its evidence over", done)


def send(repo: Repo, remote: Remote, wanted: Mapping[str, str]) -> Completed:
    """Let a remote's evidence be these commits, all or none where it can; what would rewind is refused by git.

    Args:
        wanted: task -> commit.

    Side effects:
        Objects and refs of the remote. No hook of this repository is asked.
    """
    specs = [f"{oid}:{ref_name(task)}" for task, oid in sorted(wanted.items())]
    # a remote of `git clone --mirror` takes no single refs otherwise
    settings = (*NO_HOOKS, *(("-c", f"remote.{remote.name}.mirror=false") if remote.name else ()))
    done = Completed(0, b"", b"")
    for start in range(0, len(specs), _AT_ONCE):
        some = ("--", remote.place, *specs[start : start + _AT_ONCE])
        done = repo.run(*settings, "push", *_PUSH, "--atomic", *some, env=remote.env, check=False)
        if done.code and b"does not support --atomic" in done.stderr:
            done = repo.run(*settings, "push", *_PUSH, *some, env=remote.env, check=False)
        if done.code:
            return done
    return done


def track(repo: Repo, remote: Remote, moves: Mapping[str, tuple[str, str | None]]) -> bool:
    """Note what a remote holds, all or nothing.

    Args:
        moves: task -> what it holds, and what was noted before.

    Returns:
        Whether it was noted; not if somebody else noted something meanwhile.

    Side effects:
        Refs below `refs/agent-infra/remotes`.
    """
    if remote.name is None or not moves:
        return True
    lines = [
        f"update {remote.folder}{task} {new} {old or repo.null_oid}\n" for task, (new, old) in sorted(moves.items())
    ]
    asked = ("update-ref", "--no-deref", "--stdin")
    return repo.run(*NO_HOOKS, *DURABLE, *asked, stdin="".join(lines).encode(), check=False).code == 0


def unreachable(remote: Remote, what: str, done: Completed) -> RefusedError:
    """The refusal for a remote that git could not work with, in git's words without the secrets in them."""
    return RefusedError(ErrorCode.EVIDENCE_REMOTE_FAILED, redact(f"{remote.place} {what}: {done.words}"))
