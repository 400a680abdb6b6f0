"""What programs said is shown without secrets, colours and what moves a cursor."""

import pytest

from agent_infra.core.redaction import HIDDEN, redact, tail

# put together here, so that no scanner takes this file for a leak
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "a1B2" * 9
OPENAI = "sk-" + "proj-" + "Zz9" * 8
ANTHROPIC = "sk-ant-" + "api03-" + "Qq7" * 8
SLACK = "xoxb-" + "123456789012-abcdef"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(f"key {AWS}.", f"key {HIDDEN}.", id="AWS"),
        pytest.param(f"push with {GITHUB} failed", f"push with {HIDDEN} failed", id="GitHub"),
        pytest.param(f"'{OPENAI}'", f"'{HIDDEN}'", id="OpenAI"),
        pytest.param(ANTHROPIC, HIDDEN, id="Anthropic"),
        pytest.param(f"({SLACK})", f"({HIDDEN})", id="Slack"),
        pytest.param(f"x {JWT} y", f"x {HIDDEN} y", id="JWT"),
        pytest.param(f"a\n{PEM}\nb", f"a\n{HIDDEN}\nb", id="PEM"),
        pytest.param("-----BEGIN PRIVATE KEY-----\nMIIE", HIDDEN, id="PEM that is cut off"),
        pytest.param("https://ada:hunter2@host/x", f"https://{HIDDEN}@host/x", id="user info"),
        pytest.param("Authorization: Basic YWRhOmh1bnRlcjI=", f"Authorization: {HIDDEN}", id="header"),
        pytest.param("DB_PASSWORD=correct-horse next", f"DB_PASSWORD={HIDDEN} next", id="assignment"),
        pytest.param('{"api_key": "abcdef123456"}', f'{{"api_key": "{HIDDEN}"}}', id="JSON"),
    ],
)
def test_what_is_hidden(text: str, shown: str) -> None:
    """A secret goes, and the words around it stay."""
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("4b825dc642cb6eb9a060e54bf8d69288fbee4904", id="a commit"),
        pytest.param("src/app.py:3: unexpected token '}'", id="a message about a token"),
        pytest.param("https://example.org/a/b@c", id="an at sign in a path"),
        pytest.param("password: no", id="too short to be one"),
        pytest.param("task-skills and ask-me", id="words that hold a prefix"),
    ],
)
def test_what_is_shown(text: str) -> None:
    """Ordinary words of a linter are left alone."""
    assert redact(text) == text


def test_the_end_of_what_was_said() -> None:
    """The last lines, as they were left on the screen."""
    said = b"\x1b[31mone\x1b[0m\r\ntwo\n\n10%\r50%\r100%\nlast \x07bell\n"
    assert tail(said, lines=3, limit=100) == "two\n100%\nlast ?bell"
    assert tail(said, lines=9, limit=4) == "bell"
    assert tail(b"\xff", lines=1, limit=9) == "\N{REPLACEMENT CHARACTER}"
    assert tail(b"", lines=3, limit=9) == ""
