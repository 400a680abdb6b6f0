"""Claude Code: which of its events are ours, and what they say in our words (versions: docs/clients.md)."""

from agent_infra.core import native
from agent_infra.core.native import Event, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ID = "claude-code"
SPAWN_TOOLS = ("Agent", "Task")

# event -> what it is, told of the main agent and of a child; an absent one is none of our business
_MAIN = {
    "UserPromptSubmit": native.PROMPT_SUBMITTED,
    "Stop": native.SESSION_STOP,
    "SessionStart": native.SESSION_STARTED,
    "SessionEnd": native.SESSION_ENDED,
}
_CHILD = {
    "SubagentStart": native.CHILD_STARTED,
    "SubagentStop": native.CHILD_STOPPED,
    "StopFailure": native.CHILD_FAILED,
}
_SPAWN = {
    "PreToolUse": native.SPAWN_ASKED,
    "PostToolUse": native.SPAWN_RETURNED,
    "PostToolUseFailure": native.SPAWN_FAILED,
}


def event_of(payload: "Mapping[str, Any]") -> Event | None:
    """The event of a payload, or None where it is none of our business whatever the repository holds."""
    name, tool = payload["hook_event_name"], payload.get("tool_name")
    if name in _SPAWN and tool in SPAWN_TOOLS:
        return _spawn(Event(ID, _SPAWN[name], payload), payload)
    if name == "PreToolUse":
        event = Event(ID, native.TOOL_ASKED, payload)
        return event if event.child and event.role else None
    is_child = bool(payload.get("agent_id"))
    kind = (_CHILD if is_child else _MAIN).get(name)
    if kind is None:
        return None
    event = Event(ID, kind, payload)
    if is_child:
        if not event.role:
            return None
        event.told = _told(payload)
        event.transcript = words(payload.get("agent_transcript_path"))
    elif kind == native.SESSION_STOP:
        event.at_work = _at_work(payload.get("background_tasks"))
    event.reason = words(payload.get("source")) or words(payload.get("reason"))
    return event


def _spawn(event: Event, payload: "Mapping[str, Any]") -> Event | None:
    asked = event.tool_input
    event.caller_type = event.agent_type
    event.agent_type = words(asked.get("subagent_type"))
    if not event.role:
        return None
    event.prompt = words(asked.get("prompt"))
    event.is_isolated = asked.get("isolation") == "worktree"
    event.in_background = asked.get("run_in_background") is not False
    response = payload.get("tool_response")
    if isinstance(response, dict):
        event.is_over = response.get("status") == "completed"
        event.ended = (words(response.get("agentId")),) if event.is_over else ()
    return event


def changed_input(event: Event) -> "dict[str, Any] | None":
    """The spawn as it is let through: in the foreground, so that its end brings the next step to the main agent."""
    return {**event.tool_input, "run_in_background": False}


def _told(payload: "Mapping[str, Any]") -> dict[str, str]:
    effort = payload.get("effort")
    found = {
        "effort": words(effort.get("level")) if isinstance(effort, dict) else "",
        "transcript": words(payload.get("agent_transcript_path")),
        "permissionMode": words(payload.get("permission_mode")),
    }
    return {name: value for name, value in found.items() if value}


def _at_work(tasks: object) -> tuple[str, ...] | None:
    if not isinstance(tasks, list):
        return None
    running = [task for task in tasks if isinstance(task, dict) and task.get("status") == "running"]
    return tuple(words(task.get(key)) for task in running for key in ("id", "agent_type"))


def usage_in(lines: "list[dict[str, Any]]") -> tuple[dict[str, int], str]:
    """What a child used, added up over the replies in its transcript, and the model that gave the last one."""
    replies: dict[str, Mapping[str, Any]] = {}
    model = ""
    for line in lines:
        message = line.get("message")
        if line.get("type") == "assistant" and isinstance(message, dict) and isinstance(message.get("usage"), dict):
            replies[str(message.get("id"))] = message["usage"]  # a reply of several blocks is written several times
            model = words(message.get("model")) or model
    names = {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadTokens": "cache_read_input_tokens",
        "cacheWriteTokens": "cache_creation_input_tokens",
    }
    found = {ours: sum(_number(usage.get(theirs)) for usage in replies.values()) for ours, theirs in names.items()}
    return (found if replies else {}), model


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
