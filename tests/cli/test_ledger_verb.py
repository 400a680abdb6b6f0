"""The findings ledger stands before the commit; within a run its rows are closed by reviewers and people alone."""

import pytest

from tests.support.world import World

OPEN = "| AN-1 | analysis | 1 | major | open | |"
CLOSED = OPEN.replace("open", "closed").replace("| |", "| review-analysis-r2.md#an-1 |")


def everything_approved(world: World, ledger: str | None) -> None:
    world.task(ledger=ledger)
    world.reviewed("analysis", "plan", "code")


@pytest.mark.parametrize(
    "ledger",
    [
        pytest.param(None, id="no section"),
        pytest.param("", id="no row"),
        pytest.param("| CD-1 | code | 1 | blocker | closed | review-code.md#cd-1 |\n", id="closed"),
        pytest.param("| PL-3 | plan | 2 | minor | confirmed | review-plan.md#pl-3 |\n", id="confirmed"),
        pytest.param("| HD-1 | code | - | decision | human-decided | task.md#HDR-1 |\n", id="decided by a person"),
    ],
)
def test_settled_rows_let_the_commit_come(world: World, ledger: str | None) -> None:
    """Terminal rows of every stage."""
    everything_approved(world, ledger)
    assert world.ok("route").step == ("commit", 1)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("| CD-1 | code | 1 | blocker | open | |\n", id="open"),
        pytest.param("| CD-1 | code | 1 | minor | accepted | code.md#x |\n", id="accepted is not done"),
        pytest.param("| HD-1 | code | - | decision | needs-human-decision | review-code.md#HD-1 |\n", id="decision"),
        pytest.param("| AN-7 | analysis | 1 | minor | open | |\n", id="an earlier stage"),
    ],
)
def test_unresolved_rows_of_any_stage_block(world: World, row: str) -> None:
    """The row is named."""
    everything_approved(world, row)
    assert row.split("|")[1].strip() in world.refused("ORCHESTRATION_LEDGER_BLOCKED", "route").message


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(
            "| CD-1 | code | 1 | minor | closed | a |\n| CD-1 | code | 1 | minor | closed | a |\n", id="twice"
        ),
        pytest.param("| CD-0 | code | 1 | minor | closed | a |\n", id="zero"),
        pytest.param("| ZZ-1 | code | 1 | minor | closed | a |\n", id="prefix"),
        pytest.param("| PL-1 | code | 1 | minor | closed | a |\n", id="prefix of another stage"),
        pytest.param("| CD-1 | code | 1 | minor | fixed | a |\n", id="status"),
        pytest.param("| CD-1 | code | 1 | bad | closed | a |\n", id="severity"),
        pytest.param("| CD-1 | code | x | minor | closed | a |\n", id="round"),
        pytest.param("| CD-1 | code | 1 | minor |\n", id="cells"),
    ],
)
def test_a_malformed_table_blocks(world: World, rows: str) -> None:
    """ORCHESTRATION_LEDGER_INVALID, never an empty ledger."""
    everything_approved(world, rows)
    world.refused("ORCHESTRATION_LEDGER_INVALID", "route")


def test_a_malformed_table_is_no_start(world: World) -> None:
    """Rows are journalled at begin, so they must be readable then."""
    world.task(ledger="| XX-1 | code | 1 | minor | closed | a |\n")
    world.refused("ORCHESTRATION_LEDGER_INVALID", "begin")


def rejected(world: World) -> None:
    """A run whose first review found AN-1."""
    world.begun()
    world.step()
    step = world.activated()
    world.rejecting(step, OPEN, (0, 1, 0))
    assert world.complete(step).exit == 0
    world.stop("reviewer")
    world.ok("advance")


def edit(world: World, old: str, new: str) -> None:
    path = world.folder() / "task.md"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_reviewer_opens_and_closes(world: World) -> None:
    """The row of round one is closed by the reviewer of round two, and both receipts say so."""
    rejected(world)
    assert world.run()["receipts"][-1]["ledger"] == [["AN-1", "analysis", "1", "major", "open", ""]]
    world.step()
    step = world.activated()
    assert step["artifact"] == "review-analysis-r2.md"
    edit(world, OPEN, CLOSED)
    world.review("analysis", 2, of="analysis-r2.md")
    assert world.complete(step).exit == 0
    world.stop("reviewer")
    world.ok("advance")
    assert world.run()["receipts"][-1]["ledger"] == [
        ["AN-1", "analysis", "1", "major", "closed", "review-analysis-r2.md#an-1"]
    ]
    assert world.ok("route").step == ("plan", 1)


def test_what_an_aborted_reviewer_closed_is_not_settled(world: World) -> None:
    """A receipt that does not count settles nothing: the next reviewer's names the row."""
    rejected(world)
    world.step()
    step = world.activated()
    edit(world, OPEN, CLOSED)
    world.review("analysis", 2, of="analysis-r2.md")
    assert world.complete(step).exit == 0
    world.ok("abandon", "--reason", "the reviewer was interrupted")
    again = world.activated()
    assert again["artifact"] == step["artifact"]
    world.review("analysis", 2, of="analysis-r2.md")
    assert world.complete(again).exit == 0
    world.stop("reviewer")
    world.ok("advance")
    assert [row[:5] for row in world.run()["receipts"][-1]["ledger"]] == [["AN-1", "analysis", "1", "major", "closed"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(OPEN, CLOSED, id="closed by the executor"),
        pytest.param(OPEN + "\n", "", id="row taken away"),
    ],
)
def test_an_executor_cannot_settle_a_finding(world: World, old: str, new: str) -> None:
    """It is named at `complete`, where it can be mended."""
    rejected(world)
    step = world.activated()
    world.work(step)
    edit(world, old, new)
    answer = world.complete(step)
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_LEDGER_UNPROVEN")
    assert "AN-1" in answer.message
    world.folder().joinpath("task.md").write_text((world.folder() / "task.md").read_text())
    if new:
        edit(world, new, old)
    else:
        world.row(old.strip())
    assert world.complete(step).exit == 0


def test_an_executor_may_open_a_row(world: World) -> None:
    """Confessing is free."""
    world.begun()
    step = world.activated()
    world.work(step)
    world.row(OPEN)
    assert world.complete(step).exit == 0
    assert world.pending()["ledger"] == [["AN-1", "analysis", "1", "major", "open", ""]]


def test_a_row_closed_between_steps_stops_before_the_commit(world: World) -> None:
    """No receipt closed it, so `route` says so when all else is done."""
    world.begun("--flow", "streamlined")
    step = world.activated()
    world.work(step)
    world.row("| CD-1 | code | 1 | minor | open | |")
    assert world.complete(step).exit == 0
    world.stop("executor")
    world.ok("advance")
    world.step()
    edit(world, "| CD-1 | code | 1 | minor | open | |", "| CD-1 | code | 1 | minor | closed | code.md#x |")
    step = world.activated()
    world.review("code")
    assert world.complete(step).exit == 0, "the reviewer looked at the table and left it so"
    world.stop("reviewer")
    world.ok("advance")
    assert world.ok("route").step == ("commit", 1)
    edit(world, "| CD-1 | code | 1 | minor | closed | code.md#x |\n", "")
    assert "CD-1" in world.refused("ORCHESTRATION_LEDGER_UNPROVEN", "route").message


def test_the_section_of_begin_must_stay(world: World) -> None:
    """Taking the whole ledger away is no way to empty it."""
    world.begun()
    step = world.activated()
    world.work(step)
    edit(world, "## Review Disagreement Ledger", "## Something else")
    answer = world.complete(step)
    assert (answer.exit, answer.code) == (1, "ORCHESTRATION_LEDGER_INVALID")
