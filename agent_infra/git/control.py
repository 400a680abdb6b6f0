"""What decides how git sees and guards this repository, as digests: hooks, settings, ignore rules, client hook files.

Only says what is; whether a change is allowed is decided elsewhere. A refreshed index, a new branch or a stash is none
of it.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent_infra.git.repo import Repo

CORE_KEYS = (
    *("hooksPath", "worktree", "bare", "fileMode", "ignoreCase", "trustctime", "checkStat", "autocrlf", "eol"),
    *("symlinks", "attributesFile", "excludesFile", "fsmonitor", "sparseCheckout"),
)
FILE_KEYS = {"core.attributesFile": "git/attributes", "core.excludesFile": "git/ignore", "core.fsmonitor": None}
SECTIONS = ("extensions.", "filter.", "include.", "includeif.")
SHARED_FILES = ("info/exclude", "info/attributes", "info/grafts")
CLIENT_FILES = (".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json", ".codex/config.toml")
CODEX_FILES = (".codex/hooks.json", ".codex/config.toml")
# definitions of the agents that do our steps; one client's hold hooks as well
CLIENT_AGENTS = tuple(f"{client}/agents" for client in (".claude", ".codex", ".gemini", ".opencode"))
OUR_AGENT = "agent-infra-lifecycle-"
CLIENT_HOOKS = ".agents/hooks"


def capture(repo: Repo) -> dict[str, str]:
    """Digest of everything that controls the repository: name for people -> SHA-256; what is absent has no name.

    Raises:
        GitError: GIT_FAILED when git can't read its own configuration.
    """
    config = repo.config()
    hooks = Path(repo.text("rev-parse", "--path-format=absolute", "--git-path", "hooks"))
    items = dict(_settings(config))
    items["hooks path"] = _sha256(os.fsencode(hooks))
    items |= _folder(hooks, "hooks")
    items |= _folder(repo.common_dir / "agent-infra" / "hooks", "agent-infra/hooks")
    items |= _files((name, repo.worktree / path) for name, path in _named_files(config))
    items |= _files((name, repo.common_dir / name) for name in SHARED_FILES)
    items |= _files([("info/sparse-checkout", repo.git_dir / "info" / "sparse-checkout")])
    items |= _files((name, repo.worktree / name) for name in CLIENT_FILES)
    items |= _folder(repo.worktree / CLIENT_HOOKS, CLIENT_HOOKS)
    for folder in CLIENT_AGENTS:
        agents = _folder(repo.worktree / folder, folder)
        items |= {name: value for name, value in agents.items() if name.startswith(f"{folder}/{OUR_AGENT}")}
    if repo.worktree != repo.state_root:  # in a linked worktree Codex takes the hooks of the primary one
        items |= _files((f"primary {name}", repo.state_root / name) for name in CODEX_FILES)
    replaced = repo.run("for-each-ref", "--format=%(refname) %(objectname)", "refs/replace/").stdout
    return items | ({"refs/replace": _sha256(replaced)} if replaced else {})


def digest(items: Mapping[str, str]) -> str:
    """One SHA-256 over all items."""
    return _sha256("".join(f"{name}\0{value}\n" for name, value in sorted(items.items())).encode())


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The names of what was changed, added or taken away."""
    return tuple(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))


def _settings(config: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    spelling = {f"core.{key}".lower(): f"core.{key}" for key in CORE_KEYS}
    for key, values in config.items():
        if key in spelling or key.startswith(SECTIONS):
            yield spelling.get(key, key), _sha256("\0".join(values).encode("utf-8", "surrogateescape"))


def _named_files(config: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Files that the settings name, or that git reads where they name none."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - no HOME, no error
    for key, fallback in FILE_KEYS.items():
        value = config.get(key.lower(), [f"{home}/{fallback}" if fallback else ""])[-1]
        if value:
            yield f"{key} (content)", os.path.expanduser(value)  # noqa: PTH111 - as above


def _files(named: Iterable[tuple[str, Path]]) -> dict[str, str]:
    found = ((name, _fingerprint(path)) for name, path in named)
    return {name: value for name, value in found if value is not None}


def _folder(folder: Path, label: str) -> dict[str, str]:
    """The files directly in a folder; git's own samples never run."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208 - names, not paths
    return _files([(f"{label}/{name}", folder / name) for name in names if not name.endswith(".sample")])


def _fingerprint(path: Path) -> str | None:
    """SHA-256 of kind, executable bit, link text and content; None for what is no file."""
    link = os.fsencode(path.readlink()) if path.is_symlink() else b""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return _sha256(b"dangling " + link) if link else None
    except OSError:
        return _sha256(b"unreadable " + link)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)  # a folder (husky keeps one among its hooks), a FIFO: nothing that runs
        return _sha256(b"link " + link) if link else None
    with os.fdopen(handle, "rb") as file:
        return _sha256(b"%d %s\0" % (bool(mode & stat.S_IXUSR), link) + file.read())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
