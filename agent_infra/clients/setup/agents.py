"""The two agents that do steps, as each client wants to have them defined: one text, four formats."""

import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from agent_infra.clients.setup import events
from agent_infra.core.lifecycle import NATIVE_AGENTS
from agent_infra.resources import resource

_SAYS = {
    "executor": "Does one executor step of a task, as agent-infra hands it out. Only for steps that agent-infra names.",
    "reviewer": "Judges one step of a task, as agent-infra hands it out. Only for steps that agent-infra names.",
}


def definitions(client: str) -> Mapping[PurePosixPath, bytes]:
    """The definitions of both agents for a client, by path in the project."""
    folder, ending, render = _FORMATS[client]
    found = {}
    for name, role in NATIVE_AGENTS.items():
        body = resource("assets", f"agents/{role}.md").read_text(encoding="utf-8")
        found[PurePosixPath(folder) / f"{name}.{ending}"] = render(name, _SAYS[str(role)], body).encode()
    return found


def _claude_code(name: str, says: str, body: str) -> str:
    hooks = "".join(_frontmatter_hook(event, matcher) for event, matcher in events.OF_AGENT)
    # a list of tools: without the one that starts agents, a child can't hand its step on
    tools = "Read, Grep, Glob, Write, Edit, Bash"
    return f"---\nname: {name}\ndescription: {says}\ntools: {tools}\nhooks:\n{hooks}---\n\n{body}"


def _frontmatter_hook(event: str, matcher: str | None) -> str:
    lines = [f"  {event}:", f'    - matcher: "{matcher}"' if matcher else ""]
    lines += ["      hooks:" if matcher else "    - hooks:", "        - type: command"]
    lines.append(f"          command: '{events.command(events.CLAUDE_CODE)}'")
    known_as = "SubagentStop" if event == "Stop" else event  # as the client calls a child's stop
    lines.append(f"          timeout: {events.timeout_of(events.CLAUDE_CODE, known_as)}")
    return "".join(f"{line}\n" for line in lines if line)


def _codex(name: str, says: str, body: str) -> str:
    # JSON strings are TOML's basic strings for text of this kind
    head = f"name = {json.dumps(name)}\ndescription = {json.dumps(says)}\n"
    return f'{head}developer_instructions = """\n{body}"""\n'


def _opencode(name: str, says: str, body: str) -> str:  # noqa: ARG001 - named by its file
    return f"---\ndescription: {says}\nmode: subagent\n---\n\n{body}"


def _gemini_cli(name: str, says: str, body: str) -> str:
    tools = (
        "read_file",
        "list_directory",
        "glob",
        "grep_search",
        "write_file",
        "replace",
        "run_shell_command",
    )
    listed = "".join(f"  - {tool}\n" for tool in tools)
    return f"---\nname: {name}\ndescription: {says}\ntools:\n{listed}---\n\n{body}"


_FORMATS: Mapping[str, tuple[str, str, Callable[[str, str, str], str]]] = {
    events.CLAUDE_CODE: (".claude/agents", "md", _claude_code),
    events.CODEX: (".codex/agents", "toml", _codex),
    "gemini-cli": (".gemini/agents", "md", _gemini_cli),
    "opencode": (".opencode/agents", "md", _opencode),
}
CLIENTS = tuple(_FORMATS)
