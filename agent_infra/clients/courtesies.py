"""What a managed child's tools are refused before they run, judged by the pending step alone.

It stops honest agents early, with a reason. Whoever writes through a shell is caught when the step is sealed.
"""

import json
import os

from agent_infra.clients.places import Place
from agent_infra.core import native
from agent_infra.core.native import Answer, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PATH_KEYS = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
_PATCH, _SHELL = "apply_patch", "Bash"
_PATCHED = r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)[ \t]*$"

# what lets us be asked at all, from the root of a worktree; a folder ends with a slash
_CONTROL = (
    *(".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json", ".codex/config.toml"),
    *(".agents/hooks/", ".claude/agents/agent-infra-lifecycle-", ".codex/agents/agent-infra-lifecycle-"),
    *(".git/hooks/", ".git/config", ".git/agent-infra/"),
)
_WORDS = ("hookspath", "no-verify", "disableallhooks", "agent-infra uninstall", "git_config_", *_CONTROL)
_WRITES = r"(?:>|\b(?:rm|mv|cp|ln|tee|dd|chmod|chown|install|truncate|touch|sed\s+(?:-\S+\s+)*-\S*i|unlink)\b)"
_OFF_SWITCHES = (
    r"\bgit\b[^\n;&|]*\bconfig\b(?![^\n;&|]*--get)[^\n;&|]*core\.hookspath[ \t]+[^\s;&|]",
    r"\bgit\b[^\n;&|]*\bconfig\b[^\n;&|]*--unset[^\n;&|]*core\.hookspath",
    r"core\.hookspath\s*=",
    r"GIT_CONFIG_(?:COUNT|KEY_\d+)\s*=",
    r"\bgit\b[^\n;&|]*--no-verify\b",
    r"disableAllHooks",
    r"\bagent-infra\s+uninstall\b",
)


def judge(event: Event, place: Place) -> Answer:
    """Whether a managed child's tool call may go ahead."""
    paths = written_paths(event)
    for path in paths:
        if _within(path, place).startswith(_CONTROL):
            return _refused(f"{path} decides whether agent-infra is asked; a step leaves it alone")
    if event.tool == _SHELL and _switches_off(_command(event)):
        return _refused("this command would switch off or change what asks agent-infra; a step leaves that alone")
    return _judge_paths(event, place, paths) if paths else Answer()


def _judge_paths(event: Event, place: Place, paths: "list[str]") -> Answer:
    step = _pending(place)
    if not step or native.REVIEWER not in (event.role, step.get("role")):
        return Answer()
    if event.role != step.get("role"):
        return _refused(f"{step.get('stage')} is under way, which is not the step of an {event.role}; write nothing")
    allowed = [path for path in step.get("allowedPaths", ()) if isinstance(path, str)]
    known = {os.path.realpath(path) for path in allowed}
    strangers = [path for path in paths if os.path.realpath(path) not in known]
    if not strangers:
        return Answer()
    may = " and ".join(allowed)
    return _refused(f"a reviewer changes nothing but {may}; {', '.join(strangers)} is not among them")


def written_paths(event: Event) -> "list[str]":
    """The files that a tool would write, absolute; none for a tool that writes none, as far as its input says."""
    named: list[str] = []
    if event.tool in _PATH_KEYS:
        named = [native.words(event.tool_input.get(_PATH_KEYS[event.tool]))]
    elif event.tool == _PATCH:
        import re

        named = re.findall(_PATCHED, _command(event))
    return [os.path.normpath(os.path.join(event.cwd, path)) for path in named if path]  # noqa: PTH118


def _switches_off(command: str) -> bool:
    """Whether a command would change what asks us; patterns are only made for one that holds a word of theirs."""
    small = " ".join(command.lower().split())
    if not any(word in small for word in _WORDS):
        return False
    import re

    control = "|".join(re.escape(path) for path in _CONTROL)
    patterns = (*_OFF_SWITCHES, rf"{_WRITES}[^\n;&|]*(?:{control})")
    return any(re.search(pattern, command, re.IGNORECASE | re.DOTALL) for pattern in patterns)


def _command(event: Event) -> str:
    return native.words(event.tool_input.get("command"))


def _within(path: str, place: Place) -> str:
    """The path from the root of the worktree; of a git dir elsewhere, as if it lay there."""
    real = os.path.realpath(path)
    if real.startswith(place.git_dir + os.sep):
        return f".git/{real[len(place.git_dir) + 1 :]}"
    return real[len(place.worktree) + 1 :] if real.startswith(place.worktree + os.sep) else real


def _pending(place: Place) -> "dict[str, Any]":
    try:
        with open(place.active, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs more than the rest
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refused(why: str) -> Answer:
    return Answer(native.REFUSE, f"agent-infra: {why}.")
