"""What a crash or a crowd leaves: SIGKILL at the writes of a verb, and four processes that hammer one run.

The killed process is the verb itself; `strace` kills it when it enters a system call, so the call has not happened.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_infra.services import delegate, orchestrate
from agent_infra.services import prepare as preparing
from agent_infra.services.context import Context
from agent_infra.services.outcome import Outcome
from agent_infra.stores.journal import parse_chain
from tests.support.lifecycle import CLIENT, PROGRAM, TASK, World, world_at

CALLS = (
    "write", "pwrite64", "rename", "renameat", "renameat2", "fsync", "link", "linkat", "unlink", "unlinkat",
    "ftruncate",
)  # fmt: skip
# all points of the sweep take minutes (CRASH_POINTS=1000); this many of each verb are for every run
POINTS = int(os.environ.get("CRASH_POINTS", "12"))
STRACE = shutil.which("strace")


def _can_trace() -> bool:
    return STRACE is not None and subprocess.run([STRACE, "-o", os.devnull, "true"], check=False).returncode == 0


@dataclass(frozen=True)
class Verb:
    """A verb to kill: the world it starts from, its command line, and the same call in this process."""

    name: str
    state: str
    arguments: Callable[[World], tuple[str, ...]]
    again: Callable[[Context, World], Outcome]


def _stop_arguments(world: World) -> tuple[str, ...]:
    stop = world.stop_of()
    return ("--client", CLIENT, "--native-agent", stop.native_agent, "--child-id", stop.child_id)


VERBS = [
    Verb(
        "prepare",
        "begun",
        lambda _: ("--client", CLIENT),
        lambda context, _: preparing.prepare(context, TASK, preparing.Order(CLIENT)),
    ),
    Verb("seal", "worked", _stop_arguments, lambda context, world: delegate.seal(context, TASK, world.stop_of())),
    Verb("advance", "sealed", lambda _: (), lambda context, _: orchestrate.advance(context, TASK)),
    Verb("advance", "committed", lambda _: (), lambda context, _: orchestrate.advance(context, TASK)),
]


def ops(world: World) -> list[str]:
    """What the valid lines of the journal say, in their order; a torn last line is none."""
    data = (world.root / ".git/agent-infra/runs" / TASK / "journal.jsonl").read_bytes()
    return [event["op"] for event in parse_chain(data).events]


def user_files(world: World) -> dict[str, str]:
    """Digests of all that is the user's: the product, the documents, index, HEAD and branches."""
    kept = {}
    for folder, names, files in os.walk(world.root):
        inside = Path(folder).relative_to(world.root)
        names[:] = [
            name
            for name in names
            if str(inside / name) not in {".git/agent-infra", ".git/objects", ".git/refs/agent-infra"}
        ]
        for name in files:
            if name != "orchestration.json" and not name.endswith((".tmp", ".lock")):
                kept[str(inside / name)] = hashlib.sha256(Path(folder, name).read_bytes()).hexdigest()
    return kept


def points(world: World, argv: list[str]) -> list[tuple[str, int]]:
    """System call and its count, for the calls that write in the repository or answer on stdout."""
    log = world.root.parent / "calls"
    spec = "trace=" + ",".join(f"?{call}" for call in CALLS)
    done = subprocess.run(
        [str(STRACE), "-y", "-o", str(log), "-e", spec, *argv],
        cwd=world.root,
        env=world.env,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, counts = [], Counter[str]()
    for line in log.read_text(errors="replace").splitlines():
        call = re.match(r"(\w+)\((.*)", line)
        if call:
            counts[call[1]] += 1
            if str(world.root) in call[2] or call[2].startswith("1<"):
                found.append((call[1], counts[call[1]], call[2]))
    # the moments in which our own files change, and an even sample of the rest
    sharp = [point for point in found if "journal.jsonl" in point[2] or (".json" in point[2] and point[0] == "rename")]
    rest = [point for point in found if point not in sharp]
    wanted = max(0, POINTS - len(sharp))
    step = max(1, -(-len(rest) // wanted)) if wanted else len(rest) + 1
    chosen = sharp + rest[::step]
    return [
        (call, count) for call, count, _ in found if (call, count) in {(name, number) for name, number, _ in chosen}
    ]


@pytest.mark.skipif(not _can_trace(), reason="strace is not installed or may not trace here")
@pytest.mark.parametrize("verb", [pytest.param(verb, id=f"{verb.name}-{verb.state}") for verb in VERBS])
def test_a_verb_killed_at_any_write_happened_or_did_not(
    verb: Verb, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old or new, never between: status says which, and the repeated verb leaves exactly one transition."""
    world = world_at(verb.state, tmp_path_factory, monkeypatch)
    argv = [str(PROGRAM), "orchestrate", verb.name, TASK, *verb.arguments(world)]
    before, mine = ops(world), user_files(world)
    kills = points(world, argv)
    after = ops(world)
    assert after == [*before, verb.name]
    assert len(kills) > 5
    seen = set()
    for call, count in kills:
        world = world_at(verb.state, tmp_path_factory, monkeypatch)
        inject = f"inject={call}:signal=KILL:when={count}"
        subprocess.run(
            [str(STRACE), "-o", os.devnull, "-e", f"trace={call}", "-e", inject, *argv],
            cwd=world.root, env=world.env, capture_output=True, check=False,
        )  # fmt: skip
        where = f"{call} {count}"
        happened = ops(world) != before
        seen.add(happened)
        assert ops(world) == (after if happened else before), where
        assert user_files(world) == mine, where
        _check_goes_on(world, verb, happened, where)
        assert ops(world) == after, where
        assert {name: digest for name, digest in user_files(world).items() if name in mine} == mine, where
    assert seen == {False, True}, "the sweep met only one side of the transition"


def _check_goes_on(world: World, verb: Verb, happened: bool, where: str) -> None:
    """Status tells the truth, the repeated verb makes it happen once, and the next verb finds its step."""
    shown = orchestrate.status(world.context, TASK).run
    assert shown, where
    settled = {"prepare": shown.pending_delegation, "advance": shown.pending_delegation is None}
    if verb.name == "seal":
        assert shown.pending_delegation, where
        settled["seal"] = shown.pending_delegation.status == "sealed"
    assert bool(settled[verb.name]) == happened, where
    if not happened:
        assert verb.again(world.context, world).changed, where
    elif verb.name == "seal":
        assert not verb.again(world.context, world).changed, where
    context = world.context
    assert orchestrate.begin(context, TASK, orchestrate.Beginning()).status in {"running", "completed"}, where
    assert context.load(context.active(TASK)), where


# -- a crowd -----------------------------------------------------------------------------------------------------------

WORKER = """
import json, random, sys
from pathlib import Path
from agent_infra.core.receipts import Activation
from agent_infra.errors import AgentInfraError
from agent_infra.services import abandon, delegate, orchestrate, prepare
from agent_infra.services.context import open_context

task, number, folder, text = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
chance, native = random.Random(number), "agent-infra-lifecycle-executor"
context = open_context(Path.cwd())
stop = lambda child: delegate.Stop("claude-code", native, child)
start = lambda child: Activation("claude-code", native, child, "parent", "fresh")


def pending_child():
    state = context.runs.seen(task)
    return state.pending.child_id if state.pending and state.pending.child_id else "nobody"


def write():
    (folder / "analysis.md").write_text(text)
    return orchestrate.status(context, task)


verbs = {
    "activate": lambda: delegate.activate(context, task, start(f"child-{number}-{chance.random()}")),
    "complete": lambda: delegate.complete(context, task, delegate.Claim("claude")),
    "seal": lambda: delegate.seal(context, task, stop(pending_child())),
    "advance": lambda: orchestrate.advance(context, task),
    "pause": lambda: orchestrate.pause(context, task, code="ASKED", message=str(number), recoverable=True),
    "begin": lambda: orchestrate.begin(context, task, orchestrate.Beginning(max_steps=200 + chance.randrange(10**6))),
    "prepare": lambda: prepare.prepare(context, task, prepare.Order("claude-code")),
    "abandon": lambda: abandon.abandon(context, task, reason="crowd", restored=False),
    "write": write,
}
weights = dict.fromkeys(verbs, 6) | {"begin": 8, "pause": 2, "abandon": 2, "write": 2}
for _ in range(int(sys.argv[5])):
    name = chance.choices(list(weights), list(weights.values()))[0]
    try:
        outcome = verbs[name]()
    except AgentInfraError as error:
        print(json.dumps([name, str(error.code), None]))
    else:
        print(json.dumps([name, None, outcome.run.journal_head if outcome.changed else None]))
"""


def test_four_processes_on_one_run_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change that was acknowledged is one line of a valid chain, every line was acknowledged to one process."""
    world = world_at("begun", tmp_path_factory, monkeypatch)
    first = len(ops(world))
    text = "# analysis\n\n- **Artifact File**: `analysis.md`\n"
    argv = [sys.executable, "-c", WORKER, TASK]
    crowd = [
        subprocess.Popen(
            [*argv, str(n), str(world.folder()), text, "40"],
            cwd=world.root,
            env=world.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(4)
    ]
    said = [process.communicate(timeout=120) for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 4, [err.decode()[-2000:] for _, err in said]
    answers = [json.loads(line) for out, _ in said for line in out.splitlines()]
    assert len(answers) == 160
    acknowledged = [head for _, _, head in answers if head]
    data = (world.root / ".git/agent-infra/runs" / TASK / "journal.jsonl").read_bytes()
    chain = parse_chain(data)
    assert not chain.torn
    assert sorted(acknowledged) == sorted(chain.heads[first:])
    assert len({name for name, _, head in answers if head}) > 4, "the crowd did too little"
    context = world.context
    state = context.load(context.active(TASK))
    assert state
    assert state.seq == len(chain.events)
    task_md = (world.folder() / "task.md").read_text()
    assert task_md.count("add(2, 2) must be 4.") == 1
    assert {error for _, error, _ in answers if error} <= {
        "ORCHESTRATION_RUN_PAUSED", "ORCHESTRATION_DELEGATION_MISSING", "ORCHESTRATION_RUN_NOT_RUNNING",
        "ORCHESTRATION_DELEGATION_BUSY", "DELEGATION_STOP_INVALID", "DELEGATION_STATE_INVALID", "ARTIFACT_NOT_FOUND",
        "DELEGATION_ROLE_MISMATCH", "LOCK_TIMEOUT", "DELEGATION_STAGE_MISMATCH",
    }  # fmt: skip
