"""Codex: which of its events are ours, and what they say in our words (versions: docs/clients.md).

Its subagent tools come in two sets with other names (docs/clients.md); what they have in common is the end of the name.
"""

import json

from agent_infra.core import native
from agent_infra.core.native import Event, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ID = "codex"
_RETURNS = ("wait_agent", "close_agent", "list_agents")

_MAIN = {
    "UserPromptSubmit": native.PROMPT_SUBMITTED,
    "Stop": native.SESSION_STOP,
    "SessionStart": native.SESSION_STARTED,
    "SessionEnd": native.SESSION_ENDED,
}
_CHILD = {"SubagentStart": native.CHILD_STARTED, "SubagentStop": native.CHILD_STOPPED}


def event_of(payload: "Mapping[str, Any]") -> Event | None:
    """The event of a payload, or None where it is none of our business whatever the repository holds."""
    name = payload["hook_event_name"]
    if name in ("PreToolUse", "PostToolUse"):
        return _tool(payload, is_before=name == "PreToolUse")
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
    event.reason = words(payload.get("source")) or words(payload.get("reason"))
    return event


def _tool(payload: "Mapping[str, Any]", *, is_before: bool) -> Event | None:
    tool = words(payload.get("tool_name"))
    if tool.endswith("spawn_agent"):
        return _spawn(Event(ID, native.SPAWN_ASKED if is_before else native.SPAWN_RETURNED, payload), payload)
    if tool.endswith(_RETURNS) and not payload.get("agent_id"):
        if is_before and not tool.endswith("wait_agent"):
            return None
        return _wait(Event(ID, native.WAIT_ASKED if is_before else native.WAIT_RETURNED, payload), payload)
    event = Event(ID, native.TOOL_ASKED, payload)
    return event if is_before and event.child and event.role else None


def _spawn(event: Event, payload: "Mapping[str, Any]") -> Event | None:
    asked = event.tool_input
    event.caller_type = event.agent_type
    event.agent_type = words(asked.get("agent_type"))
    if not event.role:
        return None
    event.prompt = words(asked.get("message"))
    event.in_background = True
    response = _response(payload)
    event.awaited = tuple(found for key in ("agent_id", "task_name") if (found := words(response.get(key))))
    return event


def changed_input(event: Event) -> "dict[str, Any] | None":
    """The spawn as it is let through: without the main agent's history, or a child would judge its own work."""
    asked = event.tool_input
    if "task_name" in asked and asked.get("fork_turns") != "none":  # left out it means all
        return {**asked, "fork_turns": "none"}
    if asked.get("fork_context"):
        return {**asked, "fork_context": False}
    return None


def _wait(event: Event, payload: "Mapping[str, Any]") -> Event:
    targets = event.tool_input.get("targets")
    event.awaited = tuple(words(target) for target in targets) if isinstance(targets, list) else ()
    event.ended = tuple(_errored(_response(payload)))
    return event


def _errored(response: "Mapping[str, Any]") -> "list[str]":
    """The children that ended by an error, by what each set of tools calls them."""
    found: list[str] = []
    status = response.get("status") or response.get("previous_status")
    if isinstance(status, dict):
        found += [child for child, how in status.items() if isinstance(how, dict) and "errored" in how]
    agents = response.get("agents")
    for agent in agents if isinstance(agents, list) else []:
        how = agent.get("agent_status") if isinstance(agent, dict) else None
        if isinstance(how, dict) and "errored" in how:
            found += [value for key, value in agent.items() if key != "agent_status" and isinstance(value, str)]
    return found


def _response(payload: "Mapping[str, Any]") -> "Mapping[str, Any]":
    """A tool's answer, which is JSON in a string."""
    given = payload.get("tool_response")
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}


def _told(payload: "Mapping[str, Any]") -> dict[str, str]:
    is_start = payload["hook_event_name"] == "SubagentStart"
    # at the child's end `transcript_path` is that of the agent that started it
    transcript = payload.get("transcript_path" if is_start else "agent_transcript_path")
    found = {
        "model": words(payload.get("model")),
        "transcript": words(transcript),
        "permissionMode": words(payload.get("permission_mode")),
    }
    return {name: value for name, value in found.items() if value}


def usage_in(lines: "list[dict[str, Any]]") -> tuple[dict[str, int], str]:
    """What a child used by the last count in its rollout, and the model of its last turn."""
    used: Mapping[str, Any] = {}
    model = ""
    for line in lines:
        payload = line.get("payload")
        if not isinstance(payload, dict):
            continue
        if line.get("type") == "turn_context":
            model = words(payload.get("model")) or model
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if isinstance(info, dict) and isinstance(info.get("total_token_usage"), dict):
            used = info["total_token_usage"]
    names = {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadTokens": "cached_input_tokens",
        "reasoningTokens": "reasoning_output_tokens",
    }
    counts = {ours: used[theirs] for ours, theirs in names.items() if isinstance(used.get(theirs), int)}
    return counts, model
