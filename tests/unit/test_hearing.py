"""What the streams of the clients say: lines as the real programs wrote them, shortened."""

import json
from typing import Any

import pytest

from agent_infra.clients.headless import claude_code, codex, gemini_cli, opencode
from agent_infra.clients.headless.hearing import Hearer, Understand

CLAUDE = [
    {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-opus-5-5", "tools": ["Bash"]},
    {
        "type": "assistant",
        "message": {
            "model": "claude-opus-5-5",
            "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls  -l"}}],
        },
        "session_id": "s-1",
    },
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": "s-1",
        "total_cost_usd": 0.00048,
        "result": "done here",
        "usage": {
            "input_tokens": 20,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 4,
            "output_tokens": 21,
        },
        "modelUsage": {"claude-opus-5-5": {"inputTokens": 20}},
    },
]
CODEX = [
    {"type": "thread.started", "thread_id": "t-1"},
    {"type": "turn.started"},
    {"type": "item.started", "item": {"type": "command_execution", "command": "/bin/bash -lc 'echo hi'"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "done here"}},
    {
        "type": "turn.completed",
        "usage": {
            "input_tokens": 20,
            "cached_input_tokens": 5,
            "cache_write_input_tokens": 0,
            "output_tokens": 20,
            "reasoning_output_tokens": 1,
        },
    },
    {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
]
GEMINI = [
    {"type": "init", "session_id": "g-1", "model": "auto"},
    {"type": "message", "role": "user", "content": "do it"},
    {"type": "tool_use", "tool_name": "run_shell_command", "parameters": {"command": "pwd", "description": "x"}},
    {
        "type": "result",
        "status": "success",
        "stats": {
            "total_tokens": 100,
            "input_tokens": 50,
            "output_tokens": 49,
            "cached": 0,
            "models": {"gemini-2.5-pro": {}},
        },
    },
]
OPENCODE = [
    {"type": "step_start", "sessionID": "ses_1", "part": {"type": "step-start"}},
    {"type": "tool_use", "sessionID": "ses_1", "part": {"tool": "bash", "state": {"input": {"command": "pwd"}}}},
    {
        "type": "step_finish",
        "sessionID": "ses_1",
        "part": {"tokens": {"input": 10, "output": 9, "reasoning": 1, "cache": {"write": 2, "read": 3}}, "cost": 0.25},
    },
    {
        "type": "step_finish",
        "sessionID": "ses_1",
        "part": {"tokens": {"input": 10, "output": 9, "reasoning": 0, "cache": {"write": 0, "read": 3}}, "cost": 0.5},
    },
]


def heard(understand: Understand, *lines: object) -> Hearer:
    hearer = Hearer(understand)
    for line in lines:
        hearer.hear(line if isinstance(line, bytes) else json.dumps(line).encode())
    return hearer


@pytest.mark.parametrize(
    ("understand", "lines", "usage", "evidence", "doing"),
    [
        pytest.param(
            claude_code.understand,
            CLAUDE,
            {"inputTokens": 20, "outputTokens": 21, "cacheReadTokens": 4, "cacheWriteTokens": 3, "costUsd": 0.00048},
            {"session": "s-1", "model": "claude-opus-5-5"},
            "Bash ls -l",
            id="claude-code",
        ),
        pytest.param(
            codex.understand,
            CODEX,
            {"inputTokens": 21, "outputTokens": 22, "cacheReadTokens": 5, "cacheWriteTokens": 0, "reasoningTokens": 1},
            {"session": "t-1"},
            "command_execution /bin/bash -lc 'echo hi'",
            id="codex adds its turns",
        ),
        pytest.param(
            gemini_cli.understand,
            GEMINI,
            {"inputTokens": 50, "outputTokens": 49, "cacheReadTokens": 0},
            {"session": "g-1", "model": "gemini-2.5-pro"},
            "run_shell_command pwd",
            id="gemini-cli names the model that it came to",
        ),
        pytest.param(
            opencode.understand,
            OPENCODE,
            {
                "inputTokens": 20,
                "outputTokens": 18,
                "cacheReadTokens": 6,
                "cacheWriteTokens": 2,
                "reasoningTokens": 1,
                "costUsd": 0.75,
            },
            {"session": "ses_1"},
            "bash pwd",
            id="opencode adds its steps",
        ),
    ],
)
def test_a_stream(
    understand: Understand, lines: list[Any], usage: dict[str, Any], evidence: dict[str, str], doing: str
) -> None:
    """Tokens, cost, session and model, where they are said; nothing else is kept."""
    found = heard(understand, b"", b"Reading prompt from stdin...", b"{ no json", b"[1]", *lines)
    assert (found.told().usage, found.told().evidence) == (usage, evidence)
    assert found.doing == doing
    assert found.session == evidence["session"]


@pytest.mark.parametrize(
    ("understand", "line", "fault"),
    [
        pytest.param(
            claude_code.understand,
            {"type": "result", "is_error": True, "result": "Not logged in · Please run /login"},
            "Not logged in · Please run /login",
            id="claude-code",
        ),
        pytest.param(
            codex.understand,
            {"type": "turn.failed", "error": {"message": "unexpected status 401"}},
            "unexpected status 401",
            id="codex",
        ),
        pytest.param(
            gemini_cli.understand,
            {"type": "result", "status": "error", "error": {"type": "Error", "message": "quota"}},
            "quota",
            id="gemini-cli",
        ),
        pytest.param(
            opencode.understand,
            {"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": {"message": "no credit"}}},
            "no credit",
            id="opencode",
        ),
    ],
)
def test_a_fault_that_the_client_names(understand: Understand, line: dict[str, Any], fault: str) -> None:
    """It is what a person is told of a child that failed."""
    assert heard(understand, line).fault == fault


@pytest.mark.parametrize(
    ("understand", "line"),
    [
        pytest.param(
            claude_code.understand,
            {"type": "result", "usage": [1], "session_id": 7, "total_cost_usd": True},
            id="kinds",
        ),
        pytest.param(claude_code.understand, {"type": "assistant", "message": {"content": [3, None]}}, id="blocks"),
        pytest.param(
            codex.understand,
            {"type": "turn.completed", "usage": {"input_tokens": -1, "output_tokens": "9"}},
            id="numbers",
        ),
        pytest.param(opencode.understand, {"type": "step_finish", "part": {"tokens": 5, "cost": -2}}, id="part"),
        pytest.param(
            gemini_cli.understand, {"type": "init", "session_id": "x" * 999, "model": "a\nb"}, id="long words"
        ),
        pytest.param(gemini_cli.understand, {"type": ["result"], "stats": None}, id="type"),
    ],
)
def test_what_has_another_shape_says_nothing(understand: Understand, line: dict[str, Any]) -> None:
    """A client's stream is its own business and changes; we never fail over it."""
    told = heard(understand, line).told()
    assert (told.usage, told.evidence) == ({}, {})


def test_secrets_are_not_shown() -> None:
    """What a tool was called with is on the screen."""
    call = {"type": "tool_use", "tool_name": "shell", "parameters": {"command": "export API_KEY=abcdef123456 && run"}}
    assert heard(gemini_cli.understand, call).doing == "shell export API_KEY=[redacted] && run"
