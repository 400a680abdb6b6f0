"""Subtasks from the plan to the merged result, as a person calls them, with real processes and real worktrees."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.board import CONFIG, PROGRAM, TASK, Board, make_board, three, wait_until

DONE = "completed"


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return make_board(tmp_path)


def statuses(result: dict) -> dict[str, str]:
    return {child["subtaskId"]: child["status"] for child in result["children"]}


def test_a_dry_run_changes_no_byte(board: Board) -> None:
    """`plan` shows waves, assignments and conflicts, also of a plan that nobody has approved, and touches nothing."""
    three(board)
    (board.folder / "review-plan.md").unlink()
    before = board.digest()
    answer = board.call("plan", "--parallel", "3")
    assert board.digest() == before
    assert answer.code == 0
    result = answer.result
    assert (result["schemaVersion"], result["mode"], result["executed"]) == (1, "dry-run", False)
    assert result["plan"]["completedPlanning"] is True
    assert result["executionPlan"]["concurrency"] == {"maxConcurrent": 3, "observedMaxActive": 0}
    assert [wave["parallelSubtaskIds"] for wave in result["executionPlan"]["waves"]] == [["a", "b"], ["c"]]
    assert "executionPlan" not in board.call("plan").result


def test_waves_run_and_become_the_parents(board: Board) -> None:
    """Each child works in its own worktree; results are merged, files arrive, HEAD and index stay, nothing is left."""
    three(board)
    head, index = board.git("rev-parse", "HEAD"), board.git("ls-files", "-s")
    answer = board.call("run", "--parallel", "2")
    assert (answer.code, answer.result["parentStatus"]) == (0, DONE)
    assert statuses(answer.result) == {"a": DONE, "b": DONE, "c": DONE}
    assert board.read("src/c.py") == "A = 1\nB = 1\n"
    assert (board.git("rev-parse", "HEAD"), board.git("ls-files", "-s")) == (head, index)
    assert len(board.git("worktree", "list").splitlines()) == 1
    for name in "abc":
        commit = board.git("rev-parse", f"refs/agent-infra/subtasks/{TASK}/{name}")
        board.git("merge-base", "--is-ancestor", commit, f"refs/agent-infra/results/{TASK}")
    facts = next(child["facts"] for child in answer.result["children"] if child["subtaskId"] == "a")
    assert (facts["createdFiles"], facts["code"], facts["undeclaredFiles"]) == (["src/a.py"], 0, [])
    assert answer.result["children"][0]["inherited"]["priority"] == "high"


def test_what_is_done_is_not_repeated(board: Board) -> None:
    """A second run skips every child as already terminal, and says the same of the parent."""
    three(board)
    board.does(a="echo x >> $SCRIPTS/count; echo 'A = 1' > src/a.py")
    first = board.call("run")
    again = board.call("run")
    assert (board.scripts / "count").read_text() == "x\n"
    assert {child["skipped"] for child in again.result["children"]} == {"already_terminal"}
    assert (first.result["parentStatus"], again.result["parentStatus"]) == (DONE, DONE)
    assert [line["attempt"] for line in board.events("orchestration_started")] == [1, 2]


def test_a_changed_definition_is_another_piece_of_work(board: Board) -> None:
    """A completed child whose subtask now says something else is done again, and that is said."""
    three(board)
    board.call("run")
    board.plan("- {id: a, files: [src/a.py], title: another}")
    board.does(a="echo 'A = 2' > src/a.py")
    answer = board.call("run")
    assert answer.code == 0
    assert any("a: the plan says something else now" in word for word in answer.result["warnings"])
    assert board.read("src/a.py") == "A = 2\n"


def test_a_failure_blocks_what_waits_for_it_and_can_be_retried(board: Board) -> None:
    """failed by its own code; dependents blocked; `--retry` runs both kinds again as new attempts."""
    three(board)
    board.does(a="exit 3")
    answer = board.call("run", "--parallel")
    assert (answer.code, answer.result["parentStatus"]) == (1, "failed")
    assert statuses(answer.result) == {"a": "failed", "b": DONE, "c": "blocked"}
    reasons = {child["subtaskId"]: child["reason"] for child in answer.result["children"]}
    assert reasons["c"] == "dependency a finished as failed"
    assert answer.result["consolidation"]["codeFailures"] == ["a: code"]
    board.does(a="echo 'A = 1' > src/a.py")
    assert statuses(board.call("resume").result)["a"] == "failed"
    mended = board.call("run", "--retry", "failed,blocked")
    assert mended.result["parentStatus"] == DONE
    assert {child["attempt"] for child in mended.result["children"]} == {1, 2}
    assert board.read("src/c.py") == "A = 1\nB = 1\n"


@pytest.mark.parametrize(
    ("script", "settings", "category"),
    [
        pytest.param("kill -9 $$", "", "infrastructure", id="ended by a signal"),
        pytest.param("sleep 60", "timeout = 0.3\n", "timeout", id="out of time"),
        pytest.param("no-such-program-at-all", "", "missing-program", id="no such program"),
        pytest.param(
            "head -c 3000 /dev/zero; sleep 60", "[subtasks]\noutput_limit = 1024\n", "infrastructure", id="talk"
        ),
    ],
)
def test_failures_that_are_not_the_childs(board: Board, script: str, settings: str, category: str) -> None:
    """Classed as infrastructure: inconclusive, so the parent is blocked, not failed."""
    board.sandbox.write({".agents/config.toml": CONFIG + settings})
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a=script)
    result = board.call("run").result
    facts = result["children"][0]["facts"]
    assert (facts["failureCategory"], facts["infrastructureFailure"]) == (category, True)
    assert (result["consolidation"]["status"], result["parentStatus"]) == ("inconclusive", "blocked")


def test_a_merge_conflict_harms_nothing(board: Board) -> None:
    """Two children change one line: the second needs a person, the paths and both children are named."""
    board.plan("- {id: a, files: [src/a.py]}\n- {id: b, files: [src/b.py]}")
    board.does(a="echo one > src/base.txt; echo > src/a.py", b="echo two > src/base.txt; echo > src/b.py")
    answer = board.call("run", "--parallel", "2")
    assert statuses(answer.result) == {"a": "completed_with_warnings", "b": "needs_human"}
    reason = answer.result["children"][1]["reason"]
    assert reason == "merge conflict in src/base.txt with a"
    assert (answer.result["parentStatus"], board.read("src/base.txt")) == ("needs_human", "one\n")
    assert not (board.path / "src" / "b.py").exists()
    kept = board.call("clean").result["kept"]
    assert [one["subtask"] for one in kept] == ["b"]
    assert "src/base.txt" in kept[0]["files"]


def test_subtasks_that_share_files_are_merged_one_after_the_other(board: Board) -> None:
    """Serial ones of a wave start from what the one before left, so they don't conflict; that both wrote is said."""
    board.plan("- {id: a, files: [src/base.txt]}\n- {id: b, files: [src/base.txt]}")
    board.does(a="echo a >> src/base.txt", b="echo b >> src/base.txt")
    answer = board.call("run", "--parallel", "4")
    assert answer.result["executionPlan"]["waves"] == [
        {"waveIndex": 0, "parallelSubtaskIds": [], "serialSubtaskIds": ["a", "b"]}
    ]
    assert board.read("src/base.txt") == "base\na\nb\n"
    assert answer.result["parentStatus"] == "completed_with_warnings"
    assert "src/base.txt changed by more than one subtask" in answer.result["consolidation"]["inconsistencies"]


def test_a_child_that_writes_into_the_main_checkout_is_named(board: Board) -> None:
    """The wave stops, nothing is merged over the stranger's bytes."""
    board.plan("- {id: a, files: [src/a.py]}\n- {id: b, files: [src/b.py], blockedBy: [a]}")
    board.does(a=f"echo evil > {board.path}/src/base.txt; echo > src/a.py", b="echo > src/b.py")
    answer = board.call("run")
    assert answer.code == 1
    assert statuses(answer.result) == {"a": "needs_human", "b": "pending"}
    assert "src/base.txt" in answer.result["children"][0]["reason"]
    assert not (board.path / "src" / "a.py").exists()


def test_a_child_that_moves_the_main_branch_is_named(board: Board) -> None:
    """HEAD, index and refs of the checkout are looked at too; ours are ours."""
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="git update-ref refs/heads/other HEAD; echo > src/a.py")
    result = board.call("run").result
    assert "refs" in result["children"][0]["reason"]
    assert result["parentStatus"] == "needs_human"


def test_files_that_changed_meanwhile_are_never_overwritten(board: Board) -> None:
    """Dirty files of the checkout are no part of the base; a child's result over one of them waits for a person."""
    board.sandbox.write({"src/base.txt": "mine\n"})
    board.plan("- {id: a, files: [src/base.txt]}")
    board.does(a="cat src/base.txt; echo child > src/base.txt")
    answer = board.call("run")
    assert (answer.code, answer.result["parentStatus"]) == (1, "needs_human")
    assert "SUBTASK_MERGE_CONFLICT" in answer.result["errors"][0]
    assert board.read("src/base.txt") == "mine\n"
    board.git("checkout", "-q", "src/base.txt")
    assert board.call("resume").result["parentStatus"] == DONE
    assert board.read("src/base.txt") == "child\n"


def test_children_get_what_the_settings_bring_along(board: Board) -> None:
    """`.env` is copied and never part of a result; strangers in the checkout don't reach a child."""
    board.sandbox.write({".agents/config.toml": CONFIG + '[subtasks]\ncopy = [".env", "local.cfg"]\n'})
    board.sandbox.write({".env": "KEY=1\n", "local.cfg": "x\n", "stranger.txt": "s\n"})
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="grep -q KEY .env; test -f local.cfg; test ! -e stranger.txt; echo > src/a.py")
    answer = board.call("run")
    assert answer.result["parentStatus"] == DONE, answer
    assert answer.result["children"][0]["facts"]["createdFiles"] == ["src/a.py"]


def test_acceptance_is_run_on_the_merged_tree(board: Board) -> None:
    """A command that fails rejects; words without evidence leave it open."""
    board.plan('- {id: a, files: [src/a.py], acceptance: ["run: grep -q A src/a.py"]}')
    board.does(a="echo 'A = 1' > src/a.py")
    found = board.call("run").result["verification"]
    assert found["outcome"] == "verified"
    assert board.git("rev-parse", f"refs/agent-infra/results/{TASK}^{{tree}}") in found["criteria"][0]["reason"]
    board.plan('- {id: a, files: [src/a.py], acceptance: ["run: grep -q B src/a.py"]}')
    assert board.call("run").result["parentStatus"] == "failed"
    board.plan("- {id: a, files: [src/a.py], acceptance: [it is nice]}")
    assert board.call("run").result["parentStatus"] == "blocked"


def test_undeclared_and_unreadable_files_are_said(board: Board) -> None:
    """Both are warnings of the run, and so of the parent."""
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="echo 'def (' > src/a.py; echo x > src/other.txt")
    result = board.call("run").result
    facts = result["children"][0]["facts"]
    assert facts["undeclaredFiles"] == ["src/other.txt"]
    assert facts["syntaxValidationFailed"] is True
    assert result["parentStatus"] == "completed_with_warnings"


def test_the_environment_of_a_child(board: Board) -> None:
    """Task, subtask, prompt file and depth; a nested orchestration below the limit is counted, above it refused."""
    board.plan("- {id: a, files: [src/a.py], title: Do it}")
    board.does(a='grep -q "Do it" "$AGENT_INFRA_PROMPT_FILE"; echo "$AGENT_INFRA_TASK $AGENT_INFRA_DEPTH" > src/a.py')
    assert board.call("run", AGENT_INFRA_DEPTH="1").code == 0
    assert board.read("src/a.py") == f"{TASK} 2\n"
    refused = board.call("run", AGENT_INFRA_DEPTH="2")
    assert (refused.code, refused.result["executed"], refused.result["parentStatus"]) == (1, False, "blocked")
    assert "depth 3" in refused.result["statusOverrideReason"]
    assert board.events("orchestration_blocked")[-1]["reason"] == refused.result["statusOverrideReason"]
    assert "expected a number" in board.call("run", AGENT_INFRA_DEPTH="x").result["errors"][0]


@pytest.mark.parametrize(
    ("subtasks", "reason"),
    [
        pytest.param("- {id: a, blockedBy: [b]}\n- {id: b, blockedBy: [a]}", "a -> b -> a", id="cycle"),
        pytest.param("- {id: a, files: [../x]}", "leaves the worktree", id="a target outside"),
        pytest.param("- {id: a, engine: zsh}", "zsh is not configured", id="unknown engine"),
        pytest.param("- {id: a, blockedBy: [x]}", "no subtask of this plan", id="unknown dependency"),
    ],
)
def test_a_plan_that_can_not_be_run_starts_nothing(board: Board, subtasks: str, reason: str) -> None:
    """Blocked, on the trail, no child, no worktree, no ref."""
    board.plan(subtasks)
    answer = board.call("run")
    assert (answer.code, answer.result["executed"], answer.result["children"]) == (1, False, [])
    assert reason in json.dumps(answer.result["errors"])
    assert board.git("for-each-ref", "refs/agent-infra") == ""
    assert [line["eventType"] for line in board.trail()] == ["orchestration_blocked"]


def test_a_plan_is_run_when_it_is_approved(board: Board) -> None:
    """Its review comes first."""
    board.plan("- {id: a, files: [src/a.py]}", review=False)
    answer = board.call("run")
    assert "plan.md is not approved" in answer.result["errors"][0]
    assert answer.code == 1


def test_a_task_that_is_not_split_is_run_directly(board: Board) -> None:
    """One engine, one status; once it is over, resume says so and runs nothing."""
    board.does(task="echo x >> $SCRIPTS/count; echo > src/a.py")
    answer = board.call("run")
    assert (answer.result["parentStatus"], answer.result["plan"]["decisions"]) == (DONE, ["RUN"])
    again = board.call("resume")
    assert (again.code, (board.scripts / "count").read_text()) == (0, "x\n")
    assert "is completed already" in again.result["warnings"][0]


def test_one_orchestration_of_a_task_at_a_time(board: Board) -> None:
    """A second one is refused while the first is at work, and harms nothing."""
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="while [ ! -e $SCRIPTS/go ]; do sleep 0.02; done; echo > src/a.py")
    first = board.start()
    wait_until(lambda: bool(board.events("child_started")))
    second = board.call("run")
    assert second.code == 1
    assert "LOCK_TIMEOUT" in second.result["errors"][0]
    assert board.call("status").result["isRunning"] is True
    (board.scripts / "go").touch()
    out, _ = first.communicate(timeout=60)
    assert json.loads(out)["parentStatus"] == DONE


def test_interrupting_ends_the_children_and_can_be_resumed(board: Board) -> None:
    """Ctrl-C ends whole process groups; resume runs the lost child again and keeps what it had done under a ref."""
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(
        a="echo half > src/a.py; echo $$ > $SCRIPTS/pid; sleep 300 & echo $! > $SCRIPTS/grandchild; wait",
    )
    running = board.start()
    wait_until((board.scripts / "grandchild").exists)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    for name in ("pid", "grandchild"):
        pid = int((board.scripts / name).read_text())
        wait_until(lambda pid=pid: not is_alive(pid))
    board.does(a="echo 'A = 1' > src/a.py")
    answer = board.call("resume")
    assert (answer.result["parentStatus"], answer.result["children"][0]["attempt"]) == (DONE, 2)
    assert board.git("show", f"refs/agent-infra/lost/{TASK}/a-1:src/a.py") == "half"
    assert board.events("resumed")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_people_read_lines(board: Board) -> None:
    """Without --json each thing is a short line; the story can be read back."""
    three(board)
    board.does(a="exit 1")

    def said(verb: str) -> str:
        argv = [PROGRAM, "subtasks", verb, TASK]
        done = subprocess.run(
            argv, cwd=board.path, env=board.environment(), capture_output=True, text=True, check=False
        )
        return done.stdout

    assert "order: a, b, c" in said("plan")
    ran = said("run")
    assert "a: failed (attempt 1): code: exit 1" in ran
    assert "c: blocked (attempt 1): dependency a finished as failed" in ran
    assert "because: verifier rejected" in said("status")
    assert "child_finished a failed" in said("trail")
    assert "kept" in said("clean")


def test_what_a_child_left_can_be_let_go(board: Board) -> None:
    """`clean --discard` keeps the work under a ref, then removes the worktree."""
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="echo half > src/a.py; exit 1")
    board.call("run")
    assert len(board.call("clean").result["kept"]) == 1
    cleaned = board.call("clean", "--discard", "a").result
    assert (len(cleaned["done"]), cleaned["kept"]) == (1, [])
    assert board.git("show", f"refs/agent-infra/lost/{TASK}/a-1:src/a.py") == "half"


def test_an_unknown_task_is_a_result_with_errors(board: Board) -> None:
    """The shape is the same for programs, whatever is wrong."""
    done = subprocess.run(
        [PROGRAM, "subtasks", "run", "TASK-20200101-000000", "--json"], cwd=board.path, capture_output=True, check=False
    )
    result = json.loads(done.stdout)
    assert (done.returncode, result["executed"], result["schemaVersion"]) == (1, False, 1)
    assert "TASK_NOT_FOUND" in result["errors"][0]


def test_a_scripted_engine_does_what_its_script_says(board: Board) -> None:
    """One attempt after the other, by the number of the child's attempt."""
    script = {"version": 1, "subtasks": {"a": [{"exit": 1}, {"write": {"src/a.py": "A = 1\n"}}]}}
    board.sandbox.write({"script.json": json.dumps(script)})
    board.sandbox.write({".agents/config.toml": '[engines.s]\nkind = "scripted"\nscript = "script.json"\n'})
    board.plan("- {id: a, files: [src/a.py]}")
    assert board.call("run").result["parentStatus"] == "failed"
    assert board.call("run", "--retry", "failed").result["parentStatus"] == DONE
    assert board.read("src/a.py") == "A = 1\n"


def test_doctor_names_what_subtasks_left(board: Board) -> None:
    """A worktree that still holds work, and an orchestration that was stopped half-way, each with its command."""
    board.plan("- {id: a, files: [src/a.py]}")
    board.does(a="echo half > src/a.py; exit 1")
    board.call("run")
    assert f"agent-infra subtasks clean {TASK}" in doctor(board)
    board.does(a="echo $$ > $SCRIPTS/pid; sleep 300")
    running = board.start("--retry", "failed")
    wait_until((board.scripts / "pid").exists)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert f"agent-infra subtasks resume {TASK}" in doctor(board)


def doctor(board: Board) -> str:
    done = subprocess.run([PROGRAM, "doctor", "--json"], cwd=board.path, capture_output=True, text=True, check=False)
    return done.stdout
