"""Every payload that a client was ever seen to send, with the decision that it must lead to."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_infra.clients import hook
from tests.support.events import PAYLOADS, Client, Said, placed
from tests.support.lifecycle import World, fresh

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("AGENT_INFRA_SAMPLES", ROOT.parent / "shared/clients/samples"))
STEP = "step: analysis round 1"
SPAWN = "Spawn the agent type agent-infra-lifecycle-executor"
LOST = "ended without a result"
WAIT = "Wait for it"
NO_STEP = "no step for you"
UNFINISHED = "analysis round 1 is not finished: there is no analysis.md"

# how far the run is when the event comes (begun, prepared, working), the decision, and words of it
EXPECTED: dict[str, tuple[str, str, str]] = {
    "claude-code/MessageDisplay": ("working", "pass", ""),
    "claude-code/PermissionRequest.subagent.Bash": ("working", "pass", ""),
    "claude-code/PermissionRequest.subagent.Write": ("working", "pass", ""),
    "claude-code/PostToolBatch.subagent": ("working", "pass", ""),
    "claude-code/PostToolUse.main.Agent-background": ("prepared", "tell", WAIT),
    "claude-code/PostToolUse.main.Agent-foreground": ("working", "tell", LOST),
    "claude-code/PostToolUse.main.Agent-max-turns": ("working", "tell", LOST),
    "claude-code/PostToolUse.subagent.Bash-git-commit": ("working", "pass", ""),
    "claude-code/PostToolUse.subagent.Write": ("working", "pass", ""),
    "claude-code/PostToolUseFailure.main.Agent-api-error": ("working", "tell", LOST),
    "claude-code/PostToolUseFailure.main.Agent-unknown-type": ("begun", "pass", ""),
    "claude-code/PostToolUseFailure.subagent.Bash": ("working", "pass", ""),
    "claude-code/PreToolUse.main.Agent": ("begun", "allow", ""),
    "claude-code/PreToolUse.main.SendMessage": ("working", "pass", ""),
    "claude-code/PreToolUse.subagent.Agent": ("working", "refuse", "only the main agent"),
    "claude-code/PreToolUse.subagent.Bash-git-commit": ("working", "pass", ""),
    "claude-code/PreToolUse.subagent.Write": ("working", "pass", ""),
    "claude-code/SessionEnd": ("working", "pass", LOST),
    "claude-code/SessionStart.resume": ("begun", "pass", ""),
    "claude-code/SessionStart.startup": ("begun", "pass", ""),
    "claude-code/Stop": ("working", "go on", LOST),
    "claude-code/Stop.after-block": ("working", "go on", LOST),
    "claude-code/Stop.background-agent-still-running": ("working", "pass", ""),
    "claude-code/StopFailure.subagent": ("working", "pass", ""),
    "claude-code/SubagentStart": ("prepared", "tell", STEP),
    "claude-code/SubagentStart.worktree-isolation": ("prepared", "tell", NO_STEP),
    "claude-code/SubagentStop": ("working", "go on", UNFINISHED),
    "claude-code/SubagentStop.after-block": ("working", "go on", UNFINISHED),
    "claude-code/SubagentStop.background": ("working", "go on", UNFINISHED),
    "claude-code/SubagentStop.worktree-isolation": ("working", "pass", ""),
    "claude-code/UserPromptSubmit": ("begun", "tell", SPAWN),
    "claude-code/UserPromptSubmit.background-agent-finished": ("working", "tell", WAIT),
    "claude-code/WorktreeCreate": ("working", "pass", ""),
    "codex/Interrupt": ("working", "pass", ""),
    "codex/PostToolUse.main.spawn_agent-v1": ("prepared", "tell", WAIT),
    "codex/PostToolUse.main.spawn_agent-v2": ("prepared", "tell", WAIT),
    "codex/PostToolUse.main.wait_agent-v1": ("working", "tell", WAIT),
    "codex/PostToolUse.main.wait_agent-v2": ("working", "tell", WAIT),
    "codex/PostToolUse.subagent.Bash-git-commit": ("working", "pass", ""),
    "codex/PostToolUse.subagent.apply_patch": ("working", "pass", ""),
    "codex/PreToolUse.main.spawn_agent-v1": ("begun", "pass", ""),
    "codex/PreToolUse.main.spawn_agent-v2": ("begun", "pass", ""),
    "codex/PreToolUse.main.wait_agent-v1": ("working", "pass", ""),
    "codex/PreToolUse.subagent.Bash-git-commit": ("working", "pass", ""),
    "codex/PreToolUse.subagent.apply_patch": ("working", "pass", ""),
    "codex/PreToolUse.subagent.spawn_agent-v2": ("working", "refuse", "only the main agent"),
    "codex/SessionEnd": ("working", "pass", LOST),
    "codex/SessionStart.resume": ("begun", "pass", ""),
    "codex/SessionStart.startup": ("begun", "pass", ""),
    "codex/Stop": ("working", "go on", WAIT),
    "codex/Stop.after-block": ("working", "go on", WAIT),
    "codex/SubagentStart.v1": ("prepared", "tell", STEP),
    "codex/SubagentStart.v2": ("prepared", "tell", STEP),
    "codex/SubagentStart.v2-nested": ("prepared", "tell", NO_STEP),
    "codex/SubagentStop.after-block": ("working", "go on", UNFINISHED),
    "codex/SubagentStop.v1": ("working", "go on", UNFINISHED),
    "codex/SubagentStop.v2": ("working", "go on", UNFINISHED),
    "codex/SubagentStop.v2-nested": ("working", "pass", ""),
    "codex/UserPromptSubmit.main": ("begun", "tell", SPAWN),
    "codex/UserPromptSubmit.subagent-v1": ("working", "pass", ""),
}


def real_samples() -> dict[str, dict[str, Any]]:
    """What was caught from real clients, where it lies beside the checkout."""
    found = SAMPLES.glob("*/[!_]*.json") if SAMPLES.is_dir() else ()
    named = {f"{path.parent.name}/{path.stem}": json.loads(path.read_text()) for path in found}
    return {name: payload for name, payload in named.items() if name.split("/")[0] in hook.CLIENTS}


def decided(world: World, name: str, payload: dict[str, Any]) -> Said:
    """The answer to a payload once the run has come as far as the table says."""
    how_far = EXPECTED[name][0]
    client = name.split("/", maxsplit=1)[0]
    if "isolation" in name:
        world.git("worktree", "add", "-q", placed(payload["cwd"], world.root), "-b", "isolated")
    driving = Client(world, client)
    spawned = {"claude-code": "PreToolUse.main.Agent", "codex": "PreToolUse.main.spawn_agent-v1"}[client]
    if how_far != "begun":
        assert driving.send(spawned).code == 0
    if how_far == "working":
        assert STEP in driving.start("executor").text
    return Said(*hook.answered(client, json.dumps(placed(payload, world.root)).encode()))


def check(world: World, name: str, payload: dict[str, Any]) -> None:
    """A payload leads to its decision, pauses nothing and approves nothing."""
    said = decided(world, name, payload)
    _, kind, words = EXPECTED[name]
    assert (said.kind, words in said.text) == (kind, True), said
    assert world.view()["status"] == "running"
    assert world.view()["receipts"] == []


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_kind_of_event_has_its_answer(world: World, name: str) -> None:
    """The decision of the table, whatever the client put beside."""
    check(world, name, PAYLOADS[name])


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the caught samples are not beside the checkout")
@pytest.mark.parametrize("name", sorted(real_samples()))
def test_every_caught_sample_has_its_answer(world: World, name: str) -> None:
    """The same for what real clients really sent."""
    check(world, name, real_samples()[name])


@pytest.mark.parametrize("name", PAYLOADS)
def test_without_a_run_nothing_is_ours(tmp_path: Path, name: str) -> None:
    """In a repository without a run every event passes in silence, and nothing is written."""
    root = tmp_path / "repo"
    world = fresh(root) if not root.exists() else World(root)
    said = Said(*hook.answered(name.split("/", maxsplit=1)[0], json.dumps(placed(PAYLOADS[name], world.root)).encode()))
    assert (said.code, said.out, said.err) == (0, "", "")
    assert not (root / ".git/agent-infra").exists()


def test_the_tables_are_whole() -> None:
    """Each payload has a decision, and each caught sample a payload of ours."""
    assert EXPECTED.keys() == PAYLOADS.keys()
    assert real_samples().keys() <= PAYLOADS.keys()
