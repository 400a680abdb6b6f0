"""A journal told again, and a commit judged by it: every rule with a history that breaks it, from literals alone."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from agent_infra.core.grounds import ground
from agent_infra.core.history import Chronicle, Claim, Commit, Entry, Kind, Original, Verdict, broken, check_claims
from agent_infra.core.judgement import Merged, judge, judge_merge, merge_by_paths
from agent_infra.core.replay import replay
from agent_infra.core.run import fold
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from tests.support.states import BEGIN, LATER, NOW, TASK, TREE, ledger_text, receipt, review_text

Line = dict[str, Any]
BASE, HEAD, MADE, AUTHORIZED = "b" * 40, "c" * 40, "d" * 40, "a" * 40
CHANGE = {"path": "src/app.py", "mode": "100644", "oid": "e" * 40}
DOCUMENTS = {
    "task.md": ledger_text(),
    "analysis.md": b"analysis\n",
    "code.md": b"code\n",
    "review-code.md": review_text(judged="code.md"),
}
SHA = {name: hashlib.sha256(data).hexdigest() for name, data in DOCUMENTS.items()}
FOLDER = f".agents/workspace/active/{TASK}"


def line(op: str, **parts: Any) -> Line:
    return {"v": 1, "ts": NOW, "op": op, **parts}


def step(name: str, child: str, *, inputs: tuple[str, ...] = (), **prepared: Any) -> list[Line]:
    """One step from prepare to advance."""
    given = [{"name": each, "sha256": SHA[each]} for each in inputs]
    start = receipt(name).to_json() | {"inputs": given, "headBefore": BASE, "indexBefore": "i", "controlBefore": "k"}
    reviews = name.startswith("review-")
    verdicts = {"verdicts": {name: "approved"}} if reviews else {}
    sealed = {"headAfter": BASE, "indexAfter": "i", "controlAfter": "k", "afterFingerprint": TREE, "sealedAt": LATER}
    return [
        line("prepare", run={"nextStage": start["stage"]}, receipt=start | prepared, memo={"control": {}}),
        activated(child),
        line(
            "complete",
            receipt={"status": "stage-completed", "agent": "claude", "artifactDigest": SHA[name], "completedAt": LATER},
            memo={"ledger": {}, **verdicts},
        ),
        line(
            "seal",
            receipt={"status": "sealed", "outcome": "success", "changedPaths": [f"{FOLDER}/{name}"], **sealed},
            memo={"ledger": {}},
        ),
        line(
            "advance",
            run={"nextStage": None, "pause": None},
            receipt={"status": "consumed", "consumedAt": LATER},
            close=True,
            memo={"control": {}},
        ),
    ]


def activated(child: str) -> Line:
    started = {"status": "activated", "childId": child, "parentId": "p", "spawnMode": "fresh", "activatedAt": LATER}
    return line("activate", receipt=started)


def story() -> list[Line]:
    """An honest run of the streamlined flow, up to the commit that was recorded; steps are counted at the end."""
    leave = {"issuedAt": NOW, "consumedAt": None, "ref": "refs/heads/main", "head": HEAD, "tree": AUTHORIZED}
    commit = receipt("commit").to_json() | {"headBefore": HEAD, "role": "executor", "stage": "commit"}
    judged = {"inputTree": "f" * 40, "inputChanges": [CHANGE]}
    lines = [
        line("begin", run={**BEGIN, "flow": "streamlined", "stepCount": 0}, memo={"ledgerPresent": True}),
        *step("analysis.md", "c-1"),
        *step("code.md", "c-2", inputs=("analysis.md",)),
        *step("review-code.md", "c-3", inputs=("code.md", "analysis.md"), **judged),
        line(
            "prepare",
            run={"nextStage": "commit", "commitAuthorization": {**leave, "commit": None}},
            receipt=commit,
            memo={"control": {}},
            facts={"patchId": "p" * 64},
        ),
        activated("c-4"),
        line("committed", run={"commitAuthorization": {**leave, "commit": MADE}}),
    ]
    steps = [each for each in lines if each["op"] == "advance"]
    for number, each in enumerate(steps, start=1):
        each["run"]["stepCount"] = number
    return lines


ANCHOR = len(story()) - 1


@dataclass
class Seen:
    """A commit of which all changes are there, in a history of which nothing else is known."""

    commit: Commit
    own: str = ""

    def entries(self) -> Mapping[str, Entry]:
        return self.commit.changes

    def patch(self) -> str:
        return self.own

    def between(self, first: str | None, last: str) -> str:
        raise AssertionError((first, last))

    def original(self, _oid: str) -> Original | None:
        return None

    def follows(self, _oid: str) -> bool:
        return False

    def joins(self, last: str) -> bool:
        raise AssertionError(last)


def told(lines: list[Line], **documents: bytes | None) -> Callable[[Commit], Verdict]:
    """What a run of these lines says about a commit; the chain and the view are made to fit."""
    heads: list[str] = []
    for number, each in enumerate(lines, start=1):
        each |= {"seq": number, "prev": heads[-1] if heads else "0" * 64}
        heads.append(hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest())
    files = {name: data for name, data in (DOCUMENTS | named(documents)).items() if data is not None}

    def ask(commit: Commit, *, patch: str = "") -> Verdict:
        try:
            view = json.dumps(fold(lines, task_id=TASK, head=heads[-1]).run.to_json()).encode()
            chronicle = Chronicle(TASK, tuple(lines), tuple(heads), view)
            base = ground(chronicle, files, Claim(TASK, "run-1", heads[ANCHOR - 1]))
        except AgentInfraError as error:
            return broken(error)
        return judge(commit, [base], Seen(commit, patch))

    return ask


def named(documents: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {f"{name.replace('_', '-')}.md": data for name, data in documents.items()}


def made(**changes: Any) -> Commit:
    """The commit that the run authorized."""
    facts: dict[str, Any] = {
        "oid": MADE,
        "parents": (HEAD,),
        "tree": AUTHORIZED,
        "message": "fix",
        "changes": {"src/app.py": ("100644", "e" * 40)},
    }
    return Commit(**(facts | changes))


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
    ask: Any = told(story())
    assert str(ask(elsewhere, patch="p" * 64)) == "verified-weak(rebased)"
    assert ask(elsewhere, patch="q" * 64).kind is Kind.BROKEN
    assert ask(made(oid="8" * 40, parents=(BASE,), changes={}), patch="p" * 64).kind is Kind.BROKEN
    unused: Any = told(story()[:-1])
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


# -- claims and merges -------------------------------------------------------------------------------------------------


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


A, B, C = ("100644", "a" * 40), ("100644", "b" * 40), ("100644", "c" * 40)


@pytest.mark.parametrize(
    ("ours", "theirs", "result", "answer"),
    [
        pytest.param({"a": A}, {"b": B}, {"a": A, "b": B}, Merged.CLEAN, id="apart"),
        pytest.param({"a": A}, {"a": A}, {"a": A}, Merged.CLEAN, id="the same on both sides"),
        pytest.param({"a": None}, {"b": B}, {"a": None, "b": B}, Merged.CLEAN, id="deleted"),
        pytest.param({"a": A}, {"b": B}, {"a": A}, Merged.BY_HAND, id="a side left out"),
        pytest.param({"a": A}, {"b": B}, {"a": A, "b": C}, Merged.BY_HAND, id="another content"),
        pytest.param({"a": A}, {"b": B}, {"a": A, "b": B, "c": C}, Merged.BY_HAND, id="a path of its own"),
        pytest.param({"a": A}, {"a": B}, {"a": C}, Merged.UNKNOWN, id="both changed it"),
        pytest.param({"a": None, "b": A}, {"a": B}, {"a": None, "b": C}, Merged.UNKNOWN, id="moved and changed"),
    ],
)
def test_a_merge_path_by_path(
    ours: dict[str, Entry], theirs: dict[str, Entry], result: dict[str, Entry], answer: Merged
) -> None:
    """Where git can't merge for us, only what needs no merging of content is known."""
    assert merge_by_paths(ours, theirs, result)[0] is answer


GOOD, WEAK, BAD = Verdict(Kind.VERIFIED), Verdict(Kind.WEAK, "rebased"), Verdict(Kind.UNRECEIPTED)


@pytest.mark.parametrize(
    ("answer", "parents", "verdict"),
    [
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", None, True)], "verified", id="clean"),
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", WEAK, True)], "verified-weak(merge)", id="weak parent"),
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", BAD, True)], "verified-weak(merge)", id="not required"),
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", BAD, False)], "unreceipted", id="faulty parent"),
        pytest.param(Merged.BY_HAND, [("a", GOOD, True), ("b", GOOD, True)], "unreceipted", id="by hand"),
        pytest.param(Merged.UNKNOWN, [("a", GOOD, True), ("b", GOOD, True)], "incomplete(GIT_FAILED)", id="unknown"),
        pytest.param(Merged.UNKNOWN, [("a", GOOD, True), ("b", BAD, False)], "unreceipted", id="unknown and faulty"),
    ],
)
def test_a_merge_is_as_good_as_its_parents(
    answer: Merged, parents: list[tuple[str, Verdict | None, bool]], verdict: str
) -> None:
    """It adds nothing, so nothing but they can be wrong with it."""
    assert str(judge_merge(answer, ("x",), parents)) == verdict
