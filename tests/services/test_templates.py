"""The packaged templates, filled as `task create` and `brief` fill them, read by our own grammar."""

import re

import pytest

from agent_infra.core.brief import fill_template
from agent_infra.core.frontmatter import parse_front_matter
from agent_infra.core.ledger import parse_ledger
from agent_infra.core.markdown import find_sections, read_document, read_heading
from agent_infra.core.reviews import Counts, Verdict, approves, parse_review
from agent_infra.core.tasks import render_task
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.resources import resource

TASK_VALUES = {
    "task_id": "TASK-20260101-120000",
    "title": "Add returns the wrong sum",
    "type": "bugfix",
    "created_at": "2026-01-01 12:00:00+00:00",
    "version": "v0.1.0",
    "branch": "shop-bugfix-wrong-sum",
    "description": "add(2, 2) must be 4.",
}
SECTIONS = (
    "Description",
    "Task Input",
    "Context",
    "Requirements",
    "Analysis",
    "Design",
    "Implementation Notes",
    "Review Feedback",
    "Review Disagreement Ledger",
    "Human Rulings",
    "Activity Log",
    "Completion Checklist",
)
INPUTS = (
    "Sources",
    "Confirmed Facts and Evidence",
    "Constraints",
    "Confirmed Decisions",
    "Candidate and Rejected Options",
    "Acceptance Criteria",
    "Open Questions",
)
WRITTEN = ("analysis", "plan", "code", "review-analysis", "review-plan", "review-code")
REVIEWS = [name for name in WRITTEN if name.startswith("review-")]
LOG_LINE = re.compile(r"- \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d — \*\*[^*]+\*\* by \S+ — .+")


def template(name: str) -> str:
    return resource("templates", f"{name}.md").read_text(encoding="utf-8")


def task() -> bytes:
    return render_task(template("task"), **TASK_VALUES)


def artifact(name: str) -> str:
    judged = name.removeprefix("review-")
    values = {"artifact": f"{name}-r2.md", "round": "2", "input": f"{judged}-r3.md", "task": "TASK-20260101-120000"}
    return fill_template(template(name), values)


def test_a_new_task_says_what_it_is() -> None:
    """The front matter is flat, has all that a task needs, and nothing is left unfilled."""
    fields = parse_front_matter(task(), flat=True).fields
    given = {key: TASK_VALUES[key] for key in ("type", "created_at", "branch")}
    assert fields == given | {
        "id": TASK_VALUES["task_id"],
        "workflow": "bug-fix",
        "status": "active",
        "updated_at": given["created_at"],
        "agent_infra_version": "v0.1.0",
        "current_step": "requirement-analysis",
        "assigned_to": "human",
        "priority": "Medium",
        "effort": "Medium",
        "start_date": "",
        "target_date": "",
    }
    assert b"{{" not in task()


def test_a_new_task_has_each_section_once() -> None:
    """One title, the sections in their order, the parts of the task input, the description in its place."""
    lines = read_document(task())
    headings = [heading for line in lines if (heading := read_heading(line))]
    assert [text for level, text in headings if level == 1] == [TASK_VALUES["title"]]
    assert tuple(text for level, text in headings if level == 2) == SECTIONS
    assert tuple(text for level, text in headings if level == 3) == INPUTS
    (description,) = find_sections(lines, ["Description"])
    assert TASK_VALUES["description"] in [line.text for line in description.body]


def test_a_new_task_has_an_empty_ledger_and_one_line_of_history() -> None:
    """The ledger's table is there without rows, and the log begins with the creation."""
    ledger = parse_ledger(task())
    assert (ledger.present, ledger.rows) == (True, ())
    (log,) = find_sections(read_document(task()), ["Activity Log"])
    (entry,) = [line.text for line in log.body if line.text.startswith("- ")]
    assert LOG_LINE.fullmatch(entry)
    assert entry.startswith(f"- {TASK_VALUES['created_at']} — **Create Task** by human")


@pytest.mark.parametrize("name", WRITTEN)
def test_an_artifact_names_itself_its_round_and_its_evidence(name: str) -> None:
    """One title, the file's own name, the round, a place for commands, and at most 2 KiB."""
    text = artifact(name)
    lines = [line.text for line in read_document(text.encode()) if line.visible]
    assert sum(line.startswith("# ") for line in lines) == 1
    assert f"- **Artifact File**: `{name}-r2.md`" in lines
    assert any("Round 2" in line for line in lines)
    assert any(line.startswith("$ ") for line in lines)
    assert "{{" not in text
    assert len(text.encode()) <= 2048


@pytest.mark.parametrize("name", REVIEWS)
def test_a_filled_review_is_read_by_our_grammar(name: str) -> None:
    """With numbers in place of the three tokens: verdict, counts, manual validations and the judged artifact."""
    tokens = {"{unresolved-blockers}": "0", "{unresolved-major}": "2", "{unresolved-minor}": "11"}
    text = artifact(name)
    for token, number in tokens.items():
        assert text.count(token) == 1
        text = text.replace(token, number)
    review = parse_review(text.encode(), f"{name}-r2.md")
    assert review.verdict is Verdict.CHANGES_REQUESTED
    assert review.counts == Counts(0, 2, 11)
    assert review.manual_validation == 0
    assert review.input == f"{name.removeprefix('review-')}-r3.md"


@pytest.mark.parametrize("name", REVIEWS)
def test_a_review_that_nobody_filled_never_approves(name: str) -> None:
    """Handed in as it is, the template is no review; with zeros alone it still asks for changes."""
    with pytest.raises(RefusedError, match="placeholders") as caught:
        parse_review(artifact(name).encode(), f"{name}-r2.md")
    assert caught.value.code is ErrorCode.ORCHESTRATION_REVIEW_INVALID
    zeros = re.sub(r"\{unresolved-\w+\}", "0", artifact(name))
    assert not approves(parse_review(zeros.encode(), f"{name}-r2.md"))
    assert approves(
        parse_review(zeros.replace("Verdict**: Changes Requested", "Verdict**: Approved").encode(), f"{name}.md")
    )


def test_the_commit_template_is_a_message() -> None:
    """A subject, an empty line, a body; no trailers, which git's hook adds."""
    values = {"artifact": "commit", "round": "1", "input": "review-code.md", "task": "TASK-20260101-120000"}
    lines = fill_template(template("commit"), values).splitlines()
    assert lines[0]
    assert not lines[1]
    assert not any(line.startswith("Agent-Infra-") for line in lines)
