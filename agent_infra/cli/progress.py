"""What a driver does, on stderr: a line for each thing that happened, and on a terminal what its child is at now."""

import os
import shutil
import sys

from agent_infra.cli.render import tell
from agent_infra.runtime.drive import Progress

_CLEAR = "\r\x1b[2K"


class Screen:
    """Hears a driver's progress."""

    def __init__(self) -> None:
        stream = sys.stderr
        self.is_live = stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._second = -1

    def __call__(self, progress: Progress) -> None:
        """Show it; that time goes by is shown on a terminal alone."""
        where = f"{progress.step.stage} round {progress.step.round}: " if progress.step else ""
        if progress.seconds is None:
            self.clear()
            tell(where + progress.what)
            return
        second = int(progress.seconds)
        if not self.is_live or second == self._second:
            return
        self._second = second
        width = shutil.get_terminal_size().columns - 1
        shown = f"{where}{second // 60}:{second % 60:02d} {progress.what}".rstrip()
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(_CLEAR + shown[:width].encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()

    def clear(self) -> None:
        """Leave nothing of the moving line."""
        if self.is_live and self._second >= 0:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._second = -1
