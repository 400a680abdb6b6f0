"""`task check`: a claim is a command that ran on a tree; what the settings require stands between review and commit."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_infra.core.checks import check_key
from agent_infra.services import orchestrate
from tests.support.lifecycle import CLIENT, TASK, Answer, World, terminal, world_at

At = Callable[[str], World]
COMMAND = ("grep", "-q", "a + b", "src/app.py")
SPELLED = "grep -q 'a + b' src/app.py"
SETTINGS = "[gate]\nrequired_checks = [\"grep -q 'a + b' src/app.py\"]\n"


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


def check(world: World, *command: str, code: int, options: tuple[str, ...] = (), **more: Any) -> Answer:
    answer = world.cli("task", "check", *options, TASK, "--", *command, check=False, **more)
    assert answer.code == code, answer
    return answer


def last(world: World) -> dict[str, Any]:
    return world.journal()[-1]


def lines(world: World) -> int:
    return len(world.journal())


def required(at: At, settings: str = SETTINGS) -> World:
    """All is reviewed under settings that require a check; the commit is next."""
    world = at("installed")
    world.write(".agents/config.toml", settings)
    world.git("commit", "-qam", "require a check")
    world.make_task()
    world.begin()
    world.to_commit()
    return world


def prepare(world: World, *, code: int) -> Answer:
    return world.verb("prepare", "--client", CLIENT, code=code)


def test_what_a_command_did_is_on_record(at: At) -> None:
    """Output goes to stdout as it is; command, exit code, tree, digest of the output and time to the journal."""
    world = at("begun")
    answer = check(world, "sh", "-c", "echo out; echo err >&2; exit 3", code=1)
    assert answer.out == "out\nerr\n"
    assert "ended with 3" in answer.err
    event = last(world)
    facts = event["facts"]
    assert event["op"] == "checked"
    assert facts["command"] == ["sh", "-c", "echo out; echo err >&2; exit 3"]
    assert facts["output"] == hashlib.sha256(b"out\nerr\n").hexdigest()
    assert facts["exitCode"] == 3
    assert 0 <= facts["seconds"] < 30
    assert facts["tree"] == facts["treeAfter"] == world.view()["baseline"]["tree"]
    assert event["memo"]["checks"] == {check_key(facts["tree"], facts["command"]): 3}
    assert event.keys() == {"v", "seq", "prev", "ts", "op", "memo", "facts"}
    assert check(world, "true", code=0).out == ""
    assert last(world)["facts"]["exitCode"] == 0


def test_a_command_that_changes_the_product_proves_nothing(at: At) -> None:
    """It is on record, without a result; what git ignores or the settings exclude may change."""
    world = at("begun")
    answer = check(world, "sh", "-c", "echo x >src/new.py", code=1)
    assert "proves nothing" in answer.err
    assert "memo" not in last(world)
    assert last(world)["facts"]["tree"] != last(world)["facts"]["treeAfter"]
    check(world, "sh", "-c", "mkdir -p build .pytest_cache; echo x >build/out; echo x >.pytest_cache/out", code=0)


def test_the_command_runs_in_the_worktree_of_the_run(at: At, tmp_path: Path) -> None:
    """Wherever it is called from, without what git told a hook, and with nothing to read."""
    world = at("begun")
    inside = world.write("src/deep/x.txt", "x").parent
    env = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere", "KEPT": "yes"}
    answer = check(world, "sh", "-c", "pwd; echo $GIT_DIR$GIT_INDEX_FILE$KEPT; cat", code=0, cwd=inside, env=env)
    assert answer.out == f"{world.root}\nyes\n"


def test_a_command_that_takes_too_long_is_stopped_with_all_its_children(at: At, tmp_path: Path) -> None:
    """124, as `timeout` has it, is on record; what it started does not live on."""
    world = at("begun")
    started = time.monotonic()
    script = f"trap '' TERM; (sleep 8; touch {tmp_path}/lived) & echo begun; sleep 60"
    answer = check(world, "sh", "-c", script, code=1, options=("--timeout", "0.5"))
    assert time.monotonic() - started < 8
    assert answer.out == "begun\n"
    assert "--timeout" in answer.err
    assert last(world)["facts"]["exitCode"] == 124


def test_what_stays_in_the_background_does_not_hold_the_answer(at: At) -> None:
    started = time.monotonic()
    check(at("begun"), "sh", "-c", "sleep 60 & echo done", code=0)
    assert time.monotonic() - started < 30


def test_the_output_is_seen_on_a_terminal_while_it_comes(at: At) -> None:
    world = at("begun")
    person = terminal(world, "task", "check", TASK, "--", "sh", "-c", "echo first; sleep 1; echo second")
    person.until("first")
    assert "second" not in person.seen
    person.until("second")
    assert person.end()[0] == 0


@pytest.mark.parametrize(
    ("state", "command", "says"),
    [
        pytest.param("installed", ("true",), "ORCHESTRATION_RUN_MISSING", id="no run"),
        pytest.param("paused", ("true",), "ORCHESTRATION_RUN_PAUSED", id="a paused run"),
        pytest.param("ended", ("true",), "ORCHESTRATION_RUN_NOT_RUNNING", id="a run that is over"),
        pytest.param("begun", ("no-such-program",), "CHECK_NOT_STARTED", id="no such program"),
        pytest.param("begun", ("./README.md",), "CHECK_NOT_STARTED", id="not executable"),
    ],
)
def test_what_is_refused_is_not_recorded(at: At, state: str, command: tuple[str, ...], says: str) -> None:
    world = at(state if state in {"installed", "begun"} else "begun")
    if state == "installed":
        world.make_task()
        assert says in check(world, *command, code=1).err
        return
    if state == "paused":
        world.verb("pause", "--code", "WAIT", "--message", "for Ada")
    if state == "ended":
        world.verb("end", "--reason", "enough")
    before = lines(world)
    assert says in check(world, *command, code=1).err
    assert lines(world) == before


def test_without_a_command_it_is_wrong_usage(at: At) -> None:
    world = at("begun")
    assert world.cli("task", "check", TASK, check=False).code == 2
    assert world.cli("task", "check", TASK, "--", check=False).code == 2


def test_options_of_the_command_are_its_own(at: At) -> None:
    """After the task all words belong to the command."""
    assert check(at("begun"), "echo", "--timeout", "x", "--help", code=0).out == "--timeout x --help\n"


def test_a_commit_is_prepared_only_when_the_required_check_has_passed(at: At) -> None:
    """Refused with command, tree and the line that helps; after it prepared, committed and verified."""
    world = required(at)
    before = lines(world)
    answer = prepare(world, code=1)
    assert answer.error == "ORCHESTRATION_CHECK_MISSING"
    assert lines(world) == before
    review = next(r for r in world.view()["receipts"] if r["stage"] == "review-code")
    message = answer.json["error"]["message"]
    assert review["inputTree"] in message
    assert f"`agent-infra task check {TASK} -- {SPELLED}`" in message
    check(world, *COMMAND, code=0)
    assert world.open_step().stage == "commit"
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    assert "1 verified" in world.cli("verify", "HEAD~1..HEAD").out


def test_a_check_that_fails_or_ran_on_another_tree_does_not_count(at: At) -> None:
    """Passed before the work was done is not passed; a later failure on the same tree takes a pass back."""
    world = required(at, "[gate]\nrequired_checks = ['sh tool.sh']\n")
    check(world, "sh", "tool.sh", code=0)
    world.write("build/flag", "x")
    assert orchestrate.route_task(world.context, TASK).next is not None
    world.write("tool.sh", "#!/bin/sh\nexit 0\n# another\n")
    check(world, "sh", "tool.sh", code=0)
    world.write("tool.sh", "#!/bin/sh\n")
    world.open_step()
    assert lines(world) > 0
    flaky = required(at, "[gate]\nrequired_checks = ['test ! -e build/flag']\n")
    check(flaky, "test", "!", "-e", "build/flag", code=0)
    flaky.write("build/flag", "x")
    check(flaky, "test", "!", "-e", "build/flag", code=1)
    assert "ended with 1" in prepare(flaky, code=1).json["error"]["message"]


def test_a_pass_before_the_work_was_done_is_none(at: At) -> None:
    world = at("installed")
    world.write(".agents/config.toml", "[gate]\nrequired_checks = ['true']\n")
    world.git("commit", "-qam", "require a check")
    world.make_task()
    world.begin()
    check(world, "true", code=0)
    world.to_commit()
    assert "has not run" in prepare(world, code=1).json["error"]["message"]
    check(world, "true", code=0)
    prepare(world, code=0)


def test_the_settings_of_the_beginning_count(at: At) -> None:
    """A child takes no check away by editing the settings, and one that comes later binds the next run."""
    world = required(at)
    world.git("stash", "-q")  # the settings are committed, the work is not
    world.git("stash", "pop", "-q")
    config = world.root / ".agents/config.toml"
    text = config.read_text()
    config.write_text("")
    assert world.next_stage() == "review-code"
    config.write_text(text)
    assert prepare(world, code=1).error == "ORCHESTRATION_CHECK_MISSING"
    free = at("ready")
    (free.root / ".git/info/exclude").write_text("")
    assert free.open_step().stage == "commit"


def test_checks_may_run_while_a_child_is_at_work(at: At) -> None:
    """A reviewer that runs the tests by it is sealed as before, and the history is verified."""
    world = at("begun")
    while world.next_stage() != "commit":
        stage = world.next_stage()

        def work(stage: str | None = stage) -> None:
            if stage == "code":
                world.fix()
            check(world, *COMMAND, code=1 if stage == "analysis" else 0)

        world.step(work=work)
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    assert [event["op"] for event in world.journal()].count("checked") == 3
    assert "1 verified" in world.cli("verify", "HEAD~1..HEAD").out
