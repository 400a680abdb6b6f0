"""Evidence that travels, with real repositories and a real bare remote: what arrives, what is refused, what stays."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.git import evidence
from tests.support.lifecycle import OTHER, TASK, Answer, World, fresh, world_at
from tests.support.surroundings import linked

At = Callable[[str], World]
REF = f"refs/agent-infra/runs/{TASK}"
TRACKED = f"refs/agent-infra/remotes/origin/runs/{TASK}"
WHEN = "2026-01-01T12:34:56.789Z"


@pytest.fixture
def at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda state: world_at(state, tmp_path_factory, monkeypatch)


@pytest.fixture
def earned(at: At) -> World:
    """A run that is over, its commit not pushed yet; origin has the commits before it."""
    return at("earned")


def clone_of(world: World, name: str = "clone") -> World:
    """Another person's repository with all branches of origin."""
    world.git("push", "-q", "origin", "main")
    clone = World(world.root.parent / name, world.env)
    world.git("clone", "-q", str(world.root.parent / "origin.git"), str(clone.root))
    return clone


def oid(world: World, ref: str, cwd: Path | None = None) -> str:
    return world.git("rev-parse", "-q", "--verify", ref, check=False, cwd=cwd).out.strip()


def origin(world: World) -> Path:
    return world.root.parent / "origin.git"


def refs(world: World, cwd: Path | None = None) -> str:
    return world.git("for-each-ref", cwd=cwd).out


def fails(world: World, code: str, *args: str) -> Answer:
    """A command that is refused with a code and moves no ref, neither here nor there."""
    before = refs(world), refs(world, origin(world)) if origin(world).exists() else ""
    answer = world.cli("evidence", *args, check=False)
    assert answer.code == 1, answer
    assert f"[{code}]" in answer.err
    assert (refs(world), refs(world, origin(world)) if origin(world).exists() else "") == before
    as_json = world.cli("evidence", *args, "--json", check=False)
    assert (as_json.code, as_json.json["status"], as_json.error) == (1, "failed", code)
    return answer


def forged(world: World, ref: str = REF, *, cwd: Path | None = None) -> str:
    """Evidence of the task that has nothing to do with the real one, at a ref."""
    blob = world.run("sh", "-c", "echo '{}' | git hash-object -w --stdin", cwd=cwd).out.strip()
    script = f"printf '100644 blob {blob}\\tjournal.jsonl\\n' | git mktree"
    tree = world.run("sh", "-c", script, cwd=cwd).out.strip()
    commit = world.git("commit-tree", "-m", "forged", tree, cwd=cwd).out.strip()
    world.git("update-ref", ref, commit, cwd=cwd)
    return commit


# -- there and back ----------------------------------------------------------------------------------------------------


def test_push_fetch_show_and_verify_in_another_clone(earned: World) -> None:
    """What was pushed on request is all that another clone needs to check the commit; its own runs know nothing."""
    assert earned.cli("evidence", "push").out == f"pushed the evidence of {TASK} to origin\n"
    assert oid(earned, REF, origin(earned)) == oid(earned, REF) == oid(earned, TRACKED)
    assert earned.cli("evidence", "push", "origin").out == "origin has all evidence of this repository\n"
    clone = clone_of(earned)
    assert clone.cli("verify", "HEAD~1..HEAD", check=False).code == 2
    fails(clone, "EVIDENCE_MISSING", "show", TASK)
    assert clone.cli("evidence", "fetch").out == f"fetched the evidence of {TASK} from origin\n"
    assert oid(clone, TRACKED) == oid(earned, REF)
    assert oid(clone, REF) == ""
    assert clone.cli("evidence", "fetch", "--json").json == {
        "status": "ok",
        "remote": "origin",
        "changed": [],
        "unchanged": [TASK],
        "ahead": [],
        "error": None,
    }
    checked = clone.cli("verify", "HEAD~1..HEAD", "--json").json
    assert checked["counts"] == {"verified": 1}
    assert clone.cli("evidence", "show", TASK, "--json").json["tip"] == oid(earned, REF)
    assert clone.cli("evidence", "push", check=False).err.rstrip().endswith("[EVIDENCE_MISSING]")


def test_verify_as_in_ci(earned: World) -> None:
    """A checkout that fetches all of `refs/agent-infra/` checks the same, and nothing guards in it."""
    earned.cli("evidence", "push")
    clone = clone_of(earned)
    clone.git("fetch", "-q", "origin", "refs/agent-infra/*:refs/agent-infra/*")
    assert clone.cli("verify", "HEAD~1..HEAD").code == 0
    clone.cli("evidence", "fetch")
    assert clone.cli("verify", "HEAD~1..HEAD").code == 0
    clone.cli("init", "--yes")
    assert clone.cli("doctor").code == 0
    clone.git("commit", "-q", "--allow-empty", "-m", "free")
    bare = World(earned.root.parent / "mirror.git", earned.env)
    earned.git("clone", "-q", "--mirror", str(origin(earned)), str(bare.root))
    assert bare.cli("verify", "main~1..main").code == 0
    assert bare.cli("evidence", "show", TASK).code == 0


def test_a_partial_clone_gets_the_documents(earned: World) -> None:
    """`verify` fetches nothing, so what it reads comes with the evidence."""
    earned.cli("evidence", "push")
    earned.git("push", "-q", "origin", "main")
    earned.git("config", "uploadpack.allowFilter", "true", cwd=origin(earned))
    clone = World(earned.root.parent / "partial", earned.env)
    earned.git("clone", "-q", "--filter=blob:none", f"file://{origin(earned)}", str(clone.root))
    clone.cli("evidence", "fetch")
    origin(earned).rename(earned.root.parent / "away.git")
    assert clone.cli("evidence", "show", TASK).code == 0


def test_evidence_grows_on_both_sides(at: At) -> None:
    """A later push and fetch add to what is there; a linked worktree pushes the same."""
    world = at("authorized")
    world.cli("evidence", "push")
    clone = clone_of(world)
    clone.cli("evidence", "fetch")
    first = oid(clone, TRACKED)
    world.cli("commit", TASK, "-m", "fix: sum")
    beside = linked(world, "linked", "--detach")
    assert beside.cli("evidence", "push", "--json").json["changed"] == [TASK]
    world.git("push", "-q", "origin", "main")
    clone.git("pull", "-q")
    assert clone.cli("evidence", "fetch", "--json").json["changed"] == [TASK]
    assert clone.git("merge-base", "--is-ancestor", first, oid(clone, TRACKED), check=False).code == 0
    assert clone.cli("verify", "HEAD~1..HEAD").code == 0


def test_only_the_named_task_travels(earned: World) -> None:
    """`--task` takes full ids and numbers; other documents stay where they are."""
    evidence.write(earned.context.repo, OTHER, {"journal.jsonl": b"{}\n"}, message="m", when=WHEN)
    earned.cli("evidence", "push", "--task", TASK)
    assert oid(earned, REF, origin(earned))
    assert OTHER not in refs(earned, origin(earned))
    fails(earned, "EVIDENCE_MISSING", "push", "--task", "TASK-20991231-235959")
    clone = clone_of(earned)
    fails(clone, "EVIDENCE_MISSING", "fetch", "--task", OTHER)
    assert clone.cli("evidence", "fetch", "-t", TASK, "--json").json["changed"] == [TASK]


# -- a run of somebody else guards nothing here ------------------------------------------------------------------------


def test_a_run_of_another_clone_blocks_nothing_here(at: At) -> None:
    """Fetched while it runs there: no verb, hook or check of this repository takes it for a run of its own."""
    world = at("coding")
    world.cli("evidence", "push")
    clone = clone_of(world)
    clone.cli("init", "--yes")
    clone.cli("evidence", "fetch")
    clone.make_task()  # somebody copied the folder of the task too
    status = clone.verb("status", code=1)
    assert status.error == "ORCHESTRATION_RUN_MISSING"
    assert clone.cli("doctor").code == 0
    clone.write("src/app.py", "free\n")
    clone.git("commit", "-qam", "free")
    clone.cli("evidence", "fetch")
    assert clone.cli("evidence", "show", TASK, "--json").json["run"]["status"] == "running"
    clone.begin()
    assert clone.journal()[0]["op"] == "begin"
    assert clone.step().stage == "analysis"
    answer = fails(clone, "EVIDENCE_DIVERGED", "push")
    assert TASK in answer.err
    assert clone.cli("verify", "HEAD~1..HEAD", check=False).code == 1


def test_a_run_here_keeps_its_evidence_whatever_the_remote_has(at: At) -> None:
    """Other evidence of the same task is refused by name; the run goes on, and its ref is as it was."""
    world = at("coding")
    forged(world, cwd=origin(world))
    before = oid(world, REF)
    for verb in ("fetch", "push"):
        answer = fails(world, "EVIDENCE_DIVERGED", verb)
        assert f"the evidence of {TASK} at origin and the evidence here contradict each other" in answer.err
    assert oid(world, REF) == before
    assert world.cli("doctor").code == 0


def test_a_remote_that_was_rewound_is_refused(earned: World) -> None:
    """What a remote had once it must go on with; nothing of the same fetch is taken either."""
    earned.cli("evidence", "push")
    clone = clone_of(earned)
    clone.cli("evidence", "fetch")
    known = oid(clone, TRACKED)
    older = oid(earned, f"{REF}~1")
    for other in (older, forged(earned, cwd=origin(earned))):
        earned.git("update-ref", REF, other, cwd=origin(earned))
        evidence.write(earned.context.repo, OTHER, {"journal.jsonl": b"{}\n"}, message="m", when=WHEN)
        earned.git("push", "-q", "origin", f"refs/agent-infra/runs/{OTHER}")
        answer = fails(clone, "EVIDENCE_DIVERGED", "fetch")
        assert f"origin has rewritten the evidence of {TASK}" in answer.err
        assert f"git log -p {TRACKED}" in answer.err
        assert oid(clone, TRACKED) == known
        assert OTHER not in refs(clone)
    assert clone.cli("verify", "HEAD~1..HEAD").code == 0
    clone.git("update-ref", "-d", TRACKED)
    clone.cli("evidence", "fetch")
    assert clone.cli("verify", "HEAD~1..HEAD", check=False).code == 1


def test_older_evidence_here_takes_nothing_back(earned: World) -> None:
    """A remote that has more than this repository keeps it, and that is no error."""
    earned.cli("evidence", "push")
    newest = oid(earned, REF)
    earned.git("update-ref", REF, f"{REF}~1")
    answer = earned.cli("evidence", "push")
    assert answer.out == f"origin has newer evidence of {TASK} than this repository\n"
    assert oid(earned, REF, origin(earned)) == newest
    assert earned.cli("verify", "HEAD~1..HEAD").code == 0


def test_what_was_pushed_convicts_a_rewritten_chain(earned: World) -> None:
    """The remote's evidence is an anchor: a chain that was made anew here is broken, and can't be pushed."""
    earned.cli("evidence", "push")
    assert earned.cli("verify", "HEAD~1..HEAD").code == 0
    journal = earned.git("show", f"{REF}:journal.jsonl").out
    kept = {name: earned.git("show", f"{REF}:{name}").out.encode() for name in ("orchestration.json", "task.md")}
    earned.git("update-ref", "-d", REF)
    cut = "".join(f"{line}\n" for line in journal.splitlines()[:-1]).replace("2026", "2027").encode()
    evidence.write(earned.context.repo, TASK, {**kept, "journal.jsonl": cut}, message="m", when=WHEN)
    said = earned.cli("verify", "HEAD~1..HEAD", "--json", check=False)
    assert said.code == 1
    assert said.json["commits"][0]["code"] == "VERIFY_EVIDENCE_INVALID"
    assert "tells another story" in said.json["commits"][0]["detail"]
    fails(earned, "EVIDENCE_DIVERGED", "push")


def test_evidence_that_was_lost_goes_on_where_it_was_pushed(at: At) -> None:
    """`repair` builds it on what the remote had; where that is not known either, the way there is named and works."""
    world = at("earned")
    world.cli("evidence", "push")
    pushed = oid(world, REF)
    world.git("update-ref", "-d", REF)
    world.verb("repair")
    assert oid(world, REF) == pushed
    world.git("update-ref", "-d", REF)
    world.git("update-ref", "-d", TRACKED)
    world.verb("repair")
    assert oid(world, REF) != pushed
    answer = fails(world, "EVIDENCE_DIVERGED", "push")
    ways = answer.err.splitlines()[1].split("`")[1::2]
    assert [way.split()[:3] for way in ways] == [
        ["agent-infra", "evidence", "fetch"],
        ["git", "update-ref", "-d"],
        ["agent-infra", "orchestrate", "repair"],
    ]
    for way in ways:
        world.run(*way.split())
    world.cli("evidence", "push")
    assert oid(world, REF, origin(world)) == oid(world, REF) == pushed


# -- remotes -----------------------------------------------------------------------------------------------------------


def test_remotes_that_are_not_clear_are_refused(at: At) -> None:
    """Documents go where somebody said, or nowhere."""
    world = at("begun")
    fails(world, "EVIDENCE_REMOTE_INVALID", "push")
    world.git("remote", "add", "gone", "../gone.git")
    fails(world, "EVIDENCE_MISSING", "push")
    world.step()
    for verb in ("push", "fetch"):
        answer = fails(world, "EVIDENCE_REMOTE_FAILED", verb)
        assert "gone could not be asked for evidence: " in answer.err
    world.git("remote", "add", "two", "../two.git")
    for verb in ("push", "fetch"):
        assert "name one of gone, two" in fails(world, "EVIDENCE_REMOTE_INVALID", verb).err
        assert "nowhere is no remote" in fails(world, "EVIDENCE_REMOTE_INVALID", verb, "nowhere").err
        fails(world, "EVIDENCE_REMOTE_INVALID", verb, str(world.root.parent))
    world.git("init", "-q", "--bare", "../two.git")
    fails(world, "EVIDENCE_MISSING", "fetch", "two")
    outside = world.cli("evidence", "push", cwd=world.root.parent, check=False)
    assert (outside.code, "[REPO_ROOT_NOT_FOUND]" in outside.err) == (1, True)


def test_an_address_shows_no_secret(at: At) -> None:
    """What git says about a remote may repeat the password in its address."""
    world = at("sealed")
    world.cli("orchestrate", "advance", TASK)
    world.git("remote", "add", "origin", "file://ada:s3cretword@/nowhere.git")
    for verb in ("push", "fetch"):
        assert "s3cretword" not in fails(world, "EVIDENCE_REMOTE_FAILED", verb).err


def test_a_remote_that_takes_nothing_says_why(earned: World) -> None:
    """The words of the other side are passed on."""
    hook = origin(earned) / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no custom refs here' >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "no custom refs here" in fails(earned, "EVIDENCE_REMOTE_FAILED", "push").err


def test_what_is_no_evidence_is_not_taken(earned: World) -> None:
    """A ref that leads to no commit is named; names that are no task ids are passed over."""
    blob = earned.git("rev-parse", "HEAD:README.md").out.strip()
    earned.git("push", "-q", "origin", f"{blob}:{REF}", "HEAD:refs/agent-infra/runs/strange")
    clone = clone_of(earned)
    assert "is a blob" in fails(clone, "VERIFY_EVIDENCE_INVALID", "fetch").err
    earned.git("push", "-q", "origin", f":{REF}")
    fails(clone, "EVIDENCE_MISSING", "fetch")


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(("remote.origin.mirror", "true"), id="a mirror remote"),
        pytest.param(("remote.origin.fetch", "+refs/*:refs/*"), id="every ref is fetched by force"),
        pytest.param(("fetch.prune", "true"), id="pruning"),
        pytest.param(("push.followTags", "true"), id="tags follow"),
    ],
)
def test_settings_for_pushes_and_fetches_change_nothing(earned: World, setting: tuple[str, str]) -> None:
    """Only evidence goes and comes, whatever git was told to do besides."""
    earned.git("tag", "-a", "-m", "v1", "v1")
    before = refs(earned, origin(earned))
    earned.git("config", *setting)
    earned.cli("evidence", "push")
    added = set(refs(earned, origin(earned)).splitlines()) - set(before.splitlines())
    assert [line.split("\t")[1] for line in added] == [REF]
    here = refs(earned)
    earned.git("update-ref", "-d", TRACKED)
    earned.cli("evidence", "fetch")
    assert refs(earned) == here


def test_no_hook_of_this_repository_is_asked(earned: World, tmp_path: Path) -> None:
    """Neither ours nor anybody's: evidence is no work of the user."""
    for name in ("pre-push", "reference-transaction"):
        earned.hook(name, f"echo {name} >>{tmp_path}/ran")
    earned.cli("evidence", "push")
    earned.cli("evidence", "fetch")
    assert not (tmp_path / "ran").exists()


# -- what must not get out ---------------------------------------------------------------------------------------------


def test_no_push_carries_an_untracked_file_of_a_snapshot(at: At) -> None:
    """Snapshots hold untracked files; nothing of them is in what git pushes, mirrors or takes along as evidence."""
    world = at("surrounded")
    world.write("notes.txt", "never-to-be-published, there from the start\n")
    world.make_task()
    world.begin()

    def work() -> None:
        world.write("scratch/tmp.txt", "never-to-be-published, there for a while\n")

    world.step(work=work)
    (world.root / "scratch/tmp.txt").unlink()
    world.git("push", "-q", "--mirror", "origin")
    world.to_commit()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: sum")
    world.cli("evidence", "push")
    world.git("push", "-q", "origin", "main")
    world.git("push", "-q", "--mirror", "origin")
    snapshots = world.root / ".git" / "agent-infra" / "objects"
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(snapshots)}
    for text in ("there from the start", "there for a while"):
        blob = world.run("sh", "-c", f"echo 'never-to-be-published, {text}' | git hash-object --stdin").out.strip()
        assert world.git("cat-file", "-t", blob, env=env).out == "blob\n"  # the snapshot has it
        assert world.git("cat-file", "-t", blob, cwd=origin(world), check=False).code != 0
    assert oid(world, REF, origin(world)) == oid(world, REF)
    asked = ["git", "cat-file", "--batch-all-objects", "--batch", "--buffer"]
    everything = subprocess.run(asked, cwd=origin(world), env=world.env, capture_output=True, check=True).stdout
    assert TASK.encode() in everything  # the documents are there
    assert b"never-to-be-published" not in everything


# -- show --------------------------------------------------------------------------------------------------------------


def test_show_prints_commits_steps_who_and_digests(earned: World) -> None:
    """One line for each step with its child and the digest of what it left; the same facts as JSON."""
    lines = earned.cli("evidence", "show", TASK).out.splitlines()
    assert lines[0].startswith(f"{TASK}: run ")
    assert lines[0].endswith("completed, streamlined flow, on main")
    assert lines[1] == f"{REF} {oid(earned, REF)[:10]}"
    assert lines[2].split() == ["EVIDENCE", "AT", "LINES", "STEP", "WHO", "WHAT"]
    body = "\n".join(lines[3:])
    for word in ("analysis r1", "code r1", "review-code r1", "executor child-", "reviewer child-", "committed"):
        assert word in body
    found = earned.cli("evidence", "show", TASK, "--json").json
    assert found["status"] == "ok"
    assert found["task"] == TASK
    assert found["refs"] == {REF: oid(earned, REF)}
    listed = earned.git("log", "--format=%H", "--reverse", REF).out.split()
    assert [link["commit"] for link in found["commits"]] == listed
    steps = [step for link in found["commits"] for step in link["steps"]]
    assert [step["stage"] for step in steps] == ["analysis", "code", "review-code", "commit"]
    assert [step["role"] for step in steps] == ["executor", "executor", "reviewer", "executor"]
    assert steps[0]["artifactDigest"] == found["files"]["analysis.md"]
    assert steps[2]["inputs"][0]["sha256"] == found["files"]["code.md"]
    assert len({step["childId"] for step in steps}) == 4
    assert [each for link in found["commits"] for each in link["recorded"]] == [earned.head]
    assert found["commits"][-1]["journalHead"] == found["run"]["journalHead"]
    numbers = [number for link in found["commits"] for number in link["lines"]]
    assert numbers[0] == 1
    assert numbers[-1] == len(earned.journal())
    assert all(after == before + 1 for before, after in zip(numbers[1::2], numbers[2::2], strict=False))


def test_show_names_what_was_given_up(at: At) -> None:
    """An aborted step and a run that was ended stand there with their reasons."""
    world = at("worked")
    world.verb("abandon", "--reason", "it hangs")
    world.verb("end", "--reason", "not wanted")
    text = world.cli("evidence", "show", TASK).out
    assert "(aborted); it hangs" in text
    assert "not wanted" in text
    assert ", completed, " in text


def test_show_refuses_a_chain_that_was_rewritten(earned: World) -> None:
    """It shows evidence, not stories; unknown tasks and tasks without evidence have their codes."""
    tree = earned.git("rev-parse", f"{REF}~2^{{tree}}").out.strip()
    commit = earned.git("commit-tree", "-p", REF, "-m", "back", tree).out.strip()
    earned.git("update-ref", REF, commit)
    fails(earned, "VERIFY_EVIDENCE_INVALID", "show", TASK)
    fails(earned, "EVIDENCE_MISSING", "show", OTHER)
    assert "INVALID_TASK_REF" in earned.cli("evidence", "show", "no-task", check=False).err
    forged(earned)
    answer = earned.cli("evidence", "show", TASK, check=False)
    assert (answer.code, "ORCHESTRATION_JOURNAL_INVALID" in answer.err) == (1, True)


def test_init_says_what_evidence_publishes(tmp_path: Path) -> None:
    """Whoever installs it knows what would leave the machine, and that it does so on request only."""
    world = fresh(tmp_path / "repo")
    said = world.cli("init", "--yes").err
    assert "documents that git ignores" in said
    assert "on request only: `agent-infra evidence push`, or evidence.push = true" in said
