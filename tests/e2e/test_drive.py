"""The headless driver: a script's children from begin to the commit, and all that may go wrong on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_infra.core.lifecycle import Stage, Step
from agent_infra.services.setup import install
from tests.support.lifecycle import FIXED, PROGRAM, TASK, Answer, World, artifact_text, world_at

SLOW = [sys.executable, "-c", "import time; open('started', 'w').close(); time.sleep(60)"]
CHAIN = ("analysis", "review-analysis", "plan", "review-plan", "code", "review-code")


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    """Hooks installed, a task made, no run yet."""
    world = world_at("installed", tmp_path_factory, monkeypatch)
    world.make_task()
    return world


def name_of(stage: str, round_: int) -> str:
    return f"{stage}.md" if round_ == 1 else f"{stage}-r{round_}.md"


def attempt(stage: str, round_: int = 1, **more: Any) -> dict[str, Any]:
    """What a good child does at a step."""
    review = {key: more.pop(key) for key in ("verdict", "counts") if key in more}
    text = artifact_text(Step(Stage(stage), round_, name_of(stage, round_)), **review)
    return {"artifact": text} | more


def script(world: World, **changes: Any) -> Path:
    """A script for the whole lifecycle; keyword `code_1` replaces the step `code/1`."""
    steps: dict[str, Any] = {f"{stage}/1": attempt(stage) for stage in CHAIN}
    steps["code/1"] = attempt("code", write={"src/app.py": FIXED})
    steps["commit/1"] = {"commit": "fix: sum"}
    for name, value in changes.items():
        steps["/".join(name.replace("review_", "review-").rsplit("_", 1))] = value
    path = world.root.parent / "script.json"
    path.write_text(json.dumps({"version": 1, "steps": steps}))
    return path


def drive(world: World, path: Path, *options: str, code: int = 0) -> Answer:
    answer = world.cli("run", TASK, "--client", "scripted", "--script", str(path), *options, check=False)
    assert answer.code == code, answer
    return answer


def start(world: World, path: Path) -> subprocess.Popen[bytes]:
    """The driver in a process group of its own, as a shell starts it."""
    argv = [str(PROGRAM), "run", TASK, "--client", "scripted", "--script", str(path)]
    return subprocess.Popen(
        argv,
        cwd=world.root,
        env=world.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def sleepers(world: World) -> list[int]:
    """The processes of children that are still at work in the worktree."""
    shown = subprocess.run(["ps", "-axo", "pid=,command="], capture_output=True, text=True, check=True).stdout
    return [
        int(line.split()[0]) for line in shown.splitlines() if "open('started', 'w')" in line and "ps -axo" not in line
    ]


def test_the_whole_lifecycle_with_a_rejected_review(world: World) -> None:
    """A review that finds something leads to a second round of both; the commit is authorized and made by a child."""
    row = {"id": "AN-1", "stage": "analysis", "round": 1, "severity": "major", "evidence": "analysis.md"}
    path = script(
        world,
        review_analysis_1=attempt(
            "review-analysis", verdict="Changes Requested", counts=(0, 1, 0), ledger=[row | {"status": "open"}]
        ),
        analysis_2=attempt("analysis", 2),
        review_analysis_2=attempt("review-analysis", 2, ledger=[row | {"status": "closed"}]),
        plan_1=attempt("plan", run=[["git", "commit", "-q", "--allow-empty", "-m", "early"]]),
    )
    before = world.head
    answer = drive(world, path)
    assert answer.out.splitlines()[0] == f"{TASK}: completed"
    assert world.git("rev-parse", "HEAD^").out.strip() == before
    assert world.committed() == ["M src/app.py"]
    assert world.trailers()["Agent-Infra-Task"] == TASK
    run = world.view()
    assert [receipt["artifact"] for receipt in run["receipts"]] == [
        "analysis.md",
        "review-analysis.md",
        "analysis-r2.md",
        "review-analysis-r2.md",
        "plan.md",
        "review-plan.md",
        "code.md",
        "review-code.md",
        "commit",
    ]
    assert {receipt["origin"] for receipt in run["receipts"]} == {"driver"}
    assert {receipt["client"] for receipt in run["receipts"]} == {"scripted"}
    assert len({receipt["childId"] for receipt in run["receipts"]}) == 9
    lines = answer.err.splitlines()
    assert lines[0] == "the run begins"
    assert "review-analysis round 1: done: changes-requested" in lines
    assert "review-analysis round 2: done: approved" in lines
    assert lines.index("plan round 1: executor at work (scripted)") < lines.index("plan round 1: done")
    assert drive(world, path).out.startswith(f"{TASK}: completed")  # nothing is left to do


def test_json_is_one_object_on_stdout(world: World) -> None:
    answer = drive(world, script(world), "--json")
    assert answer.out.count("\n") == 1
    assert set(answer.json) >= {"status", "changed", "taskId", "run", "next", "error"}
    assert answer.json["status"] == "completed"
    assert "code round 1: done" in answer.err


def test_a_reviewer_that_writes_code_is_caught_and_put_back(world: World) -> None:
    """The seal pauses the run; `abandon --restore` puts the file back and a fresh reviewer goes on."""
    meddling = attempt("review-code", write={"src/app.py": "backdoor = 1\n", "new.py": "x"}, delete=["src/old.py"])
    path = script(world, review_code_1=[meddling, attempt("review-code")])
    answer = drive(world, path)
    assert answer.out.splitlines()[0] == f"{TASK}: paused"
    assert "DELEGATION_REVIEWER_WRITE_FORBIDDEN" in answer.out
    assert "src/app.py" in answer.out
    again = drive(world, path)  # a fault of the receipt: a person must say what becomes of it
    assert again.out == answer.out
    assert f"agent-infra orchestrate abandon {TASK}" in again.err
    restored = world.verb("abandon", "--reason", "the reviewer wrote code", "--restore")
    assert {note for note in restored.json["notes"] if note.startswith("put back")} == {
        "put back: src/app.py",
        "put back: new.py",
        "put back: src/old.py",
    }
    assert (world.root / "src/app.py").read_text() == FIXED
    assert not (world.root / "new.py").exists()
    assert drive(world, path).out.startswith(f"{TASK}: completed")
    assert world.committed() == ["M src/app.py"]


def test_three_children_without_a_result_pause_the_run(world: World) -> None:
    """Each try that left nothing is an aborted receipt with a child of its own, and a line says why."""
    path = script(world, analysis_1=[{"exit": 3}, {}, attempt("analysis", exit=1), attempt("analysis")])
    answer = drive(world, path)
    assert answer.out.splitlines()[0] == f"{TASK}: paused"
    assert "DELEGATION_NO_RESULT" in answer.out
    receipts = world.view()["receipts"]
    assert [receipt["status"] for receipt in receipts] == ["aborted"] * 3
    assert len({receipt["childId"] for receipt in receipts}) == 3
    assert "analysis round 1: the child ended with 3" in answer.err
    assert "analysis round 1: the child ended with 1" in answer.err
    assert "ARTIFACT_NOT_FOUND" in answer.err


def test_a_run_that_was_given_up_can_go_on(world: World) -> None:
    """Every pause can be left: who runs it again, after mending what was wrong, gets fresh tries."""
    answer = drive(world, script(world, analysis_1={"exit": 3}))
    assert "DELEGATION_NO_RESULT" in answer.out
    assert [receipt["status"] for receipt in world.view()["receipts"]] == ["aborted"] * 3
    still = drive(world, script(world, analysis_1={"exit": 4}))
    assert "DELEGATION_NO_RESULT" in still.out
    assert still.err.count("the child ended with 4") == 3
    assert drive(world, script(world)).out.startswith(f"{TASK}: completed")


def test_a_child_that_fails_once_is_followed_by_a_fresh_one(world: World) -> None:
    drive(world, script(world, plan_1=[{"exit": 1}, attempt("plan")]))
    plans = [receipt for receipt in world.view()["receipts"] if receipt["artifact"] == "plan.md"]
    assert [receipt["status"] for receipt in plans] == ["aborted", "consumed"]
    assert plans[0]["outcome"] == "failure"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_driver_ends_its_child_and_can_go_on(world: World, number: signal.Signals) -> None:
    """Ctrl-C reaches the driver's group; the child, in a group of its own, is ended by the driver."""
    driver = start(world, script(world, analysis_1={"run": [SLOW]}))
    wait_for((world.root / "started").exists)
    os.killpg(driver.pid, number)
    said = driver.communicate(timeout=30)[0].decode()
    assert driver.returncode == 130, said
    assert "Traceback" not in said
    assert "the same command goes on" in said
    assert sleepers(world) == []
    (world.root / "started").unlink()
    answer = drive(world, script(world))
    assert "analysis round 1: its driver is gone" in answer.err
    assert answer.out.startswith(f"{TASK}: completed")


def test_a_killed_driver_leaves_an_orphan_that_the_next_one_aborts(world: World) -> None:
    """SIGKILL can't be heard: the lock says that the driver is gone, and its child's receipt is aborted."""
    driver = start(world, script(world, analysis_1={"run": [SLOW]}))
    wait_for((world.root / "started").exists)
    driver.kill()
    driver.communicate(timeout=30)
    orphans = sleepers(world)
    assert orphans
    assert world.verb("status").json["run"]["pendingDelegation"]["status"] == "activated"
    (world.root / "started").unlink()
    answer = drive(world, script(world))
    assert not sleepers(world), "a child that outlived its driver could write into the next step"
    assert "analysis round 1: its driver is gone" in answer.err
    orphaned, redone = world.view()["receipts"][:2]
    assert (orphaned["status"], redone["status"]) == ("aborted", "consumed")
    assert orphaned["afterFingerprint"], "what it left can be looked at"
    assert world.view()["status"] == "completed"


def test_two_drivers_at_once(world: World) -> None:
    """The second one says that the first drives, and disturbs nothing."""
    driver = start(world, script(world, analysis_1={"run": [SLOW]}))
    wait_for((world.root / "started").exists)
    before = world.journal()
    answer = drive(world, script(world), code=1)
    assert "ORCHESTRATION_DELEGATION_BUSY" in answer.err
    assert "another driver" in answer.err
    assert world.journal() == before
    os.killpg(driver.pid, signal.SIGINT)
    driver.communicate(timeout=30)


def test_a_step_that_somebody_else_has_open_is_left_alone(world: World) -> None:
    """A receipt that no driver opened is a session's: the driver names it and the way out."""
    world.begin()
    world.open_step()
    before = world.journal()
    answer = drive(world, script(world), code=1)
    assert "ORCHESTRATION_DELEGATION_BUSY" in answer.err
    assert "orchestrate abandon" in answer.err
    assert world.journal() == before


def test_a_script_without_the_step_opens_no_receipt(world: World) -> None:
    path = script(world)
    steps = json.loads(path.read_text())
    del steps["steps"]["plan/1"]
    path.write_text(json.dumps(steps))
    answer = drive(world, path, code=1)
    assert "SCRIPT_INVALID" in answer.err
    assert "plan/1" in answer.err
    assert world.view()["pendingDelegation"] is None
    assert drive(world, script(world)).out.startswith(f"{TASK}: completed")


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        pytest.param(("--client", "scripted"), 2, "--script", id="no-script"),
        pytest.param(("--client", "nobody", "--script", "x"), 2, "nobody", id="unknown-client"),
        pytest.param(("--client", "scripted", "--script", "/nowhere"), 1, "SCRIPT_INVALID", id="missing-file"),
    ],
)
def test_a_wrong_call_begins_no_run(world: World, options: tuple[str, ...], code: int, word: str) -> None:
    answer = world.cli("run", TASK, *options, check=False)
    assert answer.code == code
    assert word in answer.err
    assert not (world.folder() / "orchestration.json").exists()


def test_without_hooks_the_commit_is_not_prepared(world: World) -> None:
    """The driver stops before the commit, says why, and goes on once they are installed."""
    (world.root / ".git/hooks/pre-commit").unlink()
    answer = drive(world, script(world), code=1)
    assert "ORCHESTRATION_HOOKS_MISSING" in answer.err
    assert "agent-infra init" in answer.err
    install.init(world.context, program=str(PROGRAM))  # the hooks alone: new files would be for a review
    assert drive(world, script(world)).out.startswith(f"{TASK}: completed")
