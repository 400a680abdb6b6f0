"""Codex for one step: `codex exec` in its workspace-write sandbox, with its JSON stream."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_infra.clients.headless.hearing import Heard, mapping
from agent_infra.runtime.children import ChildOrder

_NAMES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cached_input_tokens",
    "cacheWriteTokens": "cache_write_input_tokens",
    "reasoningTokens": "reasoning_output_tokens",
}
_KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")
NOT_LOGGED_IN = r"(?i)401 unauthorized|not logged in|codex login"


def argv(order: ChildOrder, model: str) -> list[str]:
    """Its arguments; the sandbox keeps `.git` and `.agents` from its commands, in every role."""
    del order
    return ["exec", "--json", "--sandbox", "workspace-write", *(["--model", model] if model else []), "-"]


def understand(line: Mapping[str, Any], heard: Heard) -> None:
    """Its stream: the thread's name first, the counts of each turn at its end; the model is not in it."""
    kind = line.get("type")
    if kind == "thread.started":
        heard.named(line.get("thread_id"))
    elif kind == "item.started":
        item = mapping(line.get("item"))
        heard.at(item.get("type"), {"what": item.get("command")})
    elif kind == "turn.completed":
        heard.counted(line.get("usage"), _NAMES, add=True)
    elif kind in ("error", "turn.failed"):
        heard.failed(line.get("message") or mapping(line.get("error")).get("message"))


def home() -> Path:
    """Its settings and sessions."""
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


def login(program: str, worktree: Path) -> list[str]:
    """A command that fails where nobody is logged in; none where another provider or a key is set."""
    del worktree
    if any(os.environ.get(name) for name in _KEYS):
        return []
    try:
        settings = tomllib.loads((home() / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = {}
    is_elsewhere = settings.get("model_provider", "openai") != "openai" or "profile" in settings
    return [] if is_elsewhere else [program, "login", "status"]


def model_of(session: str) -> str:
    """The model of a thread's last turn, from the file in which Codex keeps it; empty where that says none."""
    import json

    from agent_infra.clients.codex import usage_in

    try:
        found = next((home() / "sessions").glob(f"*/*/*/rollout-*{session}.jsonl"), None)
        lines = found.read_bytes().splitlines() if found else []
        # the one kind of line that names it, and that has no more of the conversation in it than we want
        return usage_in([json.loads(line) for line in lines if b'"turn_context"' in line])[1]
    except (OSError, ValueError, RecursionError):
        return ""
