"""`init --update`: an earlier release's files become this one's, and no change of a person is ever lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_infra import __version__
from agent_infra.clients.setup import events
from tests.e2e.test_client_init import CLAUDE, CODEX, bytes_of, settings, tree
from tests.support.lifecycle import World, fresh

ROOT = Path(__file__).parents[2]
CLIENTS = ("--client", "claude-code", "--client", "codex")
SKILL = ".agents/skills/run-task/SKILL.md"
RULE = ".agents/rules/evidence.md"
PLAN = ".agents/templates/plan.md"
GONE = ".agents/rules/old.md"
FIRST = "- A claim about the code names file and line, or the command that shows it."
LAST = "- No secrets, no tokens, no dumps of the environment: documents of a task are kept as they are."


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An earlier release of the program: other texts, one rule more, another timeout of one hook."""
    folder = tmp_path_factory.mktemp("older")
    for name in ("agent_infra", "assets", "hooks", "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))

    def edit(name: str, old: str, new: str) -> None:
        text = (folder / name).read_text()
        assert old in text, (name, old)
        (folder / name).write_text(text.replace(old, new))

    edit("agent_infra/__init__.py", __version__, "0.0.9")
    edit("assets/skills/run-task.md", "You drive; you do none of the steps yourself.", "You drive.")
    edit("assets/rules/evidence.md", FIRST, "- Claims have a place.")
    edit("templates/plan.md", "## Options Comparison", "## Options")
    edit(
        "agent_infra/clients/setup/wanted.py",
        '("lifecycle", "ledger", "evidence")',
        '("lifecycle", "ledger", "evidence", "old")',
    )
    (folder / "assets/rules/old.md").write_text("# An old rule\n")
    edit("agent_infra/clients/setup/events.py", "\nSTOP_TIMEOUT = 600", "\nSTOP_TIMEOUT = 300")
    return folder


def installed(root: Path, older: Path) -> World:
    """A project in which the earlier release was installed and committed."""
    world = fresh(root)
    argv = [sys.executable, "-m", "agent_infra", "init", "--yes", *CLIENTS]
    env = world.env | {"PYTHONPATH": str(older), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=root, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((root / ".agents/installed.json").read_text())["version"] == "0.0.9"
    world.git("add", "-A")
    world.git("commit", "-qm", "installed")
    return world


@pytest.fixture
def world(tmp_path: Path, older: Path) -> World:
    return installed(tmp_path / "repo", older)


def test_what_nobody_changed_becomes_this_release(world: World, tmp_path: Path) -> None:
    """As if this release had been installed at once; a second time changes nothing; uninstall takes all of it away."""
    plain = world.cli("init", "--yes")
    assert plain.out == "everything was in place\n"
    assert "init --update" in plain.err
    world.cli("init", "--yes", "--update")
    new = fresh(tmp_path / "new")
    new.cli("init", "--yes", *CLIENTS)
    assert bytes_of(world.root) == bytes_of(new.root)
    assert settings(world)["hooks"]["SubagentStop"][0]["hooks"][0]["timeout"] == events.STOP_TIMEOUT
    before = tree(world.root)
    assert world.cli("init", "--yes", "--update").out == "everything was in place\n"
    assert tree(world.root) == before
    world.cli("uninstall")
    assert not (world.root / ".agents").exists()


def changed(world: World) -> None:
    """What a person did since: another line of a rule, a template of their own, other hooks beside ours."""
    rule = world.root / RULE
    rule.write_text(rule.read_text().replace(LAST, LAST + "\n- Ask Ada about licences."))
    (world.root / GONE).write_text("# An old rule\n\nWe still need it.\n")
    hooks = settings(world)
    hooks["hooks"]["SubagentStop"].insert(0, {"hooks": [{"type": "command", "command": "say stop"}]})
    world.write(CLAUDE, json.dumps(hooks, indent=4))


def check_merged(world: World) -> None:
    text = (world.root / RULE).read_text()
    assert FIRST in text
    assert "Ask Ada" in text
    assert "<<<<" not in text
    assert (world.root / GONE).read_text().endswith("We still need it.\n")
    stops = settings(world)["hooks"]["SubagentStop"]
    assert [group["hooks"][0]["command"] for group in stops] == ["say stop", events.command("claude-code")]
    assert stops[1]["hooks"][0]["timeout"] == events.STOP_TIMEOUT


def test_changes_of_people_are_merged_with_those_of_the_release(world: World) -> None:
    changed(world)
    answer = world.cli("init", "--yes", "--update")
    assert f"wrote {RULE}, with your changes" in answer.out
    assert f"kept {GONE}" in answer.err
    check_merged(world)
    before = tree(world.root)
    assert world.cli("init", "--yes", "--update").out == "everything was in place\n"
    assert tree(world.root) == before


def test_uninstall_after_an_update_keeps_what_people_wrote(world: World) -> None:
    """A merged file is kept and named; edits of the settings that came before the update stay."""
    world.write(CODEX, json.dumps({**settings(world, CODEX), "note": "mine"}))
    changed(world)
    world.cli("init", "--yes", "--update")
    answer = world.cli("uninstall")
    assert f"kept {RULE}: it was changed" in answer.out
    assert "Ask Ada" in (world.root / RULE).read_text()
    assert settings(world) == {"hooks": {"SubagentStop": [{"hooks": [{"type": "command", "command": "say stop"}]}]}}
    assert settings(world, CODEX) == {"note": "mine"}
    assert not (world.root / SKILL).exists()


def test_a_clone_finds_what_was_installed_in_the_history(world: World, tmp_path: Path) -> None:
    """Where another clone did the install, its commit tells what people changed since."""
    changed(world)
    world.git("commit", "-qam", "changed")
    clone = World(tmp_path / "clone", world.env)
    world.git("clone", "-q", str(world.root), str(clone.root))
    clone.cli("init", "--yes", "--update")
    check_merged(clone)
    clone.cli("uninstall")  # what came with the repository is what was there before
    assert clone.git("status", "--porcelain").out == ""


def test_without_the_text_that_was_installed_nothing_is_guessed(world: World) -> None:
    """No kept text, no history: it is said, and nothing is written."""
    rule = world.root / RULE
    rule.write_text(rule.read_text() + "- More.\n")
    shutil.rmtree(world.root / ".git/agent-infra/installed")
    world.git("commit", "-q", "--amend", "-am", "all at once")
    world.git("reflog", "expire", "--expire=now", "--all")
    before = tree(world.root)
    answer = world.cli("init", "--yes", "--update", check=False)
    assert (answer.code, "INSTALL_CONFLICT" in answer.err, "not here any more" in answer.err) == (1, True, True)
    assert tree(world.root) == before


def test_a_conflict_is_shown_and_nothing_is_written(world: World) -> None:
    """Exit 1, both texts on stderr; then a person keeps theirs or takes ours, file by file."""
    changed(world)
    rule, skill = world.root / RULE, world.root / SKILL
    rule.write_text(rule.read_text().replace("- Claims have a place.", "- Claims have a place, always."))
    skill.write_text(skill.read_text().replace("You drive.", "You steer."))
    hooks = settings(world, CODEX)
    hooks["hooks"]["SubagentStop"][0]["hooks"][0]["timeout"] = 400
    world.write(CODEX, json.dumps(hooks))
    before = tree(world.root)
    for options in (("--check",), ("--yes",)):
        answer = world.cli("init", "--update", *options, check=False)
        assert answer.code == 1
        assert "[INSTALL_CONFLICT]" in answer.err
        for words in ("- Claims have a place, always.", FIRST, "You steer.", "<<<<<<< yours", CODEX, "SubagentStop"):
            assert words in answer.err
        assert tree(world.root) == before
    kept = rule.read_text()
    world.cli("init", "--yes", "--update", "--keep", RULE, "--take", SKILL, "--keep", CODEX)
    assert rule.read_text() == kept
    assert "You drive; you do none of the steps yourself." in skill.read_text()
    assert settings(world, CODEX)["hooks"]["SubagentStop"][0]["hooks"][0]["timeout"] == 400
    assert settings(world)["hooks"]["SubagentStop"][1]["hooks"][0]["timeout"] == events.STOP_TIMEOUT
    assert world.cli("init", "--yes", "--update").out == "everything was in place\n"
    assert rule.read_text() == kept


def test_a_file_that_is_missing_comes_again(world: World) -> None:
    (world.root / PLAN).unlink()
    world.cli("init", "--yes", "--update")
    assert "## Options Comparison" in (world.root / PLAN).read_text()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--keep", RULE), id="without --update"),
        pytest.param(("--update", "--keep", "README.md"), id="not ours"),
        pytest.param(("--update", "--keep", RULE, "--take", RULE), id="both"),
    ],
)
def test_a_choice_that_makes_no_sense_is_wrong_usage(world: World, options: tuple[str, ...]) -> None:
    before = tree(world.root)
    assert world.cli("init", "--yes", *options, check=False).code == 2
    assert tree(world.root) == before


def test_an_update_where_nothing_is_installed_installs(tmp_path: Path) -> None:
    world = fresh(tmp_path / "repo")
    world.cli("init", "--yes", "--update", *CLIENTS)
    assert (world.root / CLAUDE).is_file()
    assert os.access(world.root / ".agents/hooks/agent-infra", os.X_OK)
