"""The journal of one honest run as literals, line by line, for tests that tell it otherwise."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agent_infra.core.grounds import ground
from agent_infra.core.history import Chronicle, Claim, Commit, Entry, Original, Verdict, broken
from agent_infra.core.judgement import judge
from agent_infra.core.run import fold
from agent_infra.errors import AgentInfraError
from tests.support.states import BEGIN, LATER, NOW, TASK, TREE, ledger_text, receipt, review_text

Line = dict[str, Any]
BASE, HEAD, MADE, AUTHORIZED = "b" * 40, "c" * 40, "d" * 40, "a" * 40
CHANGE = {"path": "src/app.py", "mode": "100644", "oid": "e" * 40}
DOCUMENTS = {
    "task.md": ledger_text(),
    "analysis.md": b"analysis\n",
    "code.md": b"code\n",
    "review-code.md": review_text(judged="code.md"),
}
SHA = {name: hashlib.sha256(data).hexdigest() for name, data in DOCUMENTS.items()}
FOLDER = f".agents/workspace/active/{TASK}"


def line(op: str, **parts: Any) -> Line:
    return {"v": 1, "ts": NOW, "op": op, **parts}


def step(name: str, child: str, *, inputs: tuple[str, ...] = (), **prepared: Any) -> list[Line]:
    """One step from prepare to advance."""
    given = [{"name": each, "sha256": SHA[each]} for each in inputs]
    start = receipt(name).to_json() | {"inputs": given, "headBefore": BASE, "indexBefore": "i", "controlBefore": "k"}
    reviews = name.startswith("review-")
    verdicts = {"verdicts": {name: "approved"}} if reviews else {}
    sealed = {"headAfter": BASE, "indexAfter": "i", "controlAfter": "k", "afterFingerprint": TREE, "sealedAt": LATER}
    return [
        line("prepare", run={"nextStage": start["stage"]}, receipt=start | prepared, memo={"control": {}}),
        activated(child),
        line(
            "complete",
            receipt={"status": "stage-completed", "agent": "claude", "artifactDigest": SHA[name], "completedAt": LATER},
            memo={"ledger": {}, **verdicts},
        ),
        line(
            "seal",
            receipt={"status": "sealed", "outcome": "success", "changedPaths": [f"{FOLDER}/{name}"], **sealed},
            memo={"ledger": {}},
        ),
        line(
            "advance",
            run={"nextStage": None, "pause": None},
            receipt={"status": "consumed", "consumedAt": LATER},
            close=True,
            memo={"control": {}},
        ),
    ]


def activated(child: str) -> Line:
    started = {"status": "activated", "childId": child, "parentId": "p", "spawnMode": "fresh", "activatedAt": LATER}
    return line("activate", receipt=started)


def story() -> list[Line]:
    """An honest run of the streamlined flow, up to the commit that was recorded; steps are counted at the end."""
    leave = {"issuedAt": NOW, "consumedAt": None, "ref": "refs/heads/main", "head": HEAD, "tree": AUTHORIZED}
    commit = receipt("commit").to_json() | {"headBefore": HEAD, "role": "executor", "stage": "commit"}
    judged = {"inputTree": "f" * 40, "inputChanges": [CHANGE]}
    lines = [
        line(
            "begin", run={**BEGIN, "flow": "streamlined", "stepCount": 0, "maxSteps": 24}, memo={"ledgerPresent": True}
        ),
        *step("analysis.md", "c-1"),
        *step("code.md", "c-2", inputs=("analysis.md",)),
        *step("review-code.md", "c-3", inputs=("code.md", "analysis.md"), **judged),
        line(
            "prepare",
            run={"nextStage": "commit", "commitAuthorization": {**leave, "commit": None}},
            receipt=commit,
            memo={"control": {}},
            facts={"patchId": "p" * 64},
        ),
        activated("c-4"),
        line("committed", run={"commitAuthorization": {**leave, "commit": MADE}}),
    ]
    steps = [each for each in lines if each["op"] == "advance"]
    for number, each in enumerate(steps, start=1):
        each["run"]["stepCount"] = number
    return lines


ANCHOR = len(story()) - 1


@dataclass
class Seen:
    """A commit of which all changes are there, in a history of which nothing else is known."""

    commit: Commit
    own: str = ""

    def entries(self) -> Mapping[str, Entry]:
        return self.commit.changes

    def patch(self) -> str:
        return self.own

    def between(self, first: str | None, last: str) -> str:
        raise AssertionError((first, last))

    def original(self, _oid: str) -> Original | None:
        return None

    def follows(self, _oid: str) -> bool:
        return False

    def joins(self, last: str) -> bool:
        raise AssertionError(last)


class Ask(Protocol):
    """What a history says about a commit."""

    def __call__(self, commit: Commit, *, patch: str = "") -> Verdict: ...


def told(lines: list[Line], *, anchor: int = ANCHOR, run: str = "run-1", **documents: bytes | None) -> Ask:
    """What a run of these lines says about a commit; the chain and the view are made to fit."""
    heads: list[str] = []
    for number, each in enumerate(lines, start=1):
        each |= {"seq": number, "prev": heads[-1] if heads else "0" * 64}
        heads.append(hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest())
    files = {name: data for name, data in (DOCUMENTS | named(documents)).items() if data is not None}

    def ask(commit: Commit, *, patch: str = "") -> Verdict:
        try:
            view = json.dumps(fold(lines, task_id=TASK, head=heads[-1]).run.to_json()).encode()
            chronicle = Chronicle(TASK, tuple(lines), tuple(heads), view)
            base = ground(chronicle, files, Claim(TASK, run, heads[anchor - 1] if anchor else "0" * 64))
        except AgentInfraError as error:
            return broken(error)
        return judge(commit, [base], Seen(commit, patch))

    return ask


def named(documents: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {f"{name.replace('_', '-')}.md": data for name, data in documents.items()}


def made(**changes: Any) -> Commit:
    """The commit that the run authorized."""
    facts: dict[str, Any] = {
        "oid": MADE,
        "parents": (HEAD,),
        "tree": AUTHORIZED,
        "message": "fix",
        "changes": {"src/app.py": ("100644", "e" * 40)},
    }
    return Commit(**(facts | changes))
