"""Events that are lost, doubled, late, foreign or out of order: never wedged, never approved."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.events import CHILD, EXECUTOR, PAYLOADS, Client, pending, placed, seen_of
from tests.support.lifecycle import PROGRAM, TASK, World, fresh

Act = Callable[[Client, World], None]


def write(world: World) -> None:
    """The result of the first step."""
    (world.folder() / "analysis.md").write_text("# Analysis\n\nDone.\n")


def can_go_on(client: Client, world: World) -> None:
    """The run is not wedged: a fresh child does the first step, and nothing counted before."""
    assert [r["status"] for r in world.view()["receipts"]] in ([], ["aborted"]), world.view()["receipts"]
    assert world.view()["status"] == "running"
    client.working(child="fresh-child")
    write(world)
    assert client.stop("executor", "fresh-child").kind == "pass"
    assert world.view()["receipts"][-1]["status"] == "consumed"


def lost_start(client: Client, _world: World) -> None:
    client.spawn("executor")
    client.stop("executor")
    assert f"Spawn the agent type {EXECUTOR}" in client.returned().text


def lost_stop(client: Client, world: World) -> None:
    client.working()
    write(world)
    assert "ended without a result" in client.returned().text


def spawn_that_failed(client: Client, _world: World) -> None:
    client.spawn("executor")
    said = client.send("PostToolUseFailure.main.Agent-api-error", **client.tool_use)
    assert "Spawn the agent type" in said.text


def spawn_denied_by_somebody_else(client: Client, _world: World) -> None:
    client.spawn("executor")
    assert "Spawn the agent type" in client.send("Stop").text


def child_with_an_api_error(client: Client, _world: World) -> None:
    client.working()
    client.send("StopFailure.subagent")


def child_that_never_delivers(client: Client, world: World) -> None:
    client.working()
    for _ in range(3):
        assert client.stop("executor").kind == "go on"
    for _ in range(7):
        assert client.stop("executor", stop_hook_active=True).kind == "pass"
    assert (pending(world) or {})["outcome"] == "unknown"


def stop_before_start(client: Client, _world: World) -> None:
    assert client.stop("executor").kind == "pass"
    client.spawn("executor")
    assert client.stop("executor").kind == "pass"
    client.returned()


def empty_type(client: Client, world: World) -> None:
    client.working()
    write(world)
    assert client.stop("executor", agent_type="").kind == "pass"
    client.send("Stop")


def session_that_ended(client: Client, _world: World) -> None:
    client.working()
    assert "ended without a result" in client.send("SessionEnd").text


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lost_start, id="lost start"),
        pytest.param(lost_stop, id="lost stop"),
        pytest.param(spawn_that_failed, id="failed spawn"),
        pytest.param(spawn_denied_by_somebody_else, id="denied spawn"),
        pytest.param(child_with_an_api_error, id="API error"),
        pytest.param(child_that_never_delivers, id="ten stops"),
        pytest.param(stop_before_start, id="stop before start"),
        pytest.param(empty_type, id="empty agent type"),
        pytest.param(session_that_ended, id="session ended"),
    ],
)
def test_a_run_goes_on_after(client: Client, world: World, fault: Act) -> None:
    """Whatever was lost, nothing counts that was not seen whole, and the next spawn takes the step up."""
    fault(client, world)
    can_go_on(client, world)


def test_a_doubled_spawn_gets_the_first_answer_again(client: Client, world: World) -> None:
    """The very same tool call opens one step; another spawn in the same reply is refused."""
    first = client.spawn("executor")
    client.tool_uses -= 1
    assert client.spawn("executor").out == first.out
    assert seen_of(world).count("prepare") == 1
    second = client.spawn("executor")
    assert second.kind == "refuse"
    assert "Wait for it" in second.text


def test_a_spawn_that_is_refused_for_ever_is_not(client: Client) -> None:
    """Where the first spawn's end was never told, the step is given again after three refusals."""
    client.spawn("executor")
    assert [client.spawn("executor").kind for _ in range(4)] == ["refuse", "refuse", "refuse", "allow"]


def test_codex_tells_every_spawn_that_led_to_a_child(codex: Client, world: World) -> None:
    """Without that word the spawn has failed, and the next one takes its prepared step; with it, it is refused."""
    codex.spawn("executor")
    receipt = pending(world)
    assert codex.spawn("executor").kind == "pass"
    assert pending(world) == receipt
    codex.returned()
    assert codex.spawn("executor").kind == "refuse"


def test_doubled_starts_and_stops_change_nothing(client: Client, world: World) -> None:
    """The same start hands out the same brief; the same stop, a day later too, says nothing."""
    told = client.working()
    assert client.start("executor").text == told
    write(world)
    assert client.stop("executor").kind == "pass"
    before = world.journal()
    assert client.stop("executor").kind == "pass"
    assert "no step for you" in client.start("executor").text
    assert client.stop("executor").kind == "pass"
    assert world.journal() == before


def test_the_same_stop_twice_at_once_is_one(client: Client, world: World) -> None:
    """Clients were seen to run a hook twice, 30 ms apart."""
    client.working()
    write(world)
    payload = json.dumps(placed(PAYLOADS["claude-code/SubagentStop"], world.root)).encode()
    argv = [str(PROGRAM), "hook", "--client", "claude-code"]
    both = [subprocess.Popen(argv, stdin=subprocess.PIPE, env=world.env) for _ in range(2)]
    for process in both:
        assert process.stdin
        process.stdin.write(payload)
        process.stdin.close()
    assert [process.wait() for process in both] == [0, 0]
    assert [seen_of(world).count(op) for op in ("complete", "seal", "advance")] == [1, 1, 1]


def test_a_late_stop_of_an_aborted_child_is_nobodys(client: Client, world: World) -> None:
    """A step that was given to another child is that child's alone."""
    lost_stop(client, world)
    (world.folder() / "analysis.md").unlink()
    client.working(child="second")
    write(world)
    assert client.stop("executor", CHILD["claude-code"]).kind == "pass"
    assert (pending(world) or {})["status"] == "activated"


def test_children_of_other_sessions_and_clients_are_strangers(client: Client, world: World) -> None:
    """A step belongs to the session that asked for it; others are told where it is, and leave it alone."""
    other = Client(world, session="00000000-0000-4000-8000-00000000000f")
    codex = Client(world, "codex")
    client.spawn("executor")
    assert "no step for you" in other.start("executor", "foreign").text
    assert other.spawn("executor").kind == "refuse"
    client.start("executor")
    for stranger in (other, codex):
        said = stranger.spawn("executor")
        assert said.kind == "refuse"
        assert "under way elsewhere" in said.text
        assert stranger.stop("executor", "foreign").kind == "pass"
        assert stranger.send("Stop").kind == "pass"
    assert "under way elsewhere" in other.send("UserPromptSubmit").text
    write(world)
    assert client.stop("executor").kind == "pass"
    assert world.view()["receipts"][0]["status"] == "consumed"


def test_a_continued_child_can_still_deliver(client: Client, world: World) -> None:
    """Stopped at a limit and continued by a message: it starts again under its id, and its stop counts."""
    told = client.working()
    assert "ended without a result" in client.returned().text
    assert client.start("executor").text == told
    write(world)
    assert client.stop("executor").kind == "pass"
    assert world.view()["receipts"][0]["status"] == "consumed"


def test_three_in_a_row_pause_the_run(client: Client, world: World) -> None:
    """No child delivers: a person must look, and `begin` lets it go on."""
    for number in range(3):
        client.working(child=f"child-{number}")
        client.send("StopFailure.subagent", agent_id=f"child-{number}")
    assert client.spawn("executor").kind == "refuse", "the third is aborted now, and counted"
    assert world.view()["pause"]["code"] == "DELEGATION_NO_RESULT"
    assert client.send("Stop").kind == "pass"
    world.verb("begin")
    assert client.spawn("executor").kind == "allow"


def killed_client(world: World, *events: dict[str, object]) -> None:
    """A client that sends events by its own hook processes, and is killed."""
    script = (
        "import json, subprocess, sys, time\n"
        "for payload in json.load(sys.stdin):\n"
        "    subprocess.run([sys.argv[1], 'hook', '--client', 'claude-code'], input=json.dumps(payload).encode())\n"
        "print('sent', flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=world.env
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps([placed(event, world.root) for event in events]).encode())
    process.stdin.close()
    while b"sent" not in process.stdout.readline():
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_killed_client_leaves_its_step_to_the_next_spawn(world: World) -> None:
    """Its child can't end any more: the next session says so, and its spawn does the step again."""
    killed_client(world, PAYLOADS["claude-code/PreToolUse.main.Agent"], PAYLOADS["claude-code/SubagentStart"])
    assert (pending(world) or {})["status"] == "activated"
    client = Client(world, session="00000000-0000-4000-8000-00000000000f")
    assert "its client is gone" in client.send("SessionStart.startup").text
    assert "Spawn the agent type" in client.send("UserPromptSubmit").text
    can_go_on(client, world)


def test_a_stop_that_was_seen_is_finished_by_the_next_event(client: Client, world: World) -> None:
    """The lock is held by somebody while the child stops: an answer in time, and the result is taken in later."""
    client.working()
    write(world)
    with (world.root / ".git/agent-infra/lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = client.stop("executor")
    assert said.kind == "fault"
    assert "LOCK_TIMEOUT" in said.text
    assert pending(world)
    assert "review" not in client.send("UserPromptSubmit").text.split("Spawn")[0]
    assert world.view()["receipts"][0]["status"] == "consumed"


def test_a_step_that_was_sealed_is_finished_by_the_next_event(client: Client, world: World) -> None:
    """A hook that was killed between seal and advance."""
    client.working()
    write(world)
    world.verb("complete", "--agent", "claude")
    stop = ("--client", "claude-code", "--native-agent", EXECUTOR, "--child-id", CHILD["claude-code"])
    world.verb("seal", *stop)
    client.returned()
    assert world.view()["receipts"][0]["status"] == "consumed"


def test_a_pause_during_the_work_loses_nothing(client: Client, world: World) -> None:
    """The child stops while the run is paused: nothing counts before a person lets it go on, then it does."""
    client.working()
    write(world)
    world.verb("pause", "--code", "LOOK", "--message", "look at this")
    assert client.stop("executor").kind == "pass"
    assert pending(world)
    world.verb("begin")
    client.send("UserPromptSubmit")
    assert world.view()["receipts"][0]["status"] == "consumed"


def test_lost_notes_leave_a_way_out(client: Client, world: World) -> None:
    """Without our notes nobody knows whether the child is there: the text names the way out."""
    client.working()
    (world.root / ".git/agent-infra/sessions.json").unlink()
    assert "run: agent-infra orchestrate abandon" in client.send("UserPromptSubmit").text
    world.verb("abandon", "--reason", "gone")
    can_go_on(client, world)


@pytest.mark.parametrize("notes", [b"{", b"[]", b'{"spawn": 1, "stop": null, "drivers": {}}', b"\xff", b""])
def test_notes_that_cannot_be_read_are_forgotten(client: Client, world: World, notes: bytes) -> None:
    """Nothing rests on them."""
    client.spawn("executor")
    (world.root / ".git/agent-infra/sessions.json").write_bytes(notes)
    assert client.start("executor").kind == "tell"


def test_a_fault_of_ours_denies_a_tool_call_and_stops_nothing_else(client: Client, world: World) -> None:
    """A journal that can't be read: exit 2 at PreToolUse, exit 1 at a stop, and nothing is approved."""
    client.working()
    write(world)
    journal = world.root / ".git/agent-infra/runs" / TASK / "journal.jsonl"
    good = journal.read_bytes()
    (world.folder() / "orchestration.json").write_text("{}")
    assert client.stop("executor").kind == "fault"
    assert client.send("Stop").kind in ("fault", "pass")
    journal.write_bytes(good)


# -- where it happens --------------------------------------------------------------------------------------------------


def test_a_subfolder_is_the_same_repository(client: Client, world: World) -> None:
    """Agents change their folder."""
    below = str(world.root / "src")
    assert client.spawn("executor", cwd=below).kind == "allow"
    assert client.start("executor", cwd=below).kind == "tell"
    write(world)
    assert client.stop("executor", cwd=below).kind == "pass"
    assert world.view()["receipts"][0]["status"] == "consumed"


def test_another_repository_is_none_of_our_business(client: Client, world: World, tmp_path: Path) -> None:
    """Its events pass, whatever runs elsewhere; a folder that is gone too."""
    other = fresh(tmp_path / "other")
    for cwd in (str(other.root), str(tmp_path / "gone"), str(tmp_path)):
        assert client.send("PreToolUse.main.Agent", cwd=cwd).kind == "pass"
        assert client.start("executor", cwd=cwd).kind == "pass"
    assert pending(world) is None


def test_a_submodule_belongs_to_the_repository_around_it(client: Client, world: World, tmp_path: Path) -> None:
    """A child that works in a submodule is still at its step."""
    other = fresh(tmp_path / "other")
    world.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "sub")
    client.spawn("executor")
    assert "step: analysis" in client.start("executor", cwd=str(world.root / "sub/src")).text


def test_a_linked_worktree_has_its_own_run(client: Client, world: World) -> None:
    """The run of another worktree is not taken for one of this."""
    linked = world.root.parent / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "other")
    assert client.send("PreToolUse.main.Agent", cwd=str(linked)).kind == "pass"
    assert "no step for you" in client.start("executor", cwd=str(linked)).text
    assert pending(world) is None
    other = World(linked, primary=world.root)
    world.make_task("TASK-20260101-130000")
    other.begin("TASK-20260101-130000")
    there = Client(other)
    told = there.working()
    assert "task: TASK-20260101-130000" in told
    assert f"Worktree: {linked}" in told
    (other.folder("TASK-20260101-130000") / "analysis.md").write_text("# Analysis\n")
    assert there.stop("executor").kind == "pass"
    assert other.view("TASK-20260101-130000")["receipts"][0]["status"] == "consumed"
