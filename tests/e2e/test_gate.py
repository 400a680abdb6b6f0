"""git refuses what was not reviewed: real commits in real repositories, through the installed shims."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.core.lifecycle import Flow
from agent_infra.services.guard import gate
from tests.support.lifecycle import FIXED, OTHER, PROGRAM, TASK, World, fresh, terminal, world_at

At = Callable[[str], World]
COMMAND = f"`agent-infra commit {TASK} -m MESSAGE`"


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


def linked(world: World, name: str = "other", *options: str) -> World:
    """Another worktree of the same repository."""
    path = world.root.parent / name
    world.git("worktree", "add", "-q", *options, str(path))
    return World(path, world.env)


def staged(world: World) -> list[str]:
    return world.git("diff", "--cached", "--name-only").out.split()


# -- the commit that was earned ----------------------------------------------------------------------------------------


def test_a_plain_commit_of_what_was_reviewed_passes_with_trailers(at: At) -> None:
    """The whole way: an authorized `git commit` gets the trailers, is recorded, and the run completes."""
    world = at("ready")
    before = world.head
    world.open_step()
    world.git("add", "src/app.py")
    world.git("commit", "-q", "-m", "fix: sum")
    run = world.view()
    assert world.trailers() == {
        "Agent-Infra-Task": TASK,
        "Agent-Infra-Run": run["runId"],
        "Agent-Infra-Receipt": world.journal()[-1]["prev"],
    }
    assert run["commitAuthorization"]["commit"] == world.head
    assert run["commitAuthorization"]["consumedAt"] is None
    assert run["status"] == "running"
    assert world.close_step() == "completed"
    assert world.view()["commitAuthorization"]["consumedAt"]
    assert world.git("rev-parse", "HEAD^").out.strip() == before
    assert world.git("log", "-1", "--format=%s").out.strip() == "fix: sum"
    evidence = world.git("show", f"refs/agent-infra/runs/{TASK}:orchestration.json").out
    assert world.head in evidence


def test_our_command_commits_exactly_what_was_reviewed(at: At) -> None:
    """Strangers in the index stay staged, in the worktree dirty, and neither gets into the commit."""
    world = at("opened")
    world.write("staged.txt", "mine\n")
    world.git("add", "staged.txt")
    world.write("README.md", "# dirty\n")
    world.write("notes.txt", "scratch\n")
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.committed() == ["M src/app.py"]
    status = world.git("status", "--porcelain").out.splitlines()
    assert status == [" M README.md", "A  staged.txt", "?? notes.txt"]
    assert world.close_step() == "completed"


def test_our_command_puts_the_reviewed_bytes_in_whatever_lies_there(at: At) -> None:
    """A later byte in the worktree or the index stays out of the commit and where it is, as a change."""
    world = at("opened")
    world.write("src/app.py", FIXED + "# staged\n")
    world.git("add", "src/app.py")
    world.write("src/app.py", FIXED + "# later\n")
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.git("show", "HEAD:src/app.py").out == FIXED
    assert (world.root / "src/app.py").read_text() == FIXED + "# later\n"
    assert world.git("status", "--porcelain").out == " M src/app.py\n"


def test_our_command_works_in_a_subfolder_and_answers_json(at: At) -> None:
    """The repository is found from below, and `--json` prints one object."""
    world = at("opened")
    answer = world.cli("commit", TASK, "-m", "fix: sum", "--json", cwd=world.root / "src")
    assert answer.json["status"] == "running"
    assert answer.json["notes"] == [f"committed {world.head}"]


@pytest.mark.parametrize(
    "option", [pytest.param("commit.verbose=true", id="verbose"), "commit.template=note", "commit.cleanup=verbatim"]
)
def test_our_command_is_not_led_astray_by_the_user_s_settings(at: At, option: str) -> None:
    """What a person likes to see in the editor does not get into the message."""
    world = at("opened")
    world.write(".git/note", "a template\n")
    world.git("config", *option.replace("=note", f"={world.root}/.git/note").split("=", 1))
    world.cli("commit", TASK, "-m", "fix: sum")
    lines = world.git("log", "-1", "--format=%B").out.strip().splitlines()
    assert [line for line in lines if line and not line.startswith("Agent-Infra-")] == ["fix: sum"]
    assert len(world.trailers()) == 3


@pytest.mark.parametrize("verbose", ["false", "true"])
def test_the_trailers_survive_an_editor(at: At, verbose: str) -> None:
    """Message written in an editor, also above the scissors of `commit.verbose`: trailers are found by git."""
    world = at("opened")
    world.git("config", "commit.verbose", verbose)
    editor = world.write(
        ".git/editor",
        '#!/bin/sh\n{ echo \'fix: sum\'; echo; echo why; cat "$1"; } >"$1.new"; mv "$1.new" "$1"\n',
        mode=0o755,
    )
    world.git("commit", "-qa", env={"GIT_EDITOR": str(editor)})
    assert len(world.trailers()) == 3
    assert "diff --git" not in world.git("log", "-1", "--format=%B").out
    assert world.close_step() == "completed"


def test_a_message_with_trailers_of_its_own_keeps_them(at: At) -> None:
    """Ours are added to the block; forged or repeated ones of ours are replaced."""
    world = at("opened")
    message = "fix: sum\n\nwhy\n\nSigned-off-by: A <a@b>\nAgent-Infra-Task: TASK-20000101-000000\n"
    world.git("commit", "-qa", "-m", message)
    body = world.git("log", "-1", "--format=%B").out
    assert body.count("Agent-Infra-Task:") == 1
    assert world.trailers()["Agent-Infra-Task"] == TASK
    assert "Signed-off-by: A <a@b>" in body
    assert world.close_step() == "completed"


def test_an_empty_message_stays_an_empty_message(at: At) -> None:
    """Trailers must not turn an aborted commit into one."""
    world = at("opened")
    world.refused("-qa", "-m", "", says=("empty commit message",))
    world.refused("-qa", env={"GIT_EDITOR": "true"})
    answer = world.cli("commit", TASK, "-m", " \n", check=False)
    assert answer.code == 1
    assert "empty" in answer.err
    world.cli("commit", TASK, "-m", "fix: sum")


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_commit_in_the_middle_names_task_paths_and_ways_on(at: At) -> None:
    world = at("begun")
    world.write("src/app.py", FIXED)
    world.git("add", "src/app.py")
    words = world.refused("-q", "-m", "early", says=(TASK, "src/app.py", "COMMIT_UNAUTHORIZED"))
    assert f"agent-infra orchestrate route {TASK}" in words
    assert f"agent-infra orchestrate end {TASK}" in words
    assert "agent-infra gate allow" in words
    assert "git worktree add" in words
    assert staged(world) == ["src/app.py"]


def test_an_authorization_without_a_child_authorizes_nothing(at: At) -> None:
    """Prepared is not activated."""
    world = at("ready")
    world.verb("prepare", "--client", "claude-code")
    world.refused("-qam", "too early", says=(TASK, "commit is prepared"))
    answer = world.cli("commit", TASK, "-m", "too early", check=False)
    assert answer.code == 1
    assert "commit is prepared" in answer.err


def _more_bytes(world: World) -> tuple[str, ...]:
    world.write("src/app.py", FIXED + "#")
    return ("-qam", "x")


def _dirty_stranger(world: World) -> tuple[str, ...]:
    world.write("README.md", "# behind the review\n")
    return ("-qam", "x")


def _by_path(world: World) -> tuple[str, ...]:
    world.git("add", "src/app.py")
    world.write("README.md", "# behind the review\n")
    return ("-q", "-m", "x", "README.md")


def _included(world: World) -> tuple[str, ...]:
    world.git("add", "src/app.py")
    world.write("README.md", "# behind the review\n")
    return ("-q", "-m", "x", "--include", "README.md")


def _deleted(world: World) -> tuple[str, ...]:
    world.git("add", "src/app.py")
    world.git("rm", "-q", "README.md")
    return ("-q", "-m", "x")


def _renamed(world: World) -> tuple[str, ...]:
    world.git("add", "src/app.py")
    world.git("mv", "src/old.py", "README.md.py")
    return ("-q", "-m", "x")


def _mode(world: World) -> tuple[str, ...]:
    world.git("add", "src/app.py")
    world.git("update-index", "--chmod=+x", "README.md")
    return ("-q", "-m", "x")


def _odd_name(world: World) -> tuple[str, ...]:
    world.write("a b\n.txt", "x")
    world.git("add", "-A")
    return ("-q", "-m", "x")


def _symlink(world: World) -> tuple[str, ...]:
    (world.root / "src/app.py").unlink()
    (world.root / "src/app.py").symlink_to("old.py")
    return ("-qam", "x")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(_more_bytes, ("src/app.py",), id="one-byte-more"),
        pytest.param(_dirty_stranger, ("README.md",), id="commit-all"),
        pytest.param(_by_path, ("src/app.py", "README.md"), id="commit-path"),
        pytest.param(_included, ("README.md",), id="commit-include"),
        pytest.param(_deleted, ("README.md",), id="deletion"),
        pytest.param(_renamed, ("src/old.py", "README.md.py"), id="rename"),
        pytest.param(_mode, ("README.md",), id="mode"),
        pytest.param(_odd_name, ("a b",), id="newline-in-name"),
        pytest.param(_symlink, ("src/app.py",), id="symlink"),
        pytest.param(lambda _: ("-q", "--allow-empty", "-m", "x"), ("src/app.py",), id="empty-commit"),
    ],
)
def test_another_tree_is_refused_with_its_path(
    at: At, change: Callable[[World], tuple[str, ...]], named: tuple[str, ...]
) -> None:
    """Whatever differs from the reviewed tree is named, with the command that commits the right one."""
    world = at("opened")
    options = change(world)
    index = world.git("ls-files", "-s").out
    words = world.refused(*options, says=(TASK, COMMAND))
    for path in named:
        assert f"differs from what was reviewed: {path}" in words
    assert world.git("ls-files", "-s").out == index
    assert world.view()["commitAuthorization"]["commit"] is None


def test_partial_staging_is_judged_by_what_is_staged(at: At) -> None:
    """As with `add -p`: half of the reviewed change is refused, the whole passes with more in the worktree."""
    world = at("opened")
    blob = (
        subprocess.run(
            ["git", "hash-object", "-w", "--stdin"], cwd=world.root, input=b"half\n", capture_output=True, check=True
        )
        .stdout.decode()
        .strip()
    )
    world.git("update-index", "--cacheinfo", f"100644,{blob},src/app.py")
    world.refused("-q", "-m", "half", says=("src/app.py",))
    world.git("add", "src/app.py")
    world.write("src/app.py", FIXED + "# not staged\n")
    world.git("commit", "-q", "-m", "fix: sum")
    assert world.git("show", "HEAD:src/app.py").out == FIXED


def test_commit_path_of_the_reviewed_path_leaves_others_staged(at: At) -> None:
    """`git commit PATH` commits a temporary index: that one is judged."""
    world = at("opened")
    world.write("mine.txt", "x")
    world.git("add", "mine.txt")
    world.git("commit", "-q", "-m", "fix: sum", "--", "src/app.py")
    assert world.committed() == ["M src/app.py"]
    assert staged(world) == ["mine.txt"]
    assert world.close_step() == "completed"


def test_a_second_commit_is_not_authorized(at: At) -> None:
    """Once the commit is recorded nothing is authorized any more, though its step is still pending."""
    world = at("opened")
    world.git("commit", "-qam", "fix: sum")
    world.refused("-q", "--allow-empty", "-m", "again", says=(TASK,))
    answer = world.cli("commit", TASK, "-m", "again", check=False)
    assert answer.code == 1
    assert "committed already" in answer.err


def test_a_moved_head_is_not_the_authorized_parent(at: At) -> None:
    """The authorization is for one parent; the refusal says how to get a new one."""
    world = at("opened")
    tree = world.git("rev-parse", "HEAD^{tree}").out.strip()
    other = world.git("commit-tree", tree, "-p", "HEAD", "-m", "moved").out.strip()
    world.git("-c", "core.hooksPath=/dev/null", "update-ref", "refs/heads/main", other)
    world.refused("-qam", "fix: sum", says=(TASK, "orchestrate abandon"))
    answer = world.cli("commit", TASK, "-m", "fix: sum", check=False)
    assert answer.code == 1
    assert "orchestrate abandon" in answer.err
    world.verb("abandon", "--reason", "HEAD moved")
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"


def test_a_merge_that_is_under_way_is_not_the_authorized_commit(at: At) -> None:
    """With MERGE_HEAD git would make a second parent that nobody reviewed."""
    world = at("opened")
    tree = world.git("rev-parse", "HEAD^{tree}").out.strip()
    side = world.git("commit-tree", tree, "-p", "HEAD", "-m", "side").out.strip()
    world.write(".git/MERGE_HEAD", f"{side}\n")
    world.git("add", "src/app.py")
    world.refused("-q", "-m", "merge", says=(TASK, "merge"))
    answer = world.cli("commit", TASK, "-m", "fix: sum", check=False)
    assert answer.code == 1
    assert (world.root / ".git/MERGE_HEAD").exists()


@pytest.mark.parametrize("by_us", [False, True])
def test_a_hook_that_was_there_may_veto_and_may_not_smuggle(at: At, by_us: bool) -> None:
    """Earlier hooks run first; what one rewrites and adds is judged, and named."""
    world = at("opened")
    moved = world.root / ".git/agent-infra/hooks/moved"
    moved.mkdir(parents=True)
    older = moved / "pre-commit"
    older.write_text("#!/bin/sh\necho no keys >&2\nexit 1\n")
    older.chmod(0o755)

    def attempt() -> str:
        if by_us:
            answer = world.cli("commit", TASK, "-m", "fix: sum", check=False)
            assert answer.code == 1
            return answer.err
        return world.refused("-qam", "fix: sum")

    assert "no keys" in attempt()
    older.write_text("#!/bin/sh\nprintf 'formatted\\n' >>src/app.py\ngit add src/app.py\n")
    assert "src/app.py" in attempt()
    assert world.trailers() == {}


def test_a_signature_that_fails_leaves_the_authorization_open(at: At) -> None:
    """git refuses after our hooks said yes: nothing was consumed, the next try passes."""
    world = at("opened")
    world.git("config", "gpg.program", "false")
    world.refused("-qaS", "-m", "signed")
    assert world.view()["commitAuthorization"]["commit"] is None
    world.git("config", "commit.gpgsign", "true")
    answer = world.cli("commit", TASK, "-m", "signed", check=False)
    assert answer.code == 1
    assert "gpg" in answer.err
    world.git("config", "--unset", "commit.gpgsign")
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"


# -- what may be in a commit -------------------------------------------------------------------------------------------


def test_every_kind_of_change_goes_from_review_to_commit(at: At) -> None:
    """Deletion, rename, mode, symlink, folder in place of a file, odd names: reviewed and committed as they are."""
    world = at("begun")
    bytes_name = os.fsdecode(b"caf\xe9 \xff.txt") if sys.platform == "linux" else "café.txt"

    def work() -> None:
        world.fix()
        (world.root / "README.md").unlink()
        (world.root / "README.md").mkdir()
        world.write("README.md/inside", "x")
        (world.root / "src/old.py").rename(world.root / "src/new.py")
        (world.root / "tool.sh").chmod(0o755)
        (world.root / "link").symlink_to("src/app.py")
        for name in ("with space", "new\nline", ":(glob)*", "-n", '"q"\t', bytes_name):
            world.write(name, name.encode(errors="surrogateescape"))

    world.to_commit(work=work)
    step = world.open_step()
    world.cli("commit", TASK, "-m", "all kinds")
    assert set(world.committed()) == {
        "M src/app.py",
        "D README.md",
        "A README.md/inside",
        "D src/old.py",
        "A src/new.py",
        "M tool.sh",
        "A link",
        "A with space",
        "A new\nline",
        "A :(glob)*",
        "A -n",
        'A "q"\t',
        f"A {bytes_name}",
    }
    assert world.git("status", "--porcelain").out == ""
    assert step.stage == "commit"
    assert world.close_step() == "completed"


def test_what_lay_there_before_begin_stays_out(at: At) -> None:
    """Dirty before the run and untouched by it: not reviewed, not committed; `begin --from-head` takes it in."""
    world = at("installed")
    world.write("README.md", "# dirty before\n")
    world.write("scratch.txt", "x\n")
    world.make_task()
    world.begin()
    world.to_commit()
    world.open_step()
    world.refused("-qam", "too much", says=("README.md",))
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.committed() == ["M src/app.py"]
    assert world.git("status", "--porcelain").out.splitlines() == [" M README.md", "?? scratch.txt"]


def test_a_submodule_s_commit_is_a_path_like_any_other(at: At) -> None:
    """A moved gitlink is reviewed and committed; another one is refused by its path."""
    world = at("installed")
    inner = fresh(world.root.parent / "inner", files={"lib.py": "1\n"})
    world.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.root), "vendor/lib")
    world.git("commit", "-qm", "add lib")
    vendor = World(world.root / "vendor/lib", world.env)
    world.make_task()
    world.begin()

    def work() -> None:
        vendor.write("lib.py", "2\n")
        vendor.git("commit", "-qam", "second")

    world.to_commit(work=work)
    world.open_step()
    reviewed = vendor.head
    vendor.git("commit", "-q", "--allow-empty", "-m", "third")
    world.refused("-qam", "later", says=("vendor/lib",))
    world.cli("commit", TASK, "-m", "renew lib")
    assert world.committed() == ["M vendor/lib"]
    assert world.git("rev-parse", "HEAD:vendor/lib").out.strip() == reviewed
    vendor.git("checkout", "-q", reviewed)
    assert world.close_step() == "completed"


def test_the_first_commit_of_a_repository_can_be_earned(at: At) -> None:
    """Unborn branch: no parent, no HEAD, and still the whole lifecycle."""
    at("installed")
    root = Path(at("installed").root.parent / "unborn")
    world = fresh(root, files={})
    world.cli("init", "--yes")
    world.make_task()
    world.begin()
    world.to_commit()
    world.refused("--allow-empty", "-qm", "early", says=(TASK,))
    world.open_step()
    world.git("add", "-A")
    world.refused("-qm", "with the settings", says=(".agents/config.toml",))
    world.cli("commit", TASK, "-m", "first")
    assert world.committed() == ["A src/app.py"]
    assert world.git("rev-list", "--count", "HEAD").out.strip() == "1"
    assert world.close_step() == "completed"


def test_a_detached_head_is_a_place_for_a_run(at: At) -> None:
    """The run belongs to the worktree then; its commit is authorized for the detached HEAD."""
    world = at("installed")
    world.git("checkout", "-q", "--detach")
    world.make_task()
    world.begin()
    world.to_commit()
    world.refused("-qam", "early", says=(TASK,))
    world.open_step()
    world.git("commit", "-qam", "fix: sum")
    assert world.close_step() == "completed"
    assert world.git("rev-parse", "main").out.strip() != world.head


def test_nothing_to_commit_completes_the_run_without_a_receipt(at: At) -> None:
    """Where HEAD has what was reviewed already, prepare completes the run; the guard is lifted."""
    world = at("begun")
    world.to_commit(work=lambda: None)
    answer = world.verb("prepare", "--client", "claude-code")
    assert answer.json["status"] == "completed"
    assert answer.json["run"]["pendingDelegation"] is None
    assert [receipt["stage"] for receipt in world.view()["receipts"]] == ["analysis", "code", "review-code"]
    world.git("commit", "-q", "--allow-empty", "-m", "free")


# -- whom it concerns --------------------------------------------------------------------------------------------------


def test_without_a_guard_no_python_starts(at: At) -> None:
    """The shims are one `sh` test then: a program that can't even run is never asked."""
    world = at("installed")
    world.write("broken", "#!/bin/sh\nexit 99\n", mode=0o755)
    world.git("add", "broken")
    world.git("commit", "-q", "-m", "free", env={"AGENT_INFRA": str(world.root / "broken")})


def test_other_worktrees_are_free_on_other_branches(at: At) -> None:
    """A run guards its worktree whatever is checked out, and its branch wherever that is checked out."""
    world = at("begun")
    other = linked(world, "other", "-b", "side")
    other.write("a.txt", "a")
    other.git("add", "a.txt")
    other.git("commit", "-q", "-m", "free here")
    same = linked(world, "same", "-f", "--detach")
    same.git("checkout", "-q", "--ignore-other-worktrees", "main")
    same.write("a.txt", "a")
    same.git("add", "a.txt")
    same.refused("-q", "-m", "the guarded branch", says=(TASK, "a.txt"))
    world.git("checkout", "-q", "-b", "escape")
    world.refused("-q", "--allow-empty", "-m", "another branch", says=(TASK,))
    world.git("checkout", "-q", "--detach")
    world.refused("-q", "--allow-empty", "-m", "detached", says=(TASK,))


def test_a_run_in_a_linked_worktree(at: At) -> None:
    """The task lies in the primary worktree, the work in the linked one, which the gate asks about; others are free."""
    main = at("installed")
    main.make_task()
    world = linked(main, "linked", "-b", "work")
    world.begin()
    world.primary = main.root
    world.to_commit()
    world.refused("-qam", "early", says=(TASK,))
    main.write("free.txt", "x")
    main.git("add", "free.txt")
    main.git("commit", "-qm", "free")
    world.open_step()
    world.write("README.md", "# more\n")
    world.refused("-qam", "too much", says=("README.md",))
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.committed() == ["M src/app.py"]
    assert world.trailers()["Agent-Infra-Task"] == TASK
    assert world.close_step() == "completed"
    answer = main.verb("status", cwd=world.root)
    assert answer.json["run"]["worktree"] == str(world.root.resolve())


def test_the_primary_worktree_can_t_commit_for_a_linked_one(at: At) -> None:
    main = at("installed")
    main.make_task()
    world = linked(main, "linked", "-b", "work")
    world.begin()
    world.primary = main.root
    world.to_commit()
    world.open_step()
    answer = main.cli("commit", TASK, "-m", "x", check=False)
    assert answer.code == 1
    assert "ORCHESTRATION_WORKTREE_MISMATCH" in answer.err


def test_one_of_several_runs_on_a_branch_suffices(at: At) -> None:
    """Both guard; the one that reviewed authorizes; the other still guards afterwards."""
    world = at("ready")
    world.make_task(OTHER)
    world.begin(OTHER)
    words = world.refused("-qam", "early", says=(TASK, OTHER))
    assert words.count("is running") == 2
    world.open_step()
    world.git("commit", "-qam", "fix: sum")
    assert world.trailers()["Agent-Infra-Task"] == TASK
    assert world.close_step() == "completed"
    world.refused("--allow-empty", "-qm", "more", says=(OTHER,))
    assert world.view(OTHER)["commitAuthorization"]["commit"] is None


def test_an_ended_and_a_completed_run_guard_nothing(at: At) -> None:
    world = at("begun")
    world.verb("end", "--reason", "dropped")
    world.write("src/app.py", "free = 1\n")
    world.git("commit", "-qam", "free again")
    assert world.trailers() == {}
    world = at("opened")
    world.git("commit", "-qam", "fix: sum")
    world.close_step()
    world.git("commit", "-q", "--allow-empty", "-m", "free")
    assert world.trailers() == {}


def test_a_paused_run_guards_and_commits_nothing(at: At) -> None:
    world = at("opened")
    world.verb("pause", "--code", "ASKED", "--message", "wait")
    world.refused("-qam", "fix: sum", says=(TASK, "paused"))
    assert world.cli("commit", TASK, "-m", "x", check=False).code == 1
    world.verb("begin")
    world.git("commit", "-qam", "fix: sum")


def test_a_guard_left_by_a_crash_does_not_guard(at: At) -> None:
    """The journal decides: the guard of a run that is over, or was never begun, only costs a look."""
    world = at("begun")
    guard = world.root / ".git/agent-infra/guards" / TASK
    data = guard.read_bytes()
    world.verb("end", "--reason", "dropped")
    guard.write_bytes(data)
    world.git("commit", "-q", "--allow-empty", "-m", "free")
    world.verb("begin")
    world.refused("--allow-empty", "-qm", "guarded again", says=(TASK,))
    journal = world.root / ".git/agent-infra/runs" / OTHER / "journal.jsonl"
    journal.parent.mkdir()
    journal.write_bytes(b"")
    guard.with_name(OTHER).write_bytes(data)
    assert OTHER not in world.refused("--allow-empty", "-qm", "guarded by one")


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        pytest.param(lambda path: path.unlink(), "ORCHESTRATION_JOURNAL_MISSING", id="journal-gone"),
        pytest.param(lambda path: path.write_bytes(b"{}\n" + path.read_bytes()), "line 1", id="journal-edited"),
    ],
)
def test_a_journal_that_can_t_answer_refuses_and_says_what_helps(
    at: At, damage: Callable[[Path], object], word: str
) -> None:
    """Deleting or editing the record never opens the gate."""
    world = at("begun")
    damage(world.root / ".git/agent-infra/runs" / TASK / "journal.jsonl")
    words = world.refused("--allow-empty", "-qm", "x", says=(TASK, "repair"))
    assert word in words or "is gone" in words


def test_a_vanished_task_folder_still_guards(at: At) -> None:
    """`git clean -fdx` takes the folder, not the guard."""
    world = at("begun")
    world.git("clean", "-fdxq")
    world.refused("--allow-empty", "-qm", "x", says=(TASK,))


def test_a_program_that_is_gone_refuses_with_the_way_out(at: At) -> None:
    world = at("begun")
    bare = {"PATH": "/usr/bin:/bin", "AGENT_INFRA": "/nowhere/agent-infra"}
    for hook in ("pre-commit", "commit-msg", "post-commit"):
        path = world.root / ".git/hooks" / hook
        path.write_text(path.read_text().replace("agent_infra_program=/", "agent_infra_program=/nowhere/"))
    words = world.refused("--allow-empty", "-qm", "x", env=bare)
    assert TASK in words
    assert "agent-infra orchestrate end TASK" in words
    (world.root / ".git/agent-infra/guards" / TASK).unlink()
    world.git("commit", "--allow-empty", "-qm", "x", env=bare)


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"])
def test_our_commands_never_touch_a_foreign_repository(at: At, variable: str) -> None:
    """A variable left over from another repository's hook: ours acts on its own, the other keeps every byte."""
    world = at("opened")
    foreign = fresh(world.root.parent / "foreign")
    value = {
        "GIT_DIR": foreign.root / ".git",
        "GIT_INDEX_FILE": foreign.root / ".git/index",
        "GIT_WORK_TREE": foreign.root,
        "GIT_OBJECT_DIRECTORY": foreign.root / ".git/objects",
    }[variable]
    before = {path: path.read_bytes() for path in foreign.root.rglob("*") if path.is_file()}
    world.cli("commit", TASK, "-m", "fix: sum", env={variable: str(value)})
    world.verb("complete", "--agent", "claude", env={variable: str(value)})
    assert world.committed() == ["M src/app.py"]
    assert {path: path.read_bytes() for path in foreign.root.rglob("*") if path.is_file()} == before


def test_a_commit_made_from_elsewhere_is_judged_in_its_own_repository(at: At) -> None:
    """`git -C`, `--git-dir` and GIT_DIR reach the guarded branch from another folder: the shim's place decides."""
    world = at("begun")
    foreign = fresh(world.root.parent / "foreign")
    git_dir, tree = f"--git-dir={world.root}/.git", f"--work-tree={world.root}"
    for argv in (("-C", str(world.root)), (git_dir, tree)):
        done = foreign.git(*argv, "commit", "-q", "--allow-empty", "-m", "x", check=False)
        assert done.code != 0, argv
        assert TASK in done.err
    # the work tree of somebody else: which worktree this is can't be told, so it is refused
    done = foreign.git(git_dir, f"--work-tree={foreign.root}", "commit", "-q", "--allow-empty", "-m", "x", check=False)
    assert done.code != 0
    assert "COMMIT_UNAUTHORIZED" in done.err


# -- a person's leave --------------------------------------------------------------------------------------------------


def test_allow_lets_exactly_one_commit_pass_on_record(at: At) -> None:
    """Typed by a person at a terminal; the reason, the person and the commit are in the journal."""
    world = at("begun")
    person = terminal(world, "gate", "allow", "--reason", "hotfix for the release")
    person.type(person.until(r"type (\w{6}) to go on")[1])
    code, said = person.end()
    assert code == 0, said
    assert TASK in said
    world.git("commit", "-q", "--allow-empty", "-m", "hotfix")
    assert world.trailers() == {}
    world.refused("--allow-empty", "-qm", "one more", says=(TASK,))
    allow, allowed = world.journal()[-2:]
    assert (allow["op"], allow["memo"]["allowed"]) == ("allow", "hotfix for the release")
    assert allow["facts"]["person"]
    assert (allowed["op"], allowed["facts"]["commit"]) == ("allowed", world.head)


def test_allow_passes_one_commit_even_if_nobody_recorded_it(at: At) -> None:
    """A post-commit hook that was killed must not leave the gate open."""
    world = at("begun")
    gate.allow(world.context, reason="hotfix", person="p")
    world.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "unseen")
    world.refused("--allow-empty", "-qm", "one more", says=(TASK,))


def test_allow_is_not_an_authorization(at: At) -> None:
    """A commit that a person let pass has no trailers of ours, though an authorization is open meanwhile."""
    world = at("opened")
    gate.allow(world.context, reason="hotfix", person="p")
    world.write("README.md", "# urgent\n")
    world.git("commit", "-q", "-m", "hotfix", "README.md")
    assert world.trailers() == {}
    assert world.view()["commitAuthorization"]["commit"] is None


@pytest.mark.parametrize(
    ("env", "typed", "code"),
    [
        pytest.param({"CI": "true"}, None, "GATE_PERSON_REQUIRED", id="ci"),
        pytest.param({"CLAUDECODE": "1"}, None, "GATE_PERSON_REQUIRED", id="claude"),
        pytest.param({"CODEX_THREAD_ID": "x"}, None, "GATE_PERSON_REQUIRED", id="codex-thread"),
        pytest.param({"CODEX_SESSION_ID": "x"}, None, "GATE_PERSON_REQUIRED", id="codex-session"),
        pytest.param({}, "wrong", "GATE_PERSON_REQUIRED", id="wrong-word"),
        pytest.param({}, "", "GATE_PERSON_REQUIRED", id="no-word"),
    ],
)
def test_allow_refuses_whoever_is_no_person(at: At, env: dict[str, str], typed: str | None, code: str) -> None:
    world = at("begun")
    before = world.journal()
    person = terminal(world, "gate", "allow", "--reason", "x", env=env)
    if typed is not None:
        person.until(r"type \w{6} to go on")
        person.type(typed)
    ended, said = person.end()
    assert ended == 1
    assert code in said
    assert world.journal() == before


def test_allow_without_a_terminal_or_a_run(at: At) -> None:
    world = at("begun")
    answer = world.cli("gate", "allow", "--reason", "x", check=False)
    assert answer.code == 1
    assert "TERMINAL_REQUIRED" in answer.err
    world.verb("end", "--reason", "x")
    person = terminal(world, "gate", "allow", "--reason", "x")
    person.type(person.until(r"type (\w{6}) to go on")[1])
    code, said = person.end()
    assert code == 1
    assert "commits are free" in said


@pytest.mark.parametrize("variable", ["CLAUDECODE", "CODEX_THREAD_ID", "CODEX_SESSION_ID"])
def test_an_agent_may_not_end_a_run(at: At, variable: str) -> None:
    world = at("begun")
    answer = world.verb("end", "--reason", "tired", code=1, env={variable: "1"})
    assert answer.error == "GATE_PERSON_REQUIRED"
    world.refused("--allow-empty", "-qm", "x", says=(TASK,))


def test_commit_completes_only_as_the_authorized_commit(at: At) -> None:
    """An amended or bare commit is none: the answer says what it lacks."""
    world = at("opened")
    assert world.verb("complete", "--agent", "claude", code=1).error == "ORCHESTRATION_COMMIT_MISSING"
    world.git("-c", "core.hooksPath=/dev/null", "commit", "-qam", "no trailers")
    answer = world.verb("complete", "--agent", "claude", code=1)
    assert answer.error == "ORCHESTRATION_COMMIT_MISSING"
    assert "Agent-Infra-Task" in answer.json["error"]["message"]


def test_a_full_flow_reaches_its_commit(at: At) -> None:
    """All seven stages, a rejected review on the way."""
    world = at("installed")
    world.make_task()
    world.begin(flow=Flow.FULL)
    world.step()
    finding = "| AN-1 | analysis | 1 | blocker | {} | analysis.md |"
    world.step(work=lambda: world.finding(finding.format("open")), verdict="Rejected", counts=(1, 0, 0))
    assert world.next_stage() == "analysis"
    world.step()
    world.step(work=lambda: world.finding(finding.format("closed")))
    assert world.next_stage() == "plan"
    world.to_commit()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    stages = [receipt["artifact"] for receipt in world.view()["receipts"]]
    assert stages[:4] == ["analysis.md", "review-analysis.md", "analysis-r2.md", "review-analysis-r2.md"]
    assert stages[-1] == "commit"


# -- odd calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are UTF-8 here")
@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(("commit", TASK, "-m", "caf\udce9"), id="message"),
        pytest.param(("orchestrate", "pause", TASK, "--code", "X", "--message", "caf\udce9"), id="pause"),
        pytest.param(("orchestrate", "abandon", TASK, "--reason=caf\udce9"), id="abandon"),
        pytest.param(("gate", "allow", "--reason", "caf\udce9"), id="allow"),
        pytest.param(("task", "create", "--title", "caf\udce9"), id="title"),
    ],
)
def test_words_that_are_no_text_are_a_wrong_call(at: At, argv: tuple[str, ...]) -> None:
    """The journal is UTF-8: other bytes are exit 2 with a sentence, never a traceback, and nothing moves."""
    world = at("opened")
    before = world.journal()
    assert world.cli(*argv, check=False).code == 2
    assert world.journal() == before


def test_our_command_three_times_at_once_commits_once(at: At) -> None:
    """Each works on an index of its own; one is authorized, the others are refused, nothing is half done."""
    world = at("opened")
    before = world.head
    argv = [str(PROGRAM), "commit", TASK, "-m", "fix: sum"]
    at_once = [
        subprocess.Popen(
            argv,
            cwd=world.root,
            env=world.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    assert sorted(process.wait(60) for process in at_once) == [0, 1, 1]
    assert world.git("rev-parse", "HEAD^").out.strip() == before
    assert world.git("status", "--porcelain").out == ""
    assert world.close_step() == "completed"


def test_a_held_index_does_not_undo_the_commit(at: At) -> None:
    """Somebody's index.lock: the commit is made, the answer says that the index is behind, the lock stays theirs."""
    world = at("opened")
    lock = world.write(".git/index.lock", "")
    answer = world.cli("commit", TASK, "-m", "fix: sum")
    assert world.committed() == ["M src/app.py"]
    assert "git reset" in answer.err
    assert lock.exists()
    lock.unlink()
    world.git("reset", "-q")
    assert world.close_step() == "completed"


def test_without_a_step_and_a_terminal_our_command_says_why(at: At) -> None:
    world = at("begun")
    answer = world.cli("commit", TASK, "-m", "x", check=False)
    assert answer.code == 1
    assert f"no step of {TASK} is pending" in answer.err
