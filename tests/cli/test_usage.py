"""Wrong calls of `orchestrate`: exit 2, all six keys, the usage line on stderr, nothing looked at and nothing moved."""

import json

import pytest

from tests.support.world import EXECUTOR, KEYS, TASK, World, check_answer, copy_of

START = ["--client", "claude-code", "--native-agent", EXECUTOR, "--child-id", "c", "--parent-id", "p"]

WRONG = [
    pytest.param([], id="no verb"),
    pytest.param(["nonsense", TASK], id="no such verb"),
    pytest.param(["begin-or-resume", TASK], id="the reference's verb"),
    pytest.param(["begin"], id="no task"),
    pytest.param(["begin", TASK, "more"], id="a word too many"),
    pytest.param(["begin", TASK, "--nonsense", "x"], id="no such option"),
    pytest.param(["begin", TASK, "--max-steps"], id="no value"),
    pytest.param(["begin", TASK, "--max-steps", ""], id="empty value"),
    pytest.param(["begin", TASK, "--max-steps="], id="empty value after ="),
    pytest.param(["begin", TASK, "--max-steps", "--from-head"], id="an option for a value"),
    pytest.param(["begin", TASK, "--max-steps", "0"], id="zero"),
    pytest.param(["begin", TASK, "--max-steps", "-3"], id="negative"),
    pytest.param(["begin", TASK, "--max-steps", "3.5"], id="a fraction"),
    pytest.param(["begin", TASK, "--max-steps", "1_000"], id="underscore"),
    pytest.param(["begin", TASK, "--max-steps", " 3"], id="a space"),
    pytest.param(["begin", TASK, "--max-steps", "٣"], id="Arabic digit"),
    pytest.param(["begin", TASK, "--max-steps", "9" * 5000], id="5,000 digits"),
    pytest.param(["begin", TASK, "--max-steps", "3", "--max-steps", "4"], id="an option twice"),
    pytest.param(["begin", TASK, "--max-steps=3", "--max-steps", "4"], id="twice, once with ="),
    pytest.param(["begin", TASK, "--from-head", "--from-head"], id="a flag twice"),
    pytest.param(["begin", TASK, "--flow", "fast"], id="no such flow"),
    pytest.param(["begin", TASK, "--flow", "FULL"], id="flow in another case"),
    pytest.param(["prepare", TASK], id="prepare without a client"),
    pytest.param(["prepare", TASK, "--client", "no-such-client"], id="no such client"),
    pytest.param(["prepare", TASK, "--client", "Claude-Code"], id="client in another case"),
    pytest.param(["activate", TASK, *START], id="no spawn mode"),
    pytest.param(["activate", TASK, *START, "--spawn-mode", ""], id="empty spawn mode"),
    pytest.param(["activate", "auto", *START[2:], "--spawn-mode", "fresh"], id="auto without a client"),
    pytest.param(["activate", TASK, *START, "--child-id", "d", "--spawn-mode", "fresh"], id="two children"),
    pytest.param(["activate", TASK, "--client", "x", *START[2:], "--spawn-mode", "fresh"], id="activate: client"),
    pytest.param(["seal", TASK, *START[:4]], id="no child"),
    pytest.param(["seal", "auto", "--client", "x", *START[2:6]], id="seal: no such client"),
    pytest.param(["seal", TASK, *START[:6], "--exit-code", "one"], id="exit code is no number"),
    pytest.param(["seal", TASK, *START[:6], "--exit-code", "1_0"], id="exit code with underscore"),
    pytest.param(["seal", TASK, *START[:6], "--exit-code", "٣"], id="exit code in Arabic digits"),
    pytest.param(["seal", TASK, *START[:6], "--exit-code", "9" * 5000], id="exit code of 5,000 digits"),
    pytest.param(["validate", TASK, "--stage", "plan", "--round", "1", "--artifact", "plan.md"], id="no role"),
    pytest.param(["complete", TASK], id="complete without an agent"),
    pytest.param(["complete", TASK, "--agent", "claude", "--stage", "deploy"], id="no such stage"),
    pytest.param(["complete", TASK, "--agent", "claude", "--round", "0"], id="round zero"),
    pytest.param(["complete", TASK, "--agent", "claude", "--round", "+1"], id="round with a sign"),
    pytest.param(["pause", TASK, "--code", "X"], id="pause without words"),
    pytest.param(["pause", TASK, "--message", "x"], id="pause without a code"),
    pytest.param(["pause", TASK, "--code", "", "--message", "x"], id="pause with an empty code"),
    pytest.param(["abandon", TASK], id="abandon without a reason"),
    pytest.param(["end", TASK], id="end without a reason"),
    pytest.param(["reopen", TASK, "--stage", "plan"], id="reopen without a reason"),
    pytest.param(["reopen", TASK, "--stage", "all", "--reason", "x"], id="reopen: no such stage"),
    pytest.param(["repair"], id="repair of nothing"),
    pytest.param(["status", TASK, "--", "-x"], id="words after --"),
]


@pytest.fixture(scope="module")
def still(_first_world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A run with a prepared step that nothing in this module may move."""
    world = copy_of(_first_world, tmp_path_factory.mktemp("still"))
    world.begun()
    world.prepare()
    return world


@pytest.mark.parametrize("args", WRONG)
def test_a_wrong_call_is_exit_2(still: World, args: list[str]) -> None:
    """ORCHESTRATION_PAYLOAD_INVALID with all six keys."""
    world = still
    before = world.moved()
    answer = world.call("orchestrate", *args)
    check_answer(answer)
    assert (answer.exit, answer["status"], answer.code) == (2, "failed", "ORCHESTRATION_PAYLOAD_INVALID"), answer.out
    assert (answer["changed"], answer["run"], answer["next"]) == (False, None, None)
    assert len(answer.message) > 5
    assert len(answer.message) < 1000
    assert world.moved() == before


def test_the_usage_line_goes_to_stderr(world: World) -> None:
    """stdout is for programs."""
    answer = world.call("orchestrate", "prepare", TASK)
    assert "usage" in answer.err.lower()
    assert json.loads(answer.out).keys() >= KEYS


def test_wrong_usage_comes_before_the_task(world: World) -> None:
    """Also where the task does not exist."""
    assert world.call("orchestrate", "prepare", "TASK-20990101-000000", "--client", "nobody").exit == 2


@pytest.mark.parametrize("args", [["orchestrate", "--help"], ["orchestrate", "begin", "-h"], ["--help"], ["--version"]])
def test_help_is_no_error(world: World, args: list[str]) -> None:
    """On stdout, exit 0."""
    answer = world.call(*args)
    assert answer.exit == 0
    assert "agent-infra" in answer.out or "Usage" in answer.out


VERBS = ["begin", "route", "status", "brief", "prepare", "activate", "validate", "complete", "seal", "advance", "pause"]


@pytest.mark.parametrize("verb", [*VERBS, "abandon", "end", "reopen", "repair"])
def test_every_verb_has_help(still: World, verb: str) -> None:
    """With its options named."""
    answer = still.call("orchestrate", verb, "--help")
    assert answer.exit == 0
    assert "TASK" in answer.out


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        pytest.param("nonsense", "INVALID_TASK_REF", id="a word"),
        pytest.param("task-20260101-120000", "INVALID_TASK_REF", id="small letters"),
        pytest.param(f"{TASK}/", "INVALID_TASK_REF", id="a slash"),
        pytest.param(f" {TASK}", "INVALID_TASK_REF", id="a space"),
        pytest.param(f"{TASK}\n", "INVALID_TASK_REF", id="a line break"),
        pytest.param(f"../{TASK}", "INVALID_TASK_REF", id="a way out"),
        pytest.param("TASK-2026٠101-120000", "INVALID_TASK_REF", id="Arabic digit"),
        pytest.param("٧", "INVALID_TASK_REF", id="an Arabic short id"),
        pytest.param("##1", "INVALID_TASK_REF", id="two signs"),
        pytest.param("#", "INVALID_TASK_REF", id="a sign alone"),
        pytest.param("auto", "INVALID_TASK_REF", id="auto where no event is"),
        pytest.param("0", "SHORT_ID_RESERVED", id="zero"),
        pytest.param("#00", "SHORT_ID_RESERVED", id="padded zero"),
        pytest.param("7", "SHORT_ID_REGISTRY_NOT_FOUND", id="no registry"),
        pytest.param("9" * 10_000, "SHORT_ID_CAPACITY_EXCEEDED", id="10,000 digits"),
        pytest.param("TASK-20990101-000000", "TASK_NOT_FOUND", id="no such task"),
        pytest.param("x" * 100_000, "INVALID_TASK_REF", id="100,000 letters"),
    ],
)
@pytest.mark.parametrize("verb", ["status", "begin", "repair"])
def test_odd_references(still: World, verb: str, ref: str, code: str) -> None:
    """Each has its code, a short sentence, and exit 1."""
    assert len(still.refused(code, verb, task=ref).message) < 400


REGISTRIES = [
    pytest.param("", "SHORT_ID_REGISTRY_INVALID_JSON", id="empty"),
    pytest.param("{", "SHORT_ID_REGISTRY_INVALID_JSON", id="cut"),
    pytest.param("[" * 100_000, "SHORT_ID_REGISTRY_INVALID_JSON", id="deep"),
    pytest.param("[]", "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="a list"),
    pytest.param('{"version": 2, "ids": {}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="version"),
    pytest.param('{"version": 1, "ids": {"1": "' + TASK + '"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="width"),
    pytest.param('{"version": 1, "ids": {"01": "x"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="no task id"),
    pytest.param(
        '{"version": 1, "ids": {"01": "' + TASK + '", "02": "' + TASK + '"}}',
        "SHORT_ID_REGISTRY_DUPLICATE_TASK",
        id="one task twice",
    ),
    pytest.param('{"version": 1, "ids": {}}', "SHORT_ID_NOT_FOUND", id="not there"),
    pytest.param('{"version": 1, "ids": {"01": "TASK-20200101-000000"}}', "TASK_NOT_FOUND|SHORT_ID_STALE", id="gone"),
]


@pytest.mark.parametrize(("text", "code"), REGISTRIES)
def test_a_bad_registry_is_named(world: World, text: str, code: str) -> None:
    """Full ids go on."""
    world.begun()
    world.write(".agents/workspace/active/.short-ids.json", text)
    answer = world.verb("status", task="1")
    assert (answer.exit, answer.code in code.split("|")) == (1, True), answer.out
    assert world.ok("status")["status"] == "running"


def test_a_short_id_is_a_task(world: World) -> None:
    """In all four forms."""
    world.begun()
    world.write(".agents/workspace/active/.short-ids.json", json.dumps({"version": 1, "ids": {"07": TASK}}))
    for ref in ("7", "07", "#7", "#07"):
        assert world.ok("status", task=ref)["taskId"] == TASK
    world.refused("SHORT_ID_CAPACITY_EXCEEDED", "status", task="100")
