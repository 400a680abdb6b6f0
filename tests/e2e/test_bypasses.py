"""Every way to move HEAD, with hooks and without: refused, or the authorized commit, or named by `verify` afterwards.

Rows are the ways, columns how far a run has come. Each attempt carries at least one byte that nobody reviewed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pygit2
import pytest

from agent_infra.core.history import Kind
from agent_infra.services.proof.verify import Report, Wish, verify
from tests.support.lifecycle import FIXED, World, world_at
from tests.support.surroundings import linked

At = Callable[[str], World]
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
SNEAKED = FIXED + "# nobody saw this\n"
FLAGGED = {Kind.UNRECEIPTED, Kind.BROKEN}
EARNED = "fix: sum"


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


@dataclass
class Play:
    """A world, the options and variables that every git of the attempt gets, and what was said to it."""

    world: World
    options: tuple[str, ...] = ()
    env: dict[str, str] | None = None
    said: str = ""

    def git(self, *args: str) -> None:
        """A command that may be refused."""
        self.run("git", *self.options, *args)

    def run(self, *argv: str) -> None:
        self.said += self.world.run(*argv, check=False, env=self.env).err

    def edit(self) -> None:
        self.world.write("src/app.py", SNEAKED)

    def ahead(self) -> str:
        """A commit on top of HEAD that nobody reviewed, on a branch that came there unseen."""
        blob = self.world.git("hash-object", "-w", "src/old.py").out.strip()
        index = {"GIT_INDEX_FILE": str(self.world.root.parent / "index")}
        self.world.git("read-tree", "HEAD", env=index)
        self.world.git("update-index", "--add", "--cacheinfo", f"100644,{blob},ahead.py", env=index)
        tree = self.world.git("write-tree", env=index).out.strip()
        new = self.world.git("commit-tree", tree, "-p", "HEAD", "-m", "ahead").out.strip()
        self.world.git(*NO_HOOKS, "update-ref", "refs/heads/ahead", new)
        return new


def commit(play: Play, *options: str) -> None:
    play.edit()
    play.git("commit", "-q", "-a", "-m", "early", *options)


def fast_import(play: Play) -> None:
    stream = play.world.root.parent / "stream"
    who = "Ada Author <ada@example.org> 1767268800 +0000"
    stream.write_text(
        f"commit refs/heads/main\ncommitter {who}\ndata 6\nimport\nfrom refs/heads/main^0\n"
        "M 100644 inline import.py\ndata 2\nx\n\ndone\n"
    )
    words = " ".join(f"'{word}'" for word in ("git", *play.options, "fast-import", "--quiet", "--done"))
    play.run("sh", "-c", f"{words} <'{stream}'")


def stash(play: Play) -> None:
    play.edit()
    play.git("stash", "-q")


def library(play: Play) -> None:
    repository = pygit2.Repository(str(play.world.root))
    index = repository.index
    index.add(pygit2.IndexEntry("library.py", repository.create_blob(b"x\n"), pygit2.enums.FileMode.BLOB))
    who = pygit2.Signature("Ada Author", "ada@example.org", 1767268800)
    tree = index.write_tree(repository)
    repository.create_commit("HEAD", who, who, "library", tree, [repository.head.target])
    repository.free()


def by_hand(play: Play) -> None:
    (play.world.root / ".git/refs/heads/main").write_text(play.ahead() + "\n")


def without_marks(play: Play) -> None:
    for hook in (play.world.root / ".git/hooks").iterdir():
        hook.chmod(0o644)
    commit(play)


def pulled(play: Play) -> None:
    play.ahead()
    play.git("pull", "-q", "--ff-only", ".", "ahead")


def pushed_aside(play: Play) -> None:
    play.world.git("config", "core.hooksPath", "/dev/null")
    commit(play)


# what fires a hook: the attempt is asked about, unless all hooks are off
FIRING: dict[str, Callable[[Play], None]] = {
    "commit": commit,
    "amend": lambda play: commit(play, "--amend"),
    "commit-no-verify": lambda play: commit(play, "--no-verify"),
    "amend-no-verify": lambda play: commit(play, "--amend", "--no-verify"),
    "merge": lambda play: play.git("merge", "-q", "--no-ff", "-m", "merge", "fork"),
    "cherry-pick": lambda play: play.git("cherry-pick", "fork"),
    "revert": lambda play: play.git("revert", "--no-edit", "HEAD"),
    "rebase": lambda play: play.git("rebase", "-q", "--onto", "fork", "HEAD~"),
    "rebase-no-verify": lambda play: play.git("rebase", "-q", "--no-verify", "--onto", "fork", "HEAD~"),
    "am": lambda play: play.git("am", "-q", "../side.patch"),
    "ff-merge": lambda play: play.git("merge", "-q", "--ff-only", play.ahead()),
    "pull": pulled,
    "reset": lambda play: play.git("reset", "-q", "--hard", play.ahead()),
    "commit-tree": lambda play: play.git("update-ref", "refs/heads/main", play.ahead()),
    "fast-import": fast_import,
}
# what fires none
SILENT: dict[str, Callable[[Play], None]] = {
    "hooks-path": lambda play: commit(Play(play.world, ("-c", "core.hooksPath="))),
    "hooks-path-in-config": pushed_aside,
    "config-count": lambda play: commit(
        Play(
            play.world,
            env={"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "/dev/null"},
        )
    ),
    "config-parameters": lambda play: commit(
        Play(play.world, env={"GIT_CONFIG_PARAMETERS": "'core.hooksPath'='/dev/null'"})
    ),
    "chmod": without_marks,
    "library": library,
    "ref-by-hand": by_hand,
}
STATES = ("coding", "authorized", "earned")


def clean(world: World) -> None:
    """Nothing in the worktree stands in the way of a command that would write there."""
    if world.git("status", "--porcelain").out:
        world.git(*NO_HOOKS, "checkout", "-q", "--", ".")


def report(world: World, before: str) -> Report:
    return verify(world.root, Wish(f"{before}..HEAD"), environment={})


def check_flagged(world: World, before: str) -> None:
    """HEAD has moved, and all that came with it is named; work of before, made again, may be good."""
    assert world.head != before
    found = report(world, before)
    assert found.exit_code == 1, found
    good = [one.commit.subject for one in found.commits if one.verdict.kind not in FLAGGED]
    assert set(good) <= {EARNED}, found
    assert len(good) < len(found.commits)


def where(world: World) -> tuple[str, str, str]:
    """What must not move: HEAD, what it is on, and every branch."""
    symbolic = world.git("symbolic-ref", "-q", "HEAD", check=False).out
    return world.head, symbolic, world.git("for-each-ref", "refs/heads").out


@pytest.mark.parametrize("state", STATES[:2])
@pytest.mark.parametrize("way", FIRING)
def test_with_hooks_no_way_leads_past_a_run(at: At, way: str, state: str) -> None:
    """Whatever fires a hook is refused, whether a commit is authorized or not: HEAD and branches stay."""
    world = at(state)
    if not way.startswith(("commit", "amend")):
        clean(world)
    play = Play(world)
    play.ahead()
    before = where(world)
    FIRING[way](play)
    assert "COMMIT_UNAUTHORIZED" in play.said, play.said
    for command in ("rebase", "cherry-pick", "revert", "am"):
        world.git(command, "--abort", check=False)
    assert where(world) == before


def test_with_hooks_a_stash_passes(at: At) -> None:
    """It moves no branch, and what is in it is still nobody's receipt."""
    world = at("coding")
    before = where(world)
    stash(Play(world))
    assert where(world) == before
    found = verify(world.root, Wish("HEAD..refs/stash"), environment={})
    assert {one.verdict.kind for one in found.commits} == {Kind.UNRECEIPTED}
    world.git("stash", "pop", "-q")
    assert (world.root / "src/app.py").read_text() == SNEAKED


@pytest.mark.parametrize("options", [(), ("--no-verify",)], ids=["commit", "commit-no-verify"])
def test_with_hooks_the_authorized_bytes_are_verified_or_refused(at: At, options: tuple[str, ...]) -> None:
    """The one commit that passes is the one that `verify` calls good."""
    world = at("authorized")
    before = world.head
    world.git("commit", "-q", "-a", "-m", EARNED, *options, check=False)
    assert (world.head == before) == bool(options)
    if world.head != before:
        assert [str(one.verdict) for one in report(world, before).commits] == ["verified"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("way", SILENT)
def test_where_git_fires_no_hook_it_is_flagged(at: At, way: str, state: str) -> None:
    """Nobody is asked, so it happens; the check of the history names it."""
    world = at(state)
    before = world.head
    SILENT[way](Play(world))
    check_flagged(world, before)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("way", FIRING)
def test_without_hooks_every_way_is_flagged(at: At, way: str, state: str) -> None:
    """All shims gone: each way works, and each is named."""
    world = at(state)
    if not way.startswith(("commit", "amend")):
        clean(world)
    for hook in (world.root / ".git/hooks").iterdir():
        hook.unlink()
    before = world.head
    FIRING[way](Play(world))
    check_flagged(world, before)


@pytest.mark.parametrize("forged", ["all", "receipt of another line"])
def test_forged_trailers_make_a_bypass_no_better(at: At, forged: str) -> None:
    """The very trailers that the hook would have written, on bytes that nobody reviewed: broken by its tree."""
    world = at("authorized")
    run, before = world.view(), world.head
    receipt = run["journalHead"] if forged == "all" else "0" * 64
    trailers = f"Agent-Infra-Task: {run['taskId']}\nAgent-Infra-Run: {run['runId']}\nAgent-Infra-Receipt: {receipt}"
    world.write("src/app.py", SNEAKED)
    world.git(*NO_HOOKS, "commit", "-q", "-a", "-m", f"{EARNED}\n\n{trailers}")
    found = report(world, before)
    assert (found.exit_code, found.commits[0].verdict.kind) == (1, Kind.BROKEN), found


def test_another_worktree_without_hooks_is_flagged_on_the_branch(at: At) -> None:
    """Made elsewhere, brought here: the branch has it, so the branch's history is not clean."""
    world = at("coding")
    before = world.head
    other = linked(world, "other", "--detach")
    other.write("other.py", "x\n")
    other.git("add", "other.py")
    other.git(*NO_HOOKS, "commit", "-q", "-m", "other")
    world.git(*NO_HOOKS, "update-ref", "refs/heads/main", other.head)
    check_flagged(world, before)
