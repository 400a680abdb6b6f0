"""`seal` and `advance`: what a child left is compared with what was there, and the first fault is the code."""

import os

import pytest

from tests.support.world import OTHER, REVIEWER, TASK, World

FOLDER = f".agents/workspace/active/{TASK}"


def reviewing(world: World) -> None:
    """A reviewer that has completed its step and not stopped yet."""
    world.begun()
    world.step()
    world.completed()


WRITES = [
    pytest.param("src/app.py", "hacked = 1\n", id="a tracked file"),
    pytest.param("src/new.py", "x = 1\n", id="an untracked file"),
    pytest.param(f"{FOLDER}/analysis.md", "# nicer\n", id="the artifact it judges"),
    pytest.param(f"{FOLDER}/plan.md", "# mine\n", id="another artifact"),
    pytest.param(f"{FOLDER}/notes.txt", "x\n", id="any other file of its task"),
    pytest.param(".gitignore", "*\n", id="the ignore rules"),
    pytest.param(".agents/config.toml", "", id="the settings"),
]


@pytest.mark.parametrize(("path", "text"), WRITES)
def test_a_reviewer_writes_its_review_and_nothing_else(world: World, path: str, text: str) -> None:
    """The path is named, and the run waits."""
    reviewing(world)
    world.write(path, text)
    answer = world.stop("reviewer")
    assert (answer.exit, answer.pause) == (0, "DELEGATION_REVIEWER_WRITE_FORBIDDEN")
    assert path in answer["run"]["pause"]["message"]
    assert path in answer.notes
    assert answer["run"]["pendingDelegation"]["status"] == "stage-completed"


def test_a_deleted_and_a_moved_file_are_changes(world: World) -> None:
    """A rename lists both paths; a mode is a change too."""
    reviewing(world)
    (world.root / "src/app.py").rename(world.root / "src/moved.py")
    (world.root / "README.md").chmod(0o755)
    answer = world.stop("reviewer")
    assert answer.pause == "DELEGATION_REVIEWER_WRITE_FORBIDDEN"
    assert {"src/app.py", "src/moved.py", "README.md"} <= set(answer["notes"])


def test_a_reviewer_may_not_stage(world: World) -> None:
    """The index is the next commit's."""
    world.write("src/app.py", "dirty = 1\n")
    reviewing(world)
    world.git("add", "src/app.py")
    answer = world.stop("reviewer")
    assert answer.pause == "DELEGATION_REVIEWER_WRITE_FORBIDDEN"
    assert "index" in answer["run"]["pause"]["message"]


def test_a_reviewer_may_run_the_tests(world: World) -> None:
    """Caches, ignored files and a refreshed index are no changes."""
    reviewing(world)
    world.write("src/__pycache__/app.pyc", b"\0")
    world.write(".pytest_cache/x", "x")
    world.write("build/out", "x")
    os.utime(world.root / "src/app.py")
    world.git("status")
    assert world.stop("reviewer")["run"]["pendingDelegation"]["status"] == "sealed"


def test_another_task_and_other_refs_are_not_its_business(world: World) -> None:
    """Only its own folder is in the snapshot; stash, tags and other branches are free."""
    reviewing(world)
    world.task(OTHER)
    world.artifact("analysis", task=OTHER)
    world.git("branch", "aside")
    world.git("tag", "mark")
    assert world.stop("reviewer")["run"]["pendingDelegation"]["status"] == "sealed"


def test_an_executor_may_write_what_it_likes(world: World) -> None:
    """It is recorded, names as bytes on disk."""
    world.begun()
    world.completed()
    world.write("src/app.py", "new = 1\n")
    (world.root / os.fsdecode(b"odd-\xff\n.txt")).write_bytes(b"x")
    world.stop("executor")
    paths = world.pending()["changedPaths"]
    assert "src/app.py" in paths
    assert "odd-%FF\n.txt" in paths


@pytest.mark.parametrize("role", ["executor", "reviewer"])
def test_nobody_moves_head(world: World, role: str) -> None:
    """Not even with an equal tree."""
    world.begun()
    if role == "reviewer":
        world.step()
    world.completed()
    world.git("commit", "-q", "--allow-empty", "--no-verify", "-m", "sneaked")
    answer = world.stop(role)
    assert answer.pause == "DELEGATION_HEAD_MOVED"
    assert world.git("rev-parse", "HEAD") in answer["run"]["pause"]["message"]


@pytest.mark.parametrize("args", [("switch", "-q", "-c", "elsewhere"), ("switch", "-q", "--detach")])
def test_nobody_switches_the_branch(world: World, args: tuple[str, ...]) -> None:
    """At the seal it is the same fault."""
    world.begun()
    world.completed()
    world.git(*args)
    assert world.stop("executor").pause == "DELEGATION_HEAD_MOVED"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(("core.hooksPath", "build"), "hooks", id="hooks path"),
        pytest.param(("core.autocrlf", "true"), "core.autocrlf", id="line ends"),
        pytest.param(("filter.x.clean", "cat"), "filter.x.clean", id="a filter"),
        pytest.param(("core.fileMode", "false"), "core.fileMode", id="modes"),
    ],
)
def test_nobody_changes_what_controls_it(world: World, change: tuple[str, str], named: str) -> None:
    """Settings that decide what git sees."""
    world.begun()
    world.completed()
    world.git("config", *change)
    answer = world.stop("executor")
    assert answer.pause == "DELEGATION_CONTROL_CHANGED"
    assert named in answer["run"]["pause"]["message"]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (".git/hooks/pre-commit", "hooks/pre-commit"),
        (".git/info/exclude", "info/exclude"),
        (".git/info/attributes", "info/attributes"),
        (".claude/settings.json", ".claude/settings.json"),
        (".agents/hooks/agent-infra", ".agents/hooks/agent-infra"),
        (".claude/agents/agent-infra-lifecycle-reviewer.md", ".claude/agents/agent-infra-lifecycle-reviewer.md"),
    ],
)
def test_nobody_changes_the_files_that_control_it(world: World, path: str, named: str) -> None:
    """Hooks, ignore rules, the clients' settings."""
    world.begun()
    world.completed()
    world.write(path, "# mine\n")
    answer = world.stop("executor")
    assert answer.pause == "DELEGATION_CONTROL_CHANGED"
    assert named in answer["run"]["pause"]["message"]


def test_the_first_fault_is_the_code(world: World) -> None:
    """Child, role, exit code, HEAD, writes, control: in this order."""
    reviewing(world)
    world.git("config", "core.autocrlf", "true")
    world.write("src/app.py", "x = 1\n")
    world.git("commit", "-q", "--allow-empty", "-m", "x")
    stranger = world.stop("executor", child_id="stranger", exit_code="1")
    assert (stranger.exit, stranger.code) == (1, "DELEGATION_STOP_INVALID")
    assert world.run()["status"] == "running"
    assert world.stop("executor", exit_code="1").pause == "DELEGATION_ROLE_MISMATCH"


def test_faults_after_the_role(world: World) -> None:
    """The exit code comes before HEAD, HEAD before writes, writes before control."""
    reviewing(world)
    world.git("config", "core.autocrlf", "true")
    world.write("src/new.py", "x = 1\n")
    head = world.git("rev-parse", "HEAD")
    world.git("commit", "-q", "--allow-empty", "-m", "x")
    codes = []
    for undo, exit_code in (
        (lambda: None, "3"),
        (lambda: None, "0"),
        (lambda: world.git("reset", "-q", "--soft", head), "0"),
        ((world.root / "src/new.py").unlink, "0"),
    ):
        undo()
        answer = world.stop("reviewer", exit_code=exit_code)
        codes.append(answer.pause)
        # only a test can do this: the journal's last pause is taken back
        lines = world.journal().read_bytes().splitlines(keepends=True)
        world.journal().write_bytes(b"".join(lines[:-1]))
        world.view().unlink()
    assert codes == [
        "DELEGATION_STOP_INVALID",
        "DELEGATION_HEAD_MOVED",
        "DELEGATION_REVIEWER_WRITE_FORBIDDEN",
        "DELEGATION_CONTROL_CHANGED",
    ]


def test_every_snapshot_stays_out_of_the_users_store(world: World) -> None:
    """Nothing unreviewed and untracked enters the user's objects; the index is not written."""
    world.write("secret.txt", "hunter2\n")
    index = (world.root / ".git/index").read_bytes()
    world.begun()
    world.step()
    oid = world.git("hash-object", "secret.txt")
    assert (world.root / ".git/objects" / oid[:2] / oid[2:]).exists() is False
    assert world.git("cat-file", "-t", oid, check=False) == ""
    assert (world.root / ".git/index").read_bytes() == index
    before = world.run()["receipts"][0]["beforeFingerprint"]
    assert not (world.root / ".git/objects" / before[:2] / before[2:]).exists()
    assert (world.common / "objects").is_dir()


def test_a_snapshot_that_cannot_be_taken(world: World) -> None:
    """prepare fails, seal pauses; both leave the receipt as it was, and it goes on afterwards."""
    world.begun()
    objects, aside = world.common / "objects", world.common / "aside"

    def breaks() -> None:
        objects.rename(aside)
        objects.write_text("in the way")

    def mends() -> None:
        objects.unlink()
        aside.rename(objects)

    breaks()
    world.refused("ORCHESTRATION_SNAPSHOT_FAILED", "prepare", "--client", "claude-code")
    mends()
    world.completed()
    breaks()
    foreign = world.stop("executor", child_id="stranger")
    assert foreign.code == "DELEGATION_STOP_INVALID", "a foreign stop wedges nothing"
    assert world.stop("executor").pause == "ORCHESTRATION_SNAPSHOT_FAILED"
    mends()
    world.ok("abandon", "--reason", "no snapshot")
    world.ok("begin")
    world.step()


def test_folders_among_the_hooks_are_no_hooks(world: World) -> None:
    """Hook managers keep folders there."""
    world.write(".git/hooks/_/husky.sh", "#!/bin/sh\n")
    world.write(".agents/hooks/lib/x.sh", "x\n")
    world.begun()
    world.step()


def test_the_native_agent_of_the_stop_must_fit(world: World) -> None:
    """A reviewer's stop does not seal an executor's receipt."""
    world.begun()
    world.completed()
    assert world.stop("executor", native_agent=REVIEWER).pause == "DELEGATION_ROLE_MISMATCH"
