"""The runtime gate and the planning loop."""

from dataclasses import replace

import pytest

from agent_infra.core.subtasks.plan import Limits, Split, Subtask
from agent_infra.core.subtasks.planning import ENDS, LOOP, Decision, LoopState, Policy, Request, open_gate, plan_task
from agent_infra.errors import ErrorCode, RefusedError


def subtask(name, *wanted, files=("x",), engine=None):
    return Subtask(
        id=name, title=name, expected_files=tuple(f"{name}/{file}" for file in files), blocked_by=wanted, engine=engine
    )


def request(*subtasks, **fields):
    defaults = {"engine": "sh", "engines": frozenset({"sh", "other"})}
    return Request("TASK-20260101-120000", Split(subtasks), **{**defaults, **fields})


def test_a_split_is_planned_to_its_good_end():
    """Received, classified, gated, decomposed, assigned, scheduled, completed; each move has its reason."""
    asked = request(subtask("b", "a", engine="other"), subtask("a"))
    plan = plan_task(asked)
    assert [step.dest for step in plan.trace] == [
        "classified", "gated", "decomposed", "assigned", "scheduled", "loop.completed",
    ]  # fmt: skip
    assert all(step.reason for step in plan.trace)
    said = plan.to_json(asked)
    assert said["state"] == "loop.completed"
    assert said["completedPlanning"] is True
    assert said["plannedDelegation"]["assignments"] == [
        {"subtaskId": "b", "candidateEngine": "other"},
        {"subtaskId": "a", "candidateEngine": "sh"},
    ]
    assert said["simulation"] == {"order": ["a", "b"]}
    assert said["decisions"] == ["DELEGATE"]
    assert (said["conflicts"], said["errors"], said["warnings"]) == ([], [], [])
    assert plan.refusal is None


def test_a_plan_without_subtasks_is_run_directly():
    """The gate says RUN, and nothing is decomposed."""
    plan = plan_task(request())
    assert plan.gate.decision == Decision.RUN
    assert "decomposed" not in [step.dest for step in plan.trace]
    assert plan.is_complete


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"depth": 3}, "depth 3 is above the limit of 2", id="too deep"),
        pytest.param({"preflight": ("sh is not there",)}, "sh is not there", id="preflight"),
        pytest.param({"spent": ("10,000 tokens are used up",)}, "10,000 tokens", id="budget"),
        pytest.param({"runs": 20}, "20 orchestrations", id="too many runs"),
        pytest.param({"policy": Policy(forbidden=("a/**",))}, "a/x is forbidden", id="forbidden path"),
        pytest.param({"engine": None}, "subtask a has no engine", id="no engine"),
        pytest.param({"engine": "zsh"}, "the engine zsh is not configured; known are other, sh", id="unknown engine"),
        pytest.param({"limits": Limits(max_transitions=2)}, "more than 2 steps", id="too many steps"),
    ],
)
def test_what_blocks(fields, reason):
    """The loop ends blocked, the reason is in its errors, and real mode is refused with it."""
    plan = plan_task(request(subtask("a"), **fields))
    assert plan.state == LoopState.BLOCKED
    assert reason in plan.errors[-1]
    assert reason in plan.refusal


def test_what_a_person_decides():
    """A protected path ends the loop with the question, after what blocks was looked at."""
    asked = request(subtask("a"), policy=Policy(protected=("a/",)))
    plan = plan_task(asked)
    assert (plan.state, plan.is_complete) == (LoopState.NEEDS_HUMAN, False)
    assert "a/x is protected" in plan.refusal
    assert open_gate(replace(asked, runs=99)).decision == Decision.BLOCK


def test_faults_of_the_plan_block_at_once():
    """Before the gate is asked; a cycle is found when waves are made."""
    plan = plan_task(Request("T", Split((), ("subtask a waits for itself",))))
    assert (plan.state, len(plan.trace), plan.gate) == (LoopState.BLOCKED, 1, None)
    ring = plan_task(request(subtask("a", "b"), subtask("b", "a")))
    assert ring.state == LoopState.BLOCKED
    assert "a -> b -> a" in ring.waves_error
    assert ring.waves == ()


def test_a_blocking_conflict_stands_in_the_way_of_real_mode():
    """Planning is complete, so a dry run shows it; real mode is refused."""
    plan = plan_task(request(subtask("a", files=("../../x",))))
    assert plan.is_complete
    assert "leaves the worktree" in plan.refusal


def test_risky_files_are_said():
    """Classification names what the project calls risky."""
    gate = open_gate(request(subtask("a"), subtask("b"), policy=Policy(risk=("b/",))))
    assert gate.classification == {"files": 2, "folders": 2, "risk": "high", "riskyFiles": ["b/x"]}


def test_the_loop_is_a_table():
    """Every state that is no end can be blocked or asked about; ends lead nowhere."""
    for state in LoopState:
        assert LOOP.can(state, "block") is (state not in ENDS)
        assert LOOP.can(state, "ask") is (state not in ENDS)
    with pytest.raises(RefusedError) as refused:
        LOOP.follow(LoopState.COMPLETED, "classify")
    assert refused.value.code == ErrorCode.SUBTASK_PLAN_INVALID
