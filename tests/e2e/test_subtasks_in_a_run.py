"""A split task within its lifecycle: the plan's review sees the split, the code step runs it, the commit holds it."""

import json
from collections.abc import Callable

import pytest

from agent_infra.core.lifecycle import Flow, Stage
from tests.support.lifecycle import CLIENT, TASK, World, artifact_text, world_at

At = Callable[[str], World]
OTHER = "TASK-20260102-120000"
CONFIG = '[engines.sh]\nargv = ["sh", "-ec", "echo \\"$AGENT_INFRA_SUBTASK\\" > src/$AGENT_INFRA_SUBTASK.txt"]\n'
SPLIT = """---
subtasks:
  - {id: a, files: [src/a.txt]}
  - {id: b, files: [src/b.txt]}
  - {id: c, files: [src/c.txt], blockedBy: [a]}
---
"""


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


@pytest.fixture
def world(at: At) -> World:
    """A full run whose plan, which is approved, splits the code step; that step is open."""
    world = at("installed")
    world.write(".agents/config.toml", CONFIG)
    world.git("commit", "-qam", "an engine")
    world.make_task()
    world.write("stranger.txt", "not part of the task\n")
    world.begin(flow=Flow.FULL)
    while world.next_stage() != Stage.CODE:
        step = world.open_step()
        text = artifact_text(step)
        (world.folder() / step.artifact).write_text(SPLIT + text if step.stage == Stage.PLAN else text)
        if step.stage == Stage.REVIEW_PLAN:
            brief = world.verb("brief").json["brief"]
            assert "wave 1 of 2: side by side a, b" in brief
        assert world.close_step() == "running"
    return world


def run(world: World, *args: str) -> dict:
    answer = world.cli("subtasks", "run", TASK, "--json", *args, check=False)
    found = json.loads(answer.out)
    assert (answer.code == 0) is found["parentStatus"].startswith("completed")
    return found


def test_subtasks_are_the_code_steps_work(world: World) -> None:
    """Run in the open code step: the receipt carries the orchestration, the review judges the merged tree, verified."""
    step = world.open_step()
    assert f"run `agent-infra subtasks run {TASK}`" in world.verb("brief").json["brief"]
    assert run(world, "--parallel")["parentStatus"] == "completed"
    assert "subtasks status" in world.verb("brief").json["brief"]
    (world.folder() / step.artifact).write_text(artifact_text(step))
    assert world.close_step() == "running"
    receipt = world.view()["receipts"][-1]
    assert receipt["evidence"]["orchestration"] == f"{TASK}:1"
    assert {"src/a.txt", "src/b.txt", "src/c.txt"} <= set(receipt["changedPaths"])
    assert world.step().stage == Stage.REVIEW_CODE
    world.open_step()
    world.cli("commit", TASK, "-m", "add three files")
    assert world.close_step() == "completed"
    assert world.committed() == ["A src/a.txt", "A src/b.txt", "A src/c.txt"]
    verified = json.loads(world.cli("verify", "HEAD~1..HEAD", "--json").out)
    assert verified["counts"] == {"verified": 1}


@pytest.mark.parametrize("where", ["no step is open", "a reviewer's step is open"])
def test_subtasks_run_in_the_code_step_alone(world: World, where: str) -> None:
    """Outside of it their work would belong to nobody."""
    if where == "a reviewer's step is open":
        world.step(work=lambda: world.write("src/a.txt", "a\n"))
        world.open_step()
    found = run(world)
    assert (found["executed"], found["parentStatus"]) == (False, "blocked")
    assert "code step" in found["statusOverrideReason"]


def test_the_base_is_what_the_run_changed_and_nothing_else(world: World) -> None:
    """Edits of the step reach the children and stay; a stranger that lay there at begin reaches nobody."""
    world.open_step()
    world.write("src/seen.txt", "seen\n")
    assert run(world)["parentStatus"] == "completed"
    assert (world.root / "src" / "seen.txt").read_text() == "seen\n"
    listed = world.git("ls-tree", "-r", "--name-only", f"refs/agent-infra/subtasks/{TASK}/a").out.split()
    assert "src/seen.txt" in listed
    assert "stranger.txt" not in listed


def test_tasks_that_meet_are_named(world: World) -> None:
    """`overlap` lists the pair, and `prepare` of the code step warns."""
    world.make_task(OTHER)
    plan = "---\nsubtasks:\n  - {id: x, files: ['src/*.txt']}\n---\n# Plan\n"
    (world.folder(OTHER) / "plan.md").write_text(plan)
    assert json.loads(world.cli("overlap", "--json").out) == [
        {"tasks": [TASK, OTHER], "paths": [[f"src/{name}.txt", "src/*.txt"] for name in "abc"]}
    ]
    prepared = world.verb("prepare", "--client", CLIENT)
    assert f"{OTHER} writes the same files" in prepared.err
    assert f"{TASK} and {OTHER}" in world.cli("overlap").out
