"""Where tasks lie, what a reference means, and the registry of short ids."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.errors import AgentInfraError, CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.workspace import TaskPlace, Workspace, list_folder
from tests.support.states import OTHER, TASK

THIRD = "TASK-20260101-140000"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    return Workspace(tmp_path)


def put(workspace: Workspace, where: str, task_id: str = TASK) -> Path:
    """A task in a state, or in `archive/YYYY/MM/DD`."""
    folder = workspace.folder / where / task_id
    folder.mkdir(parents=True)
    (folder / "task.md").write_bytes(b"")
    return folder


def register(workspace: Workspace, ids: object, *, version: int = 1) -> None:
    workspace.registry.parent.mkdir(parents=True, exist_ok=True)
    workspace.registry.write_text(json.dumps({"version": version, "ids": ids}))


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(AgentInfraError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize(
    ("where", "state"),
    [
        ("active", "active"),
        ("blocked", "blocked"),
        ("completed", "completed"),
        ("archive/2026/01/31", "archive"),
    ],
)
def test_a_full_id_finds_a_task_in_any_state(workspace: Workspace, where: str, state: str) -> None:
    """The place says in which state it was found, and where its documents are."""
    folder = put(workspace, where)
    place = workspace.resolve(TASK)
    assert place == TaskPlace(TASK, state, folder)
    assert (place.document, place.view) == (folder / "task.md", folder / "orchestration.json")


def test_an_active_task_wins(workspace: Workspace) -> None:
    """Hot states come first, then the newest day of the archive."""
    put(workspace, "archive/2025/12/31")
    put(workspace, "archive/2026/01/02")
    assert workspace.find(TASK).folder.parent.name == "02"
    put(workspace, "blocked")
    assert workspace.find(TASK).state == "blocked"
    put(workspace, "active")
    assert workspace.find(TASK).state == "active"


def test_a_folder_without_task_md_is_no_task(workspace: Workspace) -> None:
    """An empty folder does not hide the task that lies elsewhere."""
    (workspace.folder / "active" / TASK).mkdir(parents=True)
    put(workspace, "blocked")
    assert workspace.find(TASK).state == "blocked"


@pytest.mark.parametrize("where", ["archive/26/01/31", "archive/2026/01", "trash", "archive/2026/01/31/more"])
def test_other_folders_are_not_looked_in(workspace: Workspace, where: str) -> None:
    """Only the known layout is."""
    put(workspace, where)
    with pytest.raises(RefusedError, match=f"no task {TASK}") as caught:
        workspace.find(TASK)
    assert caught.value.code is ErrorCode.TASK_NOT_FOUND


@pytest.mark.parametrize("link", ["task", "state"])
def test_a_symlinked_folder_is_refused(workspace: Workspace, tmp_path: Path, link: str) -> None:
    """Neither the task's folder nor the folder that it lies in may lead elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / TASK).mkdir(parents=True)
    (elsewhere / TASK / "task.md").write_bytes(b"")
    active = workspace.folder / "active"
    if link == "task":
        active.mkdir(parents=True)
        (active / TASK).symlink_to(elsewhere / TASK)
    else:
        active.parent.mkdir(parents=True)
        active.symlink_to(elsewhere)
    with pytest.raises(CorruptStateError, match="symlink") as caught:
        workspace.resolve(TASK)
    assert caught.value.code is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID


def test_a_symlinked_task_md_is_still_a_task(workspace: Workspace) -> None:
    """It is found, so that reading it can say what is wrong with it."""
    folder = put(workspace, "active")
    (folder / "task.md").unlink()
    (folder / "task.md").symlink_to("nowhere")
    assert workspace.find(TASK).folder == folder


def test_a_missing_task_has_a_place(workspace: Workspace) -> None:
    """Where only its run is left: the folder that it would have."""
    place = workspace.missing(TASK)
    assert (place.state, place.folder) == ("missing", workspace.folder / "active" / TASK)
    assert place.relative("plan.md") == f".agents/workspace/active/{TASK}/plan.md"
    assert place.folder == workspace.root / ".agents/workspace/active" / TASK


@pytest.mark.parametrize("ref", ["7", "07", "#7", "#07"])
def test_a_short_id_means_an_active_task(workspace: Workspace, ref: str) -> None:
    """With or without `#` and leading zeros."""
    put(workspace, "active")
    register(workspace, {"07": TASK})
    assert workspace.resolve(ref).task_id == TASK


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        pytest.param("8", ErrorCode.SHORT_ID_NOT_FOUND, id="nobody's"),
        pytest.param("100", ErrorCode.SHORT_ID_CAPACITY_EXCEEDED, id="more digits than ids have"),
        pytest.param("#9", ErrorCode.SHORT_ID_STALE, id="of a task that is not active"),
        pytest.param("10", ErrorCode.TASK_NOT_FOUND, id="of a task that is gone"),
        pytest.param("TASK-1", ErrorCode.INVALID_TASK_REF, id="neither id nor number"),
        pytest.param("../7", ErrorCode.INVALID_TASK_REF, id="a path"),
        pytest.param("", ErrorCode.INVALID_TASK_REF, id="nothing"),
        pytest.param(OTHER, ErrorCode.TASK_NOT_FOUND, id="a full id without a task"),
    ],
)
def test_references_that_mean_nothing(workspace: Workspace, ref: str, code: ErrorCode) -> None:
    """Each has its own code."""
    put(workspace, "active")
    put(workspace, "blocked", THIRD)
    register(workspace, {"07": TASK, "09": THIRD, "10": OTHER})
    assert code_of(lambda: workspace.resolve(ref)) is code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(None, ErrorCode.SHORT_ID_REGISTRY_NOT_FOUND, id="no registry"),
        pytest.param(b"{", ErrorCode.SHORT_ID_REGISTRY_INVALID_JSON, id="no JSON"),
        pytest.param(b"", ErrorCode.SHORT_ID_REGISTRY_INVALID_JSON, id="empty"),
        pytest.param(b'{"version": 2, "ids": {}}', ErrorCode.SHORT_ID_REGISTRY_INVALID_SCHEMA, id="newer version"),
    ],
)
def test_a_registry_that_cannot_be_read(workspace: Workspace, data: bytes | None, code: ErrorCode) -> None:
    """Short ids mean nothing then, full ids still do; nothing is written over it."""
    put(workspace, "active")
    if data is not None:
        workspace.registry.write_bytes(data)
    assert code_of(lambda: workspace.resolve("7")) is code
    assert workspace.short_id_of(TASK) is None
    assert workspace.resolve(TASK).state == "active"
    if data is not None:
        assert code_of(lambda: workspace.register(TASK)) is code
        assert workspace.registry.read_bytes() == data


def test_short_ids_are_given_from_the_lowest(workspace: Workspace) -> None:
    """A new registry begins at 1, gaps are filled, and a task keeps the id that it has."""
    assert workspace.register(TASK) == 1
    assert workspace.short_id_of(TASK) == 1
    assert workspace.short_id_of(OTHER) is None
    register(workspace, {"02": TASK})
    assert workspace.register(OTHER) == 1
    assert workspace.register(THIRD) == 3
    assert json.loads(workspace.registry.read_text()) == {"version": 1, "ids": {"01": OTHER, "02": TASK, "03": THIRD}}


def test_a_full_registry_gives_nothing(workspace: Workspace) -> None:
    """With one digit there are nine ids; the tenth is refused and the registry is as it was."""
    register(workspace, {str(number): f"TASK-20260101-00000{number}" for number in range(1, 10)})
    before = workspace.registry.read_bytes()
    assert code_of(lambda: workspace.register(TASK, short_id_length=1)) is ErrorCode.SHORT_ID_CAPACITY_EXCEEDED
    assert workspace.registry.read_bytes() == before


def test_a_dangling_registry_is_not_overwritten(workspace: Workspace) -> None:
    """A symlink in its place is odd, also if it leads nowhere."""
    workspace.registry.parent.mkdir(parents=True)
    workspace.registry.symlink_to("nowhere")
    assert code_of(lambda: workspace.register(TASK)) is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID
    assert workspace.registry.is_symlink()


def test_what_lies_in_a_folder(tmp_path: Path) -> None:
    """Names, kinds and sizes, sorted, hidden ones too; nothing is followed."""
    (tmp_path / "b").write_bytes(b"123")
    (tmp_path / "a").mkdir()
    (tmp_path / ".c").symlink_to("b")
    os.mkfifo(tmp_path / "d")
    found = [(entry.name, entry.kind) for entry in list_folder(tmp_path)]
    assert found == [(".c", "symlink"), ("a", "folder"), ("b", "file"), ("d", "other")]
    assert next(entry.size for entry in list_folder(tmp_path) if entry.name == "b") == 3


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """A missing folder is empty; a file in its place can't be read."""
    assert list_folder(tmp_path / "missing") == ()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CorruptStateError, match="can't be read") as caught:
        list_folder(tmp_path / "file")
    assert caught.value.code is ErrorCode.ORCHESTRATION_TASK_READ_FAILED


def test_a_registry_out_of_reach(tmp_path: Path) -> None:
    """The code is the registry's own, and the full id is named as the way on."""
    workspace = Workspace(tmp_path)
    workspace.folder.mkdir(parents=True)
    (workspace.folder / "active").write_text("a file where the folder of the registry belongs")
    with pytest.raises(CorruptStateError, match="use the full id") as caught:
        workspace.identify("7")
    assert caught.value.code is ErrorCode.SHORT_ID_REGISTRY_READ_FAILED
