"""Lines of a ref transaction, and the command line of the git that sends them."""

from pathlib import Path

import pytest

from agent_infra.git.caller import Command, calling_command, parse_command
from agent_infra.git.refs import Update, hook_objects, parse_updates

OID, ZERO = "a" * 40, "0" * 40


def test_lines_are_read_as_git_writes_them() -> None:
    """Three words a line, names in any bytes; what is no such line says nothing."""
    found = parse_updates(
        f"{ZERO} {OID} HEAD\n{OID} {ZERO} refs/heads/x\nmoves\n\n".encode() + b"a b refs/heads/\xff\n"
    )
    assert [update.ref for update in found] == ["HEAD", "refs/heads/x", "refs/heads/\udcff"]
    assert [update.is_deletion for update in found] == [False, True, False]


@pytest.mark.parametrize(
    ("ref", "name", "kind"),
    [
        ("HEAD", "HEAD", "head"),
        ("head", "head", "head"),
        ("main-worktree/HEAD", "HEAD", "head"),
        ("worktrees/x/HEAD", "HEAD", "head"),
        ("worktrees/x/refs/heads/y", "refs/heads/y", "branch"),
        ("refs/heads/a/b", "refs/heads/a/b", "branch"),
        ("refs/Heads/a", "refs/Heads/a", "branch"),
        ("refs/remotes/origin/HEAD", "refs/remotes/origin/HEAD", ""),
        ("refs/tags/refs/heads/x", "refs/tags/refs/heads/x", ""),
        ("ORIG_HEAD", "ORIG_HEAD", ""),
        ("refs/stash", "refs/stash", ""),
    ],
)
def test_which_refs_concern_a_run(ref: str, name: str, kind: str) -> None:
    update = Update(ZERO, OID, ref)
    assert update.name == name
    assert (update.is_head, update.is_branch) == (kind == "head", kind == "branch")


def test_objects_of_a_quarantine_are_found_from_anywhere() -> None:
    """git names them relative to where it works; nothing else of its variables is passed on."""
    given = {"GIT_OBJECT_DIRECTORY": "in", "GIT_ALTERNATE_OBJECT_DIRECTORIES": "a:/b", "GIT_DIR": "x"}
    assert hook_objects(given, Path("/w")) == {
        "GIT_OBJECT_DIRECTORY": "/w/in",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/w/a:/b",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (("git", "reset", "--hard", "HEAD~"), Command("reset", ("--hard", "HEAD~"))),
        (("/usr/bin/git", "-C", "reset", "-c", "a=b", "--git-dir=x", "merge", "y"), Command("merge", ("y",))),
        (("/usr/lib/git-core/git-am", "-q"), Command("am", ("-q",))),
        (("git",), Command()),
        (("/bin/sh", "git"), None),
        (("gitk",), None),
    ],
)
def test_the_verb_of_a_command_line(argv: tuple[str, ...], command: Command | None) -> None:
    assert parse_command(argv) == command


def test_without_git_among_our_ancestors_the_reflog_action_tells() -> None:
    """Nobody started these tests through git."""
    assert calling_command({"GIT_REFLOG_ACTION": "merge side"}) == Command("merge", ("side",))
    assert calling_command({}) == Command()
