"""`activate`: a native start binds the prepared receipt to one fresh child, or is refused, or is none of ours."""

import pytest

from tests.support.world import EXECUTOR, OTHER, REVIEWER, TASK, World

# -- activate

STARTS = [
    pytest.param({"native_agent": REVIEWER}, "DELEGATION_ROLE_MISMATCH", id="the other role"),
    pytest.param({"child_id": "parent-1"}, "DELEGATION_IDENTITY_INVALID", id="child is parent"),
    pytest.param({"spawn_mode": "fork"}, "DELEGATION_FORK_FORBIDDEN", id="a fork"),
    pytest.param({"spawn_mode": "Fresh"}, "DELEGATION_FORK_FORBIDDEN", id="not exactly fresh"),
    pytest.param({"actual_model": "small"}, "DELEGATION_MODEL_FALLBACK_UNRECORDED", id="another model, no reason"),
    pytest.param({"native_agent": REVIEWER, "child_id": "parent-1"}, "DELEGATION_ROLE_MISMATCH", id="role, then name"),
    pytest.param({"child_id": "parent-1", "spawn_mode": "fork"}, "DELEGATION_IDENTITY_INVALID", id="name, then fork"),
    pytest.param({"spawn_mode": "fork", "actual_model": "small"}, "DELEGATION_FORK_FORBIDDEN", id="fork, then model"),
]


@pytest.mark.parametrize(("changes", "code"), STARTS)
def test_a_start_that_breaks_a_rule_pauses_the_run(world: World, changes: dict[str, str], code: str) -> None:
    """The first fault in the reference's order is the code; the receipt stays prepared."""
    world.begun()
    world.ok("prepare", "--client", "claude-code", "--requested-model", "large")
    answer = world.start("executor", **changes)
    assert (answer.exit, answer["status"], answer.pause, answer["changed"]) == (0, "paused", code, True)
    assert answer["run"]["pendingDelegation"]["status"] == "prepared"
    assert answer["run"]["pause"]["recoverable"] is True


def test_another_model_with_a_reason_is_on_record(world: World) -> None:
    """A fallback is allowed where somebody says why."""
    world.begun()
    world.ok("prepare", "--client", "claude-code", "--requested-model", "large")
    world.start("executor", actual_model="small", fallback_reason="quota")
    receipt = world.pending()
    assert (receipt["status"], receipt["actualModel"], receipt["modelFallbackReason"]) == (
        "activated",
        "small",
        "quota",
    )


@pytest.mark.parametrize(
    "agent", ["general-purpose", "agent-infra-lifecycle-executor-2", "Agent-Infra-Lifecycle-Executor", "executor"]
)
@pytest.mark.parametrize("ref", [TASK, "auto"])
def test_agents_that_are_not_ours_are_ignored(world: World, ref: str, agent: str) -> None:
    """Exact names only; in silence, and nothing moves."""
    world.begun()
    world.prepare()
    answers = [world.start("executor", ref, native_agent=agent), world.stop("executor", ref, native_agent=agent)]
    for answer in answers:
        assert (answer.exit, answer["changed"], answer["error"], answer.err) == (0, False, None, "")
    assert world.pending()["status"] == "prepared"


def test_the_same_start_twice_is_one_start(world: World) -> None:
    """An equal event gives the first answer again; a differing one, while a child works, pauses."""
    world.begun()
    world.prepare()
    assert world.start("executor", child_id="c-1")["changed"] is True
    for ref in (TASK, "auto"):
        again = world.start("executor", ref, child_id="c-1")
        assert (again.exit, again["changed"], again["run"]["pendingDelegation"]["status"]) == (0, False, "activated")
    assert world.start("executor", child_id="c-2").pause == "DELEGATION_STATE_INVALID"


def test_another_client_than_the_prepared_one(world: World) -> None:
    """A child of another client is not the one that was ordered; no pause."""
    world.begun()
    world.prepare()
    answer = world.start("executor", client="codex")
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_CLIENT_MISMATCH")
    assert "codex" in answer.message
    world.start("executor")
    answer = world.stop("executor", client="codex")
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_CLIENT_MISMATCH")


def test_a_child_works_once(world: World) -> None:
    """A used child id pauses while another receipt waits for a child, and is nobody's otherwise."""
    world.begun()
    world.step()
    used = world.child
    late = world.start("executor", child_id=used)
    assert (late.exit, late["status"], late["changed"], late["error"]) == (0, "running", False, None)
    world.prepare()
    assert world.start("reviewer", child_id=used).pause == "DELEGATION_IDENTITY_REUSED"


def test_a_child_whose_receipt_was_aborted_is_used_too(world: World) -> None:
    """It may still be alive; its id does not come back."""
    world.begun()
    world.activated()
    used = world.child
    world.ok("abandon", "--reason", "lost")
    world.prepare()
    assert world.start("executor", child_id=used).pause == "DELEGATION_IDENTITY_REUSED"


def test_a_late_start_of_a_used_child_harms_no_working_one(world: World) -> None:
    """While another child works already, the late start is nobody's."""
    world.begun()
    world.step()
    used = world.child
    world.activated()
    answer = world.start("executor", child_id=used)
    assert (answer.exit, answer["status"], answer["changed"]) == (0, "running", False)


# -- auto


def test_auto_finds_the_pending_step_of_the_worktree(world: World) -> None:
    """Neither hook needs to know the task."""
    world.begun()
    step = world.prepare()
    assert world.start("executor", "auto", child_id="c-9")["taskId"] == TASK
    world.work(step)
    world.complete(step)
    assert world.stop("executor", "auto")["run"]["pendingDelegation"]["status"] == "sealed"


def test_auto_without_a_prepared_step(world: World) -> None:
    """A managed child without a step is told so and pauses nothing."""
    world.begun()
    assert world.start("executor", "auto").code == "ORCHESTRATION_DELEGATION_MISSING"
    world.activated()
    answer = world.start("executor", "auto")
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_DELEGATION_MISSING")
    assert world.run()["status"] == "running"


def test_auto_is_for_the_client_that_was_prepared(world: World) -> None:
    """Another client's child has no step here."""
    world.begun()
    world.prepare()
    answer = world.start("executor", "auto", client="codex")
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_DELEGATION_MISSING")


def test_auto_looks_at_its_own_worktree_alone(world: World) -> None:
    """What is pending elsewhere is not the child's."""
    world.begun()
    world.prepare()
    linked = world.base / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "other")
    event = ("--client", "claude-code", "--native-agent", EXECUTOR, "--child-id", "c")
    answer = world.verb("activate", *event, "--parent-id", "p", "--spawn-mode", "fresh", task="auto", cwd=linked)
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_DELEGATION_MISSING")
    answer = world.verb("seal", *event, task="auto", cwd=linked)
    assert (answer.exit, answer["changed"], answer["error"]) == (0, False, None)


def test_two_pending_steps_in_one_worktree_are_ambiguous(world: World) -> None:
    """Somebody took a guard away; `auto` does not guess."""
    world.begun()
    world.prepare()
    guard = world.common / "guards" / TASK
    kept = guard.read_bytes()
    guard.unlink()
    world.begun(task=OTHER)
    world.prepare(task=OTHER)
    guard.write_bytes(kept)
    answer = world.start("executor", "auto")
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_DELEGATION_AMBIGUOUS")
    assert TASK in answer.message
    assert OTHER in answer.message


def test_events_without_a_pending_step(world: World) -> None:
    """Named, they fail; nothing pauses."""
    world.begun()
    assert world.start("executor").code == "ORCHESTRATION_DELEGATION_MISSING"
    assert world.stop("executor").code == "ORCHESTRATION_DELEGATION_MISSING"
    world.refused("ORCHESTRATION_DELEGATION_MISSING", "advance")
    world.refused("ORCHESTRATION_DELEGATION_MISSING", "complete", "--agent", "claude")
    world.refused("ORCHESTRATION_DELEGATION_MISSING", "brief")


def test_events_of_a_task_without_a_run(world: World) -> None:
    """Nothing was delegated, so nothing can start or stop."""
    world.task()
    assert world.start("executor").code == "ORCHESTRATION_DELEGATION_MISSING"
    assert world.stop("executor").code == "ORCHESTRATION_DELEGATION_MISSING"
