"""How an answer is said to a client: exit code, standard output, standard error. Both clients take the same forms.

A refusal is exit 2 with the reason on stderr, since one unknown key makes Codex drop a JSON refusal. Whoever is to go
on gets JSON, since Claude Code drops exit 2 there when certain words occur. Context is one object of known keys.
"""

import json

from agent_infra.core import native
from agent_infra.core.native import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Reply = tuple[int, str, str]
SILENT: Reply = (0, "", "")
DENIED, FAILED = 2, 1
BEFORE_TOOL = "PreToolUse"
# events whose answer may bring text to the agent; at any other text would be dropped, or keep a child going
_CAN_TELL = frozenset(
    {BEFORE_TOOL, "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart", "SubagentStart"}
)


def reply(answer: Answer, event_name: str) -> Reply:
    """What the client gets to see."""
    if answer.kind == native.REFUSE:
        return DENIED, "", answer.text + "\n"
    if answer.kind == native.GO_ON:
        return 0, _line({"decision": "block", "reason": answer.text}), ""
    if answer.kind == native.ALLOW and answer.tool_input is not None:
        return 0, _specific(event_name, permissionDecision="allow", updatedInput=answer.tool_input), ""
    if answer.kind != native.TELL:
        return SILENT
    if event_name in _CAN_TELL:
        return 0, _specific(event_name, additionalContext=answer.text), ""
    return 0, "", answer.text + "\n"  # for whoever reads the client's log


def fault(message: str, event_name: str) -> Reply:
    """What we could not read or do: a tool call is denied, everything else goes on as if there were no hook."""
    return (DENIED if event_name == BEFORE_TOOL else FAILED), "", f"agent-infra: {message}\n"


def _specific(event_name: str, **said: "Any") -> str:
    return _line({"hookSpecificOutput": {"hookEventName": event_name, **said}})


def _line(document: "dict[str, Any]") -> str:
    return json.dumps(document) + "\n"
