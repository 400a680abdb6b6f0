"""The story that `scripts/demo` tells: one real task in a clone, with all that goes wrong on the way to its commit.

Every sentence about what happened is checked before it is printed; exit 1 as soon as one is not true.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

PROGRAM = os.environ["AGENT_INFRA"]
PRODUCT = "demo_greeting.py"
TITLE = "Greet people by name"
EARLY = "early-commit.txt"

FIRST_TRY = '''"""A greeting."""


def greet(name: str) -> str:
    """Say hello to somebody."""
    return f"Hello, {name}!"
'''
GOOD = FIRST_TRY.replace("to somebody", "to somebody, or to the world").replace("{name}", "{name.strip() or 'world'}")
MEDDLED = GOOD.replace("Hello", "Howdy")


class UntrueError(Exception):
    """The story would not be true from here on."""


# -- what the children do ----------------------------------------------------------------------------------------------


def report(title: str, words: str) -> str:
    """The artifact of an executor."""
    return f"# {title}\n\n{words}\n\n## State Check\n\n$ git status --short\n"


def review(judged: str, *, verdict: str = "Approved", majors: int = 0, finding: str = "None in this round.") -> str:
    """The artifact of a reviewer."""
    return textwrap.dedent(f"""\
        # Review

        - **Review Input**:
          - `{judged}`

        ## Review Summary

        - **Overall Verdict**: {verdict}
        - **Findings (AI-actionable)**: 0 blockers, {majors} majors, 0 minors / **Manual validation**: 0

        ## Findings

        {finding}

        ## Raw Evidence

        $ cat {PRODUCT}
        """)


def finding(status: str, evidence: str) -> dict[str, Any]:
    """The one row of the ledger, as it stands."""
    return {
        "id": "CD-1",
        "stage": "code",
        "round": 1,
        "severity": "major",
        "status": status,
        "evidence": evidence,
    }


def script(early: Path) -> dict[str, Any]:
    """What each child will do; `early` is where the words of git about the early commit go."""
    commit_early = f"git add {PRODUCT} && git commit -m 'Add greeting' >{shlex.quote(str(early))} 2>&1"
    steps = {
        "analysis/1": {
            "artifact": report("Requirements Analysis", "A function that greets, also nobody in particular.")
        },
        "review-analysis/1": {"artifact": review("analysis.md")},
        "plan/1": {"artifact": report("Technical Plan", f"One function in `{PRODUCT}`.")},
        "review-plan/1": {"artifact": review("plan.md")},
        "code/1": {
            "write": {PRODUCT: FIRST_TRY},
            "artifact": report("Implementation Report", "Written; an empty name was not thought of."),
            "run": [["sh", "-c", commit_early]],
        },
        "review-code/1": {
            "artifact": review(
                "code.md",
                verdict="Changes Requested",
                majors=1,
                finding='### Major\n\n#### CD-1\n\n`greet("")` says "Hello, !".'.replace("\n", "\n" + " " * 8),
            ),
            "ledger": [finding("open", "review-code.md#CD-1")],
        },
        "code/2": {
            "write": {PRODUCT: GOOD},
            "artifact": report("Implementation Report", "CD-1: an empty name greets the world."),
            "ledger": [finding("accepted", "code-r2.md#CD-1")],
        },
        "review-code/2": [
            {
                "write": {PRODUCT: MEDDLED},
                "artifact": review("code-r2.md"),
                "ledger": [finding("closed", "review-code-r2.md#mended-by-myself")],
            },
            {
                "artifact": review("code-r2.md"),
                "ledger": [finding("closed", "review-code-r2.md#CD-1")],
            },
        ],
        "commit/1": {"commit": "Greet people by name\n\nWithout a name the world is greeted.\n"},
    }
    return {"version": 1, "steps": steps}


# -- the stage ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str


def heading(text: str) -> None:
    """A chapter."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def tell(*sentences: str) -> None:
    """A paragraph."""
    print(textwrap.fill(" ".join(sentences), 100), flush=True)


def quote(text: str) -> None:
    """What a program said, set in."""
    print(textwrap.indent(text.strip("\n"), "    | "), flush=True)


def check(true: object, otherwise: str) -> None:
    """Stop the story unless something is true."""
    if not true:
        raise UntrueError(otherwise)


class Clone:
    """The repository that the story plays in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = dict(os.environ)

    def run(self, *argv: str, show: bool = True, live: bool = False) -> Said:
        """Run a program in the clone; `live` shows what it says to people while it says it."""
        if show:
            print(f"  $ {shlex.join(('agent-infra', *argv[1:]) if argv[0] == PROGRAM else argv)}", flush=True)
        process = subprocess.Popen(
            argv,
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if live else subprocess.PIPE,
            text=True,
        )
        if not live:
            out, err = process.communicate()
            return Said(process.returncode, out, err)
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            quote(line)
        return Said(process.wait(), "".join(lines), "")

    def git(self, *args: str) -> str:
        """What git answers; it must not fail."""
        said = self.run("git", *args, show=False)
        check(said.code == 0, f"git {shlex.join(args)} failed: {said.err.strip()}")
        return said.out.strip()

    def program(self, *args: str, show: bool = True, live: bool = False) -> Said:
        """The same of agent-infra."""
        said = self.run(PROGRAM, *args, show=show, live=live)
        check(said.code == 0, f"agent-infra {shlex.join(args)} ended with {said.code}: {said.err or said.out}")
        return said

    def view(self, task: str) -> dict[str, Any]:
        """What orchestration.json says."""
        found: dict[str, Any] = json.loads((self.folder(task) / "orchestration.json").read_text())
        return found

    def folder(self, task: str) -> Path:
        """The folder of a task."""
        return self.path / ".agents" / "workspace" / "active" / task

    def receipts(self, task: str, artifact: str) -> list[str]:
        """Status of each receipt for an artifact, in order."""
        return [receipt["status"] for receipt in self.view(task)["receipts"] if receipt["artifact"] == artifact]


# -- the chapters ------------------------------------------------------------------------------------------------------


def source_of(wanted: str | None) -> Path:
    """The repository to clone: the one that was named, the one we are in, or the one of this file."""
    for path in (wanted,) if wanted else (".", str(Path(__file__).parent)):
        if git_in(path, "rev-parse", "--git-dir").code:
            continue
        top = git_in(path, "rev-parse", "--show-toplevel").out.strip() or path  # a bare one has none
        found = Path(top).resolve()
        if git_in(path, "rev-parse", "--quiet", "--verify", "HEAD^{commit}").code:
            raise UntrueError(f"{found} has no commit yet, so there is nothing to clone; commit first")
        return found
    raise UntrueError(f"{Path(wanted or '.').resolve()} is no git repository that can be read")


def git_in(path: str, *args: str) -> Said:
    """What git answers about a folder."""
    done = subprocess.run(["git", "-C", path, *args], capture_output=True, text=True, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


def set_up(source: Path, folder: Path) -> Clone:
    """A clone with agent-infra installed, and that committed."""
    clone = Clone(folder / "repository")
    said = git_in(".", "clone", "--quiet", str(source), str(clone.path))
    check(said.code == 0, f"git could not clone {source}: {said.err.strip()}")
    for name, value in {
        "user.name": "Demo Developer",
        "user.email": "demo@example.org",
        "commit.gpgSign": "false",
        "advice.addIgnoredFile": "false",
    }.items():
        clone.git("config", name, value)
    clone.git("switch", "--quiet", "--create", "agent-infra-demo")
    check(not (clone.path / PRODUCT).exists(), f"{source} has a {PRODUCT} already, which the demo would write")
    if clone.run("git", "config", "core.hooksPath", show=False).code == 0:
        tell("Your git looks for hooks elsewhere (core.hooksPath), so this demo leaves your own settings aside.")
        clone.environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    quote(clone.program("init", "--yes").out)
    clone.git("add", "--force", "--", ".agents", ":!.agents/workspace")
    if clone.git("diff", "--cached", "--name-only"):
        clone.git("commit", "--quiet", "-m", "Install agent-infra")
        tell("What it wrote is committed, as a team would.")
    return clone


def make_task(clone: Clone) -> str:
    """The task, made as a person makes it."""
    said = clone.program("task", "create", "--title", TITLE, "--json")
    task = str(json.loads(said.out)["taskId"])
    quote(task)
    return task


def drive(clone: Clone, task: str, file: Path) -> None:
    """Drive until the run rests."""
    clone.program("run", task, "--client", "scripted", "--script", str(file), live=True)


def tell_rejection(clone: Clone, task: str, early: Path, base: str) -> None:
    """What had happened until the driver stopped."""
    heading("3. Looking back: the agent that committed early")
    tell("In code round 1 the child tried to commit its own work before anybody had looked at it. git said:")
    words = early.read_text() if early.exists() else ""
    print("  $ git commit -m 'Add greeting'")
    quote(words)
    check("COMMIT_UNAUTHORIZED" in words, "the early commit was not refused for want of an authorization")
    check(clone.git("rev-parse", "HEAD") == base, "HEAD moved, though no commit was authorized")
    tell("HEAD did not move.")
    heading("4. Looking back: the review that said no")
    folder = clone.folder(task)
    summary = (folder / "review-code.md").read_text()
    check("Changes Requested" in summary and (folder / "code-r2.md").exists(), "the rejection led to no second round")
    check(clone.receipts(task, "review-code.md") == ["consumed"], "the rejecting review has no receipt")
    tell(
        "review-code.md found that an empty name was greeted as nobody, wrote row CD-1 into the ledger of",
        "task.md, and asked for changes; so code had a second round, code-r2.md, which answered the row.",
    )


def put_back(clone: Clone, task: str) -> None:
    """The reviewer that wrote code: caught, then undone."""
    heading("5. The reviewer that helped itself to the code")
    pause = clone.view(task)["pause"] or {}
    check(pause.get("code") == "DELEGATION_REVIEWER_WRITE_FORBIDDEN", f"the meddling reviewer was not caught: {pause}")
    check((clone.path / PRODUCT).read_text() == MEDDLED, "the reviewer had not touched the code")
    tell(
        f"The reviewer of round 2 approved, but it had changed {PRODUCT} too. The seal compared the two",
        "snapshots and paused the run; a review that wrote code never counts. The way out:",
    )
    said = clone.program("orchestrate", "abandon", task, "--reason", "the reviewer wrote code", "--restore")
    quote(said.err)
    check((clone.path / PRODUCT).read_text() == GOOD, "the code was not put back")
    tell(f"{PRODUCT} is again what the executor left.")
    clone.program("orchestrate", "begin", task)
    answer = json.loads(clone.program("orchestrate", "route", task).out)
    following = answer["next"] or {}
    check(following.get("artifact") == "review-code-r2.md", f"the review is not asked for again: {answer}")
    quote(f"{answer['status']}; next: {following['stage']} round {following['round']} ({following['role']})")


def tell_commit(clone: Clone, task: str, base: str) -> None:
    """The commit, and that it is what was reviewed."""
    view = clone.view(task)
    check(view["status"] == "completed", f"the run is {view['status']}, not completed")
    check(clone.git("rev-parse", "HEAD^") == base, "HEAD is not exactly one commit further")
    check(clone.git("diff", "--name-only", "HEAD^", "HEAD") == PRODUCT, "the commit holds something else than the code")
    check(clone.git("show", f"HEAD:{PRODUCT}") == GOOD.strip(), "the commit does not hold the reviewed code")
    check(clone.git("status", "--porcelain") == "", "something is left uncommitted")
    check(clone.receipts(task, "review-code-r2.md") == ["aborted", "consumed"], "the receipts of the review are wrong")
    closed = [row for receipt in view["receipts"] if receipt["status"] == "consumed" for row in receipt["ledger"]]
    check(
        ["CD-1", "code", "1", "major", "closed", "review-code-r2.md#CD-1"] in closed, "CD-1 was not closed by a review"
    )
    shown = clone.git("log", "-1", "--stat", "--format=%h %an%n%n%B")
    check(f"Agent-Infra-Task: {task}" in shown, "the commit names no task")
    quote(shown)
    tell(
        "A fresh reviewer looked at what had been put back, closed CD-1 and approved; only then did git let",
        "the commit pass, with exactly the reviewed bytes.",
    )


def farewell(clone: Clone, task: str) -> None:
    """Where everything is."""
    ref = f"refs/agent-infra/runs/{task}"
    steps = clone.git("rev-list", "--count", ref)
    heading("Where to look")
    print(f"  cd {shlex.quote(str(clone.path))}")
    print(f"  git log -p {ref}    # the evidence, {steps} commits")
    print(f"  cat .agents/workspace/active/{task}/orchestration.json    # the run and its receipts")
    print("  git log -1    # the commit and its trailers")
    print(f"  rm -r {shlex.quote(str(clone.path.parent))}    # when you have seen enough")


def play(wanted: str | None) -> None:
    """The whole story, in a new folder."""
    source = source_of(wanted)
    folder = Path(tempfile.mkdtemp(prefix="agent-infra-demo-")).resolve()
    try:
        tell_story(source, folder)
    except UntrueError as error:
        raise UntrueError(f"{error}\n(what there is so far: {folder})") from error


def tell_story(source: Path, folder: Path) -> None:
    """Chapter by chapter."""
    started = time.monotonic()
    heading(f"1. A clone of {source}")
    clone = set_up(source, folder)
    base = clone.git("rev-parse", "HEAD")
    heading("2. A task, and children that work on it")
    tell(
        "Each step is done by a fresh child process. This client replays a script, so no model is needed;",
        "receipts, reviews, ledger and gate are the real ones.",
    )
    task = make_task(clone)
    early, file = folder / EARLY, folder / "script.json"
    file.write_text(json.dumps(script(early), indent=2))
    drive(clone, task, file)
    tell_rejection(clone, task, early, base)
    put_back(clone, task)
    heading("6. A second reviewer, and the commit")
    drive(clone, task, file)
    tell_commit(clone, task, base)
    farewell(clone, task)
    print(f"\nAll of this was checked while it was told ({time.monotonic() - started:.0f} s).")


def leave_session() -> None:
    """Forget the repository of a git hook, and the agent, that may have called us: the children are nobody's."""
    local = git_in(".", "rev-parse", "--local-env-vars").out.split()
    for name in [*local, *(name for name in os.environ if name.startswith(("CLAUDE", "CODEX", "AGENT_INFRA_")))]:
        os.environ.pop(name, None)


def main() -> NoReturn:
    """Tell the story; exit 1 where it is not true."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description="Show a task from analysis to commit in a clone.")
    parser.add_argument("--repo", metavar="PATH", help="clone this repository instead of the current one")
    wanted = parser.parse_args().repo
    leave_session()
    try:
        play(wanted)
    except UntrueError as error:
        print(f"\nscripts/demo: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main()
