"""`task ledger` and `task decisions`: what is written by command reads like what is typed, and is proven like it."""

import json
from concurrent.futures import ThreadPoolExecutor

from tests.support.world import TASK, Answer, World

FOUND = ("--review", "review-code.md", "--severity", "major")


def ledger(world: World, verb: str, *args: str, code: str = "") -> Answer:
    answer = world.call("task", "ledger", verb, TASK, *args)
    assert answer.exit == (1 if code else 0), answer
    assert code in answer.err
    return answer


def rows(world: World) -> dict[str, str]:
    return {row["id"]: row["status"] for row in json.loads(ledger(world, "ls", "--json").out)["rows"]}


def test_the_life_of_a_finding(world: World) -> None:
    """Added, answered, settled; each step is a line of task.md, and a repeat changes nothing."""
    world.task()
    assert "nothing is open" in ledger(world, "ls").out
    assert "CD-1 is open" in ledger(world, "add", *FOUND).out
    assert "CD-1 is already open" in ledger(world, "add", *FOUND, "--id", "CD-1").out
    assert "open: CD-1" in ledger(world, "ls").out
    ledger(world, "review", "--id", "CD-1", "--status", "closed", "--evidence", "x", code="LEDGER_TRANSITION_INVALID")
    ledger(world, "respond", "--id", "cd-1", "--status", "accepted", "--evidence", "code-r2.md#CD-1")
    said = ledger(
        world, "review", "--id", "CD-1", "--status", "closed", "--evidence", "review-code-r2.md#CD-1", "--json"
    )
    assert json.loads(said.out)["row"] == {
        "id": "CD-1",
        "stage": "code",
        "round": "2",
        "severity": "major",
        "status": "closed",
        "evidence": "review-code-r2.md#CD-1",
    }
    text = (world.folder() / "task.md").read_text()
    assert "| CD-1 | code | 2 | major | closed | review-code-r2.md#CD-1 |" in text


def test_what_waits_for_a_person(world: World) -> None:
    """A question is listed under the number by which `task decide` takes it."""
    world.task()
    assert "nothing waits" in world.call("task", "decisions", TASK).out
    ledger(world, "add", "--decision", "code.md", "--stage", "code")
    found = json.loads(world.call("task", "decisions", TASK, "--json").out)["decisions"]
    assert [(row["item"], row["id"], row["evidence"]) for row in found] == [(1, "HD-1", "code.md#HD-1")]
    assert "task decide --item 1" in world.call("task", "decisions", TASK).out


def test_nothing_is_closed_outside_of_a_reviewers_step(world: World) -> None:
    """Once a run has begun; within the step it is closed, and the run can go on."""
    world.begun("--flow", "streamlined")
    world.to("review-code")
    step = world.activated()
    world.rejecting(step, "| CD-1 | code | 1 | major | open | review-code.md#CD-1 |", (0, 1, 0))
    world.complete(step)
    world.stop("reviewer")
    world.ok("advance")
    world.activated()
    ledger(world, "respond", "--id", "CD-1", "--status", "accepted", "--evidence", "code-r2.md#CD-1")
    closing = ("review", "--id", "CD-1", "--status", "closed", "--evidence", "review-code-r2.md#CD-1")
    before = (world.folder() / "task.md").read_bytes()
    ledger(world, *closing, code="ORCHESTRATION_LEDGER_UNPROVEN")
    assert (world.folder() / "task.md").read_bytes() == before


def test_wrong_calls(world: World) -> None:
    """An unknown row, two kinds at once, a task without a ledger, a table that can't be read."""
    world.task()
    ledger(world, "respond", "--id", "CD-7", "--status", "accepted", "--evidence", "x", code="LEDGER_NOT_FOUND")
    assert world.call("task", "ledger", "add", TASK, *FOUND, "--decision", "code.md").exit == 2
    assert world.call("task", "ledger", "add", TASK).exit == 2
    world.task(ledger="| CD-1 | code | 1 | major | strange | x |\n")
    ledger(world, "ls", code="ORCHESTRATION_LEDGER_INVALID")
    world.task(ledger=None)
    ledger(world, "add", *FOUND, code="LEDGER_DOCUMENT_INVALID")


def test_many_findings_at_once(world: World) -> None:
    """Eight processes add eight findings; none is lost, each has its own id."""
    world.task()

    def add(number: int) -> int:
        return world.process("task", "ledger", "add", TASK, *FOUND, "--anchor", f"f{number}").exit

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(add, range(8))) == {0}
    assert sorted(rows(world)) == [f"CD-{number}" for number in range(1, 9)]
