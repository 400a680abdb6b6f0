"""`agent-infra verify` on real histories: what was earned is verified, all else is named, and nothing is written."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_infra.core.grounds import check_anchor, ground
from agent_infra.core.history import Chronicle, Claim, Commit, Verdict, broken
from agent_infra.core.judgement import judge
from agent_infra.core.run import fold
from agent_infra.errors import AgentInfraError
from agent_infra.git import evidence
from agent_infra.git.glance import Glance
from agent_infra.git.history import open_history
from agent_infra.git.scratch import Scratch
from agent_infra.services import abandon, orchestrate
from agent_infra.services.guard import gate
from agent_infra.services.proof.verify import Wish, verify
from agent_infra.stores.journal import GENESIS, parse_chain
from agent_infra.stores.runs import render_view
from tests.support import lifecycle
from tests.support.lifecycle import FIXED, OTHER, PROGRAM, TASK, World, artifact_text, world_at
from tests.support.surroundings import linked

At = Callable[[str], World]
REF = f"refs/agent-infra/runs/{TASK}"
LONG = "".join(f"line {number}\n" for number in range(40))


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


@pytest.fixture
def done(at: At) -> World:
    return at("done")


@dataclass
class Said:
    code: int
    verdicts: dict[str, str]
    json: dict[str, Any]
    err: str

    @property
    def last(self) -> str:
        return list(self.verdicts.values())[-1]


def ask(world: World, *args: str, code: int, **options: Any) -> Said:
    """What `verify --json` says, with its exit code."""
    answer = world.cli("verify", *args, "--json", check=False, **options)
    assert answer.code == code, answer
    found = answer.json
    inner = {one["commit"]: one["reason"] or one["code"] for one in found["commits"]}
    verdicts = {
        one["commit"]: one["verdict"] + (f"({inner[one['commit']]})" if inner[one["commit"]] else "")
        for one in found["commits"]
    }
    return Said(answer.code, verdicts, found, answer.err)


def plain(world: World, name: str = "other.txt", text: str = "x\n") -> str:
    """A commit that nobody reviewed."""
    world.write(name, text)
    world.git("add", name)
    world.git("commit", "-q", "-m", f"plain {name}")
    return world.head


def two_tasks(world: World, *, flow: lifecycle.Flow = lifecycle.Flow.STREAMLINED) -> None:
    """A second task, done on top of the first."""
    world.make_task(OTHER)
    world.begin(OTHER, flow=flow)
    world.to_commit(OTHER, work=lambda: world.write("src/second.py", "SECOND = 2\n") and None)
    world.open_step(OTHER)
    world.cli("commit", OTHER, "-m", "feat: second")
    assert world.close_step(OTHER) == "completed"


def bodies(world: World, range_: str) -> str:
    return world.git("log", "--reverse", "--format=%B", range_).out


# -- what was earned ---------------------------------------------------------------------------------------------------


def test_an_earned_commit_is_verified(done: World) -> None:
    """The table names commit, verdict and subject; the JSON has the same facts and who reported them."""
    answer = done.cli("verify", "HEAD~1..HEAD")
    assert answer.out.splitlines()[0] == f"{done.head[:10]}  verified  fix: sum"
    assert answer.out.splitlines()[1].startswith("1 commit: 1 verified (rules: HEAD~1:.agents/config.toml)")
    said = ask(done, "HEAD~1..HEAD", code=0)
    assert said.json["status"] == "ok"
    assert said.json["commits"][0]["tasks"] == [TASK]
    assert said.json["commits"][0]["origins"] == ["cli"]


def test_the_evidence_of_post_commit_is_enough(at: At) -> None:
    """A push right after the commit can be checked, though its step is not sealed yet."""
    world = at("opened")
    world.cli("commit", TASK, "-m", "fix: sum")
    assert ask(world, "HEAD~1..HEAD", code=0).last == "verified"


def test_a_clone_needs_nothing_but_the_evidence(done: World) -> None:
    """Neither journal nor task folder nor snapshots of the machine are used."""
    done.git("clone", "-q", str(done.root), "../clone", "-c", "core.hooksPath=/dev/null")
    clone = World(done.root.parent / "clone", done.env)
    missing = ask(clone, "HEAD~1..HEAD", code=2)
    assert missing.last == "incomplete(VERIFY_EVIDENCE_MISSING)"
    assert "git fetch" in missing.json["commits"][0]["detail"]
    clone.git("fetch", "-q", "origin", REF)
    named = clone.git("rev-parse", "FETCH_HEAD").out.strip()
    assert ask(clone, "HEAD~1..HEAD", "--evidence", named, code=0).last == "verified"
    assert ask(clone, "HEAD~1..HEAD", "--evidence", "HEAD", code=2).json["error"]["code"] == "VERIFY_EVIDENCE_MISSING"
    clone.git("fetch", "-q", "origin", "refs/agent-infra/runs/*:refs/agent-infra/runs/*")
    assert ask(clone, "HEAD~1..HEAD", code=0).last == "verified"


def test_the_journal_of_this_machine_is_no_evidence(done: World) -> None:
    """Without its ref a run says nothing, however good the journal beside it is."""
    done.git("update-ref", "-d", REF)
    assert ask(done, "HEAD~1..HEAD", code=2).last == "incomplete(VERIFY_EVIDENCE_MISSING)"


def test_nothing_is_written(done: World) -> None:
    """Every byte of the repository is as before, also where merges had to be made again."""
    plain(done)
    done.git("checkout", "-q", "-b", "side", "HEAD~1")
    plain(done, "side.txt")
    done.git("checkout", "-q", "main")
    done.git("merge", "-q", "--no-ff", "-m", "merge", "side")

    def everything() -> dict[str, str]:
        files = (path for path in sorted(done.root.rglob("*")) if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = everything()
    done.cli("verify", "HEAD~3..HEAD", check=False)
    assert everything() == before


def test_two_commits_of_one_task_are_both_verified(done: World) -> None:
    """A reopened task changes task.md and adds rounds; the older commit stands on the documents of its time."""
    orchestrate.reopen(done.context, TASK, stage=lifecycle.Stage.CODE, reason="more")
    done.to_commit(work=lambda: done.write("src/app.py", FIXED + "# more\n") and None)
    path = done.folder() / "analysis.md"
    done.open_step()
    done.cli("commit", TASK, "-m", "fix: more")
    assert path.exists()
    assert done.close_step() == "completed"
    assert list(ask(done, "HEAD~2..HEAD", code=0).verdicts.values()) == ["verified", "verified"]


def test_a_full_flow_with_rework_and_findings_is_verified(at: At) -> None:
    """Rejected reviews, settled findings and later rounds are part of an honest history."""
    world = at("installed")
    world.make_task()
    world.begin(flow=lifecycle.Flow.FULL)
    world.step()
    world.step()
    world.step()

    def reject() -> None:
        world.finding("| PL-1 | plan | 1 | major | open |  |")

    def settle() -> None:
        world.finding("| PL-1 | plan | 1 | major | closed | plan-r2.md:1 |")

    world.step(work=reject, verdict="Changes Requested", counts=(0, 1, 0))
    world.step()
    world.step(work=settle)
    world.to_commit()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    assert ask(world, "HEAD~1..HEAD", code=0).last == "verified"


# -- what was not ------------------------------------------------------------------------------------------------------


def test_a_commit_without_a_receipt_is_named(done: World) -> None:
    """The run is over, commits are free again, and they are not receipted."""
    new = plain(done)
    said = ask(done, "HEAD~2..HEAD", code=1)
    assert list(said.verdicts.values()) == ["verified", "unreceipted"]
    assert new[:10] in done.cli("verify", "HEAD~1..HEAD", check=False).out


@pytest.mark.parametrize(
    "state", [pytest.param("ready", id="reviewed, not authorized"), pytest.param("opened", id="authorized, not used")]
)
def test_a_bypass_by_plumbing_is_named(at: At, state: str) -> None:
    """Even the reviewed bytes are no receipt where the run never recorded their commit."""
    world = at(state)
    world.git("add", "-A", "src")
    tree = world.git("write-tree").out.strip()
    new = world.git("commit-tree", tree, "-p", "HEAD", "-m", "plumbing").out.strip()
    world.git("-c", "core.hooksPath=/dev/null", "update-ref", "refs/heads/main", new)
    assert ask(world, "HEAD~1..HEAD", code=1).last == "unreceipted"


def test_copied_trailers_do_not_help_a_bypass(done: World) -> None:
    """The trailers of an earned commit on other content: the tree is not the authorized one."""
    done.write("evil.py", "x = 1\n")
    done.git("add", "evil.py")
    done.git("commit", "-q", "-m", bodies(done, "HEAD~1..HEAD"))
    assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TREE_UNAUTHORIZED)"


def test_amended_content_is_broken_and_an_amended_message_weak(done: World) -> None:
    """The tree counts; what the message says does not, but the commit is not the recorded one any more."""
    message = bodies(done, "HEAD~1..HEAD")
    done.git("commit", "-q", "--amend", "-m", "fix: reworded\n\n" + message)
    assert ask(done, "HEAD~1..HEAD", code=0).last == "verified-weak(amended)"
    done.git("commit", "-q", "--amend", "-m", "fix: without trailers")
    assert ask(done, "HEAD~1..HEAD", code=0).last == "verified-weak(no trailers; amended)"
    done.write("src/app.py", FIXED + "# sneaked\n")
    done.git("commit", "-q", "--amend", "-a", "-m", message)
    assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TREE_UNAUTHORIZED)"
    done.git("commit", "-q", "--amend", "-m", "fix: sneaked")
    assert ask(done, "HEAD~1..HEAD", code=1).last == "unreceipted"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("Agent-Infra-Task: {task}", id="one trailer"),
        pytest.param("Agent-Infra-Task: ../x\nAgent-Infra-Run: r\nAgent-Infra-Receipt: {digest}", id="no task id"),
        pytest.param("Agent-Infra-Task: {task}\nAgent-Infra-Run: r\nAgent-Infra-Receipt: abc", id="no digest"),
    ],
)
def test_malformed_trailers_are_broken(done: World, lines: str) -> None:
    """Half a claim is no claim."""
    done.git("commit", "-q", "--allow-empty", "-m", "x\n\n" + lines.format(task=TASK, digest="0" * 64))
    assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TRAILER_INVALID)"


def test_trailers_in_prose_are_nobodys_claim(done: World) -> None:
    """A message may speak of the trailers."""
    done.git("commit", "-q", "--allow-empty", "-m", f"docs\n\nAgent-Infra-Task: names the task\n\nThat is {TASK}.")
    assert ask(done, "HEAD~1..HEAD", code=1).last == "unreceipted"


def test_unknown_receipt_is_broken(done: World) -> None:
    """Evidence that was rolled back, or of another commit, does not hold the line."""
    done.git("update-ref", REF, f"{REF}~3")
    said = ask(done, "HEAD~1..HEAD", code=1)
    assert said.last == "broken(VERIFY_TRAILER_UNKNOWN)"


# -- the same work, elsewhere ------------------------------------------------------------------------------------------


def test_a_rebased_commit_is_weak(done: World) -> None:
    """On another parent the tree is another; what was reviewed is all there."""
    done.git("checkout", "-q", "-b", "side", "HEAD~1")
    plain(done)
    done.git("cherry-pick", "main")
    assert ask(done, "HEAD~1..HEAD", code=0).last == "verified-weak(rebased)"


def long_change(world: World) -> None:
    """A run that changed one line of a long file."""
    world.write("long.txt", LONG)
    world.git("add", "long.txt")
    world.git("commit", "-q", "-m", "long")
    world.make_task()
    world.begin()
    world.to_commit(work=lambda: world.write("long.txt", LONG.replace("line 5\n", "line five\n")) and None)
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: five")
    assert world.close_step() == "completed"


def test_a_rebase_over_another_change_of_the_file_is_weak(at: At) -> None:
    """The blob is another, the patch is the same; in a clone that never saw the original commit, too."""
    world = at("installed")
    long_change(world)
    world.git("checkout", "-q", "-b", "side", "HEAD~1")
    plain(world, "long.txt", LONG.replace("line 35\n", "line thirty-five\n"))
    world.git("cherry-pick", "main")
    assert ask(world, "HEAD~1..HEAD", code=0).last == "verified-weak(rebased)"
    world.git("clone", "-q", "--single-branch", "-b", "side", f"file://{world.root}", "../clone")
    clone = World(world.root.parent / "clone", world.env)
    clone.git("fetch", "-q", "origin", f"{REF}:{REF}")
    assert ask(clone, "HEAD~1..HEAD", code=0).last == "verified-weak(rebased)"


def test_white_space_is_part_of_a_patch(at: At) -> None:
    """A rebase that also indents a line is not the same work."""
    world = at("installed")
    long_change(world)
    message = bodies(world, "HEAD~1..HEAD")
    world.git("checkout", "-q", "-b", "side", "HEAD~1")
    plain(world, "long.txt", LONG.replace("line 35\n", "line thirty-five\n"))
    world.write("long.txt", (world.root / "long.txt").read_text().replace("line 5\n", "  line five\n"))
    world.git("commit", "-q", "-a", "-m", message)
    assert ask(world, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TREE_UNAUTHORIZED)"


def test_earned_work_does_not_undo_what_came_after_it(done: World) -> None:
    """The same content by another patch, with the trailers of then: old bytes brought back over newer ones."""
    message, task = bodies(done, "HEAD~1..HEAD"), OTHER
    done.make_task(task)
    done.begin(task)
    done.to_commit(task, work=lambda: done.write("src/app.py", FIXED + "# safer\n") and None)
    done.open_step(task)
    done.cli("commit", task, "-m", "fix: safer")
    assert done.close_step(task) == "completed"
    done.write("src/app.py", FIXED)
    for text in (message, f"{message}\n{bodies(done, 'HEAD~1..HEAD')}", "without trailers"):
        done.git("commit", "-q", "-a", "-m", text)
        last = ask(done, "HEAD~1..HEAD", code=1).last
        assert last == "unreceipted" or last.endswith("_UNAUTHORIZED)")
        done.git("reset", "-q", "--soft", "HEAD~1")


def test_a_squash_onto_another_change_of_the_file_is_weak(at: At) -> None:
    """Nobody's blobs are the judged ones any more; in a clone that has only the squash it can't be told from a lie."""
    world = at("installed")
    long_change(world)
    orchestrate.reopen(world.context, TASK, stage=lifecycle.Stage.CODE, reason="more")
    text = (world.root / "long.txt").read_text().replace("line 15\n", "line fifteen\n")
    world.to_commit(work=lambda: world.write("long.txt", text) and None)
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: fifteen")
    assert world.close_step() == "completed"
    world.git("checkout", "-q", "-b", "side", "HEAD~2")
    plain(world, "long.txt", LONG.replace("line 35\n", "line thirty-five\n"))
    world.git("merge", "-q", "--squash", "main")
    world.git("commit", "-q", "--no-edit")
    assert ask(world, "HEAD~1..HEAD", code=0).last == "verified-weak(squashed)"
    world.git("clone", "-q", "--single-branch", "-b", "side", f"file://{world.root}", "../clone")
    clone = World(world.root.parent / "clone", world.env)
    clone.git("fetch", "-q", "origin", f"{REF}:{REF}")
    assert ask(clone, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TREE_UNAUTHORIZED)"
    world.write("long.txt", (world.root / "long.txt").read_text() + "x")
    world.git("commit", "-q", "-a", "--amend", "--no-edit")
    assert ask(world, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TREE_UNAUTHORIZED)"


@pytest.mark.parametrize("order", [pytest.param(True, id="oldest first"), pytest.param(False, id="newest first")])
def test_a_squash_of_earned_commits_is_weak(done: World, order: bool) -> None:
    """The trailers of both stay in the message, wherever git puts them; any byte more is broken."""
    two_tasks(done)
    assert list(ask(done, "HEAD~2..HEAD", code=0).verdicts.values()) == ["verified"] * 2
    options = ["--reverse"] if order else []
    message = done.git("log", *options, "--format=%B", "HEAD~2..HEAD").out
    done.git("reset", "-q", "--soft", "HEAD~2")
    done.git("commit", "-q", "-m", message)
    assert ask(done, "HEAD~1..HEAD", code=0).last == "verified-weak(squashed)"
    done.write("more.txt", "more\n")
    done.git("add", "more.txt")
    done.git("commit", "-q", "--amend", "-m", message)
    assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TREE_UNAUTHORIZED)"


def test_git_s_own_squash_message_is_read(done: World) -> None:
    """`merge --squash` indents what it squashes."""
    two_tasks(done)
    done.git("checkout", "-q", "-b", "release", "HEAD~2")
    done.git("merge", "-q", "--squash", "main")
    done.git("commit", "-q", "--no-edit")
    assert ask(done, "HEAD~1..HEAD", code=0).last == "verified-weak(squashed)"


# -- merges ------------------------------------------------------------------------------------------------------------


def merged(world: World, *, evil: bool = False, side: str = "side.txt") -> None:
    """A branch that nobody reviewed, merged into the earned commit."""
    world.git("checkout", "-q", "-b", "side", "HEAD~1")
    plain(world, side)
    world.git("checkout", "-q", "main")
    world.git("merge", "-q", "--no-ff", "--no-commit", "side")
    if evil:
        world.write("evil.py", "x = 1\n")
        world.git("add", "evil.py")
    world.git("commit", "-q", "-m", "merge side")


def test_a_clean_merge_of_verified_parents_is_verified(done: World) -> None:
    """What is outside of the range is not judged; what lies in it is."""
    merged(done)
    assert list(ask(done, "side..HEAD", code=0).verdicts.values()) == ["verified", "verified"]
    said = ask(done, "HEAD~2..HEAD", code=1)
    assert sorted(said.verdicts.values()) == ["unreceipted", "unreceipted", "verified"]
    assert "a merge of" in next(one["detail"] for one in said.json["commits"] if one["commit"] == done.head)


def test_a_merge_with_something_of_its_own_is_named(done: World) -> None:
    """A path that neither side has came by hand."""
    merged(done, evil=True)
    said = ask(done, "side..HEAD", code=1)
    assert said.last == "unreceipted"
    assert "evil.py" in said.json["commits"][-1]["detail"]


@pytest.mark.parametrize("evil", [False, True])
def test_a_merge_of_three_is_made_again_too(done: World, evil: bool) -> None:
    """More parents are no way to bring what none of them has."""
    for name in ("one", "two"):
        done.git("checkout", "-q", "-b", name, "main~1")
        plain(done, f"{name}.txt")
    done.git("checkout", "-q", "main")
    done.git("merge", "-q", "--no-ff", "-m", "merge three", "one", "two")
    if evil:
        done.write("evil.py", "x = 1\n")
        done.git("add", "evil.py")
        done.git("commit", "-q", "--amend", "--no-edit")
    report = verify(done.root, Wish("HEAD^!"), environment={})
    assert [str(one.verdict) for one in report.commits] == ["unreceipted" if evil else "verified"]
    assert report.exit_code == int(evil)


def test_marks_of_a_conflict_are_no_clean_merge(done: World) -> None:
    """What git wrote where it could not merge was not reviewed either."""
    done.git("checkout", "-q", "-b", "side", "HEAD~1")
    plain(done, "src/app.py", "other\n")
    done.git("checkout", "-q", "main")
    done.git("merge", "-q", "--no-ff", "-m", "merge", "side", check=False)
    done.git("commit", "-q", "-a", "-m", "merge side")
    assert verify(done.root, Wish("HEAD^!"), environment={}).exit_code == 1


def test_an_older_git_has_the_library_merge(done: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.38: what libgit2 makes of both sides is as good; what nobody here can make again is not called fine."""
    done.git("checkout", "-q", "-b", "side", "HEAD~1")
    plain(done, "src/app.py", "# a line above\n\n\n\ndef add(a, b):\n    return a - b\n")
    done.git("checkout", "-q", "main")
    done.git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    monkeypatch.setattr(Scratch, "merge", lambda *_: (None, False))
    assert verify(done.root, Wish("HEAD^!"), environment={}).counts == {"verified": 1}
    monkeypatch.setattr(Scratch, "library_makes", lambda *_: False)
    report = verify(done.root, Wish("HEAD^!"), environment={})
    assert (report.exit_code, str(report.commits[0].verdict)) == (2, "incomplete(GIT_FAILED)")


def test_a_git_that_can_t_merge_for_us_compares_path_by_path(done: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.38: apart it is clean, a path of its own is found; content that had to be merged is not proven."""
    monkeypatch.setattr(Scratch, "merge", lambda *_: (None, False))
    monkeypatch.setattr(Scratch, "library_makes", lambda *_: False)
    merged(done)
    assert verify(done.root, Wish("side..HEAD"), environment={}).counts == {"verified": 2}
    done.write("evil.py", "x = 1\n")
    done.git("add", "evil.py")
    done.git("commit", "-q", "--amend", "--no-edit")
    assert verify(done.root, Wish("side..HEAD"), environment={}).counts == {"verified": 1, "unreceipted": 1}


def test_a_merge_that_a_person_let_pass_is_allowed(at: At) -> None:
    """Also one that was finished by hand."""
    world = at("begun")
    plain(linked(world, "side", "-b", "side"))
    gate.allow(world.context, reason="needed now", person="ada@example.org")
    world.git("merge", "-q", "--no-ff", "--no-commit", "side")
    world.write("by-hand.txt", "x\n")
    world.git("add", "by-hand.txt")
    world.git("commit", "-q", "-m", "merge side")
    assert ask(world, "side..HEAD", code=0).last == "allowed"


def test_a_merge_is_no_authorized_commit(at: At) -> None:
    """A second parent brings what nobody reviewed, though tree and first parent are the authorized ones."""
    world = at("opened")
    world.cli("commit", TASK, "-m", "fix: sum")
    message, tree = bodies(world, "HEAD~1..HEAD"), world.git("rev-parse", "HEAD^{tree}").out.strip()
    world.close_step()
    world.git("checkout", "-q", "-b", "side", "HEAD~1")
    stranger = plain(world)
    new = world.git("commit-tree", tree, "-p", "main~1", "-p", stranger, "-m", message).out.strip()
    assert ask(world, f"side..{new}", code=1).last.startswith("unreceipted")


# -- people ------------------------------------------------------------------------------------------------------------


def test_what_a_person_let_pass_is_allowed(at: At) -> None:
    """It is on record with its reason, and for that commit alone."""
    world = at("begun")
    gate.allow(world.context, reason="hotfix", person="ada@example.org")
    plain(world)
    said = ask(world, "HEAD~1..HEAD", code=0)
    assert said.last == "allowed"
    assert "hotfix" in said.json["commits"][0]["detail"]
    orchestrate.end(world.context, TASK, reason="over")
    world.git("commit", "-q", "--amend", "-m", "another")
    assert ask(world, "HEAD~1..HEAD", code=1).last == "unreceipted"


def test_a_step_aborted_after_its_commit_is_weak(at: At) -> None:
    """The commit is the authorized one, but nobody saw its step end well."""
    world = at("opened")
    world.cli("commit", TASK, "-m", "fix: sum")
    abandon.abandon(world.context, TASK, reason="lost", restored=False)
    assert ask(world, "HEAD~1..HEAD", code=0).last == "verified-weak(aborted)"


def test_adopted_reviews_are_weak(at: At) -> None:
    """What a person took over from before the run has no receipt."""
    world = at("installed")
    world.make_task()
    world.fix()
    for stage in ("analysis", "code", "review-code"):
        step = lifecycle.Step(lifecycle.Stage(stage), 1, f"{stage}.md")
        (world.folder() / step.artifact).write_text(artifact_text(step))
    wish = orchestrate.Beginning(flow=lifecycle.Flow.STREAMLINED, from_head=True, adopt_reviews=True)
    orchestrate.begin(world.context, TASK, wish)
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"
    assert ask(world, "HEAD~1..HEAD", code=0).last == "verified-weak(adopted review-code.md)"


# -- what can't be checked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param((), "no upstream", id="no upstream"),
        pytest.param(("HEAD..HEAD",), "empty", id="empty range"),
        pytest.param(("nowhere..HEAD",), "means nothing here", id="unknown revision"),
        pytest.param(("HEAD~1..HEAD", "--policy-from", "nowhere"), "no commit here", id="unknown policy"),
        pytest.param(("--", "--all"), "means nothing here", id="an option as range"),
    ],
)
def test_exit_2_where_nothing_could_be_checked(done: World, args: tuple[str, ...], words: str) -> None:
    """Doubt is never 0, and both outputs say why."""
    answer = done.cli("verify", "--json", *args, check=False)
    assert answer.code == 2, answer
    assert words in answer.json["error"]["message"]
    assert words in answer.err


def test_upstream_is_the_default(done: World) -> None:
    """`@{upstream}..HEAD` where a branch has one."""
    done.git("branch", "base", "HEAD~1")
    done.git("branch", "-q", "--set-upstream-to=base")
    assert ask(done, code=0).last == "verified"


def test_a_shallow_cut_is_incomplete(done: World) -> None:
    """What lies behind the cut is not known; the range into it neither."""
    done.git("clone", "-q", "--depth", "1", f"file://{done.root}", "../clone")
    clone = World(done.root.parent / "clone", done.env)
    clone.git("fetch", "-q", "--depth", "50", "origin", f"{REF}:{REF}")
    clone.git("fetch", "-q", "--depth", "1", "origin", "main")
    assert ask(clone, "HEAD", code=2).last == "incomplete(VERIFY_SHALLOW)"
    assert "shallow" in ask(clone, "HEAD~1..HEAD", code=2).err


# -- the policy --------------------------------------------------------------------------------------------------------


def with_policy(world: World, text: str) -> str:
    return plain(world, ".agents/config.toml", text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param('branches = ["release/*"]', 0, id="another branch"),
        pytest.param('branches = ["main"]', 1, id="this branch"),
        pytest.param('paths = ["src/"]', 0, id="another path"),
        pytest.param('paths = ["*.txt"]', 1, id="this path"),
        pytest.param('paths = ["*.txt", "!other.txt"]', 0, id="path taken back"),
        pytest.param('authors = ["bot@*"]', 0, id="another author"),
        pytest.param('authors = ["ADA@example.org"]', 1, id="this author"),
    ],
)
def test_the_policy_says_which_commits_need_a_receipt(done: World, text: str, code: int) -> None:
    """It comes from the base of the range, never from the commits that are judged."""
    with_policy(done, f"[verify.require]\n{text}\n")
    plain(done)
    assert ask(done, "HEAD~1..HEAD", code=code).last == "unreceipted"


def test_a_change_can_t_weaken_its_own_policy(done: World) -> None:
    """Rules inside the range don't count; `--policy-from` names a branch whose rules do."""
    with_policy(done, "[verify.require]\npaths = []\n")
    plain(done)
    ask(done, "HEAD~2..HEAD", code=1)
    ask(done, "HEAD~2..HEAD", "--policy-from", "HEAD", code=0)
    ask(done, "HEAD~1..HEAD", "--policy-from", "HEAD~2", code=1)


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        pytest.param('"src/**" = "full"', "broken(VERIFY_FLOW)", id="more than the run had"),
        pytest.param('"src/**" = "streamlined"', "verified", id="what the run had"),
        pytest.param('"docs/**" = "full"', "verified", id="another path"),
    ],
)
def test_the_policy_can_demand_a_least_flow(done: World, rule: str, verdict: str) -> None:
    """A commit that was earned with less process than its paths need is not fine; the path is named."""
    world = done
    world.git("checkout", "-q", "-b", "rules", "HEAD~1")
    with_policy(world, f"[flow]\n{rule}\n")
    world.git("checkout", "-q", "main")
    found = ask(world, "HEAD~1..HEAD", "--policy-from", "rules", code=verdict != "verified")
    assert found.last == verdict
    assert verdict == "verified" or "needs the full flow" in found.json["commits"][0]["detail"]


def test_a_squash_lends_no_flow_to_another_path(done: World) -> None:
    """The path of the shorter run had no more process because a longer run is in the same commit."""
    two_tasks(done, flow=lifecycle.Flow.FULL)
    done.git("checkout", "-q", "-b", "squash", "HEAD~2")
    done.git("merge", "-q", "--squash", "main")
    done.git("commit", "-q", "--no-edit")
    for name, code in (("app", 1), ("second", 0)):
        done.git("checkout", "-q", "-b", name, "squash~1")
        with_policy(done, f'[flow]\n"src/{name}.py" = "full"\n')
        ask(done, "squash~1..squash", "--policy-from", name, code=code)


def test_a_broken_commit_fails_whatever_the_policy_is(done: World) -> None:
    """A false claim is never let pass."""
    with_policy(done, "[verify.require]\npaths = []\n")
    done.write("evil.py", "x\n")
    done.git("add", "evil.py")
    done.git("commit", "-q", "-m", bodies(done, "HEAD~2..HEAD~1"))
    assert ask(done, "HEAD~1..HEAD", code=1).last.startswith("broken")


# -- servers -----------------------------------------------------------------------------------------------------------


def test_a_pre_receive_hook_judges_a_push(done: World) -> None:
    """In a bare repository, with the objects still in quarantine and the evidence in the same push."""
    bare = done.root.parent / "server.git"
    done.git("init", "-q", "--bare", "-b", "main", str(bare))
    done.git("push", "-q", str(bare), "HEAD~1:refs/heads/main")
    hook = bare / "hooks" / "pre-receive"
    hook.write_text(
        "#!/bin/sh\nevidence= range=\nwhile read old new ref; do\ncase $ref in\n"
        'refs/agent-infra/runs/*) evidence="$evidence --evidence $new" ;;\n'
        "refs/heads/*) range=$old..$new branch=$ref ;;\nesac\ndone\n"
        f"exec {PROGRAM} verify $range --branch $branch --policy-from main $evidence\n"
    )
    hook.chmod(0o755)
    refused = done.git("push", "-q", str(bare), "HEAD:refs/heads/main", check=False)
    assert refused.code != 0
    assert "VERIFY_EVIDENCE_MISSING" in refused.err
    done.git("push", "-q", str(bare), "HEAD:refs/heads/main", f"{REF}:{REF}")
    plain(done)
    assert "unreceipted" in done.git("push", str(bare), "HEAD:refs/heads/main", check=False).err


# -- tampering ---------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """The evidence of a run as values, and its commit."""

    root: Path
    files: dict[str, bytes]
    commit: Commit
    claim: Claim

    def verdict(self, files: Mapping[str, bytes] | None = None, *, task: str = TASK) -> Verdict:
        files = files or self.files
        claim = Claim(task, self.claim.run_id, self.claim.receipt)
        documents = {name: data for name, data in files.items() if name.endswith(".md")}
        try:
            chain = parse_chain(files["journal.jsonl"])
            chronicle = Chronicle(task, chain.events, chain.heads, files["orchestration.json"])
            check_anchor(chronicle, claim)
            with open_history(self.root, environment={}) as history:
                look = Glance(history, history.commit(self.commit.oid))
                return judge(self.commit, [ground(chronicle, documents, claim)], look)
        except AgentInfraError as error:
            return broken(error)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files["journal.jsonl"].splitlines()]

    @property
    def anchor(self) -> int:
        """The number of the line that the trailer names."""
        return parse_chain(self.files["journal.jsonl"]).heads.index(self.claim.receipt) + 1


@pytest.fixture
def case(done: World) -> Case:
    files = evidence.read(done.context.repo, TASK)
    assert files
    trailers = done.trailers()
    claim = Claim(trailers["Agent-Infra-Task"], trailers["Agent-Infra-Run"], trailers["Agent-Infra-Receipt"])
    with open_history(done.root, environment={}) as history:
        raw = history.commit(done.head)
        changes = history.changes([done.head])[done.head]
    return Case(done.root, files, Commit(raw.oid, raw.parents, raw.tree, raw.message, changes), claim)


def rendered(lines: list[dict[str, Any]], *, rehash: bool) -> bytes:
    """Journal lines as bytes; `rehash`: numbered and chained anew."""
    out, prev = b"", GENESIS
    for number, line in enumerate(lines, start=1):
        wanted = {**line, "seq": number, "prev": prev} if rehash else line
        data = json.dumps(wanted, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        prev = hashlib.sha256(data).hexdigest()
        out += data + b"\n"
    return out


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in a line that is no container, and to empty containers."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for key, below in inner:
        found = True
        yield from leaves(below, (*path, key))
    if not found:
        yield path


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "x"


def mutated(line: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    copy = json.loads(json.dumps(line))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = changed(inner[path[-1]])
    return copy


def with_view(files: Mapping[str, bytes], journal: bytes) -> dict[str, bytes]:
    """The files with another journal and, where it can be made, the view that fits it."""
    try:
        chain = parse_chain(journal)
        view = render_view(fold(chain.events, task_id=TASK, head=chain.head).run)
    except (AgentInfraError, KeyError, TypeError, AttributeError):
        view = files["orchestration.json"]
    return {**files, "journal.jsonl": journal, "orchestration.json": view}


def test_every_field_of_every_line_is_protected(case: Case) -> None:
    """One changed field breaks the chain; with chain and view made anew the trailer still names the old line."""
    assert str(case.verdict()) == "verified"
    count = 0
    for index, line in enumerate(case.lines):
        for path in leaves(line):
            lines = [*case.lines[:index], mutated(line, path), *case.lines[index + 1 :]]
            found = case.verdict({**case.files, "journal.jsonl": rendered(lines, rehash=False)})
            assert found.kind == "broken", (index, path, found)
            count += 1
            if path in {("seq",), ("prev",)}:
                continue
            anew = rendered(lines, rehash=True)
            # pushed evidence would not be its beginning any more, wherever the line is
            assert not anew.startswith(case.files["journal.jsonl"])
            if index < case.anchor:
                found = case.verdict(with_view(case.files, anew))
                # what makes no journal at all is found before the trailer is asked
                wanted = {"ORCHESTRATION_JOURNAL_INVALID", "VERIFY_TRAILER_UNKNOWN"}
                assert (found.kind, str(found.code) in wanted) == ("broken", True), (index, path, found)
    assert count > 300


def tampered(lines: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Each line dropped, doubled, and swapped with the one before; with the first index that is odd."""
    for index, line in enumerate(lines):
        if index < len(lines) - 1:  # without its last lines a journal is that of an earlier moment
            yield index, [*lines[:index], *lines[index + 1 :]]
        yield index + 1, [*lines[: index + 1], *lines[index:]]
        if index:
            yield index - 1, [*lines[: index - 1], line, lines[index - 1], *lines[index + 1 :]]


def test_lines_can_t_be_dropped_swapped_or_doubled(case: Case) -> None:
    """Not as they are, since each names the one before; not chained anew before the anchor, since the trailer names it.

    Chained anew after the anchor they must make a legal story, and one that the evidence before began to tell.
    """
    recorded = rendered(case.lines[: case.anchor + 1], rehash=True)
    assert case.files["journal.jsonl"].startswith(recorded)
    for first, wrong in tampered(case.lines):
        journal = rendered(wrong, rehash=False)
        assert case.verdict({**case.files, "journal.jsonl": journal}).kind == "broken"
        assert case.verdict(with_view(case.files, journal)).kind == "broken"
        anew = rendered(wrong, rehash=True)
        found = case.verdict(with_view(case.files, anew))
        assert found.kind == "broken" or not anew.startswith(recorded), (first, found)
        if first < case.anchor:
            assert found.kind == "broken", (first, found)


def test_every_artifact_is_protected(case: Case) -> None:
    """A changed, missing or foreign document never leaves a commit verified."""
    for name in [name for name in case.files if name.endswith(".md") and name != "task.md"]:
        assert str(case.verdict({**case.files, name: case.files[name] + b"\n"})) != "verified", name
        without = {other: data for other, data in case.files.items() if other != name}
        assert case.verdict(without).kind == "broken", name
    rejected = case.files["review-code.md"].replace(b"Approved", b"Rejected")
    assert str(case.verdict({**case.files, "review-code.md": rejected})) == "broken(VERIFY_ARTIFACT_DIGEST)"
    row = b"|---|---|---|---|---|---|\n| CD-1 | code | 1 | major | %s | %s |\n"
    for status, proof in ((b"open", b""), (b"closed", b"x:1")):
        task = case.files["task.md"].replace(b"|---|---|---|---|---|---|\n", row % (status, proof))
        assert str(case.verdict({**case.files, "task.md": task})) == "broken(VERIFY_LEDGER)"


def test_a_run_of_another_task_is_no_evidence(done: World, case: Case) -> None:
    """A copied ref, and a claim for a task that the journal is not of."""
    assert case.verdict(task=OTHER).kind == "broken"
    done.git("update-ref", f"refs/agent-infra/runs/{OTHER}", REF)
    done.git("commit", "-q", "--amend", "-m", bodies(done, "HEAD~1..HEAD").replace(TASK, OTHER))
    assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(ORCHESTRATION_JOURNAL_INVALID)"


def forged(case: Case) -> dict[str, bytes]:
    """The evidence with a line after the trailer's written anew, chain and view made to fit."""
    lines = case.lines
    lines[case.anchor] = {**lines[case.anchor], "ts": "2030-01-01T00:00:00.000Z"}
    return with_view(case.files, rendered(lines, rehash=True))


def test_evidence_only_grows(done: World, case: Case) -> None:
    """Lines after the trailer that were written anew are found by the evidence before, however far before."""
    for _ in range(3):
        evidence.write(done.context.repo, TASK, forged(case), message="forged", when="2030-01-01T00:00:00.000Z")
        assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_EVIDENCE_INVALID)"
        old = done.git("rev-parse", REF).out.strip()
        new = done.git("commit-tree", f"{REF}^{{tree}}", "-p", REF, "-m", "once more").out.strip()
        done.git("update-ref", REF, new, old)


@pytest.mark.parametrize("way", ["a second parent", "evidence without a journal between"])
def test_the_past_of_evidence_can_t_be_hidden(done: World, case: Case, way: str) -> None:
    """Pushed to a branch that only goes forward, the forged chain must hold on to the honest one; it is looked at."""
    honest = done.git("rev-parse", REF).out.strip()
    done.git("update-ref", "-d", REF)
    evidence.write(done.context.repo, TASK, forged(case), message="forged", when="2030-01-01T00:00:00.000Z")
    tree = f"{REF}^{{tree}}"
    if way == "a second parent":
        new = done.git("commit-tree", tree, "-p", REF, "-p", honest, "-m", "x").out.strip()
    else:
        empty = done.git("hash-object", "-t", "tree", "-w", "/dev/null").out.strip()
        hollow = done.git("commit-tree", empty, "-p", honest, "-m", "x").out.strip()
        new = done.git("commit-tree", tree, "-p", hollow, "-m", "x").out.strip()
    done.git("update-ref", REF, new)
    assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_EVIDENCE_INVALID)"


def test_evidence_that_was_pushed_is_an_anchor(done: World, case: Case) -> None:
    """Journal and ref written anew as a whole, new trailers and all: only a copy elsewhere tells, and it does."""
    pushed = done.git("rev-parse", REF).out.strip()
    lines = [{**line, "ts": line["ts"].replace("2", "1", 1)} for line in case.lines]
    chain = parse_chain(rendered(lines, rehash=True))
    message = bodies(done, "HEAD~1..HEAD").replace(case.claim.receipt, chain.heads[case.anchor - 1])
    done.git("commit", "-q", "--amend", "-m", message)
    old = done.git("rev-parse", "HEAD@{1}").out.strip()
    files = with_view(case.files, rendered(lines, rehash=True).replace(old.encode(), done.head.encode()))
    files = with_view(files, rendered([json.loads(x) for x in files["journal.jsonl"].splitlines()], rehash=True))
    done.git("update-ref", "-d", REF)
    evidence.write(done.context.repo, TASK, files, message="forged", when="2030-01-01T00:00:00.000Z")
    assert ask(done, "HEAD~1..HEAD", code=0).last == "verified"  # as docs/security.md says: alone nobody can tell
    found = ask(done, "HEAD~1..HEAD", "--evidence", pushed, code=1)
    assert found.last == "broken(VERIFY_EVIDENCE_INVALID)"
    forged_ref = done.git("rev-parse", REF).out.strip()
    done.git("update-ref", REF, pushed)
    assert ask(done, "HEAD~1..HEAD", code=1).last == "broken(VERIFY_TRAILER_UNKNOWN)"
    assert ask(done, "HEAD~1..HEAD", "--evidence", forged_ref, code=1).last == "broken(VERIFY_EVIDENCE_INVALID)"


def test_older_evidence_may_be_named(done: World) -> None:
    """A push is judged by the evidence of its moment, though there is more by now."""
    assert ask(done, "HEAD~1..HEAD", "--evidence", f"{REF}~1", code=0).last == "verified"


def test_receipts_and_runs_of_another_task_are_no_evidence(done: World, case: Case) -> None:
    """A receipt in the journal of another task: by its own name, or renamed; a whole run likewise."""
    two_tasks(done)
    files = evidence.read(done.context.repo, OTHER)
    assert files
    theirs = [json.loads(line) for line in files["journal.jsonl"].splitlines()]
    ours = case.lines
    assert [line["op"] for line in ours] == [line["op"] for line in theirs]

    def named(line: Any) -> Any:
        return json.loads(json.dumps(line).replace(OTHER, TASK))

    for index, line in enumerate(theirs):
        for copied in (line, named(line)):
            lines = [*ours[:index], copied, *ours[index + 1 :]]
            for rehash in (False, True):
                found = case.verdict(with_view(case.files, rendered(lines, rehash=rehash)))
                assert found.kind == "broken" or index >= case.anchor, (index, line["op"], found)
                if "receipt" in copied:
                    assert found.kind == "broken", (index, line["op"], found)
    for lines in (theirs, [named(line) for line in theirs], [*ours, *map(named, theirs)]):
        found = case.verdict(with_view(case.files, rendered(lines, rehash=True)))
        assert found.kind == "broken" or lines[: case.anchor] == ours[: case.anchor], found


def test_a_chain_that_was_rolled_back_is_found_by_the_trailer(done: World, case: Case) -> None:
    """Cut anywhere before the line of the trailer, as it is or with another end, the chain lacks that line."""
    for length in range(1, case.anchor):
        found = case.verdict(with_view(case.files, rendered(case.lines[:length], rehash=True)))
        assert str(found) == "broken(VERIFY_TRAILER_UNKNOWN)", length
        lines = [*case.lines[:length], *case.lines[case.anchor :]]
        found = case.verdict(with_view(case.files, rendered(lines, rehash=True)))
        assert found.kind == "broken", length
