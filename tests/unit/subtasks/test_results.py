"""Evidence, consolidation, verification, the parent's status, the trail."""

from itertools import product

import pytest

from agent_infra.core.subtasks.consolidation import Completeness, ConsolidatedStatus, consolidate, unreadable
from agent_infra.core.subtasks.evidence import Child, evidence_of, given
from agent_infra.core.subtasks.plan import Criterion
from agent_infra.core.subtasks.trail import children_on_record, read_trail, render_line
from agent_infra.core.subtasks.verification import CheckRun, Outcome, ParentStatus, settle_parent, verify_result
from agent_infra.core.subtasks.waves import ChildStatus

DIFF = {"workspaceChanged": True, "changedFiles": ["a.py"], "createdFiles": [], "deletedFiles": []}


def child(name="a", status=ChildStatus.COMPLETED, run="r-1", **facts):
    return Child(name, status, run, {**DIFF, "changedFiles": [f"{name}.py"], **facts}, (f"{name}.py",))


def test_only_what_a_run_carries_is_evidence():
    """Each piece has type, source, field and value, in the order of the types."""
    pieces = evidence_of("r-1", {"status": "completed", "changedFiles": ["x"], "code": 0, "colour": "red"})
    assert [piece.to_json() for piece in pieces] == [
        {"type": "run-status", "sourceId": "r-1", "field": "status", "value": "completed"},
        {"type": "workspace-diff", "sourceId": "r-1", "field": "changedFiles", "value": ["x"]},
        {"type": "exit", "sourceId": "r-1", "field": "code", "value": 0},
    ]


@pytest.mark.parametrize(
    ("status", "run", "expected"),
    [
        (ChildStatus.BLOCKED, None, ("blocked", "blocked_before_execution")),
        (ChildStatus.NEEDS_HUMAN, None, ("needs_human", "needs_human_before_execution")),
        (ChildStatus.PENDING, None, (None, "result_missing")),
        (ChildStatus.RUNNING, "r-1", (None, "result_missing")),
        (ChildStatus.ARCHIVED, None, (None, "result_missing")),
        (ChildStatus.COMPLETED, None, (None, "result_missing")),
    ],
)
def test_what_the_consolidator_is_told_of_a_child_without_a_run(status, run, expected):
    """The table, row by row."""
    told = given(Child("a", status, run))
    assert (told["runStatus"], told["noExecutionReason"]) == expected


def test_what_the_consolidator_is_told_of_a_run():
    """Its id, status, evidence, warnings, and whether it failed by what it ran on."""
    told = given(child(warnings=["slow"], infrastructureFailure=True, status_=1))
    assert (told["runId"], told["runStatus"], told["warnings"], told["infrastructureFailure"]) == (
        "r-1",
        "completed",
        ["slow"],
        True,
    )
    assert "noExecutionReason" not in told


ACCEPTED = ("accepted", "complete", "verify")
WARNED = ("accepted_with_warnings", "complete", "verify")


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(child("b"), ACCEPTED, id="all done"),
        pytest.param(child("b", undeclaredFiles=["z"]), WARNED, id="undeclared"),
        pytest.param(child("b", warnings=["w"]), WARNED, id="a warning"),
        pytest.param(
            child("b", ChildStatus.COMPLETED_WITH_WARNINGS),
            WARNED,
            id="status",
        ),
        pytest.param(child("b", ChildStatus.FAILED), ("rejected", "complete", "fix"), id="failed by its own code"),
        pytest.param(
            child("b", ChildStatus.FAILED, infrastructureFailure=True),
            ("inconclusive", "complete", "retry"),
            id="infra",
        ),
        pytest.param(
            Child("b", ChildStatus.COMPLETED, "r-2", {}), ("inconclusive", "complete", "retry"), id="evidence missing"
        ),
        pytest.param(
            Child("b", ChildStatus.NEEDS_HUMAN), ("needs_human", "partial", "ask_human"), id="a person is needed"
        ),
        pytest.param(
            Child("b", ChildStatus.BLOCKED),
            ("accepted_with_warnings", "partial", "verify"),
            id="blocked, nothing failed",
        ),
        pytest.param(Child("b", ChildStatus.PENDING), ("inconclusive", "partial", "retry"), id="no result"),
        pytest.param(
            child("b", changedFiles=[], workspaceChanged=False),
            WARNED,
            id="completed without the expected change",
        ),
        pytest.param(
            child("b", changedFiles=["a.py", "b.py"]),
            WARNED,
            id="one path twice",
        ),
        pytest.param(child("b", claimsTests=True), WARNED, id="claimed tests"),
    ],
)
def test_consolidation(second, expected):
    """needs_human, rejected, inconclusive, with warnings, accepted: the first that holds."""
    found = consolidate("T", ["a", "b"], [child(), second])
    assert (str(found.status), str(found.completeness), found.next_action) == expected
    assert [item["subtaskId"] for item in found.to_json()["perSubtask"]] == ["a", "b"]


def test_worst_answer_first():
    """A person's question counts more than a failure, a failure more than missing evidence."""
    failed, asked = child("b", ChildStatus.FAILED), Child("c", ChildStatus.NEEDS_HUMAN)
    assert consolidate("T", ["a", "b", "c"], [failed, asked]).status == ConsolidatedStatus.NEEDS_HUMAN
    assert consolidate("T", ["a", "b"], [failed]).status == ConsolidatedStatus.REJECTED


def test_what_is_named():
    """Undeclared files, doubled paths, declared paths that nobody touched."""
    found = consolidate("T", ["a", "b"], [child(undeclaredFiles=["z"]), child("b", changedFiles=["a.py"])])
    assert "a: z was not declared" in found.warnings
    assert found.conflicts == ("a.py",)
    assert "b: b.py was declared and not touched" in found.inconsistencies
    assert found.to_json()["verifierInputHints"]["changedFiles"] == ["a.py"]


@pytest.mark.parametrize(
    "children", [pytest.param([child("z")], id="a stranger"), pytest.param([child(), child()], id="two of one")]
)
def test_results_that_fit_no_plan_accept_nothing(children):
    """Inconclusive, invalid, next action block, the reason in every list where somebody looks."""
    found = consolidate("T", ["a"], children).to_json()
    assert (found["status"], found["consolidationCompleteness"], found["recommendedNextAction"]) == (
        "inconclusive",
        "invalid",
        "block",
    )
    for name in ("warnings", "failures", "infrastructureFailures", "remainingIssues", "inputErrors"):
        assert len(found[name]) == 1


GOOD = consolidate("T", ["a"], [child()])


@pytest.mark.parametrize(
    ("criterion", "checks", "outcome"),
    [
        pytest.param(Criterion("run: t", "t"), {"t": CheckRun("t", 0, "tree")}, Outcome.VERIFIED, id="passed"),
        pytest.param(Criterion("run: t", "t"), {"t": CheckRun("t", 1, "tree")}, Outcome.REJECTED, id="failed"),
        pytest.param(Criterion("run: t", "t"), {}, Outcome.INCONCLUSIVE, id="not run"),
        pytest.param(
            Criterion("run: t", "t"),
            {"t": CheckRun("t", None, "tree", "timed out")},
            Outcome.INCONCLUSIVE,
            id="late",
        ),
        pytest.param(Criterion("nice"), {}, Outcome.INCONCLUSIVE, id="words without evidence"),
        pytest.param(Criterion("x", None, ("a.py",)), {}, Outcome.VERIFIED, id="a touched path"),
        pytest.param(Criterion("x", None, ("path:*.py",)), {}, Outcome.VERIFIED, id="a glob over touched paths"),
        pytest.param(Criterion("x", None, ("b.py",)), {}, Outcome.INCONCLUSIVE, id="a path nobody touched"),
        pytest.param(Criterion("x", None, ("subtask:a",)), {}, Outcome.VERIFIED, id="a subtask that is done"),
        pytest.param(Criterion("x", None, ("subtask:b",)), {}, Outcome.INCONCLUSIVE, id="unknown subtask"),
        pytest.param(Criterion("x", None, ("check:t",)), {"t": CheckRun("t", 0, "")}, Outcome.VERIFIED, id="a check"),
        pytest.param(Criterion("x", None, ("check:t",)), {"t": CheckRun("t", 1, "")}, Outcome.INCONCLUSIVE, id="no"),
    ],
)
def test_verification_of_one_criterion(criterion, checks, outcome):
    """A command is run by us; words need a named piece of evidence."""
    found = verify_result(GOOD, [criterion], checks)
    assert found.outcome == outcome
    assert found.to_json()["criteria"][0]["text"] == criterion.text
    assert bool(found.reasons) is (outcome != Outcome.VERIFIED)


def test_verification_follows_the_consolidation():
    """What is not accepted is not verified, whatever the checks say; warnings stay."""
    rejected = consolidate("T", ["a"], [child(status=ChildStatus.FAILED)])
    asked = consolidate("T", ["a"], [Child("a", ChildStatus.NEEDS_HUMAN)])
    odd = consolidate("T", ["a"], [child(warnings=["w"])])
    outcomes = [verify_result(one, [], {}).outcome for one in (GOOD, odd, rejected, asked, unreadable("T", "x"))]
    assert outcomes == ["verified", "verified_with_warnings", "rejected", "needs_human", "inconclusive"]


def expected_parent(outcome, status, completeness):
    """The table of the reference, written out."""
    if outcome == "blocked":
        return "blocked", "verifier blocked"
    if outcome == "needs_human" or status == "needs_human":
        return "needs_human", "human review"
    if outcome == "rejected":
        return "failed", "verifier rejected"
    if outcome == "inconclusive":
        return "blocked", "inconclusive"
    if outcome.startswith("verified") and status.startswith("accepted") and completeness != "invalid":
        lesser = "with_warnings" in outcome or "with_warnings" in status or completeness == "partial"
        return ("completed_with_warnings" if lesser else "completed"), "verified"
    return "blocked", "needs accepted and verified"


@pytest.mark.parametrize("row", list(product(Outcome, ConsolidatedStatus, Completeness)), ids="-".join)
def test_the_parents_status(row):
    """The first row of the decision table that holds, for all combinations."""
    status, reason = settle_parent(*row)
    assert (status, reason) == expected_parent(*row)
    assert isinstance(status, ParentStatus)


def test_attempts_are_counted_over_what_can_be_read():
    """One more than the started and blocked events of the parent; a lost line gives no number out twice."""
    lines = [
        {"parentTaskId": "T", "eventType": "orchestration_started", "attempt": 1},
        {"parentTaskId": "T", "eventType": "orchestration_finished", "attempt": 1},
        {"parentTaskId": "U", "eventType": "orchestration_started", "attempt": 7},
        {"parentTaskId": "T", "eventType": "orchestration_blocked", "attempt": 2},
    ]
    data = b"".join(map(render_line, lines))
    assert read_trail(data).next_attempt("T") == 3
    assert read_trail(data).next_attempt("V") == 1
    torn = read_trail(b"{\n" + data.replace(b'"attempt":1', b'"attempt":5') + b'[1]\n{"parentTaskId')
    assert (torn.unreadable, torn.next_attempt("T")) == (3, 6)


def test_child_events_are_found_by_subtask():
    """Those of the attempts in question."""
    lines = [
        {"parentTaskId": "T", "attempt": 1, "eventType": "child_started", "subtaskId": "a"},
        {"parentTaskId": "T", "attempt": 2, "eventType": "child_finished", "subtaskId": "a"},
        {"parentTaskId": "T", "attempt": 1, "eventType": "orchestration_started"},
    ]
    trail = read_trail(b"".join(map(render_line, lines)))
    assert [line["eventType"] for line in children_on_record(trail, "T", [2])["a"]] == ["child_finished"]
    assert len(children_on_record(trail, "T", [1, 2])["a"]) == 2
