"""How much process a change needs at least: the demands of the settings by path, and whether a flow meets them.

Of several patterns that fit a path the strictest counts, whatever their order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_infra.core.globs import matches
from agent_infra.core.lifecycle import Flow
from agent_infra.errors import ErrorCode, RefusedError

_EVERYTHING = frozenset({"*", "**", "**/*", "/**", "**/"})
_STRICT_FIRST = tuple(Flow)


@dataclass(frozen=True, slots=True)
class Demand:
    """The least flow for a path, and the pattern that says so."""

    path: str
    pattern: str
    flow: Flow


def is_less(flow: Flow, least: Flow) -> bool:
    """Whether a flow has less process than another."""
    return _STRICT_FIRST.index(flow) > _STRICT_FIRST.index(least)


def demand_of(paths: Iterable[str], rules: Mapping[str, str]) -> Demand | None:
    """The strictest demand on these paths (repo-relative, "/"), the first of them; None where nothing is demanded."""
    found: Demand | None = None
    for path in paths:
        for pattern, word in rules.items():
            stricter = found is None or is_less(found.flow, Flow(word))
            if stricter and matches(path, [pattern]):
                found = Demand(path, pattern, Flow(word))
    return found


def check_flow(flow: Flow, paths: Iterable[str], rules: Mapping[str, str], *, task_id: str) -> None:
    """Refuse a change that needs more process than its run has.

    Raises:
        RefusedError: ORCHESTRATION_FLOW_INSUFFICIENT naming a path, the least flow, and the way to it.
    """
    demand = demand_of(paths, rules)
    if demand is None or not is_less(flow, demand.flow):
        return
    message = (
        f"{demand.path} needs the {demand.flow} flow at least ([flow] {demand.pattern!r}), and the run of {task_id} is "
        f"{flow}; leave the path out of the change, or `agent-infra orchestrate end {task_id} --reason …`, then "
        f"`agent-infra orchestrate begin {task_id} --flow {demand.flow} --from-head`: what was written counts, and is "
        "reviewed as that flow has it"
    )
    raise RefusedError(ErrorCode.ORCHESTRATION_FLOW_INSUFFICIENT, message)


def check_beginning(flow: Flow, rules: Mapping[str, str], *, task_id: str) -> tuple[str, ...]:
    """What a run that begins must know while its paths are unknown: a demand on everything refuses, others are said.

    Returns:
        A sentence for people where paths demand more than the flow has.

    Raises:
        RefusedError: ORCHESTRATION_FLOW_INSUFFICIENT.
    """
    stricter = {pattern: Flow(word) for pattern, word in rules.items() if is_less(flow, Flow(word))}
    least = min((word for pattern, word in stricter.items() if pattern in _EVERYTHING), default=None, key=_place)
    if least:
        message = (
            f"the settings demand the {least} flow for every path, and {task_id} would begin with {flow}; "
            f"`agent-infra orchestrate begin {task_id} --flow {least}`"
        )
        raise RefusedError(ErrorCode.ORCHESTRATION_FLOW_INSUFFICIENT, message)
    if not stricter:
        return ()
    named = ", ".join(f"{pattern} ({word})" for pattern, word in stricter.items())
    return (f"the {flow} flow is less than the settings demand for {named}; a commit with such a path will be refused",)


def _place(flow: Flow) -> int:
    return _STRICT_FIRST.index(flow)
