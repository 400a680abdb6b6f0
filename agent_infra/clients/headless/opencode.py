"""OpenCode for one step: `opencode run` with its JSON stream."""

import json
from collections.abc import Mapping
from typing import Any

from agent_infra.clients.headless.hearing import Heard, mapping
from agent_infra.core.lifecycle import Role
from agent_infra.runtime.children import ChildOrder

_NAMES = {"inputTokens": "input", "outputTokens": "output", "reasoningTokens": "reasoning"}
_CACHE = {"cacheReadTokens": "read", "cacheWriteTokens": "write"}
NOT_LOGGED_IN = r"(?i)auth login|provider not found|model not found|unauthorized"


def argv(order: ChildOrder, model: str) -> list[str]:
    """Its arguments; `--auto` lets pass what its settings don't refuse, since nobody is there to be asked."""
    return ["run", "--format", "json", "--auto", "--dir", str(order.worktree), *(["--model", model] if model else [])]


def environment(order: ChildOrder) -> dict[str, str]:
    """A reviewer's file tools write its result and task.md alone."""
    if order.step.role != Role.REVIEWER:
        return {}
    rules = {"*": "deny"}
    for path in (order.artifact_path, order.document):
        if path:
            rules |= {f"**/{path.parent.name}/{path.name}": "allow", str(path): "allow"}
            if path.is_relative_to(order.worktree):
                rules[str(path.relative_to(order.worktree))] = "allow"
    return {"OPENCODE_PERMISSION": json.dumps({"edit": rules})}


def understand(line: Mapping[str, Any], heard: Heard) -> None:
    """Its stream: every line names the session, each step of it has its counts; the model is not in it."""
    heard.named(line.get("sessionID"))
    kind, part = line.get("type"), mapping(line.get("part"))
    if kind == "step_finish":
        tokens = mapping(part.get("tokens"))
        heard.counted(tokens, _NAMES, add=True)
        heard.counted(tokens.get("cache"), _CACHE, add=True)
        heard.paid(part.get("cost"), add=True)
    elif kind == "tool_use":
        heard.at(part.get("tool"), mapping(part.get("state")).get("input"))
    elif kind == "error":
        error = mapping(line.get("error"))
        heard.failed(mapping(error.get("data")).get("message") or error.get("message") or error.get("name"))
