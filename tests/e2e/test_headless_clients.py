"""`agent-infra run` with the real clients, one process a step, against a model of our own on this machine."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.headless import GEMINI_MODEL, Brain, at_work
from tests.support.lifecycle import FIXED, PROGRAM, TASK, Answer, World, environment, fresh

SHORT = ("orchestrate", "begin", TASK, "--flow", "streamlined")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A repository with our hooks, for git and for Claude Code, committed, and a task."""
    world = fresh(tmp_path / "repo")
    world.env = environment(tmp_path)
    world.cli("init", "--yes", "--client", "claude-code")
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "install")
    world.make_task()
    return world


def drive(world: World, *options: str, code: int = 0) -> Answer:
    answer = world.cli("run", TASK, *options, check=False)
    assert answer.code == code, (answer, *(log.read_text() for log in logs(world)[-1:]))
    return answer


def logs(world: World) -> list[Path]:
    found = (world.root / ".git/agent-infra/logs" / TASK / "steps").glob("*.log")
    return sorted(found, key=lambda path: path.stat().st_mtime)


def finished(world: World, steps: int) -> list[dict[str, Any]]:
    """The run is completed by so many children of their own, and its one commit verifies."""
    receipts: list[dict[str, Any]] = world.view()["receipts"]
    done = [receipt for receipt in receipts if receipt["status"] == "consumed"]
    assert (world.view()["status"], len(done)) == ("completed", steps), receipts
    assert world.committed() == ["M src/app.py"]
    assert world.trailers()["Agent-Infra-Task"] == TASK
    assert world.cli("verify", "HEAD~1..HEAD").code == 0
    assert world.git("status", "--porcelain").out == ""
    for receipt in done:
        assert receipt["origin"] == "driver"
        assert receipt["childId"] == receipt["evidence"]["session"], "the session is the child"
        assert receipt["evidence"]["exitCode"] == "0"
        assert receipt["usage"]["outputTokens"] > 0
    assert len({receipt["childId"] for receipt in receipts}) == len(receipts)
    return receipts


def all_told(server: Any) -> str:
    return "\n".join(text for heard in server.heard for text in heard.told)


def test_claude_code_does_a_whole_task(world: World) -> None:
    """All seven steps, though the project has our session hooks; git and the reviewer's tools refuse what is wrong."""
    brain = Brain("claude-code")
    early = "echo '#' >> README.md; git commit -qam early && echo MADE-IT; git checkout -q README.md"
    brain.extra = {
        "code": [brain.shell(early)],
        "review-code": [brain.write(str(world.root / "by-tool.py"), "x = 1\n")],
    }
    with at_work(world, brain) as [server]:
        answer = drive(world, "--client", "claude-code", "--model", "claude-opus-5-5")
    receipts = finished(world, 7)
    assert "COMMIT_UNAUTHORIZED" in all_told(server)
    assert "MADE-IT\n" not in all_told(server)
    assert not (world.root / "by-tool.py").exists()
    assert {receipt["requestedModel"] for receipt in receipts} == {"claude-opus-5-5"}
    assert {receipt["evidence"]["model"] for receipt in receipts} == {"claude-opus-5-5"}
    assert all(receipt["usage"]["costUsd"] > 0 for receipt in receipts)
    assert "agent-infra: the next step" not in all_told(server), "hooks for sessions are silent here"
    lines = answer.err.splitlines()
    assert lines.index("plan round 1: executor at work (claude-code)") < lines.index("plan round 1: done")
    assert "\r" not in answer.err, "plain lines where nobody looks"
    assert len(logs(world)) == 7
    assert logs(world)[0].stat().st_mode & 0o077 == 0
    used = world.cli("usage", TASK, "--json").json
    assert used["clients"]["claude-code"]["steps"] == 7
    assert used["total"]["costUsd"] > 0


@pytest.mark.parametrize(
    ("client", "model"),
    [
        pytest.param("codex", "", id="codex"),
        pytest.param("opencode", "scripted/scripted-model", id="opencode"),
        pytest.param("gemini-cli", GEMINI_MODEL, id="gemini-cli"),
    ],
)
def test_each_other_client_does_a_task(world: World, client: str, model: str) -> None:
    """The short flow, commit included; Codex in its sandbox; a reviewer that writes code by a tool is refused."""
    world.cli(*SHORT)
    brain = Brain(client)
    if client != "codex":
        brain.extra = {"review-code": [brain.write(str(world.root / "by-tool.py"), "x = 1\n")]}
    with at_work(world, brain):
        drive(world, "--client", client, *(["--model", model] if model else []))
    receipts = finished(world, 4)
    assert not (world.root / "by-tool.py").exists()
    assert (receipts[0]["evidence"].get("model") or receipts[0]["requestedModel"]) == (model or "gpt-5.1-codex")


def test_one_codes_and_another_reviews(world: World) -> None:
    """Codex works, Claude Code reviews, each asked for a model of its own."""
    world.cli(*SHORT)
    with at_work(world, Brain("codex"), Brain("claude-code")):
        drive(world, "--client", "codex", "--reviewer-client", "claude-code", "--reviewer-model", "claude-opus-5-5")
    receipts = finished(world, 4)
    assert [(receipt["client"], receipt["requestedModel"]) for receipt in receipts] == [
        ("codex", None),
        ("codex", None),
        ("claude-code", "claude-opus-5-5"),
        ("codex", None),
    ]


def test_whatever_is_killed_the_next_run_goes_on(world: World) -> None:
    """The client in its first step, the driver in its second, Ctrl-C in its third: nobody has to mend anything."""
    world.cli(*SHORT)
    argv = [str(PROGRAM), "run", TASK, "--client", "claude-code"]
    brain, drivers = Brain("claude-code"), list[subprocess.Popen[bytes]]()
    ends: dict[str, Callable[[], None]] = {
        "analysis": lambda: os.kill(child_of(world), signal.SIGKILL),
        "code": lambda: os.kill(drivers[-1].pid, signal.SIGKILL),
        "review-code": lambda: os.killpg(drivers[-1].pid, signal.SIGINT),
    }

    def end(stage: str) -> None:
        if stage in ends:
            ends.pop(stage)()

    brain.watch = end
    with at_work(world, brain):
        codes = []
        for _ in range(3):
            said = subprocess.DEVNULL
            drivers.append(
                subprocess.Popen(argv, cwd=world.root, env=world.env, stdout=said, stderr=said, process_group=0)
            )
            codes.append(drivers[-1].wait(timeout=120))
    assert codes == [-signal.SIGKILL, 130, 0]
    receipts = finished(world, 4)
    assert [(receipt["stage"], receipt["status"]) for receipt in receipts] == [
        ("analysis", "aborted"),
        ("analysis", "consumed"),
        ("code", "aborted"),
        ("code", "consumed"),
        ("review-code", "aborted"),
        ("review-code", "consumed"),
        ("commit", "consumed"),
    ]
    assert "ended with -9" in receipts[0]["abortReason"]
    assert (world.root / "src/app.py").read_text() == FIXED


def child_of(world: World) -> int:
    """The process of the child that is at work."""
    known = json.loads((world.root / ".git/agent-infra/drivers" / f"{TASK}.child").read_text())
    return int(known["pid"])
