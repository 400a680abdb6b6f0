"""Claude Code for one step: `claude -p` with a session of our choosing and its JSON stream."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_infra.clients.headless.hearing import Heard, mapping
from agent_infra.core.lifecycle import Role
from agent_infra.runtime.children import ChildOrder

_READ = ("Read", "Grep", "Glob", "Bash", "WebSearch", "WebFetch", "Skill", "TaskCreate", "TaskUpdate")
_WRITE = ("Write", "Edit", "NotebookEdit")
_NAMES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_input_tokens",
    "cacheWriteTokens": "cache_creation_input_tokens",
}
NOT_LOGGED_IN = r"(?i)/login|invalid api key|authentication_error|oauth token"


def argv(order: ChildOrder, model: str) -> list[str]:
    """Its arguments. A reviewer's file tools write its result and task.md alone; whatever else asks is denied."""
    fixed = ["-p", "--output-format", "stream-json", "--verbose", "--session-id", order.child_id]
    fixed += ["--permission-prompts", "none", "--add-dir", str(order.task_dir)]
    if order.step.role == Role.REVIEWER:
        # two slashes make it a path from the root; `Edit` is about every tool that writes files
        written = [f"Edit(/{path})" for path in (order.artifact_path, order.document) if path]
        rights = ["--permission-mode", "manual", "--allowedTools", *_READ, *written]
    else:
        rights = ["--permission-mode", "acceptEdits", "--allowedTools", *_READ, *_WRITE]
    return [*fixed, *(["--model", model] if model else []), *rights]


def understand(line: Mapping[str, Any], heard: Heard) -> None:
    """Its stream: `init` names session and model, `result` has the sums."""
    kind = line.get("type")
    if kind == "system" and line.get("subtype") == "init":
        heard.named(line.get("session_id"), line.get("model"))
    elif kind == "assistant":
        content = mapping(line.get("message")).get("content")
        for block in content if isinstance(content, list) else []:
            if mapping(block).get("type") == "tool_use":
                heard.at(block.get("name"), block.get("input"))
    elif kind == "result":
        heard.named(line.get("session_id"))
        heard.counted(line.get("usage"), _NAMES, add=False)
        heard.paid(line.get("total_cost_usd"))
        if line.get("is_error"):
            heard.failed(line.get("result") or line.get("terminal_reason"))


def login(program: str, worktree: Path) -> list[str]:
    """A command that fails where nobody is logged in."""
    del worktree
    return [program, "auth", "status"]
