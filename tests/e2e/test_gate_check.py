"""`gate check`: the other hooks are tried elsewhere on what would be committed, and nothing of the user's moves."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agent_infra.core.lifecycle import Stage
from agent_infra.services import prepare as preparing
from tests.support.lifecycle import CLIENT, FIXED, PROGRAM, TASK, Answer, World, fresh
from tests.support.repos import Sandbox, user_state

FORMATTED = FIXED + "\n# formatted\n"
FORMAT = "echo >>src/app.py && echo '# formatted' >>src/app.py"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A repository in which the work is done and nothing is reviewed; hooks are for each test to put there."""
    for name in [name for name in os.environ if name.startswith(("CI", "CLAUDE", "CODEX", "AGENT_INFRA"))]:
        monkeypatch.delenv(name)
    made = fresh(tmp_path / "repo")
    monkeypatch.setenv("PATH", made.env["PATH"])
    return made


def begun(world: World, settings: str = "", **hooks: str) -> World:
    """The hooks of a team, then ours, then a run whose child has done its work."""
    for name, script in hooks.items():
        world.hook(name.replace("_", "-"), script)
    world.cli("init", "--yes")
    if settings:
        world.write(".agents/config.toml", settings)
    world.git("add", ".agents")
    world.git("commit", "-q", "--no-verify", "-m", "install agent-infra")
    world.make_task()
    world.begin()
    world.fix()
    return world


def foresee(world: World, code: int, *options: str, **more: Any) -> dict[str, Any]:
    """The answer as JSON; whatever it is, everything of the user's is as before, and nothing is left behind."""
    before = everything(world)
    answer = world.cli("gate", "check", TASK, "--json", *options, check=False, **more)
    assert answer.code == code, answer
    assert everything(world) == before
    assert left(world) == []
    return answer.json


def everything(world: World) -> tuple[object, ...]:
    files = (path for path in sorted(world.root.rglob("*")) if ".git" not in path.parts and path.is_file())
    kept = {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    return user_state(Sandbox(world.root)), kept, world.journal(), world.git("worktree", "list").out


def left(world: World) -> list[str]:
    """Throwaway folders that are there."""
    folder = world.root / ".git/agent-infra/worktrees"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def text(world: World, *options: str) -> Answer:
    return world.cli("gate", "check", TASK, *options, check=False)


@pytest.mark.parametrize(
    ("hooks", "code", "status", "said"),
    [
        pytest.param({"pre_commit": "exit 0"}, 0, "passes", "pre-commit passes", id="passes"),
        pytest.param({}, 0, "passes", "no other hooks", id="no hooks"),
        pytest.param({"pre_commit": f"{FORMAT} && git add src/app.py"}, 1, "rewritten", "src/app.py", id="rewrites"),
        pytest.param({"pre_commit": FORMAT}, 0, "passes", "beside the commit", id="rewrites files alone"),
        pytest.param({"pre_commit": f"{FORMAT}; exit 1"}, 1, "refused", "would change src/app.py", id="as black does"),
        pytest.param({"pre_commit": "git rm -qf tool.sh"}, 1, "rewritten", "tool.sh", id="takes a file away"),
        pytest.param({"pre_commit": "echo no; exit 3"}, 1, "refused", "exit code 3", id="refuses"),
        pytest.param({"commit_msg": "exit 1"}, 1, "refused", "a draft message of ours", id="refuses the message"),
        pytest.param({"pre_commit": "kill -9 $$"}, 1, "refused", "exit code -9", id="ended by a signal"),
    ],
)
def test_what_each_hook_would_do(world: World, hooks: dict[str, str], code: int, status: str, said: str) -> None:
    """Rewritten or refused is 1; what stays beside the commit does no harm to it."""
    begun(world, **hooks)
    assert foresee(world, code)["status"] == status
    assert said in text(world).out


def test_the_answer_for_programs(world: World) -> None:
    """Tree and parent of the commit, and for each hook what it changed and said, without secrets."""
    begun(world, pre_commit=f"{FORMAT}; git add src/app.py", commit_msg=f"echo https://me:{TOKEN}@host; exit 2")
    found = foresee(world, 1)
    assert found["taskId"] == TASK
    assert found["head"] == world.head
    assert found["error"] is None
    first, second = found["hooks"]
    assert (first["name"], first["status"], first["exitCode"]) == ("pre-commit", "rewritten", 0)
    assert (first["rewrites"], first["restaged"]) == (["src/app.py"], True)
    assert (second["name"], second["status"], second["exitCode"]) == ("commit-msg", "refused", 2)
    assert second["rewrites"] == []
    assert second["output"] == "https://[redacted]@host"
    assert TOKEN not in text(world).out


def test_the_hooks_see_the_commit_that_would_be_made(world: World, tmp_path: Path) -> None:
    """The run's paths alone, on the branch, with refs, settings and message; an unrelated file is not there."""
    seen = tmp_path / "seen"
    world.git("tag", "v1")
    world.git("config", "team.rule", "strict")
    world.write("src/note.txt", "of somebody else\n")
    script = (
        f"exec >>{seen}; git diff --cached --name-status; git symbolic-ref HEAD; git rev-parse --verify -q v1^0; "
        'git config team.rule; cat src/app.py; ls src; git status --short; test -n "$GIT_INDEX_FILE" && echo index'
    )
    begun(world, pre_commit=script, commit_msg=f'cat "$1" >>{seen}')
    foresee(world, 0, "-m", "fix: two and two")
    lines = seen.read_text()
    assert lines.startswith(f"M\tsrc/app.py\nrefs/heads/main\n{world.git('rev-parse', 'v1').out}strict\n{FIXED}")
    assert lines.endswith("app.py\nold.py\nM  src/app.py\nindex\nfix: two and two\n")


def test_what_hooks_do_to_refs_and_settings_ends_with_the_place(world: World) -> None:
    """A stash, a branch, a tag, a commit, a setting: all of it is in a repository of its own."""
    world.write("README.md", "# local\n")
    script = "git stash -q; git stash apply -q --index; git branch x; git tag y; git config team.rule no"
    begun(world, pre_commit=f"{script}; git -c core.hooksPath=/dev/null commit -qm z; git gc -q; exit 0")
    foresee(world, 0)
    assert world.git("stash", "list").out == ""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param('exec "$(dirname "$0")/../../../hooks/commit-msg" "$@"', id="our shim, as pre-commit calls it"),
        pytest.param('agent-infra gate pre-commit --common-dir "$(git rev-parse --git-common-dir)"', id="as offered"),
    ],
)
def test_our_own_gate_does_not_judge(world: World, script: str) -> None:
    """A manager that asks us in its turn gets a yes: here it is about the others."""
    begun(world, pre_commit=script)
    assert (world.root / ".git/agent-infra/hooks/moved/pre-commit").exists()
    assert foresee(world, 0)["hooks"][0]["exitCode"] == 0


def test_what_is_ignored_and_needed_is_lent(world: World) -> None:
    """node_modules and what the settings name, by links that no `git add -A` of a hook picks up."""
    world.write(".gitignore", ".agents/workspace/\nbuild/\nnode_modules/\n")
    world.git("commit", "-qam", "ignore")
    world.write("node_modules/.bin/format", "#!/bin/sh\necho formats\n", mode=0o755)
    world.write("build/data", "x")
    script = "node_modules/.bin/format && cat build/data && git add -A"
    begun(world, "[gate]\ncheck_links = ['node_modules', 'build', 'absent', 'src']\n", pre_commit=script)
    found = foresee(world, 0)
    assert found["linked"] == ["node_modules", "build"]
    assert found["hooks"][0]["output"] == "formats\nx"
    assert "node_modules, build" in text(world).err


def test_too_long_is_not_passed(world: World, tmp_path: Path) -> None:
    """At the limit the whole group of processes is ended, and the answer is: not known."""
    mark = tmp_path / "lived"
    script = f"trap '' TERM; (sleep 6; touch {mark}) & echo waits; sleep 60"
    begun(world, "[gate]\ncheck_timeout = 0.7\n", pre_commit=script, commit_msg="exit 0")
    started = time.monotonic()
    found = foresee(world, 2)
    assert found["status"] == "unknown"
    assert [(hook["name"], hook["status"]) for hook in found["hooks"]] == [("pre-commit", "timed out")]
    assert found["hooks"][0]["output"] == "waits"
    time.sleep(max(0.0, 6.5 - (time.monotonic() - started)))
    assert not mark.exists()


def test_what_can_not_be_checked_is_2(world: World) -> None:
    """No run, no task, nothing to commit: each says why."""
    begun(world, pre_commit="exit 0")
    world.git("checkout", "-q", "src/app.py")
    assert "HEAD has all of it" in foresee(world, 2)["reason"]
    world.verb("end", "--reason", "enough")
    world.make_task("TASK-20260101-130000")
    answer = world.cli("gate", "check", "TASK-20260101-130000", "--json", check=False)
    assert (answer.code, answer.json["status"], answer.error) == (2, "unknown", "ORCHESTRATION_RUN_MISSING")
    answer = world.cli("gate", "check", "77", check=False)
    assert answer.code == 2
    assert "SHORT_ID_REGISTRY_NOT_FOUND" in answer.err


def test_no_lock_is_held_while_hooks_run(world: World, tmp_path: Path) -> None:
    """A hook may call what needs the lock of the repository."""
    begun(world, pre_commit=f"agent-infra --repo {world.root} task create --title another >{tmp_path}/made")
    assert text(world).code == 0
    assert "#1" in (tmp_path / "made").read_text()


def test_a_run_in_a_linked_worktree(world: World) -> None:
    """Its own branch and its own files count, wherever the question is asked."""
    world.hook("pre-commit", "git symbolic-ref HEAD; git diff --cached --name-only")
    world.cli("init", "--yes")
    world.git("add", ".agents")
    world.git("commit", "-q", "--no-verify", "-m", "install agent-infra")
    world.git("worktree", "add", "-q", "-b", "work", "../linked")
    linked = World(world.root.parent / "linked", world.env, world.root)
    world.make_task()
    linked.begin()
    linked.write("src/new.py", "NEW = 1\n")
    for place in (linked, world):
        answer = place.cli("gate", "check", TASK, "--json", check=False)
        assert answer.json["hooks"][0]["output"] == "refs/heads/work\nsrc/new.py", answer
    assert len(world.git("worktree", "list").out.splitlines()) == 2


def test_a_sha256_repository_without_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commit of a branch is tried as any other."""
    for name in [name for name in os.environ if name.startswith(("CI", "CLAUDE", "CODEX", "AGENT_INFRA"))]:
        monkeypatch.delenv(name)
    root = tmp_path / "repo"
    root.mkdir()
    world = World(root)
    world.git("init", "-q", "-b", "main", "--object-format=sha256")
    world.hook("pre-commit", "git diff --cached --name-only; exit 1")
    world.cli("init", "--yes")
    world.make_task()
    world.begin()
    world.write("src/app.py", FIXED)
    found = foresee(world, 1)
    assert found["head"] is None
    assert "src/app.py" in found["hooks"][0]["output"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 130, id="TERM"),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, id="KILL"),
    ],
)
def test_a_stopped_check_leaves_nothing(world: World, tmp_path: Path, number: int, code: int) -> None:
    """What a kill leaves is named by `doctor` and taken away by the next call; no user's file is touched."""
    begun(world, pre_commit=f"test -e {tmp_path}/again && exit 0; echo $$ >{tmp_path}/pid; sleep 20")
    before = everything(world)
    process = subprocess.Popen([str(PROGRAM), "gate", "check", TASK], cwd=world.root, env=world.env)
    pid = _wait_for(tmp_path / "pid")
    process.send_signal(number)
    assert process.wait(30) == code
    if number == signal.SIGKILL:
        os.killpg(pid, signal.SIGKILL)
        assert len(left(world)) == 1
        said = [
            each for each in world.cli("doctor", "--json", check=False).json["findings"] if each["check"] == "litter"
        ]
        assert left(world)[0] in said[0]["message"]
        assert said[0]["level"] == "fault"
    else:
        assert left(world) == []
        assert not alive(pid)
    assert everything(world) == before
    (tmp_path / "again").touch()
    foresee(world, 0)


def test_init_takes_away_what_a_kill_left(world: World, tmp_path: Path) -> None:
    begun(world, pre_commit=f"echo $$ >{tmp_path}/pid; sleep 20")
    process = subprocess.Popen([str(PROGRAM), "gate", "check", TASK], cwd=world.root, env=world.env)
    pid = _wait_for(tmp_path / "pid")
    assert "gate-check." not in world.cli("init", "--yes").out, "somebody holds it"
    process.kill()
    process.wait()
    os.killpg(pid, signal.SIGKILL)
    assert "gate-check." in world.cli("init", "--yes").out
    assert left(world) == []


def alive(group: int) -> list[str]:
    """Processes of a group that are more than an entry that nobody has read yet."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split()[0] == str(group) and "Z" not in line]


def _wait_for(path: Path) -> int:
    """The number in a file that is about to come."""
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)
    return int(path.read_text())


# -- before a code review ----------------------------------------------------------------------------------------------


def to_review(world: World) -> None:
    while world.next_stage() != Stage.REVIEW_CODE:
        world.step()


def prepare(world: World) -> Answer:
    return world.verb("prepare", "--client", CLIENT)


def test_the_reviewer_is_told(world: World) -> None:
    """The result is in the brief, on record without what hooks said, and the commit that comes of it is verified."""
    begun(world, "[gate]\ncheck = true\n", pre_commit=f"test -e build/off || ({FORMAT}; echo said; git add src/app.py)")
    to_review(world)
    answer = prepare(world)
    assert any("pre-commit would rewrite src/app.py" in note for note in answer.json["notes"])
    told = world.verb("brief").json["brief"]
    assert "gate check: pre-commit would rewrite src/app.py" in told
    assert "before you approve" in told
    fact = world.journal()[-1]["facts"]["gateCheck"]
    assert (fact["status"], fact["hooks"][0]["rewrites"]) == ("rewritten", ["src/app.py"])
    assert "said" not in str(fact["hooks"])
    world.verb("abandon", "--reason", "the formatted content is to be reviewed")
    world.write("build/off", "")
    world.write("src/app.py", FORMATTED)
    world.write(".git/agent-infra/hooks/moved/pre-commit", "#!/bin/sh\nexit 0\n", mode=0o755)
    world.step()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    assert "1 verified" in world.cli("verify", "HEAD~1..HEAD").out


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("exit 1", "pre-commit would refuse this commit with exit code 1", id="refused"),
        pytest.param("sleep 60", "timed out (limit 0.5 s)", id="timed out"),
    ],
)
def test_no_answer_of_a_hook_keeps_a_step_from_being_prepared(world: World, script: str, said: str) -> None:
    """It is told, no more; the review decides."""
    begun(world, "[gate]\ncheck = true\ncheck_timeout = 0.5\n", pre_commit=script)
    to_review(world)
    assert prepare(world).json["run"]["pendingDelegation"]["stage"] == "review-code"
    assert said in world.verb("brief").json["brief"]


def test_what_changes_while_hooks_run_is_not_held_against_the_reviewer(world: World) -> None:
    """The receipt says what lies there when the step is opened, and the answer is not known."""
    begun(world, "[gate]\ncheck = true\n", pre_commit="")
    edit = f"echo '# later' >>{world.root}/src/app.py"
    world.write(".git/agent-infra/hooks/moved/pre-commit", f"#!/bin/sh\n{edit}\n", mode=0o755)
    to_review(world)
    world.step()
    prepared = [line for line in world.journal() if "gateCheck" in line.get("facts", {})]
    assert [line["facts"]["gateCheck"]["status"] for line in prepared] == ["unknown"]
    assert world.next_stage() == Stage.COMMIT


def test_without_the_setting_no_hook_runs(world: World, tmp_path: Path) -> None:
    """And with it only before a code review."""
    begun(world, pre_commit=f"touch {tmp_path}/ran")
    to_review(world)
    preparing.prepare(world.context, TASK, preparing.Order(CLIENT))
    assert not (tmp_path / "ran").exists()


def test_a_hook_that_rewrites_what_was_reviewed_is_named_at_the_commit(world: World) -> None:
    """With the paths and the way on, which leads to a review of what the hook left."""
    begun(world, pre_commit=f"grep -q formatted src/app.py || {{ {FORMAT}; git add src/app.py; }}")
    world.to_commit()
    world.open_step()
    before = world.head
    answer = world.cli("commit", TASK, "-m", "fix: sum", check=False)
    assert (answer.code, world.head) == (1, before)
    assert "a hook of yours rewrote src/app.py" in answer.err
    assert "[COMMIT_UNAUTHORIZED]" in answer.err
    world.refused("-am", "by hand", says=("differs from what was reviewed: src/app.py", "reviewed as it is now"))
    world.verb("abandon", "--reason", "it was formatted")
    assert (world.root / "src/app.py").read_text() == FORMATTED
    assert world.next_stage() == Stage.REVIEW_CODE
    world.step()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"


def test_a_hook_that_refuses_the_commit_is_quoted(world: World) -> None:
    """Line by line, as the hook said it; there is nothing to be reviewed again."""
    begun(world, pre_commit=f"echo first; echo https://me:{TOKEN}@host; exit 1")
    world.to_commit()
    world.open_step()
    answer = world.cli("commit", TASK, "-m", "fix: sum", check=False)
    assert answer.code == 1
    assert answer.err.splitlines()[0].endswith("nothing was committed [GIT_FAILED]")
    assert answer.err.splitlines()[1:] == ["first", "https://[redacted]@host"]
