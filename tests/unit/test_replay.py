"""A journal told again: for each operation when it may stand, and what is said where it may not."""

from typing import Any

import pytest

from agent_infra.core.replay import replay
from agent_infra.errors import ErrorCode, RefusedError
from tests.support.states import BEGIN, LATER, NOW, TASK
from tests.support.stories import AUTHORIZED, HEAD, MADE, SHA, Line, line, story

BEGUN, PREPARED, ACTIVATED, COMPLETED, SEALED, ADVANCED = range(1, 7)  # how many lines until the first step is so far
REVIEWED = 16  # all stages are done
OPENED = 18  # the commit is authorized, its child at work
COMMITTED = 19
LEAVE = {"issuedAt": NOW, "consumedAt": None, "ref": "refs/heads/main", "head": HEAD, "tree": AUTHORIZED}
UNUSED = {"commitAuthorization": {**LEAVE, "commit": None}}
USED = {"commitAuthorization": {**LEAVE, "commit": MADE}}
NO_LEAVE = {"commitAuthorization": dict.fromkeys(LEAVE)}
PAUSE = {"code": "X", "message": "x", "recoverable": True}
FINAL = {**PAUSE, "recoverable": False}
ABORTED = {"status": "aborted", "outcome": "unknown", "abortedAt": LATER, "abortReason": "lost"}
DECIDED = {"CD-1": ["code", "1", "major", "human-decided", "task.md#HDR-1"]}
OVER = {"at": LATER, "reason": "enough"}
SEAL_OF_COMMIT = {
    "status": "sealed",
    "outcome": "success",
    "changedPaths": [],
    "headAfter": MADE,
    "indexAfter": None,
    "controlAfter": None,
    "afterFingerprint": "1" * 40,
    "sealedAt": LATER,
}


def paused(pause: dict[str, Any] = PAUSE) -> Line:
    return line("pause", run={"status": "paused", "pause": pause})


def ended(**parts: Any) -> Line:
    return line("end", run={"status": "completed", "ended": OVER}, **parts)


def aborted(op: str = "abandon", **run: Any) -> Line:
    return line(op, run=run, receipt=ABORTED, close=True)


def committed_by_completing() -> list[Line]:
    """The commit step where its child tells of the commit, up to its end."""
    done = {"status": "stage-completed", "agent": "claude", "artifactDigest": MADE, "completedAt": LATER}
    return [
        line("complete", run=USED, receipt=done, memo={"ledger": {}}),
        line("seal", receipt=SEAL_OF_COMMIT, memo={"ledger": {}}),
        line(
            "advance",
            run={
                "status": "completed",
                "stepCount": 4,
                "commitAuthorization": {**LEAVE, "commit": MADE, "consumedAt": LATER},
            },
            receipt={"status": "consumed", "consumedAt": LATER},
            close=True,
        ),
    ]


@pytest.mark.parametrize(
    ("length", "more"),
    [
        pytest.param(BEGUN, [line("limit", run={"maxSteps": 30})], id="the limit is raised"),
        pytest.param(BEGUN, [paused(), line("resume", run={"status": "running", "pause": None})], id="paused, resumed"),
        pytest.param(
            BEGUN,
            [paused(), line("resume", run={"status": "running", "pause": None, "maxSteps": 30})],
            id="resumed with more steps",
        ),
        pytest.param(BEGUN, [paused(), paused(FINAL), paused(FINAL)], id="a final pause on another"),
        pytest.param(BEGUN, [paused(FINAL), line("abandon", run={"pause": PAUSE})], id="abandoning ends a final pause"),
        pytest.param(ACTIVATED, [line("stop", receipt={"outcome": "unknown"})], id="a stop without a result"),
        pytest.param(ACTIVATED, [aborted()], id="abandoned while running"),
        pytest.param(OPENED, [aborted(**NO_LEAVE)], id="the authorization is taken back"),
        pytest.param(COMMITTED, [aborted(**USED, status="completed")], id="abandoned after the commit: over"),
        pytest.param(ACTIVATED, [ended(receipt=ABORTED, close=True)], id="ended in a step"),
        pytest.param(BEGUN, [ended()], id="ended between steps"),
        pytest.param(COMMITTED, [ended(receipt=ABORTED, close=True)], id="ended after the commit"),
        pytest.param(BEGUN, [ended(), line("begin", run={**BEGIN, "runId": "run-2"})], id="another run"),
        pytest.param(ADVANCED, [line("reopen", memo={"reopened": {"analysis": 1}})], id="reopened while running"),
        pytest.param(
            BEGUN,
            [
                line("finish", run={"status": "completed", "nextStage": None}),
                line("reopen", run={"status": "running", **NO_LEAVE}, memo={"reopened": {"analysis": 1}}),
            ],
            id="nothing to commit; reopened",
        ),
        pytest.param(OPENED, committed_by_completing(), id="completing tells of the commit"),
        pytest.param(
            BEGUN,
            [
                line("allow", memo={"allowed": "hotfix", "allowedHead": HEAD}),
                line("allowed", memo={"allowed": None, "head": MADE}, facts={"commit": MADE}),
            ],
            id="a person lets one pass",
        ),
        pytest.param(BEGUN, [line("noted", memo={"head": HEAD})], id="another run's commit"),
        pytest.param(BEGUN, [line("upstream", memo={"head": HEAD}, facts={"to": HEAD})], id="pulled"),
        pytest.param(BEGUN, [line("decide", memo={"ledger": DECIDED})], id="decided by a person"),
        pytest.param(
            REVIEWED, [line("validated", memo={"validated": {"review-code.md": SHA["review-code.md"]}})], id="validated"
        ),
        pytest.param(
            BEGUN,
            [
                line(
                    "checked",
                    memo={"checks": {"t make": 0}},
                    facts={"command": ["make"], "exitCode": 0, "tree": "t", "treeAfter": "t"},
                )
            ],
            id="checked",
        ),
    ],
)
def test_what_may_follow(length: int, more: list[Line]) -> None:
    """Everything that verbs write."""
    replay([*story()[:length], *more])


def refused(lines: list[Line]) -> str:
    with pytest.raises(RefusedError) as caught:
        replay(lines)
    assert caught.value.code is ErrorCode.VERIFY_TRANSITION_INVALID
    assert caught.value.message.startswith(f"line {len(lines)} of the journal ({lines[-1]['op']})"), caught.value
    return caught.value.message


@pytest.mark.parametrize(
    ("length", "more", "words"),
    [
        pytest.param(BEGUN, [line("begin", run={**BEGIN, "runId": "run-2"})], "before the one before was ended"),
        pytest.param(BEGUN, [ended(), line("begin", run=dict(BEGIN))], "uses the id of the run before"),
        pytest.param(0, [line("limit", run={"maxSteps": 30})], "does not begin a run"),
        pytest.param(BEGUN, [line("limit", run={"maxSteps": 1})], "lowered", id="fewer steps"),
        pytest.param(BEGUN, [ended(), line("limit", run={"maxSteps": 30})], "gets no more steps"),
        pytest.param(BEGUN, [line("resume", run={"status": "running"})], "can't resume", id="not paused"),
        pytest.param(BEGUN, [paused(), line("resume", run={"status": "running"})], "with its pause"),
        pytest.param(
            BEGUN, [paused(FINAL), line("resume", run={"status": "running", "pause": None})], "ends by abandoning alone"
        ),
        pytest.param(BEGUN, [paused(FINAL), paused()], "ends by abandoning alone", id="softened"),
        pytest.param(BEGUN, [paused(), line("pause", run={"status": "running"})], "becomes running"),
        pytest.param(BEGUN, [line("pause", run={"status": "paused"})], "without a reason"),
        pytest.param(BEGUN, [line("abandon", run={"pause": FINAL})], "the pause changes"),
        pytest.param(BEGUN, [line("abandon", close=True)], "none is pending", id="closes nothing"),
        pytest.param(ACTIVATED, [line("abandon", receipt=ABORTED)], "leaves the receipt pending"),
        pytest.param(OPENED, [aborted(status="completed", **NO_LEAVE)], "completes a run that has no commit"),
        pytest.param(OPENED, [aborted(commitAuthorization={**LEAVE, "head": MADE})], "what was authorized changes"),
        pytest.param(OPENED, [ended(receipt=ABORTED, close=True) | {"run": {"status": "completed"}}], "no reason"),
        pytest.param(BEGUN, [ended() | {"run": {"ended": OVER}}], "becomes running", id="ended, and goes on"),
        pytest.param(ACTIVATED, [ended()], "leaves the receipt pending", id="ended, a step pending"),
        pytest.param(ACTIVATED, [line("finish", run={"status": "completed"})], "a step is pending"),
        pytest.param(BEGUN, [line("finish", run={"status": "paused"})], "becomes paused"),
        pytest.param(PREPARED, [line("stop", receipt={"outcome": "unknown"})], "nobody was at work"),
        pytest.param(
            ACTIVATED, [line("stop", receipt={"outcome": "unknown"})] * 2, "told again", id="the same stop twice"
        ),
        pytest.param(ACTIVATED, [line("reopen", memo={"reopened": {"analysis": 1}})], "a step is pending"),
        pytest.param(BEGUN, [line("reopen")], "names no stage"),
        pytest.param(BEGUN, [ended(), line("reopen", memo={"reopened": {"analysis": 1}})], "was ended"),
        pytest.param(
            BEGUN,
            [line("reopen", run={"commitAuthorization": LEAVE}, memo={"reopened": {"analysis": 1}})],
            "authorization changes",
        ),
        pytest.param(
            COMMITTED,
            [
                aborted(**USED, status="completed"),
                line("reopen", run={"status": "running"}, memo={"reopened": {"code": 1}}),
            ],
            "leaves a commit authorized",
        ),
        pytest.param(ACTIVATED, [line("committed", run=USED)], "no commit is under way"),
        pytest.param(OPENED, [line("committed")], "names no commit", id="committed nothing"),
        pytest.param(COMMITTED, [line("committed", run=USED)], "used before"),
        pytest.param(
            COMMITTED,
            [
                line(
                    "complete",
                    run={"commitAuthorization": {**LEAVE, "commit": HEAD}},
                    receipt={"status": "stage-completed", "agent": "claude", "artifactDigest": HEAD},
                )
            ],
            "another commit stands",
        ),
        pytest.param(
            COMMITTED,
            [line("complete", receipt={"status": "stage-completed", "agent": "claude", "artifactDigest": HEAD})],
            "not the recorded commit",
        ),
        pytest.param(
            ACTIVATED,
            [
                line(
                    "complete",
                    run=UNUSED,
                    receipt={"status": "stage-completed", "agent": "claude", "artifactDigest": HEAD},
                )
            ],
            "analysis changes the authorization",
        ),
        pytest.param(COMPLETED, [story()[COMPLETED - 1]], "handed in again", id="completed twice"),
        pytest.param(BEGUN, [ended(), line("allow", memo={"allowed": "x"})], "guards nothing any more"),
        pytest.param(BEGUN, [line("allow", memo={"allowed": None})], "without a reason", id="allowed for nothing"),
        pytest.param(BEGUN, [line("allowed", memo={"allowed": None}, facts={"commit": MADE})], "nobody let a commit"),
        pytest.param(
            BEGUN, [line("allow", memo={"allowed": "x"}), line("allowed", facts={"commit": MADE})], "not used up"
        ),
        pytest.param(
            BEGUN,
            [line("allow", memo={"allowed": "x"}), line("allowed", memo={"allowed": None})],
            "names no commit",
            id="allowed without a commit",
        ),
        pytest.param(BEGUN, [line("noted")], "names no commit", id="noted without a commit"),
        pytest.param(BEGUN, [line("upstream", memo={"head": HEAD})], "names no commit", id="pulled nothing"),
        pytest.param(BEGUN, [line("decide")], "decides no row"),
        pytest.param(
            BEGUN,
            [line("decide", memo={"ledger": {"CD-1": ["code", "1", "major", "closed", "x"]}})],
            "leaves CD-1 undecided",
        ),
        pytest.param(ACTIVATED, [line("validated", memo={"validated": {"x": "y"}})], "a step is pending"),
        pytest.param(BEGUN, [ended(), line("validated", memo={"validated": {"x": "y"}})], "the run is over"),
        pytest.param(BEGUN, [line("validated")], "validates no review"),
        pytest.param(REVIEWED, [line("validated", memo={"validated": {"x": "y"}})], "nobody handed in"),
        pytest.param(
            BEGUN,
            [
                line(
                    "checked",
                    memo={"checks": {"t make": 0}},
                    facts={"command": ["make"], "exitCode": 1, "tree": "t", "treeAfter": "t"},
                )
            ],
            "another result",
            id="a check that failed",
        ),
        pytest.param(
            BEGUN,
            [
                line(
                    "checked",
                    memo={"checks": {"t make": 0}},
                    facts={"command": ["make"], "exitCode": 0, "tree": "t", "treeAfter": "u"},
                )
            ],
            "another result",
            id="a check that changed the tree",
        ),
        pytest.param(BEGUN, [story()[ACTIVATED - 1]], "Error in its fields", id="a start without a receipt"),
        pytest.param(BEGUN, [line("committed")], "no step is pending"),
        pytest.param(BEGUN, [line("advance", run={"stepCount": 1}, close=True)], "none is pending", id="no step"),
        pytest.param(SEALED, [line("advance", run={"stepCount": 1})], "leaves the receipt pending", id="not closed"),
        pytest.param(ACTIVATED, [line("limit", run={"maxSteps": 30}, close=True)], "ends the pending receipt"),
        pytest.param(COMMITTED, [story()[REVIEWED]], "a step is pending already"),
    ],
)
def test_what_may_not_follow(length: int, more: list[Line], words: str) -> None:
    """However it came there, it is named with its line."""
    assert words in refused([*story()[:length], *more])


def test_an_adopted_review_may_be_validated() -> None:
    """What lay there at the begin, if a person took it over."""
    begin = {**story()[0], "memo": {"found": {"review-code.md": "d"}, "adoptReviews": True}}
    told = line("validated", memo={"validated": {"review-code.md": "d"}})
    replay([begin, told])
    assert "nobody handed in" in refused([{**begin, "memo": {"found": {"review-code.md": "d"}}}, told])


def test_a_receipt_is_not_used_again() -> None:
    """Neither by its id nor for a step of another task."""
    lines = story()
    again = {**lines[ADVANCED], "receipt": {**lines[ADVANCED]["receipt"], "id": lines[BEGUN]["receipt"]["id"]}}
    assert "was used before" in refused([*lines[:ADVANCED], again])
    other = {**lines[BEGUN], "receipt": {**lines[BEGUN]["receipt"], "taskId": TASK.replace("12", "13")}}
    assert "belongs to task" in refused([lines[0], other])


def test_the_story_tells_what_became_of_it() -> None:
    """Outcomes by receipt, the commit of its receipt, and what a person let pass, with the reason."""
    leaves = [
        line("allow", memo={"allowed": "hotfix"}),
        line("allowed", memo={"allowed": None}, facts={"commit": "9" * 40}),
    ]
    begin, *rest = story()
    told = replay([begin, *leaves, *rest])
    assert told.leaves == {"9" * 40: "hotfix"}
    assert told.commits == {"r-commit": MADE}
    assert told.outcomes["r-review-code.md"] == "consumed"
    assert told.outcomes["r-commit"] == "activated"
