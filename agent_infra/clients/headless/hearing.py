"""What a client's JSON stream says of its child, by our names; what else it says is heard and forgotten."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_infra.core.receipts import Told
from agent_infra.core.redaction import redact

_WORD_LIMIT = 200
_DOING_LIMIT = 70
COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


@dataclass
class Heard:
    """What was understood so far.

    Attributes:
        session: the client's own name of the child.
        counts: tokens by our names.
        cost: US dollars; None where the client says none.
        doing: the tool that it called last, for a person's eyes.
        fault: the last fault that it named.
    """

    session: str = ""
    model: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    doing: str = ""
    fault: str = ""

    def named(self, session: object, model: object = None) -> None:
        """How the child calls itself and its model; the first name stays."""
        self.session = self.session or _word(session)
        self.model = _word(model) or self.model

    def counted(self, usage: object, names: Mapping[str, str], *, add: bool) -> None:
        """Token counts under the client's names, added to what was counted or in its place."""
        for ours, theirs in names.items():
            value = mapping(usage).get(theirs)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                self.counts[ours] = value + (self.counts.get(ours, 0) if add else 0)

    def paid(self, cost: object, *, add: bool = False) -> None:
        """US dollars."""
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < float("inf"):
            self.cost = float(cost) + ((self.cost or 0.0) if add else 0.0)

    def at(self, tool: object, given: object = None) -> None:
        """The tool that is called now, with the first thing that it is given."""
        first = next((value for value in mapping(given).values() if isinstance(value, str)), "")
        words = f"{tool} {first}" if isinstance(tool, str) else ""
        self.doing = redact(" ".join(words.split()))[:_DOING_LIMIT]

    def failed(self, message: object) -> None:
        """A fault that the client names."""
        if isinstance(message, str) and message.strip():
            self.fault = " ".join(message.split())[:_WORD_LIMIT]


Understand = Callable[[Mapping[str, Any], Heard], None]


@dataclass
class Hearer:
    """Understands a client's stream line by line; a line that is no JSON object says nothing."""

    understand: Understand
    heard: Heard = field(default_factory=Heard)

    @property
    def session(self) -> str:
        """As `Heard.session`."""
        return self.heard.session

    @property
    def doing(self) -> str:
        """As `Heard.doing`."""
        return self.heard.doing

    @property
    def fault(self) -> str:
        """As `Heard.fault`."""
        return self.heard.fault

    def hear(self, line: bytes) -> None:
        """One line."""
        if not line.lstrip().startswith(b"{"):
            return
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(found, dict):
            self.understand(found, self.heard)

    def told(self) -> Told:
        """What goes on record: numbers and two names."""
        heard = self.heard
        usage: dict[str, Any] = {name: heard.counts[name] for name in COUNTS if name in heard.counts}
        if heard.cost is not None:
            usage["costUsd"] = round(heard.cost, 6)
        evidence = {"session": heard.session, "model": heard.model}
        return Told(usage, {name: word for name, word in evidence.items() if word})


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _word(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _WORD_LIMIT and value.isprintable() else ""
