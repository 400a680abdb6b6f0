"""Ctrl-C that waits for a safe point: between starting a child and knowing it, an interrupt would lose it."""

import signal
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Interrupts:
    """Within the block the first signal is only noted and the second acts at once; outside both act as always."""

    _noted: bool = False
    _before: dict[signal.Signals, Any] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's signature
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True

    def check(self) -> None:
        """The safe point.

        Raises:
            KeyboardInterrupt: a signal came.
        """
        if self._noted:
            raise KeyboardInterrupt
