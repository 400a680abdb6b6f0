"""`agent-infra doctor`: what is wrong is named with the command that mends it, and nothing changes."""

import json
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_infra.errors import ErrorCode
from agent_infra.services import prepare as preparing
from agent_infra.stores import litter
from tests.support.lifecycle import CLIENT, TASK, World, fresh, world_at

At = Callable[[str], World]
JOURNAL = f".git/agent-infra/runs/{TASK}/journal.jsonl"
GUARD = f".git/agent-infra/guards/{TASK}"
VIEW = f".agents/workspace/active/{TASK}/orchestration.json"
EVIDENCE = f"refs/agent-infra/runs/{TASK}"
REPAIR = f"agent-infra orchestrate repair {TASK}"
HOOKS = {"pre-commit", "pre-merge-commit", "commit-msg", "post-commit", "pre-rebase", "reference-transaction"}


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


def everything(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time and bytes of every file and folder."""
    found = {}
    for path in [root, *root.rglob("*")]:
        info = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path)] = (info.st_mode, info.st_mtime_ns, data)
    return found


def findings(world: World, *, code: int, **options: Any) -> list[dict[str, Any]]:
    """What doctor says as JSON; whatever it finds, it leaves every byte, mode and time as it was."""
    before = everything(world.root)
    answer = world.cli("doctor", "--json", check=False, **options)
    assert everything(world.root) == before
    assert answer.code == code, answer
    assert answer.out.count("\n") == 1
    found = json.loads(answer.out)
    assert found["status"] == ("faulty" if code else "ok")
    listed: list[dict[str, Any]] = found["findings"]
    assert all(entry.keys() == {"check", "level", "message", "helps"} for entry in listed)
    assert all(entry["helps"] for entry in listed if entry["level"] == "fault"), listed
    return listed


def faults(world: World, **options: Any) -> list[tuple[str, str, str]]:
    listed = findings(world, code=1, **options)
    return [(e["check"], e["message"], e["helps"]) for e in listed if e["level"] == "fault"]


def test_a_sound_repository_is_fine_at_every_point_of_a_run(at: At) -> None:
    """Nothing is wrong, and it is said which hooks fired, which programs work and where."""
    for state in ("installed", "begun", "worked", "ready", "opened", "committed"):
        listed = findings(at(state), code=0)
        fired = next(e["message"] for e in listed if e["message"].startswith("fired"))
        assert {name for name in HOOKS if name in fired} == HOOKS
        assert any(e["check"] == "firing" and "refused when tried" in e["message"] for e in listed)
        words = " ".join(e["message"] for e in listed)
        assert all(word in words for word in ("agent-infra ", "Python ", "git ", "libgit2 "))


def test_lines_for_people_name_fault_and_help(at: At) -> None:
    world = at("installed")
    assert world.cli("doctor").out.endswith("nothing is wrong\n")
    (world.root / ".git/hooks/pre-commit").unlink()
    answer = world.cli("doctor", check=False)
    assert answer.code == 1
    assert "FAULT hooks: " in answer.out
    assert "→ agent-infra init" in answer.out


def test_a_repository_without_us_is_faulty(tmp_path: Path) -> None:
    world = fresh(tmp_path / "repo")
    assert {(check, helps) for check, _, helps in faults(world)} == {
        ("hooks", "agent-infra init"),
        ("firing", "agent-infra init"),
    }


def test_outside_of_a_repository_it_says_so(tmp_path: Path) -> None:
    world = World(tmp_path / "nowhere")
    world.root.mkdir()
    answer = world.cli("doctor", "--json", check=False)
    assert answer.code == 1
    assert "REPO_ROOT_NOT_FOUND" in answer.json["findings"][0]["message"]


def test_no_hook_of_anybody_else_runs(at: At, tmp_path: Path) -> None:
    """The probe calls our shims alone: not the hook that was moved aside, not one that took our place."""
    world = at("installed")
    for name in ("pre-commit", "post-commit"):
        world.hook(name, f"touch {tmp_path}/ran")
    world.cli("init", "--yes")
    assert (world.root / ".git/agent-infra/hooks/moved/pre-commit").exists()
    findings(world, code=0)
    world.hook("pre-commit", f"touch {tmp_path}/ran")
    assert any("pre-commit is foreign" in message for _, message, _ in faults(world))
    assert not (tmp_path / "ran").exists()


def _no_execute(world: World) -> None:
    (world.root / ".git/hooks/commit-msg").chmod(0o644)


def _interpreter(world: World) -> None:
    hook = world.root / ".git/hooks/commit-msg"
    hook.write_bytes(hook.read_bytes().replace(b"#!/bin/sh", b"#!/no/such/sh"))


@pytest.mark.parametrize(
    "harm",
    [pytest.param(_no_execute, id="not executable"), pytest.param(_interpreter, id="its interpreter is gone")],
)
def test_a_hook_that_does_not_fire_is_found_by_trying(at: At, harm: Callable[[World], None]) -> None:
    world = at("installed")
    harm(world)
    tried = [(message, helps) for check, message, helps in faults(world) if check == "firing"]
    assert any("commit-msg" in message and "nothing came" in message for message, _ in tried)
    world.cli("init", "--yes")
    findings(world, code=0)


def test_a_program_that_is_gone_is_found_by_trying(at: At, tmp_path: Path) -> None:
    """All shims lie there and fire, but nobody judges behind them."""
    world = at("installed")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 0\n")
    broken.chmod(0o755)
    said = faults(world, env={"AGENT_INFRA": str(broken)})
    assert [check for check, _, _ in said] == ["firing"]
    assert "not refused" in said[0][1]


def test_a_hooks_path_elsewhere_is_named_with_where_it_is_set(at: At) -> None:
    world = at("installed")
    world.git("config", "core.hooksPath", "elsewhere")
    said = [message for check, message, _ in faults(world) if check == "hooks"]
    assert "core.hooksPath is elsewhere (set in .git/config)" in said[0]


def test_features_that_git_does_alone_are_notes(tmp_path: Path, at: At) -> None:
    """Split index, sparse checkout, partial and shallow clones and sha256 work; it is said that they are there."""
    world = at("installed")
    for key, value in (("core.splitIndex", "true"), ("core.sparseCheckout", "true")):
        world.git("config", key, value)
    world.git("config", "remote.origin.promisor", "true")
    (world.root / ".git/shallow").write_text("")
    notes = [e["message"] for e in findings(world, code=0) if e["level"] == "note"]
    assert "a partial clone, a split index, a sparse checkout" in notes[0]
    assert "cut" in notes[1]
    world.git("init", "-q", "--object-format=sha256", str(tmp_path / "new"))
    new = World(tmp_path / "new")
    assert any("sha256" in e["message"] for e in findings(new, code=1) if e["level"] == "note")


def _drop_journal(world: World) -> None:
    (world.root / JOURNAL).unlink()


def _bad_journal(world: World) -> None:
    path = world.root / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"begin"', b'"began"', 1))


def _edit_view(world: World) -> None:
    path = world.root / VIEW
    path.write_text(path.read_text().replace('"maxSteps": 24', '"maxSteps": 99'))


def _drop_view(world: World) -> None:
    (world.root / VIEW).unlink()


def _drop_guard(world: World) -> None:
    (world.root / GUARD).unlink()


def _edit_guard(world: World) -> None:
    (world.root / GUARD).write_text('{"worktree": "/elsewhere", "branch": "main"}\n')


def _drop_folder(world: World) -> None:
    shutil.rmtree(world.folder())


def _drop_evidence(world: World) -> None:
    world.git("update-ref", "-d", EVIDENCE)


def _older_evidence(world: World) -> None:
    world.git("update-ref", EVIDENCE, f"{EVIDENCE}~1")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        pytest.param(_drop_journal, "ORCHESTRATION_JOURNAL_MISSING", id="the journal is gone"),
        pytest.param(_bad_journal, "ORCHESTRATION_JOURNAL_INVALID", id="a line of the journal was edited"),
        pytest.param(_edit_view, "ORCHESTRATION_STATE_TAMPERED", id="the view was edited"),
        pytest.param(_drop_view, "orchestration.json is missing", id="the view is gone"),
        pytest.param(_drop_guard, "nothing guards it", id="the guard is gone"),
        pytest.param(_edit_guard, "does not say what its journal says", id="the guard was edited"),
        pytest.param(_drop_folder, "its folder is gone", id="the task's folder is gone"),
        pytest.param(_drop_evidence, "the evidence has 0 lines", id="the evidence is gone"),
        pytest.param(_older_evidence, "the evidence has", id="the evidence is behind"),
    ],
)
def test_state_that_does_not_agree_is_mended_by_the_named_command(
    at: At, harm: Callable[[World], None], says: str
) -> None:
    """Every fault of a run is named with `repair`, and after it nothing is wrong."""
    world = at("ready")
    harm(world)
    said = [entry for entry in faults(world) if entry[0] == "runs"]
    assert len(said) == 1
    assert says in said[0][1]
    assert said[0][2] == REPAIR
    world.cli(*REPAIR.split()[1:])
    findings(world, code=0)


def test_a_guard_that_nothing_explains_is_named(at: At) -> None:
    """A guard without any trace of a run can be removed alone; one left by a finished run is mended by repair."""
    world = at("installed")
    for name in (TASK, "no-task"):
        (world.root / ".git/agent-infra/guards").mkdir(exist_ok=True)
        (world.root / ".git/agent-infra/guards" / name).write_text("{}")
    assert all(helps.startswith("rm ") for _, _, helps in faults(world))
    world = at("begun")
    guard = (world.root / GUARD).read_bytes()
    world.verb("end", "--reason", "enough")
    (world.root / GUARD).write_bytes(guard)
    (said,) = faults(world)
    assert "over, but it still guards" in said[1]
    world.cli(*REPAIR.split()[1:])
    findings(world, code=0)


def test_another_branch_and_a_lost_worktree_are_named(at: At, tmp_path: Path) -> None:
    world = at("begun")
    world.git("symbolic-ref", "HEAD", "refs/heads/other")
    world.git("update-ref", "refs/heads/other", "refs/heads/main")
    (said,) = faults(world)
    assert "belongs to main, but other is checked out" in said[1]
    assert said[2] == f"git -C {world.root} switch main"
    world = at("installed")
    world.git("worktree", "add", "-q", "-b", "work", str(tmp_path / "linked"))
    world.make_task()
    World(tmp_path / "linked", primary=world.root).begin()
    findings(world, code=0)
    shutil.rmtree(tmp_path / "linked")
    (said,) = faults(world)
    assert said[1].endswith("is gone")
    assert said[2] == f"git worktree add {tmp_path / 'linked'} work"


def test_steps_that_nobody_does_are_named(at: At) -> None:
    """Prepared a minute ago without a child is a fault; so is a driver's step without its driver; a pause is a note."""
    world = at("begun")
    preparing.prepare(world.context, TASK, preparing.Order(CLIENT))
    findings(world, code=0)
    line = (world.root / JOURNAL).read_bytes()
    assert line.count(b"\n") == 2
    created = world.journal()[-1]["receipt"]["createdAt"]
    older = f"2026-01-01{created[10:]}"
    (world.root / JOURNAL).write_bytes(
        line.replace(f'"createdAt":"{created}"'.encode(), f'"createdAt":"{older}"'.encode())
    )
    (world.root / VIEW).unlink()
    said = [message for _, message, _ in faults(world)]
    assert any("no child started" in message for message in said)
    world = at("sealed")
    world.verb("pause", "--code", "WAIT", "--message", "for Ada")
    notes = [e for e in findings(world, code=0) if e["level"] == "note"]
    assert notes[0]["helps"] == f"agent-infra orchestrate begin {TASK}"
    assert "WAIT: for Ada" in notes[0]["message"]


def test_faults_of_config_and_short_ids_are_named(at: At) -> None:
    world = at("installed")
    registry = world.write(".agents/workspace/active/.short-ids.json", f'{{"version": 1, "ids": {{"01": "{TASK}"}}}}')
    assert "not active" in faults(world)[0][1]
    registry.write_text("{")
    assert ErrorCode.SHORT_ID_REGISTRY_INVALID_JSON in faults(world)[0][1]
    registry.unlink()
    world.write(".agents/config.toml", "[run]\nmax_stepz = 3\n")
    checks = {check: message for check, message, _ in faults(world)}
    assert "did you mean max_steps?" in checks["config"]


def test_litter_of_killed_commands_is_named_and_swept_by_init(at: At) -> None:
    """Only what is older than an hour and has a name of ours; `init` takes it away."""
    world = at("ready")
    ours = world.root / ".git/agent-infra"
    left = [
        ours / "scratch.abc",
        ours / "commit-index.4711",
        ours / "guards" / f".{TASK}.4711.0a1b2c3d.tmp",
        world.folder() / ".orchestration.json.4711.0a1b2c3d.tmp",
        world.root / ".git/hooks/.pre-commit.4711.0a1b2c3d.tmp",
    ]
    kept = [world.folder() / "notes.tmp", ours / "scratch", ours / "commit-index.young"]
    for path in (*left, *kept):
        path.write_text("x")
    left[0].unlink()
    left[0].mkdir()
    (left[0] / "index").write_text("x")
    findings(world, code=0)
    old = time.time() - litter.LITTER_AGE - 60
    for path in (left[0] / "index", *left, *kept):
        os.utime(path, (old, old))
    said = [entry for entry in faults(world) if entry[0] == "litter"]
    assert {message.split(" ")[0] for _, message, _ in said} == {str(path) for path in left}
    assert {helps for _, _, helps in said} == {"agent-infra init"}
    assert world.cli("init", "--yes").out.count("swept away") == len(left)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)
    findings(world, code=0)
