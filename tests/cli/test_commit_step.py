"""The last step: authorization at `prepare`, one commit, and the run is completed."""

import pytest

from tests.support.world import TASK, World


@pytest.fixture
def ready(world: World) -> World:
    """A streamlined run whose code is approved, with git's hooks installed."""
    world.write(".agents/.gitignore", "workspace/\n")
    assert world.call("init", "--yes").exit == 0
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "settings")
    world.begun("--flow", "streamlined")
    world.to("commit")
    return world


@pytest.mark.parametrize("flow", ["full", "standard", "streamlined"])
def test_every_flow_ends_in_a_commit(world: World, flow: str) -> None:
    """From begin to a commit that was earned, which holds what was reviewed and nothing else."""
    world.call("init", "--yes")
    world.write("notes.txt", "scratch\n")
    world.begun("--flow", flow)
    world.to("commit")
    head = world.git("rev-parse", "HEAD")
    assert world.run()["commitAuthorization"]["issuedAt"] is None
    step = world.activated()
    assert step == {"action": "commit", "role": "executor", "stage": "commit", "round": 1, "artifact": "commit"}
    issued = world.run()["commitAuthorization"]
    assert issued["issuedAt"]
    assert (issued["head"], issued["ref"], issued["consumedAt"]) == (head, "refs/heads/main", None)
    world.work(step)
    assert world.git("rev-parse", "HEAD^{tree}") == issued["tree"]
    assert world.complete(step).exit == 0
    assert world.stop("executor").exit == 0
    assert world.run()["commitAuthorization"]["consumedAt"] is None
    done = world.ok("advance")
    assert (done["status"], done["next"]) == ("completed", None)
    run = world.run()
    assert run["commitAuthorization"]["consumedAt"] == run["receipts"][-1]["consumedAt"]
    assert run["commitAuthorization"]["commit"] == world.git("rev-parse", "HEAD")
    assert world.git("show", "--name-only", "--format=", "HEAD") == "src/app.py"
    assert f"Agent-Infra-Task: {TASK}" in world.git("log", "-1", "--format=%B")
    assert not (world.common / "guards" / TASK).exists()
    text = (world.folder() / "task.md").read_text()
    assert f"**Commit** by claude — {world.git('rev-parse', 'HEAD')[:7]}" in text


def test_what_the_brief_of_a_commit_lists(ready: World) -> None:
    """The paths to commit, in `prepare` and in the brief."""
    assert "src/app.py" in ready.ok("prepare", "--client", "claude-code").notes
    assert "src/app.py" in ready.ok("brief")["brief"]


def test_without_hooks_nothing_is_authorized(world: World) -> None:
    """git would not ask us; `init` helps."""
    world.begun("--flow", "streamlined")
    world.to("commit")
    assert "init" in world.refused("ORCHESTRATION_HOOKS_MISSING", "prepare", "--client", "claude-code").message


def test_complete_without_the_commit(ready: World) -> None:
    """HEAD must have the authorized parent, tree and trailers; the receipt waits for it."""
    step = ready.activated()
    assert ready.complete(step).code == "ORCHESTRATION_COMMIT_MISSING"
    assert ready.pending()["status"] == "activated"
    ready.work(step)
    assert ready.complete(step).exit == 0


def test_a_commit_that_slipped_past_the_message_hook(ready: World) -> None:
    """Right tree, no trailers: not the one that was authorized."""
    step = ready.activated()
    ready.git("add", "src")
    tree = ready.git("write-tree")
    assert tree == ready.run()["commitAuthorization"]["tree"]
    new = ready.git("commit-tree", tree, "-p", "HEAD", "-m", "plumbing")
    ready.git("-c", "core.hooksPath=/dev/null", "update-ref", "refs/heads/main", new)
    answer = ready.complete(step)
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_COMMIT_MISSING")
    assert "Agent-Infra" in answer.message


def test_our_own_command_commits_what_was_reviewed(ready: World) -> None:
    """Nobody has to guess the tree."""
    ready.write("README.md", "# not reviewed, staged\n")
    ready.git("add", "README.md")
    ready.git("checkout", "-q", "HEAD", "--", "README.md")
    step = ready.activated()
    assert ready.call("commit", TASK, "-m", "fix: the sum").exit == 0
    assert ready.complete(step).exit == 0
    assert ready.stop("executor").exit == 0
    assert ready.ok("advance")["status"] == "completed"


def test_abandon_before_the_commit_takes_the_leave_back(ready: World) -> None:
    """The authorization is cleared, and git refuses again."""
    ready.activated()
    answer = ready.ok("abandon", "--reason", "doubt")
    assert answer["run"]["commitAuthorization"]["issuedAt"] is None
    ready.git("add", "src")
    ready.git("commit", "-q", "-m", "early", check=False)
    assert TASK in ready.said
    assert ready.git("status", "--porcelain") == "M  src/app.py"


def test_abandon_after_the_commit_completes_the_run(ready: World) -> None:
    """The commit is history; the step counts as done though nobody sealed it."""
    ready.work(ready.activated())
    answer = ready.ok("abandon", "--reason", "child gone")
    assert (answer["status"], answer["run"]["receipts"][-1]["status"]) == ("completed", "aborted")
    assert answer["run"]["commitAuthorization"]["consumedAt"]
    assert not (ready.common / "guards" / TASK).exists()


def test_nothing_to_commit_completes_the_run(world: World) -> None:
    """HEAD has the authorized tree already, so no receipt is made."""
    world.call("init", "--yes")
    world.begun("--flow", "streamlined")
    world.step()
    step = world.activated()
    world.artifact("code")
    assert world.complete(step).exit == 0
    world.stop("executor")
    world.ok("advance")
    world.step()
    answer = world.ok("prepare", "--client", "claude-code")
    assert (answer["status"], answer["changed"], answer["next"]) == ("completed", True, None)
    assert world.run()["pendingDelegation"] is None
    assert "nothing to commit" in answer.notes


def completed(world: World) -> None:
    step = world.activated()
    world.work(step)
    world.complete(step)
    world.stop("executor")
    world.ok("advance")


def test_a_completed_run_is_answered_as_it_is(ready: World) -> None:
    """begin, route, status and end answer; nothing can be prepared or paused."""
    completed(ready)
    for verb in ("begin", "route", "status"):
        answer = ready.ok(verb)
        assert (answer["status"], answer["changed"], answer["next"]) == ("completed", False, None)
    ready.refused("ORCHESTRATION_RUN_NOT_RUNNING", "prepare", "--client", "claude-code")
    ready.refused("ORCHESTRATION_RUN_COMPLETED", "pause", "--code", "X", "--message", "y")
    ready.refused("ORCHESTRATION_DELEGATION_MISSING", "advance")
    assert ready.stop("executor", "auto")["changed"] is False


def test_a_completed_run_is_reopened(ready: World) -> None:
    """It runs and guards again, with a new round and a new authorization."""
    completed(ready)
    answer = ready.ok("reopen", "--stage", "code", "--reason", "a bug")
    assert (answer["status"], answer.step) == ("running", ("code", 2))
    assert answer["run"]["commitAuthorization"]["issuedAt"] is None
    assert (ready.common / "guards" / TASK).exists()
    ready.step()
    ready.step()
    completed(ready)
    assert ready.run()["status"] == "completed"
    assert "# 2" in (ready.root / "src/app.py").read_text()
    assert ready.git("rev-list", "--count", "HEAD") == "4"
