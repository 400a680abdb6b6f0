"""The fast way must give the reference way's id, whatever happened before: random histories, and edits that hide."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_infra.git.base_index import BaseIndex
from agent_infra.git.fast_snapshot import FastSnapshotter
from agent_infra.git.snapshot import ReferenceSnapshotter, TaskFolder
from tests.support.repos import Sandbox, sandbox

EXCLUDE = ("*.pyc", "node_modules", "cache")
NAMES = ("a.txt", "d/b.txt", "d/e/c.py", "x.pyc", "node_modules/m.js", "new/n.txt", "i.log", ".agents/skill.md")
TEXTS = ("", "one\n", "two\n", "one\r\ntwo\r\n", "$Id$\n", "x" * 300)
IGNORES = ("*.log\n", "*.txt\n", "!x.pyc\n*.log\n", "d/\n", "")
ATTRIBUTES = ("", "*.txt text\n", "*.txt eol=crlf\n", "*.txt ident\n", "*.py filter=up\n", "* -text\n")


def both(box: Sandbox, *, exclude: tuple[str, ...] = EXCLUDE) -> tuple[str, str]:
    """What the two ways say now."""
    task = TaskFolder("TASK-20260101-120000", box.path.parent / "task")
    fast = FastSnapshotter(box.repo, box.store).capture(task, exclude=exclude)
    return fast, ReferenceSnapshotter(box.repo, box.store).capture(task, exclude=exclude)


class Histories(RuleBasedStateMachine):
    """A worktree in which anything happens, and a snapshot after each step."""

    @initialize()
    def begin(self) -> None:
        self.base = Path(os.environ["SNAPSHOT_PLAY"]) / f"{os.getpid()}-{id(self)}"
        self.base.mkdir(parents=True)
        self.box = sandbox(self.base / "r")
        self.box.git("config", "filter.up.clean", "tr a-z A-Z")
        (self.base / "task").mkdir()

    def teardown(self) -> None:
        if hasattr(self, "base"):
            shutil.rmtree(self.base, ignore_errors=True)

    def _place(self, name: str) -> Path:
        path = self.box.path / name
        for parent in list(path.relative_to(self.box.path).parents)[::-1][1:]:
            full = self.box.path / parent
            if full.is_symlink() or full.is_file():
                full.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        return path

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(TEXTS))
    def write(self, name: str, text: str) -> None:
        path = self._place(name)
        path.unlink(missing_ok=True)
        path.write_text(text)

    @rule(name=st.sampled_from(NAMES))
    def edit_unseen(self, name: str) -> None:
        """Same size, time of modification put back."""
        path = self.box.path / name
        if path.is_file() and not path.is_symlink():
            found = path.stat()
            path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        (self.box.path / name).unlink(missing_ok=True) if not (self.box.path / name).is_dir() else None

    @rule(name=st.sampled_from(NAMES), mode=st.sampled_from((0o644, 0o755)))
    def chmod(self, name: str, mode: int) -> None:
        path = self.box.path / name
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)

    @rule(name=st.sampled_from(NAMES), to=st.sampled_from(("a.txt", "nowhere", "d")))
    def link(self, name: str, to: str) -> None:
        path = self._place(name)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    @rule(text=st.sampled_from(IGNORES))
    def ignore(self, text: str) -> None:
        self._place(".gitignore").write_text(text)

    @rule(text=st.sampled_from(IGNORES))
    def ignore_privately(self, text: str) -> None:
        (self.box.path / ".git" / "info" / "exclude").write_text(text)

    @rule(text=st.sampled_from(ATTRIBUTES), name=st.sampled_from((".gitattributes", "d/.gitattributes")))
    def attribute(self, text: str, name: str) -> None:
        self._place(name).write_text(text)

    @rule(text=st.sampled_from(ATTRIBUTES))
    def attribute_privately(self, text: str) -> None:
        (self.box.path / ".git" / "info" / "attributes").write_text(text)

    @rule(name=st.sampled_from(NAMES), force=st.booleans())
    def stage(self, name: str, force: bool) -> None:
        self.box.git("add", *(["-f"] if force else []), "--", name, check=False)

    @rule(name=st.sampled_from(NAMES), flag=st.sampled_from(("assume-unchanged", "skip-worktree")), on=st.booleans())
    def hide(self, name: str, flag: str, on: bool) -> None:
        self.box.git("update-index", f"--{'' if on else 'no-'}{flag}", "--", name, check=False)

    @rule(name=st.sampled_from(NAMES))
    def unstage(self, name: str) -> None:
        self.box.git("rm", "-q", "--cached", "--", name, check=False)

    @rule(force=st.booleans())
    def commit(self, force: bool) -> None:
        self.box.git("add", "-A", *(["-f"] if force else []), check=False)
        self.box.git("commit", "-q", "--allow-empty", "-m", "x", check=False)

    @rule(soft=st.booleans())
    def move_head(self, soft: bool) -> None:
        self.box.git("reset", "-q", "--soft" if soft else "--mixed", "HEAD~1", check=False)

    @rule(value=st.sampled_from(("true", "false", "input")))
    def set_autocrlf(self, value: str) -> None:
        self.box.git("config", "core.autocrlf", value)

    @rule(value=st.booleans())
    def set_filemode(self, value: bool) -> None:
        self.box.git("config", "core.fileMode", str(value).lower())

    @rule(text=st.sampled_from(TEXTS))
    def document(self, text: str) -> None:
        (self.base / "task" / "plan.md").write_text(text)

    @invariant()
    def the_ways_agree(self) -> None:
        if hasattr(self, "box"):
            fast, reference = both(self.box)
            assert fast == reference


@pytest.mark.usefixtures("_play")
def test_random_histories() -> None:
    """Edit, stage, ignore, chmod, link, attributes, settings, HEAD moves, in any order: one id."""
    from hypothesis.stateful import run_state_machine_as_test

    examples = int(os.environ.get("SNAPSHOT_HISTORIES", "12"))
    steady = settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    run_state_machine_as_test(Histories, settings=steady)


@pytest.fixture
def _play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPSHOT_PLAY", str(tmp_path))


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    (tmp_path / "task").mkdir()
    return sandbox(tmp_path / "r")


@pytest.mark.parametrize("number", range(5))
def test_an_edit_that_hides_in_the_second_of_the_look(box: Sandbox, number: int) -> None:
    """Same size, modification time put back, in the second in which git looked: git alone would not see it."""
    path = box.path / "f1"
    before = both(box)
    found = path.stat()
    path.write_text(f"b{number % 3}\n")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    fast, reference = both(box)
    assert fast == reference
    assert fast != before[0]


def test_a_known_base_is_used_and_a_damaged_one_made_anew(box: Sandbox) -> None:
    """The second snapshot writes no index; rubbish, a lock file of a killed git and a lost key do no harm."""
    from agent_infra.git.snapshot import QUIET

    base = BaseIndex(box.repo, QUIET)
    for damage in (
        lambda: None,
        lambda: base.path.write_bytes(b"rubbish"),
        lambda: base.path.with_name("base-index.json").write_text("{"),
        lambda: base.path.with_name("base-index.lock").touch(),
        lambda: base.path.unlink(missing_ok=True),
    ):
        damage()
        fast, reference = both(box)
        assert fast == reference


def test_snapshots_at_once_before_there_is_a_base(box: Sandbox) -> None:
    """Parallel first use: git's own lock would let most of them fail."""
    from concurrent.futures import ThreadPoolExecutor

    box.write({"f1": "changed\n", "new/x": "x\n"})
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: FastSnapshotter(box.repo, box.store).capture(None, exclude=EXCLUDE), range(8)))
    assert set(found) == {ReferenceSnapshotter(box.repo, box.store).capture(None, exclude=EXCLUDE)}
