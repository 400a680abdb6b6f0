"""`abandon`, `end`, `reopen`: ways out of a step and of a run, and the way back in."""

import subprocess

import pytest

from tests.support.world import OTHER, TASK, World


@pytest.mark.parametrize("status", ["prepared", "activated", "stage-completed", "sealed"])
def test_abandon_ends_the_pending_receipt(world: World, status: str) -> None:
    """Whatever it was, it is aborted; a running run stays running, and the same round is next."""
    world.begun()
    {
        "prepared": world.prepare,
        "activated": world.activated,
        "stage-completed": world.completed,
        "sealed": world.sealed,
    }[status]()
    answer = world.ok("abandon", "--reason", "bad turn")
    assert (answer["status"], answer["changed"], answer["run"]["pendingDelegation"]) == ("running", True, None)
    receipt = answer["run"]["receipts"][-1]
    assert (receipt["status"], receipt["abortReason"]) == ("aborted", "bad turn")
    assert answer["run"]["stepCount"] == 0
    assert world.ok("route").step == ("analysis", 1)
    assert world.ok("abandon", "--reason", "again")["changed"] is False
    world.step()


def test_abandon_with_nothing_pending_is_no_error(world: World) -> None:
    """Also of a run that is over."""
    world.begun()
    assert world.ok("abandon", "--reason", "nothing")["changed"] is False
    world.ok("end", "--reason", "over")
    assert world.ok("abandon", "--reason", "nothing")["changed"] is False


def test_an_aborted_review_asks_for_the_same_review(world: World) -> None:
    """What it left does not approve."""
    world.begun()
    world.step()
    world.completed()
    world.ok("abandon", "--reason", "doubt")
    assert world.ok("route").step == ("review-analysis", 1)


def test_restore_puts_back_every_product_file(world: World) -> None:
    """Changed, new, deleted, moved, with its mode; ignored files, the task folder and the index stay."""
    world.write("src/gone.py", "gone = 1\n")
    world.write("tool.sh", "#!/bin/sh\n").chmod(0o755)
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "more")
    world.write("mine.txt", "untracked before\n")
    world.begun("--flow", "streamlined")
    world.step()
    step = world.activated()
    world.work(step)
    (world.root / "src/gone.py").unlink()
    (world.root / "tool.sh").chmod(0o644)
    world.write("src/deep/new.py", "x = 1\n")
    world.write("mine.txt", "changed\n")
    world.write("build/out", "ignored\n")
    answer = world.ok("abandon", "--reason", "bad turn", "--restore")
    assert (world.root / "src/app.py").read_text() == "def add(a, b):\n    return a - b\n"
    assert (world.root / "src/gone.py").exists()
    assert (world.root / "tool.sh").stat().st_mode & 0o111
    assert (world.root / "mine.txt").read_text() == "untracked before\n"
    assert not (world.root / "src/deep").exists()
    assert (world.root / "build/out").exists()
    assert (world.folder() / "code.md").exists()
    assert world.git("status", "--porcelain") == "?? mine.txt"
    assert "src/deep/new.py" in answer.notes
    assert "brings it back" in answer.notes


def test_the_printed_way_back_works(world: World) -> None:
    """The state before the restore was kept; its command brings it back."""
    world.begun("--flow", "streamlined")
    world.step()
    world.work(world.activated())
    lost = (world.root / "src/app.py").read_text()
    notes = world.ok("abandon", "--reason", "bad turn", "--restore")["notes"]
    line = next(note for note in notes if "brings it back" in note)
    command = line.split("`")[1]
    subprocess.run(["sh", "-c", command], cwd=world.root, check=True, env=world.environment(), capture_output=True)
    assert (world.root / "src/app.py").read_text() == lost


def test_restore_names_the_commit_that_it_leaves(world: World) -> None:
    """A moved HEAD is a person's to undo."""
    world.begun("--flow", "streamlined")
    world.step()
    world.work(world.activated())
    world.git("add", "src")
    world.git("commit", "-q", "-m", "sneaked")
    head = world.git("rev-parse", "HEAD")
    answer = world.ok("abandon", "--reason", "sneaked", "--restore")
    assert head in answer.notes
    assert world.git("rev-parse", "HEAD") == head
    assert (world.root / "src/app.py").read_text().endswith("a - b\n")


def test_restore_happens_in_the_worktree_of_the_run(world: World) -> None:
    """From elsewhere nothing is put back and nothing aborted."""
    world.git("worktree", "add", "-q", str(world.base / "linked"), "-b", "other")
    world.begun()
    world.activated()
    args = ("abandon", "--reason", "x", "--restore")
    world.refused("ORCHESTRATION_WORKTREE_MISMATCH", *args, cwd=world.base / "linked")
    world.ok("abandon", "--reason", "x", cwd=world.base / "linked")


def test_end_lifts_the_guard_and_keeps_the_journal(world: World) -> None:
    """completed, with when and why; the pending receipt is aborted; the next run is in the same journal."""
    world.begun()
    world.step()
    world.activated()
    lines = world.journal().read_bytes()
    answer = world.ok("end", "--reason", "dropped")
    assert (answer["status"], answer["run"]["ended"]["reason"]) == ("completed", "dropped")
    assert answer["run"]["receipts"][-1]["status"] == "aborted"
    assert not (world.common / "guards" / TASK).exists()
    assert not (world.common / "active.json").exists()
    assert world.journal().read_bytes().startswith(lines)
    assert world.ok("end", "--reason", "again")["changed"] is False
    assert world.ok("route")["next"] is None
    again = world.ok("begin")
    assert (again["changed"], again["run"]["receipts"], again["run"]["ended"]) == (True, [], None)
    assert world.journal().read_bytes().startswith(lines)
    assert (world.common / "guards" / TASK).exists()
    assert world.ok("route").step == ("review-analysis", 1), "artifacts of before count"


@pytest.mark.parametrize("variable", ["CLAUDECODE", "CODEX_THREAD_ID", "CODEX_SESSION_ID"])
def test_agents_do_not_end_runs(world: World, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Refused where an agent's environment shows."""
    world.begun()
    monkeypatch.setenv(variable, "1")
    assert variable in world.refused("GATE_PERSON_REQUIRED", "end", "--reason", "free").message


STAGES = ["analysis", "review-analysis", "plan", "review-plan", "code", "review-code"]


@pytest.mark.parametrize("stage", STAGES)
def test_reopen_asks_for_a_new_round(world: World, stage: str) -> None:
    """Every stage but the commit; what was approved below it must be done again."""
    world.begun("--max-steps", "40")
    world.to("commit")
    answer = world.ok("reopen", "--stage", stage, "--reason", "a new fact")
    assert (answer["status"], answer["changed"], answer.step) == ("running", True, (stage, 2))
    done = [world.step()["stage"] for _ in range(6 - STAGES.index(stage)) if world.ok("route").step != ("commit", 1)]
    assert world.ok("route").step == ("commit", 1)
    if not stage.startswith("review-"):
        assert done == STAGES[STAGES.index(stage) :]
    assert world.events()[-1]["op"] != "reopen"
    assert [e["facts"] for e in world.events() if e["op"] == "reopen"] == [{"reason": "a new fact"}]


@pytest.mark.parametrize(
    ("flow", "stage"),
    [
        pytest.param("full", "commit", id="the commit"),
        pytest.param("full", "plan", id="not reached"),
        pytest.param("streamlined", "plan", id="not in the flow"),
        pytest.param("streamlined", "review-analysis", id="no review in the flow"),
    ],
)
def test_what_cannot_be_reopened(world: World, flow: str, stage: str) -> None:
    """It is named."""
    world.begun("--flow", flow)
    world.step()
    message = world.refused("ORCHESTRATION_REOPEN_INVALID", "reopen", "--stage", stage, "--reason", "x").message
    assert stage in message


def test_a_pending_step_is_finished_first(world: World) -> None:
    """Reopening under a working child would judge what it never saw."""
    world.begun()
    world.step()
    world.activated()
    message = world.refused("ORCHESTRATION_REOPEN_INVALID", "reopen", "--stage", "analysis", "--reason", "x").message
    assert "abandon" in message


def test_an_ended_run_is_not_reopened(world: World) -> None:
    """`begin` starts a new one."""
    world.begun()
    world.step()
    world.ok("end", "--reason", "over")
    message = world.refused("ORCHESTRATION_REOPEN_INVALID", "reopen", "--stage", "analysis", "--reason", "x").message
    assert "begin" in message


def test_ending_one_run_leaves_the_other(world: World) -> None:
    """Two runs of one worktree: each has its own guard, journal and pending step."""
    world.begun()
    world.begun(task=OTHER)
    world.activated()
    world.ok("end", "--reason", "x", task=OTHER)
    assert (world.common / "guards" / TASK).exists()
    assert (world.common / "active.json").exists(), "the step that is pending here is still shown to the hooks"
    assert world.pending()["status"] == "activated"
