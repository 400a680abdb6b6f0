"""What only a person may settle: rows of the ledger and validations by hand, at a real pseudo-terminal."""

from collections.abc import Callable

import pytest

from agent_infra.core.lifecycle import Flow, Stage, Step
from agent_infra.errors import RefusedError
from agent_infra.services import delegate, orchestrate, rulings
from tests.support.lifecycle import FIXED, TASK, World, artifact_text, terminal, world_at

HD = "| HD-1 | code | - | decision | needs-human-decision | review-code.md#HD-1 |"
CD = "| CD-1 | code | 1 | minor | {} |"
REF = f"refs/agent-infra/runs/{TASK}"
DECIDE = ("task", "decide", TASK, "--item", "HD-1", "--result", "keep the name")
VALIDATE = ("task", "validate-manual", TASK, "--result", "tried it on a phone")
ME = rulings.Word("keep the name", "me@example.org")


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    """Hooks installed, a run of the shortest flow begun."""
    return world_at("begun", tmp_path_factory, monkeypatch)


def confirmed(world: World, *argv: str) -> tuple[int, str]:
    """A command that a person confirms: its exit code, and what it said after the question."""
    person = terminal(world, *argv)
    person.type(person.until(r"type (\w{6}) to go on")[1])
    return person.end()


def judged(world: World, *, row: str | None = None, manual: int = 0) -> None:
    """Every step up to the approved code review, which leaves a row or a validation to a person."""
    while (step := world.open_step()).stage != Stage.REVIEW_CODE:
        if step.stage == Stage.CODE:
            world.fix()
        (world.folder() / step.artifact).write_text(artifact_text(step))
        world.close_step()
    approve(world, step, row=row, manual=manual)


def approve(world: World, step: Step, *, row: str | None = None, manual: int = 0) -> None:
    if row:
        world.finding(row)
    text = artifact_text(step).replace("validation**: 0", f"validation**: {manual}")
    (world.folder() / step.artifact).write_text(text)
    assert world.close_step() == "running"


def due(world: World) -> str | None:
    """The step that may run next, or the code of what stands before it."""
    found = orchestrate.route_task(world.context, TASK)
    return str(found.error.code) if found.error else str(found.next.stage) if found.next else None


def earned(world: World, *, says: str) -> None:
    """The commit can be made, and `verify` finds it good and says on whose word."""
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    answer = world.cli("verify", "HEAD~1..HEAD", "--json")
    commit = answer.json["commits"][0]
    assert (commit["verdict"], commit["detail"]) == ("verified", says)
    assert says in world.cli("verify", "HEAD~1..HEAD").out


def task_md(world: World) -> bytes:
    return (world.folder() / "task.md").read_bytes()


# --- rows of the ledger ---


def test_a_person_decides_a_row_and_the_commit_comes(world: World) -> None:
    """Blocked, decided at a terminal, on record in task.md, journal and evidence; the same word again is no change."""
    judged(world, row=HD)
    blocked = world.verb("route", code=1).json["error"]
    assert blocked["code"] == "ORCHESTRATION_LEDGER_BLOCKED"
    assert f"agent-infra task decide {TASK} --item HD-1" in blocked["message"]
    code, said = confirmed(world, *DECIDE[:4], "1", *DECIDE[5:])
    assert code == 0, said
    assert "HD-1 is decided: task.md#HDR-1" in said
    text = task_md(world).decode()
    assert "| HD-1 | code | - | decision | human-decided | task.md#HDR-1 |" in text
    assert "— **Human Decision** by human — HD-1 decided → HDR-1" in text
    last = world.journal()[-1]
    assert last["op"] == "decide"
    assert last["memo"] == {"ledger": {"HD-1": ["code", "-", "decision", "human-decided", "task.md#HDR-1"]}}
    assert last["facts"]["result"] == "keep the name"
    assert '"decide"' in world.git("show", f"{REF}:journal.jsonl").out
    before = task_md(world), world.journal()
    code, said = confirmed(world, *DECIDE)
    assert (code, "HD-1 is already decided" in said) == (0, True)
    code, said = confirmed(world, *DECIDE[:-1], "rename it")
    assert (code, "DECISION_CONFLICT" in said, "HDR-1: keep the name" in said) == (1, True, True)
    assert before == (task_md(world), world.journal())
    assert "decided by a person: HD-1 (task.md#HDR-1)" in world.verb("status").err
    earned(world, says="decided by a person: HD-1 (task.md#HDR-1)")


def test_a_row_closed_by_hand_is_settled_by_a_person(world: World) -> None:
    """Unproven at the route; a ruling is the way out."""
    world.to_commit()
    world.finding(CD.format("closed | nowhere.md#x"))
    fault = world.verb("route", code=1).json["error"]
    assert fault["code"] == "ORCHESTRATION_LEDGER_UNPROVEN"
    assert f"agent-infra task decide {TASK} --item CD-1" in fault["message"]
    settled = rulings.decide(world.context, TASK, item="CD-1", word=ME)
    assert (settled.subject, settled.written, settled.changed) == ("CD-1", "task.md#HDR-1", True)
    earned(world, says="decided by a person: CD-1 (task.md#HDR-1)")


@pytest.mark.parametrize("when", ["activated", "completed", "sealed"])
def test_a_ruling_made_while_a_review_is_pending_stays(world: World, when: str) -> None:
    """The review names the row as it was; when it counts, the row stays decided."""
    world.step()
    world.step(work=world.fix)
    step = world.open_step()
    world.finding(HD)
    (world.folder() / step.artifact).write_text(artifact_text(step))
    if when == "activated":
        rulings.decide(world.context, TASK, item="1", word=ME)
        # the person has ruled before anybody knew of the row
    delegate.complete(world.context, TASK, delegate.Claim("claude"))
    if when == "completed":
        rulings.decide(world.context, TASK, item="1", word=ME)
    world.seal()
    if when == "sealed":
        rulings.decide(world.context, TASK, item="1", word=ME)
    orchestrate.advance(world.context, TASK)
    assert due(world) == "commit"
    earned(world, says="decided by a person: HD-1 (task.md#HDR-1)")


def test_a_ruling_made_while_an_executor_works_stays(world: World) -> None:
    world.finding(HD)
    step = world.open_step()
    rulings.decide(world.context, TASK, item="1", word=ME)
    (world.folder() / step.artifact).write_text(artifact_text(step))
    assert world.close_step() == "running"
    world.to_commit()
    earned(world, says="decided by a person: HD-1 (task.md#HDR-1)")


def test_a_reviewer_can_not_decide_in_a_person_s_place(world: World) -> None:
    """Refused at `complete`, where it can be mended; done later it is unproven at the route."""
    world.step()
    world.step(work=world.fix)
    step = world.open_step()
    (world.folder() / step.artifact).write_text(artifact_text(step))
    decided = HD.replace("needs-human-decision", "human-decided")
    world.finding(decided)
    with pytest.raises(RefusedError, match="ORCHESTRATION_LEDGER_UNPROVEN"):
        delegate.complete(world.context, TASK, delegate.Claim("claude"))
    world.finding(HD)
    delegate.complete(world.context, TASK, delegate.Claim("claude"))
    world.finding(decided)
    world.seal()
    orchestrate.advance(world.context, TASK)
    assert due(world) == "ORCHESTRATION_LEDGER_UNPROVEN"


def test_a_ruling_that_was_cut_before_the_journal_is_taken_up_again(world: World) -> None:
    """task.md says it, the journal does not: the same word writes the line and leaves the document alone."""
    judged(world, row=HD)
    paths = (world.root / f".git/agent-infra/runs/{TASK}/journal.jsonl", world.folder() / "orchestration.json")
    before = [path.read_bytes() for path in paths]
    rulings.decide(world.context, TASK, item="1", word=ME)
    text = task_md(world)
    for path, data in zip(paths, before, strict=True):
        path.write_bytes(data)
    assert due(world) == "ORCHESTRATION_LEDGER_UNPROVEN"
    assert rulings.decide(world.context, TASK, item="HD-1", word=ME).changed
    assert task_md(world) == text
    assert due(world) == "commit"


def test_without_a_run_only_what_asks_for_a_person_waits(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is proven there, so a row that was closed by hand is settled."""
    world = world_at("installed", tmp_path_factory, monkeypatch)
    world.make_task()
    world.finding(CD.format("closed | nowhere.md#x"))
    with pytest.raises(RefusedError, match="DECISION_TARGET_INVALID"):
        rulings.decide(world.context, TASK, item="CD-1", word=ME)
    world.finding(HD)
    assert rulings.decide(world.context, TASK, item="1", word=ME).written == "task.md#HDR-1"
    assert not (world.root / ".git/agent-infra/runs" / TASK).exists()
    assert not (world.folder() / "orchestration.json").exists()


def test_a_run_that_was_ended_keeps_no_rulings(world: World) -> None:
    """task.md alone is edited; line ends stay, repeating is no change, and another word is refused."""
    world.verb("end", "--reason", "another way")
    world.finding(HD)
    path = world.folder() / "task.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before, kept = world.journal(), path.read_bytes().split(b"\r\n")
    code, said = confirmed(world, *DECIDE)
    assert code == 0, said
    text = task_md(world)
    assert b"\n" not in text.replace(b"\r\n", b"")
    lost = [line for line in kept if line not in text.split(b"\r\n")]
    assert sorted(line.split(b":")[0] for line in lost) == [b"updated_at", HD.encode()]
    assert not rulings.decide(world.context, TASK, item="HD-1", word=ME).changed
    with pytest.raises(RefusedError, match="DECISION_CONFLICT"):
        rulings.decide(world.context, TASK, item="HD-1", word=rulings.Word("no", "me"))
    assert (task_md(world), world.journal()) == (text, before)


def test_a_row_that_waits_for_nobody_is_refused_before_the_question(world: World) -> None:
    world.finding(CD.format("open | "))
    code, said = terminal(world, *DECIDE[:4], "CD-1", *DECIDE[5:]).end()
    assert code == 1, said
    assert "DECISION_TARGET_INVALID" in said
    assert "type" not in said


def test_a_document_that_can_not_take_a_ruling_is_left_alone(world: World) -> None:
    world.finding(HD)
    path = world.folder() / "task.md"
    path.write_text(path.read_text() + "\n## Human Rulings\n\n## Human Rulings\n")
    before = path.read_bytes(), world.journal()
    with pytest.raises(RefusedError, match="ORCHESTRATION_TASK_INVALID"):
        rulings.decide(world.context, TASK, item="1", word=ME)
    assert (path.read_bytes(), world.journal()) == before


# --- validation by hand ---


def test_what_a_review_left_is_validated_and_the_commit_comes(world: World) -> None:
    """The report names the review by its digest, the log and the journal too; a later round needs it again."""
    judged(world, manual=2)
    fault = world.verb("route", code=1).json["error"]
    assert fault["code"] == "ORCHESTRATION_MANUAL_VALIDATION_PENDING"
    assert "agent-infra task validate-manual" in fault["message"]
    code, said = confirmed(world, *VALIDATE)
    assert code == 0, said
    assert "review-code.md is validated by hand: manual-validation.md" in said
    report = (world.folder() / "manual-validation.md").read_text()
    assert "- **Verdict**: passed" in report
    line = (
        "**Complete Manual Validation** by human — Manual validation passed → manual-validation.md; tried it on a phone"
    )
    assert line in task_md(world).decode()
    last = world.journal()[-1]
    assert (last["op"], list(last["memo"]["validated"])) == ("validated", ["review-code.md"])
    assert last["memo"]["validated"]["review-code.md"] in report
    before = task_md(world), world.journal()
    code, said = confirmed(world, *VALIDATE)
    assert (code, "is already validated" in said) == (0, True)
    assert before == (task_md(world), world.journal())
    assert due(world) == "commit"

    world.write("src/app.py", FIXED + "# more\n")
    assert due(world) == "review-code"
    approve(world, world.open_step(), manual=1)
    assert due(world) == "ORCHESTRATION_MANUAL_VALIDATION_PENDING"
    settled = rulings.validate(world.context, rulings.find_left(world.context, TASK), ME)
    assert settled.written == "manual-validation-r2.md"
    assert "validated by a person: what review-code.md, review-code-r2.md left" in world.verb("status").err
    earned(world, says="validated by a person: what review-code.md, review-code-r2.md left")


def test_an_edited_review_needs_its_validation_again(world: World) -> None:
    """What was confirmed is one text; and what changes under the person's hands is not taken."""
    judged(world, manual=1)
    left = rulings.find_left(world.context, TASK)
    path = world.folder() / "review-code.md"
    path.write_text(path.read_text() + "\nOne more thing.\n")
    with pytest.raises(RefusedError, match="changed meanwhile"):
        rulings.validate(world.context, left, ME)
    assert not (world.folder() / "manual-validation.md").exists()


def test_a_task_without_a_log_takes_no_report(world: World) -> None:
    """task.md goes first, so nothing is written where it can't be edited."""
    judged(world, manual=1)
    path = world.folder() / "task.md"
    path.write_text(path.read_text().replace("## Activity Log", "## Diary"))
    before = path.read_bytes(), world.journal()
    with pytest.raises(RefusedError, match="ORCHESTRATION_TASK_INVALID"):
        rulings.validate(world.context, rulings.find_left(world.context, TASK), ME)
    assert (path.read_bytes(), world.journal()) == before
    assert not (world.folder() / "manual-validation.md").exists()


def test_a_report_that_was_cut_before_the_journal_is_taken_up_again(world: World) -> None:
    """And one that an agent wrote counts for nothing in a run."""
    judged(world, manual=1)
    paths = (world.root / f".git/agent-infra/runs/{TASK}/journal.jsonl", world.folder() / "orchestration.json")
    before = [path.read_bytes() for path in paths]
    left = rulings.find_left(world.context, TASK)
    rulings.validate(world.context, left, ME)
    text = task_md(world)
    for path, data in zip(paths, before, strict=True):
        path.write_bytes(data)
    assert due(world) == "ORCHESTRATION_MANUAL_VALIDATION_PENDING"
    settled = rulings.validate(world.context, rulings.find_left(world.context, TASK), ME)
    assert (settled.written, task_md(world) == text) == ("manual-validation.md", True)
    assert due(world) == "commit"


@pytest.mark.parametrize(
    ("come", "code"),
    [
        pytest.param(lambda _: None, "MANUAL_VALIDATION_NOT_PENDING", id="no review"),
        pytest.param(lambda world: world.to_commit(), "MANUAL_VALIDATION_NOT_PENDING", id="nothing left"),
        pytest.param(lambda world: world.open_step(), "ORCHESTRATION_DELEGATION_BUSY", id="a step is pending"),
        pytest.param(
            lambda world: (judged(world, manual=1), world.write("src/app.py", "x = 1\n")),
            "MANUAL_VALIDATION_NOT_PENDING",
            id="the product moved",
        ),
        pytest.param(
            lambda world: world.verb("end", "--reason", "x"), "MANUAL_VALIDATION_NOT_PENDING", id="the run is over"
        ),
    ],
)
def test_there_must_be_something_to_validate(world: World, come: Callable[[World], object], code: str) -> None:
    come(world)
    before = task_md(world), world.journal()
    with pytest.raises(RefusedError, match=code):
        rulings.find_left(world.context, TASK)
    assert (task_md(world), world.journal()) == before


def test_without_a_run_the_report_counts(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The route goes by names and digests there."""
    world = world_at("installed", tmp_path_factory, monkeypatch)
    world.make_task()
    for stage in Stage:
        if stage is not Stage.COMMIT:
            text = artifact_text(Step(stage, 1, f"{stage}.md")).replace("validation**: 0", "validation**: 1")
            (world.folder() / f"{stage}.md").write_text(text)
    assert due(world) == "ORCHESTRATION_MANUAL_VALIDATION_PENDING"
    code, said = confirmed(world, *VALIDATE)
    assert code == 0, said
    assert due(world) == "commit"
    review = world.folder() / "review-code.md"
    review.write_text(review.read_text() + "\n")
    assert due(world) == "ORCHESTRATION_MANUAL_VALIDATION_PENDING"
    world.begin(flow=Flow.FULL)
    assert due(world) == "review-analysis"


# --- who may ---


@pytest.mark.parametrize(
    ("env", "typed", "code"),
    [
        pytest.param({"CI": "true"}, None, "GATE_PERSON_REQUIRED", id="ci"),
        pytest.param({"CLAUDECODE": "1"}, None, "GATE_PERSON_REQUIRED", id="claude code"),
        pytest.param({"CODEX_THREAD_ID": "x"}, None, "GATE_PERSON_REQUIRED", id="codex"),
        pytest.param({}, "nothing", "GATE_PERSON_REQUIRED", id="another word"),
        pytest.param({}, "no terminal", "TERMINAL_REQUIRED", id="no terminal"),
    ],
)
@pytest.mark.parametrize("argv", [pytest.param(DECIDE, id="decide"), pytest.param(VALIDATE, id="validate-manual")])
def test_only_a_person_may(
    world: World, argv: tuple[str, ...], env: dict[str, str], typed: str | None, code: str
) -> None:
    """In CI, in an agent's environment, without a terminal or the word nothing moves."""
    judged(world, row=HD, manual=1)
    before = task_md(world), world.journal(), sorted(world.folder().iterdir())
    if typed == "no terminal":
        answer = world.cli(*argv, check=False)
        ended, said = answer.code, answer.err
    else:
        person = terminal(world, *argv, env=env)
        if typed:
            person.until(r"type \w{6} to go on")
            person.type(typed)
        ended, said = person.end()
    assert ended == 1, said
    assert code in said
    assert before == (task_md(world), world.journal(), sorted(world.folder().iterdir()))


@pytest.mark.parametrize("result", ["", "  ", "two\nlines", "a\x1b[2Jb"])
@pytest.mark.parametrize("argv", [pytest.param(DECIDE, id="decide"), pytest.param(VALIDATE, id="validate-manual")])
def test_a_result_is_one_line(world: World, argv: tuple[str, ...], result: str) -> None:
    answer = world.cli(*argv[:-1], result, check=False)
    assert answer.code == 2
    assert "expected one line of text" in answer.err
