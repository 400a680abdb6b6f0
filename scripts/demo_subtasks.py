"""The story that `scripts/demo --subtasks` tells: five subtasks, a real conflict, a child that fails, and a resume.

Every sentence about what happened is checked before it is printed; exit 1 as soon as one is not true.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = os.environ["AGENT_INFRA"]
SETTINGS = """[engines.sh]
kind = "command"
argv = ["sh", "-ec", ". \\"$DEMO_CHILDREN/$AGENT_INFRA_SUBTASK.sh\\""]
timeout = 60
"""
PLAN = """---
subtasks:
  - id: words
    title: The words of a greeting
    expectedFiles: [words.txt]
    acceptance: ["run: grep -q Hello words.txt"]
  - id: greet
    title: Greet with these words
    blockedBy: [words]
    expectedFiles: [greet.sh]
    acceptance: ["run: sh greet.sh Ada"]
  - id: change-a
    title: Say hello in the changelog
    expectedFiles: [notes-a.txt]
    acceptance: []
  - id: change-b
    title: Say hello in the changelog too, without saying so
    expectedFiles: [notes-b.txt]
    acceptance: []
  - id: manual
    title: A page about it
    blockedBy: [greet]
    expectedFiles: [manual.md]
    acceptance: ["`manual.md`"]
---
# Technical Design

Five parts, in three waves.
"""
REVIEW = """# Plan Review

- **Review Input**:
  - `plan.md`

## Review Summary

- **Overall Verdict**: Approved
- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 0
"""
CHILDREN = {
    "words": "echo Hello > words.txt",
    "greet": "exit 1",
    "change-a": "echo 'a says hello' > changelog.txt; echo a > notes-a.txt",
    "change-b": "echo 'b says hello' > changelog.txt; echo b > notes-b.txt",
    "manual": "printf '# Greeting\\n\\n%s\\n' \"$(sh greet.sh world)\" > manual.md",
}
MENDED = "printf 'echo \"$(cat words.txt), $1!\"\\n' > greet.sh"


def say(words: str) -> None:
    """One line of the story."""
    print(words, flush=True)


def true(holds: object, words: str) -> None:
    """Tell it if it is so, else end the story."""
    if not holds:
        print(f"untrue: {words}", file=sys.stderr)
        sys.exit(1)
    say(f"  {words}")


def call(repo: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """A program in the repository; what it tells people is shown."""
    say(f"\n$ {' '.join(Path(word).name if word == PROGRAM else word for word in argv)}")
    children = {"DEMO_CHILDREN": str(repo.parent / "children")}
    done = subprocess.run(argv, cwd=repo, env=os.environ | children, capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines():
        say(f"  | {line}")
    return done


def run(repo: Path, *options: str) -> dict[str, Any]:
    """A run of the subtasks, as its result."""
    done = call(repo, PROGRAM, "subtasks", "run", "1", *options, "--json")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def statuses(result: dict[str, Any]) -> dict[str, str]:
    """Each child's status."""
    return {child["subtaskId"]: child["status"] for child in result["children"]}


def prepare(base: Path) -> Path:
    """The repository, its task, the approved plan, and what the children do."""
    repo = base / "repo"
    (base / "children").mkdir()
    for name, text in CHILDREN.items():
        (base / "children" / f"{name}.sh").write_text(f"{text}\n", encoding="utf-8")
    git = ("git", "-c", "user.name=Demo", "-c", "user.email=demo@example.com")
    subprocess.run([*git, "init", "-q", "-b", "main", str(repo)], check=True)
    (repo / ".agents").mkdir()
    (repo / ".agents" / "config.toml").write_text(SETTINGS, encoding="utf-8")
    (repo / ".gitignore").write_text(".agents/workspace/\n", encoding="utf-8")
    subprocess.run([*git, "add", "-A"], cwd=repo, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Begin"], cwd=repo, check=True)
    made = call(repo, PROGRAM, "task", "create", "--title", "Greet people", "--json")
    folder = Path(json.loads(made.stdout)["path"]).parent
    (folder / "plan.md").write_text(PLAN, encoding="utf-8")
    (folder / "review-plan.md").write_text(REVIEW, encoding="utf-8")
    return repo


def tell(base: Path) -> None:
    """The story."""
    repo = prepare(base)
    plan = call(repo, PROGRAM, "subtasks", "plan", "1", "--parallel", "3")
    say(plan.stdout.rstrip())
    true("wave 3" in plan.stdout, "a dry run shows three waves and changes nothing")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True).stdout
    first = run(repo, "--parallel", "3")
    found = statuses(first)
    true(found["words"] == "completed", "the words are written, in a worktree of their own, and merged")
    conflict = next(child["reason"] for child in first["children"] if child["subtaskId"] == "change-b")
    true("changelog.txt" in conflict and "change-a" in conflict, f"two children wrote one file: {conflict}")
    true((repo / "changelog.txt").read_text(encoding="utf-8") == "a says hello\n", "the first one's words stand")
    true(
        (found["greet"], found["manual"]) == ("failed", "blocked"),
        "one child failed; what waits for it did not run",
    )
    (base / "children" / "greet.sh").write_text(f"{MENDED}\n", encoding="utf-8")
    (base / "children" / "change-b.sh").write_text("echo b > notes-b.txt\n", encoding="utf-8")
    say("\nBoth are mended, and the same command goes on:")
    second = run(repo, "--parallel", "3", "--retry", "failed,blocked,needs_human")
    true(set(statuses(second).values()) <= {"completed", "completed_with_warnings"}, "all five are done")
    attempts = {child["subtaskId"]: child["attempt"] for child in second["children"]}
    true(attempts["words"] == 1 and attempts["greet"] == 2, "what was done was not repeated")
    true("Hello, world!" in (repo / "manual.md").read_text(encoding="utf-8"), "each built on what came before")
    after = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True).stdout
    true(head == after, "HEAD did not move: the work lies in the checkout, to be reviewed")
    true(second["parentStatus"].startswith("completed"), f"the task is {second['parentStatus']}")
    say(call(repo, PROGRAM, "subtasks", "trail", "1").stdout.rstrip())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="agent-infra-demo-") as folder:
        tell(Path(folder).resolve())
