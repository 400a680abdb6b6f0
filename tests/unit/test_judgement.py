"""A commit made of several, and a merge: as good as what is in it, from literals alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from agent_infra.core.history import Claim, Commit, Entry, Ground, Kind, Original, Verdict
from agent_infra.core.judgement import Merged, judge, judge_merge, merge_by_paths
from agent_infra.core.receipts import PathChange
from agent_infra.core.run import CommitAuthorization, Memo, State
from tests.support.states import OTHER, TASK, receipt, run

A, B, C = ("100644", "a" * 40), ("100644", "b" * 40), ("100644", "c" * 40)


@pytest.mark.parametrize(
    ("ours", "theirs", "result", "answer"),
    [
        pytest.param({"a": A}, {"b": B}, {"a": A, "b": B}, Merged.CLEAN, id="apart"),
        pytest.param({"a": A}, {"a": A}, {"a": A}, Merged.CLEAN, id="the same on both sides"),
        pytest.param({"a": None}, {"b": B}, {"a": None, "b": B}, Merged.CLEAN, id="deleted"),
        pytest.param({"a": A}, {"b": B}, {"a": A}, Merged.BY_HAND, id="a side left out"),
        pytest.param({"a": A}, {"b": B}, {"a": A, "b": C}, Merged.BY_HAND, id="another content"),
        pytest.param({"a": A}, {"b": B}, {"a": A, "b": B, "c": C}, Merged.BY_HAND, id="a path of its own"),
        pytest.param({"a": A}, {"a": B}, {"a": C}, Merged.UNKNOWN, id="both changed it"),
        pytest.param({"a": None, "b": A}, {"a": B}, {"a": None, "b": C}, Merged.UNKNOWN, id="moved and changed"),
    ],
)
def test_a_merge_path_by_path(
    ours: dict[str, Entry], theirs: dict[str, Entry], result: dict[str, Entry], answer: Merged
) -> None:
    """Where git can't merge for us, only what needs no merging of content is known."""
    assert merge_by_paths(ours, theirs, result)[0] is answer


GOOD, WEAK, BAD = Verdict(Kind.VERIFIED), Verdict(Kind.WEAK, "rebased"), Verdict(Kind.UNRECEIPTED)


@pytest.mark.parametrize(
    ("answer", "parents", "verdict"),
    [
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", None, True)], "verified", id="clean"),
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", WEAK, True)], "verified-weak(merge)", id="weak parent"),
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", BAD, True)], "verified-weak(merge)", id="not required"),
        pytest.param(Merged.CLEAN, [("a", GOOD, True), ("b", BAD, False)], "unreceipted", id="faulty parent"),
        pytest.param(Merged.BY_HAND, [("a", GOOD, True), ("b", GOOD, True)], "unreceipted", id="by hand"),
        pytest.param(Merged.UNKNOWN, [("a", GOOD, True), ("b", GOOD, True)], "incomplete(GIT_FAILED)", id="unknown"),
        pytest.param(Merged.UNKNOWN, [("a", GOOD, True), ("b", BAD, False)], "unreceipted", id="unknown and faulty"),
    ],
)
def test_a_merge_is_as_good_as_its_parents(
    answer: Merged, parents: list[tuple[str, Verdict | None, bool]], verdict: str
) -> None:
    """It adds nothing, so nothing but they can be wrong with it."""
    assert str(judge_merge(answer, ("x",), parents)) == verdict


# -- squashes ----------------------------------------------------------------------------------------------------------

HEAD, FIRST, SECOND, SQUASH = "1" * 40, "2" * 40, "3" * 40, "4" * 40
TREES = {FIRST: "5" * 40, SECOND: "6" * 40}


def base(task: str, *, head: str | None, made: str | None, changes: Mapping[str, Entry] | None) -> Ground:
    """A run that led from `head` to the commit `made`, whose review judged these changes."""
    judged = None if changes is None else [_change(path, entry) for path, entry in changes.items()]
    review = receipt("review-code.md", status="consumed", input_changes=judged)
    leave = CommitAuthorization(head=head, tree=TREES[made or FIRST])
    state = State(run=run(review, commit_authorization=leave), memo=Memo(), seq=1)
    return Ground(Claim(task, "run-1", "0" * 64), state, made, (), "p" * 64)


def _change(path: str, entry: Entry) -> PathChange:
    return PathChange(path=path, mode=entry[0] if entry else None, oid=entry[1] if entry else None)


@dataclass
class Around:
    """The history around a squash: which commits are here, what its parent has, and what patches are what."""

    tree: Mapping[str, Entry] = field(default_factory=dict)
    originals: Mapping[str, Original] = field(default_factory=dict)
    patches: Mapping[tuple[str | None, str], str] = field(default_factory=dict)
    ancestors: tuple[str, ...] = ()
    merges: tuple[str, ...] = ()

    def entries(self) -> Mapping[str, Entry]:
        return self.tree

    def patch(self) -> str:
        return "its own"

    def between(self, first: str | None, last: str) -> str:
        return self.patches.get((first, last), "another")

    def original(self, oid: str) -> Original | None:
        return self.originals.get(oid)

    def follows(self, oid: str) -> bool:
        return oid in self.ancestors

    def joins(self, last: str) -> bool:
        return last in self.merges


ONE = base(TASK, head=HEAD, made=FIRST, changes={"a": A, "b": None})
TWO = base(OTHER, head=FIRST, made=SECOND, changes={"a": B})
HERE: dict[str, Original] = {FIRST: (TREES[FIRST], (HEAD,)), SECOND: (TREES[SECOND], (FIRST,))}
LIES = HERE | {FIRST: ("7" * 40, (HEAD,))}
BOTH: dict[str, Entry] = {"a": B, "b": None}


def squash(
    around: Around, *grounds: Ground, changes: Mapping[str, Entry] = BOTH, parents: tuple[str, ...] = ("9" * 40,)
) -> str:
    return str(judge(Commit(SQUASH, parents, "8" * 40, "x", changes), grounds or (TWO, ONE), around))


GOOD_SQUASH, BAD_SQUASH = "verified-weak(squashed)", "broken(VERIFY_TREE_UNAUTHORIZED)"


@pytest.mark.parametrize(
    ("around", "verdict"),
    [
        pytest.param(Around(originals=HERE, patches={(HEAD, SECOND): "its own"}), GOOD_SQUASH, id="the same patch"),
        pytest.param(Around(originals=HERE), BAD_SQUASH, id="their blobs, but another patch"),
        pytest.param(Around(originals=HERE, ancestors=(HEAD,), merges=(SECOND,)), GOOD_SQUASH, id="what git merges"),
        pytest.param(Around(originals=HERE, merges=(SECOND,)), BAD_SQUASH, id="a merge that brings what was below"),
        pytest.param(Around(originals=HERE, ancestors=(HEAD,)), BAD_SQUASH, id="not what git merges"),
        pytest.param(Around(), GOOD_SQUASH, id="not here: the blobs decide"),
        pytest.param(Around(ancestors=(FIRST,)), BAD_SQUASH, id="not here, but below: it would undo what came after"),
        pytest.param(
            Around(
                originals=HERE | {FIRST: ("7" * 40, (HEAD,))}, patches={(HEAD, SECOND): "its own"}, ancestors=(HEAD,)
            ),
            GOOD_SQUASH,
            id="a recorded commit that is not the authorized one is not asked",
        ),
    ],
)
def test_a_squash_is_what_its_commits_were_together(around: Around, verdict: str) -> None:
    """Their patch, or what git makes of it; their content only where nothing else can be asked."""
    assert squash(around) == verdict


def test_a_squash_of_what_does_not_follow() -> None:
    """In the order of the message or against it; nothing missing, nothing more, one parent, all recorded."""
    apart = base(OTHER, head=HEAD, made=SECOND, changes={"a": B})
    assert squash(Around(), ONE, apart) == GOOD_SQUASH
    assert squash(Around(), apart, ONE) == GOOD_SQUASH
    assert squash(Around({"b": None}), ONE, apart, changes={"a": B}) == GOOD_SQUASH
    assert squash(Around({"b": C}), ONE, apart, changes={"a": B}) == BAD_SQUASH
    assert squash(Around(), ONE, apart, changes={**BOTH, "c": C}) == BAD_SQUASH
    assert squash(Around(), ONE, apart, changes={"a": C, "b": None}) == BAD_SQUASH
    assert squash(Around(), ONE, apart, parents=(HEAD, FIRST)) == BAD_SQUASH
    assert squash(Around(), ONE, base(OTHER, head=FIRST, made=None, changes={"a": B})) == BAD_SQUASH
    assert squash(Around(), ONE, base(OTHER, head=FIRST, made=SECOND, changes=None)) == BAD_SQUASH


def test_a_circle_of_commits_has_some_order() -> None:
    """Evidence may say anything; the answer is a verdict."""
    circle = base(TASK, head=SECOND, made=FIRST, changes={"a": A, "b": None})
    assert squash(Around(), circle, TWO) == GOOD_SQUASH


def test_a_root_is_squashed_too() -> None:
    """The first of them may stand on nothing."""
    root = base(TASK, head=None, made=FIRST, changes={"a": A, "b": None})
    here = HERE | {FIRST: (TREES[FIRST], ())}
    assert squash(Around(originals=here, patches={(None, SECOND): "its own"}), root, TWO, parents=()) == GOOD_SQUASH
    assert squash(Around(originals=here, merges=(SECOND,)), root, TWO, parents=()) == BAD_SQUASH


def test_what_a_person_said_shows_in_the_verdict() -> None:
    """Beside what is said about the commit itself."""
    spoken = Ground(ONE.claim, ONE.state, ONE.recorded, ("edited x.md",), ONE.patch, ("decided by a person: CD-1",))
    commit = Commit(SQUASH, ("9" * 40,), "8" * 40, "x", BOTH)
    verdict = judge(commit, (spoken, TWO), Around())
    assert str(verdict) == "verified-weak(squashed; edited x.md)"
    assert verdict.detail.endswith("; decided by a person: CD-1")


def test_the_authorized_commit_on_nothing() -> None:
    """The first commit of a repository has no parent."""
    root = base(TASK, head=None, made=FIRST, changes={"a": A})
    commit = Commit(FIRST, (), TREES[FIRST], "x", {"a": A})
    assert str(judge(commit, [root], Around())) == "verified"
    assert root.origins == ("cli",)
    other = Commit(SECOND, (HEAD,), TREES[FIRST], "x", {"b": A})
    assert str(judge(other, [root], Around())) == "broken(VERIFY_PARENT_UNAUTHORIZED)"
