"""`init` and `uninstall`: what they write, that they do it once, and that nothing of anybody else's changes."""

import os
import stat
from pathlib import Path

import pytest

from tests.support.lifecycle import PROGRAM, TASK, World, fresh, terminal, world_at

HOOKS = ("pre-commit", "commit-msg", "post-commit")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A repository that knows nothing of us."""
    return fresh(tmp_path / "repo")


def files(world: World) -> dict[str, tuple[int, bytes]]:
    """Mode and bytes of all files, git's and the user's; links by their target. Our journals and evidence aside."""
    found = {}
    for folder, _, names in os.walk(world.root):
        for path in (Path(folder, name) for name in names):
            mode = path.lstat().st_mode
            data = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes()
            found[str(path.relative_to(world.root))] = (mode, data)
    return {name: entry for name, entry in found.items() if name != ".git/agent-infra/lock"}


def test_init_installs_hooks_and_settings_once(world: World) -> None:
    first = world.cli("init", "--yes")
    for hook in HOOKS:
        assert f"installed {world.root}/.git/hooks/{hook}" in first.out
        assert os.access(world.root / ".git/hooks" / hook, os.X_OK)
        assert str(PROGRAM) in (world.root / ".git/hooks" / hook).read_text()
    assert (world.root / ".agents/.gitignore").read_text() == "workspace/\n"
    before = files(world)
    again = world.cli("init", "--yes")
    assert again.out == "everything was in place\n"
    assert files(world) == before


def test_check_says_what_is_missing_and_changes_nothing(world: World) -> None:
    before = files(world)
    answer = world.cli("init", "--check", check=False)
    assert answer.code == 1
    assert all(f"hook {hook}" in answer.out for hook in HOOKS)
    assert ".agents/.gitignore" in answer.out
    assert files(world) == before
    world.cli("init", "--yes")
    assert world.cli("init", "--check").out == "everything is in place\n"
    (world.root / ".git/hooks/commit-msg").chmod(0o644)
    answer = world.cli("init", "--check", check=False)
    assert answer.code == 1
    assert "commit-msg" in answer.out
    assert "pre-commit" not in answer.out
    world.cli("init", "--yes")
    assert world.cli("init", "--check").code == 0


def test_init_without_yes_asks(world: World) -> None:
    """Without a terminal it refuses and changes nothing; on one it shows what it would do and takes a no."""
    before = files(world)
    answer = world.cli("init", check=False)
    assert answer.code == 2
    assert "--yes" in answer.err
    person = terminal(world, "init")
    person.until("init would add:")
    person.until("go on")
    person.type("n")
    assert person.end()[0] != 0
    assert files(world) == before
    person = terminal(world, "init")
    person.until("go on")
    person.type("y")
    assert person.end()[0] == 0
    assert world.cli("init", "--check").code == 0


def test_an_unknown_client_installs_nothing(world: World) -> None:
    before = files(world)
    answer = world.cli("init", "--yes", "--client", "nobody", check=False)
    assert answer.code == 2
    assert "nobody" in answer.err
    assert files(world) == before


def test_outside_of_a_repository(tmp_path: Path, world: World) -> None:
    answer = world.cli("init", "--yes", cwd=tmp_path, check=False)
    assert answer.code == 1
    assert "REPO_ROOT_NOT_FOUND" in answer.err


def test_uninstall_puts_everything_back_byte_for_byte(world: World) -> None:
    """Hooks that were there run first meanwhile, and lie at their place again afterwards, with bytes and mode."""
    world.hook("pre-commit", 'echo "ran $0" >>"$(git rev-parse --show-toplevel)/build/log"')
    world.write("build/log", "")
    (world.root / "real-hook").write_text("#!/bin/sh\nexit 0\n")
    (world.root / "real-hook").chmod(0o750)
    (world.root / ".git/hooks/commit-msg").symlink_to("../../real-hook")
    world.write(".git/hooks/post-commit", "not executable\n", mode=0o640)
    world.write(".git/hooks/pre-push", "#!/bin/sh\nexit 0\n", mode=0o755)
    before = files(world)
    world.cli("init", "--yes")
    world.git("commit", "-q", "--allow-empty", "-m", "x")
    assert (world.root / "build/log").read_text().count("ran") == 1
    world.git("reset", "-q", "--hard", "HEAD^")
    world.write("build/log", "")
    world.cli("uninstall")
    after = files(world)
    mine = {name for name in before if name.startswith((".git/hooks", ".agents", "real-hook", "src", "README"))}
    assert {name: before[name] for name in mine} == {name: after.get(name) for name in mine}
    assert {name for name in after if name.startswith((".git/hooks", ".agents", ".git/agent-infra"))} == {
        name for name in before if name.startswith((".git/hooks", ".agents", ".git/agent-infra"))
    }
    assert after[".git/config"] == before[".git/config"]
    assert world.cli("uninstall").out == "nothing was installed\n"


def test_uninstall_of_a_plain_repository_leaves_no_trace(world: World) -> None:
    """Nothing was there before, nothing is there afterwards; no hooks either."""
    before = files(world)
    world.cli("init", "--yes")
    world.cli("uninstall")
    assert files(world) == before


def test_files_that_a_person_changed_stay(world: World) -> None:
    world.cli("init", "--yes")
    config = world.root / ".agents/config.toml"
    config.write_text(config.read_text() + "[run]\nmax_steps = 50\n")
    answer = world.cli("uninstall")
    assert "kept .agents/config.toml" in answer.out
    assert "max_steps" in config.read_text()
    assert not (world.root / ".agents/.gitignore").exists()


def test_files_that_were_there_are_not_ours(world: World) -> None:
    """A config of the team's is neither overwritten by init nor removed by uninstall."""
    world.write(".agents/config.toml", "")
    world.cli("init", "--yes")
    world.cli("uninstall")
    assert (world.root / ".agents/config.toml").read_text() == ""


@pytest.mark.parametrize("path", [".husky/_", "/etc/hooks", "../shared"])
def test_a_hooks_path_of_somebody_else_is_put_back(world: World, path: str) -> None:
    """`--check` names it; ours takes its place; uninstall leaves every byte as it was."""
    world.git("config", "core.hooksPath", path)
    before = files(world)
    answer = world.cli("init", "--check", check=False)
    assert answer.code == 1
    assert path in answer.out
    assert files(world) == before
    assert path in world.cli("init", "--yes").out
    assert world.cli("init", "--check").code == 0
    assert path in world.cli("uninstall").out
    assert files(world) == before


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[core]\n  hookspath=.husky/_ ; ours\n\tbare = false # why\n", id="as a person writes it"),
        pytest.param('[Core]\nHooksPath\t= ".husky/_"\n[core]\n\n[user]\nname = x', id="no line break at the end"),
    ],
)
def test_the_config_file_is_put_back_byte_for_byte(world: World, text: str) -> None:
    """Also where git would write the line in another way; a setting that came meanwhile stays."""
    config = world.root / ".git/config"
    config.write_text(text)
    before = files(world)
    world.cli("init", "--yes")
    assert world.cli("init", "--check").code == 0
    world.cli("uninstall")
    assert files(world) == before
    world.cli("init", "--yes")
    world.git("config", "user.email", "new@example.org")
    world.cli("uninstall")
    assert world.git("config", "core.hooksPath").out == ".husky/_\n"
    assert world.git("config", "user.email").out == "new@example.org\n"


def test_a_hooks_path_of_one_worktree_alone_is_refused_with_nothing_changed(world: World) -> None:
    world.git("config", "extensions.worktreeConfig", "true")
    world.git("config", "--worktree", "core.hooksPath", ".husky")
    before = files(world)
    answer = world.cli("init", "--yes", check=False)
    assert answer.code == 1
    assert "INSTALL_REFUSED" in answer.err
    assert "core.hooksPath is .husky" in answer.err
    assert files(world) == before


def test_a_hooks_path_set_later_is_noticed(world: World) -> None:
    """Shims that git does not call are no shims: `--check` says so, and a commit is not prepared."""
    world.cli("init", "--yes")
    world.git("config", "core.hooksPath", "/dev/null")
    answer = world.cli("init", "--check", check=False)
    assert answer.code == 1
    assert "/dev/null" in answer.out


def test_uninstall_while_a_run_guards_is_refused(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lifting the guard must be said: `end`, then uninstall; the journal stays."""
    world = world_at("begun", tmp_path_factory, monkeypatch)
    before = files(world)
    answer = world.cli("uninstall", check=False)
    assert answer.code == 1
    assert "INSTALL_REFUSED" in answer.err
    assert TASK in answer.err
    assert "orchestrate end" in answer.err
    assert files(world) == before
    world.verb("end", "--reason", "no more")
    answer = world.cli("uninstall")
    assert "kept .agents/.gitignore" in answer.out
    assert not (world.root / ".git/hooks/pre-commit").exists()
    assert (world.root / ".git/agent-infra/runs" / TASK / "journal.jsonl").exists()


def test_a_linked_worktree_shares_the_hooks(world: World) -> None:
    """Installed from the linked worktree, effective in both; settings go to the primary one."""
    linked = world.root.parent / "linked"
    world.git("worktree", "add", "-q", str(linked))
    world.cli("init", "--yes", cwd=linked)
    assert world.cli("init", "--check").code == 0
    assert world.cli("init", "--check", cwd=linked).code == 0
    assert (world.root / ".agents/config.toml").exists()
    assert not (linked / ".agents").exists()


def test_a_read_only_hooks_folder_is_a_sentence(world: World) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    hooks = world.root / ".git/hooks"
    hooks.chmod(0o555)
    try:
        answer = world.cli("init", "--yes", check=False)
    finally:
        hooks.chmod(0o755)
    assert answer.code == 1
    assert "STORE_WRITE_FAILED" in answer.err
