"""`doctor` about agent clients: what is missing, not loaded, not trusted or switched off, with what mends it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from agent_infra.clients.setup.trust import our_hooks
from agent_infra.core.hook_settings import check
from tests.e2e.test_client_init import CLAUDE, CODEX, CODEX_CONFIG, tree
from tests.support.lifecycle import World, fresh

CLIENTS = ("--client", "claude-code", "--client", "codex")
Finding = tuple[str, str, str]


def build(base: Path) -> None:
    """A project with both clients, committed, and programs of their names that say a version."""
    world = fresh(base / "repo")
    world.cli("init", "--yes", *CLIENTS)
    world.git("add", "-A")
    world.git("commit", "-qm", "installed")
    for name in ("claude", "codex"):
        world.write(f"../bin/{name}", "#!/bin/sh\necho 'a warning' >&2\necho '9.8.7 (it)'\n", mode=0o755)


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> World:
    saved = tmp_path_factory.getbasetemp() / "client-doctor"  # made once for all tests
    if not saved.exists():
        build(saved)
    shutil.copytree(saved, tmp_path / "play", symlinks=True)
    made = World(tmp_path / "play/repo")
    made.env["PATH"] = os.pathsep.join((str(tmp_path / "play/bin"), made.env["PATH"]))
    made.env["CODEX_HOME"] = str(tmp_path / "codex home")
    made.env["CLAUDE_CONFIG_DIR"] = str(tmp_path / "claude home")
    trust(made)
    return made


def trust(world: World, *, without: str = "no hook", extra: str = "", project: str = "trusted") -> None:
    """What Codex writes when its user trusts the project and our hooks."""
    file = world.root / CODEX
    lines = [f'[projects."{world.root}"]\ntrust_level = "{project}"\n']
    for key, digest in our_hooks(file, check(file.read_text())):
        if without not in key:
            lines.append(f'[hooks.state."{key}"]\ntrusted_hash = "{digest}"\n{extra}')
    home = Path(world.env["CODEX_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("\n".join(lines))


def said(world: World, level: str, **options: object) -> list[Finding]:
    """What is said at a level about agents and clients; nothing in the project changes."""
    before = tree(world.root)
    answer = world.cli("doctor", "--json", check=False, **options)
    assert tree(world.root) == before
    found = [each for each in answer.json["findings"] if each["check"] in {"agents' files", "client hooks", "clients"}]
    return [(each["check"], each["message"], each["helps"]) for each in found if each["level"] == level]


def test_where_all_is_well(world: World) -> None:
    """Files, hooks, trust, programs with their versions."""
    assert said(world, "fault") == []
    assert said(world, "note") == []
    words = " ".join(message for _, message, _ in said(world, "fine"))
    assert f"claude-code: version 9.8.7 at {world.root.parent}/bin/claude" in words
    assert "Codex trusts our 9 hooks as they are" in words


def _no_entries(world: World) -> None:
    (world.root / CLAUDE).write_text("{}")


def _broken(world: World) -> None:
    (world.root / CODEX).write_text("{")


def _missing(world: World) -> None:
    (world.root / ".claude/agents/agent-infra-lifecycle-executor.md").unlink()


def _not_executable(world: World) -> None:
    (world.root / ".agents/hooks/agent-infra").chmod(0o644)


def _bad_template(world: World) -> None:
    (world.root / ".agents/templates/plan.md").write_text("# Plan\n\n{{what}}\n")


def _disabled(world: World) -> None:
    world.write(".claude/settings.local.json", '{"disableAllHooks": true}')


def _disabled_by_user(world: World) -> None:
    world.write(f"{world.env['CLAUDE_CONFIG_DIR']}/settings.json", '{"disableAllHooks": true}')


def _untrusted(world: World) -> None:
    shutil.rmtree(world.env["CODEX_HOME"])


def _untrusted_project(world: World) -> None:
    trust(world, project="untrusted")


def _one_untrusted(world: World) -> None:
    trust(world, without="subagent_stop")


def _changed(world: World) -> None:
    path = world.root / CODEX
    path.write_text(path.read_text().replace('"timeout": 600', '"timeout": 500'))


def _off(world: World) -> None:
    trust(world, extra="enabled = false\n")


def _unreadable(world: World) -> None:
    (Path(world.env["CODEX_HOME"]) / "config.toml").write_text("a = \n")


@pytest.mark.parametrize(
    ("harm", "words", "helps"),
    [
        pytest.param(_no_entries, "has no hooks of ours for PreToolUse", "init --client claude-code", id="no entries"),
        pytest.param(_broken, f"{CODEX}, line 1: it is not JSON", "doctor", id="broken settings"),
        pytest.param(_missing, "lifecycle-executor.md is missing", "agent-infra init", id="a file is missing"),
        pytest.param(_not_executable, "can't be executed", "chmod +x", id="launcher without its bit"),
        pytest.param(_bad_template, "templates/plan.md can't be used", "line it names", id="a template"),
        pytest.param(_disabled, "disableAllHooks", "take it out", id="switched off in the project"),
        pytest.param(_disabled_by_user, "disableAllHooks", "take it out", id="switched off by the user"),
        pytest.param(_untrusted, "does not trust this project", "trust the folder", id="no trust at all"),
        pytest.param(_untrusted, "9 of our 9 hooks are not trusted", "trust them", id="no hook is trusted"),
        pytest.param(_untrusted_project, "does not trust this project", "trust the folder", id="project not trusted"),
        pytest.param(
            _one_untrusted, "not trusted, so Codex leaves them out: subagent_stop:0:0", "trust", id="one hook"
        ),
        pytest.param(_changed, "changed since you trusted them", "trust them", id="a hook changed since"),
        pytest.param(_off, "9 of our 9 hooks are off", "trust them", id="switched off in Codex"),
        pytest.param(_unreadable, "own settings can't be read", "mend the file", id="Codex's settings are broken"),
    ],
)
def test_what_keeps_hooks_from_running_is_a_fault(world: World, harm: object, words: str, helps: str) -> None:
    assert callable(harm)
    harm(world)
    found = said(world, "fault")
    assert any(words in message and helps in mends for _, message, mends in found), found


def test_a_worktree_without_the_settings_is_a_fault_there(world: World) -> None:
    linked = World(world.root.parent / "linked", world.env)
    world.git("worktree", "add", "-q", str(linked.root), "HEAD~")
    faults = [message for _, message, _ in said(world, "fault", cwd=linked.root)]
    assert [message for message in faults if f"this worktree has no {CLAUDE}" in message]


def test_what_is_worth_knowing(world: World) -> None:
    """A subfolder, what is ignored or not committed, no program, too few children, another release's entries."""
    assert any("in a subfolder" in message for _, message, _ in said(world, "note", cwd=world.root / "src"))
    (world.root / CODEX_CONFIG).write_text("[agents]\nmax_threads = 3\n")
    assert any("fewer open children" in message for _, message, _ in said(world, "note"))
    path = world.root / CLAUDE
    path.write_text(path.read_text().replace('"timeout": 600', '"timeout": 500'))
    assert any("other hooks of ours" in message for _, message, _ in said(world, "note"))
    world.git("rm", "-q", "--cached", CLAUDE)
    assert any(f"{CLAUDE} is not committed" in message for _, message, _ in said(world, "note"))
    (world.root / ".gitignore").write_text(".claude/\n.agents/workspace/\n")
    assert any(f"git ignores {CLAUDE}" in message for _, message, _ in said(world, "note"))
    world.env["PATH"] = world.env["PATH"].split(os.pathsep, 1)[1]
    if not shutil.which("codex", path=world.env["PATH"]):
        assert any("no codex on PATH" in message for _, message, _ in said(world, "note"))


def test_an_older_release_is_named(world: World) -> None:
    path = world.root / ".agents/installed.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps(known | {"version": "0.0.1"}))
    assert any("release 0.0.1" in message and "--update" in helps for _, message, helps in said(world, "note"))
