"""`task block`, `activate` and `cancel`: where a task lies, and what a cut move leaves."""

import json
from pathlib import Path

import pytest

from agent_infra.core.moves import MoveJournal
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import open_context
from agent_infra.services.tasks import moving
from agent_infra.stores import workspace
from tests.support.world import TASK, World

WRITES = ("write_atomic", "move_folder", "remove_durably")


class Cut(BaseException):
    """The process dies here."""


def space(world: World) -> Path:
    return world.root / ".agents/workspace"


def ids(world: World) -> dict[str, str]:
    found: dict[str, str] = json.loads((space(world) / "active/.short-ids.json").read_text())["ids"]
    return found


def ready(world: World) -> None:
    world.task()
    (space(world) / "active/.short-ids.json").write_text(json.dumps({"version": 1, "ids": {"01": TASK}}))


def call(world: World, *args: str, code: str = "") -> str:
    answer = world.call("task", *args)
    assert answer.exit == (1 if code else 0), answer
    assert code in answer.err
    return answer.out


def test_there_and_back(world: World) -> None:
    """Blocked without a short id, active with one, cancelled for good; a repeat changes nothing."""
    ready(world)
    call(world, "block", "1", "--reason", "waits")
    assert ids(world) == {}
    text = (space(world) / "blocked" / TASK / "task.md").read_text()
    assert "status: blocked" in text
    assert "## Blocking Information" in text
    assert "already" in call(world, "block", TASK, "--reason", "waits")
    call(world, "block", TASK, "--reason", "other", code="LIFECYCLE_SOURCE_INVALID")
    call(world, "activate", TASK)
    assert ids(world) == {"01": TASK}
    assert "blocked_at" not in (space(world) / "active" / TASK / "task.md").read_text()
    call(world, "cancel", TASK, "--reason", "a\tb", code="LIFECYCLE_PAYLOAD_INVALID")
    call(world, "cancel", TASK, "--reason", "no need")
    assert "cancel_reason: no need" in (space(world) / "completed" / TASK / "task.md").read_text()
    assert not list(space(world).rglob(".task-lifecycle.json"))


@pytest.mark.parametrize("stop", range(7))
def test_a_cut_move_is_finished_by_a_repeat(world: World, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    """Whichever write the process died before, the same command ends where an uncut one does."""
    ready(world)
    left = [stop]

    def dying(name: str, owner: object) -> None:
        real = getattr(owner, name)

        def act(*args: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Cut
            return real(*args, **options)

        monkeypatch.setattr(owner, name, act)

    for name in WRITES:
        dying(name, moving)
    dying("write_atomic", workspace)
    with pytest.raises(Cut):
        moving.move(open_context(world.root), TASK, "block", "waits")
    monkeypatch.undo()
    if stop:
        with pytest.raises(RefusedError) as refused:
            moving.move(open_context(world.root), TASK, "cancel", "other")
        assert refused.value.code == ErrorCode.LIFECYCLE_INTENT_CONFLICT
    moving.move(open_context(world.root), TASK, "block", "waits")
    assert ids(world) == {}
    assert (space(world) / "blocked" / TASK / "task.md").read_text().count("**Block Task**") == 1
    assert not list(space(world).rglob(".task-lifecycle.json"))


def test_what_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A faulty journal, a taken target, another id, an agent: nothing moves."""
    ready(world)
    folder = space(world) / "active" / TASK
    (folder / ".task-lifecycle.json").write_text("{}")
    call(world, "block", "1", "--reason", "x", code="LIFECYCLE_JOURNAL_INVALID")
    (folder / ".task-lifecycle.json").unlink()
    (space(world) / "blocked" / TASK).mkdir(parents=True)
    call(world, "block", "1", "--reason", "x", code="LIFECYCLE_TARGET_CONFLICT")
    (space(world) / "blocked" / TASK).rmdir()
    (space(world) / "blocked").rmdir()
    (space(world) / "blocked").write_text("")
    call(world, "block", "1", "--reason", "x", code="LIFECYCLE_DIRECTORY_RENAME_FAILED")
    (space(world) / "blocked").unlink()
    (folder / ".task-lifecycle.json").unlink()
    document = folder / "task.md"
    document.write_text(document.read_text().replace(f"id: {TASK}", "id: TASK-20200101-000000"))
    call(world, "block", "1", "--reason", "x", code="LIFECYCLE_IDENTITY_INVALID")
    monkeypatch.setenv("CLAUDECODE", "1")
    call(world, "block", "1", "--reason", "x", code="GATE_PERSON_REQUIRED")
    assert MoveJournal(TASK, "block", "active", "", "").target == "blocked"


def test_a_move_ends_the_run(world: World) -> None:
    """Nothing guards the branch any more once the task is set aside."""
    ready(world)
    world.ok("begin")
    assert (world.common / "guards" / TASK).exists()
    call(world, "block", "1", "--reason", "waits")
    assert not (world.common / "guards" / TASK).exists()
    assert world.ops()[-1] == "end"
