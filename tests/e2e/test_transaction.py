"""Refs of a guarded repository move only as a run or a person says: real git, real hooks, every way to move HEAD."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.services.guard import gate
from agent_infra.stores.atomic import locked
from tests.support.lifecycle import FIXED, OTHER, PROGRAM, TASK, World, fresh, world_at
from tests.support.surroundings import linked, published

At = Callable[[str], World]
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
MINE = FIXED + "# mine\n"


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


@pytest.fixture
def coding(at: At) -> World:
    """A run in the middle of its code step; branches, a patch and a remote to play with."""
    return at("coding")


def edit(world: World, *, stage: bool = False) -> None:
    """What a person must not lose: an edit, an untracked file and, where git allows it, a staged change."""
    world.write("src/app.py", MINE)
    world.write("notes.txt", "untracked\n")
    if stage:
        world.write("tool.sh", "#!/bin/sh\ntrue\n", mode=0o755)
        world.git("add", "tool.sh")
        world.write("staged.txt", "new\n")
        world.git("add", "staged.txt")


def state(world: World) -> dict[str, object]:
    """Branches, HEAD, index and every file of the worktree."""
    files = {
        str(path.relative_to(world.root)): (path.lstat().st_mode, path.read_bytes())
        for path in sorted(world.root.rglob("*"))
        if path.is_file() and not {".git", "workspace"} & set(path.relative_to(world.root).parts)
    }
    return {
        "refs": world.git("for-each-ref", "refs/heads").out,
        "head": world.git("symbolic-ref", "-q", "HEAD", check=False).out + world.head,
        "index": world.git("ls-files", "-s", "-v").out,
        "status": world.git("status", "--porcelain=v2").out,
        "files": files,
    }


def ways_back(words: str) -> list[str]:
    return re.findall(r"way back[^`\n]*`([^`]+)`", words)


def refused(world: World, *args: str, **options: object) -> str:
    """A git command that must not move a branch; the refusal names the task."""
    branches = world.git("for-each-ref", "refs/heads").out
    answer = world.git(*args, check=False, **options)
    assert answer.code != 0, (args, answer)
    assert TASK in answer.err, (args, answer)
    assert "COMMIT_UNAUTHORIZED" in answer.err, answer.err
    assert world.git("for-each-ref", "refs/heads").out == branches
    return answer.err


def undone(world: World, *args: str, stage: bool = False, env: dict[str, str] | None = None) -> str:
    """A refused command whose way back, word for word, leaves everything as it was."""
    edit(world, stage=stage)
    before = state(world)
    words = refused(world, *args, env=env)
    for command in ways_back(words):
        world.run("sh", "-ec", command)
    assert state(world) == before, words
    assert "nothing is to be undone" in words or ways_back(words) or args[0] == "pull", words
    return words


# -- the ways to move a branch -----------------------------------------------------------------------------------------


def test_commit_no_verify_and_amend(coding: World) -> None:
    """What skips pre-commit does not skip the transaction; index and files stay as they were."""
    edit(coding, stage=True)
    before = state(coding)
    words = refused(coding, "commit", "-q", "--no-verify", "-m", "early")
    assert "refs/heads/main" in words
    assert "nothing is to be undone" in words
    for args in (("-a",), ("--amend",), ("-a", "--amend"), ("--allow-empty",), ("--", "src/app.py")):
        refused(coding, "commit", "-q", "--no-verify", "-m", "early", *args)
    refused(coding, "commit", "-q", "-m", "early")
    assert state(coding) == before


@pytest.mark.parametrize(
    ("args", "stage"),
    [
        pytest.param(("merge", "--ff-only", "side"), True, id="merge-ff-only"),
        pytest.param(("merge", "-q", "side"), True, id="merge-that-is-a-fast-forward"),
        pytest.param(("merge", "-q", "--autostash", "side"), True, id="merge-autostash"),
        pytest.param(("merge", "--no-ff", "-m", "m", "side"), False, id="merge"),
        pytest.param(("merge", "--no-ff", "--no-verify", "-m", "m", "side"), False, id="merge-no-verify"),
        pytest.param(("cherry-pick", "side"), False, id="cherry-pick"),
        pytest.param(("cherry-pick", "-x", "side", "fork"), False, id="cherry-pick-two"),
        pytest.param(("cherry-pick", "--ff", "side"), False, id="cherry-pick-ff"),
        pytest.param(("revert", "--no-edit", "HEAD"), False, id="revert"),
        pytest.param(("am", "-q", "../side.patch"), False, id="am"),
        pytest.param(("am", "-q", "-3", "../side.patch"), False, id="am-3way"),
        pytest.param(("pull", "-q", ".", "side"), True, id="pull-without-upstream"),
        pytest.param(("pull", "-q", "--no-rebase", "--no-ff", "--no-edit", ".", "side"), False, id="pull-merge"),
        pytest.param(("checkout", "-q", "-B", "main", "side"), True, id="checkout-B"),
        pytest.param(("switch", "-q", "-C", "main", "side"), True, id="switch-C"),
        pytest.param(("reset", "-q", "--soft", "HEAD~"), True, id="reset-soft"),
        pytest.param(("reset", "-q", "HEAD~"), False, id="reset-mixed-with-nothing-staged"),
        pytest.param(("reset", "-q", "--keep", "HEAD~"), False, id="reset-keep-with-nothing-staged"),
        pytest.param(("update-ref", "refs/heads/main", "side"), True, id="update-ref"),
        pytest.param(("update-ref", "HEAD", "side"), True, id="update-ref-HEAD"),
        pytest.param(("update-ref", "-d", "refs/heads/main"), True, id="update-ref-d"),
        pytest.param(("branch", "-m", "main", "other"), True, id="branch-m"),
        pytest.param(("fetch", "-q", "--update-head-ok", ".", "side:main"), True, id="fetch-into-the-branch"),
    ],
)
def test_a_refusal_can_be_undone_to_the_byte(coding: World, args: tuple[str, ...], stage: bool) -> None:
    """After the printed way back branches, index and files are as before, local edits among them."""
    undone(coding, *args, stage=stage)


def test_a_push_into_the_branch(coding: World) -> None:
    """Nobody moves the guarded branch from outside, whatever `receive.denyCurrentBranch` says."""
    for setting in ("ignore", "updateInstead"):
        coding.git("config", "receive.denyCurrentBranch", setting)
        before = state(coding)
        refused(coding, "push", "-q", ".", "side:main")
        if setting == "ignore":  # else git has updated the files: it is not clear whose
            assert state(coding) == before


def test_reset_hard_says_what_can_t_come_back(coding: World) -> None:
    """The way back is exact for what was committed; lost edits are called lost."""
    before = state(coding)
    words = refused(coding, "reset", "-q", "--hard", "HEAD~")
    for command in ways_back(words):
        coding.run("sh", "-ec", command)
    assert state(coding) == before
    assert "edits of tracked files that were not committed are gone" in words


def test_reset_hard_names_the_snapshot_that_has_the_edits(at: At) -> None:
    """What a step of the run has snapshotted comes back from there, by the printed commands."""
    world = at("ready")
    before = state(world)
    words = refused(world, "reset", "-q", "--hard", "HEAD~")
    commands = [*ways_back(words), *re.findall(r"after that: `([^`]+)`", words)]
    assert len(commands) == 2, words
    for command in commands:
        world.run("sh", "-ec", command)
    after = state(world)
    assert after["files"] == before["files"]
    assert after["index"] == before["index"]


def test_rebase_is_refused_early(coding: World) -> None:
    """`pre-rebase` refuses before anything moves: any branch in the run's worktree, its branch anywhere."""
    edit(coding)
    coding.git("stash", "-q")
    before = state(coding)
    for args in (("fork",), ("fork", "side"), ("--onto", "side", "HEAD~"), ("-i", "HEAD~")):
        refused(coding, "rebase", "-q", *args)
        assert state(coding) == before
    coding.git("checkout", "-q", "--detach")
    other = linked(coding, "other", "--detach")
    words = refused(other, "rebase", "-q", "fork", "main")
    assert "main" in words
    other.git("rebase", "-q", "fork", "side")


def test_rebase_no_verify_is_undone_by_its_abort(coding: World) -> None:
    """Where pre-rebase was skipped the first picked commit, or the last step, is refused; the way back is exact."""
    coding.git(*NO_HOOKS, "switch", "-q", "main")
    coding.git(*NO_HOOKS, "commit", "-q", "--allow-empty", "-m", "nothing")
    coding.write("third.txt", "third\n")
    coding.git("add", "third.txt")
    coding.git(*NO_HOOKS, "commit", "-q", "-m", "third")
    for onto in ("fork", "side"):
        for options in ((), ("--apply",), ("--onto", "HEAD~3")):
            before = state(coding)
            words = refused(coding, "rebase", "-q", "--no-verify", *options, onto)
            for command in ways_back(words):
                coding.run("sh", "-ec", command)
            assert state(coding) == before, words


@pytest.mark.parametrize("options", [(), ("--apply",), ("--autostash",), ("--autostash", "--apply")])
def test_rebase_no_verify_that_is_a_fast_forward(coding: World, options: tuple[str, ...]) -> None:
    """git detaches HEAD, then moves the branch: that is refused, and the way back leads to the branch."""
    if "--autostash" in options:
        edit(coding)
    before = state(coding)
    words = refused(coding, "rebase", "-q", "--no-verify", *options, "fork")
    for command in ways_back(words):
        coding.run("sh", "-ec", command)
    assert state(coding) == before, words


def test_commit_tree_and_update_ref(coding: World) -> None:
    """A commit made by plumbing can't come to any branch or HEAD of the run's worktree."""
    edit(coding, stage=True)
    before = state(coding)
    tree = coding.git("write-tree").out.strip()
    new = coding.git("commit-tree", tree, "-p", "HEAD", "-m", "plumbing").out.strip()
    for args in (
        ("update-ref", "refs/heads/main", new),
        ("update-ref", "HEAD", new),
        ("update-ref", "--no-deref", "HEAD", new),
        ("update-ref", "refs/heads/new", new),
        ("branch", "new", new),
        ("branch", "-f", "side", new),
        ("push", "-q", ".", f"{new}:refs/heads/new"),
    ):
        refused(coding, *args)
        assert state(coding) == before, args


@pytest.mark.parametrize(
    "args", [pytest.param(("--detach",), id="detached"), pytest.param(("-b", "new"), id="new"), ("-B", "main")]
)
def test_a_commit_of_plumbing_can_t_be_checked_out(coding: World, args: tuple[str, ...]) -> None:
    """git has written its files by then; the way back is exact but for what was staged just so, and says that."""
    new = coding.git("commit-tree", "side^{tree}", "-p", "HEAD", "-m", "plumbing").out.strip()
    words = undone(coding, "checkout", "-q", *args, new, stage=True)
    assert f"staged just as {new} has it" in words


def test_a_symbolic_ref_is_no_way_round(coding: World) -> None:
    """An alias of the guarded branch moves it, so it is judged as it; and so is what the guarded branch leads to."""
    coding.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    refused(coding, "update-ref", "refs/heads/alias", "side")
    coding.git("symbolic-ref", "refs/tags/alias", "refs/heads/main")
    refused(coding, "update-ref", "refs/tags/alias", "side")


def test_branch_d_is_refused(coding: World) -> None:
    """The guarded branch stays, packed or loose, also for somebody in another worktree."""
    coding.git("checkout", "-q", "--detach")
    for packed in (True, False):
        if not packed:
            coding.git(*NO_HOOKS, "update-ref", "refs/heads/main", "side")
            coding.git(*NO_HOOKS, "update-ref", "refs/heads/main", coding.head)
        refused(coding, "branch", "-q", "-D", "main")
        refused(coding, "update-ref", "-d", "refs/heads/main", coding.head)
    other = linked(coding, "other", "-b", "free")
    refused(other, "branch", "-q", "-D", "main")
    coding.git("branch", "-q", "-D", "side")


def test_switch_to_another_branch_and_commit_there(coding: World) -> None:
    """The run's worktree makes no commit, whatever is checked out in it."""
    coding.git("switch", "-q", "side")
    coding.write("side.txt", "more\n")
    refused(coding, "commit", "-qam", "x")
    refused(coding, "commit", "-qam", "x", "--no-verify")
    coding.git("checkout", "-q", "--detach")
    refused(coding, "commit", "-qam", "x", "--no-verify")
    coding.git("checkout", "-qf", "main")


def test_a_branch_whose_name_differs_in_case_alone(coding: World) -> None:
    """Where the file system can't tell them apart it is the guarded one."""
    coding.git("branch", "MAIN", "side")
    coding.git("config", "core.ignoreCase", "true")
    refused(coding, "update-ref", "refs/heads/Main", "side")


@pytest.mark.parametrize(
    ("old", "new", "ref", "passes"),
    [
        pytest.param("ref:refs/heads/main", "ref:refs/heads/side", "HEAD", True, id="switch"),
        pytest.param("ref:refs/heads/main", "side", "HEAD", True, id="detach"),
        pytest.param("ref:refs/heads/main", "unknown", "HEAD", False, id="detach-at-an-unknown-commit"),
        pytest.param("main", "ref:refs/heads/side", "refs/heads/main", False, id="guarded-branch-becomes-symbolic"),
        pytest.param("0", "ref:refs/heads/main", "refs/heads/alias", True, id="alias"),
    ],
)
def test_symbolic_lines_of_newer_git(coding: World, old: str, new: str, ref: str, passes: bool) -> None:
    """git 2.46 and newer tell of symbolic refs too: switching HEAD is free, a guarded branch leads nowhere else."""
    unknown = coding.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "x").out.strip()
    known = {name: coding.git("rev-parse", name).out.strip() for name in ("main", "side")}
    values = {"unknown": unknown, "0": "0" * 40, **known}
    done = subprocess.run(
        [coding.root / ".git/hooks/reference-transaction", "prepared"],
        cwd=coding.root,
        env=coding.env,
        input=f"{values.get(old, old)} {values.get(new, new)} {ref}\n".encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode == 0) == passes, done


# -- what is let through -----------------------------------------------------------------------------------------------


def test_what_moves_no_branch_passes(coding: World) -> None:
    """Stash, fetch, tags, notes, bisect, gc, pack-refs, other branches, worktrees: nobody is in the way."""
    edit(coding)
    before = state(coding)
    coding.git("stash", "-qu")
    coding.git("stash", "pop", "-q")
    coding.git("tag", "v1")
    coding.git("tag", "-am", "annotated", "v2")
    coding.git("notes", "add", "-m", "note")
    published(coding)
    coding.git("fetch", "-q")
    coding.git("update-ref", "ORIG_HEAD", "HEAD")
    coding.git("branch", "copy", "side")
    coding.git("branch", "-q", "-f", "copy", "fork")
    coding.git("branch", "-q", "-D", "copy")
    coding.git("pack-refs", "--all")
    coding.git("gc", "-q", "--prune=now")
    coding.git("reset", "-q", "HEAD", "--", "README.md")
    coding.git("update-ref", "refs/heads/main", "HEAD")
    assert state(coding) == before
    coding.git("stash", "-qu")
    coding.git("switch", "-q", "side")
    coding.git("checkout", "-q", "--detach", "fork")
    coding.git("reset", "-q", "--hard", "HEAD~")
    coding.git("switch", "-q", "-c", "new", "side")
    coding.git("switch", "-q", "main")
    coding.git("reset", "-q", "--hard")


def test_packing_a_loose_guarded_branch_passes(coding: World) -> None:
    """git deletes a loose ref that it has packed; that is no deletion."""
    for _ in range(2):
        coding.git(*NO_HOOKS, "update-ref", "refs/heads/main", "side")
        coding.git(*NO_HOOKS, "update-ref", "refs/heads/main", coding.git("rev-parse", "main~").out.strip())
        assert (coding.root / ".git/refs/heads/main").exists()
        coding.git("pack-refs", "--all")
        assert not (coding.root / ".git/refs/heads/main").exists()


def test_other_worktrees_are_free_on_other_branches(coding: World) -> None:
    """There commits, merges, rebases and resets pass; the guarded branch stays guarded from there."""
    other = linked(coding, "other", "-b", "free")
    other.write("a.txt", "a\n")
    other.git("add", "a.txt")
    other.git("commit", "-qm", "free")
    other.git("merge", "-q", "--no-edit", "side")
    other.git("cherry-pick", "fork")
    other.git("reset", "-q", "--hard", "HEAD~")
    other.git("rebase", "-q", "fork")
    refused(other, "update-ref", "refs/heads/main", "free")
    undone(other, "checkout", "-q", "--ignore-other-worktrees", "-B", "main", "side")
    coding.git("checkout", "-q", "--detach")
    refused(other, "branch", "-f", "main", "free")
    refused(other, "fetch", "-q", ".", "free:main")


def test_a_fast_forward_to_the_upstream_passes_and_is_recorded(coding: World) -> None:
    """`pull` brings what is public already; the journal keeps from where to where, and the new head."""
    before, new = coding.head, published(coding)
    edit(coding)
    refused(coding, "pull", "-q", "--ff-only", "origin", "main", "--refmap=")  # not yet on the upstream as known here
    coding.run("sh", "-ec", f"git read-tree -m -u {new} HEAD")
    coding.git("pull", "-q", "--ff-only")
    assert coding.head == new
    line = coding.journal()[-1]
    assert (line["op"], line["memo"]["head"]) == ("upstream", new)
    assert line["facts"] == {"ref": "refs/heads/main", "from": before, "to": new}
    assert not list((coding.root / ".git/agent-infra/moves").iterdir())
    refused(coding, "reset", "-q", "--soft", before)


def test_a_branch_of_this_repository_is_no_upstream(coding: World) -> None:
    """Else following one would be the way round."""
    coding.git("branch", "-q", "--set-upstream-to=side", "main")
    undone(coding, "merge", "-q", "--ff-only", "side", stage=True)


def test_a_missing_branch_is_made_again_only_where_it_was(coding: World) -> None:
    """Taken away behind the hooks, it can come back as the run last saw it, and as nothing else."""
    last = coding.head
    coding.git(*NO_HOOKS, "update-ref", "-d", "refs/heads/main")
    refused(coding, "update-ref", "refs/heads/main", "side")
    refused(coding, "commit", "-q", "--no-verify", "-m", "root")
    coding.git("update-ref", "refs/heads/main", last)
    assert coding.head == last


# -- what a run or a person stands for ---------------------------------------------------------------------------------


def test_the_authorized_commit_passes_in_every_form(at: At) -> None:
    """Tree, parent and trailers decide: our command, plain git, plumbing."""
    world = at("opened")
    world.git("commit", "-qam", "fix: sum")
    assert world.close_step() == "completed"
    world = at("opened")
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    world = at("opened")
    run = world.view()
    world.git("add", "src/app.py")
    tree = world.git("write-tree").out.strip()
    message = f"x\n\nAgent-Infra-Task: {TASK}\nAgent-Infra-Run: {run['runId']}"
    new = world.git("commit-tree", tree, "-p", "HEAD", "-m", message).out.strip()
    refused(world, "update-ref", "refs/heads/other", new)
    world.git("update-ref", "refs/heads/main", new)
    assert world.close_step() == "completed"


def test_nearly_the_authorized_commit_is_refused_with_what_it_lacks(at: At) -> None:
    """No trailers, another tree, another parent, a replaced object: each is named."""
    world = at("opened")
    edit(world)
    world.git("add", "src/app.py")
    run = world.view()
    trailers = f"\n\nAgent-Infra-Task: {TASK}\nAgent-Infra-Run: {run['runId']}\n"
    tree = str(run["commitAuthorization"]["tree"])
    wrong = world.git("write-tree").out.strip()
    store = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(world.root / ".git/agent-infra/objects")}

    def made(tree: str, *parents: str, message: str = f"x{trailers}") -> str:
        options = [word for parent in parents for word in ("-p", parent)]
        return world.git("commit-tree", tree, *options, "-m", message, env=store).out.strip()

    for new, word in (
        (made(tree, "HEAD", message="x"), "Agent-Infra-Task"),
        (made(wrong, "HEAD"), f"its tree is {wrong}"),
        (made(tree, "HEAD~"), "its parent is"),
        (made(tree, "HEAD", "HEAD~"), "its parent is"),
        (made(tree), "its parent is none"),
    ):
        words = refused(world, "update-ref", "refs/heads/main", new, env=store)
        assert word in words, words
    good, bad = made(tree, "HEAD"), made(wrong, "HEAD")
    world.git("replace", bad, good, env=store)
    refused(world, "update-ref", "refs/heads/main", bad, env=store)


def test_the_old_value_is_what_the_ref_holds(at: At) -> None:
    """A second authorized-looking commit does not pass once the branch has moved, recorded or not."""
    world = at("opened")
    before = world.head
    hook = world.root / ".git/hooks/post-commit"
    hook.rename(hook.with_suffix(".off"))
    world.git("commit", "-qam", "fix: sum")
    assert world.view()["commitAuthorization"]["commit"] is None
    again = world.git("commit-tree", "HEAD^{tree}", "-p", before, "-m", world.git("log", "-1", "--format=%B").out)
    refused(world, "update-ref", "refs/heads/main", again.out.strip())
    refused(world, "commit", "-q", "--no-verify", "--amend", "-m", "another message")


def test_another_run_on_the_branch_notes_the_new_head(at: At) -> None:
    """One authorization suffices; the other run's last known head is the new commit."""
    world = at("ready")
    world.make_task(OTHER)
    world.begin(OTHER)
    world.open_step()
    world.git("commit", "-qam", "fix: sum")
    assert (world.journal(OTHER)[-1]["op"], world.journal(OTHER)[-1]["memo"]) == ("noted", {"head": world.head})
    assert world.close_step() == "completed"
    new = world.head
    world.git(*NO_HOOKS, "update-ref", "-d", "refs/heads/main")
    assert OTHER in world.git("update-ref", "refs/heads/main", f"{new}~", check=False).err
    world.git("update-ref", "refs/heads/main", new)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("commit", "-q", "--no-verify", "--allow-empty", "-m", "x"), id="commit"),
        pytest.param(("commit", "-q", "--amend", "--allow-empty", "-m", "x"), id="amend"),
        pytest.param(("merge", "-q", "--no-ff", "-m", "m", "side"), id="merge"),
        pytest.param(("merge", "-q", "--ff-only", "side"), id="fast-forward-by-one"),
        pytest.param(("cherry-pick", "fork"), id="cherry-pick"),
        pytest.param(("revert", "--no-edit", "HEAD"), id="revert"),
        pytest.param(("am", "-q", "../side.patch"), id="am"),
    ],
)
def test_a_person_lets_one_commit_pass(coding: World, args: tuple[str, ...]) -> None:
    """Whatever makes it, one commit passes, is recorded, and the next one is refused."""
    gate.allow(coding.context, reason="hotfix", person="p")
    coding.git(*args)
    events = [line for line in coding.journal() if line["op"] == "allowed"]
    assert [event["facts"] for event in events] == [{"commit": coding.head}]
    assert events[0]["memo"]["head"] == coding.head
    refused(coding, "commit", "-q", "--no-verify", "--allow-empty", "-m", "more")


def test_leave_is_for_one_commit_not_for_history(coding: World) -> None:
    """Several commits at once, a step back or a deletion are none."""
    gate.allow(coding.context, reason="hotfix", person="p")
    refused(coding, "reset", "-q", "--soft", "HEAD~")
    refused(coding, "update-ref", "-d", "HEAD")
    refused(coding, "rebase", "-q", "fork")


# -- worktrees and variables -------------------------------------------------------------------------------------------


def test_a_run_in_a_linked_worktree(at: At) -> None:
    """git sets GIT_DIR there; the run's worktree is judged, the primary one is free on its own branch."""
    main = at("installed")
    main.make_task()
    world = linked(main, "linked", "-b", "work")
    world.begin()
    folder = main.folder()
    world.folder = lambda _=TASK: folder  # type: ignore[method-assign]
    world.write("sub/a.txt", "a\n")
    world.git("add", "-A")
    refused(world, "commit", "-q", "--no-verify", "-m", "x", cwd=world.root / "sub")
    refused(world, "checkout", "-q", "-B", "work", "main~")
    world.git("reset", "-q", "--hard")
    main.git("commit", "-q", "--allow-empty", "-m", "free")
    refused(main, "update-ref", "refs/heads/work", "main")
    refused(main, "update-ref", f"worktrees/{world.root.name}/HEAD", "main")
    world.to_commit()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"


def test_from_outside_it_is_judged_too(coding: World) -> None:
    """`--git-dir` from elsewhere, GIT_DIR, a foreign worktree, the git dir itself: unclear is judged strictly."""
    foreign = fresh(coding.root.parent / "foreign")
    git_dir = f"--git-dir={coding.root}/.git"
    new = coding.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "x").out.strip()
    for cwd in (foreign.root, Path("/"), coding.root / ".git", coding.root / ".git/refs"):
        for ref in ("refs/heads/main", "HEAD", "refs/heads/new"):
            refused(coding, git_dir, "update-ref", ref, new, cwd=cwd)
        coding.git(git_dir, "update-ref", "refs/tags/new", "main", cwd=cwd)
        coding.git(git_dir, "branch", "-f", "known", "side", cwd=cwd)
    for variables in ({"GIT_DIR": f"{coding.root}/.git"}, {"GIT_DIR": f"{coding.root}/.git", "GIT_WORK_TREE": "."}):
        answer = foreign.git("update-ref", "HEAD", new, env=variables, check=False)
        assert TASK in answer.err


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE", "GIT_COMMON_DIR"])
def test_foreign_variables_mislead_nobody(at: At, variable: str) -> None:
    """Left over from another repository's hook: the answer is about ours, and no byte of the other changes."""
    world = at("opened")
    foreign = fresh(world.root.parent / "foreign")
    value = {
        "GIT_DIR": foreign.root / ".git",
        "GIT_COMMON_DIR": foreign.root / ".git",
        "GIT_INDEX_FILE": foreign.root / ".git/index",
        "GIT_WORK_TREE": foreign.root,
        "GIT_PREFIX": "no/such/folder/",
    }[variable]
    before = {path: path.read_bytes() for path in foreign.root.rglob("*") if path.is_file()}
    new = world.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "x").out.strip()
    line = f"{world.head} {new} refs/heads/main\n"

    def ask() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(world.root / ".git/hooks/reference-transaction"), "prepared"],
            cwd=world.root,
            env=world.env | {variable: str(value)},
            input=line,
            capture_output=True,
            text=True,
            check=False,
        )

    said = ask()
    assert said.returncode == 1, said
    assert TASK in said.stderr
    world.cli("commit", TASK, "-m", "fix: sum", env={variable: str(value)})
    assert world.committed() == ["M src/app.py"]
    assert {path: path.read_bytes() for path in foreign.root.rglob("*") if path.is_file()} == before


def test_a_push_in_quarantine_can_be_read(coding: World) -> None:
    """Objects of a push are not in the repository yet when the hook is asked; they are judged, not stumbled over."""
    clone = World(coding.root.parent / "clone", coding.env)
    coding.git("clone", "-q", str(coding.root), str(clone.root))
    clone.git("commit", "-q", "--allow-empty", "-m", "from outside")
    answer = clone.git("push", "-q", "origin", "HEAD:refs/heads/new", check=False)
    assert answer.code != 0
    assert "no ref reaches" in answer.err
    assert "Traceback" not in answer.err
    clone.git("push", "-q", "origin", "HEAD~:refs/heads/known")
    clone.git("push", "-q", "origin", "HEAD:refs/tags/new")


def test_a_held_lock_keeps_nobody_waiting(coding: World) -> None:
    """The question is answered without our lock, so git may be a child of its holder."""
    with locked(coding.context.runs.lock_path):
        coding.git("branch", "known", "side")
        refused(coding, "update-ref", "refs/heads/main", "side")
        new = published(coding)
        coding.git("pull", "-q", "--ff-only")
    assert coding.head == new
    assert coding.journal()[-1]["op"] != "upstream"
    coding.git("branch", "-f", "known", "fork")  # the next question of git records it
    assert coding.journal()[-1]["op"] == "upstream"


# -- the shim ----------------------------------------------------------------------------------------------------------


def stub(world: World) -> tuple[dict[str, str], Path]:
    """A program in the place of ours that notes that it was started."""
    log = world.root.parent / "started"
    program = world.root.parent / "stub"
    program.write_text(f'#!/bin/sh\n{{ echo "$@"; cat; }} >>{log}\n')
    program.chmod(0o755)
    return {"AGENT_INFRA": str(program)}, log


def test_nothing_guards_and_nothing_starts(at: At) -> None:
    """Without a run no program is asked, whatever moves."""
    world = at("installed")
    env, log = stub(world)
    for args in (
        ("commit", "-q", "--allow-empty", "-m", "x"),
        ("branch", "b"),
        ("tag", "t"),
        ("reset", "-q", "--hard", "HEAD~"),
        ("rebase", "-q", "b"),
        ("merge", "-q", "--no-ff", "-m", "m", "b"),
    ):
        world.git(*args, env=env)
    assert not log.exists()


def test_a_run_guards_and_only_heads_start_it(coding: World) -> None:
    """Tags, stash refs, remote refs, notes and our own refs are sorted out by the shell, while a run is active too."""
    env, log = stub(coding)
    published(coding)
    coding.git("tag", "t", env=env)
    coding.git("tag", "-d", "t", env=env)
    coding.git("fetch", "-q", env=env)
    coding.git("update-ref", "refs/stash", "HEAD", env=env)
    coding.git("notes", "add", "-m", "n", env=env)
    coding.git("update-ref", "refs/agent-infra/x", "HEAD", env=env)
    coding.git("update-ref", "refs/remotes/origin/HEAD", "HEAD", env=env)
    coding.git("update-ref", "ORIG_HEAD", "HEAD", env=env)
    assert not log.exists()
    coding.git("update-ref", "refs/heads/x", "side", env=env)
    asked, line = log.read_text().splitlines()
    assert asked.startswith("gate reference-transaction --common-dir ")
    assert asked.endswith(" prepared")
    assert line.endswith(" refs/heads/x")


@pytest.mark.skipif(not shutil.which("strace"), reason="counts processes with strace")
@pytest.mark.parametrize("guarded", [False, True])
def test_the_shell_alone_sorts_out(at: At, guarded: bool) -> None:
    """One process for a transaction that concerns nobody."""
    world = at("begun" if guarded else "installed")
    ref = "refs/tags/t" if guarded else "refs/heads/main"
    trace = world.root.parent / "trace"
    command = ["strace", "-f", "-o", trace, "-e", "trace=fork,vfork,clone,clone3,execve"]
    for state_ in ("prepared", "committed", "aborted"):
        done = subprocess.run(
            [*command, world.root / ".git/hooks/reference-transaction", state_],
            cwd=world.root,
            env=world.env,
            input=f"{'0' * 40} {world.head} {ref}\n".encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("strace may not trace here")
        calls = [line.split()[1][:6] for line in trace.read_text().splitlines() if "exited" not in line]
        assert calls == ["execve"]


@pytest.mark.parametrize("guarded", [False, True])
def test_an_earlier_hook_gets_the_same_words_and_may_refuse(at: At, guarded: bool) -> None:
    """Argument and stdin of every state reach the hook that was there, first; its refusal counts."""
    world = at("begun" if guarded else "installed")
    moved = world.root / ".git/agent-infra/hooks/moved/reference-transaction"
    moved.parent.mkdir(parents=True)
    log = world.root.parent / "earlier"
    moved.write_text(f'#!/bin/sh\n{{ echo "$@"; cat; }} >>{log}\n[ ! -e {log}.no ]\n')
    moved.chmod(0o755)
    zero = "0" * 40
    lines = "".join(f"{zero} {world.head} refs/{name}\n" for name in ("tags/a\\b", "heads/$x`y`", "notes/n"))
    for state_ in ("prepared", "committed", "aborted"):
        done = subprocess.run(
            [world.root / ".git/hooks/reference-transaction", state_],
            cwd=world.root,
            env=world.env,
            input=lines.encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done
    assert log.read_text() == "".join(f"{state_}\n{lines}" for state_ in ("prepared", "committed", "aborted"))
    Path(f"{log}.no").touch()
    answer = world.git("tag", "refused-by-the-other", check=False)
    assert answer.code != 0
    assert "agent-infra" not in answer.err
    if guarded:
        Path(f"{log}.no").unlink()
        refused(world, "commit", "-q", "--no-verify", "--allow-empty", "-m", "x")


def test_a_program_that_is_gone_refuses_what_it_can_t_judge(coding: World) -> None:
    """Branches stay; tags and stash still work; the way out is printed."""
    env = {"PATH": "/usr/bin:/bin", "AGENT_INFRA": "/nowhere"}
    hook = coding.root / ".git/hooks/reference-transaction"
    hook.write_text(hook.read_text().replace(str(PROGRAM), "/nowhere/agent-infra"))
    answer = coding.git("update-ref", "refs/heads/main", "side", env=env, check=False)
    assert answer.code != 0
    assert TASK in answer.err
    assert "orchestrate end TASK" in answer.err
    coding.git("tag", "t", env=env)
    coding.git("stash", "list", env=env)


def test_the_shims_must_all_be_there_for_an_authorization(at: At) -> None:
    """Without effective shims, each of them, the commit is not prepared."""
    world = at("ready")
    for name in ("reference-transaction", "pre-rebase", "pre-merge-commit"):
        hook = world.root / ".git/hooks" / name
        hook.rename(hook.with_suffix(".off"))
        answer = world.verb("prepare", "--client", "claude-code", code=1)
        assert answer.error == "ORCHESTRATION_HOOKS_MISSING"
        assert name in answer.json["error"]["message"]
        hook.with_suffix(".off").rename(hook)
    world.verb("prepare", "--client", "claude-code")
    assert os.access(world.root / ".git/hooks/reference-transaction", os.X_OK)
