"""Our hooks among those of others in a client's settings."""

import json
from typing import Any

import pytest

from agent_infra.core.hook_settings import LAUNCHER, Group, check, ours, with_hooks, without_hooks
from agent_infra.core.json_text import JsonTextError


def group(timeout: int = 60, matcher: str | None = None, command: str = f"/x/{LAUNCHER} go") -> dict[str, Any]:
    run = {"type": "command", "command": command, "timeout": timeout}
    return {"matcher": matcher, "hooks": [run]} if matcher else {"hooks": [run]}


def wanted(timeout: int = 60) -> dict[str, list[Group]]:
    return {"PreToolUse": [group(timeout, "A"), group(timeout, "B")], "Stop": [group(timeout)]}


THEIRS = group(command="echo theirs")
SETTINGS = [
    pytest.param("{}\n", id="nothing"),
    pytest.param('{"permissions": {"allow": ["Bash(ls)"]}}', id="other keys"),
    pytest.param('{\n  "hooks": {}\n}\n', id="no hooks"),
    pytest.param('{\n  "hooks": {\n    "Stop": []\n  },\n  "z": 1\n}', id="an event without hooks"),
    pytest.param(json.dumps({"hooks": {"Stop": [THEIRS], "Other": [THEIRS]}}, indent=4), id="theirs, indented"),
    pytest.param(json.dumps({"hooks": {"PreToolUse": [THEIRS]}, "a": None}), id="theirs, one line"),
]


@pytest.mark.parametrize("text", SETTINGS)
def test_ours_come_after_theirs_and_go_without_a_trace(text: str) -> None:
    """Everything else keeps its place; a second time changes nothing; taken out, the bytes are those of before."""
    merged = with_hooks(text, wanted())
    assert ours(merged.text) == wanted()
    assert with_hooks(merged.text, wanted()).text == merged.text
    before, after = json.loads(text), json.loads(merged.text)
    assert {key: value for key, value in after.items() if key != "hooks"} == {
        key: value for key, value in before.items() if key != "hooks"
    }
    for event, groups in before.get("hooks", {}).items():
        assert after["hooks"][event][: len(groups)] == groups
    again = without_hooks(merged.text, text)
    assert json.loads(again) == before
    if "[]" not in text and "{}" not in text.strip("\n")[1:]:
        assert again == text


def test_only_ours_go_where_others_came_after_them() -> None:
    """A group that was added later, and a command that was added to our group, stay where they are."""
    said = json.loads(with_hooks("{}", wanted()).text)
    said["hooks"]["Stop"].append(THEIRS)
    said["hooks"]["PreToolUse"][0]["hooks"].insert(0, THEIRS["hooks"][0])
    left = json.loads(without_hooks(json.dumps(said)))
    assert left == {"hooks": {"PreToolUse": [{"matcher": "A", "hooks": THEIRS["hooks"]}], "Stop": [THEIRS]}}


def test_an_entry_that_a_person_changed_is_left_alone() -> None:
    """Without a newer one nothing is said to be wrong; what was taken away comes again."""
    text = with_hooks("{}", wanted()).text.replace('"timeout": 60', '"timeout": 90', 1)
    merged = with_hooks(text, wanted())
    assert (merged.text, merged.changed_by_people) == (text, ("PreToolUse",))
    said = json.loads(with_hooks("{}", wanted()).text)
    del said["hooks"]["Stop"]
    assert ours(with_hooks(json.dumps(said), wanted()).text) == wanted()


def test_newer_entries_take_the_place_of_those_that_were_installed() -> None:
    """In their place among others; an event that is no longer wanted goes."""
    text = json.dumps({"hooks": {"Stop": [group(1), THEIRS], "Gone": [group(1)], "PreToolUse": [THEIRS]}}, indent=2)
    base = {"Stop": [group(1)], "Gone": [group(1)]}
    merged = with_hooks(text, wanted(5), base)
    assert (merged.changed_by_people, merged.conflicts) == ((), ())
    hooks = json.loads(merged.text)["hooks"]
    assert hooks == {"Stop": [group(5), THEIRS], "PreToolUse": [THEIRS, *wanted(5)["PreToolUse"]]}


def test_a_change_of_a_person_and_one_of_ours_are_a_conflict() -> None:
    """Only where both changed the same event; where the person alone did, their entry stays."""
    base = wanted(60)
    text = with_hooks("{}", base).text.replace('"timeout": 60', '"timeout": 90')
    newer = {**wanted(60), "Stop": [group(70)]}
    merged = with_hooks(text, newer, base)
    assert merged.text == text
    assert merged.changed_by_people == ("PreToolUse",)
    assert merged.conflicts == ("Stop",)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_more_or_fewer_groups_than_before(count: int) -> None:
    base = {"Stop": [group(1, "A"), group(1, "B")]}
    text = json.dumps({"hooks": {"Stop": [THEIRS, *base["Stop"], THEIRS]}}, indent=1)
    newer = {"Stop": [group(2, str(number)) for number in range(count)]}
    merged = with_hooks(text, newer, base)
    assert ours(merged.text) == newer
    assert json.loads(merged.text)["hooks"]["Stop"].count(THEIRS) == 2


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        pytest.param("[]", 1, "the file is an array, expected an object", id="an array"),
        pytest.param('{\n"hooks": []}', 2, '"hooks" is an array, expected an object', id="hooks as an array"),
        pytest.param('{"hooks": {\n"Stop": "x"}}', 2, "is a string, expected an array", id="an event as a string"),
        pytest.param('{"hooks": {"Stop": null}}', 1, "is null, expected an array", id="an event as null"),
        pytest.param("{", 1, "not JSON", id="cut"),
    ],
)
def test_settings_of_another_shape_are_named_with_the_line(text: str, line: int, says: str) -> None:
    for look in (check, lambda known: with_hooks(known, wanted()), without_hooks):
        with pytest.raises(JsonTextError, match=says) as caught:
            look(text)
        assert caught.value.line == line
