"""`agent-infra usage`: what receipts say of tokens, cost and time."""

import json

from agent_infra.services.usage import total, used_by
from tests.support.states import receipt
from tests.support.world import TASK, World

NOW, LATER, EARLIER = "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:02.500Z", "2026-01-01T11:00:00.000Z"


def test_a_receipt_and_sums() -> None:
    """Allowed numbers alone; an old receipt says nothing; a clock set back gives no time."""
    usage = {"inputTokens": 3, "outputTokens": 4, "costUsd": 0.5, "strange": 9, "cacheReadTokens": "many"}
    whole = used_by(receipt(usage=usage, activated_at=NOW, sealed_at=LATER, evidence={"model": "m-1"}))
    assert (whole.counts, whole.cost, whole.seconds, whole.model) == (
        {"inputTokens": 3, "outputTokens": 4}, 0.5, 2.5, "m-1",
    )  # fmt: skip
    bare = used_by(receipt(activated_at=NOW, sealed_at=EARLIER))
    assert (bare.counts, bare.cost, bare.seconds) == ({}, None, None)
    assert total([whole, whole, bare]) == {
        "steps": 3,
        "seconds": 5.0,
        "inputTokens": 6,
        "outputTokens": 8,
        "costUsd": 1.0,
    }


def test_the_command(world: World) -> None:
    """One task by its steps, all by their sums; nothing moves; a task without a run has no steps."""
    world.begun("--flow", "streamlined")
    world.step()
    world.step()
    before = world.moved()
    one = json.loads(world.call("usage", TASK, "--json").out)
    assert [(step["stage"], step["client"]) for step in one["tasks"][0]["steps"]] == [
        ("analysis", "claude-code"),
        ("code", "claude-code"),
    ]
    assert one["clients"]["claude-code"]["steps"] == one["total"]["steps"] == 2
    assert json.loads(world.call("usage", "--json").out)["tasks"][0]["taskId"] == TASK
    shown = world.call("usage", TASK).out
    assert "analysis round 1" in shown
    assert TASK in world.call("usage").out
    assert world.moved() == before
    assert world.call("usage", "TASK-20200101-000000").exit == 1
