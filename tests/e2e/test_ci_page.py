"""What docs/ci.md tells people to copy works: the workflow's commands in a clone, the hook in a bare repository."""

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import agent_infra
from tests.support import surroundings  # noqa: F401 - it brings the state `done`
from tests.support.lifecycle import OTHER, PROGRAM, TASK, Answer, World, world_at

At = Callable[[str], World]
PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
REF = f"refs/agent-infra/runs/{TASK}"


def block(language: str, marker: str) -> str:
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if marker in text]
    return found


@pytest.fixture
def done(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    return world_at("done", tmp_path_factory, monkeypatch)


def plain(world: World, name: str = "other.txt") -> None:
    """A commit that nobody reviewed."""
    world.write(name, "x\n")
    world.git("add", name)
    world.git("commit", "-q", "-m", f"plain {name}")


def weaken(world: World) -> None:
    """A commit by which nothing needs a receipt any more."""
    world.write(".agents/config.toml", '[verify.require]\npaths = ["nothing"]\n')
    world.git("commit", "-qam", "weaken")


def retold(world: World, parent: str, edit: Callable[[list[bytes]], bytes]) -> str:
    """An evidence commit on `parent` with another journal."""
    journal = world.git("cat-file", "blob", f"{REF}:journal.jsonl").out.encode()
    path = world.root.parent / "journal"
    path.write_bytes(edit(journal.splitlines(keepends=True)))
    blob = world.git("hash-object", "-w", str(path)).out.strip()
    index = {"GIT_INDEX_FILE": str(world.root.parent / "retold")}
    world.git("read-tree", REF, env=index)
    world.git("update-index", "--cacheinfo", f"100644,{blob},journal.jsonl", env=index)
    tree = world.git("write-tree", env=index).out.strip()
    return world.git("commit-tree", tree, "-p", parent, "-m", "evidence").out.strip()


def shortened(lines: list[bytes]) -> bytes:
    """The journal without its last line."""
    return b"".join(lines[:-1])


def invented(lines: list[bytes]) -> bytes:
    """The journal as if all had happened a century later; its digests hold."""
    made, head = [], b"0" * 64
    for line in lines:
        told = re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"%s"' % head, line.replace(b'"ts":"20', b'"ts":"21'))
        head = hashlib.sha256(told[:-1]).hexdigest().encode()
        made.append(told)
    return b"".join(made)


# -- the workflow ------------------------------------------------------------------------------------------------------


def value(expression: str, github: Mapping[str, Any]) -> str:
    """What GitHub makes of one of the page's expressions: `&&`, `||`, a path into the event, `format` of one."""

    def term(text: str) -> Any:
        if found := re.fullmatch(r"format\('([^']*)', (.*)\)", text):
            return str(found[1]).replace("{0}", str(term(found[2])))
        node: Any = {"github": github}
        for name in text.split("."):
            node = (node or {}).get(name)
        return node

    for words in expression.split(" || "):
        terms = [term(word) for word in words.split(" && ")]
        if all(terms):
            return str(terms[-1])
    return ""


def workflow(world: World, *, push: bool = False, fork: str = "", clone_with: tuple[str, ...] = ()) -> Answer:
    """What the job says of the change from main to work, in a clone of the server; the last command's answer."""
    server, clone = world.root.parent / "server.git", world.root.parent / "clone"
    world.git("clone", "-q", *clone_with, f"file://{server}", str(clone), cwd=world.root.parent)
    base, head = (world.git("rev-parse", name, cwd=server).out.strip() for name in ("main", "work"))
    pull = {"head": {"sha": head, "repo": {"clone_url": fork}}}
    github = (
        {"event": {"before": base}, "sha": head, "ref_name": "main", "base_ref": ""}
        if push
        # `before` is there too when a pull request is pushed to again: it is no base
        else {
            "event": {"pull_request": pull, "before": head},
            "sha": "0" * 40,
            "ref_name": "1/merge",
            "base_ref": "main",
        }
    )
    job = yaml.safe_load(block("yaml", "jobs:"))["jobs"]["verify"]
    variables = {
        name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: value(found[1], github), text)
        for name, text in job["env"].items()
    }
    assert set(variables) == {"BASE", "HEAD", "BRANCH", "FORK"}
    commands = [step["run"] for step in job["steps"] if "run" in step and step["name"] != "Install"]
    answer = None
    for command in commands:  # a runner starts each with `bash -e`
        answer = world.run("bash", "-e", "-c", command, cwd=clone, env=variables, check=False)
        if answer.code:
            break
    assert answer is not None
    return answer


@pytest.fixture
def served(done: World) -> World:
    """A server that has main before the work, and the work on a branch."""
    server = done.root.parent / "server.git"
    done.git("init", "-q", "--bare", "-b", "main", str(server))
    done.git("push", "-q", str(server), "HEAD~1:refs/heads/main", "HEAD:refs/heads/work")
    return done


def push(world: World, *specs: str, code: int = 0, where: str = "server.git") -> str:
    answer = world.git("push", "-q", str(world.root.parent / where), *specs, check=False)
    assert (answer.code != 0) is (code != 0), answer
    return answer.err


@pytest.mark.parametrize("pushed", [False, True], ids=["pull request", "push"])
def test_the_workflow_passes_what_was_earned(served: World, pushed: bool) -> None:
    """With the evidence on the server, in a clone that knows nothing else."""
    push(served, f"{REF}:{REF}")
    answer = workflow(served, push=pushed)
    assert (answer.code, "1 commit: 1 verified" in answer.out) == (0, True), answer


def test_the_workflow_fails_without_the_evidence(served: World) -> None:
    """Not found is never fine; what brings it is said."""
    answer = workflow(served)
    assert answer.code == 2
    assert "VERIFY_EVIDENCE_MISSING" in answer.out
    assert "`agent-infra evidence push`" in answer.out


def test_the_workflow_fails_in_a_clone_that_was_cut(served: World) -> None:
    """Without `fetch-depth: 0` it can't be checked."""
    push(served, f"{REF}:{REF}")
    assert workflow(served, clone_with=("--depth=1", "--no-single-branch")).code == 2
    assert yaml.safe_load(block("yaml", "jobs:"))["jobs"]["verify"]["steps"][0]["with"] == {"fetch-depth": 0}


def test_the_workflow_fails_for_what_nobody_reviewed(served: World) -> None:
    """One unreceipted commit on top is enough."""
    plain(served)
    push(served, "HEAD:refs/heads/work", f"{REF}:{REF}")
    answer = workflow(served)
    assert (answer.code, "unreceipted" in answer.out) == (1, True)


@pytest.mark.parametrize("pushed", [False, True], ids=["pull request", "push"])
def test_a_change_can_not_weaken_the_rules_of_the_workflow(served: World, pushed: bool) -> None:
    """They come from the protected branch, and after a push from what it was before."""
    weaken(served)
    push(served, "HEAD:refs/heads/work", f"{REF}:{REF}")
    assert workflow(served, push=pushed).code == 1


def test_the_evidence_of_a_fork_is_found_on_the_fork(served: World) -> None:
    """Also where it has older evidence of another task than the repository; what is rewritten there is refused."""
    served.git("init", "-q", "--bare", str(served.root.parent / "fork.git"))
    other = REF.replace(TASK, OTHER)
    push(served, f"{REF}:{REF}", f"{REF}~1:{other}", where="fork.git")
    push(served, f"{REF}:{other}")
    fork = str(served.root.parent / "fork.git")
    answer = workflow(served, fork=fork)
    assert answer.code == 0, answer
    push(served, f"+{retold(served, f'{REF}~1', invented)}:{REF}", where="fork.git")
    push(served, f"{REF}:{REF}")
    shutil.rmtree(served.root.parent / "clone")
    assert "VERIFY_EVIDENCE_INVALID" in workflow(served, fork=fork).out


def test_the_page_installs_a_version_that_there_is() -> None:
    """The one that it is the page of."""
    (install,) = [line for line in PAGE.splitlines() if "pip install" in line]
    assert install.strip() == f"run: pip install agent-infra=={agent_infra.__version__}"


# -- the hook ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(done: World) -> World:
    """An empty server with the hook of the page."""
    server = done.root.parent / "server.git"
    done.git("init", "-q", "--bare", "-b", "main", str(server))
    hook = server / "hooks" / "pre-receive"
    hook.write_text(block("sh", "pre-receive"))
    hook.chmod(0o755)
    assert PROGRAM.parent.as_posix() in done.env["PATH"]
    push(done, "HEAD~1:refs/heads/main")  # the first push brings the rules
    return done


def test_the_hook_takes_branch_and_evidence_in_one_push(guarded: World) -> None:
    """Without the evidence nothing is taken, with it all is; pushed again there is nothing to say."""
    said = push(guarded, "HEAD:refs/heads/main", code=1)
    assert "VERIFY_EVIDENCE_MISSING" in said
    assert "git push REMOTE main 'refs/agent-infra/runs/*:refs/agent-infra/runs/*'" in said
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}")
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}")
    push(guarded, "HEAD:refs/heads/same")  # a new branch without a new commit


def test_evidence_may_come_before_its_commits(guarded: World) -> None:
    """Then it is found on its ref."""
    push(guarded, f"{REF}:{REF}")
    push(guarded, "HEAD:refs/heads/topic")


def test_the_hook_refuses_what_nobody_reviewed_on_any_branch(guarded: World) -> None:
    """A new branch is checked from main on; one bad branch of several is enough; tags are not looked at."""
    plain(guarded)
    assert "unreceipted" in push(guarded, "HEAD:refs/heads/topic", f"{REF}:{REF}", code=1)
    both = ("HEAD~1:refs/heads/good", "HEAD:refs/heads/bad", f"{REF}:{REF}")
    assert "unreceipted" in push(guarded, *both, code=1)
    push(guarded, "HEAD:refs/tags/v1")


def test_the_hook_keeps_evidence_as_it_is(guarded: World) -> None:
    """Not rewound, not rewritten, not deleted, not squatted by what is none; main likewise, other branches are free."""
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}", "HEAD:refs/heads/topic")
    assert "only grows" in push(guarded, f"+{REF}~1:{REF}", code=1)
    assert "not deleted" in push(guarded, f":{REF}", code=1)
    assert "lines added" in push(guarded, f"{retold(guarded, REF, shortened)}:{REF}", code=1)
    assert "no evidence" in push(guarded, f"HEAD:{REF.replace(TASK, OTHER)}", code=1)
    assert "main only grows" in push(guarded, "+HEAD~1:refs/heads/main", code=1)
    assert "main is not deleted" in push(guarded, ":refs/heads/main", code=1)
    push(guarded, ":refs/heads/topic")


@pytest.mark.parametrize("edit", [shortened, invented])
def test_the_hook_refuses_a_commit_with_other_evidence(guarded: World, edit: Callable[[list[bytes]], bytes]) -> None:
    """In the same push; nothing of it is kept, so the right evidence is taken afterwards."""
    assert "broken" in push(guarded, "HEAD:refs/heads/main", f"{retold(guarded, f'{REF}~1', edit)}:{REF}", code=1)
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}")


def test_the_hook_goes_by_the_rules_of_main(guarded: World) -> None:
    """A push that weakens them is judged by what main says before it, also where a second branch would profit."""
    weaken(guarded)
    assert "unreceipted" in push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}", code=1)
    plain(guarded)
    both = ("HEAD~1:refs/heads/main", "HEAD:refs/heads/topic", f"{REF}:{REF}")
    assert "unreceipted" in push(guarded, *both, code=1)


def test_the_hook_works_where_a_bare_repository_is_not_to_be_found(guarded: World) -> None:
    """With `safe.bareRepository = explicit`, as careful servers have it."""
    settings = guarded.root.parent / "server-settings"
    settings.write_text("[safe]\n\tbareRepository = explicit\n")
    guarded.env["GIT_CONFIG_GLOBAL"] = str(settings)
    push(guarded, "HEAD:refs/heads/main", f"{REF}:{REF}")
