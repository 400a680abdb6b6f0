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
import zlib
from functools import partial
from pathlib import Path
from typing import Any

from repositories import generate, git
from timing import Row, Step, command, measure, rows

from agent_infra.cli.app import run as call
from agent_infra.core.lifecycle import NATIVE_AGENTS
from agent_infra.core.run import fold
from agent_infra.git.history import open_history
from agent_infra.stores.journal import GENESIS, parse_chain
from agent_infra.stores.runs import render_view

SIZES = (100, 1_000, 10_000)
_PROGRAM = Path(sys.executable).with_name("agent-infra")
_AGENT = {str(role): name for name, role in NATIVE_AGENTS.items()}
_KINDS = {"commit": 1, "tree": 2, "blob": 3}
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
        with open_history(folder, environment={}) as history:
            chain = git(folder, "rev-list", "--reverse", f"refs/agent-infra/runs/{self.task}").split()
            self.told = [history.files(oid, lambda _name: True) for oid in chain]
            self.head = str(history.resolve("HEAD"))
            self.root = history.tree(f"{self.head}^{{tree}}")
        message = git(folder, "log", "-1", "--format=%B")
        self.trailers = dict(line.split(": ", 1) for line in message.splitlines() if line.startswith("Agent-Infra-"))
        heads = parse_chain(self.journal).heads
        self.anchor = heads.index(self.trailers["Agent-Infra-Receipt"]) + 1

    @property
    def journal(self) -> bytes:
        """Of the real run."""
        return self.told[-1]["journal.jsonl"]

    def grow(self, commits: int) -> None:
        """Add commits, each with evidence, and pack all as a server does."""
        pack, work = Pack(), Folder()
        refs = []
        head = self.head
        blob = pack.add("blob", b"")
        for number in range(commits):
            name = f"work/{number // 1000:03d}/{number % 1000 // 32:02d}/{number % 1000:03d}.txt"
            work.put(name.split("/")[1:], blob)
            tree = pack.add("tree", _tree({**self.root, b"work": ("40000", work.write(pack))}))
            task = f"TASK-2027{number // 1_000_000 % 10_000:04d}-{number:06d}"
            head, evidence = self._one(pack, (task, name, blob), tree, head)
            refs.append(f"create refs/agent-infra/runs/{task} {evidence}\n")
        git(self.folder, "index-pack", "--stdin", stdin=pack.closed())
        git(self.folder, "update-ref", "--stdin", stdin="".join(refs).encode())
        git(self.folder, "update-ref", "refs/heads/main", head)
        git(self.folder, "pack-refs", "--all")
        git(self.folder, "repack", "-q", "-a", "-d", "-f")

    def _one(self, pack: "Pack", change: tuple[str, str, str], tree: str, head: str) -> tuple[str, str]:
        """One more commit of a task that changed one file; its id and that of its evidence."""
        task, name, blob = change
        lines = [json.loads(line) for line in self.journal.decode().replace(self.task, task).splitlines()]
        for line in lines:
            receipt, leave = line.get("receipt", {}), line.get("run", {}).get("commitAuthorization")
            if receipt.get("inputChanges"):
                receipt["inputChanges"] = [{"path": name, "mode": "100644", "oid": blob}]
            if receipt.get("stage") == "commit":
                receipt["headBefore"] = head
            if leave and leave.get("tree"):
                leave |= {"head": head, "tree": tree}
        anchor = parse_chain(_chained(lines)).heads[self.anchor - 1]
        trailers = self.trailers | {"Agent-Infra-Task": task, "Agent-Infra-Receipt": anchor}
        words = f"{task}\n\n" + "".join(f"{key}: {value}\n" for key, value in trailers.items())
        commit = pack.add("commit", _commit(tree, head, words))
        for line in lines[self.anchor :]:
            receipt, leave = line.get("receipt", {}), line.get("run", {}).get("commitAuthorization")
            if leave and leave.get("commit"):
                leave["commit"] = commit
            receipt |= {key: commit for key in ("artifactDigest", "headAfter") if receipt.get(key)}
        return commit, self._keep(pack, task, _chained(lines))

    def _keep(self, pack: "Pack", task: str, journal: bytes) -> str:
        """The evidence of one task, one commit for each finished step; the newest one's id."""
        chain = parse_chain(journal)
        newest = ""
        for files in self.told:
            count = files["journal.jsonl"].count(b"\n")
            view = render_view(fold(chain.events[:count], task_id=task, head=chain.heads[count - 1]).run)
            now = {name: data.replace(self.task.encode(), task.encode()) for name, data in files.items()}
            now |= {"journal.jsonl": b"".join(journal.splitlines(keepends=True)[:count]), "orchestration.json": view}
            entries = {name.encode(): ("100644", pack.add("blob", data)) for name, data in now.items()}
            newest = pack.add("commit", _commit(pack.add("tree", _tree(entries)), newest, "evidence\n"))
        return newest

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


class Folder:
    """A folder of product files that grows by one file at a time."""

    def __init__(self) -> None:
        self._below: dict[str, Folder | str] = {}
        self._oid = ""

    def put(self, path: list[str], blob: str) -> None:
        """One more file."""
        self._oid = ""
        first, *rest = path
        if not rest:
            self._below[first] = blob
            return
        below = self._below.setdefault(first, Folder())
        if isinstance(below, Folder):
            below.put(rest, blob)

    def write(self, pack: "Pack") -> str:
        """Its tree; folders that did not change are written already."""
        if not self._oid:
            self._oid = pack.add("tree", _tree({name.encode(): _entry(it, pack) for name, it in self._below.items()}))
        return self._oid


class Pack:
    """Objects written as one pack: a loose file for each of half a million would take longer than all else."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._parts: list[bytes] = []

    def add(self, kind: str, data: bytes) -> str:
        """The id of an object."""
        oid = hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()
        if oid not in self._known:
            self._known.add(oid)
            self._parts.append(_head(_KINDS[kind], len(data)) + zlib.compress(data, 1))
        return oid

    def closed(self) -> bytes:
        """The pack, whole."""
        data = b"".join((b"PACK", (2).to_bytes(4), len(self._parts).to_bytes(4), *self._parts))
        return data + hashlib.sha1(data, usedforsecurity=False).digest()


def _head(kind: int, size: int) -> bytes:
    """Kind and size of a packed object: four bits of the size, then seven in each byte."""
    made = [kind << 4 | size & 15]
    size >>= 4
    while size:
        made[-1] |= 128
        made.append(size & 127)
        size >>= 7
    return bytes(made)


def _entry(it: Folder | str, pack: Pack) -> tuple[str, str]:
    return ("40000", it.write(pack)) if isinstance(it, Folder) else ("100644", it)


def _tree(entries: dict[bytes, tuple[str, str]]) -> bytes:
    order = sorted(entries.items(), key=lambda entry: entry[0] + (b"/" if entry[1][0] == "40000" else b""))
    return b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for name, (mode, oid) in order)


def _commit(tree: str, parent: str, message: str) -> bytes:
    who = "Bench <bench@example.com> 1767225600 +0000"
    above = f"parent {parent}\n" if parent else ""
    return f"tree {tree}\n{above}author {who}\ncommitter {who}\n\n{message}".encode()
