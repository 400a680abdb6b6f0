"""Folders for a moment: held by a lock while they are needed, and gone afterwards whatever lies in them."""

from pathlib import Path

import pytest

from agent_infra.stores.throwaway import abandoned, remove_tree, throwaway


def test_a_folder_is_held_while_it_is_needed_and_then_gone(tmp_path: Path) -> None:
    """Nobody takes it for an abandoned one meanwhile, and a second caller gets another."""
    with throwaway(tmp_path) as first, throwaway(tmp_path) as second:
        assert first != second
        assert first.is_dir()
        assert abandoned(tmp_path) == ()
    assert not first.exists()
    assert list(tmp_path.rglob("*")) == [tmp_path / "worktrees"]


def test_it_goes_when_the_caller_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), throwaway(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.rglob("*")) == [tmp_path / "worktrees"]


def test_what_a_kill_left_goes_with_the_next(tmp_path: Path) -> None:
    """Folders of other kinds beside it stay."""
    left, other = tmp_path / "worktrees/gate-check.x", tmp_path / "worktrees/TASK-20260101-120000"
    for folder in (left, other):
        folder.mkdir(parents=True)
        (folder / "lock").write_text("1\n")
    assert abandoned(tmp_path) == (left,)
    with throwaway(tmp_path):
        assert not left.exists()
    assert other.exists()


def test_modes_do_not_keep_a_folder_and_links_are_not_followed(tmp_path: Path) -> None:
    """Package caches are read-only, and what is lent is somebody's."""
    lent, folder = tmp_path / "lent", tmp_path / "folder"
    (lent / "deep").mkdir(parents=True)
    (lent / "deep/file").write_text("x")
    (folder / "cache").mkdir(parents=True)
    (folder / "cache/file").write_text("x")
    (folder / "link").symlink_to(lent)
    (folder / "cache").chmod(0o500)
    lent.chmod(0o500)
    remove_tree(folder)
    assert not folder.exists()
    assert (lent / "deep/file").read_text() == "x"
    assert lent.stat().st_mode & 0o777 == 0o500
