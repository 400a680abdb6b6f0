import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.snapshot import TaskFolder, index_digest
from tests.support.repos import Sandbox, partial_clone, plain_tree, sandbox, user_state

EXCLUDE = ("__pycache__", "*.pyc", "node_modules", "venv", ".coverage*")


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return sandbox(tmp_path / "r")


def capture(box: Sandbox, task: TaskFolder | None = None, exclude: Sequence[str] = EXCLUDE) -> str:
    return box.snapshots.capture(task, exclude=exclude)


def names(box: Sandbox, made: str) -> set[str]:
    return set(box.listing(made))


SUBMODULE = "git init -q -b main ../s; cd ../s; echo s > s; git add s; git commit -qm s; cd -; git -c protocol.file.allow=always submodule --quiet add ../s sm; git commit -qm sm; "  # noqa: E501 - one script

SCENARIOS = {
    "clean": "",
    "edited, new, deleted": "echo x >> f1; echo n > new; rm d/g1; mkdir q; echo z > q/r",
    "moved": "mkdir q; mv f1 q/f1",
    "executable bit": "chmod +x f1",
    "executable bit that git is told to ignore": "git config core.fileMode false; chmod +x f1",
    "new symlinks, one dangling": "ln -s f1 l; ln -s nowhere d/l",
    "file becomes symlink": "rm f1; ln -s f2 f1",
    "file becomes folder": "rm f1; mkdir f1; echo q > f1/q",
    "folder becomes file": "rm -r d; echo q > d",
    "same size in the second of the commit": "printf zz > f1; git commit -qam z; printf yy > f1",
    "ignored file": "echo q > x.log",
    "ignored file that was committed": "echo q > t.log; git add -f t.log; git commit -qm t; echo qq > t.log",
    "ignored file that is staged": "echo q > t.log; git add -f t.log",
    "info/exclude": "echo '*.tmp' >> .git/info/exclude; echo q > x.tmp; echo q > y.txt",
    "global excludes": "git config core.excludesFile .git/gex; echo '*.tmp' > .git/gex; echo q > x.tmp; echo q > y",
    "removed from the index, then ignored": "git rm -q --cached f1; echo f1 >> .gitignore",
    "staged content that differs from the file": "echo staged > f1; git add f1; echo later > f1",
    "staged deletion of a file that is there": "git rm -q --cached f1",
    "assume-unchanged": "git update-index --assume-unchanged f1; echo longer > f1",
    "skip-worktree, edited": "git update-index --skip-worktree f1; echo longer > f1",
    "skip-worktree, removed": "git update-index --skip-worktree f1; rm f1",
    "core.ignoreStat": "git config core.ignoreStat true; git update-index f1; echo longer > f1",
    "intent to add": "echo q > n; git add -N n",
    "conflict": "git checkout -qb o; echo y > f2; git commit -qam o; git checkout -q main; echo z > f2; git commit -qam m; git merge o || :",  # noqa: E501 - one script
    "text=auto": "echo '* text=auto' > .gitattributes; printf 'a\\r\\nb\\r\\n' > crlf.txt",
    "autocrlf": "git config core.autocrlf true; printf 'a\\r\\nb\\r\\n' > crlf.txt; printf 'q\\r\\n' > f1",
    "attributes changed only": "printf 'a\\r\\nb\\r\\n' > c.txt; git add -A; git commit -qm c; echo '*.txt text' > .gitattributes",  # noqa: E501 - one script
    "clean filter": "git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge cat; git config filter.up.required true; echo '*.up filter=up' > .gitattributes; echo hello > a.up",  # noqa: E501 - one script
    "working-tree-encoding": "echo '*.u working-tree-encoding=UTF-16LE text' > .gitattributes; printf 'h\\000\\n\\000' > a.u",  # noqa: E501 - one script
    "ident": "echo '*.id ident' > .gitattributes; git add -A; git commit -qm l; echo 'a $Id: 1234 $' > a.id",
    "submodule moved": SUBMODULE + "cd sm; echo s2 > s; git commit -qam s2",
    "submodule dirty": SUBMODULE + "cd sm; echo s2 > s; echo q > q",
    "submodule that configuration ignores": SUBMODULE
    + "git config submodule.sm.ignore all; git config diff.ignoreSubmodules all; cd sm; echo s2 > s; git commit -qam s2",  # noqa: E501 - one script
    "nested repository": "git init -q nest; cd nest; echo q > q; git add q; git commit -qm q",
    "split index": "git config core.splitIndex true; git update-index --split-index; echo x >> f1; echo n > n; git add f1",  # noqa: E501 - one script
    "index version 4, untracked cache": "git update-index --index-version 4 --untracked-cache; echo x >> f1; echo n > new",  # noqa: E501 - one script
    "FIFO": "mkfifo ff; echo n > new",
    "a file monitor that says nothing changed": "printf '#!/bin/sh\\nprintf \"t\\\\0\"\\n' > .git/m; chmod +x .git/m; git config core.fsmonitor $PWD/.git/m; git status > /dev/null; echo x >> f1; echo n > new",  # noqa: E501 - one script
    "index.lock held": "touch .git/index.lock; echo x >> f1",
    "safecrlf": "git config core.autocrlf input; git config core.safecrlf true; printf 'a\\r\\n' > f1",
    "option-like and glob-like names": "echo q > -n; echo q > '*'; echo q > ':(top)x'; mkdir '[a]'; echo q > '[a]/?'",
    "empty worktree": "rm -r f1 f2 f3 d .gitignore",
}


@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in SCENARIOS.items()])
def test_fingerprint_is_what_git_would_store(script: str, box: Sandbox, tmp_path: Path) -> None:
    """What `git add -A` makes of a copy whose index is HEAD's; nothing of the user's is touched."""
    box.sh(script)
    if box.path.joinpath(".git", "index.lock").exists():
        (box.path / ".git" / "index.lock").unlink()
        expected = plain_tree(box, tmp_path / "copy")
        (box.path / ".git" / "index.lock").touch()
    elif "safecrlf" in script:
        box.git("config", "core.safecrlf", "false")
        expected = plain_tree(box, tmp_path / "copy")
        box.git("config", "core.safecrlf", "true")
    else:
        if "fsmonitor" in script:
            box.git("config", "--unset", "core.fsmonitor")
        expected = plain_tree(box, tmp_path / "copy")
    before = user_state(box)
    made = capture(box)
    assert made == expected
    assert capture(box, exclude=()) == expected
    assert user_state(box) == before


def test_names_that_are_not_utf8(box: Sandbox, tmp_path: Path) -> None:
    for name in (b"n\xff", b"a\nb", b'tab\t"quote" \\'):
        Path(os.fsdecode(os.fsencode(box.path) + b"/" + name)).write_text("q")
    assert capture(box) == plain_tree(box, tmp_path / "copy")


def test_lfs_like_filter_process(box: Sandbox, tmp_path: Path) -> None:
    """What is stored is the pointer that the filter makes, not the bytes of the file."""
    box.git("config", "filter.ptr.clean", "sha256sum")
    box.git("config", "filter.ptr.required", "true")
    box.write({".gitattributes": "*.bin filter=ptr -text\n", "a.bin": "big\n"})
    made = capture(box)
    assert made == plain_tree(box, tmp_path / "copy")
    assert box.show(made, "a.bin").endswith(b"  -\n")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "git config filter.x.clean no-such; git config filter.x.required true; "
            "echo '*.bin filter=x' > .gitattributes; echo q > a.bin",
            id="required filter is missing",
        ),
        pytest.param("git init -q nest; echo q > nest/q", id="nested repository without a commit"),
        pytest.param("printf 'not an index' > .git/index", id="the user's index is broken"),
    ],
)
def test_what_git_can_not_store_is_refused_in_its_words(script: str, box: Sandbox) -> None:
    """A snapshot is complete or there is none."""
    box.sh(script)
    with pytest.raises(RefusedError, match=r"can't be captured: `git .*(filter|nest|index)") as refused:
        capture(box)
    assert refused.value.code == ErrorCode.ORCHESTRATION_SNAPSHOT_FAILED


@pytest.mark.parametrize("option", ["--object-format=sha256", "--object-format=sha1"])
def test_unborn_branch_and_sha256(option: str, tmp_path: Path) -> None:
    """Without a commit the fingerprint is of what is there, the empty tree when nothing is."""
    box = sandbox(tmp_path / "r", option, files={})
    assert capture(box) == box.store.empty_tree
    box.write({"f1": "x\n", "a.pyc": "x", "d/x": "y"})
    box.git("add", "f1")
    before = user_state(box)
    made = capture(box)
    assert names(box, made) == {"f1", "d/x"}
    assert user_state(box) == before
    box.commit()
    box.write({"f1": "changed\n", "new": "n"})
    assert capture(box) == plain_tree(box, tmp_path / "copy")


def test_linked_worktree(box: Sandbox, tmp_path: Path) -> None:
    """Each worktree has its own files; both write to the one store."""
    box.git("worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    linked = Sandbox(tmp_path / "w")
    linked.write({"f1": "in the linked one\n", "new": "n\n"})
    before = user_state(box)
    made = capture(linked)
    assert box.show(made, "f1") == b"in the linked one\n"
    assert names(box, made) == names(box, capture(box)) | {"new"}
    assert linked.store.path == box.store.path
    assert user_state(box) == before


def test_partial_clone_fetches_nothing(box: Sandbox, tmp_path: Path) -> None:
    box.write({"f5": "second\n"})
    box.commit()
    clone = partial_clone(box, tmp_path / "p")
    box.path.rename(tmp_path / "origin is away")
    clone.write({"f1": "changed\n", "new": "n\n"})
    made = capture(clone)
    assert clone.show(made, "f1") == b"changed\n"
    assert names(clone, made) == {"f1", "f2", "f3", "f5", "new", "d/g1", "d/e/h1", ".gitignore"}


@pytest.mark.parametrize("index", ["--no-sparse-index", "--sparse-index"])
@pytest.mark.parametrize("mode", ["--cone", "--no-cone"])
def test_sparse_checkout(mode: str, index: str, box: Sandbox) -> None:
    """An absent file outside of the patterns is not deleted; one that is there, tracked or new, does not hide."""
    box.write({"far/a": "a\n", "far/b": "b\n"})
    box.commit()
    if (mode, index) == ("--no-cone", "--sparse-index"):
        pytest.skip("git has a sparse index for cones only")
    box.git("sparse-checkout", "init", mode, index)
    box.git("sparse-checkout", "set", "d/e" if mode == "--cone" else "/d/e/")
    assert not (box.path / "far").exists()
    before = box.listing(box.git("rev-parse", "HEAD^{tree}"))
    assert box.listing(capture(box)) == before
    box.write({"d/e/h1": "changed\n", "d/e/new": "n\n", "far/a": "came back\n", "far/new": "n\n"})
    state = user_state(box)
    made = box.listing(capture(box))
    assert {name for name in made.keys() | before.keys() if made.get(name) != before.get(name)} == {
        "d/e/h1",
        "d/e/new",
        "far/a",
        "far/new",
    }
    (box.path / "d" / "e" / "h1").unlink()
    assert "d/e/h1" not in box.listing(capture(box))
    assert user_state(box) == state


def test_what_a_reviewer_may_leave_behind(box: Sandbox) -> None:
    """Untracked files that match the patterns stay out; what is tracked in HEAD or in the index never does."""
    box.write({"old.pyc": "1", "node_modules/tracked": "1"})
    box.commit()
    clean = capture(box)
    box.write({"x.pyc": "1", "d/__pycache__/y": "1", "node_modules/new": "1", "venv/z": "1", ".coverage.host": "1"})
    assert capture(box) == clean
    box.write({"old.pyc": "2", "node_modules/tracked": "2"})
    changed = {c.name for c in box.store.diff(clean, capture(box))}
    assert changed == {"old.pyc", "node_modules/tracked"}
    box.write({":(top)q.pyc": "1"})
    box.git("--literal-pathspecs", "add", "-f", "x.pyc", "venv/z", ":(top)q.pyc")
    box.git("rm", "-q", "--cached", "old.pyc")
    box.write({"x.pyc": "not what is staged"})
    made = capture(box)
    assert {c.name for c in box.store.diff(clean, made)} == changed | {"x.pyc", "venv/z", ":(top)q.pyc"}
    assert box.show(made, "x.pyc") == b"not what is staged"
    (box.path / "venv" / "z").unlink()
    assert "venv/z" not in names(box, capture(box))


def test_staged_file_that_is_ignored_for_another_reason_stays_out(box: Sandbox) -> None:
    """As in the reference: only what git itself would add."""
    box.write({".gitignore": "venv/secret\n*.log\n", "venv/secret": "s", "venv/shared": "s"})
    box.git("add", "-f", "venv/secret", "venv/shared")
    assert {"venv/secret", "venv/shared"} & names(box, capture(box)) == {"venv/shared"}


def test_ignore_file_can_not_bring_an_excluded_file_back(box: Sandbox) -> None:
    box.write({".gitignore": "!*.pyc\n", "x.pyc": "1"})
    assert "x.pyc" not in names(box, capture(box))


def test_excludes_of_the_user_still_count(box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our patterns stand beside core.excludesFile, or git's default for it, and replace neither."""
    box.write({"x.tmp": "1", "y.swp": "1", "z.pyc": "1", "w": "1"})
    (tmp_path / "global").write_bytes(b"\xef\xbb\xbf*.tmp\n")
    box.git("config", "core.excludesFile", str(tmp_path / "global"))
    assert {"y.swp", "w"} == names(box, capture(box)) & {"x.tmp", "y.swp", "z.pyc", "w"}
    box.git("config", "--unset", "core.excludesFile")
    (tmp_path / "xdg" / "git").mkdir(parents=True)
    (tmp_path / "xdg" / "git" / "ignore").write_text("*.swp\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert {"x.tmp", "w"} == names(box, capture(box)) & {"x.tmp", "y.swp", "z.pyc", "w"}


def test_task_folder_is_added_as_it_is(box: Sandbox, tmp_path: Path) -> None:
    """Raw bytes, ignored or not, from wherever it lies; no view, no sibling of a writer, no other task."""
    box.write(
        {
            ".agents/.gitignore": "workspace/\n",
            ".agents/workspace/active/T-2/task.md": "another task",
            ".agents/workspace/active/.short-ids.json": "{}",
            ".gitattributes": "* text eol=lf filter=up\n",
            ".agent-infra/T-1/plan.md": "handed in",
        }
    )
    box.git("config", "filter.up.clean", "tr a-z A-Z")
    folder = tmp_path / "elsewhere" / "T-1"
    for name in ("task.md", "deep/note", "orchestration.json", "plan.md.tmp", ".plan.md.swp", "plan.md~", "#plan.md#"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"raw\r\n")
    (folder / "deep" / "orchestration.json").write_bytes(b"not ours\n")
    (folder / "task.md").chmod(0o755)
    (folder / os.fsdecode(b"odd\n\xff")).write_bytes(b"")
    (folder / "link").symlink_to("../T-2")
    os.mkfifo(folder / "fifo")
    without, made = capture(box), capture(box, TaskFolder("T-1", folder))
    root = ".agents/workspace/active/T-1"
    added = {c.path: c for c in box.store.diff(without, made)}
    assert {os.fsdecode(path) for path in added} == {
        f"{root}/{name}"
        for name in ("task.md", "deep/note", "deep/orchestration.json", os.fsdecode(b"odd\n\xff"), "link")
    }
    assert box.show(made, f"{root}/task.md") == b"raw\r\n"
    assert added[f"{root}/task.md".encode()].new_mode == "100644"
    assert box.show(made, f"{root}/link") == b"../T-2"
    assert added[f"{root}/link".encode()].new_mode == "120000"
    assert box.store.product(made) == without
    assert not any(".agent-infra" in name or "T-2" in name or "short" in name for name in names(box, made))


def test_tracked_workspace_files_are_not_product(box: Sandbox) -> None:
    """Even when somebody committed them, and wherever else the same names occur they count."""
    box.write({"d/.agent-infra/x": "1", "d/.agents/workspace/y": "1"})
    box.commit()
    clean = capture(box)
    box.write({".agents/workspace/active/T-2/task.md": "1", ".agent-infra/z": "1"})
    box.git("add", "-f", ".agents/workspace", ".agent-infra")
    box.git("commit", "-qm", "tracked")
    assert capture(box) == clean
    assert {"d/.agent-infra/x", "d/.agents/workspace/y"} <= names(box, clean)


def test_own_task_folder_that_git_tracks(box: Sandbox) -> None:
    """The files count, not what is committed."""
    box.write({".agents/workspace/active/T-1/task.md": "1", ".agents/workspace/active/T-1/old.md": "1"})
    box.commit()
    folder = box.path / ".agents" / "workspace" / "active" / "T-1"
    (folder / "old.md").unlink()
    made = capture(box, TaskFolder("T-1", folder))
    assert ".agents/workspace/active/T-1/task.md" in names(box, made)
    assert ".agents/workspace/active/T-1/old.md" not in names(box, made)


@pytest.mark.parametrize("kind", ["gone", "symlink", "file"])
def test_task_folder_that_is_not_one(kind: str, box: Sandbox, tmp_path: Path) -> None:
    """A folder that is gone adds nothing, a link is recorded as a link and never followed."""
    folder = tmp_path / "T-1"
    if kind == "symlink":
        folder.symlink_to(box.path / "d")
    elif kind == "file":
        folder.write_text("x")
    changes = box.store.diff(capture(box), capture(box, TaskFolder("T-1", folder)))
    expected = [(".agents/workspace/active/T-1", "120000")] if kind == "symlink" else []
    assert [(c.name, c.new_mode) for c in changes] == expected


def test_what_lies_in_the_workspace_can_not_fail_a_snapshot(box: Sandbox, tmp_path: Path) -> None:
    """A repository without a commit would, were it looked at."""
    clean = capture(box)
    for place in (".agents/workspace/active/T-2", ".agent-infra/T-2", ".agents/workspace"):
        box.sh(f"mkdir -p {place}; git init -q {place}; echo q > {place}/q")
    assert capture(box) == clean


def test_agents_that_is_no_folder_is_refused(box: Sandbox, tmp_path: Path) -> None:
    """A task's documents would silently take the place of the link."""
    (tmp_path / "T-1").mkdir()
    (box.path / ".agents").symlink_to("elsewhere")
    assert ".agents" in names(box, capture(box))
    with pytest.raises(RefusedError, match="ordinary folder"):
        capture(box, TaskFolder("T-1", tmp_path / "T-1"))


@pytest.mark.parametrize("dangling", [False, True], ids=["new content", "content that dangles in the user's store"])
def test_snapshot_survives_the_garbage_collection_of_the_user(dangling: bool, box: Sandbox) -> None:
    """git does not write again what it has already, so what only dangles there is copied."""
    box.write({"f1": "changed\n", "q/new": "n\n", "f2": "also\n"})
    if dangling:
        box.git("add", "-A")
        box.git("write-tree")
        box.git("reset", "-q")
    made = capture(box)
    box.sh("git checkout -q -- f1 f2; rm -r q; git reflog expire --expire=now --all; git gc -q --prune=now")
    assert box.show(made, "f1") == b"changed\n"
    assert {c.name for c in box.store.diff(box.git("rev-parse", "HEAD^{tree}"), made)} == {"f1", "f2", "q/new"}
    box.git("fsck", "--strict", made, env=box.store.env())


def test_commit_that_a_receipt_names_survives_as_well(box: Sandbox) -> None:
    """A child's commit that was taken back, with its history down to what HEAD reaches."""
    for text in ("one\n", "two\n"):
        box.write({"f1": text})
        commit = box.commit(text)
    box.git("reset", "-q", "--hard", "HEAD~2")
    box.snapshots.capture(None, exclude=(), keep=[commit, box.git("rev-parse", "HEAD")])
    box.sh("git reflog expire --expire=now --all; git gc -q --prune=now")
    assert box.show(f"{commit}^{{tree}}", "f1") == b"two\n"
    assert box.show(f"{commit}~1^{{tree}}", "f1") == b"one\n"
    box.git("fsck", "--strict", commit, env=box.store.env())
    packs = sorted(box.store.path.glob("pack/*.pack"))
    box.snapshots.capture(None, exclude=(), keep=[commit, "f" * 40])
    assert sorted(box.store.path.glob("pack/*.pack")) == packs


def test_nothing_untracked_enters_the_store_of_the_user(box: Sandbox, tmp_path: Path) -> None:
    """Nor is it pushed, by a mirror push either; a second snapshot of the same files writes nothing."""
    box.write({"secret": "s3cret\n"})
    made = capture(box)
    oid = box.git("hash-object", "secret")
    assert box.git("cat-file", "-t", oid, check=False) == ""
    box.git("init", "-q", "--bare", str(tmp_path / "mirror.git"))
    box.git("push", "-q", "--mirror", str(tmp_path / "mirror.git"))
    assert Sandbox(tmp_path / "mirror.git").git("cat-file", "-t", oid, check=False) == ""
    before = sorted(box.store.path.rglob("*"))
    assert capture(box) == made
    assert sorted(box.store.path.rglob("*")) == before


def test_replaced_objects_do_not_change_a_fingerprint(box: Sandbox) -> None:
    expected = capture(box)
    head = box.git("rev-parse", "HEAD")
    box.write({"f1": "other\n"})
    box.git("replace", head, box.commit())
    box.git("reset", "-q", "--hard", head)
    box.sh("printf 'a1\\n' > f1")
    assert capture(box) == expected


def test_hooks_of_the_user_do_not_run(box: Sandbox) -> None:
    """The index is ours; a hook that reacts to index changes has nothing to see."""
    hook = box.path / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    box.write({"f1": "x"})
    assert "ran" not in names(box, capture(box))
    assert not (box.path / "ran").exists()


def test_index_digest_follows_entries_and_bits_not_times(box: Sandbox) -> None:
    """A refresh, a new stat time or a branch is no change; a staged file, a stage or a hiding bit is."""
    repo, seen = box.repo, {index_digest(box.repo)}
    os.utime(box.path / "f1", (1, 1))
    box.git("status")
    box.git("branch", "b")
    assert index_digest(repo) in seen
    for script in (
        "echo x > f1; git add f1",
        "git update-index --assume-unchanged f2",
        "git update-index --skip-worktree f3",
        "git update-index --chmod=+x d/g1",
        "git rm -q --cached d/e/h1",
    ):
        box.sh(script)
        assert index_digest(repo) not in seen
        seen.add(index_digest(repo))


def test_temporary_files_are_never_captured(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some people keep TMPDIR inside of the worktree."""
    clean = capture(box)
    (box.path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(box.path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert capture(box) == clean


def test_snapshot_from_a_copy_without_git_identity(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """No commit is made, so nobody has to have a name."""
    for name in [name for name in os.environ if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))]:
        monkeypatch.delenv(name)
    box.git("config", "user.useConfigOnly", "true")
    shutil.rmtree(box.path / "d")
    assert names(box, capture(box)) == {"f1", "f2", "f3", ".gitignore"}


def test_empty_excludes_file_of_the_user_means_none(box: Sandbox) -> None:
    box.git("config", "core.excludesFile", "")
    box.write({"x.pyc": "1", "y": "1"})
    assert {"x.pyc", "y"} & names(box, capture(box)) == {"y"}
