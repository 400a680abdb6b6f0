from pathlib import Path

import pytest

from agent_infra.errors import RefusedError
from agent_infra.git.restore import restore, way_back
from tests.support.repos import Sandbox, sandbox, user_state


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return sandbox(tmp_path / "r")


def capture(box: Sandbox) -> str:
    return box.snapshots.capture(None, exclude=())


def back(box: Sandbox, wanted: str, present: str) -> tuple[str, ...]:
    return restore(box.repo, box.store, wanted=wanted, present=present)


CHANGES = {
    "edited, new, deleted": "echo x >> f1; mkdir -p q/r; echo n > q/r/new; rm d/g1",
    "moved": "mkdir q; mv f1 q/f1",
    "executable bit": "chmod +x f1",
    "symlinks": "rm f1; ln -s f2 f1; ln -s nowhere l",
    "file becomes folder": "rm f1; mkdir f1; echo q > f1/q",
    "folder becomes file": "rm -r d; echo q > d",
    "folder becomes symlink": "mv d e; ln -s e d",
    "everything gone": "rm -r f1 f2 f3 d .gitignore",
    "ignore rules": "echo '*' > .gitignore; echo x > f1",
    "odd names": "echo q > 'a b'; echo q > \"$(printf 'n\\377')\"; echo q > '*'; echo q > -n; printf q > 'l\ni'",
    "attributes": "echo '*.txt text eol=crlf' > .gitattributes; printf 'a\\n' > a.txt",
    "staged": "echo x > f1; git add f1; git rm -q --cached f2",
    "nothing": "",
}


@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in CHANGES.items()])
def test_restored_files_are_those_of_the_snapshot_and_there_is_a_way_back(script: str, box: Sandbox) -> None:
    """Restoring names every differing path; the printed command brings the present state back; nothing else moves."""
    wanted = capture(box)
    box.sh(script)
    present, before = capture(box), user_state(box)
    paths = back(box, wanted, present)
    assert list(paths) == [c.name for c in box.store.diff(wanted, present)]
    assert capture(box) == wanted
    assert not (box.path / "q").exists()
    assert user_state(box) == before
    box.sh(way_back(box.store, present, paths))
    assert capture(box) == present
    assert user_state(box) == before


@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in CHANGES.items()])
def test_the_other_direction(script: str, box: Sandbox) -> None:
    """From the old state to the changed one, with the way back to the old one."""
    first = capture(box)
    box.sh(script)
    second = capture(box)
    back(box, first, second)
    paths = back(box, second, first)
    assert capture(box) == second
    box.sh(way_back(box.store, first, paths))
    assert capture(box) == first


def test_filters_give_the_files_back_as_the_user_had_them(box: Sandbox) -> None:
    """Smudge filter and line ends run, by the attributes that are restored, not by those of the child."""
    box.git("config", "filter.up.clean", "tr a-z A-Z")
    box.git("config", "filter.up.smudge", "tr A-Z a-z")
    box.write({".gitattributes": "*.up filter=up\n*.txt text eol=crlf\n", "a.up": "hello\n"})
    (box.path / "b.txt").write_bytes(b"one\r\ntwo\r\n")
    wanted = capture(box)
    assert box.show(wanted, "a.up") == b"HELLO\n"
    box.write({".gitattributes": "", "a.up": "no\n", "b.txt": "no\n"})
    assert back(box, wanted, capture(box)) == (".gitattributes", "a.up", "b.txt")
    assert (box.path / "a.up").read_bytes() == b"hello\n"
    assert (box.path / "b.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_what_did_not_differ_is_left_alone(box: Sandbox) -> None:
    """Ignored files, the task's documents, later edits of other files and folders that hold them."""
    box.write({".agents/workspace/active/T/task.md": "before", "q/keep.log": "log"})
    wanted = capture(box)
    box.write({".agents/workspace/active/T/task.md": "after", "q/new": "n", "f1": "x"})
    present = capture(box)
    box.write({"f2": "edited after the snapshot"})
    assert back(box, wanted, present) == ("f1", "q/new")
    assert (box.path / "f2").read_text() == "edited after the snapshot"
    assert (box.path / ".agents/workspace/active/T/task.md").read_text() == "after"
    assert (box.path / "q" / "keep.log").read_text() == "log"
    assert not (box.path / "q" / "new").exists()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("rm f1; mkdir f1; echo q > f1/q; echo i > f1/i.log", id="ignored file in a folder in the way"),
        pytest.param("rm f1; mkdir f1; echo q > f1/q; ln -s /x f1/i.log", id="ignored link in a folder in the way"),
        pytest.param("rm -r d; echo '*.log\nd' > .gitignore; echo i > d", id="ignored file where a folder was"),
    ],
)
def test_a_file_that_no_snapshot_holds_is_never_removed(script: str, box: Sandbox) -> None:
    """git would delete the folder with the ignored file in it; nothing is written then."""
    wanted = capture(box)
    box.sh(script)
    present = capture(box)
    with pytest.raises(RefusedError, match="in its way"):
        back(box, wanted, present)
    assert capture(box) == present


def test_submodules_are_passed_over(box: Sandbox, tmp_path: Path) -> None:
    box.git("submodule", "--quiet", "add", str(sandbox(tmp_path / "sub").path), "sm")
    box.commit()
    wanted = capture(box)
    box.write({"f1": "x"})
    inside = Sandbox(box.path / "sm")
    inside.write({"f1": "y"})
    moved = inside.commit()
    assert back(box, wanted, capture(box)) == ("f1",)
    assert inside.git("rev-parse", "HEAD") == moved


def test_nothing_outside_of_the_worktree_is_removed(box: Sandbox, tmp_path: Path) -> None:
    """A folder that became a link after the snapshot is not followed."""
    wanted = capture(box)
    box.write({"q/new": "n"})
    present = capture(box)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "new").write_text("precious")
    (box.path / "q" / "new").unlink()
    (box.path / "q").rmdir()
    (box.path / "q").symlink_to(tmp_path / "outside")
    back(box, wanted, present)
    assert (tmp_path / "outside" / "new").read_text() == "precious"


def test_sha256(tmp_path: Path) -> None:
    box = sandbox(tmp_path / "r", "--object-format=sha256")
    wanted = capture(box)
    box.sh("echo x > f1; rm d/g1; echo n > n")
    present = capture(box)
    paths = back(box, wanted, present)
    assert capture(box) == wanted
    box.sh(way_back(box.store, present, paths))
    assert capture(box) == present


def test_way_back_from_a_folder_with_a_colon_in_its_name(tmp_path: Path) -> None:
    """Git separates object folders by colons, the shell words by spaces."""
    box = sandbox(tmp_path / 'a: "b')
    wanted = capture(box)
    box.sh("echo x > f1; rm f2")
    present = capture(box)
    paths = back(box, wanted, present)
    box.sh(way_back(box.store, present, paths))
    assert capture(box) == present
