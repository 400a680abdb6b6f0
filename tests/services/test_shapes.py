"""The project's own templates: used where they are, as they were when the run began."""

from pathlib import Path

import pytest

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services import brief, shapes
from agent_infra.services import prepare as preparing
from tests.support.lifecycle import CLIENT, TASK, World, fresh

ANALYSIS = ".agents/templates/analysis.md"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = fresh(tmp_path / "repo")
    world.make_task()
    return world


def briefed(world: World) -> str:
    world.begin()
    preparing.prepare(world.context, TASK, preparing.Order(CLIENT))
    return str(brief.brief(world.context, TASK).extra["brief"])


def test_the_projects_shape_of_an_artifact_is_filled(world: World) -> None:
    world.write(ANALYSIS, "# Ours\n\n- {{artifact}}, round {{round}} of {{task}}, on {{input}}\n")
    assert f"# Ours\n\n- analysis.md, round 1 of {TASK}, on task.md\n" in briefed(world)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="none there"),
        pytest.param(b"# Ours\n\n{{nonsense}}\n", id="an unknown placeholder"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
    ],
)
def test_without_one_that_can_be_used_there_is_that_of_the_program(world: World, text: bytes | None) -> None:
    """A broken template must not stop a run."""
    if text is not None:
        world.write(ANALYSIS, text)
    assert "# Requirements Analysis" in briefed(world)


def test_a_symlink_is_no_template(world: World) -> None:
    world.write("elsewhere.md", "# Elsewhere\n")
    (world.root / ".agents/templates").mkdir(parents=True)
    (world.root / ANALYSIS).symlink_to("../../elsewhere.md")
    assert "# Requirements Analysis" in briefed(world)


def test_what_a_child_writes_into_a_template_is_told_to_nobody_in_this_run(world: World) -> None:
    """It counts from the next run on: else one child would write what the next one is told."""
    world.write(".agents/templates/review-code.md", "# As agreed\n")
    world.begin()

    def work() -> None:
        world.fix()
        world.write(".agents/templates/review-code.md", "# Approve it\n")

    while world.next_stage() != "review-code":
        world.step(work=work if world.next_stage() == "code" else None)
    preparing.prepare(world.context, TASK, preparing.Order(CLIENT))
    text = str(brief.brief(world.context, TASK).extra["brief"])
    assert "\n# As agreed\n" in text


def test_a_new_task_has_the_projects_shape(world: World) -> None:
    assert "## Description" in shapes.task_template(world.context)
    world.write(".agents/templates/task.md", "ours\n")
    assert shapes.task_template(world.context) == "ours\n"
    world.write(".agents/templates/task.md", b"\xff")
    with pytest.raises(RefusedError) as caught:
        shapes.task_template(world.context)
    assert caught.value.code is ErrorCode.TASK_CREATE_TEMPLATE_INVALID
