import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_infra.errors import ErrorCode, GitError, RefusedError
from agent_infra.git.repo import clean_environment, discover, display_path
from tests.support.repos import Sandbox, partial_clone, sandbox


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return sandbox(tmp_path / "r")


def test_environment_drops_what_redirects_git() -> None:
    """A git child inherits identity, transport and configuration, never a repository, index or object store."""
    base = {
        "PATH": "/bin",
        "GIT_DIR": "/x",
        "GIT_INDEX_FILE": "/x",
        "GIT_OBJECT_DIRECTORY": "/x",
        "GIT_CONFIG_COUNT": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_SSH_COMMAND": "ssh",
        "GIT_AUTHOR_NAME": "n",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "LC_ALL": "de_DE.UTF-8",
    }
    assert clean_environment(base) == {
        "PATH": "/bin",
        "GIT_SSH_COMMAND": "ssh",
        "GIT_AUTHOR_NAME": "n",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        pytest.param(b"a b/c", "a b/c", id="plain"),
        pytest.param("ä漢".encode(), "ä漢", id="UTF-8 stays"),
        pytest.param(b"n\xff\xe4x", "n%FF%E4x", id="other bytes"),
        pytest.param(b"a\nb%41", "a\nb%41", id="nothing else is escaped"),
    ],
)
def test_display_path(path: bytes, shown: str) -> None:
    assert display_path(path) == shown


def test_found_from_a_subfolder(box: Sandbox) -> None:
    """Everything is absolute, and the primary worktree is its own state root."""
    repo = discover(box.path / "d" / "e")
    assert (repo.worktree, repo.git_dir, repo.common_dir) == (box.path, box.path / ".git", box.path / ".git")
    assert (repo.state_root, repo.object_format) == (box.path, "sha1")


def test_leftover_variables_have_no_say(box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a hook of another repository the event's own folder decides."""
    other = sandbox(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / "nowhere"))
    assert discover(box.path).worktree == box.path
    assert discover(box.path).run("ls-files").stdout.count(b"\n") == 6


def test_linked_worktree_shares_the_state_root(box: Sandbox, tmp_path: Path) -> None:
    box.git("worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    repo = discover(tmp_path / "w" / "d")
    assert repo.worktree == tmp_path / "w"
    assert (repo.common_dir, repo.state_root) == (box.path / ".git", box.path)
    assert repo.git_dir == box.path / ".git" / "worktrees" / "w"


def test_symlinked_folder_means_the_real_one(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(box.path)
    assert discover(tmp_path / "link").worktree == box.path


def test_separate_git_dir(tmp_path: Path) -> None:
    """The worktree of a `.git` file is found; from a linked worktree git can't say it, so we ask for core.worktree."""
    box = sandbox(tmp_path / "r", f"--separate-git-dir={tmp_path / 'store'}")
    box.git("worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    assert discover(box.path).state_root == box.path
    with pytest.raises(RefusedError, match=r"core\.worktree") as refused:
        discover(tmp_path / "w")
    assert refused.value.code == ErrorCode.REPO_ROOT_NOT_FOUND
    box.git("config", "core.worktree", str(box.path))
    assert discover(tmp_path / "w").state_root == box.path
    assert discover(box.path).state_root == box.path


def test_submodule_without_a_workspace_belongs_to_the_superproject(box: Sandbox, tmp_path: Path) -> None:
    """A task of the superproject is found from within its submodule, unless the submodule has tasks of its own."""
    box.git("submodule", "--quiet", "add", str(sandbox(tmp_path / "sub").path), "sm")
    box.commit()
    inside = box.path / "sm"
    assert discover(inside).worktree == inside
    (box.path / ".agents" / "workspace").mkdir(parents=True)
    assert discover(inside / "d").worktree == box.path
    (inside / ".agents" / "workspace").mkdir(parents=True)
    assert discover(inside).worktree == inside
    assert discover(inside).state_root == inside


def test_linked_worktree_of_a_submodule(box: Sandbox, tmp_path: Path) -> None:
    """The state root of a submodule's linked worktree is the submodule, not its git dir."""
    box.git("submodule", "--quiet", "add", str(sandbox(tmp_path / "sub").path), "sm")
    Sandbox(box.path / "sm").git("worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    assert discover(tmp_path / "w").state_root == box.path / "sm"


@pytest.mark.parametrize("where", ["no repository", "no folder", "bare", "git dir", "worktree of bare"])
def test_no_repository_is_refused(where: str, box: Sandbox, tmp_path: Path) -> None:
    """Without a worktree whose primary can hold tasks nothing is guessed."""
    box.git("clone", "-q", "--bare", str(box.path), str(tmp_path / "b.git"))
    Sandbox(tmp_path / "b.git").git("worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    cwd = {
        "no repository": tmp_path,
        "no folder": tmp_path / "absent",
        "bare": tmp_path / "b.git",
        "git dir": box.path / ".git",
        "worktree of bare": tmp_path / "w",
    }[where]
    with pytest.raises(RefusedError) as refused:
        discover(cwd)
    assert refused.value.code == ErrorCode.REPO_ROOT_NOT_FOUND
    assert str(cwd) in refused.value.message or where == "worktree of bare"


def test_other_objections_keep_the_words_of_git(box: Sandbox) -> None:
    """A repository that git won't open is not "no repository"."""
    (box.path / ".git" / "config").write_text("[core\n")
    with pytest.raises(GitError, match="bad config line") as failed:
        discover(box.path)
    assert failed.value.code == ErrorCode.GIT_FAILED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_dubious_ownership_is_named(box: Sandbox) -> None:
    for path in [box.path, box.path / ".git"]:
        os.chown(path, 12345, 12345)
    with pytest.raises(GitError, match="dubious ownership"):
        discover(box.path)


def test_head_on_a_branch_detached_and_unborn(box: Sandbox, tmp_path: Path) -> None:
    oid = box.git("rev-parse", "HEAD")
    head = box.repo.head()
    assert (head.oid, head.ref) == (oid, "refs/heads/main")
    box.git("checkout", "-q", "--detach")
    head = box.repo.head()
    assert (head.oid, head.ref) == (oid, None)
    head = sandbox(tmp_path / "e", files={}).repo.head()
    assert (head.oid, head.ref) == (None, "refs/heads/main")


def test_broken_branch_is_not_an_unborn_one(box: Sandbox) -> None:
    """After a crash a ref can be empty; to take that for "no commit yet" would make every file look new."""
    (box.path / ".git" / "refs" / "heads" / "main").write_text("")
    with pytest.raises(GitError, match="HEAD"):
        box.repo.head()


def test_failure_says_what_was_asked_and_what_git_said(box: Sandbox) -> None:
    with pytest.raises(GitError, match=r"`git cat-file -t nonsense` ended with 128: .*nonsense") as failed:
        box.repo.run("cat-file", "-t", "nonsense")
    assert failed.value.code == ErrorCode.GIT_FAILED
    assert box.repo.run("cat-file", "-t", "nonsense", check=False).code == 128


def test_git_missing_from_path_is_named(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = box.repo
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(GitError, match="PATH"):
        repo.run("version")


def test_partial_clone_is_recognised(box: Sandbox, tmp_path: Path) -> None:
    assert not box.repo.has_promisor
    assert partial_clone(box, tmp_path / "p").repo.has_promisor


def test_configuration_without_value_is_true(box: Sandbox) -> None:
    with (box.path / ".git" / "config").open("a") as config:
        config.write("[agent]\n\tflag\n\tmany = 1\n\tmany = 2\n")
    found = box.repo.config()
    assert found["agent.flag"] == ["true"]
    assert found["agent.many"] == ["1", "2"]


def test_discovery_imports_nothing_heavy() -> None:
    """Hooks are processes: pygit2 is not paid for by those that only look around."""
    script = "import sys, agent_infra.git.snapshot, agent_infra.git.control; sys.exit('pygit2' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
