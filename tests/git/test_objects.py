import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agent_infra.errors import GitError
from agent_infra.git import objects as objects_module
from agent_infra.git.objects import ObjectStore, TreeChange
from agent_infra.git.trees import attempt, compare, parse_tree, render_tree, write_object
from tests.support.repos import Sandbox, partial_clone, sandbox, user_state

Tree = dict[str, tuple[str, str]]


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return sandbox(tmp_path / "r")


def tree(box: Sandbox, entries: Tree) -> str:
    """A tree in our store with these paths: mode and text of each."""
    env = box.store.env() | {"GIT_INDEX_FILE": str(box.path / ".git" / "scratch-index")}
    box.git("read-tree", "--empty", env=env)
    for name, (mode, text) in entries.items():
        oid = text if mode == "160000" else box.git("hash-object", "-w", "--stdin", stdin=text.encode(), env=env)
        box.git("update-index", "--add", "--cacheinfo", f"{mode},{oid},{name}", env=env)
    made = box.git("write-tree", env=env)
    (box.path / ".git" / "scratch-index").unlink()
    return made


def by_git_only(store: ObjectStore) -> ObjectStore:
    """The same store, made to believe that libgit2 is of no use here."""
    return replace(store, repo=replace(store.repo, object_format="other"))


BEFORE: Tree = {
    "same": ("100644", "s"),
    "edited": ("100644", "e"),
    "mode": ("100644", "m"),
    "link": ("100644", "l"),
    "moved": ("100644", "a long enough text to be taken for the same\n" * 9),
    "to-folder": ("100644", "x"),
    "to-file/a": ("100644", "x"),
    "to-file/b": ("100644", "y"),
    "sub": ("160000", "1" * 40),
    "d/e/f/gone": ("100644", "g"),
    "ä\nb": ("100644", "odd"),
}
AFTER: Tree = {
    "same": ("100644", "s"),
    "edited": ("100644", "E"),
    "mode": ("100755", "m"),
    "link": ("120000", "l"),
    "moved-away": BEFORE["moved"],
    "to-folder/a": ("100644", "x"),
    "to-file": ("100644", "x"),
    "sub": ("160000", "2" * 40),
    "d/new": ("100644", "n"),
    "ä\nb": ("100644", "odder"),
}


def test_diff_names_every_path_with_both_sides(box: Sandbox) -> None:
    """A moved file is two paths, a file that became a symlink is one, a submodule's commit counts."""
    changes = {c.name: c for c in box.store.diff(tree(box, BEFORE), tree(box, AFTER))}
    assert sorted(changes) == sorted(
        name for name in BEFORE.keys() | AFTER.keys() if BEFORE.get(name) != AFTER.get(name)
    )
    assert (changes["link"].old_mode, changes["link"].new_mode) == ("100644", "120000")
    assert (changes["mode"].old_mode, changes["mode"].new_mode) == ("100644", "100755")
    assert changes["mode"].old_oid == changes["mode"].new_oid
    assert (changes["moved"].new_mode, changes["moved"].new_oid) == (None, None)
    assert changes["moved-away"].new_oid == changes["moved"].old_oid
    assert changes["sub"].new_oid == "2" * 40


def test_diff_of_equal_ids_asks_nobody(box: Sandbox) -> None:
    """Equal ids are equal trees, even where the objects are gone."""
    assert box.store.diff("f" * 40, "f" * 40) == ()


def test_libgit2_and_git_give_the_same_diff(box: Sandbox) -> None:
    a, b = tree(box, BEFORE), tree(box, AFTER)
    ours = attempt(box.store.path, lambda odb: compare(odb, a, b))
    assert ours == by_git_only(box.store).diff(a, b)
    assert ours == box.store.diff(a, b)


def test_diff_is_not_swayed_by_configuration(box: Sandbox) -> None:
    """A setting that hides submodules or follows renames must not change what a child is said to have written."""
    a, b = tree(box, BEFORE), tree(box, AFTER)
    expected = box.store.diff(a, b)
    box.git("config", "diff.ignoreSubmodules", "all")
    box.git("config", "diff.renames", "copies")
    box.store.publish(a)
    box.store.publish(b)
    box.git("replace", a, b)
    assert box.store.diff(a, b) == expected
    assert by_git_only(box.store).diff(a, b) == expected


def test_modes_of_old_programs_are_what_git_reads_them_as(box: Sandbox) -> None:
    blob = box.git("hash-object", "-w", "--stdin", stdin=b"x")
    box.store.env()
    raw = b"100664 f\0" + bytes.fromhex(blob)
    old = attempt(box.store.path, lambda odb: write_object(odb, "tree", raw))
    assert old is not None
    assert box.store.diff(old, tree(box, {"f": ("100644", "x")})) == ()
    (change,) = box.store.diff(old, tree(box, {"f": ("100755", "x")}))
    assert (change.old_mode, change.new_mode) == ("100644", "100755")


def test_diff_of_missing_tree_has_the_words_of_git(box: Sandbox) -> None:
    with pytest.raises(GitError, match=r"bad object|unable to read tree"):
        box.store.diff("f" * 40, tree(box, BEFORE))


@pytest.mark.parametrize(
    ("extra", "left"),
    [
        pytest.param({}, {}, id="nothing to take out"),
        pytest.param({".agents/workspace/active/T/task.md": ("100644", "t")}, {}, id="an emptied .agents goes too"),
        pytest.param(
            {".agents/workspace/x": ("100644", "t"), ".agents/config.toml": ("100644", "c")},
            {".agents/config.toml": ("100644", "c")},
            id="the rest of .agents stays",
        ),
        pytest.param({".agents/workspace": ("120000", "elsewhere")}, {}, id="a link of that name"),
        pytest.param({".agents": ("100644", "file")}, {".agents": ("100644", "file")}, id=".agents is a file"),
        pytest.param(
            {"d/.agents/workspace/x": ("100644", "x")}, {"d/.agents/workspace/x": ("100644", "x")}, id="deeper"
        ),
    ],
)
def test_product_is_the_tree_without_the_workspace(extra: Tree, left: Tree, box: Sandbox) -> None:
    assert box.store.product(tree(box, BEFORE | extra)) == tree(box, BEFORE | left)


def test_product_of_only_a_task_is_the_empty_tree(box: Sandbox) -> None:
    assert box.store.product(tree(box, {".agents/workspace/active/T/a": ("100644", "t")})) == box.store.empty_tree


def test_composing_a_diff_gives_the_other_tree(box: Sandbox) -> None:
    """File and folder swaps included, in both directions, from the empty tree and to it, in both ways."""
    store, a, b = box.store, tree(box, BEFORE), tree(box, AFTER)
    for ours in (store, by_git_only(store)):
        assert ours.compose(a, ours.diff(a, b)) == b
        assert ours.compose(b, ours.diff(b, a)) == a
        assert ours.compose(None, store.diff(store.empty_tree, a)) == a
        assert ours.compose(a, store.diff(a, store.empty_tree)) == store.empty_tree
        assert ours.compose(a, ()) == a


def test_compose_puts_reviewed_content_on_another_head(box: Sandbox) -> None:
    """Paths that are not among the changes keep what the base says, unless they are in a changed path's way."""
    base = tree(box, {"kept": ("100644", "k"), "x/ignored": ("100644", "i"), "y": ("100644", "y")})
    blob = box.git("hash-object", "-w", "--stdin", stdin=b"new")
    changes = (
        TreeChange(b"x", None, "100644", None, blob),
        TreeChange(b"y/z", None, "100644", None, blob),
        TreeChange(b"absent/file", "100644", None, blob, None),
    )
    expected = tree(box, {"kept": ("100644", "k"), "x": ("100644", "new"), "y/z": ("100644", "new")})
    assert box.store.compose(base, changes) == expected
    assert by_git_only(box.store).compose(base, changes) == expected


names = st.sampled_from(["a", "b", "a-", "a.b", "a0", "ä"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
trees = st.dictionaries(paths, st.tuples(st.sampled_from(["100644", "100755"]), st.sampled_from("xyz")), max_size=6)


def consistent(entries: Tree) -> Tree:
    """Without paths that would need a folder where a file is."""
    return {n: e for n, e in entries.items() if not any(other.startswith(n + "/") for other in entries)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return sandbox(tmp_path_factory.mktemp("shared") / "r")


@hypothesis_settings(max_examples=25)
@given(a=trees, b=trees)
def test_compose_undoes_diff_for_any_trees(shared: Sandbox, a: Tree, b: Tree) -> None:
    """compose(a, diff(a, b)) == b, and libgit2 and git agree on both halves."""
    store = shared.store
    one, two = tree(shared, consistent(a)), tree(shared, consistent(b))
    changes = store.diff(one, two)
    assert store.compose(one, changes) == two
    assert by_git_only(store).diff(one, two) == changes


@given(
    st.dictionaries(
        st.binary(min_size=1, max_size=4).filter(lambda n: not set(n) & {0, 47}),
        st.tuples(st.sampled_from(["100644", "40000", "120000"]), st.just("ab" * 20)),
    )
)
def test_tree_objects_survive_a_round_trip(entries: dict[bytes, tuple[str, str]]) -> None:
    assert parse_tree(render_tree(entries)) == entries


def test_store_is_private_and_reads_through_to_the_repository(box: Sandbox) -> None:
    box.store.env()
    path = box.path / ".git" / "agent-infra" / "objects"
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "info" / "alternates").read_text() == "../../objects\n"
    assert box.store.blob(box.git("rev-parse", "HEAD:f1")) == b"a1\n"
    assert list(path.parent.iterdir()) == [path]


def test_store_finds_its_alternate_after_a_move(box: Sandbox, tmp_path: Path) -> None:
    made = tree(box, AFTER)
    moved = Sandbox(box.path.rename(tmp_path / "elsewhere"))
    head = moved.git("rev-parse", "HEAD^{tree}")
    assert moved.store.diff(head, made) == by_git_only(moved.store).diff(head, made) != ()


def test_store_mends_a_lost_alternate(box: Sandbox) -> None:
    made = tree(box, AFTER)
    (box.store.path / "info" / "alternates").unlink()
    assert box.store.blob(box.git("rev-parse", "HEAD:f1")) == b"a1\n"
    assert box.store.entry(made, "edited") is not None


def test_entry_and_blob(box: Sandbox) -> None:
    made = tree(box, BEFORE)
    found = box.store.entry(made, "ä\nb".encode())
    assert found is not None
    assert found[0] == "100644"
    assert box.store.blob(found[1]) == b"odd"
    assert box.store.entry(made, "d/e") is not None
    assert box.store.entry(made, "d/*") is None
    assert box.store.entry(made, "same/below") is None


def test_patch_shows_what_changed(box: Sandbox) -> None:
    """Both paths of a moved file, no binary noise, whatever the attributes of the working tree say."""
    box.write({".gitattributes": "* -diff\n"})
    binary = {"bin": ("100644", "a\0b")}
    shown = box.store.patch(tree(box, BEFORE), tree(box, AFTER | binary)).decode()
    assert "diff --git a/edited b/edited" in shown
    assert "-e\n" in shown
    assert "+E\n" in shown
    assert "deleted file" in shown
    assert "rename" not in shown
    assert "Binary files /dev/null and b/bin differ" in shown


@pytest.mark.parametrize("many", [False, True], ids=["loose objects", "as a pack"])
def test_publish_gives_the_repository_what_it_lacks(box: Sandbox, many: bool) -> None:
    """Afterwards the repository alone can read the tree."""
    files = {f"n/{i}": ("100644", f"text {i}") for i in range(150 if many else 3)}
    made = tree(box, BEFORE | files)
    assert box.git("cat-file", "-e", made, check=False) == ""
    before = user_state(box)
    box.store.publish(made)
    box.git("-c", "core.alternateRefsCommand=", "fsck", "--strict", made)
    assert box.git("ls-tree", "-r", "--name-only", made).count("\n") == len(BEFORE | files) - 1
    added = user_state(box).keys() - before.keys()
    assert added
    assert all(name.startswith("objects/") for name in added)
    box.store.publish(box.git("rev-parse", "HEAD^{tree}"))
    assert user_state(box).keys() - before.keys() == added


def age(store: ObjectStore, days: float) -> None:
    """Make every file of the store as old as that."""
    then = time.time() - days * 86_400
    for path in store.path.rglob("*"):
        os.utime(path, (then, then))


def lost(box: Sandbox, made: str) -> bool:
    return box.store.repo.run("cat-file", "-e", made, env=box.store.env(), check=False).code != 0


def test_prune_drops_what_no_run_needs(box: Sandbox) -> None:
    """Live trees stay whole, whether they were loose or packed; the rest goes when it is old enough."""
    live, packed, dead = (tree(box, {name: ("100644", name), "e/x": ("100644", name)}) for name in ("l", "p", "d"))
    box.store.keep(packed)
    age(box.store, 2)
    young = tree(box, {"young": ("100644", "young")})
    (box.store.path / "pack" / "tmp_pack_x").write_bytes(b"left by a kill")
    (box.store.path.parent / "scratch.x").mkdir()
    for leftover in (box.store.path / "pack" / "tmp_pack_x", box.store.path.parent / "scratch.x"):
        os.utime(leftover, (0, 0))
    assert box.store.prune([live, packed, "f" * 40])
    assert [lost(box, t) for t in (live, packed, dead, young)] == [False, False, True, False]
    assert not (box.store.path / "pack" / "tmp_pack_x").exists()
    assert not (box.store.path.parent / "scratch.x").exists()
    for kept in (live, packed):
        assert len(box.listing(kept)) == 2
        assert box.store.diff(box.store.empty_tree, kept)
    age(box.store, 2)
    assert box.store.prune([packed])
    assert [lost(box, t) for t in (live, packed, young)] == [True, False, True]
    assert len(list((box.store.path / "pack").glob("*.pack"))) == 1


def test_prune_keeps_commits_and_what_they_reach(box: Sandbox) -> None:
    box.write({"f1": "only there\n"})
    commit = box.commit()
    box.git("reset", "-q", "--hard", "HEAD~1")
    box.store.keep(box.git("rev-parse", "HEAD^{tree}"), [commit])
    box.git("reflog", "expire", "--expire=now", "--all")
    box.git("gc", "-q", "--prune=now")
    age(box.store, 2)
    assert box.store.prune([commit])
    assert box.show(f"{commit}^{{tree}}", "f1") == b"only there\n"
    assert box.store.prune([], grace=0)
    assert lost(box, commit)


def test_prune_drops_nothing_when_a_live_tree_is_incomplete(box: Sandbox) -> None:
    """Doubt never deletes."""
    live, other = tree(box, {"d/x": ("100644", "x")}), tree(box, {"y": ("100644", "y")})
    found = box.store.entry(live, "d")
    assert found is not None
    (box.store.path / found[1][:2] / found[1][2:]).unlink()
    with pytest.raises(GitError):
        box.store.prune([live], grace=0)
    assert not lost(box, other)


def test_prune_waits_for_nobody(box: Sandbox) -> None:
    """While a snapshot is taken its ids are on no record, so nothing is dropped."""
    made = tree(box, AFTER)
    with box.store.in_use():
        assert not box.store.prune([], grace=0)
    assert not lost(box, made)
    assert box.store.prune([], grace=0)
    assert lost(box, made)


def test_prune_without_a_store_makes_none(box: Sandbox) -> None:
    assert box.store.prune([])
    assert not box.store.path.exists()


@pytest.mark.parametrize("kind", ["sha256", "partial clone"])
def test_repositories_that_libgit2_can_not_open(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers as git gives: diff, compose, product, keep, publish and prune."""
    makers: dict[str, Callable[[], Sandbox]] = {
        "sha256": lambda: sandbox(tmp_path / "r", "--object-format=sha256"),
        "partial clone": lambda: partial_clone(sandbox(tmp_path / "o"), tmp_path / "r"),
    }
    box = makers[kind]()
    store = box.store
    plain = {name: entry for name, entry in AFTER.items() if entry[0] != "160000"}
    head, made = box.git("rev-parse", "HEAD^{tree}"), tree(box, plain | {".agents/workspace/x": ("100644", "t")})
    changes = store.diff(head, made)
    shown = box.git("diff-tree", "-r", "--no-renames", "--name-only", "-z", head, made, env=store.env())
    assert [c.name for c in changes] == sorted(shown.split("\0")[:-1], key=str.encode)
    assert store.compose(head, changes) == made
    assert store.product(made) == tree(box, plain)
    if kind == "partial clone":
        monkeypatch.setattr(objects_module, "attempt", lambda *_: None)
        assert store.diff(head, made) == changes
        assert store.compose(head, changes) == made
    store.publish(made)
    store.keep(made, [box.git("rev-parse", "HEAD")])
    age(store, 2)
    assert store.prune([made])
    assert not lost(box, made)
    box.git("fsck", made)
