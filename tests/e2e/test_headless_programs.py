"""Clients that can't work, or stop in the middle: small programs in their places show what the driver makes of it."""

from pathlib import Path

import pytest

from tests.support.lifecycle import TASK, Answer, World, terminal, world_at

GOOD = {"claude": "2.1.332 (Claude Code)", "codex": "codex-cli 0.171.0", "gemini": "0.61.0", "opencode": "1.18.33"}
INIT = '{"type":"system","subtype":"init","session_id":"%s","model":"m-1"}'


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    """Hooks installed, a task made; no client of the machine is on PATH, and nobody is logged in."""
    world = world_at("installed", tmp_path_factory, monkeypatch)
    world.make_task()
    home = world.root.parent / "nobody"
    home.mkdir()
    kept = {
        name: value
        for name, value in world.env.items()
        if not name.startswith(("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE"))
    }
    program = world.run("sh", "-c", "command -v agent-infra").out.strip()
    world.env = kept | {"HOME": str(home), "PATH": f"{home}:{Path(program).parent}:/usr/bin:/bin"}
    return world


def put(world: World, name: str, script: str, *, version: str = "", login: int = 0) -> None:
    """A program in a client's place, which answers what it is asked before it works."""
    path = Path(world.env["HOME"]) / name
    path.write_text(
        "#!/bin/sh\n"
        f'case "$1 $2" in "--version "*) echo "{version or GOOD[name]}"; exit;;\n'
        f'"auth status"|"login status") exit {login};; "models "*) echo scripted/one; exit;; esac\n'
        f"{script}\n"
    )
    path.chmod(0o755)


def drive(world: World, *options: str) -> Answer:
    return world.cli("run", TASK, *options, check=False)


def is_untouched(world: World) -> bool:
    return not (world.folder() / "orchestration.json").exists()


@pytest.mark.parametrize(
    ("client", "program", "code", "says"),
    [
        pytest.param("claude-code", None, "CLIENT_NOT_FOUND", "claude is not on PATH", id="missing"),
        pytest.param(
            "claude-code", ("claude", "2.0.99 (Claude Code)", 0), "CLIENT_VERSION_UNSUPPORTED", "2.1.0", id="old"
        ),
        pytest.param(
            "codex", ("codex", "codex-cli 0.99.1", 0), "CLIENT_VERSION_UNSUPPORTED", "0.171.0", id="old codex"
        ),
        pytest.param("claude-code", ("claude", "", 1), "CLIENT_NOT_LOGGED_IN", "nobody is logged in", id="logged out"),
        pytest.param("codex", ("codex", "", 1), "CLIENT_NOT_LOGGED_IN", "codex login", id="codex logged out"),
        pytest.param("gemini-cli", ("gemini", "", 0), "CLIENT_NOT_LOGGED_IN", "GEMINI_API_KEY", id="gemini logged out"),
    ],
)
def test_a_client_that_can_t_work(
    world: World, client: str, program: tuple[str, str, int] | None, code: str, says: str
) -> None:
    """Said with a code and what helps, before anything is begun; as reviewer, too."""
    if program:
        put(world, program[0], "exit 9", version=program[1], login=program[2])
    answer = drive(world, "--client", client)
    assert (answer.code, code in answer.err, says in answer.err) == (1, True, True), answer.err
    script = world.root.parent / "script.json"
    script.write_text('{"version": 1, "steps": {"analysis/1": {}}}')
    answer = drive(world, "--client", "scripted", "--script", str(script), "--reviewer-client", client)
    assert (answer.code, code in answer.err) == (1, True), answer.err
    assert is_untouched(world)


def test_a_model_that_opencode_does_not_have(world: World) -> None:
    """It says which it has."""
    put(world, "opencode", "exit 9")
    answer = drive(world, "--client", "opencode", "--model", "other/two")
    assert (answer.code, "CLIENT_NOT_LOGGED_IN" in answer.err) == (1, True)
    assert "other/two is none of the models" in answer.err
    assert is_untouched(world)


def test_a_newer_version_and_another_provider_are_let_try(world: World) -> None:
    """Who configured another provider for Codex need not be logged in; a version from the future may work."""
    settings = Path(world.env["HOME"]) / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('model_provider = "mine"\n')
    put(world, "codex", "exit 3", version="codex-cli 9.0.0", login=1)
    answer = drive(world, "--client", "codex")
    assert "DELEGATION_NO_RESULT" in answer.out, answer
    receipts = world.view()["receipts"]
    assert [receipt["evidence"]["exitCode"] for receipt in receipts] == ["3"] * 3
    assert all(receipt["childId"].startswith("codex:") for receipt in receipts), "it said no name of its own"


def test_a_login_that_ends_on_the_way(world: World) -> None:
    """No further child is tried; what the first one used is on record, and its log is there without secrets."""
    result = (
        '{"type":"result","is_error":true,"result":"Please run /login","usage":{"input_tokens":7,"output_tokens":1}}'
    )
    put(world, "claude", f"echo '{INIT % 's-9'}'; echo token=abcdefghijkl >&2; echo '{result}'; exit 1")
    answer = drive(world, "--client", "claude-code")
    assert (answer.code, "CLIENT_NOT_LOGGED_IN" in answer.err) == (1, True), answer
    assert "Please run /login" in answer.err
    [receipt] = world.view()["receipts"]
    assert receipt["status"] == "aborted"
    assert receipt["usage"] == {"inputTokens": 7, "outputTokens": 1}
    assert receipt["evidence"] == {"session": "s-9", "model": "m-1", "exitCode": "1"}
    [log] = (world.root / ".git/agent-infra/logs" / TASK / "steps").iterdir()
    assert log.name == f"analysis-r1-{receipt['id'][:8]}.log"
    assert "Please run /login" in log.read_text()
    assert "token=[redacted]" in log.read_text()
    assert world.cli("usage", TASK, "--json").json["total"]["inputTokens"] == 7


def test_a_child_that_does_not_end(world: World) -> None:
    """It is ended with all that it started, and a fresh one is tried, three times."""
    world.write(".agents/config.toml", "[run]\nchild_timeout = 0.5\n")
    put(world, "claude", f"echo '{INIT % 's-9'}'; sleep 100")
    answer = drive(world, "--client", "claude-code")
    assert "DELEGATION_NO_RESULT" in answer.out
    receipts = world.view()["receipts"]
    assert len(receipts) == 3
    assert all("no end after 0.5 seconds" in receipt["abortReason"] for receipt in receipts)
    assert len({receipt["childId"] for receipt in receipts}) == 3


def test_progress_on_a_terminal(world: World) -> None:
    """The line of the child at work moves there, with what it is at; it is gone when something else is said."""
    world.write(".agents/config.toml", "[run]\nchild_timeout = 4\n")
    call = (
        '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"npm test"}}]}}'
    )
    put(world, "claude", f"echo '{call}'; sleep 2.5; exit 3")
    shown = terminal(world, "run", TASK, "--client", "claude-code", env={"TERM": "xterm"})
    shown.until(r"analysis round 1: executor at work \(claude-code\)")
    shown.until(r"\r\x1b\[2Kanalysis round 1: 0:01 Bash npm test")
    shown.until(r"\r\x1b\[2Kanalysis round 1: the child ended with 3: no word\n")
    code, rest = shown.end()
    assert (code, "DELEGATION_NO_RESULT" in rest) == (0, True), rest
