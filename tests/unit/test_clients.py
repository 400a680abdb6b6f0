"""The registry of agent clients."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace

import pytest

from agent_infra.core.clients import (
    CLIENT_IDS,
    REGISTRY,
    Capability,
    Client,
    Level,
    accepts_agent,
    build_registry,
    can_orchestrate,
    client,
    render_invocation,
)
from agent_infra.errors import ErrorCode, UsageError


def test_every_client_says_something_about_every_capability() -> None:
    """The registry has exactly the known clients, in order, and each names a level for each capability."""
    assert tuple(REGISTRY) == CLIENT_IDS
    for entry in REGISTRY.values():
        assert list(entry.capabilities) == [str(capability) for capability in Capability]
        assert all(entry.level(capability) in Level for capability in Capability)


def test_who_can_be_given_a_step() -> None:
    """In a session: Claude Code, Codex and people; as a process of its own: the four agents and the script."""
    in_session = {name for name, entry in REGISTRY.items() if can_orchestrate(entry, headless=False)}
    headless = {name for name, entry in REGISTRY.items() if can_orchestrate(entry, headless=True)}
    assert in_session == {"claude-code", "codex", "human"}
    assert headless == {"claude-code", "codex", "gemini-cli", "opencode", "scripted"}


@pytest.mark.parametrize("capability", [Capability.SUBAGENTS, Capability.ORCHESTRATION])
def test_either_missing_capability_keeps_a_client_out_of_a_session(capability: Capability) -> None:
    """In a session both subagents and orchestration are needed."""
    lame = replace(client("codex"), capabilities=dict(client("codex").capabilities) | {capability: "unsupported"})
    assert not can_orchestrate(lame, headless=False)
    assert can_orchestrate(lame, headless=True)


@pytest.mark.parametrize("name", ["", "claude", "Codex", "no-such-client", "codex "])
def test_an_unknown_client_is_wrong_usage(name: str) -> None:
    """Ids are exact, and the answer names the known ones."""
    with pytest.raises(UsageError) as caught:
        client(name)
    assert caught.value.code is ErrorCode.ORCHESTRATION_PAYLOAD_INVALID
    assert all(known in caught.value.message for known in CLIENT_IDS)
    with pytest.raises(UsageError):
        can_orchestrate(name, headless=True)


@pytest.mark.parametrize(
    ("name", "agent", "accepted"),
    [
        ("claude-code", "claude", True),
        ("claude-code", "claude-code", True),
        ("claude-code", " Claude ", True),
        ("claude-code", "codex", False),
        ("claude-code", "", False),
        ("codex", "CODEX", True),
        ("codex", "claude", False),
        ("gemini-cli", "gemini-cli", True),
        ("gemini-cli", "gemini", True),
        ("opencode", "opencode", True),
        ("opencode", "open code", False),
        ("scripted", "scripted", True),
        ("human", "human", True),
        ("human", "claude", False),
    ],
)
def test_whose_agent_signs(name: str, agent: str, accepted: bool) -> None:
    """A client's agents sign with its own id or its alias, in any case, and with nobody else's."""
    assert accepts_agent(client(name), agent) is accepted
    assert accepts_agent(name, agent) is accepted


def test_a_client_accepts_the_token_that_we_write_for_it() -> None:
    """The token we write is accepted by that client alone."""
    for entry in REGISTRY.values():
        assert [other.id for other in REGISTRY.values() if accepts_agent(other, entry.token)] == [entry.id]


@pytest.mark.parametrize(
    ("name", "typed"),
    [("claude-code", "/plan-task"), ("codex", "$plan-task"), ("gemini-cli", "/shop:plan-task"), ("human", "plan-task")],
)
def test_how_a_skill_is_started(name: str, typed: str) -> None:
    """Each client has its own way to start a skill."""
    assert render_invocation(client(name), skill="plan-task", project="shop") == typed


def test_the_registry_is_frozen() -> None:
    """Nobody can raise a client's level at run time."""
    with pytest.raises(TypeError):
        REGISTRY["codex"].capabilities["headless"] = "verified"  # type: ignore[index]
    with pytest.raises(TypeError):
        REGISTRY["mine"] = client("codex")  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        client("codex").tokens = ("claude",)  # type: ignore[misc]


GOOD = Client("codex", "$${skillName}", {str(name): "compatible" for name in Capability}, ("codex",))


def _without(entry: Client, capability: str) -> Client:
    return replace(
        entry, capabilities={name: level for name, level in entry.capabilities.items() if name != capability}
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(list, "lacks", id="missing client"),
        pytest.param(lambda: [GOOD, GOOD], "twice", id="duplicate client"),
        pytest.param(lambda: [GOOD, replace(GOOD, id="cursor", tokens=("cursor",))], "unknown", id="unknown client"),
        pytest.param(lambda: [_without(GOOD, "headless")], "headless", id="missing capability"),
        pytest.param(
            lambda: [replace(GOOD, capabilities={**GOOD.capabilities, "flying": "compatible"})],
            "flying",
            id="unknown capability",
        ),
        pytest.param(
            lambda: [replace(GOOD, capabilities={**GOOD.capabilities, "hooks": "great"})], "great", id="unknown level"
        ),
        pytest.param(lambda: [replace(GOOD, tokens=())], "tokens", id="no token"),
        pytest.param(lambda: [replace(GOOD, tokens=("Codex",))], "tokens", id="token in upper case"),
        pytest.param(lambda: [replace(GOOD, tokens=("codex", "codex"))], "same token", id="token twice"),
        pytest.param(lambda: [replace(GOOD, invocation="/plan")], "invocation", id="invocation without a skill"),
        pytest.param(
            lambda: [replace(GOOD, invocation="/${skillName} ${home}")], "invocation", id="unknown placeholder"
        ),
        pytest.param(lambda: [replace(GOOD, invocation="/${skillName}\n")], "invocation", id="two lines"),
        pytest.param(lambda: [replace(GOOD, invocation="/${skillName}${skillName}")], "invocation", id="skill twice"),
    ],
)
def test_a_faulty_registry_is_never_built(make: Callable[[], list[Client]], says: str) -> None:
    """A fault in the data is an error that names it."""
    with pytest.raises(ValueError, match=says):
        build_registry(make(), ids=("codex",))
