"""`core.hooksPath`: who set it, how ours takes its place and remembers it, and how it is given back.

What was set before is kept in `<common dir>/agent-infra/hooks/previous`, whose first line the shims read.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import hook_files
from agent_infra.git.repo import Repo, failure

KEY = "core.hooksPath"
RECORD = "previous"
_WHOLE = "config.before"  # the config file as it was, where git can't write its line as a person wrote it
_OURS = "/agent-infra/hooks"
_SCOPES = frozenset({"local", "global", "system"})


@dataclass(frozen=True)
class Setting:
    """The value of `core.hooksPath` that counts.

    Attributes:
        path: as git reads it, `~` replaced; a relative one starts where the hook runs.
        scope: git's word for the file that it is set in.
    """

    path: str
    scope: str
    origin: str

    def __str__(self) -> str:
        return f"{self.path} (set in {self.origin})"


@dataclass(frozen=True)
class Previous:
    """What was set before ours.

    Attributes:
        local: value in the repository's own config file as it was written; `None` where that file had none.
    """

    path: str
    scope: str
    local: str | None


def folder(repo: Repo) -> Path:
    """Where git looks for hooks once ours took the place of another folder."""
    return repo.common_dir / "agent-infra" / "hooks"


def current(repo: Repo) -> Setting | None:
    """What `core.hooksPath` is; `None` where it is unset.

    Raises:
        GitError: GIT_FAILED for a configuration that can't be read.
    """
    asked = ("config", "--type=path", "--show-scope", "--show-origin", "-z", "--get", KEY)
    found = repo.run(*asked, check=False)
    if found.code == 1:
        return None
    if found.code != 0:
        raise failure(asked, found)
    scope, origin, path = os.fsdecode(found.stdout).removesuffix("\0").split("\0")
    return Setting(path, scope, origin.removeprefix("file:"))


def previous(repo: Repo) -> Previous | None:
    """What was remembered when ours took the place; `None` where it never did."""
    data = hook_files.read_small(folder(repo) / RECORD)
    if data is None:
        return None
    path, scope, *local = os.fsdecode(data).removesuffix("\n").split("\n")
    return Previous(path, scope, local[0] if local else None)


def check(repo: Repo, environment: Mapping[str, str] = os.environ) -> None:
    """Whether ours can take the place of what is set.

    Raises:
        RefusedError: INSTALL_REFUSED naming what is set, where, and what helps.
    """
    if _in_environment(environment):
        raise _refused(f"{KEY} is set by the environment of this command (GIT_CONFIG_*), which no file can outdo")
    setting = current(repo)
    if setting is None:
        return
    if setting.scope not in _SCOPES:
        helps = f"set it for the whole repository (git config {KEY} …) instead"
        raise _refused(f"{KEY} is {setting}, for {setting.scope} alone; {helps}")
    if not setting.path or "\n" in setting.path:
        raise _refused(f"{KEY} is {setting.path!r} in {setting.origin}, which is no folder; unset it")
    if len(_local_values(repo)) > 1:
        raise _refused(f"{KEY} is set more than once in {repo.common_dir / 'config'}; keep one")


def take(repo: Repo) -> str:
    """Make git look for hooks in our folder, and remember where it looked.

    Returns:
        What was changed.

    Raises:
        RefusedError: INSTALL_REFUSED, with the setting as it was, where another file still counts more than ours.

    Side effects:
        The record, then the repository's config file.
    """
    setting, kept = current(repo), previous(repo)
    if setting is None:
        raise _refused(f"{KEY} was unset meanwhile")
    if kept is None or not setting.path.endswith(_OURS):  # else the repository was moved or copied
        local = _local_values(repo)
        kept = Previous(setting.path, setting.scope, local[0] if local else None)
        lines = [kept.path, kept.scope, *([] if kept.local is None else [kept.local])]
        data = os.fsencode("\n".join(lines) + "\n")
        hook_files.put_file(folder(repo) / RECORD, data, mode=0o644)
        _keep_whole(repo, kept)
    repo.run("config", "--local", KEY, str(folder(repo)))
    found = current(repo)
    if found is None or Path(found.path) != folder(repo):
        _restore(repo, kept)
        _forget(repo)
        raise _refused(f"{KEY} is {setting}, which counts more than {repo.common_dir / 'config'}; set it there")
    return f"set {KEY} to {found.path}; hooks in {kept.path} ({kept.scope}) run first"


def give_back(repo: Repo) -> str | None:
    """Set `core.hooksPath` as it was before ours.

    Returns:
        What was changed or left; `None` where ours never took the place.

    Side effects:
        The repository's config file, then the record.
    """
    kept = previous(repo)
    if kept is None:
        return None
    found = _local_values(repo)
    if found == [str(folder(repo))] or (len(found) == 1 and found[0].endswith(_OURS)):
        _restore(repo, kept)
        said = f"set {KEY} back to {kept.path} ({kept.scope})"
    else:
        said = f"left {KEY} as it was set after ours"
    _forget(repo)
    return said


def _restore(repo: Repo, kept: Previous) -> None:
    config, whole = repo.common_dir / "config", hook_files.read_small(folder(repo) / _WHOLE)
    if whole is not None and hook_files.read_small(config) == _tried(repo, whole, str(folder(repo))):
        hook_files.put_file(config, whole, mode=stat.S_IMODE(config.stat().st_mode))
    else:
        repo.run("config", "--local", *_setting(kept.local))


def _keep_whole(repo: Repo, kept: Previous) -> None:
    """Keep the config file as it is, unless git alone can make it the same again."""
    (folder(repo) / _WHOLE).unlink(missing_ok=True)
    before = hook_files.read_small(repo.common_dir / "config")
    if before and _tried(repo, before, str(folder(repo)), kept.local) != before:
        hook_files.put_file(folder(repo) / _WHOLE, before, mode=0o600)


def _tried(repo: Repo, config: bytes, *values: str | None) -> bytes | None:
    """What git makes of a config file when it sets the key to each value in turn; `None` unsets it."""
    trial = folder(repo) / "config.trial"
    hook_files.put_file(trial, config, mode=0o600)
    try:
        for value in values:
            repo.run("config", f"--file={trial}", *_setting(value))
        return hook_files.read_small(trial)
    finally:
        trial.unlink()


def _setting(value: str | None) -> tuple[str, ...]:
    return ("--unset", KEY) if value is None else (KEY, value)


def _forget(repo: Repo) -> None:
    (folder(repo) / _WHOLE).unlink(missing_ok=True)
    hook_files.remove(folder(repo) / RECORD)


def _local_values(repo: Repo) -> list[str]:
    """Values in the repository's own config file, without what it includes."""
    found = repo.run("config", "--local", "--no-includes", "-z", "--get-all", KEY, check=False)
    return os.fsdecode(found.stdout).split("\0")[:-1]


def _in_environment(environment: Mapping[str, str]) -> bool:
    """Whether the caller's own git would be told another folder than a file can tell."""
    named = [environment.get("GIT_CONFIG_PARAMETERS", "")]
    with suppress(ValueError):
        count = int(environment.get("GIT_CONFIG_COUNT") or 0)
        named += [environment.get(f"GIT_CONFIG_KEY_{number}", "") for number in range(min(count, 1000))]
    return any(KEY.lower() in text.lower() for text in named)


def _refused(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INSTALL_REFUSED, f"{message}; nothing was changed")
