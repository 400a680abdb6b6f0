"""Hostile and malformed things on disk and in arguments: a code and a sentence, exit 1 or 2, and nothing changes."""

import os
import shutil
from collections.abc import Callable

import pytest

from tests.support.world import OTHER, TASK, World

FOLDER = f".agents/workspace/active/{TASK}"
LOOKING = [("route",), ("begin",)]


def put(name: str, kind: str) -> Callable[[World], None]:
    def place(world: World) -> None:
        path = world.folder() / name
        if kind == "symlink":
            path.symlink_to(world.root / "README.md")
        if kind == "dangling":
            path.symlink_to("nowhere")
        if kind == "fifo":
            os.mkfifo(path)
        if kind == "folder":
            path.mkdir()
        if kind == "large":
            path.write_bytes(b"x" * (5 << 20))
        if kind == "text":
            path.write_text("# text\n")

    return place


ODD = [
    *(pytest.param("analysis.md", kind, id=f"analysis.md {kind}") for kind in ("symlink", "dangling", "fifo")),
    *(pytest.param("review-plan-r2.md", kind, id=f"review {kind}") for kind in ("folder", "large", "fifo")),
    *(
        pytest.param(name, "text", id=name)
        for name in (
            *("plan-r0.md", "plan-r1.md", "plan-r01.md", "plan-r02.md", "plan-r1000.md"),
            *("Plan.md", "PLAN.MD", "review-code-R2.md", "plan-r٢.md", "plan-r２.md", "analysis\u200b.md"),
        )
    ),
]


@pytest.mark.parametrize(("name", "kind"), ODD)
def test_what_means_an_artifact_but_is_none(world: World, name: str, kind: str) -> None:
    """Named, whether a run exists or not."""
    world.task()
    put(name, kind)(world)
    for verb in LOOKING:
        message = world.refused("ORCHESTRATION_ARTIFACT_INVALID", *verb).message
        assert name in message or repr(name)[1:-1] in message
    world.refused("ORCHESTRATION_RUN_MISSING", "status")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("analysis.md", "symlink"), ("analysis.md", "fifo"), ("analysis.md", "folder"), ("plan-r1.md", "text")],
)
def test_the_same_within_a_run(world: World, name: str, kind: str) -> None:
    """prepare and route refuse; a child's own is refused at complete, where it can be mended."""
    world.begun()
    put(name, kind)(world)
    for verb in (("route",), ("prepare", "--client", "claude-code")):
        world.refused("ORCHESTRATION_ARTIFACT_INVALID", *verb)
    assert "ORCHESTRATION_ARTIFACT_INVALID" in world.ok("status").notes
    path = world.folder() / name
    path.rmdir() if kind == "folder" else path.unlink()
    step = world.activated()
    if name == "analysis.md":
        put(name, kind)(world)
        answer = world.complete(step)
        assert (answer.exit, answer.code) == (1, "ORCHESTRATION_ARTIFACT_INVALID")
        path.rmdir() if kind == "folder" else path.unlink()
    world.work(step)
    assert world.complete(step).exit == 0


def head(text: str) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(b"type: bugfix\n", text.encode())


TASKS = [
    pytest.param(head("type: bugfix\ntype: feature\n"), "type", id="a key twice"),
    pytest.param(head("type: &a bugfix\n"), "line", id="an anchor"),
    pytest.param(head("type: *a\n"), "line", id="an alias"),
    pytest.param(head("type: !!str bugfix\n"), "line", id="a tag"),
    pytest.param(head("type: !!python/object/apply:os.system [x]\n"), "line", id="a hostile tag"),
    pytest.param(head("type: [bugfix]\n"), "line", id="a list"),
    pytest.param(head("type:\n  inner: x\n"), "line", id="a mapping"),
    pytest.param(head("12: x\n"), "", id="a key that is no string"),
    pytest.param(head("<<<<<<< ours\ntype: bugfix\n=======\n"), "line", id="conflict marks in the front matter"),
    pytest.param(lambda d: d + b"\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n", "line", id="conflict marks below"),
    pytest.param(lambda d: d.replace(b"---\n\n# The", b"\n# The"), "", id="fence not closed"),
    pytest.param(lambda d: d.removeprefix(b"---\n"), "", id="no fence"),
    pytest.param(lambda d: b"\n" + d, "", id="a line before the fence"),
    pytest.param(lambda d: d.replace(b"Two and", b"Two \xff and"), "UTF-8", id="no UTF-8"),
    pytest.param(lambda d: d.decode().encode("utf-16"), "UTF-8", id="UTF-16"),
    pytest.param(lambda d: d.replace(TASK.encode(), OTHER.encode()), OTHER, id="the id of another task"),
    pytest.param(lambda _: b"", "", id="empty"),
    pytest.param(lambda _: b"\0" * 64, "", id="NUL bytes"),
]


@pytest.mark.parametrize(("spoil", "named"), TASKS)
def test_a_task_that_cannot_be_read_strictly(world: World, spoil: Callable[[bytes], bytes], named: str) -> None:
    """ORCHESTRATION_TASK_INVALID with what is wrong and where."""
    path = world.task()
    data = path.read_bytes()
    path.write_bytes(spoil(data))
    assert path.read_bytes() != data
    for verb in LOOKING:
        answer = world.refused("ORCHESTRATION_TASK_INVALID", *verb)
        assert named in answer.message
        assert TASK in answer.message
    path.write_bytes(data)
    world.ok("begin")
    path.write_bytes(spoil(data))
    world.refused("ORCHESTRATION_TASK_INVALID", "prepare", "--client", "claude-code")


@pytest.mark.parametrize("kind", ["symlink", "dangling", "fifo", "folder", "large"])
def test_a_task_that_is_no_regular_file(world: World, kind: str) -> None:
    """Neither followed nor waited for nor read whole."""
    world.task().unlink()
    put("task.md", kind)(world)
    for verb in LOOKING:
        answer = world.refused("ORCHESTRATION_ARTIFACT_INVALID", *verb)
        assert "task.md" in answer.message


@pytest.mark.parametrize("link", ["the task folder", "the active folder"])
def test_a_folder_reached_through_a_symlink(world: World, link: str) -> None:
    """What lies elsewhere is nobody's task here."""
    world.task()
    folder = world.folder() if link == "the task folder" else world.folder().parent
    shutil.move(folder, world.base / "elsewhere")
    folder.symlink_to(world.base / "elsewhere")
    for verb in (*LOOKING, ("status",), ("repair",)):
        assert "symlink" in world.refused("ORCHESTRATION_ARTIFACT_INVALID", *verb).message
    assert not list((world.base / "elsewhere").rglob("orchestration.json"))


@pytest.mark.parametrize("kind", ["symlink", "dangling", "fifo", "folder"])
def test_a_view_that_is_no_regular_file(world: World, kind: str) -> None:
    """Nothing is written through it, before a run and within one."""
    world.task()
    put("orchestration.json", kind)(world)
    answer = world.verb("begin")
    assert (answer.exit, answer["changed"]) == (1, False), answer.out
    path = world.view()
    path.rmdir() if kind == "folder" else path.unlink()
    world.ok("begin")
    path.unlink()
    put("orchestration.json", kind)(world)
    for verb in (("status",), ("prepare", "--client", "claude-code"), ("repair",)):
        answer = world.verb(*verb)
        assert (answer.exit, answer["changed"]) == (1, False), answer.out
        assert "orchestration.json" in answer.message
    assert (world.root / "README.md").read_text() == "# sample\n"


def test_crlf_and_bom_work(world: World) -> None:
    """Windows editors are understood, and their line ends survive a whole step."""
    path = world.task(newline="\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    world.ok("begin")
    step = world.activated()
    artifact = world.artifact("analysis")
    artifact.write_bytes(b"\xef\xbb\xbf" + artifact.read_bytes().replace(b"\n", b"\r\n"))
    assert world.complete(step).exit == 0
    world.stop("executor")
    world.ok("advance")
    step = world.activated()
    review = world.review("analysis")
    review.write_bytes(b"\xef\xbb\xbf" + review.read_bytes().replace(b"\n", b"\r\n"))
    assert world.complete(step).exit == 0
    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf---\r\n")
    assert data.count(b"\n") == data.count(b"\r\n")
    world.stop("reviewer")
    world.ok("advance")
    assert world.ok("route").step == ("plan", 1)
