"""Would this commit pass? What hooks did when they were tried, as an answer and in words."""

import pytest

from agent_infra.core.outlook import Foresight, Outlook, Trial, advice, draft_message

PASSED = Trial("pre-commit", 0)
REWROTE = Trial("pre-commit", 0, ("src/app.js",), restaged=True)
TOUCHED = Trial("pre-commit", 0, (".cache",))
REFUSED = Trial("pre-commit", 3, ("src/app.py",), output="would reformat")
UNREAD = Trial("commit-msg", 1)
LATE = Trial("commit-msg", None)


def foresight(*trials: Trial, **more: str) -> Foresight:
    return Foresight("TASK-1", "tree", "head", trials, limit=40.0, **more)


@pytest.mark.parametrize(
    ("found", "outlook"),
    [
        pytest.param(foresight(), Outlook.PASSES, id="no hooks"),
        pytest.param(foresight(PASSED), Outlook.PASSES, id="all pass"),
        pytest.param(foresight(TOUCHED), Outlook.PASSES, id="files beside the commit"),
        pytest.param(foresight(REWROTE), Outlook.REWRITTEN, id="restaged"),
        pytest.param(foresight(REFUSED), Outlook.REFUSED, id="refused"),
        pytest.param(foresight(REWROTE, UNREAD), Outlook.REFUSED, id="refused is worse than rewritten"),
        pytest.param(foresight(PASSED, LATE), Outlook.UNKNOWN, id="timed out is not passed"),
        pytest.param(foresight(REWROTE, LATE), Outlook.REWRITTEN, id="known harm counts more than doubt"),
        pytest.param(foresight(reason="no git"), Outlook.UNKNOWN, id="not tried"),
    ],
)
def test_the_worst_that_is_known_counts(found: Foresight, outlook: Outlook) -> None:
    """Doubt is never a pass, and never hides a known refusal."""
    assert found.outlook is outlook
    assert found.to_json()["status"] == outlook


def test_what_is_said() -> None:
    """Hook, paths, exit code; a draft message is named as ours."""
    assert foresight(REWROTE, LATE).sentences() == (
        "pre-commit would rewrite src/app.js, so that it is not what was reviewed and the commit is refused",
        "commit-msg timed out (limit 40 s), so whether the commit passes is not known",
    )
    assert foresight(REFUSED).sentences() == (
        "pre-commit would refuse this commit with exit code 3, and would change src/app.py",
    )
    assert "a draft message of ours ('fix: sum')" in foresight(UNREAD, draft="fix: sum").sentences()[0]
    many = Trial("pre-commit", 0, tuple(f"f{number}" for number in range(25)), restaged=True)
    assert "f19 and 5 more" in foresight(many).sentences()[0]


def test_what_a_reviewer_is_told() -> None:
    """To ask for the content that can be committed; a message is not the reviewer's business."""
    assert len(advice(foresight(PASSED))) == 1
    assert "before you approve" in advice(foresight(REWROTE))[-1]
    assert "not the content" in advice(foresight(PASSED, UNREAD, draft="fix: sum"))[-1]


def test_what_hooks_said_is_not_for_the_journal() -> None:
    """It is shown to whoever asks, and kept nowhere."""
    assert foresight(REFUSED).to_json()["hooks"][0]["output"] == "would reformat"
    assert "output" not in foresight(REFUSED).to_json(outputs=False)["hooks"][0]
    assert foresight(LATE).to_json()["hooks"][0]["status"] == "timed out"


@pytest.mark.parametrize(
    ("title", "type_", "message"),
    [
        pytest.param("Add returns the wrong sum.", "bugfix", "fix: add returns the wrong sum", id="bugfix"),
        pytest.param("HTTP is slow", "feature", "feat: HTTP is slow", id="an abbreviation stays"),
        pytest.param("x  y", "docs", "docs: x y", id="another type"),
        pytest.param("", "", "chore: change", id="nothing known"),
        pytest.param("word " * 30, "chore", "chore:" + " word" * 13, id="long"),
    ],
)
def test_a_draft_message(title: str, type_: str, message: str) -> None:
    """One line that usual rules for messages accept."""
    assert draft_message(title, type_) == message
