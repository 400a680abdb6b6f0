"""A plan's split: what is read, and every fault named at once."""

import pytest

from agent_infra.core.subtasks.plan import Criterion, Limits, Subtask, criterion_of, read_split


def split(*subtasks, **fields):
    return read_split({"subtasks": list(subtasks), **fields})


def test_a_plan_without_subtasks_is_run_directly():
    """No field, an empty one and an empty list are the same: no subtasks, no fault."""
    assert read_split({}) == read_split({"subtasks": ""}) == read_split({"subtasks": []})
    assert read_split({}).subtasks == ()
    assert read_split({}).errors == ()


def test_a_subtask_is_read_whole():
    """Every field of a subtask has one meaning; `files` is an alias of `expectedFiles`."""
    read = split(
        {
            "id": "api",
            "title": "The API",
            "description": "routes",
            "files": ["src/api.py"],
            "acceptance": [{"run": "pytest -q"}, "documented in `docs/api.md`"],
            "blockedBy": ["core"],
            "engine": "sh",
            "noChangeExpected": "false",
        },
        {"id": "core"},
    )
    assert read.errors == read.warnings == ()
    assert read.subtasks[0] == Subtask(
        id="api",
        title="The API",
        description="routes",
        expected_files=("src/api.py",),
        acceptance=(
            Criterion("run: pytest -q", "pytest -q"),
            Criterion("documented in `docs/api.md`", None, ("docs/api.md",)),
        ),
        blocked_by=("core",),
        engine="sh",
    )
    assert read.subtasks[1].title == "core"


def test_the_parents_acceptance_counts_where_a_subtask_has_none():
    """An absent list is inherited, an empty one is the subtask's own word."""
    read = split({"id": "a"}, {"id": "b", "acceptance": []}, acceptance=["run: make"])
    assert [len(subtask.acceptance) for subtask in read.subtasks] == [1, 0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"noChangeExpected": "true"}, True, id="said"),
        pytest.param({"expectedNoChange": "true"}, True, id="said the other way"),
        pytest.param({"requires": {"filesystemWrite": "false"}}, True, id="nothing to write, writing not required"),
        pytest.param({"requires": {"filesystemWrite": "false"}, "files": ["a"]}, False, id="files are declared"),
        pytest.param({"requires": {"filesystemWrite": "true"}}, False, id="writing is required"),
        pytest.param({}, False, id="nothing said"),
        pytest.param({"noChangeExpected": "true", "files": ["a"]}, True, id="said, though files are declared"),
    ],
)
def test_when_no_change_is_expected(fields, expected):
    """It is said outright, or no file is declared and the file system need not be written."""
    assert split({"id": "a", **fields}).subtasks[0].no_change_expected is expected


@pytest.mark.parametrize(
    ("subtasks", "fault"),
    [
        pytest.param([{"id": "a"}, {"id": "a"}], "the id a is there twice", id="doubled id"),
        pytest.param([{"id": "a"}, {"id": "A"}], "the id A is there twice (as a)", id="ids that differ by case alone"),
        pytest.param([{"id": "a", "blockedBy": ["a"]}], "subtask a waits for itself", id="self-dependency"),
        pytest.param([{"id": "a", "blockedBy": ["z"]}], "which is no subtask of this plan", id="unknown dependency"),
        pytest.param([{"id": "../a"}], "the id '../a'", id="id that leaves a folder"),
        pytest.param([{"id": "a..b"}], "the id 'a..b'", id="id that is no ref name"),
        pytest.param([{"id": "a.lock"}], "the id 'a.lock'", id="id like a lock of git"),
        pytest.param([{"title": "x"}], "the id None", id="no id"),
        pytest.param(["a"], "subtask 1 is not a mapping", id="a text"),
        pytest.param([{"id": "a", "files": [{"x": "y"}]}], "expectedFiles is not a list of texts", id="files no texts"),
        pytest.param([{"id": "a", "title": ["x"]}], "title is not text", id="title no text"),
        pytest.param([{"id": "a", "acceptance": [["x"]]}], "acceptance holds something else", id="criterion no text"),
        pytest.param([{"id": "a", "noChangeExpected": "perhaps"}], "neither true nor false", id="no truth value"),
        pytest.param([{"id": "a", "requires": "x"}], "requires is not a mapping", id="requires no mapping"),
    ],
)
def test_faults_of_a_plan(subtasks, fault):
    """Each fault is named with the subtask it is in."""
    assert fault in " / ".join(split(*subtasks).errors)


def test_all_faults_are_named_at_once():
    """The author of a plan mends it in one go."""
    assert len(split({"id": "a", "blockedBy": ["a", "z"], "title": ["x"]}).errors) == 3
    assert read_split({"subtasks": "a"}).errors == ("subtasks is not a list",)


def test_more_subtasks_than_allowed():
    """The limit is a fault of the plan, and can be raised."""
    nine = {"subtasks": [{"id": f"s{number}"} for number in range(9)]}
    assert read_split(nine).errors == ("9 subtasks, the limit is 8",)
    assert read_split(nine, Limits(max_subtasks=9)).errors == ()


def test_unknown_fields_are_odd_not_wrong():
    """A document that people edit is open."""
    read = split({"id": "a", "colour": "red"})
    assert (read.errors, read.warnings) == ((), ("subtask a: unknown fields colour",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run: pytest -q", ("pytest -q", ())),
        ("run:", (None, ())),
        ("we run: nothing", (None, ())),
        ("`docs/a.md` and `check:make`", (None, ("docs/a.md", "check:make"))),
        ("it is nice", (None, ())),
    ],
)
def test_a_criterion_is_a_command_or_words_with_evidence(text, expected):
    """`run: COMMAND` at the start of the line is run; names in back quotes are evidence."""
    criterion = criterion_of(text)
    assert (criterion.command, criterion.evidence) == expected
    assert criterion.text == text
