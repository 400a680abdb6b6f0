"""`agent-infra verify` on histories of receipted commits: one real run, told again for every commit of a long history.

Each commit has a task, a run and evidence of its own, which verify as `verified`: the same rules as for a real one.
"""

import contextlib
import hashlib
import io
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pygit2
from repositories import generate, git
from timing import Row, Step, command, measure, rows

from agent_infra.cli.app import run as call
from agent_infra.core.lifecycle import NATIVE_AGENTS
from agent_infra.core.run import fold
from agent_infra.stores.journal import GENESIS, parse_chain
from agent_infra.stores.runs import render_view

SIZES = (100, 1_000, 10_000)
_PROGRAM = Path(sys.executable).with_name("agent-infra")
_AGENT = {str(role): name for name, role in NATIVE_AGENTS.items()}
_REVIEW = """# Code Review

- **Review Input**:
  - `code.md`

## Review Summary

- **Overall Verdict**: Approved
- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors / **Manual validation**: 0
"""
_TEXTS = {"analysis.md": "# Requirements Analysis\n", "code.md": "# Implementation Report\n", "review-code.md": _REVIEW}


def run(sizes: tuple[int, ...], *, rounds: int) -> list[Row]:
    """`verify` of the last N commits for each size, as a ratio to the smallest per commit; and the start alone."""
    with tempfile.TemporaryDirectory(prefix="agent-infra-bench-") as temporary:
        folder = Path(temporary).resolve() / "repo"
        history = History(folder)
        history.grow(max(sizes))
        base = f"`verify` of {sizes[0]:,} commits"
        steps = [Step(f"`verify` of {size:,} commits", partial(_verify, folder, size)) for size in sizes]
        steps.append(Step("`git log -p` of the largest", partial(_log, folder, max(sizes))))
        steps.append(Step("`agent-infra --version`", command((_PROGRAM, "--version"), folder)))
        return rows(measure(steps, rounds=rounds, warmup=0), base)


def _verify(folder: Path, commits: int) -> None:
    began = time.perf_counter()
    command((_PROGRAM, "verify", f"main~{commits}..main", "--json"), folder)()
    print(f"  {commits:,} commits: {commits / (time.perf_counter() - began):,.0f} a second", file=sys.stderr)


def _log(folder: Path, commits: int) -> None:
    command(("git", "log", "-p", f"main~{commits}..main"), folder)()


class History:
    """A repository with one commit that was really earned, and as many more as are wanted, told after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        generate(folder, 50)
        self._call("init", "--yes")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "Set up agent-infra")
        self._call("task", "create", "--title", "Measure", "--flow", "streamlined")
        self.task = next((folder / ".agents/workspace/active").glob("TASK-*")).name
        self._verb("begin")
        (folder / "first.txt").write_text("first\n", encoding="utf-8")
        while self._verb("route")["next"]:
            self._step()
        self.repo = pygit2.Repository(str(folder))
        listed = git(folder, "ls-tree", "-r", "--name-only", f"refs/agent-infra/runs/{self.task}").splitlines()
        self.files = {name: self._show(name) for name in listed}
        message = git(folder, "log", "-1", "--format=%B")
        self.trailers = dict(line.split(": ", 1) for line in message.splitlines() if line.startswith("Agent-Infra-"))
        heads = parse_chain(self.files["journal.jsonl"]).heads
        self.anchor = heads.index(self.trailers["Agent-Infra-Receipt"]) + 1
        self.refs: list[str] = []

    def grow(self, commits: int) -> None:
        """Add commits, each with evidence."""
        head = str(self.repo.head.target)
        blob = str(self.repo.create_blob(b""))
        for number in range(commits):
            head = self._one(number, head, blob)
        git(self.folder, "update-ref", "--stdin", stdin="".join(self.refs).encode())
        git(self.folder, "update-ref", "refs/heads/main", head)
        git(self.folder, "repack", "-q", "-a", "-d")
        git(self.folder, "pack-refs", "--all")

    def _one(self, number: int, head: str, blob: str) -> str:
        task = f"TASK-2027{number // 1_000_000 % 10_000:04d}-{number:06d}"
        name = f"work/{number // 1000:03d}/{number % 1000 // 32:02d}/{number % 1000:03d}.txt"
        tree = self._with(str(self.repo[head].tree.id), name.split("/"), blob)
        lines = [
            json.loads(line) for line in self.files["journal.jsonl"].decode().replace(self.task, task).splitlines()
        ]
        for line in lines:
            receipt = line.get("receipt", {})
            if receipt.get("inputChanges"):
                receipt["inputChanges"] = [{"path": name, "mode": "100644", "oid": blob}]
            if receipt.get("stage") == "commit":
                receipt["headBefore"] = head
            leave = line.get("run", {}).get("commitAuthorization")
            if leave and leave.get("tree"):
                leave |= {"head": head, "tree": tree}
        anchor = parse_chain(_chained(lines)).heads[self.anchor - 1]
        trailers = self.trailers | {"Agent-Infra-Task": task, "Agent-Infra-Receipt": anchor}
        message = f"work {number}\n\n" + "".join(f"{key}: {value}\n" for key, value in trailers.items())
        commit = self._commit(tree, [head], message)
        for line in lines[self.anchor :]:
            leave = line.get("run", {}).get("commitAuthorization")
            if leave and leave.get("commit"):
                leave["commit"] = commit
            receipt = line.get("receipt", {})
            for key in ("artifactDigest", "headAfter"):
                if receipt.get(key):
                    receipt[key] = commit
        self._keep(task, _chained(lines))
        return commit

    def _keep(self, task: str, journal: bytes) -> None:
        """The evidence of one more task."""
        chain = parse_chain(journal)
        view = render_view(fold(chain.events, task_id=task, head=chain.head).run)
        files = {name: data.replace(self.task.encode(), task.encode()) for name, data in self.files.items()}
        builder = self.repo.TreeBuilder()
        for name, data in (files | {"journal.jsonl": journal, "orchestration.json": view}).items():
            builder.insert(name, self.repo.create_blob(data), pygit2.enums.FileMode.BLOB)
        commit = self._commit(str(builder.write()), [], "evidence")
        self.refs.append(f"create refs/agent-infra/runs/{task} {commit}\n")

    def _with(self, tree: str, path: list[str], blob: str) -> str:
        """A tree with one more file."""
        builder = self.repo.TreeBuilder(self.repo[tree]) if tree else self.repo.TreeBuilder()
        first, *rest = path
        if not rest:
            builder.insert(first, blob, pygit2.enums.FileMode.BLOB)
        else:
            below = builder.get(first)
            inner = self._with(str(below.id) if below else "", rest, blob)
            builder.insert(first, inner, pygit2.enums.FileMode.TREE)
        return str(builder.write())

    def _commit(self, tree: str, parents: list[str], message: str) -> str:
        who = pygit2.Signature("Bench", "bench@example.com", 1767225600, 0)
        return str(self.repo.create_commit(None, who, who, message, tree, parents))

    def _step(self) -> None:
        answer = self._verb("prepare", "--client", "claude-code")
        receipt = answer["run"]["pendingDelegation"]
        native = ("--client", "claude-code", "--native-agent", _AGENT[receipt["role"]], "--child-id", receipt["id"])
        self._verb("activate", *native, "--parent-id", "bench", "--spawn-mode", "fresh")
        if receipt["stage"] == "commit":
            self._call("commit", "1", "-m", "First")
        else:
            place = self.folder / ".agents/workspace/active" / self.task / receipt["artifact"]
            place.write_text(_TEXTS[receipt["artifact"]], encoding="utf-8")
        self._verb("complete", "--agent", "claude")
        self._verb("seal", *native)
        self._verb("advance")

    def _show(self, name: str) -> bytes:
        tree = self.repo.revparse_single(f"refs/agent-infra/runs/{self.task}^{{tree}}")
        return bytes(tree[name].data)

    def _verb(self, name: str, *args: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call("orchestrate", name, "1", *args))
        return found

    def _call(self, *argv: str) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            code = call(("--repo", str(self.folder), *argv))
        if code:
            raise RuntimeError(f"{' '.join(argv)} ended with {code}: {said.getvalue()}")
        return said.getvalue()


def _chained(lines: list[dict[str, Any]]) -> bytes:
    """The lines as a journal whose digests hold."""
    parts, head = [], GENESIS
    for line in lines:
        line["prev"] = head
        data = json.dumps(line, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        head = hashlib.sha256(data).hexdigest()
        parts.append(data + b"\n")
    return b"".join(parts)
