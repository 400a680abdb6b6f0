"""What is lost or broken is named, disturbs nothing else, and `repair` brings back what can be brought back."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import TASK, World, walked

# -- the view


@pytest.mark.parametrize("state", ["missing", "empty", "stale"])
def test_a_lost_view_is_rebuilt_in_silence(world: World, state: str) -> None:
    """Reading folds in memory and writes nothing; the next change writes it anew."""
    world.begun()
    old = world.view().read_bytes()
    world.step()
    now = world.run()
    if state == "missing":
        world.view().unlink()
    else:
        world.view().write_bytes(b"" if state == "empty" else old)
    assert world.ok("status")["run"] == now
    assert world.ok("route").step == ("review-analysis", 1)
    assert world.ok("status").err == ""
    world.prepare()
    assert world.run()["pendingDelegation"]["status"] == "prepared"


def test_a_view_laid_out_differently_is_the_same_view(world: World) -> None:
    """Its values count, not its spaces."""
    world.begun()
    world.view().write_text(json.dumps(world.run()))
    assert world.ok("status")["status"] == "running"


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a value": lambda shown: shown | {"stepCount": 6},
    "status": lambda shown: shown | {"status": "completed"},
    "a key more": lambda shown: shown | {"approved": True},
    "a key less": lambda shown: {key: value for key, value in shown.items() if key != "pause"},
    "another line": lambda shown: shown | {"journalHead": "f" * 64},
    "no line": lambda shown: shown | {"journalHead": None},
    "a list": lambda shown: [shown],
    "cut": lambda shown: json.dumps(shown)[:-40].encode(),
    "not JSON": lambda _: b"status: completed\n",
    "deep": lambda _: b"[" * 100_000,
    "not UTF-8": lambda _: b"\xff\xfe",
}


def edited(world: World, how: str) -> None:
    """Edit the view by hand."""
    found = EDITS[how](world.run())
    world.view().write_bytes(found if isinstance(found, bytes) else json.dumps(found).encode())


@pytest.mark.parametrize("how", EDITS)
def test_an_edited_view_is_named_and_repaired(world: World, how: str) -> None:
    """Every verb refuses it, nothing is overwritten; `repair` keeps the odd one aside."""
    walked(world)
    good = world.run()
    edited(world, how)
    odd = world.view().read_bytes()
    for verb in (("status",), ("route",), ("begin",), ("prepare", "--client", "claude-code"), ("advance",)):
        assert f"repair {TASK}" in world.refused("ORCHESTRATION_STATE_TAMPERED", *verb).message
    answer = world.ok("repair")
    assert answer["changed"] is True
    kept = [path for path in (world.common / "logs").iterdir() if path.name.endswith("orchestration.json")]
    assert [path.read_bytes() for path in kept] == [odd]
    assert str(kept[0]) in answer.notes
    assert world.run() == good
    assert world.ok("repair")["changed"] is False


def test_no_verb_works_on_an_edited_view(world: World) -> None:
    """All that change state."""
    walked(world)
    step = ("--stage", "plan", "--round", "1", "--artifact", "plan.md")
    edited(world, "a value")
    for verb in (
        ("pause", "--code", "X", "--message", "y"),
        ("abandon", "--reason", "x"),
        ("end", "--reason", "x"),
        ("reopen", "--stage", "analysis", "--reason", "x"),
        ("complete", "--agent", "claude"),
        ("validate", *step, "--role", "executor"),
        ("brief",),
    ):
        world.refused("ORCHESTRATION_STATE_TAMPERED", *verb)
    assert world.start("executor").code == "ORCHESTRATION_STATE_TAMPERED"
    assert world.stop("executor").code == "ORCHESTRATION_STATE_TAMPERED"


# -- the journal


def test_a_torn_last_line_is_cut(world: World) -> None:
    """The append that died never happened; reading leaves the bytes, the next change cuts them."""
    world.begun()
    whole = world.journal().read_bytes()
    world.journal().write_bytes(whole + b'{"v":1,"seq":2,"pr')
    assert world.ok("status")["run"]["journalHead"] == world.run()["journalHead"]
    assert world.journal().read_bytes() != whole
    world.prepare()
    assert world.journal().read_bytes().startswith(whole + b'{"')
    assert world.ops() == ["begin", "prepare"]


def spoil(lines: list[bytes], how: str) -> list[bytes]:
    third = json.loads(lines[2])
    if how == "a value edited":
        return [lines[0], lines[1].replace(b"claude-code", b"codex"), *lines[2:]]
    if how == "a line taken out":
        return [lines[0], *lines[2:]]
    if how == "a line doubled":
        return [lines[0], lines[1], *lines[1:]]
    if how == "not JSON":
        return [lines[0], b"hello\n", *lines[2:]]
    if how == "an empty line":
        return [lines[0], b"\n", *lines[1:]]
    if how == "a newer version":
        return [*lines[:2], json.dumps(third | {"v": 2}).encode() + b"\n", *lines[3:]]
    if how == "deep":
        return [*lines[:2], b"[" * 100_000 + b"\n", *lines[3:]]
    if how == "the end of a line gone":
        return [*lines[:2], lines[2][:-20] + b"\n", *lines[3:]]
    assert how == "not UTF-8"
    return [*lines[:2], b"\xff\xfe\n", *lines[3:]]


SPOILS = [
    "a value edited",
    "a line taken out",
    "a line doubled",
    "not JSON",
    "an empty line",
    "a newer version",
    "deep",
]


@pytest.mark.parametrize("how", [*SPOILS, "the end of a line gone", "not UTF-8"])
def test_a_bad_line_is_named_and_touches_nothing(world: World, how: str) -> None:
    """Its number is said; another task goes on; `repair` takes the journal from the evidence."""
    walked(world)
    good = world.journal().read_bytes()
    world.journal().write_bytes(b"".join(spoil(good.splitlines(keepends=True), how)))
    odd = world.journal().read_bytes()
    for verb in (("status",), ("begin",), ("prepare", "--client", "claude-code"), ("end", "--reason", "x")):
        answer = world.refused("ORCHESTRATION_JOURNAL_INVALID", *verb)
        assert "line " in answer.message
        assert "repair" in answer.message
    answer = world.ok("repair")
    assert answer["run"]["stepCount"] == 2
    kept = [path for path in (world.common / "logs").iterdir() if path.name.endswith("journal.jsonl")]
    assert [path.read_bytes() for path in kept] == [odd]
    assert good.startswith(world.journal().read_bytes())
    world.step()


@pytest.mark.parametrize("how", ["last line edited", "last lines cut"])
def test_an_edit_that_keeps_the_chain_is_seen_by_the_view(world: World, how: str) -> None:
    """The last line has no successor; the view names it, and the evidence has the true one."""
    world.begun()
    world.step()
    good = world.journal().read_bytes()
    lines = good.splitlines(keepends=True)
    if how == "last lines cut":
        world.journal().write_bytes(b"".join(lines[:-2]))
    else:
        event = json.loads(lines[-1])
        event["run"]["stepCount"] = 5
        text = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        world.journal().write_bytes(b"".join(lines[:-1]) + text.encode() + b"\n")
    world.refused("ORCHESTRATION_STATE_TAMPERED", "status")
    world.ok("repair")
    assert world.journal().read_bytes() == good
    assert world.ok("status")["run"]["stepCount"] == 1


def test_a_bad_journal_without_evidence_stays_as_it_is(world: World) -> None:
    """A person must look; nothing is guessed."""
    world.begun()
    world.prepare()
    lines = world.journal().read_bytes().splitlines(keepends=True)
    world.journal().write_bytes(lines[1] + lines[0])
    world.refused("ORCHESTRATION_JOURNAL_INVALID", "status")
    world.refused("ORCHESTRATION_JOURNAL_INVALID", "repair")


@pytest.mark.parametrize("left", ["view", "guard", "evidence"])
def test_a_lost_journal_is_never_a_new_start(world: World, left: str) -> None:
    """A view, a guard or an evidence ref says that there was a run; `repair` restores it from the evidence."""
    walked(world)
    good = world.journal().read_bytes()
    shutil.rmtree(world.journal().parent)
    if left != "view":
        world.view().unlink()
    if left != "guard":
        (world.common / "guards" / TASK).unlink()
    if left != "evidence":
        saved = world.git("rev-parse", f"refs/agent-infra/runs/{TASK}")
        world.git("update-ref", "-d", f"refs/agent-infra/runs/{TASK}")
    verbs = [("status",), ("begin",), ("route",), ("prepare", "--client", "claude-code"), ("advance",)]
    for verb in [*verbs, ("pause", "--code", "X", "--message", "y"), ("end", "--reason", "x")]:
        assert "repair" in world.refused("ORCHESTRATION_JOURNAL_MISSING", *verb).message
    if left != "evidence":
        world.git("update-ref", f"refs/agent-infra/runs/{TASK}", saved)
    answer = world.ok("repair")
    assert "restored" in answer.notes
    assert good.startswith(world.journal().read_bytes())
    assert (world.common / "guards" / TASK).exists()
    assert world.run()["stepCount"] == 2
    world.step()


def test_a_guard_alone_is_lifted(world: World) -> None:
    """Neither journal nor evidence nor view: nothing tells what it guards."""
    world.begun()
    shutil.rmtree(world.journal().parent)
    world.view().unlink()
    world.refused("ORCHESTRATION_JOURNAL_MISSING", "begin")
    assert "lifted" in world.ok("repair").notes
    assert world.ok("begin")["changed"] is True


def test_a_view_alone_is_not_trusted(world: World) -> None:
    """A copied orchestration.json makes no run."""
    world.begun()
    shutil.rmtree(world.common)
    world.refused("ORCHESTRATION_JOURNAL_MISSING", "begin")
    message = world.refused("ORCHESTRATION_JOURNAL_MISSING", "repair").message
    assert "remove it" in message
