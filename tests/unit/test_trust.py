"""What Codex trusts, with digests that the real program (0.171.0) gave for these very hooks."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_infra.clients.setup.trust import digest_of, our_hooks
from agent_infra.core.hook_settings import check

COMMAND = '"$(git rev-parse --show-toplevel)"/.agents/hooks/agent-infra orchestrate hook --client codex'


def run(timeout: int | None, command: str = COMMAND) -> dict[str, Any]:
    found = {"type": "command", "command": command}
    return found if timeout is None else {**found, "timeout": timeout}


@pytest.mark.parametrize(
    ("event", "timeout", "matcher", "begins"),
    [
        pytest.param("pre_tool_use", 60, ".*(spawn|wait)_agent$", "559139a7ec995", id="a matcher"),
        pytest.param("pre_tool_use", 60, "Write|Edit|Bash", "38de66a495222", id="another matcher"),
        pytest.param("subagent_stop", 600, "agent-infra-lifecycle-.*", "3dce1990f8ad6", id="another timeout"),
        pytest.param("stop", 60, None, "bdb3f48d6a60e", id="no matcher"),
        pytest.param("session_end", 60, None, "ff2f0ef50c26d", id="an event with a limit of its own"),
    ],
)
def test_a_hook_has_the_digest_that_the_program_gives_it(
    event: str, timeout: int, matcher: str | None, begins: str
) -> None:
    assert digest_of(event, run(timeout), matcher).startswith(f"sha256:{begins}")


def test_what_is_not_said_counts_as_the_programs_default() -> None:
    """600 seconds, but 1 where a session ends."""
    assert digest_of("stop", run(None, "echo 3"), None) == (
        "sha256:70f1c1bb79e57193e701f2d8a83962bf333db67eb68c8f2d81af1b434baba4a4"
    )
    assert digest_of("session_end", run(None), None) == digest_of("session_end", run(1), None)


def test_only_our_hooks_are_looked_at_and_named_by_their_place() -> None:
    """The place counts the groups of others as well."""
    theirs = {"hooks": [run(1, "echo")]}
    text = json.dumps({"hooks": {"PreToolUse": [theirs, {"hooks": [run(1, "echo"), run(60)]}], "Stop": [theirs]}})
    found = dict(our_hooks(Path("/r/.codex/hooks.json"), check(text)))
    assert found == {"/r/.codex/hooks.json:pre_tool_use:1:1": digest_of("pre_tool_use", run(60), None)}
