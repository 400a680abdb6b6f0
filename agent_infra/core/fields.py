"""The fields of task.md's front matter: which values they take, which of them people may set, which a task must have.

Fields that nobody here knows are nobody's business: they stay as they are.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches

from agent_infra.core.clients import REGISTRY
from agent_infra.core.lifecycle import CURRENT_STEPS, Flow
from agent_infra.core.tasks import TASK_ID, WORKFLOWS

_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[+-][0-9]{2}:[0-9]{2})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?")
_SHA = re.compile(r"[0-9a-f]{7,40}|[0-9a-f]{64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
_REF_FAULT = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/]|[/.]$|\.lock$|(?:^|/)\.|\.lock/|^@$")

# names that agents of the reference sign with, beside those of our registry
_OTHER_AGENTS = ("antigravity", "cursor", "traecli")
AGENTS = tuple(sorted({client.token for client in REGISTRY.values()} | set(_OTHER_AGENTS)))
STATES = ("active", "blocked", "completed")
STEPS = (*dict.fromkeys(CURRENT_STEPS.values()), "completed")


@dataclass(frozen=True, slots=True)
class Field:
    """What is known of a field.

    Attributes:
        wanted: the values in words.
        takes: whether a value is one of them.
        required: whether every task has it, not empty.
        own: why a person may not set it; empty where anyone may.
    """

    wanted: str
    takes: Callable[[str], bool]
    required: bool = False
    own: str = ""


def _one_of(*words: str) -> tuple[str, Callable[[str], bool]]:
    return f"one of {', '.join(words)}", frozenset(words).__contains__


def _shape(wanted: str, pattern: re.Pattern[str]) -> tuple[str, Callable[[str], bool]]:
    return wanted, lambda value: pattern.fullmatch(value) is not None


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and _reads(date.fromisoformat, value)


def _is_stamp(value: str) -> bool:
    return _STAMP.fullmatch(value) is not None and _reads(datetime.fromisoformat, value)


def _reads(read: Callable[[str], object], value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _is_branch(value: str) -> bool:
    return not _REF_FAULT.search(value)


_DAY = ("a day, as in 2026-01-31", _is_date)
_TIME = ("a time, as in 2026-01-31 12:00:00+00:00", _is_stamp)
_COUNT = _shape("a number from 1 on", _NUMBER)
_TEXT = ("one line of text", lambda _: True)
_MOVES = "it changes when the task is moved"
_BORN = "it was set when the task was made"

FIELDS: Mapping[str, Field] = {
    "id": Field(*_shape("the name of the task's folder", TASK_ID), True, _BORN),
    "type": Field(*_one_of(*WORKFLOWS), True),
    "workflow": Field(*_one_of(*dict.fromkeys(WORKFLOWS.values())), True),
    "status": Field(*_one_of(*STATES), True, _MOVES),
    "created_at": Field(*_TIME, True, _BORN),
    "updated_at": Field(*_TIME, True, "every change renews it"),
    "agent_infra_version": Field(*_shape("a version, as in v0.1.0", _VERSION), True, "every change renews it"),
    "current_step": Field(*_one_of(*STEPS), True),
    "assigned_to": Field(*_one_of(*AGENTS), True),
    "branch": Field("a name that git takes for a branch", _is_branch),
    "flow": Field(*_one_of(*map(str, Flow))),
    "priority": Field(*_one_of("Urgent", "High", "Medium", "Low")),
    "effort": Field(*_one_of("High", "Medium", "Low")),
    "start_date": Field(*_DAY),
    "target_date": Field(*_DAY),
    "pr_status": Field(*_one_of("pending", "created", "skipped")),
    "issue_number": Field(*_COUNT),
    "pr_number": Field(*_COUNT),
    "codescan_alert_number": Field(*_COUNT),
    "security_alert_number": Field(*_COUNT),
    "delivery_remote": Field(*_TEXT),
    "delivery_base_ref": Field("a name that git takes for a branch", _is_branch),
    "checkpoint_commit": Field(*_shape("a commit id", _SHA)),
    "delivery_remote_head": Field(*_shape("a commit id", _SHA)),
    "last_reviewed_commit": Field(*_shape("a commit id", _SHA)),
    "completed_at": Field(*_TIME, own=_MOVES),
    "blocked_at": Field(*_TIME, own=_MOVES),
    "cancelled_at": Field(*_TIME, own=_MOVES),
    "cancel_reason": Field(*_TEXT, own=_MOVES),
    "task_create_key_digest": Field(*_shape("a SHA-256", _DIGEST), own=_BORN),
    "task_create_candidate_digest": Field(*_shape("a SHA-256", _DIGEST), own=_BORN),
}


def check_value(name: str, value: str) -> str:
    """What is wrong with a value, in words; empty where nothing is. An empty value says nothing and is fine."""
    known = FIELDS.get(name)
    if known is None or not value or known.takes(value):
        return ""
    return f"{name}: {known.wanted}, found {value[:80]!r}"


def check_fields(values: Mapping[str, str], state: str) -> dict[str, str]:
    """What is wrong with the fields of a task, by field.

    Args:
        state: where the task lies: active, blocked, completed or archive.
    """
    faults = {name: fault for name, value in values.items() if (fault := check_value(name, value))}
    for name, known in FIELDS.items():
        if known.required and not values.get(name):
            faults[name] = f"{name}: {known.wanted}, and it is {'empty' if name in values else 'missing'}"
    workflow = WORKFLOWS.get(values.get("type", ""))
    if workflow and "workflow" not in faults and values["workflow"] != workflow:
        faults["workflow"] = f"workflow: {workflow} for a {values['type']}, found {values['workflow']!r}"
    status = "completed" if state == "archive" else state
    if "status" not in faults and status in STATES and values["status"] != status:
        faults["status"] = f"status: {status}, since the task lies in {state}, found {values['status']!r}"
    return faults


def nearest(name: str) -> str | None:
    """The known field that somebody may have meant."""
    return next(iter(get_close_matches(name, FIELDS, n=1)), None)
