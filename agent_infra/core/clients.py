"""The registry of agent clients: what each one can do, how it names itself, how a skill is invoked in it.

It knows no event, payload or file of any client; that is the business of `agent_infra.clients`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from agent_infra.errors import ErrorCode, UsageError


class Capability(StrEnum):
    """One thing that a client may be able to do for us."""

    INSTRUCTIONS = "instructions"
    SKILLS = "skills"
    COMMANDS = "commands"
    HOOKS = "hooks"
    SUBAGENTS = "subagents"
    ORCHESTRATION = "orchestration"
    SANDBOX = "sandbox"
    VERIFICATION = "verification"
    HEADLESS = "headless"  # ours: can be started by `agent-infra run` for one step


class Level(StrEnum):
    """How well a capability is carried; only `unsupported` is ever refused."""

    COMPATIBLE = "compatible"
    INTEGRATED = "integrated"
    VERIFIED = "verified"
    EXPERIMENTAL = "experimental"
    UNSUPPORTED = "unsupported"


CLIENT_IDS: tuple[str, ...] = ("claude-code", "codex", "gemini-cli", "opencode", "scripted", "human")

_SKILL = "${skillName}"
_PROJECT = "${projectName}"


@dataclass(frozen=True)
class Client:
    """One agent client.

    Attributes:
        id: the value of `--client`.
        invocation: how a person starts a skill in it; holds `${skillName}`, may hold `${projectName}`.
        capabilities: every `Capability` with its level.
        tokens: the names by which its agents sign, lower case; the first one is what we write.
    """

    id: str
    invocation: str
    capabilities: Mapping[str, str] = field(hash=False)
    tokens: tuple[str, ...]

    @property
    def token(self) -> str:
        """The name that its agents sign with in task.md and in `complete --agent`."""
        return self.tokens[0]

    def level(self, capability: Capability) -> Level:
        """How well it carries `capability`."""
        return Level(self.capabilities[capability])

    def supports(self, capability: Capability) -> bool:
        """Whether `capability` is there at all."""
        return self.level(capability) is not Level.UNSUPPORTED


def build_registry(clients: Iterable[Client], ids: tuple[str, ...] = CLIENT_IDS) -> Mapping[str, Client]:
    """Freeze the clients under their ids, in the order of `ids`; a gap in the data stops the program at import.

    Raises:
        ValueError: an id is missing, unknown or there twice, an entry is malformed, or two clients share a token.
    """
    found: dict[str, Client] = {}
    for entry in clients:
        if entry.id in found:
            raise ValueError(f"client {entry.id} is registered twice")
        found[entry.id] = _checked(entry)
    missing, unknown = sorted(set(ids) - found.keys()), sorted(found.keys() - set(ids))
    if missing or unknown:
        raise ValueError(f"client registry lacks {missing} and has the unknown {unknown}")
    tokens = [token for entry in found.values() for token in entry.tokens]
    if repeated := sorted({token for token in tokens if tokens.count(token) > 1}):
        raise ValueError(f"several clients sign with the same token: {repeated}")
    return MappingProxyType({client_id: found[client_id] for client_id in ids})


def _checked(entry: Client) -> Client:
    """The entry with frozen capabilities, if each field is of the promised shape."""
    wanted, given = {str(capability) for capability in Capability}, {str(name) for name in entry.capabilities}
    if wanted != given:
        raise ValueError(
            f"client {entry.id} lacks {sorted(wanted - given)} and has the unknown {sorted(given - wanted)}"
        )
    for capability, level in entry.capabilities.items():
        if level not in set(Level):
            raise ValueError(f"client {entry.id} has the unknown level {level!r} of {capability}")
    if not entry.tokens or any(not token or token != token.strip().lower() for token in entry.tokens):
        raise ValueError(f"client {entry.id} needs lower-case tokens, but has {entry.tokens}")
    rest = entry.invocation.replace(_PROJECT, "").replace(_SKILL, "", 1)
    if entry.invocation.count(_SKILL) != 1 or "${" in rest or not entry.invocation.isprintable():
        raise ValueError(
            f"client {entry.id} has an invocation that is not one line around {_SKILL}: {entry.invocation!r}"
        )
    frozen = MappingProxyType({str(name): str(entry.capabilities[name]) for name in Capability})
    return Client(id=entry.id, invocation=entry.invocation, capabilities=frozen, tokens=entry.tokens)


def _levels(words: str) -> dict[str, str]:
    """The levels in the order of `Capability`, from one line of words."""
    return dict(zip((str(capability) for capability in Capability), words.split(), strict=True))


# instructions skills commands hooks subagents orchestration sandbox verification headless
_AGENT_IN_SESSION = (
    "compatible compatible integrated integrated experimental experimental integrated compatible experimental"
)
_AGENT_HEADLESS = (
    "compatible compatible integrated compatible unsupported unsupported integrated compatible experimental"
)
_SCRIPTED = "unsupported unsupported unsupported unsupported unsupported unsupported unsupported compatible verified"
_HUMAN = "compatible unsupported unsupported unsupported verified verified unsupported compatible unsupported"

REGISTRY: Mapping[str, Client] = build_registry(
    (
        Client("claude-code", "/${skillName}", _levels(_AGENT_IN_SESSION), ("claude", "claude-code")),
        Client("codex", "$${skillName}", _levels(_AGENT_IN_SESSION), ("codex",)),
        Client("gemini-cli", "/${projectName}:${skillName}", _levels(_AGENT_HEADLESS), ("gemini", "gemini-cli")),
        Client("opencode", "/${skillName}", _levels(_AGENT_HEADLESS), ("opencode",)),
        Client("scripted", "${skillName}", _levels(_SCRIPTED), ("scripted",)),
        Client("human", "${skillName}", _levels(_HUMAN), ("human",)),
    )
)


def client(client_id: str) -> Client:
    """The client of that id.

    Raises:
        UsageError: ORCHESTRATION_PAYLOAD_INVALID if we know none of that id.
    """
    found = REGISTRY.get(client_id)
    if found is None:
        known = ", ".join(REGISTRY)
        raise UsageError(
            ErrorCode.ORCHESTRATION_PAYLOAD_INVALID, f"unknown client {client_id!r}, expected one of: {known}"
        )
    return found


def can_orchestrate(of: Client | str, *, headless: bool) -> bool:
    """Whether `prepare` may hand a step to it: as a child within a session, or as a process of its own (`headless`).

    Raises:
        UsageError: ORCHESTRATION_PAYLOAD_INVALID for an id that we don't know.
    """
    entry = _entry(of)
    if headless:
        return entry.supports(Capability.HEADLESS)
    return entry.supports(Capability.SUBAGENTS) and entry.supports(Capability.ORCHESTRATION)


def accepts_agent(of: Client | str, agent: str) -> bool:
    """Whether `agent`, as it signs, is an agent of that client; case and outer blanks do not matter.

    Raises:
        UsageError: ORCHESTRATION_PAYLOAD_INVALID for an id that we don't know.
    """
    return agent.strip().lower() in _entry(of).tokens


def _entry(of: Client | str) -> Client:
    return client(of) if isinstance(of, str) else of


def render_invocation(of: Client | str, *, skill: str, project: str) -> str:
    """What a person types to start `skill` in the client."""
    return _entry(of).invocation.replace(_PROJECT, project).replace(_SKILL, skill)
