"""`agent-infra task status`, `validate` and `edit`."""

import pytest

from tests.support.world import OTHER, TASK, Answer, World

ROW = "| CD-1 | code | 1 | major | open | review-code.md#CD-1 |"


def code(answer: Answer) -> str:
    return answer.err.rpartition("[")[2].partition("]")[0]


def status(world: World, task: str = TASK) -> Answer:
    """The facts, which change nothing."""
    before = world.moved()
    answer = world.call("task", "status", task, "--json")
    assert world.moved() == before
    shown = world.call("task", "status", task)
    assert shown.exit == answer.exit
    assert shown.out.startswith(task)
    return answer


# -- status ------------------------------------------------------------------------------------------------------------


def test_a_task_without_a_run(world: World) -> None:
    """The gate does not ask about it, and `begin` comes next."""
    world.task()
    found = status(world)
    assert (found.exit, found["run"], found["next"]["stage"]) == (0, None, "analysis")
    assert found["gate"]["open"] is None
    assert found["command"] == f"agent-infra orchestrate begin {TASK}"
    assert (found["git"]["branch"], found["git"]["changed"], found["git"]["matches"]) == ("main", 0, None)


def test_the_whole_way_of_a_run_with_the_command_for_each_place(world: World) -> None:
    """Every state of a step names what takes it further; a parser of ours reads each command."""
    world.begun("--flow", "streamlined")
    assert "leaves out the plan" in world.call("task", "status", TASK).out
    assert status(world)["command"] == f"agent-infra work {TASK}"
    step = world.prepare()
    found = status(world)
    assert found["pending"]["status"] == "prepared"
    assert 0 <= found["pending"]["ageSeconds"] < 600
    assert found["gate"]["why"] == ["analysis.md is prepared, and must be consumed first"]
    assert found["command"].endswith(f"brief {TASK} --text")
    world.start(step["role"])
    assert status(world)["command"].endswith(f"complete {TASK} --agent AGENT")
    world.work(step)
    world.complete(step)
    seal = status(world)["command"].removeprefix("agent-infra ").split()
    assert world.call(*seal).exit == 0
    advance = status(world)["command"].removeprefix("agent-infra ").split()
    assert world.call(*advance).exit == 0
    assert status(world)["gate"]["why"] == ["code round 1 comes first"]
    world.step()
    assert status(world)["command"] == f"agent-infra review {TASK}"


def test_a_stale_approval_names_the_path_that_moved_it(world: World) -> None:
    """And the review comes again before the commit."""
    world.begun("--flow", "streamlined")
    world.to("commit")
    found = status(world)
    assert found["command"].startswith(f"agent-infra commit {TASK}")
    assert "ORCHESTRATION_HOOKS_MISSING" in found["gate"]["why"][0]
    assert found["stale"] == []
    world.write("src/app.py", "def add(a, b):\n    return 4\n")
    found = status(world)
    assert found["stale"] == ["review-code.md is stale: src/app.py changed after it was judged"]
    assert found["next"]["stage"] == "review-code"
    assert found["git"]["changed"] == 1


def test_open_findings_shut_the_gate(world: World) -> None:
    """The rows are named, and who settles them."""
    world.begun("--flow", "streamlined")
    world.to("commit")
    world.row("| HD-1 | code | - | decision | needs-human-decision | review-code.md#HD-1 |")
    found = status(world)
    assert "HD-1" in found["gate"]["why"][0]
    assert found["command"] == f"agent-infra task decide {TASK} --item 1 --result …"


def test_a_paused_and_an_ended_run(world: World) -> None:
    """The pause is told with its code; a final one is left by `abandon`."""
    world.begun()
    world.ok("pause", "--code", "WAITING", "--message", "the key is missing")
    assert status(world)["gate"]["why"][0] == "the run is paused, WAITING: the key is missing"
    assert status(world)["command"] == f"agent-infra orchestrate begin {TASK}"
    world.ok("pause", "--code", "WAITING", "--message", "for good", "--final")
    assert status(world)["command"].startswith(f"agent-infra orchestrate abandon {TASK}")
    world.ok("end", "--reason", "not wanted")
    found = status(world)
    assert (found["gate"]["open"], found["command"]) == (None, f"agent-infra orchestrate begin {TASK}")


def test_what_cannot_be_read_hides_nothing_else(world: World) -> None:
    """Exit 1, each fault with its code, the rest as it is."""
    world.begun()
    world.view().write_text("{}")
    (world.folder() / "plan-r01.md").write_text("x")
    found = status(world)
    assert found.exit == 1
    assert any("ORCHESTRATION_STATE_TAMPERED" in fault for fault in found["faults"])
    assert any("ORCHESTRATION_ARTIFACT_INVALID" in fault for fault in found["faults"])
    assert found["git"]["branch"] == "main"


def test_a_task_of_which_only_the_run_is_left(world: World) -> None:
    """`repair` is the command."""
    world.begun()
    world.step()
    for path in world.folder().iterdir():
        path.unlink()
    world.folder().rmdir()
    found = status(world)
    assert (found.exit, found["state"]) == (1, "missing")
    assert found["command"] == f"agent-infra orchestrate repair {TASK}"


def test_usage_warnings_and_git_beside_an_upstream(world: World) -> None:
    """Open workflow warnings are told, closed ones are not; ahead and behind come from git."""
    head = "id | time | step | severity | code | status | target | message | action | resolved_at | resolution"
    rows = ["| WW-1 | t | s | IMPORTANT | C | open | x | look \\| here | do it | - | - |"]
    rows += ["| WW-2 | t | s | IMPORTANT | C | resolved | x | gone | a | then | mended |"]
    path = world.task(extra="branch: elsewhere\n")
    table = "\n".join([f"| {head} |", "|---" * 11 + "|", *rows])
    path.write_text(f"{path.read_text()}\n## Workflow Warnings\n\n{table}\n")
    world.git("branch", "up")
    world.git("branch", "-q", "--set-upstream-to=up")
    world.git("commit", "-q", "--allow-empty", "-m", "more")
    found = status(world)
    assert found["warnings"] == ["WW-1 IMPORTANT: look | here (do it)"]
    git = found["git"]
    assert (git["ahead"], git["behind"], git["upstream"], git["matches"]) == (1, 0, "up", False)
    assert world.call("task", "validate", TASK).exit == 0


# -- validate ----------------------------------------------------------------------------------------------------------


def faults(world: World, task: str = TASK) -> list[tuple[str, int | None, str]]:
    answer = world.call("task", "validate", task, "--json")
    assert answer.exit == (0 if answer["valid"] else 1)
    return [(one["file"], one["line"], one["code"]) for one in answer["faults"]]


def test_a_good_task_has_no_fault(world: World) -> None:
    """With a whole run behind it."""
    world.begun("--flow", "streamlined")
    world.to("commit")
    assert faults(world) == []
    assert "nothing is wrong" in world.call("task", "validate", TASK).out


def test_every_fault_of_every_document_is_named(world: World) -> None:
    """Not only the first: each with file, line and code."""
    text = world.task().read_text()
    text = text.replace("type: bugfix", "type: epic").replace("created_at: 2026-01-01", "created_at: 2026-02-31")
    text = text.replace(
        "|---|---|---|---|---|---|\n", "|---|---|---|---|---|---|\n| XX-1 | code | 1 | major | open | |\n"
    )
    text = text.replace("| open | |\n", "| open | |\n| CD-2 | plan | 1 | major | open | |\n| CD-3 |\n", 1)
    text += "- no line of the log\n- 2025-01-01 12:00:00+00:00 — **Step** by human — earlier\n## Design\n"
    (world.folder() / "task.md").write_text(text)
    world.artifact("plan", text="---\nsubtasks: 5\n---\n# Plan\n")
    world.artifact("plan", 3, text="<<<<<<< HEAD\nx\n>>>>>>> b\n")
    (world.folder() / "Plan-r4.md").write_text("x")
    (world.folder() / "code.md").mkdir()
    world.artifact("review-plan", text="## Review Summary\n\n- **Overall Verdict**: Fine\n")
    world.review("code", verdict="Approved", counts=(0, 0, 2))
    lines = {text: number for number, text in enumerate(text.split("\n"), 1)}
    document, table = "TASK_DOCUMENT_INVALID", "ORCHESTRATION_LEDGER_INVALID"
    assert set(faults(world)) == {
        ("task.md", lines["type: epic"], document),
        ("task.md", lines["created_at: 2026-02-31 12:00:00+00:00"], document),
        ("task.md", lines["| XX-1 | code | 1 | major | open | |"], table),
        ("task.md", lines["| CD-2 | plan | 1 | major | open | |"], table),
        ("task.md", lines["| CD-3 |"], table),
        ("task.md", lines["- no line of the log"], document),
        ("task.md", lines["- 2025-01-01 12:00:00+00:00 — **Step** by human — earlier"], document),
        ("task.md", len(text.split("\n")) - 1, document),
        ("plan.md", 1, "SUBTASK_PLAN_INVALID"),
        ("plan-r3.md", 1, document),
        ("plan-r3.md", 3, document),
        ("Plan-r4.md", None, "ORCHESTRATION_ARTIFACT_INVALID"),
        ("code.md", None, "ORCHESTRATION_ARTIFACT_INVALID"),
        ("review-plan.md", 1, "ORCHESTRATION_REVIEW_INVALID"),
        ("review-plan.md", 3, "ORCHESTRATION_REVIEW_INVALID"),
        ("review-code.md", None, "REVIEW_VERDICT_FINDING_MISMATCH"),
        ("plan-r2.md", None, "ORCHESTRATION_ARTIFACT_INVALID"),
    }
    out = world.call("task", "validate", TASK).out
    assert f"task.md:{lines['| CD-3 |']}: " in out
    assert "15 faults, 2 warnings" in out


def test_every_line_of_a_broken_front_matter_is_named(world: World) -> None:
    """Where single lines are at fault, each is; where it is the whole, that."""
    path = world.task()
    text = path.read_text()
    path.write_text(text.replace("type: bugfix", "type: bugfix\n  more: 1\ntype: docs\nlist: [a]\njust words"))
    assert [line for _, line, _ in faults(world)] == [4, 5, 6, 7]
    path.write_text(text.replace("---\n\n#", "\n\n#"))
    assert [line for _, line, _ in faults(world)][:1] == [1]


@pytest.mark.parametrize(
    ("data", "line"),
    [pytest.param(b"---\nid: \xff\n---\n", 2, id="not UTF-8"), pytest.param(b"", 1, id="empty")],
)
def test_a_task_that_is_no_document(world: World, data: bytes, line: int) -> None:
    """It is a fault like any other."""
    world.task().write_bytes(data)
    assert ("task.md", line, "TASK_DOCUMENT_INVALID") in faults(world)


def test_artifacts_and_the_registry_are_looked_at_too(world: World) -> None:
    """Bytes that are no text, a review that names nothing, front matter, short ids that can't be read."""
    world.task()
    (world.folder() / "plan.md").write_bytes(b"# Plan\n\xff\n")
    world.artifact("code", text="---\na: [1\n---\n# Code\n")
    world.artifact("review-code", text="---\na: &x 1\n---\n# Review\n")
    world.review("analysis", of="plan.md")
    world.write(".agents/workspace/active/.short-ids.json", "{")
    assert set(faults(world)) == {
        ("plan.md", 2, "TASK_DOCUMENT_INVALID"),
        ("code.md", 3, "TASK_DOCUMENT_INVALID"),
        ("review-code.md", 2, "TASK_DOCUMENT_INVALID"),
        ("review-code.md", 1, "ORCHESTRATION_REVIEW_INVALID"),
        ("review-analysis.md", None, "ORCHESTRATION_REVIEW_INVALID"),
        (".short-ids.json", None, "SHORT_ID_REGISTRY_INVALID_JSON"),
    }


def test_a_task_in_two_states_is_the_active_one(world: World) -> None:
    """Both are listed, each with its state."""
    text = world.task().read_text()
    world.write(f".agents/workspace/completed/{TASK}/task.md", text.replace("status: active", "status: completed"))
    assert world.call("task", "show", TASK, "--json")["state"] == "active"
    listed = world.call("task", "ls", "--all", "--json")["tasks"]
    assert [(one["taskId"], one["state"]) for one in listed] == [(TASK, "active"), (TASK, "completed")]


@pytest.mark.parametrize("state", ["blocked", "completed"])
def test_the_status_of_a_task_that_is_not_active(world: World, state: str) -> None:
    """It has no next step; moving it back is another matter."""
    text = world.task().read_text().replace("status: active", f"status: {state}").replace(TASK, OTHER)
    world.write(f".agents/workspace/{state}/{OTHER}/task.md", text)
    found = status(world, OTHER)
    assert (found.exit, found["state"], found["next"], found["command"]) == (0, state, None, None)


def test_what_only_a_person_can_do_next(world: World) -> None:
    """A validation by hand, and a finding that nobody settled."""
    world.begun("--flow", "streamlined")
    world.to("review-code")
    step = world.activated()
    world.review("code", manual=2)
    world.complete(step)
    world.stop(step["role"])
    world.ok("advance")
    assert status(world)["command"] == f"agent-infra task validate-manual {TASK} --result …"


def test_a_finding_that_a_review_must_settle(world: World) -> None:
    """The code stage is opened again."""
    world.begun("--flow", "streamlined")
    world.to("commit")
    world.row(ROW)
    found = status(world)
    assert "CD-1" in found["gate"]["why"][0]
    assert found["command"] == f"agent-infra orchestrate reopen {TASK} --stage code --reason …"
    path = world.folder() / "task.md"
    path.write_text(path.read_text().replace("| CD-1 |", "| CD-x |"))
    assert status(world)["command"] == f"agent-infra task validate {TASK}"


def test_the_run_of_another_worktree(world: World) -> None:
    """git is asked where the work is done; a worktree that is gone is said."""
    world.git("worktree", "add", "-q", "../other", "-b", "side")
    other = world.base / "other"
    world.task()
    world.ok("begin", cwd=other)
    (other / "new.txt").write_text("x")
    found = status(world)
    assert (found["git"]["branch"], found["git"]["changed"], found["git"]["matches"]) == ("side", 1, True)
    world.git("worktree", "remove", "--force", "../other")
    found = status(world)
    assert found.exit == 1
    assert found["git"]["branch"] is None


def test_a_gap_and_an_odd_name_are_only_warned_of(world: World) -> None:
    """They route all the same; a file that is nobody's business is not named."""
    world.task(extra="priorty: High\n")
    world.artifact("plan", 2)
    world.artifact("code", text="# Code\n\n```\nopen\n")
    (world.folder() / "plan-risks.md").write_text("x")
    answer = world.call("task", "validate", TASK, "--json")
    assert (answer.exit, answer["valid"]) == (0, True)
    assert {(one["file"], one["level"]) for one in answer["faults"]} == {
        ("plan.md", "warning"),
        ("code.md", "warning"),
        ("task.md", "warning"),
    }
    assert "never closed" in str(answer["faults"])
    assert "did you mean priority?" in str(answer["faults"])


def test_a_row_that_was_closed_by_hand_and_a_view_that_was_edited(world: World) -> None:
    """What the journal knows is compared too."""
    world.begun("--flow", "streamlined")
    world.row(ROW)
    world.step()
    path = world.folder() / "task.md"
    path.write_text(path.read_text().replace("| open | review-code", "| closed | review-code"))
    assert ("task.md", None, "ORCHESTRATION_LEDGER_UNPROVEN") in faults(world)
    world.view().write_text("{}")
    assert ("orchestration.json", None, "ORCHESTRATION_STATE_TAMPERED") in faults(world)


def test_the_status_fits_the_folder(world: World) -> None:
    """A task that was moved by hand says so; a cancelled one is completed."""
    text = world.task().read_text()
    world.write(f".agents/workspace/blocked/{OTHER}/task.md", text.replace(TASK, OTHER))
    assert faults(world, OTHER) == [("task.md", 5, "TASK_DOCUMENT_INVALID")]
    world.write(f".agents/workspace/archive/2026/01/01/{OTHER[:-1]}1/task.md", text.replace(TASK, OTHER[:-1] + "1"))
    assert faults(world, OTHER[:-1] + "1") == [("task.md", 5, "TASK_DOCUMENT_INVALID")]


# -- edit --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_an_edit_changes_its_lines_and_no_other(world: World, eol: str) -> None:
    """Comments, order and line ends stay; `updated_at` and the version are renewed."""
    path = world.task(extra="# mine\npriority: Low # why not\ntarget_date: 2026-01-31\n", newline=eol)
    path.chmod(0o640)
    before = path.read_bytes().decode()
    words = ["--set", "priority=High", "--set", "type=docs", "--unset", "target_date", "--set", "effort=Low"]
    answer = world.call("task", "edit", TASK, *words, "--json")
    assert (answer.exit, answer["changed"], answer["fields"]["workflow"]) == (0, True, "feature-development")
    after = path.read_bytes().decode()
    kept = [
        line for line in before.split(eol) if not line.startswith(("type", "workflow", "priority", "target", "updated"))
    ]
    assert [line for line in after.split(eol) if line in kept] == kept
    assert f"priority: High # why not{eol}effort: Low{eol}---{eol}" in after
    assert f"type: docs{eol}workflow: feature-development{eol}" in after
    assert "updated_at: 2026-01-01 12" not in after
    assert "target_date" not in after
    assert path.stat().st_mode & 0o777 == 0o640
    assert faults(world) == []


def test_an_edit_that_changes_nothing_writes_nothing(world: World) -> None:
    """Not even the time."""
    before = world.task().read_bytes()
    answer = world.call("task", "edit", TASK, "--set", "type=bugfix", "--unset", "target_date", "--json")
    assert (answer.exit, answer["changed"]) == (0, False)
    assert (world.folder() / "task.md").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(["--set", "type=epic"], "one of feature", id="no such type"),
        pytest.param(["--set", "priority=high"], "Urgent", id="another case"),
        pytest.param(["--set", "flow=fast"], "full", id="no such flow"),
        pytest.param(["--set", "target_date=2026-02-31"], "a day", id="a day that is none"),
        pytest.param(["--set", "branch=a b"], "branch", id="a branch that git refuses"),
        pytest.param(["--set", "issue_number=07"], "number", id="a padded number"),
        pytest.param(["--set", "current_step=done"], "requirement-analysis", id="no such step"),
        pytest.param(["--set", "id=TASK-20260101-120001"], "made", id="the id"),
        pytest.param(["--set", "status=completed"], "moved", id="the status"),
        pytest.param(["--unset", "updated_at"], "renews", id="what we renew"),
        pytest.param(["--unset", "type"], "empty", id="a field that must be there"),
        pytest.param(["--set", "assigned_to="], "empty", id="a field that must not be empty"),
        pytest.param(["--set", "priorty=High"], "priority", id="a slip of the pen"),
        pytest.param(["--set", "mine=1"], "--add", id="a field that nobody knows"),
        pytest.param(["--set", "workflow=refactoring"], "bug-fix", id="the workflow of another type"),
        pytest.param(["--set", "cancel_reason=a\nb"], "moved", id="two lines"),
        pytest.param(["--add", "--set", "mine=a\nb"], "one line", id="two lines for a new field"),
    ],
)
def test_a_value_that_is_refused_leaves_the_bytes(world: World, words: list[str], why: str) -> None:
    """The field is named with the values that it takes; good values beside it are not written either."""
    before = world.task().read_bytes()
    answer = world.call("task", "edit", TASK, "--set", "effort=High", *words)
    assert (answer.exit, code(answer)) == (1, "MUTATION_INVALID")
    assert why in answer.err
    assert (world.folder() / "task.md").read_bytes() == before


def test_a_field_of_ones_own(world: World) -> None:
    """It is let in by name, and then changed like any other."""
    world.task()
    assert world.call("task", "edit", TASK, "--add", "--set", "sprint=12: late").exit == 0
    answer = world.call("task", "edit", TASK, "--set", "sprint='13'", "--json")
    assert answer["fields"]["sprint"] == "'13'"


@pytest.mark.parametrize(
    "words", [[], ["--set", "a"], ["--set", "a=1", "--unset", "a"], ["--set", "a=1", "--set", "a=2"]]
)
def test_a_wrong_call_of_edit(world: World, words: list[str]) -> None:
    """Nothing to do, no value, or one field twice."""
    world.task()
    assert world.call("task", "edit", TASK, *words).exit == 2


def test_a_broken_front_matter_is_not_edited(world: World) -> None:
    """It is mended by hand first."""
    path = world.task()
    path.write_text(path.read_text().replace("type: bugfix", "type: bugfix\ntype: docs"))
    assert code(world.call("task", "edit", TASK, "--set", "effort=High")) == "TASK_DOCUMENT_INVALID"
