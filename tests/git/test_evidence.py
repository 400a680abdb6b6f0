import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_infra.errors import ErrorCode, GitError
from agent_infra.git import evidence
from tests.support.repos import Sandbox, partial_clone, sandbox, user_state

TASK = "TASK-20260101-120000"
WHEN = "2026-01-01T12:34:56.789Z"
FILES = {
    "journal.jsonl": b'{"v":1}\n',
    "task.md": b"\xef\xbb\xbf# T\r\n",
    "artifacts/plan.md": b"",
    "a.b": b"1",
    "a/b": b"2",
}


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return sandbox(tmp_path / "r")


def write(box: Sandbox, files: dict[str, bytes], when: str = WHEN) -> str:
    return evidence.write(box.repo, TASK, files, message="analysis r1 consumed", when=when)


def test_evidence_is_an_ordinary_commit(box: Sandbox) -> None:
    """Anybody can read it with git; its identity and time are ours and not the user's."""
    commit = write(box, FILES)
    shown = box.git("log", "-1", "--format=%an <%ae> %at %cn <%ce> %ct%n%P|%B", commit)
    who = "agent-infra <agent-infra@localhost> 1767270896"
    assert shown == f"{who} {who}\n|analysis r1 consumed"
    assert box.git("rev-parse", evidence.ref_name(TASK)) == commit
    assert box.git("show", f"{commit}:a/b") == "2"
    box.git("fsck", "--strict", commit)


def test_evidence_round_trip(box: Sandbox) -> None:
    """Bytes come back as they were, by their path."""
    assert evidence.read(box.repo, TASK) is None
    assert evidence.head(box.repo, TASK) is None
    commit = write(box, FILES)
    assert evidence.read(box.repo, TASK) == FILES
    assert evidence.head(box.repo, TASK) == commit


def test_same_files_make_no_new_commit(box: Sandbox) -> None:
    """A repeated event leaves one commit; another content is chained to it."""
    first = write(box, FILES)
    assert write(box, dict(reversed(FILES.items())), when="2027-01-01T00:00:00Z") == first
    second = write(box, FILES | {"task.md": b"new"})
    assert box.git("rev-parse", f"{second}^") == first
    assert evidence.read(box.repo, TASK) == FILES | {"task.md": b"new"}


def test_evidence_is_deterministic(box: Sandbox, tmp_path: Path) -> None:
    """The journal alone decides the commit id, so a lost ref can be rebuilt to the same id."""
    assert write(box, FILES) == write(sandbox(tmp_path / "other", files={"x": "y"}), FILES)


def test_nothing_but_the_ref_and_objects_is_touched(box: Sandbox) -> None:
    """Neither index, HEAD, branches nor hooks of the user; signing and reflogs don't matter."""
    box.git("config", "commit.gpgSign", "true")
    hook = box.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    before = user_state(box)
    write(box, FILES)
    after = user_state(box)
    assert before.items() <= after.items()
    added = {name for name in after.keys() - before.keys() if not name.startswith("objects/")}
    assert added == {f"refs/agent-infra/runs/{TASK}"}


def test_heads_of_all_tasks(box: Sandbox) -> None:
    """By task, sorted; what remotes had is none of them."""
    assert evidence.heads(box.repo) == {}
    made = {task: evidence.write(box.repo, task, FILES, message=task, when=WHEN) for task in ("TASK-2", "TASK-1")}
    box.git("update-ref", "refs/agent-infra/remotes/origin/runs/TASK-3", made["TASK-1"])
    assert list(evidence.heads(box.repo).items()) == sorted(made.items())


def test_lost_evidence_goes_on_with_what_a_remote_had(box: Sandbox) -> None:
    """The longest journal that ours begins with is built on; one that ours contradicts is not."""
    short, long = (write(box, FILES | {"journal.jsonl": b"{}\n" * lines}) for lines in (1, 2))
    other = write(box, FILES | {"journal.jsonl": b"[]\n"})
    for name, commit in (("origin", short), ("the/fork", long), ("odd", other)):
        box.git("update-ref", f"refs/agent-infra/remotes/{name}/runs/{TASK}", commit)
    box.git("update-ref", "-d", evidence.ref_name(TASK))
    new = write(box, FILES | {"journal.jsonl": b"{}\n" * 3})
    assert box.git("rev-parse", f"{new}^") == long
    box.git("update-ref", "-d", evidence.ref_name(TASK))
    assert write(box, FILES | {"journal.jsonl": b"{}\n" * 2}) == long
    assert evidence.head(box.repo, TASK) == long
    box.git("update-ref", "-d", evidence.ref_name(TASK))
    assert box.git("log", "--format=%P", write(box, FILES | {"journal.jsonl": b"x\n"})) == ""


def test_evidence_can_be_fetched_and_survives_gc(box: Sandbox, tmp_path: Path) -> None:
    """With a clone and its evidence refs anyone can read it."""
    write(box, FILES)
    box.git("gc", "-q", "--prune=now")
    box.git("clone", "-q", str(box.path), str(tmp_path / "c"))
    clone = Sandbox(tmp_path / "c")
    clone.git("fetch", "-q", "origin", "refs/agent-infra/*:refs/agent-infra/*")
    assert evidence.read(clone.repo, TASK) == FILES


def test_lost_race_is_tried_again(box: Sandbox) -> None:
    """Of many writers none is lost and the chain has one line."""
    repo = box.repo

    def add(number: int) -> str:
        return evidence.write(repo, TASK, {"n": b"%d" % number}, message="m", when=WHEN)

    with ThreadPoolExecutor(4) as pool:
        commits = list(pool.map(add, range(12)))
    chain = box.git("rev-list", evidence.ref_name(TASK)).split()
    assert sorted(chain) == sorted(commits)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"../x": b""}, id="leaves the tree"),
        pytest.param({"/x": b""}, id="absolute"),
        pytest.param({"a//b": b""}, id="empty part"),
        pytest.param({".git/config": b""}, id="git's own folder"),
        pytest.param({"a": b"", "a/b": b""}, id="file and folder of one name"),
    ],
)
def test_paths_that_no_tree_can_hold(files: dict[str, bytes], box: Sandbox) -> None:
    with pytest.raises(GitError, match="evidence") as failed:
        write(box, files)
    assert failed.value.code == ErrorCode.GIT_FAILED
    assert evidence.head(box.repo, TASK) is None


def test_ref_that_git_refuses_is_named(box: Sandbox) -> None:
    """A name that can't be a ref fails in git's words, at once."""
    with pytest.raises(GitError, match="update-ref"):
        evidence.write(box.repo, "TASK..1", FILES, message="m", when=WHEN)


@pytest.mark.parametrize("kind", ["sha256", "partial clone", "unborn"])
def test_odd_repositories(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where libgit2 can't write git does, to the same id."""
    if kind == "partial clone":
        box = partial_clone(sandbox(tmp_path / "o"), tmp_path / "r")
    else:
        box = sandbox(tmp_path / "r", "--object-format=sha256" if kind == "sha256" else "-q", files={})
    commit = write(box, FILES)
    assert evidence.read(box.repo, TASK) == FILES
    box.git("fsck", "--strict", commit)
    box.git("update-ref", "-d", evidence.ref_name(TASK))
    monkeypatch.setattr(evidence, "attempt", lambda *_: None)
    assert write(box, FILES) == commit


def test_objects_reach_the_disk(box: Sandbox, tmp_path: Path) -> None:
    """Both ways of writing fsync what the ref will name."""
    if subprocess.run(["sh", "-c", "command -v strace"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not here")
    script = (
        "from pathlib import Path; from agent_infra.git import evidence; from agent_infra.git.repo import discover;"
        f"evidence.write(discover(Path({str(box.path)!r})), 'T', {{'a': b'1'}}, message='m', when='{WHEN}')"
    )
    log = tmp_path / "log"
    traced = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(log), sys.executable, "-c", script]
    subprocess.run(traced, check=True, cwd=Path(__file__).parents[2])
    assert log.read_text().count("sync(") >= 4, "a blob, a tree, a commit and the ref"


def test_evidence_that_lost_an_object_is_not_read_as_less(box: Sandbox) -> None:
    write(box, FILES)
    oid = box.git("rev-parse", f"{evidence.ref_name(TASK)}:task.md")
    (box.path / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    with pytest.raises(GitError, match=f"{TASK} is incomplete: {oid} is gone"):
        evidence.read(box.repo, TASK)
