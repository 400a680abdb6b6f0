"""Which process a hook was started by, and whether a process that was seen once is still there."""

import os
import subprocess
from pathlib import Path

from agent_infra.git.caller import look
from agent_infra.runtime.children import start_time
from agent_infra.stores.sessions import Process

_GENERATIONS = 8
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "busybox", "env", "timeout"})
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DEAD = ("Z", "X")  # ended, and nobody has asked how yet


def client_process() -> Process | None:
    """The nearest ancestor that is no shell: the client whose hook this is. None where the system does not say."""
    pid = os.getppid()
    for _ in range(_GENERATIONS):
        parent, argv = look(pid)
        if not argv or pid <= 1:
            return None
        if Path(argv[0]).name.removeprefix("-") not in _SHELLS:
            return _named(pid)
        pid = parent
    return None


def this_process() -> Process | None:
    """Ourselves."""
    return _named(os.getpid())


def is_there(process: Process) -> bool:
    """Whether that very process still runs; a reboot ends all."""
    return _named(process.pid) == process and not _state(process.pid).startswith(_DEAD)


def _named(pid: int) -> Process | None:
    started = start_time(pid)
    return Process(pid, f"{_boot()}{started}") if started else None


def _boot() -> str:
    """Linux counts a start from the boot, so the boot belongs to it; elsewhere it is a date."""
    try:
        return _BOOT.read_text(encoding="ascii").strip() + ":"
    except OSError:
        return ""


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        asked = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return asked.stdout.strip()
