"""What real clients send to their hooks, as far as its shape goes, and a client that sends it.

`PAYLOADS` holds one payload of each kind that was ever seen, by the name of client and event.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.clients import hook
from tests.support.lifecycle import TASK, World

EXECUTOR, REVIEWER = "agent-infra-lifecycle-executor", "agent-infra-lifecycle-reviewer"
SESSION = {"claude-code": "00000000-0000-4000-8000-000000000001", "codex": "01a00000-0000-7000-8000-000000000001"}
CHILD = {"claude-code": "a0000000000000001", "codex": "01a00000-0000-7000-8000-000000000003"}
TOOL_USE = {"claude-code": "toolu_000000000000000000000001", "codex": "call_000000000000000000000001"}
COMMIT_COMMAND = "git add out.txt && git commit -qm 'work' && git log --oneline | head -2"
_ROLLOUT = "/config/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{}.jsonl"
_PROJECT = "/config/projects/-repo/" + SESSION["claude-code"]


def claude(event: str, **more: Any) -> dict[str, Any]:
    """An event of Claude Code's main agent."""
    base = {
        "session_id": SESSION["claude-code"],
        "transcript_path": f"{_PROJECT}.jsonl",
        "cwd": "/repo",
        "prompt_id": "00000000-0000-4000-8000-000000000002",
    }
    return base | {"hook_event_name": event} | more


def _claude_child(event: str, agent_type: str = EXECUTOR, **more: Any) -> dict[str, Any]:
    return claude(event, agent_id=CHILD["claude-code"], agent_type=agent_type, **more)


def _claude_tool(event: str, tool: str, tool_input: dict[str, Any], **more: Any) -> dict[str, Any]:
    said = {"permission_mode": "default", "effort": {"level": "medium"}, "tool_name": tool, "tool_input": tool_input}
    return claude(event, **said, tool_use_id=TOOL_USE["claude-code"], **more)


def _in_child(payload: dict[str, Any], agent_type: str = EXECUTOR) -> dict[str, Any]:
    client = "codex" if "turn_id" in payload else "claude-code"
    return payload | {"agent_id": CHILD[client], "agent_type": agent_type}


def _agent(agent_type: str = EXECUTOR, **more: Any) -> dict[str, Any]:
    return {"description": "do it", "prompt": "Do the step.", "subagent_type": agent_type} | more


_DONE = {
    "status": "completed",
    "agentId": CHILD["claude-code"],
    "agentType": EXECUTOR,
    "content": [{"type": "text", "text": "executor done"}],
    "resolvedModel": "claude-sonnet-5-5",
    "totalTokens": 20,
    "usage": {"input_tokens": 10, "output_tokens": 10},
}
_LAUNCHED = {"isAsync": True, "status": "async_launched", "agentId": CHILD["claude-code"], "description": "do it"}
_BACKGROUND = [
    {"id": CHILD["claude-code"], "type": "subagent", "status": "running", "description": "x", "agent_type": EXECUTOR}
]
_STOPPED = {
    "permission_mode": "default",
    "effort": {"level": "medium"},
    "stop_hook_active": False,
    "agent_transcript_path": f"{_PROJECT}/subagents/agent-{CHILD['claude-code']}.jsonl",
    "last_assistant_message": "executor done",
    "background_tasks": [],
    "session_crons": [],
}
_MAIN_STOP = {
    "permission_mode": "default",
    "effort": {"level": "medium"},
    "stop_hook_active": False,
    "last_assistant_message": "all done",
    "background_tasks": [],
    "session_crons": [],
}
_WRITE = {"file_path": "/repo/out.txt", "content": "hello\n"}
_ISOLATED = f"/repo/.claude/worktrees/agent-{CHILD['claude-code']}"
_TOLD = (
    f"<task-notification>\n<task-id>{CHILD['claude-code']}</task-id>\n<status>completed</status>\n</task-notification>"
)


def codex(event: str, **more: Any) -> dict[str, Any]:
    """An event of Codex' main agent."""
    base = {
        "session_id": SESSION["codex"],
        "turn_id": "01a00000-0000-7000-8000-000000000002",
        "transcript_path": _ROLLOUT.format(SESSION["codex"]),
        "cwd": "/repo",
        "hook_event_name": event,
        "model": "gpt-5.1-codex",
        "permission_mode": "bypassPermissions",
    }
    return base | more


def _codex_child(event: str, agent_type: str = EXECUTOR, **more: Any) -> dict[str, Any]:
    child = CHILD["codex"]
    is_stop = event == "SubagentStop"
    paths = (
        {"agent_transcript_path": _ROLLOUT.format(child)} if is_stop else {"transcript_path": _ROLLOUT.format(child)}
    )
    return codex(event, agent_id=child, agent_type=agent_type, **paths, **more)


def _codex_tool(event: str, tool: str, tool_input: dict[str, Any], **more: Any) -> dict[str, Any]:
    return codex(event, tool_name=tool, tool_input=tool_input, tool_use_id=TOOL_USE["codex"], **more)


def _spawn_v1(agent_type: str = EXECUTOR) -> dict[str, Any]:
    return {"agent_type": agent_type, "message": "Do the step."}


def _spawn_v2(agent_type: str = EXECUTOR) -> dict[str, Any]:
    return {"task_name": "exec_one", "agent_type": agent_type, "message": "Do the step.", "fork_turns": "none"}


_STOP = {"stop_hook_active": False, "last_assistant_message": "executor done"}
_AGAIN = {"stop_hook_active": True}
_TARGETS = {"targets": [CHILD["codex"]], "timeout_ms": 20000}
_PATCH = {"command": "*** Begin Patch\n*** Add File: patch.txt\n+hi\n*** End Patch\n"}
_SHELL = {"command": COMMIT_COMMAND}
_V1_WAITED = json.dumps({"status": {CHILD["codex"]: {"completed": "executor done"}}, "timed_out": False})
_V2_WAITED = json.dumps({"message": "Wait completed.", "timed_out": False})
_NO_TURN = ("turn_id", "model", "permission_mode")


def _without(payload: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key not in keys}


PAYLOADS: dict[str, dict[str, Any]] = {
    "claude-code/MessageDisplay": claude("MessageDisplay", index=0, final=True, delta="all done"),
    "claude-code/PermissionRequest.subagent.Bash": _in_child(_claude_tool("PermissionRequest", "Bash", _SHELL)),
    "claude-code/PermissionRequest.subagent.Write": _in_child(_claude_tool("PermissionRequest", "Write", _WRITE)),
    "claude-code/PostToolBatch.subagent": _claude_child("PostToolBatch", tool_calls=[{"tool_name": "Write"}]),
    "claude-code/PostToolUse.main.Agent-background": _claude_tool(
        "PostToolUse", "Agent", _agent(), tool_response=_LAUNCHED
    ),
    "claude-code/PostToolUse.main.Agent-foreground": _claude_tool(
        "PostToolUse", "Agent", _agent(run_in_background=False), tool_response=_DONE
    ),
    "claude-code/PostToolUse.main.Agent-max-turns": _claude_tool(
        "PostToolUse", "Agent", _agent(run_in_background=False), tool_response=_DONE
    ),
    "claude-code/PostToolUse.subagent.Bash-git-commit": _in_child(
        _claude_tool("PostToolUse", "Bash", _SHELL, tool_response={"stdout": "8ba91ad work"})
    ),
    "claude-code/PostToolUse.subagent.Write": _in_child(
        _claude_tool("PostToolUse", "Write", _WRITE, tool_response={"type": "create"})
    ),
    "claude-code/PostToolUseFailure.main.Agent-api-error": _claude_tool(
        "PostToolUseFailure",
        "Agent",
        _agent(run_in_background=False),
        error="Agent terminated early",
        is_interrupt=False,
    ),
    "claude-code/PostToolUseFailure.main.Agent-unknown-type": _claude_tool(
        "PostToolUseFailure", "Agent", _agent("no-such-agent"), error="not found", is_interrupt=False
    ),
    "claude-code/PostToolUseFailure.subagent.Bash": _in_child(
        _claude_tool("PostToolUseFailure", "Bash", _SHELL, error="Exit code 128") | {"cwd": "/worktree"}
    ),
    "claude-code/PreToolUse.main.Agent": _claude_tool("PreToolUse", "Agent", _agent(run_in_background=False)),
    "claude-code/PreToolUse.main.SendMessage": _claude_tool(
        "PreToolUse", "SendMessage", {"to": CHILD["claude-code"], "message": "please continue"}
    ),
    "claude-code/PreToolUse.subagent.Agent": _in_child(
        _claude_tool("PreToolUse", "Agent", _agent(REVIEWER, run_in_background=False))
    ),
    "claude-code/PreToolUse.subagent.Bash-git-commit": _in_child(_claude_tool("PreToolUse", "Bash", _SHELL)),
    "claude-code/PreToolUse.subagent.Write": _in_child(_claude_tool("PreToolUse", "Write", _WRITE)),
    "claude-code/SessionEnd": claude("SessionEnd", reason="other"),
    "claude-code/SessionStart.resume": claude("SessionStart", source="resume"),
    "claude-code/SessionStart.startup": claude("SessionStart", source="startup"),
    "claude-code/Stop.after-block": claude("Stop", **(_MAIN_STOP | _AGAIN)),
    "claude-code/Stop.background-agent-still-running": claude(
        "Stop", **(_MAIN_STOP | {"background_tasks": _BACKGROUND})
    ),
    "claude-code/Stop": claude("Stop", **_MAIN_STOP),
    "claude-code/StopFailure.subagent": _claude_child("StopFailure", error="unknown"),
    "claude-code/SubagentStart": _claude_child("SubagentStart"),
    "claude-code/SubagentStart.worktree-isolation": _claude_child("SubagentStart") | {"cwd": _ISOLATED},
    "claude-code/SubagentStop.after-block": _claude_child("SubagentStop", **(_STOPPED | _AGAIN)),
    "claude-code/SubagentStop.background": _claude_child(
        "SubagentStop", **(_STOPPED | {"background_tasks": _BACKGROUND})
    ),
    "claude-code/SubagentStop": _claude_child("SubagentStop", **_STOPPED),
    "claude-code/SubagentStop.worktree-isolation": _claude_child("SubagentStop", **_STOPPED) | {"cwd": _ISOLATED},
    "claude-code/UserPromptSubmit.background-agent-finished": claude("UserPromptSubmit", prompt=_TOLD),
    "claude-code/UserPromptSubmit": claude("UserPromptSubmit", permission_mode="default", prompt="please go"),
    "claude-code/WorktreeCreate": claude("WorktreeCreate", name="agent-1"),
    "codex/Interrupt": codex("Interrupt"),
    "codex/PostToolUse.main.spawn_agent-v1": _codex_tool(
        "PostToolUse",
        "spawn_agent",
        _spawn_v1(),
        tool_response=json.dumps({"agent_id": CHILD["codex"], "nickname": "B"}),
    ),
    "codex/PostToolUse.main.spawn_agent-v2": _codex_tool(
        "PostToolUse",
        "collaborationspawn_agent",
        _spawn_v2(),
        tool_response=json.dumps({"task_name": "/root/exec_one"}),
    ),
    "codex/PostToolUse.main.wait_agent-v1": _codex_tool(
        "PostToolUse", "multi_agent_v1wait_agent", _TARGETS, tool_response=_V1_WAITED
    ),
    "codex/PostToolUse.main.wait_agent-v2": _codex_tool(
        "PostToolUse", "collaborationwait_agent", {"timeout_ms": 20000}, tool_response=_V2_WAITED
    ),
    "codex/PostToolUse.subagent.Bash-git-commit": _in_child(
        _codex_tool("PostToolUse", "Bash", _SHELL, tool_response="0376e12 work\n")
    ),
    "codex/PostToolUse.subagent.apply_patch": _in_child(
        _codex_tool("PostToolUse", "apply_patch", _PATCH, tool_response="Exit code: 0\n")
    ),
    "codex/PreToolUse.main.spawn_agent-v1": _codex_tool("PreToolUse", "spawn_agent", _spawn_v1()),
    "codex/PreToolUse.main.spawn_agent-v2": _codex_tool("PreToolUse", "collaborationspawn_agent", _spawn_v2()),
    "codex/PreToolUse.main.wait_agent-v1": _codex_tool("PreToolUse", "multi_agent_v1wait_agent", _TARGETS),
    "codex/PreToolUse.subagent.Bash-git-commit": _in_child(_codex_tool("PreToolUse", "Bash", _SHELL)),
    "codex/PreToolUse.subagent.apply_patch": _in_child(_codex_tool("PreToolUse", "apply_patch", _PATCH)),
    "codex/PreToolUse.subagent.spawn_agent-v2": _in_child(
        _codex_tool("PreToolUse", "collaborationspawn_agent", _spawn_v2(REVIEWER))
    ),
    "codex/SessionEnd": _without(codex("SessionEnd", reason="other"), *_NO_TURN),
    "codex/SessionStart.resume": _without(codex("SessionStart", source="resume"), "turn_id"),
    "codex/SessionStart.startup": _without(codex("SessionStart", source="startup"), "turn_id"),
    "codex/Stop.after-block": codex("Stop", **(_STOP | _AGAIN)),
    "codex/Stop": codex("Stop", **_STOP),
    "codex/SubagentStart.v1": _codex_child("SubagentStart"),
    "codex/SubagentStart.v2-nested": _codex_child("SubagentStart", REVIEWER),
    "codex/SubagentStart.v2": _codex_child("SubagentStart"),
    "codex/SubagentStop.after-block": _codex_child("SubagentStop", **(_STOP | _AGAIN)),
    "codex/SubagentStop.v1": _codex_child("SubagentStop", **_STOP),
    "codex/SubagentStop.v2-nested": _codex_child("SubagentStop", REVIEWER, **_STOP)
    | {"agent_id": "01a00000-0000-7000-8000-000000000004"},
    "codex/SubagentStop.v2": _codex_child("SubagentStop", **_STOP),
    "codex/UserPromptSubmit.main": codex("UserPromptSubmit", prompt="please go"),
    "codex/UserPromptSubmit.subagent-v1": _in_child(codex("UserPromptSubmit", prompt="do it")),
}


@dataclass
class Said:
    """What a hook answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.out) if self.out else {}
        assert isinstance(found, dict)
        return found

    @property
    def kind(self) -> str:
        """pass, refuse, go on, tell or allow; `fault` for exit 1."""
        if self.code:
            assert self.err.strip()
            assert not self.out
            return {1: "fault", 2: "refuse"}[self.code]
        if not self.out:
            return "pass"
        if self.json.get("decision") == "block":
            assert self.json.keys() == {"decision", "reason"}
            return "go on"
        specific = self.json["hookSpecificOutput"]
        assert self.json.keys() == {"hookSpecificOutput"}
        return "allow" if specific.get("permissionDecision") == "allow" else "tell"

    @property
    def text(self) -> str:
        """The words, wherever the protocol puts them."""
        specific = self.json.get("hookSpecificOutput", {}) if self.out else {}
        return str(self.err or self.json.get("reason") or specific.get("additionalContext") or "")


@dataclass
class Client:
    """A client at work in a repository; what it sends is answered in this process."""

    world: World
    id: str = "claude-code"
    session: str = ""
    tool_uses: int = 0

    def __post_init__(self) -> None:
        self.session = self.session or SESSION[self.id]

    def send(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]] | None = None, **more: Any) -> Said:
        """One event by its name in `PAYLOADS`, in this repository, with keys replaced."""
        payload = placed(PAYLOADS[f"{self.id}/{name}"], self.world.root) | {"session_id": self.session} | more
        payload = change(payload) if change else payload
        return Said(*hook.answered(self.id, json.dumps(payload).encode()))

    def spawn(self, role: str, **asked: Any) -> Said:
        """The main agent asks for a child; every call is another one."""
        self.tool_uses += 1
        agent = EXECUTOR if role == "executor" else REVIEWER
        name, key = ("PreToolUse.main.Agent", "subagent_type")
        if self.id == "codex":
            name, key = "PreToolUse.main.spawn_agent-v2", "agent_type"
        return self.send(name, lambda p: p | {"tool_input": p["tool_input"] | {key: agent} | asked}, **self.tool_use)

    @property
    def tool_use(self) -> dict[str, str]:
        return {"tool_use_id": f"tool-{self.session[-4:]}-{self.tool_uses}"}

    def returned(self, role: str = "executor", **more: Any) -> Said:
        """The spawn's tool call is over."""
        agent = EXECUTOR if role == "executor" else REVIEWER
        if self.id == "codex":
            name, key = "PostToolUse.main.spawn_agent-v2", "agent_type"
        else:
            name, key = "PostToolUse.main.Agent-foreground", "subagent_type"
        return self.send(name, lambda p: p | {"tool_input": p["tool_input"] | {key: agent}}, **self.tool_use, **more)

    def start(self, role: str, child: str = "", **more: Any) -> Said:
        """A child starts."""
        name = "SubagentStart" if self.id == "claude-code" else "SubagentStart.v2"
        return self.send(name, **(self._child(role, child) | more))

    def stop(self, role: str, child: str = "", **more: Any) -> Said:
        """A child stops."""
        name = "SubagentStop" if self.id == "claude-code" else "SubagentStop.v2"
        return self.send(name, **(self._child(role, child) | more))

    def _child(self, role: str, child: str) -> dict[str, str]:
        return {"agent_id": child or CHILD[self.id], "agent_type": EXECUTOR if role == "executor" else REVIEWER}

    def working(self, role: str = "executor", child: str = "") -> str:
        """A child at the next step; what it was told."""
        asked = self.spawn(role)
        assert asked.kind in ("allow", "pass"), asked
        told = self.start(role, child)
        assert told.kind == "tell", told
        return told.text


def placed(value: Any, root: Path) -> Any:
    """A payload whose paths lie in this repository."""
    if isinstance(value, str):
        return value.replace("/repo/", f"{root}/") if value != "/repo" else str(root)
    if isinstance(value, list):
        return [placed(item, root) for item in value]
    return {key: placed(item, root) for key, item in value.items()} if isinstance(value, dict) else value


def pending(world: World, task: str = TASK) -> dict[str, Any] | None:
    """The pending receipt as orchestration.json shows it."""
    receipt: dict[str, Any] | None = world.view(task)["pendingDelegation"]
    return receipt


def seen_of(world: World) -> list[str]:
    """The operations in the journal."""
    return [str(event["op"]) for event in world.journal()]
