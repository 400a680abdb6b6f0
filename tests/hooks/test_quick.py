"""Events that are none of our business, and tools of managed children: answered without what the books need."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from agent_infra.core import native
from agent_infra.core.lifecycle import NATIVE_AGENTS
from tests.support.events import EXECUTOR, PAYLOADS, REVIEWER, Client, placed
from tests.support.lifecycle import TASK, World

HEAVY = {"click", "pydantic", "pygit2", "transitions", "frontmatter", "yaml", "dataclasses", "pathlib"}


def imported(world: World, payload: dict[str, Any], client: str = "claude-code") -> set[str]:
    """The modules that the program imports to answer a payload."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "agent_infra", "hook", "--client", client],
        input=json.dumps(placed(payload, world.root)).encode(),
        env={k: v for k, v in world.env.items() if not k.startswith("COV")},
        capture_output=True,
        check=False,
    )
    lines = done.stderr.decode().splitlines()
    named = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    before = subprocess.run([sys.executable, "-X", "importtime", "-c", "pass"], capture_output=True, check=False)
    start = {line.rpartition("|")[2].strip() for line in before.stderr.decode().splitlines()}
    runpy = {"runpy", "importlib.util", "importlib._abc", "contextlib", "typing", "importlib.machinery", "pkgutil"}
    return {name.partition(".")[0] for name in named - start - runpy}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("PreToolUse.main.Agent", {"tool_input": {"subagent_type": "Explore"}}, id="unmanaged spawn"),
        pytest.param("SubagentStop", {"agent_type": "Explore"}, id="unmanaged stop"),
        pytest.param("PostToolUse.subagent.Write", {}, id="a tool that ran"),
        pytest.param("PreToolUse.subagent.Write", {}, id="a managed child's tool"),
        pytest.param("PreToolUse.subagent.Agent", {}, id="a nested spawn"),
        pytest.param("Stop", {"cwd": "/"}, id="no repository"),
    ],
)
def test_what_is_not_ours_imports_next_to_nothing(world: World, name: str, change: dict[str, Any]) -> None:
    """The standard library, and of that no more than JSON needs."""
    found = imported(world, PAYLOADS[f"claude-code/{name}"] | change)
    assert found & HEAVY == set()


def test_what_is_ours_is_done_by_the_books(world: World) -> None:
    """The guard above looks at the right thing: an event of a run does import them."""
    assert "pydantic" in imported(world, PAYLOADS["claude-code/UserPromptSubmit"])


def test_our_agents_have_one_list_of_names() -> None:
    """The quick module repeats two names, since it must import nothing."""
    assert {name: str(role) for name, role in NATIVE_AGENTS.items()} == native.MANAGED


# -- tools of managed children -----------------------------------------------------------------------------------------


def reviewing(client: Client, world: World) -> None:
    """A reviewer of code at work."""
    client.working()
    (world.folder() / "analysis.md").write_text("# Analysis\n")
    client.stop("executor")
    client.working(child="coder")
    (world.folder() / "code.md").write_text("# Code\n")
    client.stop("executor", "coder")
    client.working("reviewer", "judge")


def tool(client: Client, tool: str, role: str = REVIEWER, **tool_input: str) -> str:
    """What a managed child's tool call is answered."""
    more = {"agent_type": role, "agent_id": "judge", "tool_name": tool, "tool_input": tool_input}
    return client.send("PreToolUse.subagent.Write", **more).kind


@pytest.mark.parametrize("name", ["Write", "Edit", "MultiEdit"])
def test_a_reviewer_writes_its_review_and_the_ledger(client: Client, world: World, name: str) -> None:
    """Any other file is refused before it is written; by whatever way it is named."""
    reviewing(client, world)
    assert tool(client, name, file_path=str(world.folder() / "review-code.md")) == "pass"
    assert tool(client, name, file_path=str(world.folder() / "task.md")) == "pass"
    assert tool(client, name, file_path=f".agents/workspace/active/{TASK}/task.md") == "pass"
    for path in (str(world.root / "src/app.py"), "src/app.py", str(world.folder() / "code.md"), "/elsewhere"):
        assert tool(client, name, file_path=path) == "refuse", path
    (world.root / "link").symlink_to(world.folder())
    assert tool(client, name, file_path=str(world.root / "link/review-code.md")) == "pass"
    assert tool(client, name, file_path=str(world.folder() / "../x/task.md")) == "refuse"
    assert tool(client, "NotebookEdit", notebook_path=str(world.root / "a.ipynb")) == "refuse"
    assert tool(client, "Read", file_path=str(world.root / "src/app.py")) == "pass"
    assert tool(client, name, role="Explore", file_path="src/app.py") == "pass", "an agent that is not ours"


def test_an_executor_of_an_earlier_step_does_not_write_into_a_review(client: Client, world: World) -> None:
    """What it writes would be the reviewer's fault."""
    assert tool(client, "Write", EXECUTOR, file_path="src/app.py") == "pass"
    reviewing(client, world)
    assert tool(client, "Write", EXECUTOR, file_path="src/app.py") == "refuse"


def test_a_codex_reviewer_patches_its_review_alone(codex: Client, world: World) -> None:
    """Every path of a patch is looked at; the outbox is where its files belong."""
    outbox = world.root / ".agent-infra" / TASK
    for role, child, name in (("executor", "a", "analysis"), ("executor", "b", "code")):
        codex.working(role, child)
        (outbox / f"{name}.md").write_text(f"# {name}\n")
        codex.stop(role, child)
    codex.working("reviewer", "judge")

    def patch(*lines: str) -> str:
        text = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
        more = {"agent_type": REVIEWER, "agent_id": "judge", "tool_input": {"command": text}}
        return codex.send("PreToolUse.subagent.apply_patch", **more).kind

    review = outbox / "review-code.md"
    assert patch(f"*** Add File: {review}", "+# Review") == "pass"
    assert patch(f"*** Update File: .agent-infra/{TASK}/task.md", "@@", "+row") == "pass"
    assert patch(f"*** Add File: {review}", "+# Review", "*** Update File: src/app.py", "@@", "+x") == "refuse"
    assert patch("*** Delete File: src/app.py") == "refuse"
    assert patch(f"*** Update File: {review}", "*** Move to: src/app.py", "@@") == "refuse"


@pytest.mark.parametrize(
    "command",
    [
        "git config core.hooksPath /dev/null",
        "git config --unset core.hookspath",
        "git -c core.hooksPath=/dev/null commit -m x",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/x git commit -m x",
        "git commit --no-verify -m x",
        "rm -rf .git/hooks/pre-commit",
        "echo '{}' > .claude/settings.json",
        "sed -i s/a/b/ .codex/hooks.json",
        "chmod -x .agents/hooks/agent-infra",
        "rm -r .git/agent-infra/guards",
        "agent-infra uninstall",
        """python -c "..." '{"disableAllHooks": true}'""",
    ],
)
def test_what_would_switch_us_off_is_refused(client: Client, command: str) -> None:
    """A courtesy to honest agents; who writes it otherwise is caught at the seal."""
    client.working()
    assert tool(client, "Bash", EXECUTOR, command=command) == "refuse"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'use core.hooks'",
        "git config --get core.hooksPath",
        "git config user.name x",
        "ls .git/hooks/",
        "cat .claude/settings.json",
        "grep -r settings.json .",
        "pytest -q > out.txt",
    ],
)
def test_ordinary_commands_pass(client: Client, command: str) -> None:
    """Looking is free, and so is the rest."""
    client.working()
    assert tool(client, "Bash", EXECUTOR, command=command) == "pass"


@pytest.mark.parametrize(
    "path",
    [
        *(".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json", ".codex/config.toml"),
        *(".agents/hooks/agent-infra", ".git/hooks/pre-commit", ".git/config", ".git/agent-infra/lock"),
        ".claude/agents/agent-infra-lifecycle-reviewer.md",
    ],
)
def test_nobody_writes_what_asks_us(client: Client, world: World, path: str) -> None:
    """An executor neither, whose product may be anything else."""
    client.working()
    assert tool(client, "Write", EXECUTOR, file_path=str(world.root / path)) == "refuse"
    assert tool(client, "Write", EXECUTOR, file_path=path) == "refuse"
    assert tool(client, "Write", EXECUTOR, file_path=os.path.join("src", "settings.json")) == "pass"  # noqa: PTH118


@pytest.mark.parametrize("active", [b"{", b"[]", b'{"role": "reviewer", "allowedPaths": [3]}', b"\xff"])
def test_an_active_step_that_cannot_be_read(client: Client, world: World, active: bytes) -> None:
    """It never lets the hook fail."""
    client.working()
    (world.root / ".git/agent-infra/active.json").write_bytes(active)
    assert tool(client, "Write", EXECUTOR, file_path="src/app.py") in ("pass", "refuse")
