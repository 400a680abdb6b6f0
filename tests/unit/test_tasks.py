"""task.md: references, the document, the activity log, a finished step, short ids, and a new task."""

import pytest

from agent_infra.core.reviews import Counts, Review, Verdict
from agent_infra.core.tasks import (
    ArtifactLink,
    LogEntry,
    allocate,
    finish_note,
    log_entries,
    parse_log_line,
    parse_registry,
    parse_task,
    parse_task_ref,
    record_step,
    render_log_line,
    render_registry,
    render_task,
    step_name,
)
from agent_infra.errors import AgentInfraError, CorruptStateError, ErrorCode, RefusedError

ID = "TASK-20260101-120000"
AT = "2026-01-01 12:00:00+00:00"
TASK = f"""---
id: {ID}
status: active # by hand
current_step: requirement-analysis
---

# Add returns the wrong sum

## Analysis

## Design

Words.

## Review Feedback

## Activity Log

- {AT} — **Create Task** by human — created

## Completion Checklist

- [ ] done
""".encode()


def refused(call, *args, **kwargs) -> ErrorCode:
    with pytest.raises(AgentInfraError) as caught:
        call(*args, **kwargs)
    return caught.value.code


@pytest.mark.parametrize(
    ("ref", "meant"),
    [(ID, ID), ("7", 7), ("07", 7), ("#7", 7), ("#007", 7), ("999999999", 999999999), ("0" * 5000 + "1", 1)],
)
def test_a_task_is_named_by_id_or_by_number(ref, meant):
    assert parse_task_ref(ref) == meant


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        pytest.param("nonsense", "INVALID_TASK_REF", id="words"),
        pytest.param("", "INVALID_TASK_REF", id="nothing"),
        pytest.param("#", "INVALID_TASK_REF", id="sign alone"),
        pytest.param("##7", "INVALID_TASK_REF", id="two signs"),
        pytest.param("-1", "INVALID_TASK_REF", id="negative"),
        pytest.param("٣", "INVALID_TASK_REF", id="Arabic digit"),
        pytest.param("7\n", "INVALID_TASK_REF", id="line end"),
        pytest.param(f"{ID}\n", "INVALID_TASK_REF", id="line end behind an id"),
        pytest.param(f"../{ID}", "INVALID_TASK_REF", id="path"),
        pytest.param(f"{ID}/", "INVALID_TASK_REF", id="folder"),
        pytest.param("TASK-1/../TASK-2", "INVALID_TASK_REF", id="path between"),
        pytest.param(ID.lower(), "INVALID_TASK_REF", id="lower case"),
        pytest.param("TASK-٢٠٢٦٠١٠١-120000", "INVALID_TASK_REF", id="Arabic digits in an id"),
        pytest.param("0", "SHORT_ID_RESERVED", id="zero"),
        pytest.param("#00", "SHORT_ID_RESERVED", id="padded zero"),
        pytest.param("9" * 10, "SHORT_ID_CAPACITY_EXCEEDED", id="ten digits"),
        pytest.param("9" * 5000, "SHORT_ID_CAPACITY_EXCEEDED", id="5000 digits"),
    ],
)
def test_other_references_are_refused(ref, code):
    assert refused(parse_task_ref, ref) == code


def test_a_task_is_read():
    found = parse_task(TASK, ID)
    assert (found.id, found.title) == (ID, "Add returns the wrong sum")
    assert found.fields == {"id": ID, "status": "active", "current_step": "requirement-analysis"}


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# 任务：求和", "求和"),
        ("# 任务: 求和", "求和"),
        ("# Task: sum", "Task: sum"),
        ("# C #", "C #"),
        ("#", ""),
        ("text", ""),
        ("```\n# x\n```\n## y", ""),
    ],
)
def test_the_title_is_the_first_visible_h1(line, title):
    assert parse_task(f"---\nid: {ID}\n---\n{line}\n".encode(), ID).title == title


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"# T\n", "line 1", id="no front matter"),
        pytest.param(b"---\na: b\n---\n", 'the id is ""', id="no id"),
        pytest.param(b"---\nid: TASK-20260101-120001\n---\n", "but the folder is", id="id of another task"),
        pytest.param(TASK + b"<<<<<<< HEAD\n", "line 24: a conflict marker", id="conflict at the end"),
        pytest.param(TASK + b"\xff", "line 24: byte", id="not UTF-8"),
    ],
)
def test_a_document_that_is_not_this_task_is_refused(data, message):
    with pytest.raises(RefusedError, match=message) as caught:
        parse_task(data, ID)
    assert caught.value.code is ErrorCode.TASK_DOCUMENT_INVALID


def test_a_fenced_conflict_is_an_example():
    assert parse_task(TASK + b"```\n<<<<<<< HEAD\n```\n", ID)


@pytest.mark.parametrize(
    ("stage", "number", "name"),
    [
        ("analysis", 1, "Analyze Task (Round 1)"),
        ("review-analysis", 2, "Review Analysis (Round 2)"),
        ("plan", 3, "Plan Task (Round 3)"),
        ("review-plan", 1, "Review Plan (Round 1)"),
        ("code", 1, "Code Task (Round 1)"),
        ("review-code", 12, "Review Code (Round 12)"),
        ("commit", 1, "Commit"),
        ("manual-validation", 1, "Complete Manual Validation"),
    ],
)
def test_steps_have_the_names_of_the_reference(stage, number, name):
    assert step_name(stage, number) == name


def test_notes_say_what_was_done_and_where():
    review = Review(Verdict.CHANGES_REQUESTED, Counts(1, 2, 3), None, None)
    assert finish_note("analysis", 1, "analysis.md") == "Analysis completed → analysis.md"
    assert finish_note("code", 1, "code.md") == "Code implemented → code.md"
    assert finish_note("code", 2, "code-r2.md") == "Code revised → code-r2.md"
    assert finish_note("review-plan", 1, "review-plan.md", review=review) == (
        "Verdict: Changes Requested, blockers: 1, major: 2, minor: 3, Manual-validation: 0 → review-plan.md"
    )
    assert finish_note("manual-validation", 1, "manual-validation.md", detail="seen on macOS") == (
        "Manual validation passed → manual-validation.md; seen on macOS"
    )
    assert finish_note("commit", 1, "commit", detail="1234567 fix: sum") == "1234567 fix: sum"
    assert finish_note("commit", 1, "commit") == "Commit completed"


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (f"- {AT} — **Commit** by claude — 1234567 fix", LogEntry(AT, "Commit", "claude", "1234567 fix")),
        (f"- {AT} — **A — B** by Ann Other — a — **b** by c", LogEntry(AT, "A — B", "Ann Other", "a — **b** by c")),
        ("- 2026-01-01T12:00:00 — **A** by b — ", LogEntry("2026-01-01T12:00:00", "A", "b", "")),
        (f"- {AT} - **A** by b - c", None),
        (f"- {AT} — A by b — c", None),
        (f"- {AT} — **A** by b", None),
        (f"- {AT} — **** by b — c", None),
        ("- 2026-1-1 12:00:00 — **A** by b — c", None),
        ("", None),
    ],
)
def test_log_lines_are_read_or_skipped(line, entry):
    assert parse_log_line(line) == entry


def test_a_rendered_line_is_one_line():
    entry = LogEntry(AT, "Block Task", "human", "waits\n- [x] for\u2028 a   key")
    assert render_log_line(entry) == f"- {AT} — **Block Task** by human — waits - [x] for a key"


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(LogEntry("now", "A", "b", "c"), id="no time"),
        pytest.param(LogEntry(AT, "", "b", "c"), id="no step"),
        pytest.param(LogEntry(AT, "A", "", "c"), id="no agent"),
        pytest.param(LogEntry(AT, "A** by x", "b", "c"), id="step that names an agent"),
        pytest.param(LogEntry(AT, "A", "b — c", "d"), id="agent with a dash"),
        pytest.param(LogEntry(AT, "A", "b", "\ud800"), id="half a character"),
    ],
)
def test_a_line_that_would_read_otherwise_is_not_written(entry):
    assert refused(render_log_line, entry) is ErrorCode.MUTATION_INVALID


def test_the_log_is_the_visible_lines_of_its_section():
    log = f"\n- {AT} — **A** by b — c\n- broken\n```\n- {AT} — **B** by b — c\n```\n"
    text = TASK.decode().replace("by human — created\n", f"by human — created{log}")
    assert [entry.step for entry in log_entries(text.encode())] == ["Create Task", "A"]


PLANNED = LogEntry(AT, "Plan Task (Round 1)", "claude", "Plan completed → plan.md")


def test_a_finished_step_adds_its_line_its_link_and_its_fields():
    """Everything else stays, the comment behind a changed field too."""
    found = record_step(
        TASK, PLANNED, fields={"current_step": "technical-design", "status": "active"}, link=ArtifactLink("plan", 1)
    )
    expected = (
        TASK.decode()
        .replace("current_step: requirement-analysis", "current_step: technical-design")
        .replace("Words.\n", "Words.\n- [Plan (Round 1)](plan.md)\n")
        .replace(
            "by human — created\n",
            f"by human — created\n- {AT} — **Plan Task (Round 1)** by claude — Plan completed → plan.md\n",
        )
    )
    assert found.decode() == expected


def test_a_step_that_is_recorded_changes_nothing():
    """The step and its artifact count, not the time, the agent or the rest of the note."""
    once = record_step(TASK, PLANNED, fields={"current_step": "technical-design"}, link=ArtifactLink("plan", 1))
    again = LogEntry("2026-01-02 12:00:00+00:00", "Plan Task (Round 1)", "codex", "Plan done again → plan.md")
    assert record_step(once, again, fields={"current_step": "code"}, link=ArtifactLink("plan", 1)) is once


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(LogEntry(AT, "Plan Task (Round 2)", "claude", "Plan completed → plan-r2.md"), id="other round"),
        pytest.param(LogEntry(AT, "Plan Task (Round 1)", "claude", "Plan completed → plan-r2.md"), id="other artifact"),
        pytest.param(LogEntry(AT, "Commit", "claude", "1234567 fix"), id="no artifact"),
    ],
)
def test_another_step_is_recorded(entry):
    once = record_step(TASK, PLANNED, fields={}, link=None)
    twice = record_step(once, entry, fields={}, link=None)
    assert log_entries(twice) == (*log_entries(once), entry)


def test_a_commit_is_known_by_its_note():
    commit = LogEntry(AT, "Commit", "claude", "1234567 fix")
    once = record_step(TASK, commit, fields={}, link=None)
    assert record_step(once, commit, fields={}, link=None) is once
    assert record_step(once, LogEntry(AT, "Commit", "claude", "7654321 fix"), fields={}, link=None) != once


def test_a_link_stands_once_below_an_empty_heading():
    """A blank line keeps the list apart from its heading; a link that is there is not written again."""
    once = record_step(TASK, PLANNED, fields={}, link=ArtifactLink("review-plan", 2))
    assert b"## Review Feedback\n\n- [Plan Review (Round 2)](review-plan-r2.md)\n\n## Activity" in once
    other = LogEntry(AT, "Review Plan (Round 2)", "codex", "x → review-plan-r2.md")
    twice = record_step(once, other, fields={}, link=ArtifactLink("review-plan", 2))
    assert twice.count(b"(review-plan-r2.md)") == 1


def test_a_missing_section_for_a_link_is_skipped():
    found = record_step(TASK, PLANNED, fields={}, link=ArtifactLink("code", 1))
    assert b"(code.md)" not in found


def test_a_chinese_document_without_a_last_line_end_is_edited():
    text = f"\ufeff---\r\nid: {ID}\r\n---\r\n## 设计\r\n\r\n## 活动日志".encode()
    found = record_step(text, PLANNED, fields={}, link=ArtifactLink("plan", 1))
    assert found == (
        f"\ufeff---\r\nid: {ID}\r\n---\r\n## 设计\r\n\r\n- [Plan (Round 1)](plan.md)\r\n\r\n## 活动日志\r\n\r\n"
        f"{render_log_line(PLANNED)}".encode()
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(TASK.replace(b"## Activity Log", b"## Log"), "TASK_DOCUMENT_INVALID", id="no log"),
        pytest.param(TASK + "## 活动日志\n".encode(), "TASK_DOCUMENT_INVALID", id="two logs"),
        pytest.param(TASK + "## 设计\n".encode(), "TASK_DOCUMENT_INVALID", id="two sections for the link"),
        pytest.param(
            TASK.partition(b"\n## Completion")[0] + b"```\n", "TASK_DOCUMENT_INVALID", id="open fence in the log"
        ),
        pytest.param(b"", "TASK_DOCUMENT_INVALID", id="empty"),
        pytest.param(b"---\nid: x\n## Activity Log\n", "TASK_DOCUMENT_INVALID", id="front matter never closed"),
    ],
)
def test_a_document_that_cannot_hold_the_step_is_refused(text, code):
    assert refused(record_step, text, PLANNED, fields={}, link=ArtifactLink("plan", 1)) == code


OTHER = "TASK-20260101-120001"


def test_the_registry_is_read_as_it_is_written():
    ids = {1: ID, 12: OTHER}
    assert render_registry(ids, 2) == (
        b'{\n  "version": 1,\n  "ids": {\n    "01": "TASK-20260101-120000",\n    "12": "TASK-20260101-120001"\n  }\n}\n'
    )
    assert parse_registry(render_registry(ids, 2), 2) == ids


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", "SHORT_ID_REGISTRY_INVALID_JSON", id="empty"),
        pytest.param(b"{", "SHORT_ID_REGISTRY_INVALID_JSON", id="cut"),
        pytest.param(b"\xff", "SHORT_ID_REGISTRY_INVALID_JSON", id="not UTF-8"),
        pytest.param(b"[" * 100_000, "SHORT_ID_REGISTRY_INVALID_JSON", id="very deep"),
        pytest.param(b"9" * 5000, "SHORT_ID_REGISTRY_INVALID_JSON", id="5000 digits"),
        pytest.param(b"[]", "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="list"),
        pytest.param(b'{"version": 1}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="no ids"),
        pytest.param(b'{"version": 1, "ids": []}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="ids as list"),
        pytest.param(b'{"version": 2, "ids": {}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="version 2"),
        pytest.param(b'{"version": true, "ids": {}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="version true"),
        pytest.param(b'{"version": 1, "ids": {}, "x": 1}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="unknown key"),
        pytest.param(b'{"version": 1, "ids": {"00": "%s"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="number zero"),
        pytest.param(b'{"version": 1, "ids": {"1": "%s"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="key too short"),
        pytest.param(b'{"version": 1, "ids": {"001": "%s"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="key too long"),
        pytest.param(b'{"version": 1, "ids": {"0x": "%s"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="key is no number"),
        pytest.param(b'{"version": 1, "ids": {"01": "x"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="no task id"),
        pytest.param(b'{"version": 1, "ids": {"01": []}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="list as task id"),
        pytest.param(
            b'{"version": 1, "ids": {"01": "%s", "01": "x"}}', "SHORT_ID_REGISTRY_INVALID_SCHEMA", id="repeated key"
        ),
        pytest.param(
            b'{"version": 1, "ids": {"01": "%s", "02": "%s"}}',
            "SHORT_ID_REGISTRY_DUPLICATE_TASK",
            id="two keys of one task",
        ),
    ],
)
def test_a_faulty_registry_is_refused(data, code):
    with pytest.raises(CorruptStateError) as caught:
        parse_registry(data.replace(b"%s", ID.encode()), 2)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("taken", "number"),
    [([], 1), ([1, 2], 3), ([2], 1), ([1, 3], 2), ([1, 2, 3, 4, 5, 6, 7, 8], 9)],
)
def test_a_task_gets_the_lowest_free_number(taken, number):
    ids = {each: f"TASK-20260101-00000{each}" for each in taken}
    assert allocate(ids, ID, 1) == {**ids, number: ID}


def test_a_task_keeps_its_number():
    assert allocate({5: ID}, ID, 2) == {5: ID}


def test_a_full_registry_gives_no_number():
    ids = {each: f"TASK-20260101-00000{each}" for each in range(1, 10)}
    assert refused(allocate, ids, ID, 1) is ErrorCode.SHORT_ID_CAPACITY_EXCEEDED


TEMPLATE = """---
id: {{id}}
type: {{ type }}
workflow: {{workflow}}
created_at: {{created_at}}
agent_infra_version: {{version}}
branch: {{branch}}
---

# {{title}}

## Description

{{description}}

## Activity Log

- {{created_at}} — **Create Task** by human — created
"""


def rendered(**changes: str) -> bytes:
    values = {
        "title": "Fix sum",
        "type": "bugfix",
        "created_at": AT,
        "version": "v0.1.0",
        "branch": "",
        "description": "",
    }
    return render_task(TEMPLATE, task_id=ID, **(values | changes))


def test_a_new_task_is_made_of_the_template():
    found = parse_task(rendered(branch="shop-bugfix-sum"), ID)
    assert found.title == "Fix sum"
    assert found.fields == {
        "id": ID,
        "type": "bugfix",
        "workflow": "bug-fix",
        "created_at": AT,
        "agent_infra_version": "v0.1.0",
        "branch": "shop-bugfix-sum",
    }


@pytest.mark.parametrize(
    "title",
    [
        "---",
        "a\n---\nid: x",
        "## Activity Log",
        "a\n## Activity Log\n",
        "`x` *y* \"z\" 'q'",
        "{{description}}",
        "a: b # c",
        "# ```",
    ],
)
def test_no_title_passes_for_structure(title):
    """Whatever a title says, it is one line of text in the H1."""
    data = rendered(title=title, description="words")
    assert parse_task(data, ID).title == " ".join(title.split())
    assert len(log_entries(data)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "## Activity Log\n",
        "a\r\n## Activity Log\r\n",
        "a\r   ## Activity Log",
        "```\nopen fence",
        " ~~~",
        "---\nid: x\n---\n",
        "<<<<<<< HEAD\n>>>>>>> x",
        "{{title}} {{nothing}}",
        "\n\n\n## Review Disagreement Ledger\n| CD-1 |\n",
    ],
)
def test_no_description_passes_for_structure(text):
    data = rendered(description=text)
    assert parse_task(data, ID).fields["id"] == ID
    assert [entry.step for entry in log_entries(data)] == ["Create Task"]
    assert "| CD-1 |" not in data.decode() or "\\## Review Disagreement Ledger" in data.decode()


def test_a_field_that_would_be_yaml_is_quoted():
    assert parse_task(rendered(branch="a: b # c"), ID).fields["branch"] == "a: b # c"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"title": " \n "}, id="empty title"),
        pytest.param({"title": "\ud800"}, id="half a character"),
        pytest.param({"description": "\ud800"}, id="half a character below"),
        pytest.param({"type": "epic"}, id="unknown type"),
    ],
)
def test_a_task_that_cannot_be_written_is_refused(changes):
    assert refused(rendered, **changes) is ErrorCode.TASK_CREATE_PAYLOAD_INVALID


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("# {{title}}\n", id="no front matter"),
        pytest.param(TEMPLATE.replace("{{title}}", "{{owner}}"), id="unknown placeholder"),
        pytest.param(TEMPLATE.replace("id: {{id}}", "x: y"), id="no id"),
    ],
)
def test_a_template_that_makes_no_task_is_refused(template):
    values = {"title": "T", "type": "docs", "created_at": AT, "version": "v0.1.0", "branch": "", "description": ""}
    assert refused(render_task, template, task_id=ID, **values) is ErrorCode.TASK_DOCUMENT_INVALID
