"""What lies in a task folder, by its bytes; what only looks like an artifact is refused by name."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.core.artifacts import ArtifactName
from agent_infra.errors import AgentInfraError, ErrorCode
from agent_infra.stores.artifacts import artifact_names, digests, read_all, read_artifact, read_folder, read_task
from agent_infra.stores.workspace import ARTIFACT_LIMIT, TASK_LIMIT, TaskPlace
from tests.support.states import TASK, TASK_MD


@pytest.fixture
def place(tmp_path: Path) -> TaskPlace:
    """An active task without artifacts."""
    made = TaskPlace(TASK, "active", tmp_path / TASK)
    made.folder.mkdir()
    made.document.write_bytes(TASK_MD)
    return made


def test_the_newest_of_each_family(place: TaskPlace) -> None:
    """By number, not by name or time; a gap in the rounds is none of our business here."""
    for name in ("plan-r10.md", "plan-r9.md", "plan.md", "review-plan.md", "code-r2.md"):
        (place.folder / name).write_text(name)
    found = read_folder(place)
    assert found.task == TASK_MD
    assert {family: file.name for family, file in found.newest.items()} == {
        "plan": "plan-r10.md",
        "review-plan": "review-plan.md",
        "code": "code-r2.md",
    }
    newest = found.newest["plan"]
    assert (newest.data, newest.sha256) == (b"plan-r10.md", hashlib.sha256(b"plan-r10.md").hexdigest())
    assert newest.artifact == ArtifactName("plan", 10)


def test_other_files_are_nobodys_business(place: TaskPlace) -> None:
    """Notes of people, our own view and temporary siblings are not read; task.md is a document, not an artifact."""
    for name in ("plan-risks.md", "notes.txt", "orchestration.json", ".plan.md.7.ab.tmp", "replan.md"):
        (place.folder / name).write_bytes(b"\xff")
    (place.folder / "drafts").mkdir()
    assert artifact_names(place) == ()
    assert digests(place) == {}
    assert read_all(place) == {"task.md": TASK_MD}


def test_everything_that_the_evidence_keeps(place: TaskPlace) -> None:
    """task.md and every round of every artifact."""
    (place.folder / "plan.md").write_bytes(b"one")
    (place.folder / "plan-r2.md").write_bytes(b"two")
    assert read_all(place) == {"task.md": TASK_MD, "plan.md": b"one", "plan-r2.md": b"two"}
    assert digests(place) == {
        "plan.md": hashlib.sha256(b"one").hexdigest(),
        "plan-r2.md": hashlib.sha256(b"two").hexdigest(),
    }


def test_an_artifact_that_is_not_there(place: TaskPlace) -> None:
    """Nothing, not an error."""
    assert read_artifact(place, ArtifactName("plan", 1)) is None


def sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


def elsewhere(path: Path) -> None:
    path.with_name("notes").write_bytes(b"x")
    path.symlink_to("notes")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(elsewhere, "is a symlink", id="symlink"),
        pytest.param(lambda path: path.symlink_to("nowhere"), "is a symlink", id="dangling symlink"),
        pytest.param(lambda path: path.mkdir(), "is a folder", id="folder"),
        pytest.param(os.mkfifo, "is something else", id="FIFO"),
        pytest.param(sparse(ARTIFACT_LIMIT + 1), "4194305 bytes", id="too large"),
    ],
)
@pytest.mark.parametrize("name", ["plan.md", "review-code-r2.md"])
def test_an_artifacts_name_on_something_else(
    place: TaskPlace, name: str, make: Callable[[Path], None], words: str
) -> None:
    """Any of it stops whoever reads the folder, by name; an older round too."""
    (place.folder / "plan-r3.md").write_bytes(b"")
    make(place.folder / name)
    for read in (artifact_names, read_folder, read_all, digests):
        with pytest.raises(AgentInfraError, match=f"{name} .*({words})") as caught:
            read(place)
        assert caught.value.code is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID


def test_the_largest_artifact_is_read(place: TaskPlace) -> None:
    """4 MiB are."""
    sparse(ARTIFACT_LIMIT)(place.folder / "plan.md")
    assert len(read_folder(place).newest["plan"].data) == ARTIFACT_LIMIT


@pytest.mark.parametrize("name", ["plan-r1.md", "plan-r01.md", "plan-r0.md", "Plan.md", "plan-r1000.md", "plan-r２.md"])
def test_names_that_only_look_like_one(place: TaskPlace, name: str) -> None:
    """They are refused by name, whatever else lies there."""
    (place.folder / "plan.md").write_bytes(b"")
    (place.folder / name).write_bytes(b"")
    with pytest.raises(AgentInfraError, match="looks like an artifact") as caught:
        read_folder(place)
    assert caught.value.code is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID


@pytest.mark.parametrize(
    ("make", "code"),
    [
        pytest.param(lambda _: None, ErrorCode.TASK_NOT_FOUND, id="missing"),
        pytest.param(elsewhere, ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, id="symlink"),
        pytest.param(lambda path: path.mkdir(), ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, id="folder"),
        pytest.param(os.mkfifo, ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, id="FIFO"),
        pytest.param(sparse(TASK_LIMIT + 1), ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, id="too large"),
    ],
)
def test_a_task_md_that_is_none(place: TaskPlace, make: Callable[[Path], None], code: ErrorCode) -> None:
    """It is refused, and nothing waits or follows."""
    place.document.unlink()
    make(place.document)
    for read in (read_task, read_folder, read_all):
        with pytest.raises(AgentInfraError, match=r"task\.md") as caught:
            read(place)
        assert caught.value.code is code
