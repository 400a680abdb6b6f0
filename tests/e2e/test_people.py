"""People as children of a step: `work`, `review` and `commit` at a real pseudo-terminal; the editor is a script."""

import stat
from pathlib import Path

import pytest

from agent_infra.core.lifecycle import Flow, Stage, Step
from tests.support.lifecycle import TASK, World, artifact_text, terminal, world_at

REVIEW = Step(Stage.REVIEW_ANALYSIS, 1, "review-analysis.md")


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    """Hooks installed and a run of the full flow begun."""
    world = world_at("installed", tmp_path_factory, monkeypatch)
    world.make_task()
    world.begin(flow=Flow.FULL)
    return world


def editor(world: World, *scripts: str) -> dict[str, str]:
    """An editor that does the next of the scripts each time it is opened; `$1` is the file."""
    folder = world.root.parent / "editor"
    folder.mkdir(exist_ok=True)
    for number, script in enumerate(scripts, start=1):
        (folder / f"{number}").write_text(script + "\n")
    (folder / "count").write_text("0\n")
    path = folder / "my editor"
    path.write_text(
        f'#!/bin/sh\ncd "{folder}" || exit 9\nn=$(($(cat count) + 1))\necho $n >count\ncp "$1" "saw-$n"\n. "./$n"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"EDITOR": f"'{path}'"}


def typed(world: World, name: str, text: str) -> str:
    """A script of the editor that puts a text into the file as editors do: a new file, renamed over the old one."""
    path = world.root.parent / name
    path.write_text(text)
    return f'cp "{path}" "$1.tmp" && mv "$1.tmp" "$1"'


def test_a_person_does_executor_and_review_steps(world: World) -> None:
    """From the template to a consumed receipt in one sitting; the child is the person, the origin is human."""
    analysis = artifact_text(Step(Stage.ANALYSIS, 1, "analysis.md"))
    sitting = terminal(world, "work", TASK, env=editor(world, typed(world, "a", analysis)))
    code, said = sitting.end()
    assert code == 0, said
    assert f"{TASK}: running" in said
    template = (world.root.parent / "editor/saw-1").read_text()
    assert TASK in template
    sitting = terminal(world, "review", TASK, env=editor(world, typed(world, "r", artifact_text(REVIEW))))
    code, said = sitting.end()
    assert code == 0, said
    template = (world.root.parent / "editor/saw-1").read_text()
    assert "`analysis.md`" in template
    first, second = world.view()["receipts"]
    assert [first["artifact"], second["artifact"]] == ["analysis.md", "review-analysis.md"]
    for receipt in (first, second):
        assert (receipt["client"], receipt["origin"], receipt["status"]) == ("human", "human", "consumed")
        assert receipt["childId"].startswith("human:")
    assert first["childId"] != second["childId"]
    assert world.next_stage() == "plan"


def test_a_review_that_is_not_taken_can_be_mended_in_the_same_sitting(world: World) -> None:
    """The fault is named, the editor opens again on what was written, and only the good one counts."""
    world.step()
    bad = artifact_text(REVIEW, verdict="Approved", counts=(1, 0, 0))
    scripts = typed(world, "bad", bad), typed(world, "good", artifact_text(REVIEW))
    sitting = terminal(world, "review", TASK, env=editor(world, *scripts))
    sitting.until(r"not taken yet: [^\n]*\[(REVIEW_\w+)\]")
    sitting.until("open the editor again")
    sitting.type("y")
    code, said = sitting.end()
    assert code == 0, said
    assert (world.root.parent / "editor/saw-2").read_text() == bad
    assert world.view()["receipts"][-1]["status"] == "consumed"


def test_an_untouched_template_is_no_review(world: World) -> None:
    """Closing the editor at once approves nothing; the step stays open and can be taken up again."""
    world.step()
    sitting = terminal(world, "review", TASK, env=editor(world, "true"))
    sitting.until("open the editor again")
    sitting.type("n")
    code, said = sitting.end()
    assert code == 1, said
    assert world.view()["pendingDelegation"]["status"] == "activated"
    child = world.view()["pendingDelegation"]["childId"]
    sitting = terminal(world, "review", TASK, env=editor(world, typed(world, "r", artifact_text(REVIEW))))
    code, said = sitting.end()
    assert code == 0, said
    assert world.view()["receipts"][-1]["childId"] == child


@pytest.mark.parametrize(
    ("env", "word"),
    [
        pytest.param({"EDITOR": "false"}, "ended with 1", id="fails"),
        pytest.param({"EDITOR": "/nowhere/editor"}, "set EDITOR", id="missing"),
        pytest.param({"EDITOR": "'unclosed"}, "set EDITOR", id="unparsable"),
        pytest.param({"EDITOR": "true", "VISUAL": "false"}, "ended with 1", id="visual-goes-first"),
    ],
)
def test_an_editor_that_fails_leaves_the_step_open(world: World, env: dict[str, str], word: str) -> None:
    sitting = terminal(world, "work", TASK, env=env)
    code, said = sitting.end()
    assert code == 1, said
    assert word in said
    assert world.view()["pendingDelegation"]["status"] == "activated"
    analysis = artifact_text(Step(Stage.ANALYSIS, 1, "analysis.md"))
    code, said = terminal(world, "work", TASK, env=editor(world, typed(world, "a", analysis))).end()
    assert code == 0, said


def test_what_editors_leave_beside_the_file_does_not_spoil_a_review(world: World) -> None:
    """Swap, backup and temporary files in the task folder are nobody's: the person's review is sealed."""
    world.step()
    litter = (
        'd=${1%/*}; for f in .review-analysis.md.swp review-analysis.md~ "#review-analysis.md#" '
        '.#review-analysis.md .review-analysis.md.un~; do echo x >"$d/$f"; done'
    )
    write = typed(world, "r", artifact_text(REVIEW))
    code, said = terminal(world, "review", TASK, env=editor(world, f"{write}; {litter}")).end()
    assert code == 0, said
    assert "paused" not in said
    assert world.view()["receipts"][-1]["status"] == "consumed"
    assert world.next_stage() == "plan"


def test_a_person_s_review_that_touches_code_is_caught_as_any_other(world: World) -> None:
    world.step()
    write = typed(world, "r", artifact_text(REVIEW))
    code, said = terminal(world, "review", TASK, env=editor(world, f"{write}; echo x >>{world.root}/src/app.py")).end()
    assert code == 0, said
    assert "DELEGATION_REVIEWER_WRITE_FORBIDDEN" in said
    assert world.view()["status"] == "paused"


def test_the_other_role_s_step_is_not_done(world: World) -> None:
    """`review` while work is next names the step and the command that does it, and prepares nothing."""
    code, said = terminal(world, "review", TASK, env=editor(world, "true")).end()
    assert code == 1, said
    assert "analysis round 1" in said
    assert "agent-infra work" in said
    assert world.view()["pendingDelegation"] is None
    world.step()
    code, said = terminal(world, "work", TASK, env=editor(world, "true")).end()
    assert code == 1, said
    assert "agent-infra review" in said


def test_an_agent_s_open_step_is_not_taken_over(world: World) -> None:
    world.open_step()
    code, said = terminal(world, "work", TASK, env=editor(world, "true")).end()
    assert code == 1, said
    assert "ORCHESTRATION_DELEGATION_BUSY" in said
    assert "claude-code" in said


@pytest.mark.parametrize("command", [("work", TASK), ("review", TASK)])
def test_without_a_terminal_nobody_sits_there(world: World, command: tuple[str, ...]) -> None:
    before = world.journal()
    answer = world.cli(*command, check=False)
    assert answer.code == 1
    assert "TERMINAL_REQUIRED" in answer.err
    assert world.journal() == before


def test_a_person_commits_in_one_step(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no step pending, on a terminal: prepare, commit, complete, seal and advance as `human`."""
    world = world_at("ready", tmp_path_factory, monkeypatch)
    answer = world.cli("commit", TASK, "-m", "fix: sum", check=False)
    assert answer.code == 1
    assert "TERMINAL_REQUIRED" in answer.err
    assert world.view()["pendingDelegation"] is None
    code, said = terminal(world, "commit", TASK, "-m", "fix: sum").end()
    assert code == 0, said
    assert f"{TASK}: completed" in said
    assert world.committed() == ["M src/app.py"]
    receipt = world.view()["receipts"][-1]
    assert (receipt["artifact"], receipt["client"], receipt["origin"]) == ("commit", "human", "human")


def test_a_person_whose_commit_was_refused_tries_again(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook says no after the step was opened: the same command does the rest once it is mended."""
    world = world_at("ready", tmp_path_factory, monkeypatch)
    moved = world.root / ".git/agent-infra/hooks/moved/pre-commit"
    moved.parent.mkdir(parents=True)
    moved.write_text("#!/bin/sh\necho lint failed >&2\nexit 1\n")
    moved.chmod(0o755)
    code, said = terminal(world, "commit", TASK, "-m", "fix: sum").end()
    assert code == 1, said
    assert "lint failed" in said
    moved.unlink()
    code, said = terminal(world, "work", TASK, env=editor(world, "true")).end()
    assert code == 1, said
    assert f"agent-infra commit {TASK} -m MESSAGE" in said
    assert not (world.folder() / "commit").exists()
    code, said = terminal(world, "commit", TASK, "-m", "fix: sum").end()
    assert code == 0, said
    assert f"{TASK}: completed" in said
    assert world.view()["status"] == "completed"


def test_the_commit_is_not_done_before_its_time(world: World) -> None:
    code, said = terminal(world, "commit", TASK, "-m", "early").end()
    assert code == 1, said
    assert "analysis round 1" in said
    assert "agent-infra work" in said
    assert world.view()["pendingDelegation"] is None


def test_an_artifact_written_before_is_not_overwritten_by_the_template(world: World) -> None:
    """What lies at the artifact's place is what the editor opens."""
    draft = world.folder() / "analysis.md"
    assert not draft.exists()
    Path(draft).write_text(artifact_text(Step(Stage.ANALYSIS, 1, "analysis.md")))
    next_round = terminal(world, "work", TASK, env=editor(world, "true"))
    code, said = next_round.end()
    assert code in {0, 1}, said
    assert draft.read_text() == artifact_text(Step(Stage.ANALYSIS, 1, "analysis.md"))


def test_a_template_that_nobody_filled_is_no_result(world: World) -> None:
    """Closing the editor at once is not work; the person is asked again."""
    session = terminal(world, "work", TASK, env=editor(world, "true", typed(world, "a.md", "# what I found\n")))
    session.until("is the template still")
    session.until("open the editor again")
    session.type("y")
    code, said = session.end()
    assert code == 0, said


def test_a_paused_run_is_said_before_the_editor_opens(world: World) -> None:
    """Nobody writes a review for nothing."""
    assert world.verb("pause", "--code", "LUNCH", "--message", "back soon").code == 0
    code, said = terminal(world, "work", TASK, env=editor(world, "true")).end()
    assert code == 1, said
    assert "back soon" in said
    assert f"agent-infra orchestrate begin {TASK}" in said
    assert not (world.root.parent / "editor/saw-1").exists()
