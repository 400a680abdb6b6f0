"""Which events of each client our hooks are registered for, with matcher and timeout, and the command line they start.

The command line and the tables decide what Codex trusts: a change asks every user to trust them anew (docs/clients.md).
"""

from collections.abc import Mapping
from typing import Any

from agent_infra.core.hook_settings import LAUNCHER, Groups

TIMEOUT = 60  # seconds
STOP_TIMEOUT = 600  # a stop takes a snapshot, and in Codex it commits, with the project's own git hooks

END_TIMEOUT = 3  # Codex gives a hook no more when a session ends, and warns of what asks for more

CLAUDE_CODE, CODEX = "claude-code", "codex"
_MANAGED = "agent-infra-lifecycle-.*"
_SPAWN = "Agent|Task"
_WRITES = "Write|Edit|MultiEdit|NotebookEdit"

# The session may have begun in a subfolder and be elsewhere by now, in a submodule too: where it began tells the root.
# Settings and agent definitions hold the very same line, which makes the client run it once where both apply.
_ROOT = {
    CLAUDE_CODE: '"$(git -C "$CLAUDE_PROJECT_DIR" rev-parse --show-toplevel)"',
    CODEX: '"$(git rev-parse --show-toplevel)"',
}

_Table = tuple[tuple[str, str | None], ...]  # event, matcher

_CLAUDE_CODE: _Table = (
    ("PreToolUse", f"{_SPAWN}|{_WRITES}"),
    ("PostToolUse", _SPAWN),
    ("PostToolUseFailure", _SPAWN),
    ("SubagentStart", _MANAGED),
    ("SubagentStop", _MANAGED),
    ("StopFailure", None),
    ("UserPromptSubmit", None),
    ("Stop", None),
    ("SessionStart", None),
    ("SessionEnd", None),
)
_CODEX: _Table = (
    ("PreToolUse", ".*(spawn|wait)_agent$"),
    ("PreToolUse", "Write|Edit|Bash"),
    ("PostToolUse", ".*(spawn_agent|wait_agent|close_agent|list_agents)$"),
    ("SubagentStart", _MANAGED),
    ("SubagentStop", _MANAGED),
    ("UserPromptSubmit", None),
    ("Stop", None),
    ("SessionStart", None),
    ("SessionEnd", None),
)
_TABLES: Mapping[str, _Table] = {CLAUDE_CODE: _CLAUDE_CODE, CODEX: _CODEX}

# what a definition of Claude Code's carries itself: its settings' hooks are not there in a session in a subfolder, and
# a shell is only worth watching in children
OF_AGENT: _Table = (("PreToolUse", f"{_WRITES}|Bash"), ("Stop", None))


def command(client: str) -> str:
    """The command line in the settings of a client; it stays the same in all releases."""
    return f"{_ROOT[client]}/{LAUNCHER} orchestrate hook --client {client}"


def groups(client: str) -> Groups:
    """Our entries in the settings of a client, by event."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for event, matcher in _TABLES[client]:
        run = {"type": "command", "command": command(client), "timeout": timeout_of(client, event)}
        found.setdefault(event, []).append({"matcher": matcher, "hooks": [run]} if matcher else {"hooks": [run]})
    return found


def timeout_of(client: str, event: str) -> int:
    """Seconds after which a client gives up on our hook."""
    if (client, event) == (CODEX, "SessionEnd"):
        return END_TIMEOUT
    return STOP_TIMEOUT if event == "SubagentStop" else TIMEOUT
