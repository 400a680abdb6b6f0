"""Raw events in a file, and the same events played again."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.events import PAYLOADS, Client, placed
from tests.support.lifecycle import PROGRAM, World

SECRET = "ghp_" + "a" * 36


def send(world: World, recording: Path, name: str, **more: Any) -> int:
    """One event to the program, recorded."""
    payload = placed(PAYLOADS[f"claude-code/{name}"] | more, world.root)
    return subprocess.run(
        [str(PROGRAM), "hook", "--client", "claude-code"],
        input=json.dumps(payload).encode(),
        env=world.env | {"AGENT_INFRA_RECORD": str(recording)},
        capture_output=True,
        check=False,
    ).returncode


def test_every_event_is_recorded_without_its_secrets(world: World, tmp_path: Path) -> None:
    """Those that are not ours too, and what is no JSON; with the answer that was given."""
    recording = tmp_path / "events.jsonl"
    send(world, recording, "UserPromptSubmit", prompt=f"use {SECRET} and AKIAABCDEFGHIJKLMNOP")
    send(world, recording, "MessageDisplay")
    argv = [str(PROGRAM), "hook", "--client", "codex"]
    subprocess.run(argv, input=b"no json \xff", env=world.env | {"AGENT_INFRA_RECORD": str(recording)}, check=False)
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    assert [line["exit"] for line in lines] == [0, 0, 1]
    assert [line["client"] for line in lines] == ["claude-code", "claude-code", "codex"]
    assert lines[0]["payload"]["hook_event_name"] == "UserPromptSubmit"
    assert "Spawn the agent type" in lines[0]["stdout"]
    assert lines[2]["raw"].startswith("no json")
    assert SECRET not in recording.read_text()
    assert "AKIA" not in recording.read_text()


def test_a_file_that_cannot_be_written_does_not_matter(world: World, tmp_path: Path) -> None:
    """The event counts all the same."""
    (tmp_path / "folder").mkdir()
    assert send(world, tmp_path / "folder", "PreToolUse.main.Agent") == 0
    assert world.view()["pendingDelegation"]


def test_a_recording_is_played_against_a_copy(client: Client, world: World, tmp_path: Path) -> None:
    """Each event with its answer now; the repository stays as it was."""
    recording = tmp_path / "events.jsonl"
    send(world, recording, "PreToolUse.main.Agent")
    send(world, recording, "SubagentStart")
    send(world, recording, "SubagentStop")
    send(world, recording, "Stop", cwd=str(tmp_path))
    world.verb("end", "--reason", "again")
    world.verb("begin", "--flow", "streamlined")
    before = world.journal()
    played = world.cli("hooks", "replay", str(recording)).out
    assert "1 PreToolUse Agent agent-infra-lifecycle-executor: exit 0" in played
    assert "2 SubagentStart agent-infra-lifecycle-executor: exit 0" in played
    assert "is not finished" in played
    assert "4 Stop: not of this repository" in played
    assert world.journal() == before
    told = json.loads(world.cli("hooks", "replay", str(recording), "--json").out.splitlines()[1])
    assert f"artifact: {world.folder()}/analysis.md" in told["now"]["stdout"]
    client.working(child="somebody")
    differs = world.cli("hooks", "replay", str(recording), check=False)
    assert differs.code == 1
    assert "(recorded: exit 0)" in differs.out


def test_what_is_no_recording(world: World, tmp_path: Path) -> None:
    """A sentence that names the line."""
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"exit": 0}\n')
    for path in (wrong, tmp_path / "missing"):
        answer = world.cli("hooks", "replay", str(path), check=False)
        assert answer.code == 1
        assert "ORCHESTRATION_PAYLOAD_INVALID" in answer.err
