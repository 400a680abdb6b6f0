"""SIGKILL at every event of an orchestration's trail: of the orchestrator, of a child, of both; then twice resumed."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.board import TASK, Board, make_board, three, wait_until

# a plan of two waves tells these events, in this order where children run one after the other
EVENTS = (
    "orchestration_started",
    "child_started",
    "child_finished",
    "wave_finished",
    "merge_finished",
)


def slow(board: Board) -> None:
    """The usual plan; each child leaves a mark outside, and takes long enough to be met at work."""
    three(board)
    board.does(
        a="sleep 0.3; echo 'A = 1' > src/a.py; echo a >> $SCRIPTS/effects",
        b="sleep 0.3; echo 'B = 1' > src/b.py; echo b >> $SCRIPTS/effects",
        c="sleep 0.1; cat src/a.py src/b.py > src/c.py; echo c >> $SCRIPTS/effects",
    )


def kill(pid: int, *, group: bool) -> None:
    with suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)


def child_pids(board: Board) -> list[int]:
    folder = board.state / "subtasks" / TASK / "children"
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [record["pid"] for record in found if record["status"] == "running" and record["pid"]]


@pytest.mark.parametrize("who", ["orchestrator", "child", "both"])
@pytest.mark.parametrize("event", EVENTS)
def test_killed_anywhere_and_resumed(tmp_path: Path, event: str, who: str) -> None:
    """Whatever was killed when: resumed (twice at once), each subtask's effect is in the result exactly once."""
    board = make_board(tmp_path)
    slow(board)
    before = board.digest(without=(".git", ".agents"))
    running = board.start("--parallel", "2")
    wait_until(lambda: bool(board.events(event)))
    if event == "child_started":
        wait_until(lambda: bool(child_pids(board)))
    pids = child_pids(board)
    if who in ("orchestrator", "both"):
        kill(running.pid, group=False)
    if who in ("child", "both"):
        for pid in pids:
            kill(pid, group=True)
    running.communicate(timeout=120)
    if not board.events("merge_finished") and who != "child":
        assert board.digest(without=(".git", ".agents")) == before
    both = [board.start("--parallel", "2", "--retry", "failed,blocked") for _ in range(2)]
    ended = [process.communicate(timeout=120)[0] for process in both]
    results = [json.loads(out) for out in ended]
    assert any(result["parentStatus"] == "completed" for result in results), results
    assert all(
        result["parentStatus"] == "completed" or "LOCK_TIMEOUT" in json.dumps(result["errors"]) for result in results
    )
    assert board.read("src/c.py") == "A = 1\nB = 1\n"
    assert len(board.git("worktree", "list").splitlines()) == 1
    merged = [f"Merge subtask {name}" for name in "abc"]
    subjects = board.git("log", "--format=%s", f"refs/agent-infra/results/{TASK}").splitlines()
    assert sorted(subject for subject in subjects if subject in merged) == merged


def test_a_child_that_outlives_its_orchestrator_is_waited_for(tmp_path: Path) -> None:
    """Its work counts, and is not done a second time."""
    board = make_board(tmp_path)
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="echo a >> $SCRIPTS/effects; sleep 1; echo 'A = 1' > src/a.py")
    running = board.start()
    wait_until((board.scripts / "effects").exists)
    kill(running.pid, group=False)
    running.communicate(timeout=60)
    answer = board.call("resume")
    assert answer.result["parentStatus"] == "completed"
    assert (board.scripts / "effects").read_text() == "a\n"
    assert answer.result["children"][0]["attempt"] == 1


def test_a_lost_childs_worktree_that_is_gone_is_no_obstacle(tmp_path: Path) -> None:
    """Somebody removed it: the child starts anew in another one; the main checkout's branch and HEAD don't move."""
    board = make_board(tmp_path)
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="echo > $SCRIPTS/at-work; sleep 300")
    running = board.start()
    wait_until(lambda: (board.scripts / "at-work").exists() and bool(child_pids(board)))
    pids = child_pids(board)
    kill(running.pid, group=False)
    running.communicate(timeout=60)
    for pid in pids:
        kill(pid, group=True)
    subprocess.run(["rm", "-rf", board.record("a")["worktree"]], check=True)
    head = board.git("rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
    board.does(a="echo 'A = 1' > src/a.py")
    answer = board.call("resume")
    assert answer.result["parentStatus"] == "completed"
    assert board.git("rev-parse", "HEAD", "--symbolic-full-name", "HEAD") == head
    assert len(board.git("worktree", "list").splitlines()) == 1
