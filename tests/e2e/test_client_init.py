"""`init --client` and `uninstall`: what agents, clients and people get; nothing of anybody else's changes."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_infra.clients.setup import events, wanted
from tests.support.lifecycle import TASK, World, fresh, world_at

ALL = ("--client", "claude-code", "--client", "codex", "--client", "gemini-cli", "--client", "opencode")
CLAUDE, CODEX, CODEX_CONFIG = ".claude/settings.json", ".codex/hooks.json", ".codex/config.toml"
FOLDERS = {".claude/agents": "md", ".codex/agents": "toml", ".gemini/agents": "md", ".opencode/agents": "md"}
AGENTS = [
    f"{folder}/agent-infra-lifecycle-{role}.{ending}"
    for folder, ending in FOLDERS.items()
    for role in ("executor", "reviewer")
]
THEIRS = """{
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "say done"}]}
        ]
    },
    "model": "opus"
}"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return fresh(tmp_path / "repo")


def tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time and bytes of each file of the project, and its folders."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name != ".git" and not name.startswith(".git/"):
            info = path.lstat()
            is_file = stat.S_ISREG(info.st_mode)
            found[name] = (info.st_mode, info.st_mtime_ns if is_file else 0, path.read_bytes() if is_file else b"")
    return found


def bytes_of(root: Path) -> dict[str, bytes]:
    return {name: data for name, (_, _, data) in tree(root).items()}


def settings(world: World, path: str = CLAUDE) -> dict[str, Any]:
    found = json.loads((world.root / path).read_text())
    assert isinstance(found, dict)
    return found


def test_every_client_gets_its_agents_and_hooks_once(world: World) -> None:
    """A second init, with fewer or the same clients, changes neither bytes nor times."""
    world.cli("init", "--yes", *ALL)
    names = set(tree(world.root))
    assert {*AGENTS, CLAUDE, CODEX, CODEX_CONFIG, ".claude/skills/run-task/SKILL.md"} <= names
    assert {f".agents/skills/{name}/SKILL.md" for name in wanted.SKILLS} <= names
    assert os.access(world.root / ".agents/hooks/agent-infra", os.X_OK)
    before = tree(world.root)
    for again in (ALL, (), ("--client", "codex")):
        answer = world.cli("init", "--yes", *again)
        assert (answer.out, answer.err) == ("everything was in place\n", "")
        assert tree(world.root) == before
    assert world.cli("init", "--check", *ALL).code == 0


def test_hooks_have_the_events_and_timeouts_that_were_settled(world: World) -> None:
    """60 seconds, a stop 600, Codex's end 3; one stable command line; Codex allows twelve children."""
    world.cli("init", "--yes", *ALL)
    for client, path in wanted.HOOK_FILES.items():
        hooks = settings(world, path)["hooks"]
        assert {
            "PreToolUse",
            "PostToolUse",
            "SubagentStart",
            "SubagentStop",
            "UserPromptSubmit",
            "Stop",
        } <= hooks.keys()
        for event, groups in hooks.items():
            for run in (run for group in groups for run in group["hooks"]):
                assert run["command"] == events.command(client)
                special = {("codex", "SessionEnd"): 3}
                assert run["timeout"] == special.get((client, event), 600 if event == "SubagentStop" else 60)
    assert (world.root / CODEX_CONFIG).read_text() == "[agents]\nmax_threads = 12\n"


def test_without_a_client_agents_and_people_get_what_they_read(world: World) -> None:
    """Skills, rules and templates; no folder of any client."""
    world.cli("init", "--yes")
    names = set(tree(world.root))
    assert {f".agents/templates/{name}.md" for name in wanted.TEMPLATES} <= names
    assert not [
        name for name in names if name.startswith((".claude", ".codex", ".gemini", ".opencode", ".agents/hooks"))
    ]


def test_settings_of_others_keep_their_order_and_layout(world: World) -> None:
    """Every line that was there is there still, in its order; uninstall gives the very bytes back."""
    world.write(CLAUDE, THEIRS)
    world.write(CODEX_CONFIG, '# mine\nmodel = "x"\n')
    before = bytes_of(world.root)
    world.cli("init", "--yes", *ALL)
    after = (world.root / CLAUDE).read_text()
    assert after.startswith(THEIRS[: THEIRS.index("\n        ]")])
    assert after.endswith(THEIRS[THEIRS.index('    "model"') :])
    assert settings(world)["hooks"]["Stop"][0]["hooks"][0]["command"] == "say done"
    assert (world.root / CODEX_CONFIG).read_text() == '# mine\nmodel = "x"\n\n[agents]\nmax_threads = 12\n'
    world.git("add", "-A")
    world.git("commit", "-qm", "installed")  # being committed makes no difference
    world.cli("uninstall")
    assert bytes_of(world.root) == before
    assert world.cli("uninstall").out == "nothing was installed\n"


def test_uninstall_of_a_project_without_settings_leaves_no_trace(world: World) -> None:
    before = bytes_of(world.root)
    world.cli("init", "--yes", *ALL)
    world.cli("uninstall")
    assert bytes_of(world.root) == before
    assert not (world.root / ".git/agent-infra/installed").exists()


def test_uninstall_after_people_went_on_takes_only_ours(world: World) -> None:
    """Settings that were edited since lose our entries; a changed file of ours is kept and named; new ones stay."""
    world.write(CLAUDE, THEIRS)
    world.cli("init", "--yes", *ALL)
    path = world.root / CLAUDE
    path.write_text(path.read_text().replace('"model": "opus"', '"model": "haiku"'))
    hooks = settings(world, CODEX)
    hooks["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "say more"}]})
    world.write(CODEX, json.dumps(hooks))
    with (world.root / CODEX_CONFIG).open("a") as file:
        file.write("max_depth = 2\n")
    skill = world.root / ".agents/skills/run-task/SKILL.md"
    skill.write_text(skill.read_text() + "\nAsk Ada first.\n")
    world.write(".claude/agents/own.md", "mine\n")
    answer = world.cli("uninstall")
    assert path.read_text() == THEIRS.replace("opus", "haiku")
    assert settings(world, CODEX) == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say more"}]}]}}
    assert (world.root / CODEX_CONFIG).read_text() == "[agents]\nmax_depth = 2\n"
    assert "kept .agents/skills/run-task/SKILL.md: it was changed" in answer.out
    assert "Ask Ada first" in skill.read_text()
    left = {name for name, (mode, _, _) in tree(world.root).items() if stat.S_ISREG(mode) and name.startswith(".")}
    kept = {CLAUDE, CODEX, CODEX_CONFIG, ".claude/agents/own.md", ".agents/skills/run-task/SKILL.md"}
    assert left - {".gitignore"} == kept


def test_files_that_were_there_under_our_names_are_not_ours(world: World) -> None:
    """They are named, neither overwritten nor removed."""
    world.write(AGENTS[0], "my own\n")
    answer = world.cli("init", "--yes", *ALL)
    assert f"kept {AGENTS[0]}" in answer.err
    world.cli("uninstall")
    assert (world.root / AGENTS[0]).read_text() == "my own\n"


BROKEN = [
    pytest.param(CLAUDE, '{\n  "a": 1,\n}', "line 3", id="no JSON"),
    pytest.param(CLAUDE, "[]", "line 1", id="no object"),
    pytest.param(CLAUDE, '{\n"hooks": {\n"Stop": {}}}', "line 3", id="an event that is no array"),
    pytest.param(CLAUDE, b'{"a": "\xff"}', "line 1", id="no UTF-8"),
    pytest.param(CLAUDE, "", "line 1", id="an empty file"),
    pytest.param(CODEX, "{", "line 1", id="cut JSON of the other client"),
    pytest.param(CODEX_CONFIG, "a = 1\nb = \n", "line 2", id="no TOML"),
    pytest.param(CODEX_CONFIG, "agents = 1\n", "line 1", id="agents is no table"),
    pytest.param(".agents/installed.json", '{"version": 1}', "line 1", id="a manifest that is none"),
]


@pytest.mark.parametrize(("path", "text", "where"), BROKEN)
def test_broken_settings_are_named_and_nothing_is_written(
    world: World, path: str, text: str | bytes, where: str
) -> None:
    """File, line and code; no git hook either."""
    world.write(path, text)
    before = tree(world.root)
    answer = world.cli("init", "--yes", *ALL, check=False)
    assert answer.code == 1
    assert "[CLIENT_SETTINGS_INVALID]" in answer.err
    assert f"{path}, {where}: " in answer.err
    assert tree(world.root) == before
    assert not (world.root / ".git/hooks/pre-commit").exists()


def test_symlinks_are_not_followed(world: World, tmp_path: Path) -> None:
    """Neither the file itself nor a folder on the way: what lies behind may be anybody's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "settings.json").write_text("{}")
    (world.root / ".claude").symlink_to(elsewhere)
    answer = world.cli("init", "--yes", *ALL, check=False)
    assert (answer.code, "CLIENT_SETTINGS_INVALID" in answer.err) == (1, True)
    (world.root / ".claude").unlink()
    (world.root / ".claude").mkdir()
    (world.root / CLAUDE).symlink_to(elsewhere / "settings.json")
    answer = world.cli("init", "--yes", *ALL, check=False)
    assert (answer.code, "symlink" in answer.err) == (1, True)
    assert (elsewhere / "settings.json").read_text() == "{}"
    assert sorted(path.name for path in elsewhere.iterdir()) == ["settings.json"]
    assert not (world.root / ".agents").exists()


def test_a_teammate_without_the_program_goes_on(world: World, tmp_path: Path) -> None:
    """The committed command lines, run by a real shell in a clone: silence, but a spawn of ours is refused."""
    world.cli("init", "--yes", *ALL)
    world.git("add", "-A")
    world.git("commit", "-qm", "installed")
    clone = World(tmp_path / "clone dir", world.env)
    world.git("clone", "-q", str(world.root), str(clone.root))
    path = os.pathsep.join(
        str(Path(found).parent) for tool in ("git", "sh", "cat", "sleep") if (found := shutil.which(tool))
    )
    assert not shutil.which("agent-infra", path=path)
    spawn = {"tool_input": {"subagent_type": "agent-infra-lifecycle-executor"}}
    said = [("Stop", {}, 0), ("PreToolUse", {"tool_input": {"subagent_type": "Explore"}}, 0), ("PreToolUse", spawn, 2)]
    (clone.root / "sub").mkdir()
    for client in wanted.HOOK_FILES:
        for cwd in (clone.root, clone.root / "sub"):
            for event, more, code in said:
                done = subprocess.run(
                    ["sh", "-c", events.command(client)],
                    cwd=cwd,
                    env={"PATH": path, "CLAUDE_PROJECT_DIR": str(cwd)},
                    input=json.dumps({"hook_event_name": event, **more}).encode(),
                    capture_output=True,
                    check=False,
                )
                assert (done.returncode, done.stdout) == (code, b""), (client, cwd, event, done.stderr)


def test_a_killed_init_is_finished_or_undone(world: World) -> None:
    """The record is there first: files that never came are none of uninstall's business."""
    before = bytes_of(world.root)
    world.cli("init", "--yes", *ALL)
    for name in (CLAUDE, ".agents/installed.json", *AGENTS[2:]):
        (world.root / name).unlink()
    finished = World(world.root.parent / "finished", world.env)
    shutil.copytree(world.root, finished.root, symlinks=True)
    finished.cli("init", "--yes", *ALL)
    assert finished.cli("init", "--check", *ALL).code == 0
    world.cli("uninstall")
    assert bytes_of(world.root) == before


def test_the_teams_files_stay_where_this_clone_installed_nothing(world: World, tmp_path: Path) -> None:
    """A teammate's uninstall takes away their git hooks, not what came with the repository."""
    world.cli("init", "--yes", *ALL)
    world.git("add", "-A")
    world.git("commit", "-qm", "installed")
    clone = World(tmp_path / "clone", world.env)
    world.git("clone", "-q", str(world.root), str(clone.root))
    clone.cli("init", "--yes")
    assert "came with the repository" in clone.cli("uninstall").out
    assert clone.git("status", "--porcelain").out == ""


def test_in_the_middle_of_a_run(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between steps it is allowed, and said that the files count as product; while a child works it is refused."""
    world = world_at("begun", tmp_path_factory, monkeypatch)
    assert f"{TASK} is under way" in world.cli("init", "--yes", "--client", "claude-code").err
    world.verb("prepare", "--client", "claude-code")
    before = tree(world.root)
    answer = world.cli("init", "--yes", "--client", "codex", check=False)
    assert answer.code == 1
    assert "INSTALL_REFUSED" in answer.err
    assert "abandon" in answer.err
    assert tree(world.root) == before
    assert world.cli("init", "--yes", "--client", "claude-code").out == "everything was in place\n"
