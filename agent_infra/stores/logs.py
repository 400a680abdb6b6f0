"""What the children of steps said, for people: one file a try, without secrets of known kinds."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from agent_infra.core.redaction import redact

LIMIT = 32 << 20  # bytes of one log


@dataclass
class StepLog:
    """A log that grows while its child works."""

    path: Path
    limit: int = LIMIT
    _written: int = field(default=0, init=False)

    def add(self, text: str) -> None:
        """Keep some lines.

        Raises:
            OSError: the disk says no.

        Side effects:
            The file, for the user's eyes alone. Nothing is synced: a log is no record.
        """
        if not text or self._written > self.limit:
            return
        data = redact(text).encode("utf-8", "replace")
        self._written += len(data)
        if self._written > self.limit:
            data = b"(the rest is not kept)\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
