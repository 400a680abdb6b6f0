"""`agent-infra task`: making tasks, listing them, looking into one."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.world import OTHER, PROGRAM, TASK, Answer, World

KEY = "3f0d6c1e-9b1a-4c7e-8d2f-0123456789ab"
CANDIDATE = {
    "version": 1,
    "idempotencyKey": KEY,
    "agent": "claude",
    "title": "Add returns the wrong sum",
    "type": "bugfix",
    "branchSlug": "wrong-sum",
    "priority": "High",
    "effort": "Low",
    "description": "add(2, 2) must be 4.",
    "taskInput": {
        "sources": ["a report by phone"],
        "facts": [],
        "constraints": ["no new | dependency"],
        "decisions": [],
        "alternatives": [],
        "acceptanceCriteria": ["add(2, 2) is 4", "## no heading"],
        "openQuestions": [],
    },
}


def made(world: World, *args: str) -> dict[str, object]:
    answer = world.call("task", "create", "--json", *args)
    assert answer.exit == 0, answer.err
    return answer.json


def candidate(world: World, **changes: object) -> str:
    path = world.base / "candidate.json"
    path.write_text(json.dumps({**CANDIDATE, **changes}))
    return str(path)


def put(world: World, state: str, task: str, title: str = "A title", **fields: str) -> Path:
    """A task in any state."""
    lines = {"id": task, "type": "docs", "status": state, "current_step": "code", "branch": "b", **fields}
    front = "".join(f"{key}: {value}\n" for key, value in lines.items())
    return world.write(f".agents/workspace/{state}/{task}/task.md", f"---\n{front}---\n\n# {title}\n")


def code(answer: Answer) -> str:
    return answer.err.rpartition("[")[2].partition("]")[0]


# -- create ------------------------------------------------------------------------------------------------------------


def test_a_title_is_enough(world: World) -> None:
    """Every other field has a default; the branch is the one that is checked out."""
    found = made(world, "--title", "修复 the sum 🎉")
    fields = world.call("task", "show", str(found["taskId"]), "--json").json["fields"]
    assert (found["shortId"], found["changed"]) == (1, True)
    assert {fields[key] for key in ("type", "priority", "effort", "assigned_to", "branch")} == {
        "feature",
        "Medium",
        "human",
        "main",
    }
    assert "flow" not in fields


def test_every_field_has_a_flag(world: World) -> None:
    """What is said stands in the document, each thing at its place."""
    words = [
        "--type",
        "bugfix",
        "--flow",
        "standard",
        "--branch",
        "fix/sum",
        "--priority",
        "Urgent",
        "--effort",
        "High",
        "--agent",
        "codex",
    ]
    words += ["--start-date", "2026-01-02", "--target-date", "2026-01-31", "--issue", "7", "--delivery-remote", "up"]
    lists = ["source", "fact", "constraint", "decision", "alternative", "acceptance", "question"]
    for name in lists:
        words += [f"--{name}", f"the {name} one", f"--{name}", f"the {name} two"]
    found = made(world, "--title", "The sum", "--description", "- [x] no\n## Fake\n```\nopen", *words)
    shown = world.call("task", "show", str(found["taskId"]), "--json").json
    assert (
        shown["fields"]
        | {
            "flow": "standard",
            "branch": "fix/sum",
            "issue_number": "7",
            "target_date": "2026-01-31",
            "workflow": "bug-fix",
            "assigned_to": "codex",
        }
        == shown["fields"]
    )
    for name in lists:
        assert f"\n\n- the {name} one\n- the {name} two\n" in shown["text"]
    assert "\\## Fake" in shown["text"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param([], "title", id="no title and no terminal"),
        pytest.param(["--title", "a", "--type", "epic"], "type", id="no such type"),
        pytest.param(["--title", "a", "--flow", "fast"], "flow", id="no such flow"),
        pytest.param(["--title", "a", "--branch", "b", "--branch-slug", "a-b"], "twice", id="two branches"),
        pytest.param(["--from", "x.json", "--title", "a"], "title", id="a file and more"),
    ],
)
def test_a_wrong_call_makes_nothing(world: World, args: list[str], words: str) -> None:
    """Exit 2, the option is named, no folder and no short id."""
    answer = world.call("task", "create", *args)
    assert answer.exit == 2
    assert words in answer.err
    assert not (world.root / ".agents/workspace").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param(["--title", "  "], "title", id="blank title"),
        pytest.param(["--title", "x" * 101], "title", id="a title that is too long"),
        pytest.param(["--title", "a\x1b[2J"], "title", id="a title that moves the cursor"),
        pytest.param(["--title", "a", "--description", "x" * 8193], "description", id="description too long"),
        pytest.param(["--title", "a", "--target-date", "2026-02-31"], "target_date", id="a day that is none"),
        pytest.param(["--title", "a", "--branch", "a b"], "branch", id="a branch that git refuses"),
        pytest.param(["--title", "a", "--branch-slug", "single"], "branchSlug", id="one word for a branch"),
        pytest.param(["--title", "a", "--issue", "0"], "issue_number", id="issue 0"),
        pytest.param(["--title", "a", "--fact", "two\nlines"], "facts", id="an item of two lines"),
        pytest.param(["--title", "a", "--idempotency-key", "1"], "idempotencyKey", id="a key that is no UUID"),
        pytest.param(["--from", "absent.json"], "absent.json", id="no such file"),
    ],
)
def test_a_bad_value_makes_nothing(world: World, args: list[str], words: str) -> None:
    """Exit 1, the field is named, no folder and no short id."""
    answer = world.call("task", "create", *args)
    assert (answer.exit, code(answer)) == (1, "TASK_CREATE_PAYLOAD_INVALID")
    assert words in answer.err
    assert not (world.root / ".agents/workspace").exists()


def test_a_candidate_becomes_a_task_once(world: World) -> None:
    """The same key and the same words lead to the same task; nothing moves the second time."""
    file = candidate(world)
    first = made(world, "--from", file)
    before = world.moved()
    again = made(world, "--from", file)
    assert again == first | {"changed": False}
    assert world.moved() == before
    text = Path(str(first["path"])).read_text()
    assert "branch: repo-bugfix-wrong-sum\n" in text
    assert "### Acceptance Criteria\n\n- add(2, 2) is 4\n- ## no heading\n" in text
    assert "**Create Task** by claude" in text


def test_a_key_is_good_for_one_wish(world: World) -> None:
    """Another wish with the same key is a mistake of somebody; UUIDs are compared without case."""
    made(world, "--from", candidate(world))
    answer = world.call("task", "create", "--from", candidate(world, title="Something else"))
    assert (answer.exit, code(answer)) == (1, "TASK_CREATE_IDEMPOTENCY_CONFLICT")
    answer = world.call("task", "create", "--title", "x", "--idempotency-key", KEY.upper())
    assert code(answer) == "TASK_CREATE_IDEMPOTENCY_CONFLICT"


def test_a_creation_that_was_cut_is_finished(world: World) -> None:
    """What is kept about a key comes first: the next call makes the same task, not a second one."""
    first = made(world, "--from", candidate(world))
    for name in ("task.md", "../.short-ids.json"):
        (world.folder(str(first["taskId"])) / name).unlink()
    assert made(world, "--from", candidate(world)) == first
    assert world.call("task", "ls", "--json").json["total"] == 1


def test_what_is_kept_about_a_key_may_be_damaged(world: World) -> None:
    """Then nobody can say whether the task is there, and no second one is made."""
    made(world, "--from", candidate(world))
    (receipt,) = (world.root / ".agents/workspace/.task-create").iterdir()
    receipt.write_text("{")
    answer = world.call("task", "create", "--from", candidate(world))
    assert (answer.exit, code(answer)) == (1, "TASK_CREATE_RECEIPT_INVALID")


@pytest.mark.parametrize(
    ("change", "words", "wanted"),
    [
        pytest.param({"version": 2}, "version 2", "TASK_CREATE_VERSION_INVALID", id="newer version"),
        pytest.param({"version": "1"}, "version", "TASK_CREATE_PAYLOAD_INVALID", id="version in quotes"),
        pytest.param({"extra": 1}, "unknown key extra", "TASK_CREATE_PAYLOAD_INVALID", id="unknown key"),
        pytest.param({"title": 5}, "title", "TASK_CREATE_PAYLOAD_INVALID", id="a number for a title"),
        pytest.param({"branchSlug": ""}, "branchSlug", "TASK_CREATE_PAYLOAD_INVALID", id="no slug"),
        pytest.param({"idempotencyKey": ""}, "idempotencyKey", "TASK_CREATE_PAYLOAD_INVALID", id="no key"),
        pytest.param({"agent": "bot"}, "assigned_to", "TASK_CREATE_PAYLOAD_INVALID", id="unknown agent"),
        pytest.param({"priority": "high"}, "priority", "TASK_CREATE_PAYLOAD_INVALID", id="another case"),
        pytest.param(
            {"taskInput": {"facts": ["x"] * 51}}, "facts", "TASK_CREATE_PAYLOAD_INVALID", id="more than fifty items"
        ),
        pytest.param(
            {"taskInput": {"facts": ["x" * 2049]}}, "facts", "TASK_CREATE_PAYLOAD_INVALID", id="an item too long"
        ),
    ],
)
def test_a_candidate_that_is_refused(world: World, change: dict[str, object], words: str, wanted: str) -> None:
    """The key is named, and nothing is made."""
    answer = world.call("task", "create", "--from", candidate(world, **change))
    assert (answer.exit, code(answer)) == (1, wanted)
    assert words in answer.err
    assert not (world.root / ".agents/workspace").exists()


def test_a_table_in_the_words_does_not_become_the_ledger(world: World) -> None:
    """The reference's tasks with a table in their text could not be routed any more."""
    table = (
        "| id | stage | round | severity | status | evidence |\n|---|---|---|---|---|---|\n| AN-1 | x | y | z | w | |"
    )
    found = made(
        world, "--title", "a | b", "--description", table, "--fact", "| AN-1 | analysis | 1 | major | open | |"
    )
    assert world.ok("route", task=str(found["taskId"])).step == ("analysis", 1)


def test_ids_are_free_in_every_state(world: World) -> None:
    """A short id is given again only when it is free; the archive keeps its ids."""
    first = str(made(world, "--title", "one")["taskId"])
    old = world.root / ".agents/workspace/archive/2026/01/31" / first
    old.parent.mkdir(parents=True)
    world.folder(first).rename(old)
    second = made(world, "--title", "two")
    assert second["taskId"] != first
    assert second["shortId"] == 2


def test_thirty_two_processes_make_thirty_two_tasks(world: World) -> None:
    """None is lost, no id and no short id is given twice."""
    argv = [str(PROGRAM), "task", "create", "--json", "--title", "race"]
    started = [
        subprocess.Popen(argv, cwd=world.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(32)
    ]
    answers = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0] * 32, answers
    found = [json.loads(out) for out, _ in answers]
    listed = world.call("task", "ls", "--json").json
    assert listed["total"] == len({one["taskId"] for one in found}) == 32
    assert {one["shortId"] for one in found} == set(range(1, 33))
    assert {one["taskId"]: one["shortId"] for one in listed["tasks"]} == {
        one["taskId"]: one["shortId"] for one in found
    }


# -- ls ----------------------------------------------------------------------------------------------------------------


def test_tasks_are_listed_by_state_then_id(world: World) -> None:
    """Active ones unless asked; the archive is never listed; SHORT is for active ones alone."""
    put(world, "active", OTHER)
    put(world, "active", TASK, title="修复 🎉")
    put(world, "blocked", "TASK-20250101-000000")
    put(world, "completed", "TASK-20240101-000000")
    put(world, "archive/2026/01/01", "TASK-20230101-000000")
    world.write(".agents/workspace/active/.short-ids.json", json.dumps({"version": 1, "ids": {"07": TASK}}))
    out = world.call("task", "ls").out.splitlines()
    assert [line.split()[:3] for line in out[1:3]] == [["07", TASK, "docs"], ["-", OTHER, "docs"]]
    assert out[0].split() == ["SHORT", "ID", "TYPE", "STATUS", "STEP", "BRANCH", "TITLE"]
    assert out[-1] == "Total: 2 tasks"
    everything = world.call("task", "ls", "--all", "--json").json
    assert [one["taskId"] for one in everything["tasks"]] == [
        TASK,
        OTHER,
        "TASK-20250101-000000",
        "TASK-20240101-000000",
    ]
    assert (everything["tasks"][0]["shortId"], everything["tasks"][0]["title"]) == (7, "修复 🎉")
    assert world.call("task", "ls", "--blocked", "--json").json["total"] == 1
    assert world.call("task", "ls", "--completed").out.splitlines()[-1] == "Total: 1 task"


def test_an_empty_list_is_no_fault(world: World) -> None:
    """One line that says so."""
    answer = world.call("task", "ls")
    assert (answer.exit, answer.out.count("\n")) == (0, 1)
    assert world.call("task", "ls", "--json").json == {"tasks": [], "total": 0}


@pytest.mark.parametrize("args", [["--all", "--blocked"], ["--blocked", "--completed"], ["1"]])
def test_one_filter_at_most(world: World, args: list[str]) -> None:
    """And no words."""
    assert world.call("task", "ls", *args).exit == 2


def test_one_bad_task_does_not_hide_the_others(world: World) -> None:
    """It is listed with what is wrong; so is a folder that is a symlink."""
    world.task()
    put(world, "active", OTHER).write_text("nonsense")
    link = world.root / ".agents/workspace/active/TASK-20260103-120000"
    link.symlink_to(world.folder(TASK))
    (world.root / ".agents/workspace/active/TASK-20260104-120000").mkdir()
    (world.root / ".agents/workspace/active/.short-ids.json").write_text("{")
    answer = world.call("task", "ls", "--json")
    faults = {one["taskId"]: one["fault"] for one in answer.json["tasks"]}
    assert faults.keys() == {TASK, OTHER, link.name}
    assert (faults[TASK], "front matter" in faults[OTHER], "symlink" in faults[link.name]) == (None, True, True)
    assert "SHORT_ID_REGISTRY_INVALID_JSON" in answer.err
    assert "unreadable" in world.call("task", "ls").out


def test_a_fifo_in_the_place_of_a_task_is_not_waited_for(world: World) -> None:
    """A list never hangs."""
    put(world, "active", TASK).unlink()
    os.mkfifo(world.folder(TASK) / "task.md")
    (task,) = world.call("task", "ls", "--json").json["tasks"]
    assert "regular file" in task["fault"]


# -- which task --------------------------------------------------------------------------------------------------------


def test_a_reference_is_a_full_id_or_a_number_or_the_branch(world: World) -> None:
    """Also as `--task` and `-t`; the one active task of the branch is meant where none is named."""
    found = made(world, "--title", "mine")
    put(world, "blocked", OTHER, branch="main")
    for ref in ([str(found["taskId"])], ["1"], ["01"], ["#1"], ["#01"], ["--task", "1"], ["-t", "#1"], []):
        assert world.call("task", "show", "--json", *ref).json["taskId"] == found["taskId"], ref
    assert world.call("task", "show", "1", "-t", "1").exit == 2


@pytest.mark.parametrize(
    ("ref", "wanted"),
    [
        ("x", "INVALID_TASK_REF"),
        ("TASK-1", "INVALID_TASK_REF"),
        (f" {TASK}", "INVALID_TASK_REF"),
        (TASK.lower(), "INVALID_TASK_REF"),
        ("٣", "INVALID_TASK_REF"),
        ("0", "SHORT_ID_RESERVED"),
        ("#00", "SHORT_ID_RESERVED"),
        ("100", "SHORT_ID_CAPACITY_EXCEEDED"),
        ("9", "SHORT_ID_NOT_FOUND"),
        ("TASK-19990101-000000", "TASK_NOT_FOUND"),
    ],
)
def test_a_reference_that_means_nothing(world: World, ref: str, wanted: str) -> None:
    """Each with its code."""
    made(world, "--title", "one")
    answer = world.call("task", "show", ref)
    assert (answer.exit, code(answer)) == (1, wanted)


def test_a_number_never_means_a_row_of_a_list(world: World) -> None:
    """In the reference #2 once fell back to the second row: a number is a registered short id, or nothing."""
    made(world, "--title", "one")
    put(world, "active", OTHER)
    assert code(world.call("task", "show", "2")) == "SHORT_ID_NOT_FOUND"


def test_a_number_of_a_task_that_is_not_active_any_more(world: World) -> None:
    """It is stale, and the full id is named."""
    task = str(made(world, "--title", "one")["taskId"])
    blocked = world.root / ".agents/workspace/blocked"
    blocked.mkdir()
    world.folder(task).rename(blocked / task)
    answer = world.call("task", "show", "1")
    assert code(answer) == "SHORT_ID_STALE"
    assert task in answer.err
    assert world.call("task", "show", task).exit == 0


def test_an_archived_task_is_found_by_its_id_whatever_the_day(world: World) -> None:
    """The archive is laid out by the day of completion, which is not the id's."""
    put(world, "archive/2027/12/31", TASK)
    assert world.call("task", "show", TASK).exit == 0


def test_the_branch_names_no_task_or_several(world: World) -> None:
    """Each with its code, and the several are named."""
    put(world, "active", TASK, branch="elsewhere")
    assert code(world.call("task", "show")) == "TASK_CONTEXT_NOT_FOUND"
    put(world, "active", TASK, branch="main")
    put(world, "active", OTHER, branch="main")
    answer = world.call("task", "show")
    assert code(answer) == "TASK_CONTEXT_AMBIGUOUS"
    assert TASK in answer.err
    assert OTHER in answer.err
    world.git("checkout", "-q", "--detach")
    assert code(world.call("task", "show")) == "TASK_CONTEXT_DETACHED_HEAD"


def test_a_bad_task_only_matters_where_it_may_be_meant(world: World) -> None:
    """A readable task of the branch wins; without one nobody can say that the bad one is not it."""
    put(world, "active", TASK, branch="elsewhere")
    put(world, "active", OTHER).write_text("nonsense")
    answer = world.call("task", "show")
    assert code(answer) == "TASK_CONTEXT_UNREADABLE"
    assert OTHER in answer.err
    put(world, "active", TASK, branch="main")
    assert world.call("task", "show").exit == 0


def test_a_run_makes_a_task_one_of_its_branch(world: World) -> None:
    """Whatever its `branch` says."""
    world.begun()
    assert world.call("task", "show", "--json").json["taskId"] == TASK


# -- looking into a task -----------------------------------------------------------------------------------------------


def test_show_is_the_file_as_it_is(world: World) -> None:
    """Byte for byte, with its line ends."""
    path = world.task(newline="\r\n")
    done = subprocess.run([PROGRAM, "task", "show", TASK], cwd=world.root, capture_output=True, check=True)
    assert done.stdout == path.read_bytes()


def test_documents_are_numbered_by_age_and_cat_takes_the_numbers(world: World) -> None:
    """Hidden files, folders and symlinks are left out."""
    world.task()
    for age, name in enumerate(["task.md", "plan.md", "analysis.md", ".hidden.md"]):
        path = world.folder() / name
        path.write_text(name) if name != "task.md" else None
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    (world.folder() / "sub").mkdir()
    (world.folder() / "code.md").symlink_to("plan.md")
    out = world.call("task", "files", TASK).out.splitlines()
    assert [line.split()[:2] for line in out[1:]] == [["1", "analysis"], ["2", "plan"], ["3", "task"]]
    assert [one["name"] for one in world.call("task", "files", TASK, "--json").json["files"]] == [
        "analysis.md",
        "plan.md",
        "task.md",
    ]
    for wanted in ("2", "#2", "plan", "plan.md"):
        assert world.call("task", "cat", TASK, wanted).out == "plan.md"
    assert world.call("task", "cat", "plan", "--task", TASK).out == "plan.md"


@pytest.mark.parametrize(
    ("wanted", "code_"),
    [
        ("../task", "ARTIFACT_PATH_INVALID"),
        ("/etc/passwd", "ARTIFACT_PATH_INVALID"),
        ("..", "ARTIFACT_PATH_INVALID"),
        ("a\\b", "ARTIFACT_PATH_INVALID"),
        ("plan-r9", "ARTIFACT_NOT_FOUND"),
        ("0", "ARTIFACT_NOT_FOUND"),
        ("99999999999999999999", "ARTIFACT_NOT_FOUND"),
        ("n" * 300, "ARTIFACT_NOT_FOUND"),
        ("link", "ORCHESTRATION_ARTIFACT_INVALID"),
    ],
)
def test_cat_stays_in_the_folder(world: World, wanted: str, code_: str) -> None:
    """Only names and numbers of its documents."""
    world.task()
    (world.folder() / "link.md").symlink_to("task.md")
    answer = world.call("task", "cat", TASK, wanted)
    assert (answer.exit, code(answer), answer.out) == (1, code_, "")


def test_grep_finds_words_literally(world: World) -> None:
    """In every state but the archive, or in one task; exit 1 and no output where nothing is."""
    world.task()
    world.artifact("plan", text="# Plan\n\nWait (a.b) here\nwait (axb) there\n")
    put(world, "blocked", OTHER, title="wait (a.b)")
    put(world, "archive/2026/01/01", "TASK-20230101-000000", title="wait (a.b)")
    out = world.call("task", "grep", "ait (a.b)").out.splitlines()
    assert out == [f"{TASK} plan:3: Wait (a.b) here", f"{OTHER} task:9: # wait (a.b)"]
    assert world.call("task", "grep", "WAIT (a.b)", "--json").json == {"hits": []}
    assert len(world.call("task", "grep", "-i", "WAIT (", "--json").json["hits"]) == 3
    assert len(world.call("task", "grep", "wait", "--task", OTHER, "--json").json["hits"]) == 1
    nothing = world.call("task", "grep", "no such words")
    assert (nothing.exit, nothing.out) == (1, "")
    assert world.call("task", "grep", "--", "--x").exit == 1


def test_the_log_shows_steps_and_who_still_waits(world: World) -> None:
    """Starts and ends are one row; a ruling that was made is not counted as waiting any more."""
    path = world.task(
        ledger="| HD-1 | plan | - | decision | human-decided | task.md#HDR-1 |\n"
        "| HD-2 | plan | - | decision | needs-human-decision | review-plan.md#HD-2 |\n"
        "| PL-1 | plan | 1 | minor | open | |\n"
    )
    note = "Verdict: Changes Requested, blockers: 0, major: 0, minor: 1, Manual-validation: 0 → review-plan.md"
    lines = [
        "- 2026-01-01 13:00:00+00:00 — **Review Plan (Round 1) [started]** by codex — started",
        f"- 2026-01-01 13:30:00+00:00 — **Review Plan (Round 1)** by codex — {note}",
        "- 2026-01-01 14:00:00+00:00 — **Code Task (Round 1) [started]** by 王小明 — started",
        "- not a line of the log",
    ]
    path.write_text(path.read_text() + "\n".join(lines) + "\n")
    out = world.call("task", "log", TASK).out.splitlines()
    assert out[0].split() == ["#", "STEP", "AGENT", "STARTED", "DONE", "NOTE"]
    assert "Manual-validation: 0, Human-decision: 1 → review-plan.md" in out[2]
    assert "(in progress)" in out[3]
    assert "  human  " in out[3]
    assert out[-1] == "Total: 3 steps"
    steps = world.call("task", "log", TASK, "--json").json["steps"]
    assert [step["started"] is None for step in steps] == [True, False, False]
    assert steps[2]["agent"] == "王小明"


@pytest.mark.parametrize("text", ["", "## Activity Log\n\n", "## Activity Log\n\n## Activity Log\n"])
def test_a_log_that_is_none(world: World, text: str) -> None:
    """No section, two sections, no entry."""
    path = put(world, "active", TASK)
    path.write_text(path.read_text() + text)
    assert code(world.call("task", "log", TASK)) == "TASK_DOCUMENT_INVALID"
