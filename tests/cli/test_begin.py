"""`begin`: a run starts once, is resumed where a pause may be left, and takes its settings with it."""

import json

import pytest

from tests.support.world import OTHER, TASK, World


def test_a_run_starts_with_the_fields_that_tools_know(world: World) -> None:
    """orchestration.json has the reference's fields and ours, and says what the run started from."""
    answer = world.begun()
    run = world.run()
    assert answer["run"] == run
    assert (answer["status"], answer["changed"], answer["taskId"]) == ("running", True, TASK)
    assert run["schemaVersion"] == 1
    assert (run["status"], run["stepCount"], run["maxSteps"], run["flow"]) == ("running", 0, 24, "full")
    assert (run["pendingDelegation"], run["receipts"], run["pause"], run["nextStage"]) == (None, [], None, None)
    assert run["commitAuthorization"]["issuedAt"] is None
    assert run["baseline"]["head"] == world.git("rev-parse", "HEAD")
    assert run["baseline"]["tree"] == world.git("rev-parse", "HEAD^{tree}")
    assert (run["worktree"], run["branch"]) == (str(world.root), "main")
    assert json.loads((world.common / "guards" / TASK).read_text()) == {"worktree": str(world.root), "branch": "main"}


def test_beginning_twice_changes_nothing(world: World) -> None:
    """The second `begin` answers with the same run."""
    first = world.begun()
    again = world.ok("begin")
    assert (again["changed"], again["status"]) == (False, "running")
    assert again["run"]["runId"] == first["run"]["runId"]


def test_a_run_keeps_its_step_limit(world: World) -> None:
    """A limit may be raised, on record, and never lowered."""
    world.begun("--max-steps", "7")
    assert world.run()["maxSteps"] == 7
    assert world.ok("begin", "--max-steps", "3")["changed"] is False
    assert world.ok("begin", "--max-steps", "9")["changed"] is True
    assert (world.run()["maxSteps"], world.ops()) == (9, ["begin", "limit"])


def test_the_step_limit_pauses_and_a_higher_one_goes_on(world: World) -> None:
    """At the limit `prepare` pauses the run; without a higher limit it pauses again."""
    world.begun("--max-steps", "1")
    world.step()
    paused = world.ok("prepare", "--client", "claude-code")
    assert (paused.pause, paused["changed"]) == ("ORCHESTRATION_MAX_STEPS", True)
    assert paused["run"]["pause"]["recoverable"] is True
    assert world.ok("begin")["status"] == "running"
    assert world.ok("prepare", "--client", "claude-code").pause == "ORCHESTRATION_MAX_STEPS"
    assert world.ok("begin", "--max-steps", "2")["status"] == "running"
    world.step()


@pytest.mark.parametrize(
    ("flow", "stages"),
    [
        ("full", ["analysis", "review-analysis", "plan", "review-plan", "code", "review-code"]),
        ("standard", ["analysis", "plan", "code", "review-code"]),
        ("streamlined", ["analysis", "code", "review-code"]),
    ],
)
def test_the_flow_decides_which_stages_there_are(world: World, flow: str, stages: list[str]) -> None:
    """Every flow walks its stages in order and then wants to commit."""
    world.begun("--flow", flow)
    assert [world.step()["stage"] for _ in stages] == stages
    assert world.ok("route").step == ("commit", 1)
    code = next(r for r in world.run()["receipts"] if r["stage"] == "code")
    assert code["inputs"][0]["name"] == ("analysis.md" if flow == "streamlined" else "plan.md")


def test_the_flow_is_recorded_at_begin(world: World) -> None:
    """task.md may ask for a flow, the option wins, and nothing changes it later."""
    world.task(extra="flow: streamlined\n")
    assert world.ok("begin")["run"]["flow"] == "streamlined"
    world.task(extra="flow: full\n")
    assert world.ok("begin", "--flow", "standard")["run"]["flow"] == "streamlined"
    world.task(OTHER, extra="flow: streamlined\n")
    assert world.ok("begin", "--flow", "standard", task=OTHER)["run"]["flow"] == "standard"


def test_what_lies_there_does_not_belong_to_the_task(world: World) -> None:
    """The baseline is the worktree as it lies there; with --from-head it is HEAD's tree."""
    world.write("src/app.py", "dirty = 1\n")
    world.write("src/new.py", "new = 1\n")
    head = world.git("rev-parse", "HEAD^{tree}")
    assert world.begun()["run"]["baseline"]["tree"] != head
    world.task(OTHER)
    assert world.ok("begin", "--from-head", task=OTHER)["run"]["baseline"]["tree"] == head


def test_from_head_lets_the_review_see_what_lay_there(world: World) -> None:
    """What differs from the baseline is what the code review judges."""
    world.write("src/new.py", "new = 1\n")
    world.begun("--from-head", "--flow", "streamlined")
    world.to("review-code")
    world.prepare()
    assert [change["path"] for change in world.pending()["inputChanges"]] == ["src/app.py", "src/new.py"]


def test_artifacts_of_before_count_and_reviews_do_not(world: World) -> None:
    """Nobody saw who wrote the reviews that lie there at `begin`."""
    world.task()
    world.reviewed("analysis", "plan")
    assert world.ok("route").step == ("code", 1)
    world.ok("begin")
    assert world.ok("route").step == ("review-analysis", 2)


def test_adopting_reviews_needs_a_person(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal, CI, or an agent's environment: refused, and no run begins."""
    world.task()
    world.reviewed("analysis")
    world.refused("TERMINAL_REQUIRED", "begin", "--adopt-reviews")
    monkeypatch.setenv("CI", "true")
    world.refused("GATE_PERSON_REQUIRED", "begin", "--adopt-reviews")
    monkeypatch.delenv("CI")
    monkeypatch.setenv("CLAUDECODE", "1")
    assert "CLAUDECODE" in world.refused("GATE_PERSON_REQUIRED", "begin", "--adopt-reviews").message
    world.refused("ORCHESTRATION_RUN_MISSING", "status")


def test_a_pause_by_hand_keeps_the_receipt(world: World) -> None:
    """Nothing was wrong with the child: it goes on where it was."""
    world.begun()
    step = world.activated()
    paused = world.ok("pause", "--code", "LUNCH", "--message", "back at one")
    assert (paused.pause, paused["changed"]) == ("LUNCH", True)
    assert paused["run"]["pause"] == {"code": "LUNCH", "message": "back at one", "recoverable": True}
    resumed = world.ok("begin")
    assert (resumed["status"], resumed["changed"], resumed["run"]["pause"]) == ("running", True, None)
    assert world.pending()["status"] == "activated"
    world.work(step)
    assert world.complete(step).exit == 0
    assert world.stop("executor").exit == 0
    assert world.ok("advance")["run"]["stepCount"] == 1


def test_a_pause_by_a_fault_says_abandon(world: World) -> None:
    """The receipt at fault can't be resumed; `begin` names the way out and changes nothing."""
    world.begun()
    world.prepare()
    assert world.start("reviewer").pause == "DELEGATION_ROLE_MISMATCH"
    stuck = world.ok("begin")
    assert (stuck["status"], stuck["changed"]) == ("paused", False)
    assert f"orchestrate abandon {TASK}" in stuck.notes
    world.ok("abandon", "--reason", "wrong agent")
    assert world.ok("begin")["status"] == "running"
    world.step()


def test_a_final_pause_needs_abandon(world: World) -> None:
    """--final is only left by `abandon`."""
    world.begun()
    world.ok("pause", "--code", "STOP", "--message", "a person must look", "--final")
    stuck = world.ok("begin")
    assert (stuck["status"], stuck["changed"]) == ("paused", False)
    assert "abandon" in stuck.notes
    freed = world.ok("abandon", "--reason", "looked")
    assert (freed["status"], freed["changed"], freed["run"]["pause"]["recoverable"]) == ("paused", True, True)
    assert world.ok("begin")["status"] == "running"


def test_another_run_on_the_branch_is_named(world: World) -> None:
    """Two runs of one branch: the second is warned, with the way to a worktree of its own."""
    world.begun()
    notes = world.begun(task=OTHER).notes
    assert TASK in notes
    assert "git worktree add" in notes


def test_the_settings_of_begin_count_to_the_end(world: World) -> None:
    """A child that rewrites .agents/config.toml changes nothing for its own run."""
    world.write(".agents/config.toml", '[snapshot]\nexclude = ["*.cache"]\n[run]\nmax_steps = 3\n')
    world.begun("--flow", "streamlined")
    assert world.run()["maxSteps"] == 3
    world.step()
    step = world.activated()
    world.work(step)
    world.write(".agents/config.toml", '[snapshot]\nexclude = ["*.py", "sneaked.*"]\n')
    world.write("sneaked.py", "x = 1\n")
    world.write("made.cache", "x")
    assert world.complete(step).exit == 0
    assert world.stop("executor").exit == 0
    paths = world.pending()["changedPaths"]
    assert "sneaked.py" in paths
    assert ".agents/config.toml" in paths
    assert "made.cache" not in paths


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("[run]\nmax_step = 3\n", "max_steps", id="nearest key"),
        pytest.param("[snapshots]\n", "snapshot", id="nearest section"),
        pytest.param("[run]\nmax_steps = 0\n", "run.max_steps", id="below the least"),
        pytest.param('[run]\nmax_steps = "3"\n', "run.max_steps", id="another type"),
        pytest.param("[run\n", "TOML", id="no TOML"),
        pytest.param("[run]\nmax_steps = true\n", "run.max_steps", id="a boolean is no number"),
        pytest.param(b"\xff\xfe", "config.toml", id="no UTF-8"),
        pytest.param("[run]\nmax_steps = 1\nmax_steps = 2\n", "TOML", id="a key twice"),
        pytest.param("run = 3\n", "run", id="a value for a section"),
    ],
)
def test_a_faulty_config_is_named_before_anything_begins(world: World, text: str | bytes, named: str) -> None:
    """CONFIG_INVALID names the key and the nearest one that is known."""
    world.task()
    world.write(".agents/config.toml", text)
    assert named in world.refused("CONFIG_INVALID", "begin").message
    world.refused("ORCHESTRATION_RUN_MISSING", "status")


def test_a_config_broken_later_stops_nothing(world: World) -> None:
    """A run that has begun has its settings; full ids and its verbs go on."""
    world.begun()
    world.write(".agents/config.toml", "[broken\n")
    world.step()
    assert world.ok("status")["run"]["stepCount"] == 1


def test_a_run_that_nothing_guards_is_said_at_once(world: World) -> None:
    """Without our hooks git would let every commit pass; the person hears it before the work, not after it."""
    world.task()
    assert "nothing guards the branch yet" in world.ok("begin").notes
    assert world.call("init", "--yes").exit == 0
    world.ok("end", "--reason", "again, with hooks")
    assert "nothing guards" not in world.ok("begin").notes
