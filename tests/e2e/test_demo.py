"""`scripts/demo` is the first thing that people run: it must work, tell the truth, and say no in words."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repos import Sandbox, sandbox

DEMO = Path(__file__).resolve().parents[2] / "scripts" / "demo"


def demo(cwd: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the demo with the program of this environment, its clone in a folder of the test."""
    program = Path(sys.executable).with_name("agent-infra")
    env = os.environ | {"AGENT_INFRA": str(program), "TMPDIR": str(cwd)} | variables
    return subprocess.run(
        [str(DEMO), *args], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def clone_in(folder: Path) -> Sandbox:
    """The repository that the demo left."""
    (clone,) = folder.glob("agent-infra-demo-*/repository")
    return Sandbox(clone)


def test_the_story_ends_in_a_commit_that_was_earned(tmp_path: Path) -> None:
    """Refusals and commit are told in order; the clone holds what was told; the repository itself is not touched.

    The demo may be started by an agent and inside of a git hook; neither changes the story.
    """
    source = sandbox(tmp_path / "source repository")
    head = source.git("rev-parse", "HEAD")
    source.write({"not committed": "x"})
    told = demo(tmp_path, "--repo", str(source.path), CLAUDECODE="1", GIT_DIR=str(tmp_path / "nowhere"))
    assert told.returncode == 0, told.stdout + told.stderr
    places = [
        told.stdout.index(words)
        for words in (
            "review-code round 1: done: changes-requested",
            "paused by DELEGATION_REVIEWER_WRITE_FORBIDDEN",
            "[COMMIT_UNAUTHORIZED]",
            "put back: demo_greeting.py",
            ": completed",
            "Agent-Infra-Task: TASK-",
            "git log -p refs/agent-infra/runs/TASK-",
        )
    ]
    assert places == sorted(places)
    clone = clone_in(tmp_path)
    assert str(clone.path) in told.stdout
    assert clone.git("show", "--format=%s", "--name-only", "HEAD").split("\n") == [
        "Greet people by name",
        "",
        "demo_greeting.py",
    ]
    assert int(clone.git("rev-list", "--count", "--glob=refs/agent-infra/runs/*")) > 5
    assert (source.git("rev-parse", "HEAD"), source.git("status", "--porcelain")) == (head, '?? "not committed"')


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(lambda path: sandbox(path, files={}), "has no commit yet", id="a repository without commits"),
        pytest.param(lambda path: path.mkdir(), "is no git repository", id="no repository"),
        pytest.param(
            lambda path: sandbox(path, files={"demo_greeting.py": "mine\n"}),
            "has a demo_greeting.py already",
            id="a repository with a file of that name",
        ),
    ],
)
def test_what_cannot_be_shown_is_said(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    """Exit 1 and a sentence, not a traceback."""
    make(tmp_path / "source")
    told = demo(tmp_path, "--repo", "source", GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert told.returncode == 1
    assert says in told.stderr
    assert "Traceback" not in told.stderr


def test_the_story_of_subtasks_is_true(tmp_path: Path) -> None:
    """Five children, a conflict, a failure and a resume; the story ends with 1 as soon as one of them is not so."""
    told = demo(tmp_path, "--subtasks")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "two children wrote one file: merge conflict in changelog.txt with change-a" in told.stdout
    assert told.stdout.rstrip().endswith("orchestration_finished completed_with_warnings")
