"""What the real Claude Code and Codex make of what `init` installs: agents, skills and hooks are loaded."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_infra.clients.setup import wanted
from agent_infra.core.lifecycle import NATIVE_AGENTS
from tests.e2e.test_client_doctor import said, trust
from tests.support import model_server, real_clients
from tests.support.lifecycle import World, environment, fresh
from tests.support.model_server import Block, Call, Conversation, Say


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = fresh(tmp_path / "repo")
    world.env = environment(tmp_path)
    world.cli("init", "--yes", "--client", "claude-code", "--client", "codex")
    return world


def asked(world: World, *methods: str) -> list[Any]:
    """What Codex answers to questions about the project, without a model."""
    argv = [str(real_clients.program("@openai/codex")), "app-server"]
    calls: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "x", "version": "1"}}},
        {"method": "initialized"},
        *({"id": n, "method": name, "params": {"cwds": [str(world.root)]}} for n, name in enumerate(methods, 1)),
    ]
    with subprocess.Popen(
        argv,
        cwd=world.root,
        env=world.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("".join(json.dumps(call) + "\n" for call in calls).encode())
        process.stdin.flush()
        answers: dict[int, Any] = {}
        for line in process.stdout:
            answer = json.loads(line)
            answers[answer.get("id", -1)] = answer.get("result")
            if set(range(len(methods) + 1)) <= answers.keys():
                break
        process.kill()
    return [answers[number]["data"][0] for number in range(1, len(methods) + 1)]


def test_codex_finds_hooks_and_skills_and_trusts_what_doctor_says(world: World) -> None:
    """Each hook under the key and with the digest that we reckon with; once trusted, Codex and doctor agree on all."""
    world.env["CODEX_HOME"] = str(world.root.parent / "codex home")
    trust(world, without="hooks.json")  # the project alone
    hooks, skills = asked(world, "hooks/list", "skills/list")
    assert (hooks["errors"], hooks["warnings"], skills["errors"]) == ([], [], [])
    assert {hook["trustStatus"] for hook in hooks["hooks"]} == {"untrusted"}
    trust(world)
    (hooks,) = asked(world, "hooks/list")
    assert {hook["trustStatus"] for hook in hooks["hooks"]} == {"trusted"}
    assert len(hooks["hooks"]) == 9
    assert {skill["name"] for skill in skills["skills"] if skill["scope"] == "repo"} == set(wanted.SKILLS)
    path = world.root / wanted.HOOK_FILES["codex"]
    path.write_text(path.read_text().replace('"timeout": 600', '"timeout": 500'))
    (hooks,) = asked(world, "hooks/list")
    modified = [hook["eventName"] for hook in hooks["hooks"] if hook["trustStatus"] != "trusted"]
    assert modified == ["subagentStop"]
    world.env["PATH"] = f"{real_clients.program('@openai/codex').parent}:{world.env['PATH']}"
    faults = [message for check, message, _ in said(world, "fault") if check == "clients"]
    assert len(faults) == 1
    assert "1 of our 9 hooks changed since you trusted them" in faults[0]
    assert "subagent_stop:0:0" in faults[0]
    fine = " ".join(message for _, message, _ in said(world, "fine"))
    assert f"codex: version {real_clients.VERSIONS['@openai/codex']}" in fine


def session(world: World, cwd: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """A session of Claude Code whose child uses a tool: what it loaded, and which events reached us from the child."""

    def brain(heard: Conversation) -> list[Block]:
        if "You are the executor." in heard.system:
            return [Call("Bash", {"command": "true", "description": "x"})] if heard.replies == 0 else [Say("done")]
        if heard.replies == 0 and any("MARK-MAIN" in text for text in heard.told):
            spawn = {"description": "x", "prompt": "x", "subagent_type": "agent-infra-lifecycle-executor"}
            return [Call("Agent", {**spawn, "run_in_background": False})]
        return [Say("done")]

    record = world.root.parent / f"events-{cwd.name}.jsonl"
    with model_server.serving(brain) as server:
        argv, env = real_clients.claude_code(world, server.port, "MARK-MAIN go")
        config = Path(env["CLAUDE_CONFIG_DIR"]) / ".claude.json"
        known = json.loads(config.read_text())
        known["projects"][str(cwd)] = {"hasTrustDialogAccepted": True}
        config.write_text(json.dumps(known))
        with real_clients.started(world, argv, env | {"AGENT_INFRA_RECORD": str(record)}, cwd=cwd) as started:
            lines = started.end().splitlines()
    first = next(found for line in lines if (found := json.loads(line)).get("subtype") == "init")
    events = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    payloads = [event["payload"] for event in events]
    return first, [(each["hook_event_name"], each.get("tool_name", "")) for each in payloads if each.get("agent_id")]


def test_claude_code_loads_agents_and_the_skill_and_runs_each_hook_once(world: World) -> None:
    """Settings and front matter hold the same line: an event that both name reaches us once."""
    first, events = session(world, world.root)
    assert set(NATIVE_AGENTS) <= set(first["agents"])
    assert "run-task" in first["skills"]
    assert events == [("SubagentStart", ""), ("PreToolUse", "Bash"), ("SubagentStop", "")]


def test_claude_code_in_a_subfolder_still_runs_the_hooks_of_our_agents(world: World) -> None:
    """The settings' hooks are not there; those in the front matter find their way to the root."""
    (world.root / "sub").mkdir()
    first, events = session(world, world.root / "sub")
    assert set(NATIVE_AGENTS) <= set(first["agents"])
    assert events == [("PreToolUse", "Bash"), ("SubagentStop", "")]
