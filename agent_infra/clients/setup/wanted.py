"""What this release installs in a project: whole files, and entries among the settings of each client."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_infra.clients.setup import agents, events
from agent_infra.core.hook_settings import LAUNCHER, Groups
from agent_infra.core.lifecycle import Stage
from agent_infra.errors import ErrorCode, UsageError
from agent_infra.resources import resource

CLIENTS = agents.CLIENTS
HOOK_FILES = {events.CLAUDE_CODE: ".claude/settings.json", events.CODEX: ".codex/hooks.json"}
THREADS_FILE = ".codex/config.toml"
DRIVING = "run-task"
SKILLS = (DRIVING, *(f"lifecycle-{stage}" for stage in Stage))
RULES = ("lifecycle", "ledger", "evidence")
TEMPLATES = ("task", *(str(stage) for stage in Stage))


@dataclass(frozen=True)
class Whole:
    """A file that is ours as a whole.

    Attributes:
        path: from the root of the project, with "/".
        mode: permission bits.
    """

    path: str
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Entries:
    """What is ours in a file of somebody else.

    Attributes:
        path: from the root of the project, with "/".
        groups: hooks by event; `None` for the setting of Codex's threads.
    """

    path: str
    groups: Groups | None


def check_clients(clients: Sequence[str]) -> None:
    """Raises UsageError: ORCHESTRATION_PAYLOAD_INVALID for one for which nothing can be installed."""
    for name in clients:
        if name not in CLIENTS:
            message = f"nothing is installed for client {name!r}, expected one of: {', '.join(CLIENTS)}"
            raise UsageError(ErrorCode.ORCHESTRATION_PAYLOAD_INVALID, message)


def files(clients: Sequence[str]) -> tuple[Whole, ...]:
    """Every whole file: what all agents and people read, and the definitions of each client's agents."""
    found = [*_shared(), *(file for client in CLIENTS if client in clients for file in _of(client))]
    return tuple({file.path: file for file in found}.values())  # two clients share the launcher


def entries(clients: Sequence[str]) -> tuple[Entries, ...]:
    """Every entry in other people's files."""
    found = [Entries(HOOK_FILES[client], events.groups(client)) for client in HOOK_FILES if client in clients]
    return (*found, Entries(THREADS_FILE, None)) if events.CODEX in clients else tuple(found)


def _shared() -> Iterator[Whole]:
    for name in SKILLS:
        yield Whole(f".agents/skills/{name}/SKILL.md", _asset(f"skills/{name}.md"))
    for name in RULES:
        yield Whole(f".agents/rules/{name}.md", _asset(f"rules/{name}.md"))
    for name in TEMPLATES:
        yield Whole(f".agents/templates/{name}.md", resource("templates", f"{name}.md").read_bytes())


def _of(client: str) -> Iterator[Whole]:
    if client in HOOK_FILES:
        yield Whole(LAUNCHER, resource("hooks", "agent-infra").read_bytes(), 0o755)
    for path, data in agents.definitions(client).items():
        yield Whole(str(PurePosixPath(path)), data)
    if client == events.CLAUDE_CODE:  # the others find it in .agents/skills
        yield Whole(f".claude/skills/{DRIVING}/SKILL.md", _asset(f"skills/{DRIVING}.md"))


def _asset(name: str) -> bytes:
    return resource("assets", name).read_bytes()
