"""Do the hooks really fire? Asked of git itself, in a throwaway repository that calls the very same hook files.

A shim finds its repository by the folder it is called from. Called through a link it works on the throwaway one: the
files, their modes, their interpreter and the program behind them are the real ones, while no ref, index or record of
the real repository is touched, and no hook that was moved aside runs.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_infra.git.hooks import HookState
from agent_infra.git.repo import Completed, git_process

OLDEST_GIT = (2, 34)
_GUARD = "doctor-probe"
_RECORDER = '#!/bin/sh\nprintf "%s\\n" "$2" >>"{fired}"\n'
_SELF = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "agent-infra"), ("EMAIL", "agent-infra@localhost"))
}
_PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true", **_SELF}


@dataclass(frozen=True)
class Probe:
    """What git called when it was tried.

    Attributes:
        fired: hooks that git called, and whose shims called the program.
        refused: whether the program refused a commit that nobody authorized.
        words: what was said then.
        usable: whether programs may run in the folder for temporary files; if not, nothing was tried.
    """

    fired: frozenset[str] = frozenset()
    refused: bool = False
    words: str = ""
    usable: bool = True


def probe(states: Iterable[HookState]) -> Probe:
    """Try the hooks with commits, a merge, a rebase and a push elsewhere.

    Args:
        states: of the hooks that lie where git looks; only ours are tried, since others may do anything.

    Raises:
        GitError: GIT_FAILED where git can't be started or makes no repository.

    Side effects: a folder for temporary files, which is removed again.
    """
    with _throwaway(states) as folder:
        recorder, fired = folder / "recorder", folder / "fired"
        recorder.write_text(_RECORDER.format(fired=fired), encoding="utf-8")
        recorder.chmod(0o755)
        if not os.access(recorder, os.X_OK):
            return Probe(usable=False)
        _move_branch(folder / "repo", {"AGENT_INFRA": str(recorder)})
        names = fired.read_text(encoding="utf-8").split() if fired.exists() else []
        answer = _git(folder / "repo", "commit", "-q", "--allow-empty", "-m", "nobody reviewed this")
        refused = answer.code != 0 and b"COMMIT_UNAUTHORIZED" in answer.stderr
        return Probe(frozenset(names), refused, answer.words)


@contextmanager
def _throwaway(states: Iterable[HookState]) -> Iterator[Path]:
    """A folder with a repository in which something guards, and whose hooks are links to the real ones."""
    with tempfile.TemporaryDirectory(prefix="agent-infra-probe-") as name:
        folder = Path(name).resolve()
        _git(folder, "init", "-q", "--template=", "-b", "main", "repo")
        common = folder / "repo" / ".git"
        for inner in (common / "hooks", common / "agent-infra" / "guards"):
            inner.mkdir(parents=True)
        (common / "agent-infra" / "guards" / _GUARD).write_bytes(b"")
        (folder / "repo" / ".agents").mkdir()
        (folder / "repo" / ".agents" / "config.toml").write_text("evidence.push = true\n", encoding="utf-8")
        for state in states:
            if state.kind in {"ours", "stale", "not-executable"}:
                (common / "hooks" / state.name).symlink_to(state.path)
        yield folder


def _move_branch(repo: Path, env: Mapping[str, str]) -> None:
    """Everything that makes git call one of our hooks; whether it is let is not asked here."""
    _git(repo, "commit", "-q", "--allow-empty", "-m", "first", env=env)
    made = _git(repo, "commit-tree", "-p", "HEAD", "-m", "second", "HEAD^{tree}", env=env).stdout.decode().strip()
    _git(repo, "merge", "-q", "--no-ff", "-m", "merge", made or "HEAD", env=env)
    _git(repo, "rebase", "-q", "--force-rebase", "HEAD", env=env)
    _git(repo.parent, "init", "-q", "--bare", "--template=", "there")
    _git(repo, "push", "-q", "../there", "HEAD:refs/heads/main", env=env)


def _git(cwd: Path, *args: str, env: Mapping[str, str] | None = None) -> Completed:
    return git_process(*args, cwd=cwd, env={**_PLAIN, **(env or {})})


def git_version(cwd: Path) -> tuple[str, bool]:
    """The version of the git on PATH, and whether it is new enough.

    Raises:
        GitError: GIT_FAILED where there is none.
    """
    said = git_process("--version", cwd=cwd).stdout.decode(errors="replace").strip().removeprefix("git version ")
    found = re.match(r"(\d+)\.(\d+)", said)
    return said, found is not None and (int(found[1]), int(found[2])) >= OLDEST_GIT


def libgit2_version() -> str:
    """pygit2 and the libgit2 in it, for people."""
    from importlib.metadata import version

    import pygit2

    return f"pygit2 {version('pygit2')} with libgit2 {pygit2.LIBGIT2_VERSION}"
