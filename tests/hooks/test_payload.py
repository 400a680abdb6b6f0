"""What comes on standard input, and how long it is waited for."""

import json
import os
import subprocess
import time
from typing import Any

import pytest

from tests.support.events import PAYLOADS, Client, Said, placed
from tests.support.lifecycle import PROGRAM, World

ASK = PAYLOADS["claude-code/PreToolUse.main.Agent"]
STOP = PAYLOADS["claude-code/SubagentStop"]


def hook(world: World, *chunks: bytes, is_open: bool = False, pause: float = 0.0, client: str = "claude-code") -> Said:
    """The program with these chunks on its standard input, which may stay open."""
    argv = [str(PROGRAM), "orchestrate", "hook", "--client", client]
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=world.env, cwd="/"
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    try:
        for chunk in chunks:
            os.write(process.stdin.fileno(), chunk)
            time.sleep(pause)
    except BrokenPipeError:
        pass
    if not is_open:
        process.stdin.close()
    out, err = process.stdout.read(), process.stderr.read()
    code = process.wait()
    with process.stdout, process.stderr:
        if is_open:
            process.stdin.close()
    assert b"Traceback" not in err
    return Said(code, out.decode(), err.decode())


def sent(payload: dict[str, Any], world: World) -> bytes:
    return json.dumps(placed(payload, world.root)).encode()


def test_an_input_that_stays_open_is_not_waited_for(world: World) -> None:
    """The answer comes when the value is whole, whatever follows and whoever holds the other end."""
    began = time.monotonic()
    assert hook(world, sent(ASK, world), is_open=True).kind == "allow"
    assert time.monotonic() - began < 5


def test_an_input_that_dribbles_is_read_to_its_end(world: World) -> None:
    """Byte by byte, then a line end and another value."""
    data = sent(PAYLOADS["claude-code/UserPromptSubmit"], world)
    chunks = [data[i : i + 1] for i in range(len(data))]
    assert hook(world, *chunks, b"\n{}", pause=0.0005).kind == "tell"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b'{"hook_event_name": "SubagentStop", "cwd"', "not JSON", id="cut"),
        pytest.param(b"[1, 2]", "a list, expected an object", id="no object"),
        pytest.param(b'"text"', "a str, expected an object", id="text"),
        pytest.param(b'{"hook_event_name": "Stop\xff"}', "not UTF-8", id="not UTF-8"),
        pytest.param(b'{"session_id": "x"}', "names no event", id="no event"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        pytest.param(b'{"a": "' + b"x" * (1 << 20) + b'"}', "longer than", id="long"),
    ],
)
def test_what_is_no_payload_changes_nothing(world: World, data: bytes, says: str) -> None:
    """Exit 1 with a sentence; where it seems to be a tool call, exit 2, which denies it."""
    before = world.journal()
    said = hook(world, data)
    assert said.kind == "fault", said
    assert says in said.text
    denied = hook(world, b'{"hook_event_name" : "PreToolUse",' + data[1:] if data[:1] == b"{" else data)
    assert denied.kind == ("refuse" if data[:1] == b"{" else "fault")
    assert world.journal() == before


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param("", id="empty"),
        pytest.param("x" * 513, id="long"),
        pytest.param(7, id="number"),
        pytest.param(["a"], id="list"),
        pytest.param("a\nb", id="line end"),
        pytest.param("a\u0000", id="NUL"),
        pytest.param("\ud800", id="surrogate"),
    ],
)
@pytest.mark.parametrize("key", ["session_id", "agent_id"])
def test_ids_that_are_none(client: Client, world: World, key: str, value: Any) -> None:
    """They change nothing: exit 1 at a stop, exit 2 before a tool."""
    client.working()
    before = world.journal()
    said = client.send("SubagentStop", **{key: value})
    assert said.kind == "fault"
    assert key in said.text
    if key == "session_id":
        assert client.send("PreToolUse.main.Agent", **{key: value}).kind == "refuse"
    assert world.journal() == before


@pytest.mark.parametrize("cwd", [None, 3, "a\0b"])
def test_a_folder_that_is_none(client: Client, cwd: Any) -> None:
    """No repository can be told from it."""
    assert client.send("SubagentStop", cwd=cwd).kind == "fault"
    assert client.send("PreToolUse.main.Agent", cwd=cwd).kind == "refuse"


def test_a_client_without_hooks_of_ours(world: World) -> None:
    """Its events are refused by a sentence, not by a usage message."""
    said = hook(world, sent(STOP, world), client="gemini-cli")
    assert said.kind == "fault"
    assert "claude-code, codex" in said.text
