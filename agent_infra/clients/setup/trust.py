"""What Codex trusts: it runs a hook only if the user's settings hold the digest of what the hook is now.

It only compares. Granting trust is the user's, and nothing here writes it.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.hook_settings import is_ours
from agent_infra.core.json_text import Node

_DEFAULT_TIMEOUT = 600  # seconds, where an entry names none
# at the end of a session Codex waits for nobody: seconds at most, and where an entry names none
_LAST_EVENTS = frozenset({"session_end", "interrupt"})
_LAST_LIMIT, _LAST_DEFAULT = 3, 1
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True)
class Trusted:
    """What one user trusts.

    Attributes:
        path: the settings file that says so.
        projects: folder -> trust level.
        hooks: key of a hook -> digest that was trusted; `None` where the hook is switched off.
    """

    path: Path
    projects: Mapping[str, str]
    hooks: Mapping[str, str | None]


def load_trust() -> Trusted:
    """What the user of this process trusts; nothing where Codex has no settings.

    Raises:
        tomllib.TOMLDecodeError: the file is no TOML.
        OSError: it can't be read.
    """
    home = os.environ.get("CODEX_HOME") or "~/.codex"
    path = Path(home).expanduser() / "config.toml"
    said = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    projects = {name: str(each.get("trust_level")) for name, each in _tables(said, "projects")}
    hooks = _table(said, "hooks")
    states = {
        key: None if each.get("enabled") is False else str(each.get("trusted_hash"))
        for key, each in _tables(hooks, "state")
    }
    return Trusted(path, projects, states)


def our_hooks(file: Path, root: Node) -> Iterator[tuple[str, str]]:
    """Key and present digest of each of our hooks in Codex's settings of a project, as Codex names them.

    Args:
        file: where the settings lie, absolute.
        root: the settings.
    """
    hooks = root.get("hooks")
    for event in hooks.items or () if hooks else ():
        for number, group in enumerate(event.value):
            runs = group.get("hooks") if isinstance(group, dict) else None
            for place, run in enumerate(runs if isinstance(runs, list) else ()):
                if is_ours(run):
                    name = _CAPITAL.sub("_", str(event.key)).lower()
                    yield f"{file}:{name}:{number}:{place}", digest_of(name, run, group.get("matcher"))


def digest_of(event: str, run: Mapping[str, Any], matcher: str | None) -> str:
    """The digest by which Codex knows one hook.

    Args:
        event: its name in small letters with underscores.
        run: the entry with `command` and `timeout`.
    """
    timeout = run.get("timeout", _LAST_DEFAULT if event in _LAST_EVENTS else _DEFAULT_TIMEOUT)
    if event in _LAST_EVENTS and isinstance(timeout, int):
        timeout = min(timeout, _LAST_LIMIT)
    said: dict[str, Any] = {
        "event_name": event,
        "hooks": [
            {
                "async": run.get("async", False),
                "command": run.get("command"),
                "timeout": timeout,
                "type": run.get("type"),
            }
        ],
    }
    if matcher is not None:
        said["matcher"] = matcher
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _table(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def _tables(said: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(key, each) for key, each in _table(said, name).items() if isinstance(each, dict)]
