"""`agent-infra run` with the real clients, one process a step, against a model of our own on this machine."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from agent_infra.clients.programs import told_by
from agent_infra.core.lifecycle import Flow
from tests.support.lifecycle import PROGRAM, TASK, World, world_at
from tests.support.model_server import Block, Call, Conversation, Say, serving
from tests.support.real_clients import claude_code, codex

REVIEW = (
    "# Review\\n\\n- **Review Input**:\\n  - `%s`\\n\\n## Review Summary\\n\\n- **Overall Verdict**: Approved\\n"
    "- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 0\\n"
)


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    """Hooks installed, a short run begun."""
    world = world_at("installed", tmp_path_factory, monkeypatch)
    world.make_task()
    world.begin(flow=Flow.STREAMLINED)
    return world


def command(heard: Conversation) -> str:
    """What a good child does by its brief."""
    path = heard.last(r"Write this one file: (\S+)")
    if not path:
        message = heard.last(r"message file: (\S+)") or heard.last(r"(\S+/commit\.md)")
        if message:
            return f"printf 'fix: sum\\n' > {shlex.quote(message)}"
        return f"{PROGRAM} commit {TASK} -m 'fix: sum'"
    if "/review-" in path:
        judged = heard.last(r"- (\S+\.md) sha256:")
        return f"printf '{REVIEW % Path(judged).name}' > {shlex.quote(path)}"
    work = "printf 'def add(a, b):\\n    return a + b\\n' > src/app.py; " if path.endswith("code.md") else ""
    return f"{work}printf '# Work\\n\\nDone.\\n' > {shlex.quote(path)}"


def brain(heard: Conversation) -> list[Block]:
    """One command, then the end."""
    if heard.replies or not heard.last("(executor|reviewer) of one step"):
        return [Say("done")]
    return [Call("Bash", {"command": command(heard), "description": "do the step"})]


def brain_of_codex(heard: Conversation) -> list[Block]:
    blocks = brain(heard)
    return [Call("exec_command", {"cmd": one.input["command"]}) if isinstance(one, Call) else one for one in blocks]


def on_path(world: World, name: str, program: str) -> dict[str, str]:
    folder = world.root.parent / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(program)
    return {"PATH": f"{folder}:{world.env['PATH']}"}


def check_done(world: World, answer: Any) -> None:
    assert answer.code == 0, answer
    assert answer.out.startswith(f"{TASK}: completed"), answer
    assert world.committed() == ["M src/app.py"]
    assert world.cli("verify", "HEAD~1..HEAD").code == 0
    receipts = world.view()["receipts"]
    assert all(receipt["origin"] == "driver" for receipt in receipts)
    assert all(receipt["usage"]["outputTokens"] > 0 for receipt in receipts)


def test_claude_code(world: World) -> None:
    """A whole run, commit included; the session's id is the child's, and usage is on record."""
    with serving(brain) as server:
        argv, env = claude_code(world, server.port, "unused")
        env |= on_path(world, "claude", argv[0])
        answer = world.cli("run", TASK, "--client", "claude-code", check=False, env=env)
    check_done(world, answer)
    receipt = world.view()["receipts"][0]
    assert receipt["childId"].endswith(receipt["evidence"]["session"])


def test_codex(world: World) -> None:
    """The same in its workspace-write sandbox, handing in through the outbox."""
    with serving(brain_of_codex) as server:
        argv, env = codex(world, server.port, "unused", model="gpt-5.1-codex")
        env |= on_path(world, "codex", argv[0])
        answer = world.cli("run", TASK, "--client", "codex", check=False, env=env)
    check_done(world, answer)


def test_one_codes_and_another_reviews(world: World) -> None:
    """Executor and reviewer may be different clients."""
    with serving(brain) as first, serving(brain_of_codex) as second:
        argv, env = claude_code(world, first.port, "unused")
        env |= on_path(world, "claude", argv[0])
        argv, more = codex(world, second.port, "unused", model="gpt-5.1-codex")
        env |= more | on_path(world, "codex", argv[0])
        answer = world.cli("run", TASK, "--client", "claude-code", "--reviewer-client", "codex", check=False, env=env)
    check_done(world, answer)
    clients = {receipt["stage"]: receipt["client"] for receipt in world.view()["receipts"]}
    assert (clients["code"], clients["review-code"]) == ("claude-code", "codex")


def test_a_program_that_is_not_there(world: World) -> None:
    """Said before anything is prepared."""
    nowhere = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin"}
    answer = world.cli("run", TASK, "--client", "gemini-cli", check=False, env=nowhere)
    assert (answer.code, "CLIENT_NOT_FOUND" in answer.err) == (1, True)
    assert world.view()["pendingDelegation"] is None


@pytest.mark.parametrize(
    ("client", "log", "usage", "evidence"),
    [
        pytest.param(
            "claude-code",
            b'warning: x\n{"type":"result","session_id":"s-1","total_cost_usd":0.25,"usage":{"input_tokens":3,'
            b'"output_tokens":4,"cache_read_input_tokens":5},"modelUsage":{"m-1":{}}}\n',
            {"inputTokens": 3, "outputTokens": 4, "cacheReadTokens": 5, "costUsd": 0.25},
            {"session": "s-1", "model": "m-1"},
            id="claude-code",
        ),
        pytest.param(
            "codex",
            b'{"type":"thread.started","thread_id":"t-1"}\n'
            b'{"type":"turn.completed","usage":{"input_tokens":3,"cached_input_tokens":1,"output_tokens":2}}\n'
            b'{"type":"turn.completed","usage":{"input_tokens":4,"output_tokens":2}}\n',
            {"inputTokens": 7, "outputTokens": 4, "cacheReadTokens": 1},
            {"session": "t-1"},
            id="codex",
        ),
        pytest.param(
            "gemini-cli",
            b'{\n  "response": "x",\n  "stats": {"models": {"g-1": {"tokens": {"prompt": 8, "candidates": 2}}}}\n}\n',
            {"inputTokens": 8, "outputTokens": 2},
            {"model": "g-1"},
            id="gemini-cli",
        ),
        pytest.param(
            "opencode",
            b'{"type":"step_finish","sessionID":"ses_1","part":{"cost":0.5,"tokens":{"input":3,"output":2}}}\n',
            {"inputTokens": 3, "outputTokens": 2, "costUsd": 0.5},
            {"session": "ses_1"},
            id="opencode",
        ),
        pytest.param("codex", b"not json at all {", {}, {}, id="nothing that can be read"),
        pytest.param("claude-code", b'{"type":"result","usage":[1],"session_id":7}', {}, {}, id="other shapes"),
    ],
)
def test_what_the_programs_say_of_themselves(
    client: str, log: bytes, usage: dict[str, Any], evidence: dict[str, str]
) -> None:
    """Tokens, cost, session and model, where they say them; nothing else is kept."""
    told = told_by(client, log)
    assert (told.usage, told.evidence) == (usage, evidence)
