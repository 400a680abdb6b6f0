"""Which flow a change needs at least: the strictest demand on any of its paths."""

from itertools import product

import pytest

from agent_infra.core.flows import Demand, check_beginning, check_flow, demand_of, is_less
from agent_infra.core.lifecycle import STAGES_OF_FLOW, Flow, Stage, left_out
from agent_infra.errors import ErrorCode, RefusedError

TASK = "TASK-20260101-120000"
RULES = {"**": "streamlined", "src/**": "standard", "src/core/": "full", "docs/**": "streamlined"}


@pytest.mark.parametrize(("flow", "least"), list(product(Flow, Flow)))
def test_less_means_fewer_stages(flow: Flow, least: Flow) -> None:
    """The order of the flows is that of how much they have."""
    assert is_less(flow, least) == (len(STAGES_OF_FLOW[flow]) < len(STAGES_OF_FLOW[least]))


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        pytest.param([], None, id="no path"),
        pytest.param(["README.md"], Demand("README.md", "**", Flow.STREAMLINED), id="everything else"),
        pytest.param(["docs/a.md", "src/a.py"], Demand("src/a.py", "src/**", Flow.STANDARD), id="the stricter of two"),
        pytest.param(["src/core/a.py"], Demand("src/core/a.py", "src/core/", Flow.FULL), id="of two patterns"),
        pytest.param(["lib/src/a.py"], Demand("lib/src/a.py", "**", Flow.STREAMLINED), id="anchored as in gitignore"),
    ],
)
def test_the_strictest_demand_counts(paths: list[str], wanted: Demand | None) -> None:
    """Whatever the order of the rules."""
    assert demand_of(paths, RULES) == wanted
    backwards = demand_of(paths, dict(reversed(RULES.items())))
    assert (backwards and backwards.flow) == (wanted and wanted.flow)


def test_without_rules_every_flow_will_do() -> None:
    """Nothing is demanded that nobody wrote down."""
    for flow in Flow:
        check_flow(flow, ["src/a.py"], {}, task_id=TASK)
        assert check_beginning(flow, {}, task_id=TASK) == ()


def test_a_change_that_needs_more_is_refused() -> None:
    """Path, pattern, least flow and the way to it are named."""
    check_flow(Flow.FULL, ["src/core/a.py"], RULES, task_id=TASK)
    with pytest.raises(RefusedError, match=r"src/core/a\.py needs the full flow") as caught:
        check_flow(Flow.STANDARD, ["docs/x", "src/core/a.py"], RULES, task_id=TASK)
    assert caught.value.code is ErrorCode.ORCHESTRATION_FLOW_INSUFFICIENT
    assert f"orchestrate begin {TASK} --flow full --from-head" in caught.value.message


def test_a_demand_on_everything_is_known_at_the_beginning() -> None:
    """The others are only said, since no path is known yet."""
    with pytest.raises(RefusedError, match="demand the full flow for every path") as caught:
        check_beginning(Flow.STREAMLINED, {"*": "standard", "**": "full"}, task_id=TASK)
    assert caught.value.code is ErrorCode.ORCHESTRATION_FLOW_INSUFFICIENT
    (note,) = check_beginning(Flow.STREAMLINED, RULES, task_id=TASK)
    assert "src/** (standard), src/core/ (full)" in note
    assert check_beginning(Flow.FULL, RULES, task_id=TASK) == ()


def test_what_a_flow_leaves_out_is_said() -> None:
    """Nothing of the full one."""
    assert left_out(Flow.FULL) == ""
    assert all(bool(left_out(flow)) == (STAGES_OF_FLOW[flow] != tuple(Stage)) for flow in Flow)
    assert "plan" in left_out(Flow.STREAMLINED)
