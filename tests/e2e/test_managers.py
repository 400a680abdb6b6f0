"""Real hook managers beside us: installed before us and after us, again in the middle of a run, and left as they were.

Each is fetched through its own package manager; where that is missing or has no network the tests say so and skip.
"""

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from agent_infra.core.lifecycle import Stage
from agent_infra.errors import ErrorCode
from agent_infra.services import delegate
from tests.support.fetching import fetched, npm
from tests.support.lifecycle import FIXED, TASK, World, artifact_text, fresh, world_at

HOOK = """#!/bin/sh
echo theirs >>"$(git rev-parse --show-toplevel)/build/log"
if [ -e "$(git rev-parse --show-toplevel)/build/veto" ]; then echo "they say no"; exit 1; fi
"""
LEFTHOOK = "pre-commit:\n  jobs:\n    - run: sh ./check.sh\n"
PRE_COMMIT = """repos:
  - repo: local
    hooks:
      - {id: theirs, name: theirs, entry: sh ./check.sh, language: system, always_run: true, pass_filenames: false}
"""


@dataclass(frozen=True)
class Manager:
    """A hook manager, fetched.

    Attributes:
        path: where its program lies.
        settings: files of the repository that it goes by.
        install: what a developer, or the package manager on its own, runs to install it.
    """

    path: Path
    settings: dict[str, str]
    install: tuple[str, ...]


@pytest.fixture(scope="module")
def husky(tmp_path_factory: pytest.TempPathFactory) -> Manager:
    bin_folder = npm(tmp_path_factory.mktemp("husky"), "husky@9")
    return Manager(bin_folder, {".husky/pre-commit": "sh ./check.sh\n", "check.sh": HOOK}, ("husky",))


@pytest.fixture(scope="module")
def lefthook(tmp_path_factory: pytest.TempPathFactory) -> Manager:
    bin_folder = npm(tmp_path_factory.mktemp("lefthook"), "lefthook@2")
    return Manager(bin_folder, {"lefthook.yml": LEFTHOOK, "check.sh": HOOK}, ("lefthook", "install"))


@pytest.fixture(scope="module")
def pre_commit(tmp_path_factory: pytest.TempPathFactory) -> Manager:
    folder = tmp_path_factory.mktemp("pre-commit")
    fetched(folder, sys.executable, "-m", "venv", "v")
    fetched(folder, str(folder / "v" / "bin" / "python"), "-m", "pip", "install", "-q", "--retries", "0", "pre-commit")
    settings = {".pre-commit-config.yaml": PRE_COMMIT, "check.sh": HOOK}
    return Manager(folder / "v" / "bin", settings, ("pre-commit", "install"))


@pytest.fixture(scope="module")
def git_lfs() -> Manager:
    found = shutil.which("git-lfs")
    if found is None:
        pytest.skip("git-lfs is missing")
    settings = {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"}
    return Manager(Path(found).parent, settings, ("git", "lfs", "install", "--local"))


@pytest.fixture(params=["husky", "lefthook", "pre_commit"])
def manager(request: pytest.FixtureRequest) -> Manager:
    found: Manager = request.getfixturevalue(request.param)
    return found


def with_manager(world: World, manager: Manager) -> None:
    """The repository of a team that uses it; nothing is installed yet."""
    path = os.pathsep.join((str(manager.path), world.env["PATH"]))
    world.env |= {"PATH": path, "PRE_COMMIT_HOME": str(world.root.parent / "cache")}
    for name, text in manager.settings.items():
        world.write(name, text)
    world.write("build/log", "")
    world.git("add", "-A")
    world.git("commit", "-q", "--no-verify", "-m", "hooks of a team")


def ran(world: World) -> int:
    """How often their hook ran."""
    return (world.root / "build" / "log").read_text().count("theirs")


def free_commit(world: World) -> None:
    """A commit that theirs alone decides on."""
    before = ran(world)
    world.write("src/new.py", f"RAN = {before}\n")
    world.git("add", "src/new.py")
    world.git("commit", "-q", "-m", "free")
    assert ran(world) == before + 1


def guarded(world: World) -> None:
    """A run that guards the branch."""
    world.make_task()
    world.begin()


def hook_files(world: World) -> dict[str, tuple[int, bytes]]:
    """Mode and bytes of git's settings and of every file that may be a hook."""
    found = {}
    for top in (".git/config", ".git/hooks", ".git/agent-infra/hooks", ".husky"):
        path = world.root / top
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if not file.is_dir():
                found[str(file.relative_to(world.root))] = (stat.S_IMODE(file.lstat().st_mode), file.read_bytes())
    return found


def check_both_are_asked(world: World) -> None:
    """Their hook runs first and its no counts; then ours refuses what no run authorized."""
    before = ran(world)
    world.write("src/app.py", "x = 1\n")
    world.git("add", "src/app.py")
    said = world.refused("-m", "unauthorized", says=("COMMIT_UNAUTHORIZED",))
    assert ran(world) == before + 1, said
    world.write("build/veto", "")
    said = world.refused("-m", "vetoed")
    assert "they say no" in said
    assert "COMMIT_UNAUTHORIZED" not in said
    (world.root / "build/veto").unlink()
    world.git("checkout", "-q", "HEAD", "--", "src/app.py")


def finish(world: World) -> None:
    """The commit step, to its end."""
    world.open_step()
    world.write("build/log", "")
    world.cli("commit", TASK, "-m", "fix: sum")
    assert ran(world) == 1
    assert world.trailers()["Agent-Infra-Task"] == TASK
    assert world.committed() == ["M src/app.py"]
    assert world.close_step() == "completed"
    assert world.cli("verify", "HEAD^..HEAD").code == 0


def in_mid_run(world: World, install: Callable[[], object]) -> None:
    """Begin, and let each step's child run the manager's installation; no step is paused for it."""
    guarded(world)

    def work() -> None:
        if stage == Stage.CODE:
            world.fix()
        install()

    while (stage := world.next_stage()) != Stage.COMMIT:
        world.step(work=work)
    mended = [line["facts"]["mended"] for line in world.journal() if line["op"] == "hooks"]
    assert mended, world.journal()


def test_installed_before_us(tmp_path: Path, manager: Manager) -> None:
    """Both are asked, without a run theirs alone decides, and uninstall leaves what was there byte for byte."""
    world = fresh(tmp_path / "repo")
    with_manager(world, manager)
    world.run(*manager.install)
    free_commit(world)
    before = hook_files(world)
    world.cli("init", "--yes")
    assert world.cli("init", "--check").code == 0
    free_commit(world)
    guarded(world)
    check_both_are_asked(world)
    world.verb("end", "--reason", "enough")
    world.cli("uninstall")
    assert hook_files(world) == before
    free_commit(world)


def test_installed_after_us(tmp_path: Path, manager: Manager) -> None:
    """`init` takes the hooks back; afterwards both are asked, and uninstall leaves the manager's alone."""
    world = fresh(tmp_path / "repo")
    with_manager(world, manager)
    world.cli("init", "--yes")
    world.run(*manager.install)
    assert world.cli("init", "--check", check=False).code == 1
    world.cli("init", "--yes")
    assert world.cli("init", "--check").code == 0
    assert world.cli("init", "--yes").out == "everything was in place\n"
    guarded(world)
    check_both_are_asked(world)
    world.verb("end", "--reason", "enough")
    world.cli("uninstall")
    after = hook_files(world)
    assert not any(b"agent-infra" in data for _, data in after.values())
    world.run(*manager.install)
    assert hook_files(world) == after


def test_installed_again_in_the_middle_of_a_run(tmp_path: Path, manager: Manager) -> None:
    """Put right and recorded by whatever comes next, without a pause; the commit is asked by both; nothing is lost."""
    world = fresh(tmp_path / "repo")
    with_manager(world, manager)
    world.run(*manager.install)
    before = hook_files(world)
    world.cli("init", "--yes")
    in_mid_run(world, lambda: world.run(*manager.install))
    world.run(*manager.install)
    finish(world)
    assert world.cli("init", "--check").code == 0
    world.cli("uninstall")
    assert hook_files(world) == before


def test_a_hook_of_the_user_behind_a_manager_survives(tmp_path: Path, pre_commit: Manager) -> None:
    """pre-commit keeps the hook it found under another name and calls it; installed again, it would write over it."""
    world = fresh(tmp_path / "repo")
    with_manager(world, pre_commit)
    world.hook("pre-commit", "echo mine >>build/mine")
    world.run(*pre_commit.install)
    before = hook_files(world)
    assert b"mine" in before[".git/hooks/pre-commit.legacy"][1]
    world.cli("init", "--yes")
    in_mid_run(world, lambda: world.run(*pre_commit.install))
    finish(world)
    assert "mine" in (world.root / "build/mine").read_text()
    world.cli("uninstall")
    assert hook_files(world) == before


def test_git_lfs(tmp_path: Path, git_lfs: Manager) -> None:
    """Its hooks are called beside ours, its own installation accepts them, and uninstall leaves them."""
    world = fresh(tmp_path / "repo")
    with_manager(world, git_lfs)
    world.run(*git_lfs.install)
    before = hook_files(world)
    world.cli("init", "--yes")
    guarded(world)
    world.refused("--allow-empty", "-m", "x", says=("COMMIT_UNAUTHORIZED",))
    world.verb("end", "--reason", "enough")
    world.cli("uninstall")
    assert hook_files(world) == before


def test_an_unknown_hooks_path_in_the_middle_of_a_run_still_pauses(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who is known is put right without a word."""
    world = world_at("begun", tmp_path_factory, monkeypatch)
    step = world.open_step()
    world.git("config", "core.hooksPath", "build")
    (world.folder() / step.artifact).write_text(artifact_text(step))
    delegate.complete(world.context, TASK, delegate.Claim("claude"))
    sealed = delegate.seal(world.context, TASK, world.stop_of())
    assert sealed.run is not None
    assert sealed.run.pause is not None
    assert sealed.run.pause.code == ErrorCode.DELEGATION_CONTROL_CHANGED
    assert world.git("config", "core.hooksPath").out == "build\n"


def test_the_hook_that_we_offer_to_the_pre_commit_framework(tmp_path: Path) -> None:
    """`.pre-commit-hooks.yaml` names one hook: our gate on every commit, whatever files it has."""
    (hook,) = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["id"] == "agent-infra-gate"
    assert (hook["always_run"], hook["pass_filenames"]) == (True, False)
    assert hook["stages"] == ["pre-commit"]
    world = fresh(tmp_path / "repo")
    assert world.run(*shlex.split(hook["entry"])).code == 0
    guarded(world)
    world.write("src/app.py", FIXED)
    world.git("add", "src/app.py")
    answer = world.run(*shlex.split(hook["entry"]), check=False)
    assert answer.code == 1
    assert "COMMIT_UNAUTHORIZED" in answer.err


def test_a_commit_that_git_did_not_ask_us_about(tmp_path: Path, husky: Manager) -> None:
    """husky installed between the commit step's start and the commit: `complete` finds it and puts the hooks right."""
    world = fresh(tmp_path / "repo")
    with_manager(world, husky)
    world.run(*husky.install)
    world.cli("init", "--yes")
    guarded(world)
    world.to_commit()
    world.open_step()
    world.run(*husky.install)
    world.git("commit", "-q", "-am", "unasked")
    answer = world.verb("complete", "--agent", "claude", code=1)
    assert answer.error == ErrorCode.ORCHESTRATION_COMMIT_MISSING
    assert world.cli("init", "--check").code == 0
    assert world.journal()[-1]["op"] == "hooks"


def test_gate_check_asks_the_manager(tmp_path: Path, manager: Manager) -> None:
    """Its hook is tried on what would be committed, and its no is told; nothing of its own is installed or moved."""
    world = fresh(tmp_path / "repo")
    with_manager(world, manager)
    world.run(*manager.install)
    world.cli("init", "--yes")
    world.write(".agents/config.toml", "[gate]\ncheck_links = ['build']\n")
    guarded(world)
    world.fix()
    before, count = hook_files(world), ran(world)
    answer = world.cli("gate", "check", TASK, "--json", check=False)
    assert (answer.code, answer.json["status"]) == (0, "passes"), answer
    assert ran(world) == count + 1
    world.write("build/veto", "")
    answer = world.cli("gate", "check", TASK, check=False)
    assert answer.code == 1
    assert "pre-commit would refuse this commit with exit code 1" in answer.out
    assert "they say no" in answer.out
    assert hook_files(world) == before
