"""State machines as data: named states and arrows, looked up through `transitions`, never run on a mutable model.

A `Table` stores nothing and does no work on a move: it answers where a trigger leads from a stored status, after the
arrow's guards have agreed. The same arrows draw the diagrams in `docs/lifecycle.md`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from transitions import Machine

from agent_infra.errors import AgentInfraError

Guard = Callable[..., None]
Condition = Callable[..., bool]


@dataclass(frozen=True)
class Arrow:
    """One allowed move.

    Attributes:
        trigger: what happens.
        source: the state before.
        dest: the state after.
        guards: tried in order; each returns `None` or raises a coded error, and the move does not take place.
    """

    trigger: str
    source: str
    dest: str
    guards: tuple[Guard, ...] = ()


class Table:
    """The moves that a stored status allows.

    Args:
        name: what is moved, for messages and diagrams.
        states: every state, by wire value.
        arrows: at most one per state and trigger.
        refusal: makes the error for a trigger that has no arrow from the present state.

    Raises:
        ValueError: an arrow names an unknown state (which `transitions` would accept in silence), or two arrows
            leave one state by one trigger.
    """

    def __init__(
        self,
        name: str,
        states: Iterable[str],
        arrows: Iterable[Arrow],
        refusal: Callable[[str, str], AgentInfraError],
    ) -> None:
        self.name = name
        self.states = tuple(str(state) for state in states)
        self.arrows = tuple(arrows)
        self._refusal = refusal
        self._by_move = {(arrow.source, arrow.trigger): arrow for arrow in self.arrows}
        unknown = {end for arrow in self.arrows for end in (arrow.source, arrow.dest)} - set(self.states)
        if unknown or len(self._by_move) != len(self.arrows):
            raise ValueError(f"table {name}: unknown states {sorted(unknown)} or two arrows for one state and trigger")
        # auto transitions would add `to_<state>` triggers that pass by every guard
        self._machine = Machine(model=None, states=list(self.states), initial=self.states[0], auto_transitions=False)
        for arrow in self.arrows:
            self._machine.add_transition(arrow.trigger, str(arrow.source), str(arrow.dest))
        # asked for every line of a journal that is told again
        self._triggers = {state: frozenset(self._machine.get_triggers(state)) for state in self.states}

    def can(self, state: str, trigger: str) -> bool:
        """Whether an arrow exists; its guards are not asked."""
        return trigger in self._triggers.get(str(state), ())

    def follow(self, state: str, trigger: str, *args: Any) -> str:
        """The state that `trigger` leads to from `state`.

        Raises:
            AgentInfraError: what the table's refusal makes of a missing arrow, or what a guard raises.
        """
        if not self.can(state, trigger):
            raise self._refusal(str(state), trigger)
        arrow = self._by_move[str(state), trigger]
        for guard in arrow.guards:
            guard(*args)
        return str(arrow.dest)


def table_diagram(table: Table) -> str:
    """The table as a Mermaid state diagram, from the very arrows that are followed."""
    named = [f'    state "{state}" as {mermaid_id(state)}' for state in table.states if mermaid_id(state) != state]
    lines = ["stateDiagram-v2", *named, f"    [*] --> {mermaid_id(table.states[0])}"]
    for arrow in table.arrows:
        guards = ", ".join(guard.__name__.replace("_", " ") for guard in arrow.guards)
        label = f"{arrow.trigger} ({guards})" if guards else arrow.trigger
        lines.append(f"    {mermaid_id(arrow.source)} --> {mermaid_id(arrow.dest)}: {label}")
    left = {str(arrow.source) for arrow in table.arrows}
    return "\n".join([*lines, *(f"    {mermaid_id(state)} --> [*]" for state in table.states if state not in left)])


def mermaid_id(state: str) -> str:
    """A state's id in a Mermaid diagram, which holds no dashes."""
    return str(state).replace("-", "_")


@dataclass(frozen=True)
class Path:
    """One conditional move of a `Walk`: taken when all conditions hold and all refusals fail."""

    source: str
    dest: str
    conditions: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()


class Walk:
    """A route as a table: paths are followed over frozen facts until none holds; where it rests is the answer."""

    def __init__(self, states: Iterable[str], paths: Iterable[Path]) -> None:
        self.states = tuple(str(state) for state in states)
        self.paths = tuple(paths)
        self._machine = Machine(
            model=None,
            states=list(self.states),
            initial=self.states[0],
            auto_transitions=False,
            ignore_invalid_triggers=True,  # no path leads on: that is where the walk rests
        )
        for path in self.paths:
            self._machine.add_transition(
                "walk", str(path.source), str(path.dest), conditions=list(path.conditions), unless=list(path.unless)
            )

    def rest(self, facts: Any) -> str:
        """The state in which the walk over `facts` comes to rest."""
        walker = _Walker()
        self._machine.add_model(walker)
        try:
            # the graph has no cycles, so the number of states bounds the walk
            for _ in self.states:
                if not walker.trigger("walk", facts):
                    break
            return walker.state
        finally:
            self._machine.remove_model(walker)


class _Walker:
    """A throwaway model: `transitions` needs something mutable to move."""

    state: str
    trigger: Callable[..., bool]
