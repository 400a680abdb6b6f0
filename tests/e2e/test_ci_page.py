"""What docs/ci.md tells people to copy works: the workflow's commands in a clone, the hook in a bare repository."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support import surroundings  # noqa: F401 - it brings the state `done`
from tests.support.lifecycle import PROGRAM, TASK, Answer, World, world_at

At = Callable[[str], World]
PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
REF = f"refs/agent-infra/runs/{TASK}"
NOTHING = "0" * 40


def block(language: str, marker: str) -> str:
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if marker in text]
    return found


@pytest.fixture
def done(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    return world_at("done", tmp_path_factory, monkeypatch)


def plain(world: World, name: str = "other.txt") -> None:
    """A commit that nobody reviewed."""
    world.write(name, "x\n")
    world.git("add", name)
    world.git("commit", "-q", "-m", f"plain {name}")


# -- the workflow ------------------------------------------------------------------------------------------------------


def workflow(world: World, *, fork: str = "") -> Answer:
    """What the job says about main~1..work, in a clone of the server; the last command's answer."""
    server, clone = world.root.parent / "server.git", world.root.parent / "clone"
    world.git("clone", "-q", str(server), str(clone), cwd=world.root.parent)
    base, head = (world.git("rev-parse", name, cwd=clone).out.strip() for name in ("origin/main", "origin/work"))
    job = yaml.safe_load(block("yaml", "jobs:"))["jobs"]["verify"]
    assert set(job["env"]) == {"BASE", "HEAD", "BRANCH", "FORK"}
    variables = {"BASE": base, "HEAD": head, "BRANCH": "main", "FORK": fork}
    commands = [step["run"] for step in job["steps"] if "run" in step and step["name"] != "Install"]
    answer = None
    for command in commands:  # a runner starts each with `bash -e`
        answer = world.run("bash", "-e", "-c", command, cwd=clone, env=variables, check=False)
        if answer.code:
            break
    assert answer is not None
    return answer


@pytest.fixture
def served(done: World) -> World:
    """A server that has main before the work, and the work on a branch."""
    server = done.root.parent / "server.git"
    done.git("init", "-q", "--bare", "-b", "main", str(server))
    done.git("push", "-q", str(server), "HEAD~1:refs/heads/main", "HEAD:refs/heads/work")
    return done


def push(world: World, *specs: str, code: int = 0, where: str = "server.git") -> str:
    answer = world.git("push", "-q", str(world.root.parent / where), *specs, check=False)
    assert (answer.code != 0) is (code != 0), answer
    return answer.err


def test_the_workflow_passes_what_was_earned(served: World) -> None:
    """With the evidence on the server, in a clone that knows nothing else."""
    push(served, f"{REF}:{REF}")
    assert workflow(served).code == 0


def test_the_workflow_fails_without_the_evidence(served: World) -> None:
    """Not found is never fine."""
    answer = workflow(served)
    assert answer.code == 2
    assert "VERIFY_EVIDENCE_MISSING" in answer.out + answer.err


def test_the_workflow_fails_for_what_nobody_reviewed(served: World) -> None:
    """One unreceipted commit on top is enough."""
    plain(served)
    push(served, "HEAD:refs/heads/work", f"{REF}:{REF}")
    answer = workflow(served)
    assert (answer.code, "unreceipted" in answer.out) == (1, True)


def test_a_change_can_not_weaken_the_rules_of_the_workflow(served: World) -> None:
    """They come from the protected branch."""
    served.write(".agents/config.toml", '[verify.require]\npaths = ["nothing"]\n')
    served.git("commit", "-qam", "weaken")
    push(served, "HEAD:refs/heads/work", f"{REF}:{REF}")
    assert workflow(served).code == 1


def test_the_evidence_of_a_fork_is_found_on_the_fork(served: World) -> None:
    """And never takes the place of the repository's own."""
    served.git("init", "-q", "--bare", str(served.root.parent / "fork.git"))
    push(served, f"{REF}:{REF}", where="fork.git")
    assert workflow(served, fork=str(served.root.parent / "fork.git")).code == 0


# -- the hook ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(done: World) -> World:
    """An empty server with the hook of the page."""
    server = done.root.parent / "server.git"
    done.git("init", "-q", "--bare", "-b", "main", str(server))
    hook = server / "hooks" / "pre-receive"
    hook.write_text(block("sh", "pre-receive"))
    hook.chmod(0o755)
    assert PROGRAM.parent.as_posix() in done.env["PATH"]
    push(done, "HEAD~1:refs/heads/main")  # the first push brings the rules
    return done


def test_the_hook_takes_branch_and_evidence_in_one_push(guarded: World) -> None:
    """Without the evidence nothing is taken, with it all is; pushed again there is nothing to say."""
    assert "VERIFY_EVIDENCE_MISSING" in push(guarded, "HEAD:refs/heads/main", code=1)
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}")
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}")
    push(guarded, "HEAD:refs/heads/same")  # a new branch without a new commit


def test_evidence_may_come_before_its_commits(guarded: World) -> None:
    """Then it is found on its ref."""
    push(guarded, f"{REF}:{REF}")
    push(guarded, "HEAD:refs/heads/topic")


def test_the_hook_refuses_what_nobody_reviewed_on_any_branch(guarded: World) -> None:
    """A new branch is checked from main on; one bad branch of several is enough; tags are not looked at."""
    plain(guarded)
    assert "unreceipted" in push(guarded, "HEAD:refs/heads/topic", f"{REF}:{REF}", code=1)
    both = ("HEAD~1:refs/heads/good", "HEAD:refs/heads/bad", f"{REF}:{REF}")
    assert "unreceipted" in push(guarded, *both, code=1)
    push(guarded, "HEAD:refs/tags/v1")


def test_the_hook_keeps_evidence_as_it_is(guarded: World) -> None:
    """Not rewound, not rewritten, not deleted; main is not deleted, other branches are."""
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}", "HEAD:refs/heads/topic")
    assert "only grows" in push(guarded, f"+{REF}~1:{REF}", code=1)
    assert "not deleted" in push(guarded, f":{REF}", code=1)
    assert "main is not deleted" in push(guarded, ":refs/heads/main", code=1)
    push(guarded, ":refs/heads/topic")


def test_the_hook_goes_by_the_rules_of_main(guarded: World) -> None:
    """A push that weakens them is judged by what main says before it."""
    guarded.write(".agents/config.toml", '[verify.require]\npaths = ["nothing"]\n')
    guarded.git("commit", "-qam", "weaken")
    assert "unreceipted" in push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}", code=1)
