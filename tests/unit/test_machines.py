"""Tables and walks: what a stored status allows, and where a route comes to rest."""

import pytest

from agent_infra.core.machines import Arrow, Path, Table, Walk, table_diagram
from agent_infra.core.receipts import RECEIPT
from agent_infra.core.run import RUN
from agent_infra.errors import ErrorCode, RefusedError


def _refusal(status: str, trigger: str) -> RefusedError:
    return RefusedError(ErrorCode.DELEGATION_STATE_INVALID, f"{status} can't {trigger}")


def has_key(*words: str) -> None:
    if "key" not in words:
        raise RefusedError(ErrorCode.DELEGATION_STAGE_MISMATCH, "no key")


def has_patience(*words: str) -> None:
    if "patience" not in words:
        raise RefusedError(ErrorCode.DELEGATION_STAGE_MISMATCH, "no patience")


DOOR = Table(
    "door",
    ("open", "shut", "locked-up"),
    (
        Arrow("shut", "open", "shut"),
        Arrow("lock", "shut", "locked-up", (has_key, has_patience)),
        Arrow("knock", "shut", "shut"),
    ),
    _refusal,
)


def test_an_arrow_leads_on() -> None:
    """A trigger with an arrow gives the state that it leads to, which may be the same one."""
    assert DOOR.follow("open", "shut") == "shut"
    assert DOOR.follow("shut", "knock") == "shut"
    assert DOOR.follow("shut", "lock", "key", "patience") == "locked-up"


@pytest.mark.parametrize(
    ("state", "trigger"),
    [
        pytest.param("locked-up", "shut", id="no arrow from this state"),
        pytest.param("open", "fly", id="unknown trigger"),
        pytest.param("ajar", "shut", id="unknown state"),
        pytest.param("open", "to_shut", id="a trigger that would pass by the guards"),
    ],
)
def test_a_missing_arrow_is_refused(state: str, trigger: str) -> None:
    """What has no arrow is refused in the table's own words."""
    assert not DOOR.can(state, trigger)
    with pytest.raises(RefusedError, match=f"{state} can't {trigger}"):
        DOOR.follow(state, trigger)


def test_guards_are_asked_in_order() -> None:
    """The first guard that says no is the reason; `can` asks none."""
    assert DOOR.can("shut", "lock")
    with pytest.raises(RefusedError, match="no key"):
        DOOR.follow("shut", "lock")
    with pytest.raises(RefusedError, match="no patience"):
        DOOR.follow("shut", "lock", "key")


@pytest.mark.parametrize(
    "arrows",
    [
        pytest.param((Arrow("shut", "opne", "shut"),), id="misspelt source"),
        pytest.param((Arrow("shut", "open", "shot"),), id="misspelt destination"),
        pytest.param((Arrow("x", "open", "shut"), Arrow("x", "open", "open")), id="two ways by one trigger"),
    ],
)
def test_a_faulty_table_is_not_built(arrows: tuple[Arrow, ...]) -> None:
    """Unknown states and double arrows stop the program at import."""
    with pytest.raises(ValueError, match="table door"):
        Table("door", ("open", "shut"), arrows, _refusal)


def test_a_walk_rests_where_no_path_holds() -> None:
    """Paths are tried in order, each while its conditions hold and its refusals fail."""
    walk = Walk(
        ("start", "left", "right"),
        (
            Path("start", "left", (lambda facts: "left" in facts,), unless=(lambda facts: "blocked" in facts,)),
            Path("start", "right", (lambda facts: "right" in facts,)),
        ),
    )
    assert walk.rest(set()) == "start"
    assert walk.rest({"left", "right"}) == "left"
    assert walk.rest({"left", "blocked"}) == "start"
    assert walk.rest({"left", "blocked", "right"}) == "right"


def test_a_walk_in_a_circle_ends() -> None:
    """A table that was drawn in a circle does not hang the program."""
    walk = Walk(("a", "b"), (Path("a", "b"), Path("b", "a")))
    assert walk.rest(None) in {"a", "b"}


def test_a_walk_keeps_nothing() -> None:
    """Every walk starts anew."""
    walk = Walk(("a", "b"), (Path("a", "b", (bool,)),))
    assert [walk.rest(facts) for facts in (1, 0, 1)] == ["b", "a", "b"]


def test_a_table_draws_itself() -> None:
    """The diagram has every arrow with its guards in words, a start, and an end at states that nothing leaves."""
    assert table_diagram(DOOR).splitlines() == [
        "stateDiagram-v2",
        '    state "locked-up" as locked_up',
        "    [*] --> open",
        "    open --> shut: shut",
        "    shut --> locked_up: lock (has key, has patience)",
        "    shut --> shut: knock",
        "    locked_up --> [*]",
    ]


@pytest.mark.parametrize("table", [RUN, RECEIPT], ids=["run", "receipt"])
def test_mermaid_can_read_the_drawn_names(table: Table) -> None:
    """Ids have no dashes, and the colon before a label is the only one of its line."""
    for line in table_diagram(table).splitlines()[1:]:
        assert "-" not in line.rpartition(" as ")[2].replace("-->", "")
        assert line.count(":") <= 1
