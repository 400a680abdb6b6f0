"""Pauses: what they block, that each can be left, and what is never paused."""

import pytest

from tests.support.world import EXECUTOR, REVIEWER, TASK, World

PAUSE = ("--code", "WAIT", "--message", "for a person")


def test_a_pause_says_what_it_waits_for(world: World) -> None:
    """Code and message as given; recoverable unless --final."""
    world.begun()
    answer = world.ok("pause", *PAUSE)
    assert (answer["status"], answer["changed"], answer.pause) == ("paused", True, "WAIT")
    assert world.ok("pause", *PAUSE)["changed"] is False
    assert world.ok("status")["status"] == "paused"


def test_a_pause_may_give_way_to_another(world: World) -> None:
    """As in the reference; only a final one stays final until `abandon`."""
    world.begun()
    world.ok("pause", *PAUSE)
    assert world.ok("pause", "--code", "OTHER", "--message", "more", "--final").pause == "OTHER"
    answer = world.ok("pause", *PAUSE, "--recoverable")
    assert answer["run"]["pause"] == {"code": "WAIT", "message": "for a person", "recoverable": False}
    assert world.ok("begin")["status"] == "paused"


def test_a_pause_over_a_fault_does_not_hide_it(world: World) -> None:
    """The receipt at fault still needs `abandon`."""
    world.begun()
    world.prepare()
    world.start("reviewer")
    world.ok("pause", *PAUSE)
    assert "abandon" in world.ok("begin").notes


@pytest.mark.parametrize("status", ["nothing", "prepared", "activated", "stage-completed", "sealed"])
def test_a_paused_run_moves_no_receipt(world: World, status: str) -> None:
    """prepare, activate, complete, seal and advance are refused with the pause in view, wherever the receipt is."""
    world.begun()
    step = {"stage": "analysis", "round": 1, "artifact": "analysis.md"}
    world.child = "child-1"
    if status == "prepared":
        world.prepare()
    if status == "activated":
        world.work(world.activated())
    if status == "stage-completed":
        world.completed()
    if status == "sealed":
        world.sealed()
    world.ok("pause", *PAUSE)
    world.refused("ORCHESTRATION_RUN_NOT_RUNNING", "prepare", "--client", "claude-code")
    world.refused("ORCHESTRATION_RUN_PAUSED", "advance")
    start = ("--client", "claude-code", "--native-agent", EXECUTOR, "--parent-id", "p", "--spawn-mode", "fresh")
    world.refused("ORCHESTRATION_RUN_PAUSED", "activate", *start, "--child-id", "new")
    done = [f"--{key}={value}" for key, value in step.items()]
    if status != "sealed":
        world.refused("ORCHESTRATION_RUN_PAUSED", "complete", *done, "--agent", "claude")
        answer = world.stop("executor")
        assert (answer.exit, answer.code) == (1, "ORCHESTRATION_RUN_PAUSED"), answer.out
    assert world.ok("begin")["status"] == "running"
    assert (world.pending() or {"status": "nothing"})["status"] == status


def test_what_a_paused_run_still_answers(world: World) -> None:
    """Questions are answered, and `validate` too."""
    world.begun()
    world.activated()
    world.ok("pause", *PAUSE)
    exact = ("--stage", "analysis", "--round", "1", "--artifact", "analysis.md", "--role", "executor")
    for answer in (world.ok("route"), world.ok("status"), world.ok("brief"), world.ok("validate", *exact)):
        assert (answer["status"], answer["changed"]) == ("paused", False)


def faults(world: World, fault: str) -> None:
    """Bring a run into one of its pauses."""
    world.begun("--max-steps", "1")
    if fault == "ORCHESTRATION_MAX_STEPS":
        world.step()
        world.ok("prepare", "--client", "claude-code")
        return
    step = world.prepare()
    if fault == "DELEGATION_ROLE_MISMATCH":
        world.start("executor", native_agent=REVIEWER)
        return
    if fault == "DELEGATION_FORK_FORBIDDEN":
        world.start("executor", spawn_mode="fork")
        return
    if fault == "complete before start":
        world.work(step)
        world.complete(step)
        return
    world.start("executor")
    if fault == "advance before seal":
        world.ok("advance")
        return
    world.work(step)
    world.complete(step)
    if fault == "DELEGATION_STOP_INVALID":
        world.stop("executor", exit_code="1")
    if fault == "DELEGATION_HEAD_MOVED":
        world.git("commit", "-q", "--allow-empty", "-m", "x")
        world.stop("executor")
    if fault == "DELEGATION_CONTROL_CHANGED":
        world.git("config", "core.eol", "crlf")
        world.stop("executor")


FAULTS = [
    "ORCHESTRATION_MAX_STEPS",
    "DELEGATION_ROLE_MISMATCH",
    "DELEGATION_FORK_FORBIDDEN",
    "DELEGATION_STOP_INVALID",
    "DELEGATION_HEAD_MOVED",
    "DELEGATION_CONTROL_CHANGED",
    "complete before start",
    "advance before seal",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_pause_can_be_left(world: World, fault: str) -> None:
    """`abandon` and `begin` lead on from each of them to a whole step."""
    faults(world, fault)
    assert world.ok("status")["status"] == "paused"
    world.ok("abandon", "--reason", "look again")
    assert world.ok("begin", "--max-steps", "5")["status"] == "running"
    world.step()
    assert world.run()["status"] == "running"


@pytest.mark.parametrize("fault", FAULTS)
def test_every_pause_can_be_ended(world: World, fault: str) -> None:
    """`end` lifts the guard from each of them, and a new run begins."""
    faults(world, fault)
    answer = world.ok("end", "--reason", "dropped")
    assert (answer["status"], answer["run"]["pendingDelegation"]) == ("completed", None)
    assert not (world.common / "guards" / TASK).exists()
    again = world.ok("begin")
    assert (again["status"], again["run"]["stepCount"], again["run"]["receipts"]) == ("running", 0, [])
    assert again["run"]["runId"] != answer["run"]["runId"]


def test_a_completed_run_cannot_be_paused(world: World) -> None:
    """There is nothing left to wait."""
    world.begun()
    world.ok("end", "--reason", "over")
    world.refused("ORCHESTRATION_RUN_COMPLETED", "pause", *PAUSE)


def test_the_mend_of_a_faulty_receipt_is_a_new_child(world: World) -> None:
    """After `abandon` the same round is asked for again, with the old receipt on record."""
    faults(world, "DELEGATION_STOP_INVALID")
    world.ok("abandon", "--reason", "crashed")
    aborted = world.run()["receipts"][-1]
    assert (aborted["status"], aborted["abortReason"], aborted["outcome"]) == ("aborted", "crashed", "failure")
    world.ok("begin")
    assert world.ok("route").step == ("analysis", 1)
    assert world.run()["stepCount"] == 0
