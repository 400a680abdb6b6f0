"""A task folder that vanished: the run still guards, and what the evidence holds comes back."""

import shutil

import pytest

from tests.support.world import OTHER, TASK, World, walked

# -- the task folder


@pytest.mark.parametrize("how", ["rm -rf", "git clean"])
def test_a_vanished_task_folder_comes_back(world: World, how: str) -> None:
    """The run still guards, verbs say so, and `repair` brings task.md and artifacts from the evidence."""
    walked(world)
    text = (world.folder() / "task.md").read_bytes()
    if how == "rm -rf":
        shutil.rmtree(world.folder())
    else:
        world.git("clean", "-fdxq")
    assert not world.folder().exists()
    assert (world.common / "guards" / TASK).exists()
    for verb in (("status",), ("route",), ("begin",), ("prepare", "--client", "claude-code"), ("brief",)):
        assert f"repair {TASK}" in world.refused("ORCHESTRATION_TASK_MISSING", *verb).message
    answer = world.ok("repair")
    assert "task.md was brought back" in answer.notes
    assert (world.folder() / "task.md").read_bytes() == text
    assert (world.folder() / "review-analysis.md").exists()
    assert world.pending()["status"] == "activated"
    step = world.ok("route")["next"]
    world.work(step)
    assert world.complete(step).exit == 0


def test_a_vanished_task_is_known_by_its_short_id(world: World) -> None:
    """The registry still has the number, so the way back is named for it too."""
    world.begun()
    (world.folder().parent / ".short-ids.json").write_text('{"version": 1, "ids": {"07": "' + TASK + '"}}')
    world.step()
    shutil.rmtree(world.folder())
    assert f"repair {TASK}" in world.refused("ORCHESTRATION_TASK_MISSING", "status", task="7").message
    assert world.ok("repair", task="#7")["taskId"] == TASK
    assert (world.folder() / "task.md").exists()


def test_a_vanished_task_can_be_ended(world: World) -> None:
    """The guard must not outlive the wish to go on."""
    walked(world)
    shutil.rmtree(world.folder())
    assert world.ok("end", "--reason", "dropped")["status"] == "completed"
    assert not (world.common / "guards" / TASK).exists()


def test_a_vanished_task_without_evidence(world: World) -> None:
    """Nothing can be brought back; the answer says what is left to do."""
    world.begun()
    shutil.rmtree(world.folder())
    world.refused("ORCHESTRATION_TASK_MISSING", "status")
    world.verb("repair")
    assert world.ok("end", "--reason", "lost")["status"] == "completed"


def test_repair_overwrites_nothing_that_is_there(world: World) -> None:
    """Only what is gone comes back."""
    walked(world)
    (world.folder() / "analysis.md").write_text("# edited by a person\n")
    (world.folder() / "review-analysis.md").unlink()
    notes = world.ok("repair").notes
    assert "review-analysis.md was brought back" in notes
    assert (world.folder() / "analysis.md").read_text() == "# edited by a person\n"


def test_a_lost_guard_and_a_lost_evidence_ref_are_made_anew(world: World) -> None:
    """Both are derived; a changing verb mends the guard too."""
    walked(world)
    guard = world.common / "guards" / TASK
    guard.unlink()
    world.git("update-ref", "-d", f"refs/agent-infra/runs/{TASK}")
    assert world.ok("repair")["changed"] is True
    assert guard.exists()
    assert world.git("show", f"refs/agent-infra/runs/{TASK}:journal.jsonl") == world.journal().read_text().strip()
    guard.unlink()
    world.ok("pause", "--code", "X", "--message", "y")
    assert guard.exists()


def test_repair_of_one_task_touches_no_other(world: World) -> None:
    """Not even one that is broken too."""
    walked(world)
    world.begun(task=OTHER)
    world.view(OTHER).write_text("{}")
    world.view().write_text("{}")
    world.ok("repair")
    assert world.view(OTHER).read_text() == "{}"
    world.refused("ORCHESTRATION_STATE_TAMPERED", "status", task=OTHER)
