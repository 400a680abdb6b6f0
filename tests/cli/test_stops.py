"""Native stops that come early, late, twice or from strangers, and what `advance` makes of the sealed receipt."""

from tests.support.world import TASK, World


def test_a_child_that_stops_without_finishing(world: World) -> None:
    """Failed, outcome unknown, no pause; the same child may still be completed, or the step abandoned."""
    world.begun()
    step = world.activated()
    answer = world.stop("executor")
    assert (answer.exit, answer.code, answer["changed"]) == (1, "DELEGATION_STATE_INVALID", True)
    assert (world.run()["status"], world.pending()["outcome"]) == ("running", "unknown")
    again = world.stop("executor")
    assert (again.code, again["changed"]) == ("DELEGATION_STATE_INVALID", False)
    world.work(step)
    world.complete(step)
    world.stop("executor")
    assert world.pending()["outcome"] == "success"


def test_a_stop_before_the_start(world: World) -> None:
    """Nobody was started, so nothing is known."""
    world.begun()
    world.prepare()
    answer = world.stop("executor", child_id="early")
    assert (answer.exit, answer.code, answer["changed"]) == (1, "DELEGATION_STATE_INVALID", False)


def test_a_failed_child_pauses(world: World) -> None:
    """Its exit code is the fault of its receipt, and the outcome is on record."""
    world.begun()
    world.completed()
    answer = world.stop("executor", exit_code="-9")
    assert (answer.pause, answer["run"]["pendingDelegation"]["outcome"]) == ("DELEGATION_STOP_INVALID", "failure")
    assert "-9" in answer["run"]["pause"]["message"]


def test_the_stop_of_another_child(world: World) -> None:
    """Named, it fails without a pause; by auto it is ignored. The right one still seals."""
    world.begun()
    world.completed()
    mine = world.child
    foreign = world.stop("executor", child_id="stranger")
    assert (foreign.exit, foreign.code, foreign["changed"]) == (1, "DELEGATION_STOP_INVALID", False)
    assert "stranger" in foreign.message
    foreign = world.stop("executor", "auto", child_id="stranger")
    assert (foreign.exit, foreign["changed"], foreign["error"]) == (0, False, None)
    assert world.stop("executor", child_id=mine)["run"]["pendingDelegation"]["status"] == "sealed"


def test_stops_that_come_twice_or_late(world: World) -> None:
    """Before and after the advance, while the next child works: the first answer again, nothing moves."""
    world.begun()
    world.sealed()
    first = world.child
    for ref in (TASK, "auto"):
        again = world.stop("executor", ref)
        assert (again.exit, again["changed"]) == (0, False)
    world.ok("advance")
    for ref in (TASK, "auto"):
        assert (world.stop("executor", ref, child_id=first).exit) == 0
    world.activated()
    for ref in (TASK, "auto"):
        late = world.stop("executor", ref, child_id=first)
        assert (late.exit, late["changed"], late["run"]["pendingDelegation"]["status"]) == (0, False, "activated")


def test_advance_needs_a_seal(world: World) -> None:
    """It pauses, blames no receipt, and `begin` goes on where it was."""
    world.begun()
    step = world.prepare()
    for has_started in (False, True):
        assert world.ok("advance").pause == "DELEGATION_STATE_INVALID"
        assert world.ok("begin")["status"] == "running"
        world.work(step)
        assert (world.complete(step) if has_started else world.start("executor")).exit == 0
    assert world.ok("advance").pause == "DELEGATION_STATE_INVALID"
    world.ok("begin")
    world.stop("executor")
    assert world.ok("advance")["run"]["stepCount"] == 1
    world.refused("ORCHESTRATION_DELEGATION_MISSING", "advance")


def test_drift_after_the_seal_is_on_record(world: World) -> None:
    """What changed between seal and advance belongs to nobody; it is a note and in the journal."""
    world.begun()
    world.sealed()
    world.write("src/late.py", "x = 1\n")
    answer = world.ok("advance")
    assert "src/late.py" in answer.notes
    assert "src/late.py" in str(world.events()[-1]["facts"])
    assert "src/late.py" not in answer["run"]["receipts"][-1]["changedPaths"]


def test_advance_from_another_worktree_sees_no_drift(world: World) -> None:
    """The run's own worktree is compared, whoever calls."""
    world.git("worktree", "add", "-q", str(world.base / "linked"), "-b", "other")
    world.begun("--flow", "streamlined")
    world.step()
    world.sealed()
    assert world.ok("advance", cwd=world.base / "linked").notes == ""
