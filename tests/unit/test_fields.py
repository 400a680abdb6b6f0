"""The fields of task.md: which values they take."""

import pytest

from agent_infra.core.fields import FIELDS, check_fields, check_value, nearest
from agent_infra.core.tasks import WORKFLOWS

GOOD = {
    "id": "TASK-20260101-120000",
    "type": "bugfix",
    "workflow": "bug-fix",
    "status": "active",
    "created_at": "2026-01-01 12:00:00+00:00",
    "updated_at": "2026-01-01T12:00:00",
    "agent_infra_version": "v0.1.0",
    "current_step": "code",
    "assigned_to": "claude",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("created_at", "2026-01-01 12:00:00+08:00"),
        ("agent_infra_version", "v1.2.3-rc.1+build"),
        ("branch", "shop-bugfix-wrong-sum"),
        ("branch", "名字/分支"),
        ("start_date", "2024-02-29"),
        ("issue_number", "1"),
        ("last_reviewed_commit", "abcdef0"),
        ("assigned_to", "antigravity"),
        ("current_step", "commit"),
        ("delivery_remote", "anything at all"),
        ("somebody_elses", "anything at all"),
        ("priority", ""),
    ],
)
def test_good_values(name: str, value: str) -> None:
    """An empty one says nothing, and nobody judges a field that is not known."""
    assert check_value(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("created_at", "2026-01-01"),
        ("created_at", "2026-13-01 12:00:00"),
        ("created_at", "2026-01-01 12:00:00Z"),
        ("agent_infra_version", "1.2.3"),
        ("start_date", "2025-02-29"),
        ("start_date", "20250101"),
        ("issue_number", "0"),
        ("issue_number", "٣"),
        ("last_reviewed_commit", "ABCDEF0"),
        ("last_reviewed_commit", "abc"),
        ("assigned_to", "nobody"),
        ("type", "Feature"),
        ("flow", "fast"),
        *(
            ("branch", name)
            for name in ("a b", "a..b", "-a", "a.lock", "/a", "a/", "a.", "@", "a~1", "a:b", "a//b", ".a")
        ),
    ],
)
def test_bad_values(name: str, value: str) -> None:
    """The field is named, and what it takes."""
    assert check_value(name, value).startswith(f"{name}: ")


def test_a_good_task_has_no_fault() -> None:
    """Optional fields may be missing or empty."""
    assert check_fields(GOOD | {"branch": "", "mine": "1"}, "active") == {}
    assert check_fields(GOOD | {"status": "completed"}, "archive") == {}


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.required])
def test_a_required_field_is_missed(name: str) -> None:
    """Whether it is not there or empty."""
    assert "missing" in check_fields({key: value for key, value in GOOD.items() if key != name}, "active")[name]
    assert "empty" in check_fields(GOOD | {name: ""}, "active")[name]


@pytest.mark.parametrize(("type_", "workflow"), WORKFLOWS.items())
def test_the_workflow_goes_with_the_type(type_: str, workflow: str) -> None:
    """Any other is a fault."""
    assert check_fields(GOOD | {"type": type_, "workflow": workflow}, "active") == {}
    other = "refactoring" if workflow != "refactoring" else "bug-fix"
    assert "workflow" in check_fields(GOOD | {"type": type_, "workflow": other}, "active")


def test_the_status_goes_with_the_folder() -> None:
    """A task that was moved by hand is named."""
    assert "status" in check_fields(GOOD, "blocked")
    assert "status" in check_fields(GOOD | {"status": "blocked"}, "archive")


def test_a_slip_of_the_pen_has_a_near_field() -> None:
    """And a word of one's own has none."""
    assert (nearest("priorty"), nearest("asigned_to"), nearest("zebra")) == ("priority", "assigned_to", None)
