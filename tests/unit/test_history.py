"""A journal told again, and a commit judged by it: every rule with a history that breaks it, from literals alone."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent_infra.core.grounds import ground
from agent_infra.core.history import Chronicle, Claim, Entry, Kind, Verdict, broken, check_claims
from agent_infra.core.replay import replay
from agent_infra.core.run import fold
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from tests.support.states import LATER, TASK, TREE, ledger_text
from tests.support.stories import ANCHOR, BASE, DOCUMENTS, HEAD, MADE, SHA, Line, line, made, story, told


def test_an_honest_run_is_verified() -> None:
    """Every check agrees."""
    assert str(told(story())(made())) == "verified"


# -- the commit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        pytest.param({"tree": "9" * 40, "oid": "8" * 40, "changes": {"x": None}}, "broken(VERIFY_TREE_UNAUTHORIZED)"),
        pytest.param(
            {"parents": (BASE,), "oid": "8" * 40, "changes": {"x": None}}, "broken(VERIFY_PARENT_UNAUTHORIZED)"
        ),
        pytest.param({"parents": (BASE,)}, "broken(VERIFY_PARENT_UNAUTHORIZED)", id="recorded, on another parent"),
        pytest.param({"parents": (HEAD, BASE)}, "broken(VERIFY_PARENT_UNAUTHORIZED)", id="a second parent"),
        pytest.param({"changes": {"src/app.py": None}}, "broken(VERIFY_DIFF)", id="other content"),
        pytest.param({"changes": {"src/app.py": ("100755", "e" * 40)}}, "broken(VERIFY_DIFF)", id="other mode"),
        pytest.param({"changes": {}}, "broken(VERIFY_DIFF)", id="what was judged is not there"),
        pytest.param({"oid": "8" * 40}, "verified-weak(amended)", id="another id"),
        pytest.param(
            {"oid": "8" * 40, "parents": (BASE,), "tree": "9" * 40},
            "broken(VERIFY_TREE_UNAUTHORIZED)",
            id="the content by another patch: old work would undo newer",
        ),
    ],
)
def test_a_commit_that_is_another(changes: dict[str, Any], verdict: str) -> None:
    """Tree, parent and diff are the authorized ones, or the patch is the same."""
    assert str(told(story())(made(**changes))) == verdict


def test_a_patch_outlives_its_blobs() -> None:
    """Other ids, the same patch as was authorized: rebased; an unused authorization excuses nothing."""
    other: dict[str, Entry] = {"src/app.py": ("100644", "7" * 40)}
    elsewhere = made(oid="8" * 40, parents=(BASE,), tree="9" * 40, changes=other)
    ask = told(story())
    assert str(ask(elsewhere, patch="p" * 64)) == "verified-weak(rebased)"
    assert ask(elsewhere, patch="q" * 64).kind is Kind.BROKEN
    assert ask(made(oid="8" * 40, parents=(BASE,), changes={}), patch="p" * 64).kind is Kind.BROKEN
    unused = told(story()[:-1])
    assert unused(elsewhere, patch="p" * 64).kind is Kind.BROKEN
    assert str(unused(made())) == "verified-weak(unrecorded)"


def test_an_older_record_has_no_patch() -> None:
    """Then the content decides whether it is the same work."""
    lines = story()
    del lines[ANCHOR - 2]["facts"]
    ask = told(lines)
    assert str(ask(made(oid="8" * 40, parents=(BASE,)))) == "verified-weak(rebased)"
    other: dict[str, Entry] = {"src/app.py": ("100644", "7" * 40)}
    assert ask(made(oid="8" * 40, parents=(BASE,), changes=other)).kind is Kind.BROKEN


# -- the run -----------------------------------------------------------------------------------------------------------


def edit(op: str, part: str, nth: int = 0, **fields: Any) -> Callable[[list[Line]], None]:
    """Change fields of the nth line of an operation."""

    def change(lines: list[Line]) -> None:
        found = [each for each in lines if each["op"] == op][nth]
        found[part] = {**found.get(part, {}), **fields}

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(edit("begin", "run", status="completed"), "TRANSITION_INVALID", id="begins completed"),
        pytest.param(edit("prepare", "run", nextStage="plan"), "TRANSITION_INVALID", id="another step is opened"),
        pytest.param(edit("prepare", "receipt", role="reviewer"), "TRANSITION_INVALID", id="role of another stage"),
        pytest.param(edit("prepare", "receipt", status="sealed"), "TRANSITION_INVALID", id="prepared as sealed"),
        pytest.param(edit("prepare", "receipt", runId="run-2"), "TRANSITION_INVALID", id="receipt of another run"),
        pytest.param(edit("prepare", "receipt", 3, headBefore=BASE), "TRANSITION_INVALID", id="another parent allowed"),
        pytest.param(edit("activate", "receipt", spawnMode="fork"), "TRANSITION_INVALID", id="a fork"),
        pytest.param(edit("activate", "receipt", parentId="c-1"), "TRANSITION_INVALID", id="its own parent"),
        pytest.param(edit("activate", "receipt", 1, childId="c-1"), "TRANSITION_INVALID", id="a child works twice"),
        pytest.param(edit("activate", "receipt", 2, childId="c-2"), "REVIEWER_IS_EXECUTOR", id="reviews its own work"),
        pytest.param(edit("activate", "receipt", stage="plan"), "TRANSITION_INVALID", id="becomes another step"),
        pytest.param(edit("activate", "run", status="paused"), "TRANSITION_INVALID", id="a start pauses"),
        pytest.param(edit("complete", "receipt", status="sealed"), "TRANSITION_INVALID", id="completed as sealed"),
        pytest.param(edit("complete", "receipt", artifactDigest=None), "TRANSITION_INVALID", id="no result"),
        pytest.param(edit("complete", "receipt", agent="nobody"), "TRANSITION_INVALID", id="a stranger's word"),
        pytest.param(edit("complete", "memo", verdicts={"x": "approved"}), "TRANSITION_INVALID", id="not its verdict"),
        pytest.param(
            edit("complete", "memo", ledger={"CD-1": ["code", "1", "major", "closed", "x"]}),
            "TRANSITION_INVALID",
            id="an executor closes a finding",
        ),
        pytest.param(edit("seal", "receipt", outcome="failure"), "TRANSITION_INVALID", id="a failed child"),
        pytest.param(edit("seal", "receipt", headAfter=HEAD), "TRANSITION_INVALID", id="moved HEAD"),
        pytest.param(edit("seal", "receipt", controlAfter="z"), "TRANSITION_INVALID", id="changed what controls it"),
        pytest.param(edit("seal", "receipt", 2, changedPaths=["src/app.py"]), "REVIEWER_WROTE", id="reviewer wrote"),
        pytest.param(edit("seal", "receipt", 2, indexAfter="z"), "REVIEWER_WROTE", id="reviewer staged"),
        pytest.param(edit("advance", "run", stepCount=9), "TRANSITION_INVALID", id="steps miscounted"),
        pytest.param(edit("advance", "receipt", status="aborted"), "TRANSITION_INVALID", id="aborted by advance"),
        pytest.param(edit("advance", "memo", reopened={}), "TRANSITION_INVALID", id="touches what is not its own"),
        pytest.param(
            edit("committed", "run", commitAuthorization={"commit": MADE}), "TRANSITION_INVALID", id="leave is changed"
        ),
    ],
)
def test_an_impossible_line_is_broken(change: Callable[[list[Line]], None], code: str) -> None:
    """However well chained, what the tables do not allow did not happen."""
    lines = story()
    change(lines)
    assert str(told(lines)(made())) == f"broken(VERIFY_{code})"


def test_an_operation_of_tomorrow_may_tell_but_not_move() -> None:
    """A line with facts alone is let pass; one that moves something is not understood."""
    begin, *rest = story()
    told_only = [begin, line("weather", facts={"sun": True}), *rest]
    replay(told_only)
    with pytest.raises(RefusedError, match=r"line 2 of the journal \(weather\)") as caught:
        replay([begin, line("weather", memo={"faulty": "x"}), *rest])
    assert caught.value.code is ErrorCode.VERIFY_TRANSITION_INVALID


@pytest.mark.parametrize(
    "part",
    [{"run": {"stepCount": []}}, {"receipt": {"round": "x"}}, {"memo": {"ledger": {"CD-1": 3}}}, {"close": True}],
)
def test_nonsense_is_named_and_no_traceback(part: Line) -> None:
    """Whatever stands in a field, the answer is a code."""
    for index in range(1, len(story())):
        lines = story()
        lines[index] = {**lines[index], **part}
        assert told(lines)(made()).kind in {Kind.BROKEN, Kind.VERIFIED}


# -- the documents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "verdict"),
    [
        pytest.param({"review_code": None}, "broken(VERIFY_ARTIFACT_DIGEST)", id="review gone"),
        pytest.param({"analysis": None}, "broken(VERIFY_ARTIFACT_DIGEST)", id="artifact gone"),
        pytest.param({"code": b"x"}, "broken(VERIFY_ARTIFACT_DIGEST)", id="what was judged is other"),
        pytest.param({"review_code": b"x"}, "broken(VERIFY_ARTIFACT_DIGEST)", id="review is other"),
        pytest.param({"analysis": b"x"}, "verified-weak(edited analysis.md)", id="what nobody approved is other"),
        pytest.param({"analysis_r2": b"x"}, "broken(VERIFY_REVIEW_MISSING)", id="a newer round"),
        pytest.param({"task": ledger_text("CD-1 code open")}, "broken(VERIFY_LEDGER)", id="open finding"),
        pytest.param({"task": ledger_text("CD-1 code closed x:1")}, "broken(VERIFY_LEDGER)", id="closed by nobody"),
        pytest.param({"task": b"---\n---\n"}, "broken(VERIFY_LEDGER)", id="the section is gone"),
        pytest.param({"task": None}, "broken(VERIFY_EVIDENCE_INVALID)", id="no task.md"),
    ],
)
def test_documents_are_those_of_the_receipts(documents: dict[str, bytes | None], verdict: str) -> None:
    """Present, with their digests, the ledger clear."""
    assert str(told(story(), **documents)(made())) == verdict


def test_a_commit_needs_its_review() -> None:
    """A run that went past a stage of its flow does not lead to a commit, though every line is possible."""
    lines = [each for index, each in enumerate(story()) if not 11 <= index <= 15]
    heads_before = ANCHOR

    def ask() -> Verdict:
        heads: list[str] = []
        for number, each in enumerate(lines, start=1):
            each |= {"seq": number, "prev": ""}
            heads.append(f"{number:064x}")
        view = json.dumps(fold(lines, task_id=TASK, head=heads[-1]).run.to_json()).encode()
        chronicle = Chronicle(TASK, tuple(lines), tuple(heads), view)
        documents = {name: data for name, data in DOCUMENTS.items() if name != "review-code.md"}
        try:
            ground(chronicle, documents, Claim(TASK, "run-1", heads[heads_before - 6]))
        except AgentInfraError as error:
            return broken(error)
        raise AssertionError("it stands")

    assert str(ask()) == "broken(VERIFY_REVIEW_MISSING)"


def test_the_view_holds_the_last_line() -> None:
    """No later line names the digest of the last one; the view does."""
    lines, heads = story(), [f"{number:064x}" for number in range(len(story()))]
    run = fold(lines, task_id=TASK, head=heads[-1]).run
    claim = Claim(TASK, "run-1", heads[ANCHOR - 1])
    for view in (run.evolve(journal_head="0" * 64), run.evolve(step_count=9)):
        chronicle = Chronicle(TASK, tuple(lines), tuple(heads), json.dumps(view.to_json()).encode())
        with pytest.raises(RefusedError) as caught:
            ground(chronicle, DOCUMENTS, claim)
        assert caught.value.code is ErrorCode.VERIFY_EVIDENCE_INVALID
    with pytest.raises(RefusedError) as caught:
        ground(Chronicle(TASK, tuple(lines), tuple(heads), b"{"), DOCUMENTS, claim)
    assert caught.value.code is ErrorCode.VERIFY_EVIDENCE_INVALID


# -- claims ------------------------------------------------------------------------------------------------------------


TRAILERS = f"Agent-Infra-Task: {TASK}\nAgent-Infra-Run: r\nAgent-Infra-Receipt: {'0' * 64}\n"


def test_claims_are_read_wherever_git_puts_them() -> None:
    """In the last paragraph, above it after a squash, indented, with other trailers and line ends, once each."""
    claim = Claim(TASK, "r", "0" * 64)
    assert check_claims(f"fix\n\n{TRAILERS}Signed-off-by: x\n") == (claim,)
    assert check_claims(f"fix\n\n{TRAILERS}\nother\n\n{TRAILERS}") == (claim,)
    other = TRAILERS.replace(": r", ": s")
    assert len(check_claims(f"one\n\n{TRAILERS}\ntwo\n\n{other}")) == 2
    indented = "".join(f"    {each}\n" for each in TRAILERS.splitlines())
    assert check_claims(f"Squashed\n\n{indented}\n") == (claim,)
    assert check_claims(f"fix\r\n\r\n{TRAILERS}".replace("\n", "\r\n")) == (claim,)
    assert check_claims("nothing\n") == ()
    assert check_claims(f"about\n\nAgent-Infra-Task: a key\n\n{TRAILERS}") == (claim,)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(TRAILERS.replace("Receipt: ", "Receipt: x"), id="no digest"),
        pytest.param(f"fix\n\n{TRAILERS}Agent-Infra-Task: {TASK}\n", id="half of another claim"),
        pytest.param(f"fix\n\nAgent-Infra-Run: r\n\nfix\n\nAgent-Infra-Task: {TASK}\n", id="torn apart"),
    ],
)
def test_half_a_claim_is_malformed(message: str) -> None:
    """Where git would read trailers, they are whole or wrong."""
    with pytest.raises(RefusedError) as caught:
        check_claims(message)
    assert caught.value.code is ErrorCode.VERIFY_TRAILER_INVALID


# -- the evidence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        pytest.param({"anchor": 0}, "broken(VERIFY_TRAILER_UNKNOWN)", id="a line that is not there"),
        pytest.param({"run": "run-2"}, "broken(VERIFY_TRAILER_UNKNOWN)", id="a line of another run"),
        pytest.param({"anchor": ANCHOR - 2}, "broken(VERIFY_TREE_UNAUTHORIZED)", id="before the authorization"),
        pytest.param({"anchor": ANCHOR - 1}, "broken(VERIFY_TREE_UNAUTHORIZED)", id="nobody at work yet"),
        pytest.param({"anchor": ANCHOR + 1}, "broken(VERIFY_TREE_UNAUTHORIZED)", id="used up already"),
    ],
)
def test_the_trailers_name_the_moment_of_the_commit(changes: dict[str, Any], verdict: str) -> None:
    """A line of this run at which its commit was authorized and under way."""
    assert str(told(story(), **changes)(made())) == verdict


def test_a_finding_that_the_journal_knows_is_not_forgotten() -> None:
    """Open in the journal, though task.md has no word of it."""
    lines = story()
    completed = [each for each in lines if each["op"] == "complete"][2]
    completed["memo"]["ledger"] = {"CD-1": ["code", "1", "major", "open", ""]}
    assert str(told(lines)(made())) == "broken(VERIFY_LEDGER)"


def test_a_step_that_was_given_up_leaves_nothing_that_counts() -> None:
    """An aborted round of before does not matter; the commit step given up after its commit is a flaw."""
    lines = story()
    gone = {"status": "aborted", "outcome": "unknown", "abortedAt": LATER, "abortReason": "lost"}
    first = [{**lines[1], "receipt": {**lines[1]["receipt"], "id": "r-0"}}, line("abandon", receipt=gone, close=True)]
    assert str(told([lines[0], *first, *lines[1:]], anchor=ANCHOR + 2)(made())) == "verified"
    after = line("abandon", run={"status": "completed"}, receipt=gone, close=True)
    assert str(told([*lines, after])(made())) == "verified-weak(aborted)"


def test_the_newest_round_counts_whatever_the_order() -> None:
    """The files of the evidence come in no order."""
    assert str(told(story(), code_r3=b"x", code_r2=b"y", analysis_r2=b"z")(made())) == "broken(VERIFY_REVIEW_MISSING)"


def test_an_adopted_review_judged_no_diff() -> None:
    """It has no receipt, so the tree alone is held against the commit, and whoever reads the verdict sees it."""
    begin, *lines = story()
    found = {"review-code.md": SHA["review-code.md"], "code.md": SHA["code.md"]}
    begin["memo"] |= {"adoptReviews": True, "found": found, "begunTree": TREE}
    kept = [each for index, each in enumerate(lines) if not 10 <= index < 15]
    counts = [each for each in kept if each["op"] == "advance"]
    assert len(counts) == 2
    verdict = told([begin, *kept], anchor=ANCHOR - 5)(made())
    assert str(verdict) == "verified-weak(adopted review-code.md)"


def test_other_work_has_other_documents() -> None:
    """What lay in the folder when a commit was made is what it stands on, until the next step begins."""
    lines = story()
    heads = tuple(f"{number:064x}" for number in range(len(lines) + 2))
    more = [*lines, line("noted", memo={"head": HEAD}), line("reopen", memo={"reopened": {"code": 1}})]
    chronicle = Chronicle(TASK, tuple(more), heads, b"")
    assert chronicle.work_ends(ANCHOR) == len(lines) + 1
    assert Chronicle(TASK, tuple(lines), heads, b"").work_ends(ANCHOR) == len(lines)
