"""Gemini CLI for one step: `gemini` with a session of our choosing and its JSON stream."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_infra.clients.headless.hearing import Heard, mapping
from agent_infra.core.lifecycle import Role
from agent_infra.runtime.children import ChildOrder
from agent_infra.stores.atomic import write_atomic

_NAMES = {"inputTokens": "input_tokens", "outputTokens": "output_tokens", "cacheReadTokens": "cached"}
_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "CLOUD_SHELL")
NO_LOGIN = 41  # its exit code where no way to log in is chosen
NOT_LOGGED_IN = r"(?i)set an auth method|API key not valid"


def argv(order: ChildOrder, model: str) -> list[str]:
    """Its arguments. Without `--skip-trust` it does not work headless in a folder that it was never opened in."""
    fixed = ["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"]
    fixed += ["--session-id", order.child_id, "--include-directories", str(order.task_dir)]
    if order.step.role == Role.REVIEWER and order.aside:
        policy = order.aside / "reviewer.toml"
        write_atomic(policy, policy_text(order).encode())
        fixed += ["--policy", str(policy)]
    return [*fixed, *(["--model", model] if model else [])]


def policy_text(order: ChildOrder) -> str:
    """Rules by which a reviewer's file tools write its result and task.md alone."""
    names = "|".join(re.escape(path.name) for path in (order.artifact_path, order.document) if path)
    # the tool's input as JSON: within its content every quote has a backslash before it
    pattern = f'"file_path":"[^"]*/{re.escape(order.artifact_path.parent.name)}/(?:{names})"'
    tools = 'toolName = ["write_file", "replace"]'
    allow = f"[[rule]]\n{tools}\nargsPattern = '{pattern}'\ndecision = \"allow\"\npriority = 900\n"
    return allow + f'[[rule]]\n{tools}\ndecision = "deny"\npriority = 800\n'


def understand(line: Mapping[str, Any], heard: Heard) -> None:
    """Its stream: `init` names session and model, `result` has the sums."""
    kind = line.get("type")
    if kind == "init":
        heard.named(line.get("session_id"), line.get("model"))
    elif kind == "tool_use":
        heard.at(line.get("tool_name"), line.get("parameters"))
    elif kind == "error":
        heard.failed(line.get("message"))
    elif kind == "result":
        stats = mapping(line.get("stats"))
        heard.counted(stats, _NAMES, add=False)
        models = list(mapping(stats.get("models")))
        heard.named("", models[-1] if models else None)
        heard.failed(mapping(line.get("error")).get("message"))


def has_login(worktree: Path) -> bool:
    """Whether a way to log in is chosen anywhere that it looks; what that is worth shows when it works."""
    if any(os.environ.get(name) for name in _KEYS):
        return True
    folders = [Path.home(), worktree, *worktree.parents]
    if any((folder / name).is_file() for folder in folders for name in (".env", ".gemini/.env")):
        return True
    for folder in (Path.home(), worktree):
        try:
            settings = json.loads((folder / ".gemini" / "settings.json").read_text(encoding="utf-8"))
        except OSError:
            continue
        except ValueError:
            return True  # it allows comments, which we don't read
        chosen = mapping(mapping(mapping(settings).get("security")).get("auth")).get("selectedType")
        if chosen or mapping(settings).get("selectedAuthType"):
            return True
    return False
