"""Places that cannot be written and arguments that are no text: a code and a sentence, and nothing changes."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_infra.stores.atomic import locked
from tests.support.world import OTHER, PROGRAM, TASK, World, check_answer

FOLDER = f".agents/workspace/active/{TASK}"


# -- places that cannot be written


@pytest.mark.parametrize("name", ["runs", "guards", "lock"])
def test_a_place_of_ours_that_cannot_be_written(world: World, name: str) -> None:
    """Something lies in the way: STORE_WRITE_FAILED names it, and no run begins."""
    world.task()
    world.common.mkdir()
    path = world.common / name
    if name == "lock":
        path.mkdir()
    else:
        path.write_text("in the way")
    before = world.moved()
    answer = world.verb("begin")
    assert (answer.exit, answer["changed"]) == (1, False), answer.out
    assert name in answer.message
    assert world.moved() == before


def test_a_lock_that_somebody_holds(world: World) -> None:
    """Waited for and never stolen: LOCK_TIMEOUT names the holder; questions take no lock."""
    world.begun()
    with locked(world.common / "lock"):
        assert world.ok("status")["status"] == "running"
        message = world.refused("LOCK_TIMEOUT", "pause", "--code", "X", "--message", "y").message
    assert str(os.getpid()) in message
    world.ok("pause", "--code", "X", "--message", "y")


@pytest.mark.parametrize("kind", ["folder", "fifo", "symlink"])
def test_a_journal_that_is_no_regular_file(world: World, kind: str) -> None:
    """Neither followed nor waited for."""
    world.begun()
    path = world.journal()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(world.root / "README.md")
    for verb in (("status",), ("begin",), ("pause", "--code", "X", "--message", "y"), ("repair",)):
        world.refused("ORCHESTRATION_JOURNAL_INVALID", *verb)


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_the_worktree_of_a_run_is_gone(world: World, left: str) -> None:
    """The run can be seen, given up and begun elsewhere."""
    linked = world.base / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "other")
    world.task()
    world.ok("begin", cwd=linked)
    world.ok("prepare", "--client", "claude-code", cwd=linked)
    shutil.rmtree(linked)
    if left == "an empty folder":
        linked.mkdir()
    assert world.ok("status")["status"] == "running"
    world.refused("ORCHESTRATION_WORKTREE_MISMATCH", "complete", "--agent", "claude")
    assert world.ok("abandon", "--reason", "gone")["run"]["pendingDelegation"] is None
    assert world.ok("end", "--reason", "gone")["status"] == "completed"
    assert world.ok("begin")["run"]["worktree"] == str(world.root)
    world.step()


def test_names_that_are_no_text(world: World) -> None:
    """A folder of any bytes works; a branch whose name no record can hold is refused by a sentence."""
    root = Path(os.fsdecode(os.fsencode(world.base) + b"/rep\xff"))
    world.root = world.root.rename(root)
    world.begun()
    world.step()
    assert world.run()["worktree"].endswith("/rep%FF")
    world.completed()
    world.git("switch", "-q", "-c", os.fsdecode(b"odd\xff"))
    assert "odd%FF" in world.stop("reviewer")["run"]["pause"]["message"]
    world.task(OTHER)
    assert "odd%FF" in world.refused("ORCHESTRATION_BRANCH_MISMATCH", "begin", task=OTHER).message


def test_through_a_symlink(world: World) -> None:
    """The same worktree by another path is the same worktree."""
    (world.base / "link").symlink_to(world.root)
    world.begun()
    world.ok("prepare", "--client", "claude-code", cwd=world.base / "link")


# root may write everywhere, unless it gives that up
MORTAL = [] if os.getuid() else ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
PLACES = [FOLDER, ".git", ".git/agent-infra", ".git/agent-infra/runs", ".git/agent-infra/objects"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.skipif(bool(MORTAL) and not shutil.which("setpriv"), reason="root, and no way to give that up")
def test_a_read_only_folder(world: World, place: str) -> None:
    """Verbs that write fail with a sentence and move nothing; questions are answered."""
    world.begun()
    world.step()
    world.write("src/new.py", f"{place}\n")
    inside = [path for path in (world.root / place).rglob("*") if path.is_dir()]
    shut = [world.root / place, *inside, *([world.journal()] if place.endswith("runs") else [])]
    for path in shut:
        path.chmod(path.stat().st_mode & 0o555)
    before = world.moved()
    try:
        for verb in ("status", "route"):
            answer = world.process("orchestrate", verb, TASK, before=MORTAL)
            check_answer(answer)
            assert answer.exit == 0, answer.out
        answer = world.process("orchestrate", "prepare", TASK, "--client", "claude-code", before=MORTAL)
        check_answer(answer)
        assert (answer.exit, answer["changed"]) == (1, False), answer.out
        assert answer.code in {"STORE_WRITE_FAILED", "ORCHESTRATION_SNAPSHOT_FAILED"}, answer.out
        assert str(world.root) in answer.message
        assert world.moved() == before
        # a pause needs no new file below `.git`: it happens whole, or not at all
        answer = world.process("orchestrate", "pause", TASK, "--code", "X", "--message", "y", before=MORTAL)
        check_answer(answer)
        assert (answer.exit == 0) == answer["changed"] == (world.moved() != before)
    finally:
        for path in shut:
            path.chmod(path.stat().st_mode | 0o200)
    world.ok("begin")
    world.step()


# -- arguments that are no text


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["status", b"TASK-\xff"], id="task"),
        pytest.param(["pause", TASK, "--code", b"X\xff", "--message", "y"], id="code"),
        pytest.param(["pause", TASK, "--code", "X", "--message", b"y\xff\xfe"], id="message"),
        pytest.param(["abandon", TASK, "--reason", b"\xed\xa0\x80"], id="a surrogate"),
        pytest.param(["end", TASK, "--reason", b"\xff"], id="reason"),
        pytest.param(["begin", TASK, b"--\xff", "x"], id="option"),
        pytest.param([b"\xff", TASK], id="verb"),
        pytest.param(["prepare", TASK, "--client", b"\xff"], id="client"),
        pytest.param(["prepare", TASK, "--client", "claude-code", "--requested-model", b"m\xff"], id="model"),
        pytest.param(["complete", TASK, "--agent", b"\xff"], id="agent"),
        pytest.param(["complete", TASK, "--agent", "claude", "--artifact", b"\xff.md"], id="artifact"),
        pytest.param(["reopen", TASK, "--stage", b"\xff", "--reason", "x"], id="stage"),
    ],
)
def test_bytes_that_are_no_text(world: World, args: list[str | bytes]) -> None:
    """A sentence, exit 1 or 2, one line of JSON that is UTF-8, and nothing moved."""
    world.begun()
    before = world.moved()
    answer = world.process("orchestrate", *args)
    check_answer(answer)
    assert answer.exit in {1, 2}, answer.out
    assert world.moved() == before


def test_an_event_with_bytes_that_are_no_text(world: World) -> None:
    """Ids of children and parents too."""
    world.begun()
    world.prepare()
    before = world.moved()
    for option in ("--child-id", "--parent-id", "--actual-model", "--fallback-reason"):
        event = {"--client": "claude-code", "--native-agent": "agent-infra-lifecycle-executor", "--child-id": "c"}
        event |= {"--parent-id": "p", "--spawn-mode": "fresh"}
        words: list[str | bytes] = [word for pair in (event | {option: ""}).items() for word in pair]
        words[words.index(option) + 1] = b"\xff\xfe"
        answer = world.process("orchestrate", "activate", TASK, *words)
        check_answer(answer)
        assert answer.exit in {1, 2}, answer.out
    assert world.moved() == before


def test_every_text_that_is_text_survives(world: World) -> None:
    """Quotes, line breaks, other scripts, emoji, control characters: in as they are, out as they were."""
    world.begun()
    text = 'zwei\n"drei" \\ 四 😀 \u2028 \x1b[31m end'
    answer = world.process("orchestrate", "pause", TASK, "--code", "X", "--message", text)
    check_answer(answer)
    assert answer["run"]["pause"]["message"] == text
    assert world.run()["pause"]["message"] == text


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"LC_ALL": "C", "LANG": "C"}, id="C"),
        pytest.param({"LC_ALL": "POSIX"}, id="POSIX"),
        pytest.param({"PYTHONIOENCODING": "ascii"}, id="ASCII streams"),
        pytest.param({"PYTHONIOENCODING": "latin-1:strict"}, id="Latin streams"),
    ],
)
def test_a_poor_locale(world: World, env: dict[str, str]) -> None:
    """Hooks are started with whatever environment there is; what was said is what is kept."""
    world.begun()
    answer = world.process("orchestrate", "pause", TASK, "--code", "X", "--message", "héllo 四", env=env)
    assert answer.exit == 0, answer.err
    assert answer["run"]["pause"]["message"] == "héllo 四"
    assert world.run()["pause"]["message"] == "héllo 四"


def test_outside_of_a_repository(world: World) -> None:
    """REPO_ROOT_NOT_FOUND, also for a folder that is not there."""
    for cwd in (world.base, world.base / "nowhere", world.root / "README.md"):
        answer = world.call("orchestrate", "status", TASK, cwd=cwd)
        check_answer(answer)
        assert (answer.exit, answer.code) == (1, "REPO_ROOT_NOT_FOUND")
    world.git("init", "-q", "--bare", str(world.base / "bare"))
    answer = world.call("orchestrate", "status", TASK, cwd=world.base / "bare")
    assert (answer.exit, answer.code) == (1, "REPO_ROOT_NOT_FOUND")


def test_an_unborn_branch_and_a_detached_head(world: World) -> None:
    """A run needs no commit, and no branch."""
    world.git("checkout", "-q", "--orphan", "young")
    assert world.begun()["run"]["baseline"]["head"] is None
    world.step()
    world.git("checkout", "-q", "-f", "--detach", "main")
    run = world.begun(task=OTHER)["run"]
    assert run["branch"] is None
    world.step(task=OTHER)


def test_leftover_git_variables_mean_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository is found from the folder alone."""
    world.begun()
    monkeypatch.setenv("GIT_DIR", str(world.base / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(world.base / "index"))
    assert world.ok("status")["status"] == "running"


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"], ids=["a full disk", "closed"])
def test_an_answer_that_nobody_can_read(world: World, redirect: str) -> None:
    """What was recorded stands, and no traceback is shown."""
    world.begun()
    argv = f"exec {shlex.quote(str(PROGRAM))} orchestrate prepare {TASK} --client claude-code {redirect}"
    done = subprocess.run(
        ["sh", "-c", argv], cwd=world.root, env=world.environment(), capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == (1 if "full" in redirect else 0)
    assert world.pending()["status"] == "prepared"
