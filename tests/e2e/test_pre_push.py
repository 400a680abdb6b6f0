"""`git push` where evidence goes along: what is pushed and what is not, refusals, other hooks, no Python unasked."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.git import evidence
from tests.support import surroundings
from tests.support.lifecycle import OTHER, TASK, Answer, World, world_at

At = Callable[[str], World]
REF = f"refs/agent-infra/runs/{TASK}"
TRACKED = f"refs/agent-infra/remotes/origin/runs/{TASK}"
WHEN = "2026-01-01T12:34:56.789Z"


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


@pytest.fixture
def earned(at: At) -> World:
    """A run that is over, its commit not pushed yet, in a repository that pushes evidence along."""
    world = at("earned")
    configure(world)
    return world


def configure(world: World, text: str = "[evidence]\npush = true\n") -> None:
    world.write(".agents/config.toml", text)


def there(world: World, name: str = "origin.git") -> dict[str, str]:
    """The refs of a remote."""
    listed = world.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=world.root.parent / name).out
    return dict(line.split(" ") for line in listed.splitlines())


def oid(world: World, name: str) -> str:
    return world.git("rev-parse", name).out.strip()


def refused(world: World, code: str, *args: str, **options: dict[str, str]) -> Answer:
    """A push that does not happen: nothing moves at the remote."""
    before = there(world)
    answer = world.git("push", "-q", "origin", *(args or ("main",)), check=False, **options)
    assert answer.code != 0
    assert f"[{code}]" in answer.err
    assert "so git pushes nothing" in answer.err
    assert "`git push --no-verify`" in answer.err
    assert there(world) == before
    return answer


def test_the_evidence_of_the_pushed_commits_goes_along(earned: World) -> None:
    """Exactly that of the tasks that they name, before them; a second push finds it there."""
    evidence.write(earned.context.repo, OTHER, {"journal.jsonl": b"{}\n"}, message="m", when=WHEN)
    answer = earned.git("push", "-q", "origin", "main")
    assert answer.err == f"agent-infra: pushed the evidence of {TASK} to origin\n"
    assert there(earned) == {"refs/heads/main": earned.head, REF: oid(earned, REF)}
    assert oid(earned, TRACKED) == oid(earned, REF)
    assert earned.git("push", "-q", "origin", "main").err == ""


def test_commits_that_the_remote_has_take_nothing_along(earned: World) -> None:
    """Nor do deletions, tags on them, and commits without trailers."""
    earned.git("push", "-q", "--no-verify", "origin", "main")
    earned.git("branch", "other")
    earned.git("tag", "v1")
    earned.git("push", "-q", "origin", "other", "v1")
    earned.git("push", "-q", "origin", ":other")
    earned.write("README.md", "# by hand\n")
    earned.git("commit", "-qam", "by hand")
    blob = oid(earned, "HEAD:README.md")
    earned.git("push", "-q", "origin", "main", f"{blob}:refs/tags/blob")
    assert set(there(earned)) == {"refs/heads/main", "refs/tags/v1", "refs/tags/blob"}


def test_an_annotated_tag_takes_the_evidence_of_its_commits_along(earned: World) -> None:
    """Whatever leads to the commits."""
    earned.git("tag", "-a", "-m", "v1", "v1")
    earned.git("push", "-q", "origin", "v1")
    assert there(earned)[REF] == oid(earned, REF)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[evidence]\npush = false\n", id="false"),
        pytest.param("# evidence.push = true\n", id="a comment"),
    ],
)
def test_unasked_nothing_is_published_and_no_program_starts(earned: World, tmp_path: Path, text: str) -> None:
    """The shim decides by itself."""
    configure(earned, text)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    earned.git("push", "-q", "origin", "main", env={"AGENT_INFRA": str(program)})
    assert set(there(earned)) == {"refs/heads/main"}
    assert not (tmp_path / "started").exists()


def test_what_only_looks_like_the_setting_publishes_nothing(earned: World) -> None:
    """The program reads the settings, whatever the shim thought."""
    configure(earned, 'gate.required_checks = ["push true"]\n')
    earned.git("push", "-q", "origin", "main")
    assert set(there(earned)) == {"refs/heads/main"}


def test_a_dry_run_publishes_nothing(earned: World) -> None:
    """git calls the hook all the same and does not say so."""
    for option in ("--dry-run", "-n", "-qn"):
        answer = earned.git("push", option, "origin", "main")
        assert f"the evidence of {TASK} would be pushed to origin" in answer.err
    assert REF not in there(earned)
    assert earned.git("rev-parse", "-q", "--verify", TRACKED, check=False).code != 0


def test_a_push_that_names_evidence_itself(earned: World) -> None:
    """`push --mirror` and a refspec of evidence are not beaten to it by us."""
    earned.git("push", "-q", "origin", "main", f"{REF}:{REF}")
    assert there(earned)[REF] == oid(earned, REF)
    bare = earned.root.parent / "mirror.git"
    earned.git("init", "-q", "--bare", str(bare))
    earned.git("push", "-q", "--mirror", str(bare))
    assert there(earned, "mirror.git")[REF] == oid(earned, REF)


def test_a_linked_worktree_and_an_address(earned: World) -> None:
    """The settings of the primary worktree count; an address without a name gets the evidence too."""
    linked = surroundings.linked(earned, "linked", "--detach")
    bare = earned.root.parent / "second.git"
    earned.git("init", "-q", "--bare", str(bare))
    linked.git("push", "-q", "../second.git", "HEAD:refs/heads/main")
    assert there(earned, "second.git")[REF] == oid(earned, REF)


def test_evidence_of_others_goes_on_to_another_remote(earned: World) -> None:
    """What was fetched with their commits is pushed with them; what is nowhere is named and stops nothing."""
    earned.git("push", "-q", "origin", "main")
    clone = World(earned.root.parent / "clone", earned.env)
    earned.git("clone", "-q", str(earned.root.parent / "origin.git"), str(clone.root))
    clone.cli("init", "--yes")
    configure(clone)
    clone.git("init", "-q", "--bare", "../fork.git")
    clone.git("remote", "add", "fork", "../fork.git")
    answer = clone.git("push", "-q", "fork", "main")
    assert f"commits of {TASK} are pushed without their evidence: neither this repository nor fork has it" in answer.err
    assert set(there(clone, "fork.git")) == {"refs/heads/main"}
    clone.cli("evidence", "fetch", "origin")
    clone.git("push", "-q", "fork", "main:again", ":main")
    assert REF not in there(clone, "fork.git")  # the fork had these commits
    clone.git("push", "-q", "--no-verify", "fork", ":again")
    clone.git("push", "-q", "fork", "main")
    assert there(clone, "fork.git")[REF] == oid(earned, REF)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_evidence_that_is_not_taken_stops_the_push(earned: World) -> None:
    """Commits do not arrive without their evidence; the way out works."""
    hook = earned.root.parent / "origin.git" / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncase $1 in refs/heads/*) ;; *) echo 'branches only' >&2; exit 1;; esac\n")
    hook.chmod(0o755)
    assert "branches only" in refused(earned, "EVIDENCE_REMOTE_FAILED").err
    earned.git("push", "-q", "--no-verify", "origin", "main")
    assert there(earned)["refs/heads/main"] == earned.head


def test_evidence_that_diverged_stops_the_push(earned: World) -> None:
    """It is named, and stays as it is on both sides."""
    tree = earned.git("mktree", check=True).out.strip()
    forged = earned.git("commit-tree", "-m", "x", tree).out.strip()
    earned.git("push", "-q", "--no-verify", "origin", f"{forged}:{REF}")
    assert TASK in refused(earned, "EVIDENCE_DIVERGED").err


def test_settings_that_cannot_be_read_stop_the_push(earned: World) -> None:
    """Whether evidence is wanted is not known then."""
    configure(earned, "[evidence]\npush = true\npul = true\n")
    answer = earned.git("push", "-q", "origin", "main", check=False)
    assert answer.code != 0
    assert "unknown key evidence.pul" in answer.err
    assert set(there(earned)) == {"refs/heads/main"}


def test_a_program_that_is_gone_stops_the_push(earned: World) -> None:
    """With the way on and the way out; where nothing is configured nobody misses it."""
    hook = earned.root / ".git/hooks/pre-push"
    hook.write_text(hook.read_text().replace("bin/agent-infra", "nowhere"))
    env = {"PATH": "/usr/bin:/bin"}
    answer = earned.git("push", "-q", "origin", "main", env=env, check=False)
    assert answer.code != 0
    assert "git push --no-verify" in answer.err
    assert "evidence.push" in answer.err
    configure(earned, "")
    earned.git("push", "-q", "origin", "main", env=env)


# -- other hooks -------------------------------------------------------------------------------------------------------

SEEN = 'echo "$0 $*" >>"{log}"\ncat >>"{log}"\n[ ! -e "{log}.no" ] || exit 3'


@pytest.mark.parametrize("path", [pytest.param(None, id="moved aside"), pytest.param(".husky/_", id="as husky has it")])
@pytest.mark.parametrize("asked", [pytest.param(True, id="evidence"), pytest.param(False, id="none")])
def test_the_hook_that_was_there_runs_first(at: At, tmp_path: Path, path: str | None, asked: bool) -> None:
    """It gets git's arguments and lines, once, and its no ends the push before anything is published."""
    world = at("earned")
    log = tmp_path / "log"
    world.cli("uninstall")
    script = SEEN.format(log=log)
    if path is None:
        world.hook("pre-push", script)
    else:
        world.write(f"{path}/pre-push", f"#!/bin/sh\n{script}\n", mode=0o755)
        world.git("config", "core.hooksPath", path)
    world.cli("init", "--yes")
    configure(world, "evidence.push = true\n" if asked else "")
    Path(f"{log}.no").touch()
    old = there(world)["refs/heads/main"]
    assert world.git("push", "-q", "origin", "main", check=False).code != 0
    assert set(there(world)) == {"refs/heads/main"}
    Path(f"{log}.no").unlink()
    log.unlink()
    world.git("push", "-q", "origin", "main")
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith(f"pre-push origin {world.root.parent}/origin.git")
    assert lines[1] == f"refs/heads/main {world.head} refs/heads/main {old}"
    assert (REF in there(world)) == asked


@pytest.mark.parametrize("path", [pytest.param(None, id="moved aside"), pytest.param(".husky/_", id="as husky has it")])
def test_uninstall_puts_the_hook_back_byte_for_byte(at: At, path: str | None) -> None:
    """With its mode; and without one nothing is left."""
    world = at("earned")
    world.cli("uninstall")
    assert not (world.root / ".git/hooks/pre-push").exists()
    folder = world.root / (path or ".git/hooks")
    folder.mkdir(parents=True, exist_ok=True)
    hook = folder / "pre-push"
    hook.write_bytes(b"#!/bin/sh\r\n\xff\nexit 0\n")
    hook.chmod(0o750)
    if path:
        world.git("config", "core.hooksPath", path)
    config = (world.root / ".git/config").read_bytes()
    world.cli("init", "--yes")
    ours = world.root / (".git/agent-infra/hooks" if path else ".git/hooks") / "pre-push"
    assert b"agent-infra shim" in ours.read_bytes()
    world.cli("uninstall")
    assert (hook.read_bytes(), hook.stat().st_mode & 0o777) == (b"#!/bin/sh\r\n\xff\nexit 0\n", 0o750)
    assert (world.root / ".git/config").read_bytes() == config
    assert not (world.root / ".git/agent-infra/hooks").exists()


def test_doctor_knows_the_hook(earned: World) -> None:
    """It fires when tried, its absence is named, and what the settings publish is said."""
    said = earned.cli("doctor").out
    assert "fired when tried: " in said
    assert "pre-push" in next(line for line in said.splitlines() if "fired when tried" in line)
    assert "evidence.push" in said
    (earned.root / ".git/hooks/pre-push").unlink()
    answer = earned.cli("doctor", check=False)
    assert (answer.code, "pre-push is absent" in answer.out) == (1, True)
    assert "missing: hook pre-push (absent)" in earned.cli("init", "--check", check=False).out


def test_a_commit_does_not_need_the_hook(at: At) -> None:
    """It guards nothing: whoever takes its place keeps no reviewed work from being committed."""
    world = at("ready")
    world.hook("pre-push", "exit 0")
    world.verb("prepare", "--client", "claude-code")


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is missing")
def test_git_lfs_pushes_its_objects(earned: World) -> None:
    """Its own hook reads the lines that ours needs too."""
    earned.cli("uninstall")
    earned.git("lfs", "install", "--local")
    earned.cli("init", "--yes")
    configure(earned)
    earned.git("lfs", "track", "*.bin")
    earned.write("big.bin", b"\0" * 4096)
    earned.git("add", "-A")
    earned.git("commit", "-qm", "large")
    earned.git("push", "-q", "origin", "main")
    assert there(earned)[REF] == oid(earned, REF)
    assert any((earned.root.parent / "origin.git" / "lfs").rglob("*"))
