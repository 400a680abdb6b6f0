"""Whole tasks in sessions of the real Claude Code and Codex, with a scripted model: the hooks keep the books."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_infra.core.lifecycle import Flow, Stage, Step
from tests.support import model_server, real_clients
from tests.support.lifecycle import FIXED, TASK, World, artifact_text, environment, fresh
from tests.support.model_server import Block, Call, Conversation, Say

PROMPT = "MARK-MAIN please work on the task"
V1, V2 = "gpt-5.1-codex", "gpt-6.2-sol"
EARLY = "git commit -qam early && echo MADE-IT"


@dataclass(frozen=True)
class Tools:
    """How the model of one client calls its tools."""

    shell: Callable[[str], Call]
    spawn: Callable[[str, int], Call]
    wait: Callable[[Conversation], Call] | None = None


def _claude_spawn(agent: str, _number: int) -> Call:
    # without a word about it the child would go to the background
    return Call("Agent", {"description": "next step", "prompt": "Do the step.", "subagent_type": agent})


CLAUDE = Tools(lambda command: Call("Bash", {"command": command, "description": "run"}), _claude_spawn)
CODEX_V1 = Tools(
    lambda command: Call("exec_command", {"cmd": command}),
    lambda agent, _: Call("spawn_agent", {"agent_type": agent, "message": "Do the step."}, "multi_agent_v1"),
    lambda told: Call(
        "wait_agent",
        {"targets": [told.last(r'"agent_id":"([^"]+)"')], "timeout_ms": 20000},
        "multi_agent_v1",
    ),
)
CODEX_V2 = Tools(
    lambda command: Call(
        "exec",
        namespace="functions",
        raw=f"const r = await tools.exec_command({{cmd: {json.dumps(command)}}}); text(r);",
    ),
    lambda agent, number: Call(
        "spawn_agent", {"task_name": f"step_{number}", "agent_type": agent, "message": "Do the step."}, "collaboration"
    ),
    lambda _: Call("wait_agent", {"timeout_ms": 20000}, "collaboration"),
)


@dataclass
class Brain:
    """A model that drives a task, and does its steps, as hooks and brief tell it.

    Attributes:
        extra: what a child does first at a stage.
        beside: what the main agent calls beside its first spawn.
    """

    tools: Tools
    extra: dict[str, list[Block]] = field(default_factory=dict)
    beside: list[Block] = field(default_factory=list)
    watch: Callable[[str], None] = lambda _: None

    def __call__(self, heard: Conversation) -> list[Block]:
        for role in ("executor", "reviewer"):
            if f"You are the {role}." in heard.system:
                return self._child(heard)
        return self._main(heard) if any("MARK-MAIN" in text for text in heard.told) else [Say("ok")]

    def _main(self, heard: Conversation) -> list[Block]:
        told = "\n".join(heard.new)
        if "is completed" in told:
            return [Say("all done")]
        if self.tools.wait and re.search(r'Wait for it|"task_name"|"agent_id"', told):
            return [self.tools.wait(heard)]
        agent = heard.last(r"Spawn the agent type (\S+)", new=True)
        if not agent:
            return [Say("I have nothing to do now")]
        return [*(self.beside if heard.replies == 0 else ()), self.tools.spawn(agent, heard.replies)]

    def _child(self, heard: Conversation) -> list[Block]:
        stage = heard.last(r"step: (\S+) round")
        if not stage:
            return [Say("no brief came")]
        self.watch(stage)
        blocks = [*self.extra.get(stage, ()), *(self.tools.shell(command) for command in _work(heard, stage))]
        return [blocks[heard.replies]] if heard.replies < len(blocks) else [Say("done")]


def _work(heard: Conversation, stage: str) -> list[str]:
    """What a good child does at its step, as commands."""
    if stage == "commit":
        file = heard.last(r"message file: (\S+)")
        return [f"echo 'fix: add returns the sum' > {file}" if file else f"agent-infra commit {TASK} -m 'fix: sum'"]
    artifact = Path(heard.last(r"artifact: (/\S+)"))
    text = "# Work\n\nDone.\n"
    if stage.startswith("review-"):
        text = artifact_text(Step(Stage(stage), 1, artifact.name))
    root = heard.last(r"Worktree: (/\S+)")
    code = [f"cat > {root}/src/app.py <<'EOF'\n{FIXED}EOF\n"] if stage == "code" else []
    return [*code, f"cat > {artifact} <<'EOF'\n{text}EOF\n"]


def installed(tmp_path: Path, client: str) -> World:
    """A repository with our hooks for a client, committed, and a task."""
    world = fresh(tmp_path / "repo")
    world.env = environment(tmp_path)
    world.cli("init", "--yes", "--client", client)
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "install")
    world.make_task()
    return world


def finished(world: World, steps: int) -> None:
    """The run is completed by so many children of their own, and its one commit verifies."""
    view = world.view()
    receipts = view["receipts"]
    assert (view["status"], len(receipts)) == ("completed", steps), view
    assert len({receipt["childId"] for receipt in receipts}) == steps
    assert all(receipt["origin"] == "hook" and receipt["usage"]["inputTokens"] for receipt in receipts)
    assert world.committed() == ["M src/app.py"]
    assert world.trailers()["Agent-Infra-Task"] == TASK
    assert world.cli("verify", "HEAD~1..HEAD").code == 0


def linked_to(primary: World) -> World:
    """A linked worktree on a branch of its own."""
    linked = primary.root.parent / "linked"
    primary.git("worktree", "add", "-q", str(linked), "-b", "other")
    return World(linked, env=primary.env, primary=primary.root)


def test_claude_code_in_a_linked_worktree(tmp_path: Path) -> None:
    """The run, its settings and its product are the worktree's; the task lies with the primary one."""
    world = linked_to(installed(tmp_path, "claude-code"))
    world.begin()
    with model_server.serving(Brain(CLAUDE)) as server:
        argv, env = real_clients.claude_code(world, server.port, PROMPT)
        with real_clients.started(world, argv, env) as session:
            session.end()
    finished(world, 4)


def test_claude_code_does_a_whole_task(tmp_path: Path) -> None:
    """All seven steps; another agent beside it is left alone, and git refuses a commit in the middle of the task."""
    world = installed(tmp_path, "claude-code")
    world.begin(flow=Flow.FULL)
    other = Call("Agent", {"description": "x", "prompt": "Look around.", "subagent_type": "general-purpose"})
    brain = Brain(CLAUDE, extra={"code": [CLAUDE.shell(f"echo '#' >> README.md; {EARLY}; git checkout -q README.md")]})
    brain.beside = [other]
    with model_server.serving(brain) as server:
        argv, env = real_clients.claude_code(world, server.port, PROMPT)
        with real_clients.started(world, argv, env) as session:
            said = session.end()
    finished(world, 7)
    told = "\n".join(text for heard in server.heard for text in heard.told)
    assert "is not authorized" in told or "COMMIT_UNAUTHORIZED" in told, told[-3000:]
    assert "MADE-IT" not in told.replace(EARLY, "")
    assert "Look around." in said
    assert all(receipt["evidence"]["model"] for receipt in world.view()["receipts"])


@pytest.mark.parametrize(
    ("tools", "model", "where", "flow"),
    [
        pytest.param(CODEX_V2, V2, "src", Flow.FULL, id="v2 in a subfolder"),
        pytest.param(CODEX_V1, V1, "", Flow.STREAMLINED, id="v1"),
        pytest.param(CODEX_V2, V2, "linked", Flow.STREAMLINED, id="v2 in a linked worktree"),
    ],
)
def test_codex_does_a_whole_task_in_its_sandbox(
    tmp_path: Path, tools: Tools, model: str, where: str, flow: Flow
) -> None:
    """With both sets of its tools: children hand in through the outbox, and the hook commits."""
    primary = world = installed(tmp_path, "codex")
    if where == "linked":
        world = linked_to(primary)
    world.begin(flow=flow)
    with model_server.serving(Brain(tools)) as server:
        argv, env = real_clients.codex(world, server.port, PROMPT, model=model, roots=(primary.root,))
        cwd = world.root / "src" if where == "src" else world.root
        with real_clients.started(world, argv, env, cwd=cwd) as session:
            session.end()
    finished(world, 7 if flow is Flow.FULL else 4)
    assert world.git("status", "--porcelain").out == ""
    assert {receipt["actualModel"] for receipt in world.view()["receipts"]} == {model}


def test_a_reviewer_that_writes_code(tmp_path: Path) -> None:
    """By a tool it is refused; through the shell it is caught at the seal, and what it wrote can be put back."""
    world = installed(tmp_path, "claude-code")
    world.begin()
    while world.next_stage() != "review-code":
        world.step(work=world.fix if world.next_stage() == "code" else None)
    app = world.root / "src/app.py"
    by_tool = Call("Write", {"file_path": str(world.root / "by-tool.py"), "content": "x = 1\n"})
    brain = Brain(CLAUDE, extra={"review-code": [by_tool, CLAUDE.shell("echo 'x = 1' >> src/app.py")]})
    with model_server.serving(brain) as server:
        argv, env = real_clients.claude_code(world, server.port, PROMPT)
        with real_clients.started(world, argv, env) as session:
            session.end()
        assert not (world.root / "by-tool.py").exists()
        assert any("a reviewer changes nothing but" in text for heard in server.heard for text in heard.told)
        view = world.view()
        assert view["pause"]["code"] == "DELEGATION_REVIEWER_WRITE_FORBIDDEN"
        assert any("is paused" in text for heard in server.heard for text in heard.told), "the main agent is told"
        world.verb("abandon", "--reason", "wrote", "--restore")
        assert app.read_text() == FIXED
        world.verb("begin")
        brain.extra = {}
        with real_clients.started(world, argv, env) as session:
            session.end()
    assert world.view()["status"] == "completed"
    assert world.cli("verify", "HEAD~1..HEAD").code == 0


def test_a_killed_client_is_no_end(tmp_path: Path) -> None:
    """Killed in the middle of a child's work: the next session is told, and does that step again."""
    world = installed(tmp_path, "claude-code")
    world.begin()
    brain = Brain(CLAUDE)
    killed: list[real_clients.Session] = []

    def kill(_stage: str) -> None:
        brain.watch = lambda _: None
        killed[0].kill()

    with model_server.serving(brain) as server:
        argv, env = real_clients.claude_code(world, server.port, PROMPT)
        with real_clients.started(world, argv, env) as session:
            killed.append(session)
            brain.watch = kill
            session.process.wait(timeout=real_clients.RUN_TIMEOUT)
        assert world.view()["pendingDelegation"]["status"] == "activated"
        with real_clients.started(world, argv, env) as session:
            session.end()
        assert any("its client is gone" in text for heard in server.heard for text in heard.told)
    assert [receipt["status"] for receipt in world.view()["receipts"]] == ["aborted", *["consumed"] * 4]
    assert world.view()["status"] == "completed"


def test_claude_code_in_a_subfolder_approves_nothing(tmp_path: Path) -> None:
    """There it loads no hooks of the project: its children get no step, and the run stays where it is."""
    world = installed(tmp_path, "claude-code")
    world.begin()
    spawn = _claude_spawn("agent-infra-lifecycle-executor", 0)
    brain = Brain(CLAUDE)

    def unhooked(heard: Conversation) -> list[Block]:
        is_main = "You are the" not in heard.system.replace("You are the user", "") and heard.replies == 0
        return [spawn] if is_main and any("MARK-MAIN" in text for text in heard.told) else brain(heard)

    with model_server.serving(unhooked) as server:
        argv, env = real_clients.claude_code(world, server.port, PROMPT)
        with real_clients.started(world, argv, env, cwd=world.root / "src") as session:
            session.end()
    assert world.view()["receipts"] == []
    assert world.view()["status"] == "running"
