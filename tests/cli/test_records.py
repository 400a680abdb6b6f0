"""What a run leaves on disk: journal, evidence, the pending step for hooks, and briefs."""

import hashlib
import json

import pytest

from tests.support.world import OTHER, TASK, World

REF = f"refs/agent-infra/runs/{TASK}"


def test_the_journal_is_a_chain_of_canonical_lines(world: World) -> None:
    """v, seq, prev, ts, op; each line names the digest of the one before; it is only ever appended."""
    world.begun()
    before = world.journal().read_bytes()
    world.step()
    data = world.journal().read_bytes()
    assert data.startswith(before)
    prev = "0" * 64
    for seq, line in enumerate(data.splitlines(), start=1):
        event = json.loads(line)
        canonical = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert line == canonical
        assert (event["v"], event["seq"], event["prev"]) == (1, seq, prev)
        prev = hashlib.sha256(line).hexdigest()
    assert world.run()["journalHead"] == prev


def test_an_event_holds_what_it_changed(world: World) -> None:
    """Not the whole run again."""
    world.begun()
    for _ in range(3):
        world.step()
    advance = world.events()[-1]
    assert advance["op"] == "advance"
    assert set(advance["run"]) <= {"nextStage", "stepCount", "pause", "status"}
    assert len(json.dumps(advance)) < 600


def test_every_advance_leaves_evidence(world: World) -> None:
    """One commit per finished step, with journal, view, task and artifacts; the user's branches never see it."""
    world.begun()
    for _ in range(3):
        world.step()
    assert world.git("rev-list", "--count", REF) == "3"
    names = world.git("ls-tree", "--name-only", REF).split()
    assert names == ["analysis.md", "journal.jsonl", "orchestration.json", "plan.md", "review-analysis.md", "task.md"]
    assert world.git("show", f"{REF}:journal.jsonl") == world.journal().read_text().strip()
    assert json.loads(world.git("show", f"{REF}:orchestration.json")) == world.run()
    assert world.git("rev-list", "--count", "--branches") == "1"


def test_abandon_and_end_leave_evidence_too(world: World) -> None:
    """Whatever ends a step."""
    world.begun()
    world.activated()
    world.ok("abandon", "--reason", "x")
    assert world.git("rev-list", "--count", REF) == "1"
    world.ok("end", "--reason", "x")
    assert world.git("rev-list", "--count", REF) == "2"
    assert json.loads(world.git("show", f"{REF}:orchestration.json"))["ended"]["reason"] == "x"


def test_evidence_that_cannot_be_written_is_a_note(world: World) -> None:
    """The journal has it; `repair` writes it later."""
    world.begun()
    world.sealed()
    lock = world.root / ".git/refs/agent-infra"
    lock.write_text("in the way")
    answer = world.ok("advance")
    assert "repair" in answer.notes
    lock.unlink()
    world.ok("repair")
    assert json.loads(world.git("show", f"{REF}:orchestration.json"))["stepCount"] == 1


def active(world: World) -> dict[str, object]:
    found: dict[str, object] = json.loads((world.common / "active.json").read_text())
    return found


def test_hooks_find_the_pending_step_at_once(world: World) -> None:
    """active.json follows the receipt and goes with it; a reviewer's may-write paths are absolute."""
    world.begun()
    step = world.prepare()
    assert active(world) == {
        "task": TASK,
        "stage": "analysis",
        "role": "executor",
        "status": "prepared",
        "allowedPaths": [],
    }
    world.start("executor")
    assert active(world)["status"] == "activated"
    world.work(step)
    world.complete(step)
    assert active(world)["status"] == "stage-completed"
    world.stop("executor")
    assert active(world)["status"] == "sealed"
    world.ok("advance")
    assert not (world.common / "active.json").exists()
    world.prepare()
    folder = world.folder()
    assert active(world)["allowedPaths"] == [str(folder / "review-analysis.md"), str(folder / "task.md")]


def test_the_active_step_of_a_linked_worktree_lies_in_its_git_dir(world: World) -> None:
    """Each worktree has its own."""
    linked = world.base / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "other")
    world.begun()
    world.prepare()
    world.task(OTHER)
    run = world.ok("begin", task=OTHER, cwd=linked)["run"]
    assert (run["worktree"], run["branch"]) == (str(linked), "other")
    world.ok("prepare", "--client", "claude-code", task=OTHER, cwd=linked)
    here = world.root / ".git/worktrees/linked/agent-infra/active.json"
    assert json.loads(here.read_text())["task"] == OTHER
    assert active(world)["task"] == TASK
    world.ok("abandon", "--reason", "x", task=OTHER)
    assert not here.exists()
    assert active(world)["task"] == TASK


def test_a_run_of_a_linked_worktree_walks_its_steps(world: World) -> None:
    """Product files are the worktree's; task folder and view stay with the primary one."""
    linked = world.base / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "other")
    world.task()
    world.ok("begin", cwd=linked)
    start = ("--client", "claude-code", "--native-agent", "agent-infra-lifecycle-executor", "--child-id", "c")
    world.ok("prepare", "--client", "claude-code", cwd=linked)
    world.ok("activate", *start, "--parent-id", "p", "--spawn-mode", "fresh", cwd=linked)
    world.artifact("analysis")
    (linked / "made.txt").write_text("x")
    world.write("elsewhere.txt", "x")
    world.ok("complete", "--agent", "claude", cwd=linked)
    world.ok("seal", *start, cwd=linked)
    world.ok("advance", cwd=linked)
    paths = world.run()["receipts"][0]["changedPaths"]
    assert "made.txt" in paths
    assert f".agents/workspace/active/{TASK}/analysis.md" in paths
    assert "elsewhere.txt" not in paths


@pytest.mark.parametrize("stage", ["analysis", "review-analysis", "plan", "review-plan", "code", "review-code"])
def test_the_brief_says_what_a_child_needs(world: World, stage: str) -> None:
    """Role, inputs with digests, where the artifact goes; short, the same as text, and only on request."""
    world.begun()
    world.to(stage)
    step = world.prepare()
    answer = world.ok("brief")
    text = answer["brief"]
    assert answer["changed"] is False
    assert len(text.encode()) <= 8000
    for word in (TASK, step["role"], str(world.folder() / step["artifact"])):
        assert word in text
    for entry in world.pending()["inputs"]:
        assert entry["name"] in text
        assert entry["sha256"] in text
    shown = world.call("orchestrate", "brief", TASK, "--text")
    assert shown.out.rstrip("\n") == text.rstrip("\n")
    if stage == "review-code":
        diffs = list((world.common / "briefs" / TASK).iterdir())
        assert [str(path) in text for path in diffs] == [True]
        assert "-    return a - b" in diffs[0].read_text()


def test_a_prepared_step_that_waits_is_reported(world: World) -> None:
    """After a minute, with the way out; nothing is decided by a clock."""
    world.begun()
    world.prepare()
    assert world.ok("status").notes == ""
    lines = world.journal().read_bytes().splitlines(keepends=True)
    event = json.loads(lines[1])
    event["receipt"]["createdAt"] = "2020-01-01T00:00:00.000Z"
    text = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    world.journal().write_bytes(lines[0] + text.encode() + b"\n")
    world.view().unlink()
    answer = world.ok("status")
    assert "no child started" in answer.notes
    assert f"abandon {TASK}" in answer.notes
    assert answer["run"]["pendingDelegation"]["status"] == "prepared"
