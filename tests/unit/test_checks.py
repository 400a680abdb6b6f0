"""Required checks: a command counts for the tree it ran on, as it ended there the last time."""

import hashlib
import json
from typing import Any

import pytest

from agent_infra.core.checks import check_key, check_passed, words_of
from agent_infra.core.config import parse_config
from agent_infra.core.grounds import ground
from agent_infra.core.history import Chronicle, Claim, broken
from agent_infra.core.replay import replay
from agent_infra.core.run import fold
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from tests.support.states import BEGIN, TASK, TREE, receipt
from tests.unit.test_history import DOCUMENTS, Line, line, story

ELSEWHERE = "9" * 40
JUDGED = "f" * 40  # what the review of `story` judged


def test_words_are_those_of_a_shell() -> None:
    """Quotations hold together, and the same command is the same however it is spelled."""
    assert words_of("sh -c 'a && b'") == ("sh", "-c", "a && b")
    assert check_key(TREE, words_of("a   'b'")) == check_key(TREE, ("a", "b"))
    assert check_key(TREE, ("a b",)) != check_key(TREE, ("a", "b"))


@pytest.mark.parametrize(
    ("results", "says"),
    [
        pytest.param({}, "has not run", id="never run"),
        pytest.param({check_key(TREE, ["make", "test"]): 2}, "ended with 2", id="failed"),
        pytest.param({check_key(ELSEWHERE, ["make", "test"]): 0}, "has not run", id="passed on another tree"),
        pytest.param({check_key(TREE, ["make test"]): 0}, "has not run", id="another command of the same letters"),
        pytest.param({check_key(TREE, ["make"]): 0}, "has not run", id="another command"),
    ],
)
def test_what_has_not_passed_here_is_missing(results: dict[str, int], says: str) -> None:
    """The refusal names command, tree and the line that helps."""
    with pytest.raises(RefusedError, match=says) as caught:
        check_passed(["make test"], results, TREE, task_id=TASK)
    assert caught.value.code is ErrorCode.ORCHESTRATION_CHECK_MISSING
    assert TREE in caught.value.message
    assert f"`agent-infra task check {TASK} -- make test`" in caught.value.message


def test_all_that_is_missing_is_named() -> None:
    """The first is the message, the others are notes; what passed is in neither."""
    with pytest.raises(RefusedError) as caught:
        check_passed(["a", "b", "c"], {check_key(TREE, ["b"]): 0}, TREE, task_id=TASK)
    assert "`a`" in caught.value.message
    assert len(caught.value.notes) == 1
    assert "`c`" in caught.value.notes[0]
    check_passed(["b"], {check_key(TREE, ["b"]): 0}, TREE, task_id=TASK)
    check_passed([], {}, TREE, task_id=TASK)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param("['']", "gate.required_checks.0: .*needs a word", id="no word"),
        pytest.param('["a \'b"]', "gate.required_checks.0: .*quotation", id="a quotation without end"),
        pytest.param("'a'", "gate.required_checks: ", id="one line instead of a list"),
    ],
)
def test_a_check_that_is_no_command_is_refused_by_the_settings(value: str, says: str) -> None:
    """Found when the settings are read, not when a commit is due."""
    with pytest.raises(RefusedError, match=says):
        parse_config(f"[gate]\nrequired_checks = {value}\n")
    assert parse_config("[gate]\nrequired_checks = ['a b']\n").gate.required_checks == ["a b"]


def checked(tree: str = TREE, after: str = TREE, code: int = 0, **parts: Any) -> Line:
    facts = {"command": ["a"], "exitCode": code, "tree": tree, "treeAfter": after, "output": "0", "seconds": 0.1}
    memo = {"memo": {"checks": {check_key(tree, ["a"]): code}}} if tree == after else {}
    return line("checked", **({"facts": facts} | memo | parts))


def test_checks_may_come_at_any_time_of_a_running_run() -> None:
    """With and without a pending step, passed or not; one that moved the tree is on record and counts for nothing."""
    begin = line("begin", run=dict(BEGIN))
    pending = line("prepare", run={"nextStage": "plan"}, receipt=receipt("plan.md").to_json())
    replay([begin, checked(), pending, checked(code=1), checked(after=ELSEWHERE)])


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(checked(memo={"checks": {check_key(ELSEWHERE, ["a"]): 0}}), id="a result for another tree"),
        pytest.param(checked(code=1, memo={"checks": {check_key(TREE, ["a"]): 0}}), id="a failure that passes"),
        pytest.param(checked(memo={}), id="no result"),
        pytest.param(checked(after=ELSEWHERE, memo={"checks": {check_key(TREE, ["a"]): 0}}), id="the tree moved"),
        pytest.param(checked(memo={"checks": {}, "allowed": "x"}), id="touches what is not its own"),
        pytest.param(checked(run={"status": "completed"}), id="moves the run"),
        pytest.param(checked(facts={}), id="no facts"),
    ],
)
def test_a_line_of_a_check_says_what_its_command_did(bad: Line) -> None:
    """Nothing else may be remembered."""
    with pytest.raises(RefusedError) as caught:
        replay([line("begin", run=dict(BEGIN)), bad])
    assert caught.value.code is ErrorCode.VERIFY_TRANSITION_INVALID


def test_nothing_is_checked_while_a_run_is_paused() -> None:
    paused = line("pause", run={"status": "paused", "pause": {"code": "A", "message": "b", "recoverable": True}})
    with pytest.raises(RefusedError):
        replay([line("begin", run=dict(BEGIN)), paused, checked()])


def verdict(command: Any, *results: Line) -> str:
    """What an honest run under settings that require a command says, with these lines before its commit step."""
    lines = story()
    lines[0]["memo"] = {**lines[0]["memo"], "config": {"gate": {"required_checks": [command]}}}
    place = [each["op"] for each in lines].index("committed") - 2
    lines[place:place] = results
    heads: list[str] = []
    for number, each in enumerate(lines, start=1):
        each |= {"seq": number, "prev": heads[-1] if heads else "0" * 64}
        heads.append(hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest())
    view = json.dumps(fold(lines, task_id=TASK, head=heads[-1]).run.to_json()).encode()
    try:
        ground(Chronicle(TASK, tuple(lines), tuple(heads), view), DOCUMENTS, Claim(TASK, "run-1", heads[-2]))
    except AgentInfraError as error:
        return str(broken(error))
    return "verified"


@pytest.mark.parametrize(
    ("command", "results", "says"),
    [
        pytest.param("a", [checked(JUDGED, JUDGED)], "verified", id="passed"),
        pytest.param("a", [checked(JUDGED, JUDGED, 1), checked(JUDGED, JUDGED)], "verified", id="passed at last"),
        pytest.param("a", [], "broken(ORCHESTRATION_CHECK_MISSING)", id="never run"),
        pytest.param("a", [checked()], "broken(ORCHESTRATION_CHECK_MISSING)", id="on another tree"),
        pytest.param(
            "a",
            [checked(JUDGED, JUDGED), checked(JUDGED, JUDGED, 1)],
            "broken(ORCHESTRATION_CHECK_MISSING)",
            id="failed at last",
        ),
        pytest.param(7, [], "broken(VERIFY_EVIDENCE_INVALID)", id="settings that can't be read"),
    ],
)
def test_a_history_shows_whether_the_required_checks_had_passed(command: Any, results: list[Line], says: str) -> None:
    """A commit that was prepared without them is broken, whoever prepared it."""
    assert verdict(command, *results) == says
