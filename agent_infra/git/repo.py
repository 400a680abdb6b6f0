"""Where a repository is, and how git is asked about it: discovery, a clean environment, one door for every git process.

This module decides nothing and writes nothing; what git itself writes is up to the arguments of the caller.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent_infra.errors import ErrorCode, GitError, RefusedError

KEPT_VARIABLES = frozenset(
    {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_ASKPASS", "GIT_EDITOR"}
)
KEPT_PREFIXES = ("GIT_SSH", "GIT_SSL", "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TRACE")
FIXED_VARIABLES = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})


def clean_environment(base: Mapping[str, str]) -> dict[str, str]:
    """What a git child may inherit: never a variable that points it at another repository, index or object store.

    Inside a git hook GIT_DIR, GIT_INDEX_FILE and others are set and would redirect every git that we start.
    """
    kept = {k: v for k, v in base.items() if not k.startswith("GIT_") or _is_kept(k)}
    return kept | FIXED_VARIABLES


def _is_kept(name: str) -> bool:
    return name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)


def display_path(path: bytes) -> str:
    """A path as people and JSON see it: UTF-8 as it is, any other byte as %XX."""
    text = path.decode("utf-8", "surrogateescape")
    return "".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in text)


@dataclass(frozen=True)
class Completed:
    """How a git process ended.

    Attributes:
        code: exit code; negative when a signal ended it.
    """

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def words(self) -> str:
        """What git said about it, on one line for a message."""
        said = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return display_path(b"; ".join(line.strip() for line in said if line.strip())) or "git said nothing"


@dataclass(frozen=True)
class Head:
    """What is checked out.

    Attributes:
        oid: the commit; None on a branch without one.
        ref: the full name of the branch; None when detached.
    """

    oid: str | None
    ref: str | None

    @property
    def branch(self) -> str | None:
        """The short name of the branch as records and people see it; None when detached."""
        return None if self.ref is None else display_path(os.fsencode(self.ref.removeprefix("refs/heads/")))


def git_process(*args: str, cwd: Path, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Completed:
    """Start git in `cwd` with a clean environment plus `env`, and wait for it.

    Raises:
        GitError: GIT_FAILED when git can't be started at all.
    """
    try:
        done = subprocess.run(
            ["git", *args],
            cwd=cwd,
            env=clean_environment(os.environ) | dict(env or {}),
            input=b"" if stdin is None else stdin,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise GitError(
            ErrorCode.GIT_FAILED, f"git could not be started in {cwd}: {error.strerror}; is git on PATH?"
        ) from error
    return Completed(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Repo:
    """One worktree of one repository; every path is absolute and free of symlinks.

    Attributes:
        git_dir: of this worktree. common_dir: shared by all worktrees.
        state_root: the primary worktree, where `.agents/workspace` lives.
        object_format: "sha1" or "sha256".
    """

    worktree: Path
    git_dir: Path
    common_dir: Path
    state_root: Path
    object_format: str

    def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        cwd: Path | None = None,
    ) -> Completed:
        """Ask git in this worktree.

        Raises:
            GitError: GIT_FAILED with git's words when it exits other than 0 and `check` is set.
        """
        done = git_process(*args, cwd=cwd or self.worktree, stdin=stdin, env=env)
        if check and done.code != 0:
            raise failure(args, done)
        return done

    def text(self, *args: str) -> str:
        """The one line that git answers with; bytes that are not UTF-8 survive as surrogates."""
        return os.fsdecode(self.run(*args).stdout).rstrip("\n")

    def head(self) -> Head:
        """The commit and branch that are checked out here.

        Raises:
            GitError: GIT_FAILED when the branch's ref is broken; it must not pass for a branch without a commit.
        """
        asked = ("rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
        done = self.run(*asked, check=False)
        if done.code == 0:
            oid, ref = os.fsdecode(done.stdout).splitlines()
            return Head(oid, None if ref == "HEAD" else ref)
        symbolic = self.run("symbolic-ref", "-q", "HEAD", check=False)
        if symbolic.code != 0:
            raise failure(asked, done)
        ref = os.fsdecode(symbolic.stdout).rstrip("\n")
        known = self.run("for-each-ref", ref)
        if known.stdout or known.stderr:
            raise failure(asked, Completed(done.code, b"", known.stderr or done.stderr))
        return Head(None, ref)

    def config(self) -> dict[str, list[str]]:
        """The effective configuration, read anew: lower-case key -> its values in order; no value reads "true"."""
        found: dict[str, list[str]] = {}
        for item in os.fsdecode(self.run("config", "--list", "-z").stdout).split("\0")[:-1]:
            key, separator, value = item.partition("\n")
            found.setdefault(key, []).append(value if separator else "true")
        return found

    @cached_property
    def has_promisor(self) -> bool:
        """Whether objects may be absent here and fetched when needed (partial clone)."""
        return promises_objects(self.config())

    @cached_property
    def hex_size(self) -> int:
        """How many hex digits an object id has here."""
        return 64 if self.object_format == "sha256" else 40

    @property
    def null_oid(self) -> str:
        """The id that means "no object" to git."""
        return "0" * self.hex_size


def failure(args: tuple[str, ...], done: Completed) -> GitError:
    """The error for a git process that failed, with its arguments (our settings before them aside) and its words."""
    words = list(args)
    while words[:1] == ["-c"]:
        del words[:2]
    asked = display_path(os.fsencode(shlex.join(["git", *words])))
    return GitError(ErrorCode.GIT_FAILED, f"`{asked}` ended with {done.code}: {done.words}")


def is_true(config: Mapping[str, list[str]], key: str) -> bool:
    """Whether a boolean key is on; the last value counts."""
    return config.get(key, [""])[-1].strip().lower() not in FALSE_WORDS


def promises_objects(config: Mapping[str, list[str]]) -> bool:
    """Whether this configuration is that of a partial clone."""
    if "extensions.partialclone" in config:
        return True
    return any(k.startswith("remote.") and k.endswith(".promisor") and is_true(config, k) for k in config)


def discover(cwd: Path) -> Repo:
    """Find the repository that `cwd` belongs to; GIT_* variables have no say.

    In a submodule without a `.agents/workspace` of its own the superproject is taken, if it has one.

    Raises:
        RefusedError: REPO_ROOT_NOT_FOUND outside a repository, in a bare one, or without a primary worktree.
        GitError: GIT_FAILED for whatever else git objects to, dubious ownership among it.
    """
    if not cwd.is_dir():
        raise RefusedError(ErrorCode.REPO_ROOT_NOT_FOUND, f"{cwd} is not a folder, so no repository was looked for")
    object_format, git_dir, common_dir, worktree = _ask(cwd)
    state_root = worktree if git_dir == common_dir else _primary_worktree(common_dir)
    repo = Repo(worktree, git_dir, common_dir, state_root, object_format)
    if _has_workspace(repo) or not any((parent / ".git").exists() for parent in worktree.parents):
        return repo
    above = _superproject(repo)
    return above if above is not None and _has_workspace(above) else repo


def of_common_dir(common_dir: Path) -> Repo:
    """The primary worktree of the repository whose common dir this is.

    Raises:
        RefusedError: REPO_ROOT_NOT_FOUND where it has none or git does not say which.
    """
    return discover(_primary_worktree(common_dir))


def _ask(cwd: Path) -> tuple[str, Path, Path, Path]:
    asked = (
        "rev-parse",
        "--path-format=absolute",
        "--show-object-format",
        "--git-dir",
        "--git-common-dir",
        "--show-toplevel",
    )
    done = git_process(*asked, cwd=cwd)
    if done.code != 0:
        if b"not a git repository" in done.stderr or b"must be run in a work tree" in done.stderr:
            raise RefusedError(
                ErrorCode.REPO_ROOT_NOT_FOUND,
                f"{cwd} is not in a worktree of a git repository ({done.words}); go into one, or run `git init`",
            )
        raise failure(asked, done)
    lines = os.fsdecode(done.stdout).removesuffix("\n").split("\n")
    if len(lines) != 4:
        raise GitError(ErrorCode.GIT_FAILED, f"the repository at {cwd} has a line break in its path; move it")
    return lines[0], Path(lines[1]).resolve(), Path(lines[2]).resolve(), Path(lines[3]).resolve()


def _primary_worktree(common_dir: Path) -> Path:
    """The worktree that the common dir belongs to; `git worktree list` names the git dir itself in odd layouts."""
    asked = (f"--git-dir={common_dir}", "config", "-z", "--get-regexp", r"^core\.(bare|worktree)$")
    done = git_process(*asked, cwd=common_dir)
    if done.code not in {0, 1}:
        raise failure(asked, done)
    settings = dict(item.partition("\n")[::2] for item in os.fsdecode(done.stdout).split("\0")[:-1])
    if "core.worktree" in settings:
        return (common_dir / settings["core.worktree"]).resolve()
    if settings.get("core.bare", "false") not in FALSE_WORDS:
        raise RefusedError(
            ErrorCode.REPO_ROOT_NOT_FOUND,
            f"the repository at {common_dir} is bare; tasks live in the primary worktree, so clone it without --bare",
        )
    if common_dir.name != ".git":
        raise RefusedError(
            ErrorCode.REPO_ROOT_NOT_FOUND,
            f"git does not say which worktree {common_dir} belongs to; "
            f"set it: `git --git-dir={common_dir} config core.worktree <path>`",
        )
    return common_dir.parent


def _has_workspace(repo: Repo) -> bool:
    return (repo.state_root / ".agents" / "workspace").is_dir()


def _superproject(repo: Repo) -> Repo | None:
    found = repo.text("rev-parse", "--show-superproject-working-tree")
    return discover(Path(found)) if found else None
