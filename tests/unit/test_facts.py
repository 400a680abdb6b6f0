"""From folder and journal to facts: staleness, rework, adopted and edited reviews, and the proof of the ledger."""

from collections.abc import Callable

import pytest

from agent_infra.core.facts import (
    ArtifactFile,
    changed_rows,
    check_proof,
    gather,
    input_names,
    ledger_fault,
    phase_facts,
    proven_rows,
    read_ledger,
    remembered,
    seen,
)
from agent_infra.core.ledger import Row
from agent_infra.core.lifecycle import Flow, Stage, Step
from agent_infra.core.receipts import Input
from agent_infra.core.routing import ArtifactFact, Facts, PhaseFacts, ReviewFact, route
from agent_infra.core.run import State
from agent_infra.errors import ErrorCode, RefusedError
from tests.support.states import (
    TASK_MD,
    TREE,
    aborted,
    consumed,
    file,
    ledger_text,
    review_text,
    situation,
    state,
)

ANALYSIS, PLAN, CODE = file("analysis.md"), file("plan.md"), file("code.md")
ANALYSIS_2, PLAN_2 = file("analysis-r2.md"), file("plan-r2.md")
REVIEW = file("review-plan.md", review_text())
CODE_REVIEW = file("review-code.md", review_text(judged="code.md"))
OTHER_TREE = "2" * 40


def never() -> str:
    """A product tree that must not be asked for."""
    raise AssertionError("the product tree was asked for")


def review_of_plan(*files: ArtifactFile, state: State | None, product_tree: Callable[[], str] = never) -> ReviewFact:
    return phase_facts(situation(*files, state=state, product_tree=product_tree), Stage.PLAN).review


def review_of_code(*files: ArtifactFile, state: State | None, tree: str = TREE) -> ReviewFact:
    return phase_facts(situation(*files, state=state, product_tree=lambda: tree), Stage.CODE).review


def worth(*files: ArtifactFile, state: State | None, phase: Stage = Stage.PLAN) -> ArtifactFact:
    return phase_facts(situation(*files, state=state), phase).artifact


# --- without a run: names alone ---


def test_an_empty_folder_has_no_facts() -> None:
    """Nothing there: every phase is absent, and no code review names a count."""
    assert gather(situation()) == Facts(manual_validation=None)
    assert gather(situation(flow=Flow.STREAMLINED)).flow is Flow.STREAMLINED


def test_a_review_without_its_artifact_counts_its_rounds() -> None:
    """The artifact is gone, so its first round is due; the review's rounds go on from what lies there."""
    assert phase_facts(situation(file("review-plan-r3.md")), Stage.PLAN) == PhaseFacts(review_round=3)


def test_by_name_a_review_belongs_to_the_newest_artifact() -> None:
    """Without a run the name in the review is what ties it to an artifact; nobody asks for the product tree."""
    assert review_of_plan(PLAN, REVIEW, state=None) is ReviewFact.APPROVES
    assert review_of_plan(PLAN_2, REVIEW, state=None) is ReviewFact.ABSENT
    code = phase_facts(situation(CODE, CODE_REVIEW, product_tree=never), Stage.CODE)
    assert code == PhaseFacts(ArtifactFact.READY, 1, ReviewFact.APPROVES, 1)


def test_without_a_run_nothing_is_outdated() -> None:
    """Which round a plan stands on is only known from receipts."""
    assert worth(ANALYSIS_2, PLAN, state=None) is ArtifactFact.READY


# --- 1. what approves ---


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        pytest.param(review_text("Approved"), ReviewFact.APPROVES, id="approved"),
        pytest.param(review_text("Approved", majors=1), ReviewFact.REJECTS, id="approved with a finding"),
        pytest.param(review_text("Changes Requested"), ReviewFact.REJECTS, id="changes requested without findings"),
        pytest.param(review_text("Rejected", majors=2), ReviewFact.REJECTS, id="rejected"),
    ],
)
@pytest.mark.parametrize("begun", [False, True], ids=["by name", "in a run"])
def test_approved_means_the_verdict_and_no_findings(text: bytes, fact: ReviewFact, *, begun: bool) -> None:
    """A verdict that the counts contradict is no approval but asks for a new executor round."""
    review = file("review-plan.md", text)
    there = state(consumed(PLAN), consumed(review, PLAN)) if begun else None
    assert review_of_plan(PLAN, review, state=there) is fact


# --- 2. what is current ---


def test_a_review_is_current_for_the_bytes_it_judged() -> None:
    """A later byte in the artifact makes it stale: a new review of that stage is due, not a new plan."""
    there = state(consumed(PLAN), consumed(REVIEW, PLAN))
    assert review_of_plan(PLAN, REVIEW, state=there) is ReviewFact.APPROVES
    edited = phase_facts(situation(file("plan.md", b"words.\n"), REVIEW, state=there), Stage.PLAN)
    assert (edited.artifact, edited.review) == (ArtifactFact.READY, ReviewFact.ABSENT)


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
def test_a_review_of_another_round_is_not_current(verdict: str) -> None:
    """Equal bytes under another name were not judged; neither leave nor refusal is taken over."""
    review = file("review-plan.md", review_text(verdict))
    assert review_of_plan(PLAN_2, review, state=state(consumed(PLAN), consumed(review, PLAN))) is ReviewFact.ABSENT


def test_a_receipt_that_judged_nothing_approves_nothing() -> None:
    """A reviewer receipt without inputs is no evidence."""
    assert review_of_plan(PLAN, REVIEW, state=state(consumed(REVIEW))) is ReviewFact.ABSENT


def test_the_first_input_is_what_was_judged() -> None:
    """The other inputs of a review were only context."""
    there = state(consumed(REVIEW, ANALYSIS, PLAN))
    assert review_of_plan(PLAN, REVIEW, state=there) is ReviewFact.ABSENT


def test_a_code_review_approves_one_product_tree() -> None:
    """A product byte that moved after the review makes it stale."""
    there = state(consumed(CODE), consumed(CODE_REVIEW, CODE, input_tree=TREE))
    assert review_of_code(CODE, CODE_REVIEW, state=there) is ReviewFact.APPROVES
    assert review_of_code(CODE, CODE_REVIEW, state=there, tree=OTHER_TREE) is ReviewFact.ABSENT
    unknown = state(consumed(CODE_REVIEW, CODE))
    assert review_of_code(CODE, CODE_REVIEW, state=unknown) is ReviewFact.ABSENT


def test_the_product_tree_is_only_asked_for_where_it_decides() -> None:
    """Asking costs a snapshot: other reviews, and code reviews that reject or are stale anyway, don't."""
    rejecting = file("review-code.md", review_text("Rejected", judged="code.md"))
    there = state(consumed(REVIEW, PLAN), consumed(rejecting, CODE, input_tree=TREE))
    assert review_of_plan(PLAN, REVIEW, state=there) is ReviewFact.APPROVES
    found = phase_facts(situation(CODE, rejecting, state=there, product_tree=never), Stage.CODE)
    assert found.review is ReviewFact.REJECTS
    stale = phase_facts(situation(file("code.md", b"x"), rejecting, state=there, product_tree=never), Stage.CODE)
    assert stale.review is ReviewFact.ABSENT


# --- 3. what is outdated, unfinished, reopened ---


def test_a_newer_round_upstream_outdates_what_stands_on_it() -> None:
    """The plan was built on analysis.md; with analysis-r2.md there it needs a new round, whatever its review said."""
    there = state(consumed(ANALYSIS), consumed(PLAN, ANALYSIS), consumed(REVIEW, PLAN, ANALYSIS))
    assert worth(ANALYSIS, PLAN, REVIEW, state=there) is ArtifactFact.READY
    assert worth(ANALYSIS_2, PLAN, REVIEW, state=there) is ArtifactFact.OUTDATED


def test_an_edit_within_a_round_outdates_nothing_downstream() -> None:
    """It asks only for that stage's own review again."""
    edited = file("analysis.md", b"other words\n")
    assert worth(edited, PLAN, state=state(consumed(PLAN, ANALYSIS))) is ArtifactFact.READY


def test_a_plan_on_the_newest_round_is_good() -> None:
    """A rework that was given the newer analysis stands on it."""
    there = state(consumed(PLAN, ANALYSIS), consumed(PLAN_2, ANALYSIS_2, REVIEW))
    assert worth(ANALYSIS_2, PLAN_2, state=there) is ArtifactFact.READY


def test_a_newer_review_outdates_nothing() -> None:
    """Reviews among the inputs don't count, nor does an earlier round of the same family."""
    newer = file("review-plan-r2.md", review_text())
    assert worth(ANALYSIS, PLAN_2, newer, state=state(consumed(PLAN_2, ANALYSIS, REVIEW, PLAN))) is ArtifactFact.READY


def test_an_input_that_is_gone_outdates_nothing() -> None:
    """Without any analysis there is no newer one; the route asks for the analysis first anyway."""
    assert worth(PLAN, state=state(consumed(PLAN, ANALYSIS))) is ArtifactFact.READY


def test_an_artifact_without_a_receipt_stands_on_what_its_first_review_was_given() -> None:
    """A plan that lay there at `begin` has the inputs of its first review."""
    there = state(consumed(REVIEW, PLAN, ANALYSIS), consumed(file("review-plan-r2.md"), PLAN, ANALYSIS_2))
    assert worth(ANALYSIS, PLAN, state=there) is ArtifactFact.READY
    assert worth(ANALYSIS_2, PLAN, state=there) is ArtifactFact.OUTDATED


def test_an_artifact_that_nobody_recorded_stands_on_nothing() -> None:
    """Neither a receipt nor a review: nothing is known, so nothing outdates it."""
    unrelated = [consumed(file("review-code.md"), CODE, PLAN), consumed(ANALYSIS)]
    assert worth(ANALYSIS_2, PLAN, state=state(*unrelated)) is ArtifactFact.READY


def test_code_stands_on_the_analysis_where_no_plan_is() -> None:
    """In the streamlined flow a newer analysis outdates the code."""
    assert worth(ANALYSIS_2, CODE, state=state(consumed(CODE, ANALYSIS)), phase=Stage.CODE) is ArtifactFact.OUTDATED


@pytest.mark.parametrize(
    "odd", ["plan-risks.md", "plan-r-r2.md", "plan-r٢.md"], ids=["no round", "a word as round", "digits of elsewhere"]
)
def test_inputs_that_are_no_artifacts_outdate_nothing(odd: str) -> None:
    """Only names of executor artifacts among the inputs count."""
    made = consumed(CODE).evolve(inputs=[Input(name=odd, sha256="0" * 64)])
    assert worth(PLAN_2, CODE, state=state(made), phase=Stage.CODE) is ArtifactFact.READY


def test_an_aborted_receipt_asks_for_the_same_round_again() -> None:
    """The newest receipt of a name counts: aborted means unfinished, a later consumed one mends it."""
    assert worth(PLAN, state=state(consumed(PLAN), aborted("plan.md"))) is ArtifactFact.UNFINISHED
    assert worth(PLAN, state=state(aborted("plan.md"), consumed(PLAN))) is ArtifactFact.READY
    there = state(consumed(PLAN), aborted("review-plan.md"))
    assert review_of_plan(PLAN, REVIEW, state=there) is ReviewFact.UNFINISHED
    assert review_of_plan(PLAN, REVIEW, state=state(aborted("review-plan.md"), consumed(REVIEW, PLAN))) is (
        ReviewFact.APPROVES
    )


def test_an_aborted_round_that_left_nothing_changes_nothing() -> None:
    """Only what lies there can be unfinished."""
    there = state(consumed(PLAN), aborted("plan-r2.md"), aborted("review-plan.md"))
    assert phase_facts(situation(PLAN, state=there), Stage.PLAN) == PhaseFacts(ArtifactFact.READY, 1)


def test_a_reopened_stage_gets_a_new_round() -> None:
    """Up to the round in which it was reopened an artifact is outdated and a review void; a later one is good."""
    there = state(consumed(PLAN), consumed(REVIEW, PLAN), reopened={"plan": 1})
    assert worth(PLAN, REVIEW, state=there) is ArtifactFact.OUTDATED
    there = state(consumed(PLAN), consumed(PLAN_2), reopened={"plan": 1})
    assert worth(PLAN_2, state=there) is ArtifactFact.READY
    there = state(consumed(PLAN), consumed(REVIEW, PLAN), reopened={"review-plan": 1})
    assert review_of_plan(PLAN, REVIEW, state=there) is ReviewFact.ABSENT
    again = file("review-plan-r2.md", review_text())
    there = state(consumed(REVIEW, PLAN), consumed(again, PLAN), reopened={"review-plan": 1})
    assert review_of_plan(PLAN, again, state=there) is ReviewFact.APPROVES


# --- 4. whose review counts ---


def adopting(*files: ArtifactFile, adopt_reviews: bool = True, begun_tree: str = TREE) -> State:
    """A run that was begun with these files there."""
    found = {each.name: each.sha256 for each in files}
    return state(found=found, adopt_reviews=adopt_reviews, begun_tree=begun_tree)


def test_a_review_without_a_receipt_never_approves() -> None:
    """Written by anybody during the run, or there at `begin` without a person's word: it is as if absent."""
    assert review_of_plan(PLAN, REVIEW, state=state(consumed(PLAN))) is ReviewFact.ABSENT
    there = adopting(PLAN, REVIEW, adopt_reviews=False)
    assert review_of_plan(PLAN, REVIEW, state=there) is ReviewFact.ABSENT


def test_an_adopted_review_counts() -> None:
    """A person said at `begin` that the reviews there count."""
    assert review_of_plan(PLAN, REVIEW, state=adopting(PLAN, REVIEW)) is ReviewFact.APPROVES
    rejecting = file("review-plan.md", review_text("Rejected"))
    assert review_of_plan(PLAN, rejecting, state=adopting(PLAN, rejecting)) is ReviewFact.REJECTS


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param((PLAN, REVIEW), (PLAN,), id="the review came later"),
        pytest.param((PLAN, file("review-plan.md", review_text() + b" ")), (PLAN, REVIEW), id="the review was edited"),
        pytest.param((file("plan.md", b"x"), REVIEW), (PLAN, REVIEW), id="the artifact was edited"),
        pytest.param((PLAN_2, REVIEW), (PLAN_2, REVIEW), id="it names another round"),
    ],
)
def test_adopted_reviews_that_do_not_count(files: tuple[ArtifactFile, ...], found: tuple[ArtifactFile, ...]) -> None:
    """Only what lay there at `begin`, byte for byte, and fits by name."""
    assert review_of_plan(*files, state=adopting(*found)) is ReviewFact.ABSENT


def test_an_adopted_code_review_approves_the_tree_at_begin() -> None:
    """Nobody knows which tree it judged; it stands for the one that was there when a person adopted it."""
    there = adopting(CODE, CODE_REVIEW)
    assert review_of_code(CODE, CODE_REVIEW, state=there) is ReviewFact.APPROVES
    assert review_of_code(CODE, CODE_REVIEW, state=there, tree=OTHER_TREE) is ReviewFact.ABSENT


@pytest.mark.parametrize(
    ("recorded", "now", "fact"),
    [
        pytest.param("approved", review_text("Rejected"), ReviewFact.REJECTS, id="stricter by two"),
        pytest.param("approved", review_text("Changes Requested"), ReviewFact.REJECTS, id="stricter by one"),
        pytest.param("changes-requested", review_text("Rejected"), ReviewFact.REJECTS, id="stricter still"),
        pytest.param("rejected", review_text("Approved"), ReviewFact.ABSENT, id="milder"),
        pytest.param("rejected", review_text("Changes Requested"), ReviewFact.ABSENT, id="milder by one"),
        pytest.param("approved", review_text("Approved") + b" \n", ReviewFact.ABSENT, id="another byte"),
        pytest.param(None, review_text("Rejected"), ReviewFact.ABSENT, id="a verdict that nobody recorded"),
    ],
)
def test_an_edited_review_counts_only_if_it_became_stricter(recorded: str | None, now: bytes, fact: ReviewFact) -> None:
    """Anybody may turn leave into refusal; everything else that was edited is stale."""
    edited = file("review-plan.md", now)
    there = state(
        consumed(REVIEW, PLAN, artifact_digest="0" * 64), verdicts={REVIEW.name: recorded} if recorded else {}
    )
    assert review_of_plan(PLAN, edited, state=there) is fact


# --- 8. a review that can't be read ---


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(None, id="by name"),
        pytest.param(state(consumed(file("review-plan-r2.md", b"# no summary\n"), PLAN)), id="in a run"),
        pytest.param(adopting(PLAN, file("review-plan-r2.md", b"# no summary\n")), id="adopted"),
    ],
)
def test_a_review_that_cannot_be_read_is_the_same_reviewer_round(there: State | None) -> None:
    """It is a fault with file and line, never approval and never a new executor round."""
    odd = file("review-plan-r2.md", b"# no summary\n")
    found = phase_facts(situation(PLAN, odd, state=there), Stage.PLAN)
    assert (found.review, found.review_round) == (ReviewFact.UNREADABLE, 2)
    assert found.review_fault is not None
    assert found.review_fault.code is ErrorCode.ORCHESTRATION_REVIEW_INVALID
    assert found.review_fault.message.startswith("review-plan-r2.md:1:")
    answer = route(Facts(analysis=PhaseFacts(ArtifactFact.READY, 1, ReviewFact.APPROVES, 1), plan=found))
    assert (answer.step, answer.fault) == (Step(Stage.REVIEW_PLAN, 2, "review-plan-r2.md"), found.review_fault)


def test_a_stale_review_need_not_be_readable() -> None:
    """What does not count is not read."""
    odd = file("review-plan.md", b"\xff")
    assert review_of_plan(PLAN, odd, state=state(consumed(PLAN))) is ReviewFact.ABSENT


# --- 6. manual validation ---


@pytest.mark.parametrize(
    ("data", "count"),
    [
        pytest.param(review_text(manual="0"), 0, id="none"),
        pytest.param(review_text(manual="3 (no screen)"), 3, id="three"),
        pytest.param(review_text(manual=""), None, id="not named"),
        pytest.param(b"# no summary\n", None, id="a review that can't be read"),
    ],
)
def test_manual_validation_is_read_from_the_newest_code_review(data: bytes, count: int | None) -> None:
    """The count of the newest code review stands before the commit."""
    assert gather(situation(CODE, file("review-code.md", data))).manual_validation == count


# --- 5. the ledger ---


def ledgered(*rows: str, present: bool = True) -> State:
    """A run whose journal knows these rows."""
    known = {row.id: row for row in read_ledger(ledger_text(*rows), None).rows}
    cells = {id_: [row.stage, row.round, row.severity, row.status, row.evidence] for id_, row in known.items()}
    return state(ledger=cells, ledger_present=present)


def code_of(task: bytes, there: State | None) -> ErrorCode | None:
    fault = ledger_fault(task, there)
    return fault.code if fault else None


@pytest.mark.parametrize(
    ("rows", "there", "code"),
    [
        pytest.param((), None, None, id="an empty table"),
        pytest.param(("CD-1 code closed a.md",), None, None, id="all closed, no run"),
        pytest.param(("AN-1 analysis open",), None, ErrorCode.ORCHESTRATION_LEDGER_BLOCKED, id="open in another stage"),
        pytest.param(("CD-1 code opened",), None, ErrorCode.ORCHESTRATION_LEDGER_INVALID, id="no such status"),
        pytest.param(("CD-1 code closed a.md",), ledgered("CD-1 code closed a.md"), None, id="closed on record"),
        pytest.param(
            ("CD-1 code closed a.md",),
            ledgered("CD-1 code open"),
            ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN,
            id="closed by nobody",
        ),
        pytest.param(
            ("CD-1 code confirmed a.md",), ledgered(), ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN, id="born closed"
        ),
        pytest.param((), ledgered("CD-1 code open"), ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN, id="a row that vanished"),
        pytest.param(
            (), ledgered("CD-1 code closed a.md"), ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN, id="a closed row vanished"
        ),
        pytest.param(
            ("CD-1 code open",),
            ledgered("CD-1 code closed a.md"),
            ErrorCode.ORCHESTRATION_LEDGER_BLOCKED,
            id="opened again",
        ),
    ],
)
def test_what_the_ledger_says_before_a_commit(
    rows: tuple[str, ...], there: State | None, code: ErrorCode | None
) -> None:
    """Valid, then proven, then free of unresolved rows of all stages."""
    assert code_of(ledger_text(*rows), there) is code


def test_a_blocked_ledger_names_its_rows() -> None:
    """The sentence says which rows are open, and how."""
    fault = ledger_fault(ledger_text("AN-1 analysis open", "CD-2 code accepted a.md", "PL-1 plan closed a.md"), None)
    assert fault is not None
    assert "AN-1 (open), CD-2 (accepted);" in fault.message


def test_unproven_rows_are_named() -> None:
    """Vanished and closed rows are all named."""
    there = ledgered("CD-1 code open", "CD-2 code open", "CD-3 code open")
    fault = ledger_fault(ledger_text("CD-2 code closed a.md", "CD-3 code open"), there)
    assert fault is not None
    assert "CD-1, CD-2 vanished or were closed" in fault.message


def test_a_missing_section_is_empty_only_if_it_was_missing_at_begin() -> None:
    """A section that was there can't be taken away."""
    assert ledger_fault(TASK_MD, None) is None
    assert ledger_fault(TASK_MD, ledgered(present=False)) is None
    assert code_of(TASK_MD, ledgered()) is ErrorCode.ORCHESTRATION_LEDGER_INVALID
    with pytest.raises(RefusedError, match="is gone; put it back"):
        read_ledger(TASK_MD, ledgered())


def test_a_reviewer_may_close_rows_but_not_remove_them() -> None:
    """In a reviewer's receipt rows become terminal; they don't vanish even there."""
    there = ledgered("CD-1 code open")
    closed = read_ledger(ledger_text("CD-1 code closed a.md"), there)
    check_proof(closed, there, may_close=True)
    with pytest.raises(RefusedError) as caught:
        check_proof(closed, there, may_close=False)
    assert caught.value.code is ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN
    with pytest.raises(RefusedError, match="CD-1 vanished"):
        check_proof(read_ledger(ledger_text(), there), there, may_close=True)


def test_a_step_names_the_rows_it_changed() -> None:
    """Every change but a row that was closed where it may not be; open rows are remembered at once, closed ones not."""
    there = ledgered("CD-1 code open", "CD-2 code open")
    now = read_ledger(ledger_text("CD-1 code closed a.md", "CD-2 code open", "CD-3 code open"), there)
    opened, closed = Row("CD-3", "code", "1", "major", "open", ""), Row("CD-1", "code", "1", "major", "closed", "a.md")
    assert changed_rows(now, there, may_close=False) == (opened,)
    assert set(changed_rows(now, there, may_close=True)) == {opened, closed}
    assert seen((opened, closed)) == {"CD-3": ["code", "1", "major", "open", ""]}
    assert remembered((opened, closed)) == seen((opened,)) | {"CD-1": ["code", "1", "major", "closed", "a.md"]}
    assert proven_rows(there)["CD-1"] == Row("CD-1", "code", "1", "major", "open", "")


def test_gathering_asks_the_ledger_with_the_run() -> None:
    """The facts have the ledger's fault, judged with what the journal knows."""
    found = gather(situation(task=ledger_text("CD-1 code closed a.md"), state=ledgered("CD-1 code open")))
    assert found.ledger_fault is not None
    assert found.ledger_fault.code is ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN


# --- what a step is given ---

EVERYTHING = (
    file("analysis-r2.md"),
    file("review-analysis.md"),
    file("plan.md"),
    file("review-plan-r3.md"),
    file("code.md"),
    file("review-code.md"),
)


@pytest.mark.parametrize(
    ("stage", "round_", "flow", "names"),
    [
        (Stage.ANALYSIS, 1, Flow.FULL, ()),
        (Stage.ANALYSIS, 3, Flow.FULL, ("review-analysis.md",)),
        (Stage.REVIEW_ANALYSIS, 2, Flow.FULL, ("analysis-r2.md",)),
        (Stage.PLAN, 1, Flow.FULL, ("analysis-r2.md",)),
        (Stage.PLAN, 2, Flow.FULL, ("analysis-r2.md", "review-plan-r3.md")),
        (Stage.REVIEW_PLAN, 4, Flow.FULL, ("plan.md", "analysis-r2.md")),
        (Stage.CODE, 1, Flow.STANDARD, ("plan.md",)),
        (Stage.CODE, 2, Flow.FULL, ("plan.md", "review-code.md")),
        (Stage.CODE, 1, Flow.STREAMLINED, ("analysis-r2.md",)),
        (Stage.REVIEW_CODE, 2, Flow.STREAMLINED, ("code.md", "analysis-r2.md")),
        (Stage.REVIEW_CODE, 2, Flow.FULL, ("code.md", "plan.md")),
        (Stage.COMMIT, 1, Flow.FULL, ("code.md", "review-code.md")),
    ],
)
def test_inputs_of_a_step(stage: Stage, round_: int, flow: Flow, names: tuple[str, ...]) -> None:
    """First what it judges or builds on, then what that stands on, and in a rework the review to answer."""
    assert input_names(Step(stage, round_, "x.md"), situation(*EVERYTHING, flow=flow)) == names


def test_inputs_are_only_what_is_there() -> None:
    """A first code round without a plan is given nothing."""
    assert input_names(Step(Stage.CODE, 1, "code.md"), situation()) == ()
