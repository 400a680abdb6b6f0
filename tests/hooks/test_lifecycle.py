"""A whole task by events alone: the main agent spawns, children work, the hooks do all the rest."""

from pathlib import Path

import pytest

from tests.support.events import CHILD, EXECUTOR, REVIEWER, Client, pending, seen_of
from tests.support.lifecycle import FIXED, TASK, World, artifact_text

MESSAGE = "fix: add returns the sum\n"


def left(world: World, client: Client, told: str) -> None:
    """What a good child leaves where its brief says."""
    if "step: commit" in told:
        if client.id == "codex":
            line(told, "message file").write_text(MESSAGE)
        else:
            world.cli("commit", TASK, "-m", MESSAGE)
        return
    if "step: code" in told:
        world.write("src/app.py", FIXED)
    receipt = world.context.runs.seen(TASK)
    assert receipt
    assert receipt.pending
    line(told, "artifact").write_text(artifact_text(receipt.pending.step))


def line(told: str, key: str) -> Path:
    """The path in a line of the brief."""
    return Path(next(line for line in told.splitlines() if line.startswith(f"{key}: ")).removeprefix(f"{key}: "))


@pytest.mark.parametrize("of", ["claude-code", "codex"])
def test_a_whole_task_by_events(world: World, of: str) -> None:
    """Every step by a child of its own, the commit included; no verb is called, and the history verifies."""
    client = Client(world, of)
    told = client.send("UserPromptSubmit" if of == "claude-code" else "UserPromptSubmit.main").text
    for number in range(4):
        role = "reviewer" if REVIEWER in told else "executor"
        child = f"child-{number}"
        brief = client.working(role, child)
        assert f"task: {TASK}" in brief
        left(world, client, brief)
        assert client.stop(role, child).kind == "pass"
        told = client.returned(role).text
    assert "is completed" in told
    view = world.view()
    assert view["status"] == "completed"
    assert [receipt["childId"] for receipt in view["receipts"]] == [f"child-{number}" for number in range(4)]
    assert {receipt["origin"] for receipt in view["receipts"]} == {"hook"}
    assert world.committed() == ["M src/app.py"]
    assert world.git("log", "-1", "--format=%s").out == MESSAGE
    assert "verified" in world.cli("verify", "HEAD~1..HEAD").out
    assert client.send("Stop").kind == "pass"
    assert not (world.root / ".git/agent-infra/sessions.json").exists()


def test_the_brief_names_the_step_in_lines(client: Client, world: World) -> None:
    """Whoever scripts a child reads task, step, artifact and what is judged, each on a line of its own."""
    told = client.working()
    folder = world.folder()
    for wanted in (f"task: {TASK}", "step: analysis round 1", f"artifact: {folder}/analysis.md"):
        assert f"\n{wanted}\n" in told
    assert "judges:" not in told
    assert len(told.encode()) <= 8000
    assert "orchestrate complete" not in told, "nothing is left to be reported"


def test_a_child_of_codex_hands_in_through_the_outbox(codex: Client, world: World) -> None:
    """Its brief names the outbox, which git ignores; what it leaves there is moved, its task.md taken over."""
    told = codex.working()
    outbox = world.root / ".agent-infra" / TASK
    assert line(told, "artifact") == outbox / "analysis.md"
    assert (world.root / ".agent-infra/.gitignore").read_text() == "*\n"
    assert world.git("status", "--porcelain").out == ""
    (outbox / "analysis.md").write_text("# Analysis\n\nDone.\n")
    document = outbox / "task.md"
    document.write_text(document.read_text().replace("add(2, 2) must be 4.", "add(2, 2) must be 4, always."))
    assert codex.stop("executor").kind == "pass"
    assert (world.folder() / "analysis.md").read_text() == "# Analysis\n\nDone.\n"
    assert not (outbox / "analysis.md").exists()
    assert "must be 4, always." in (world.folder() / "task.md").read_text()
    assert world.view()["receipts"][0]["status"] == "consumed"


def test_what_lay_in_the_outbox_is_not_taken_for_the_result(codex: Client, world: World) -> None:
    """A file of an earlier child goes when the step is prepared; a link in its place is refused."""
    outbox = world.root / ".agent-infra" / TASK
    outbox.mkdir(parents=True)
    (outbox / "analysis.md").write_text("old\n")
    codex.working()
    assert not (outbox / "analysis.md").exists()
    (outbox / "analysis.md").symlink_to(world.root / "README.md")
    assert "is a symlink" in codex.stop("executor").text


def test_an_outbox_that_is_a_link_is_refused(codex: Client, world: World) -> None:
    """What a child writes must not end up elsewhere."""
    elsewhere = world.root.parent / "elsewhere"
    elsewhere.mkdir()
    (world.root / ".agent-infra").symlink_to(elsewhere)
    said = codex.spawn("executor")
    assert said.kind == "refuse"
    assert "in the way of the outbox" in said.text
    assert list(elsewhere.iterdir()) == []


def test_a_codex_spawn_goes_without_the_main_agents_history(codex: Client) -> None:
    """A fork would judge its own work: what is left out means all of it to Codex."""
    said = codex.spawn("executor", fork_turns="all")
    assert said.json["hookSpecificOutput"]["updatedInput"]["fork_turns"] == "none"


def test_a_claude_spawn_goes_to_the_foreground(client: Client) -> None:
    """All of the input is kept, and the child is waited for."""
    said = client.spawn("executor", run_in_background=True, model="opus")
    changed = said.json["hookSpecificOutput"]["updatedInput"]
    assert changed["run_in_background"] is False
    assert (changed["subagent_type"], changed["model"]) == (EXECUTOR, "opus")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        pytest.param({"role": "reviewer"}, f"Spawn the agent type {EXECUTOR}", id="another role"),
        pytest.param({"role": "executor", "isolation": "worktree"}, "without `isolation`", id="isolated"),
        pytest.param(
            {"role": "executor", "prompt": "TASK-20300101-000000: go"}, "has no run in this worktree", id="another task"
        ),
    ],
)
def test_a_spawn_that_does_not_fit(client: Client, world: World, asked: dict[str, str], says: str) -> None:
    """It is refused with what comes next, and nothing is prepared."""
    said = client.spawn(**asked)
    assert said.kind == "refuse"
    assert says in said.text
    assert pending(world) is None


def test_a_paused_run_starts_no_child(client: Client, world: World) -> None:
    """The refusal names the pause and who must look."""
    world.verb("pause", "--code", "LOOK", "--message", "look at this")
    said = client.spawn("executor")
    assert said.kind == "refuse"
    assert "paused (LOOK): look at this" in said.text
    assert "orchestrate begin" in said.text
    assert client.send("Stop").kind == "pass"


def test_several_runs_need_a_name(client: Client, world: World) -> None:
    """Without an id in the prompt their names are told; with one that task is meant."""
    world.make_task("TASK-20260101-130000")
    world.begin("TASK-20260101-130000")
    said = client.spawn("executor")
    assert said.kind == "refuse"
    assert TASK in said.text
    assert "TASK-20260101-130000" in said.text
    assert client.spawn("executor", prompt="TASK-20260101-130000 is next.").kind == "allow"
    assert pending(world, "TASK-20260101-130000")


def test_what_the_client_says_is_kept_by_an_allow_list(client: Client, codex: Client, world: World) -> None:
    """Session, tool call, effort, transcript, tokens and model; no prompt, no message."""
    transcript = world.root.parent / "agent.jsonl"
    reply = '{"type":"assistant","message":{"id":"m1","model":"opus-1","usage":{"input_tokens":7,"output_tokens":2}}}\n'
    transcript.write_text(reply + "no json\n" + reply)
    client.working()
    (world.folder() / "analysis.md").write_text("# Analysis\n")
    stopped = client.stop("executor", agent_transcript_path=str(transcript), last_assistant_message="SECRET-WORDS")
    assert stopped.kind == "pass"
    receipt = world.view()["receipts"][0]
    assert receipt["usage"] == {"inputTokens": 7, "outputTokens": 2, "cacheReadTokens": 0, "cacheWriteTokens": 0}
    assert receipt["evidence"] == {
        "session": client.session,
        "toolUse": client.tool_use["tool_use_id"],
        "effort": "medium",
        "transcript": str(transcript),
        "permissionMode": "default",
        "model": "opus-1",
    }
    assert "SECRET-WORDS" not in str(world.journal())
    codex.working(child="other")
    assert (pending(world) or {})["actualModel"] == "gpt-5.1-codex"


def test_the_main_agent_is_kept_going_three_times(client: Client, world: World) -> None:
    """A session that drives a run goes on with the next step; without a new journal line not for ever."""
    assert client.send("Stop").kind == "pass", "this session drives nothing yet"
    client.working()
    (world.folder() / "analysis.md").write_text("# Analysis\n")
    client.stop("executor")
    for _ in range(3):
        said = client.send("Stop")
        assert said.kind == "go on"
        assert "is not finished" in said.text
        assert f"Spawn the agent type {EXECUTOR}" in said.text
    assert client.send("Stop").kind == "pass"
    client.working(child="child-2")
    (world.folder() / "code.md").write_text("# Code\n")
    client.stop("executor", "child-2")
    assert client.send("Stop").kind == "go on", "the journal has moved"
    assert seen_of(world).count("advance") == 2


def test_a_wait_for_nothing_is_refused_once(codex: Client, world: World) -> None:
    """It would hang until its timeout; other agents' children can be waited for."""
    wait = "PreToolUse.main.wait_agent-v1"
    assert codex.send(wait).kind == "pass", "this session drives nothing"
    codex.working()
    assert codex.send(wait).kind == "pass", "a child is at work"
    (world.root / ".agent-infra" / TASK / "analysis.md").write_text("# Analysis\n")
    codex.stop("executor")
    said = codex.send(wait)
    assert said.kind == "refuse"
    assert "nothing to wait for. the next step of" in said.text
    assert codex.send(wait).kind == "pass"
    stranger = {"tool_input": {"targets": ["somebody-else"], "timeout_ms": 1}}
    assert codex.send(wait, **stranger).kind == "pass"


def test_a_managed_agent_without_a_step_is_told_so(client: Client, world: World) -> None:
    """It pauses nothing, and its stop is ignored."""
    assert "no step for you" in client.start("executor", "stray").text
    client.working()
    assert "no step for you" in client.start("executor", "second").text
    assert client.stop("executor", "second").kind == "pass"
    assert "no step for you" in client.start("reviewer", "third").text
    assert world.view()["status"] == "running"
    assert (pending(world) or {})["childId"] == CHILD["claude-code"]
