"""Is a person asking? What an agent must not do for itself needs a terminal, no agent's environment, a typed word."""

import os
import secrets
import string
import sys

import click

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.repo import Repo

AGENT_VARIABLES = ("CLAUDECODE", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "AGENT_INFRA_HEADLESS")
_LETTERS = "".join(set(string.ascii_lowercase + string.digits) - set("lo01"))


def refuse_agents(what: str) -> None:
    """Refuse in the environment of an agent.

    Raises:
        RefusedError: GATE_PERSON_REQUIRED. It stops honest agents; who forges the environment is not stopped.
    """
    found = [name for name in AGENT_VARIABLES if os.environ.get(name)]
    if found:
        message = f"{what} is for a person, and {found[0]} says that an agent asks; ask the person who runs this task"
        raise RefusedError(ErrorCode.GATE_PERSON_REQUIRED, message)


def is_terminal() -> bool:
    """Whether a person can be asked here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_terminal(what: str) -> None:
    """Refuse without a terminal.

    Raises:
        RefusedError: TERMINAL_REQUIRED.
    """
    if not is_terminal():
        message = f"{what} needs a terminal, where a person answers"
        raise RefusedError(ErrorCode.TERMINAL_REQUIRED, message)


def challenge(what: str) -> None:
    """Let a person type a word that was not known before.

    Raises:
        RefusedError: GATE_PERSON_REQUIRED in CI, in an agent's environment, or for another word;
            TERMINAL_REQUIRED without a terminal.
    """
    refuse_agents(what)
    if os.environ.get("CI"):
        raise RefusedError(ErrorCode.GATE_PERSON_REQUIRED, f"{what} is for a person, and CI is set")
    require_terminal(what)
    word = "".join(secrets.choice(_LETTERS) for _ in range(6))
    typed = click.prompt(f"{what}: type {word} to go on", default="", show_default=False, err=True)
    if typed.strip() != word:
        raise RefusedError(ErrorCode.GATE_PERSON_REQUIRED, f"{what} was not confirmed: {word} was expected")


def identity(repo: Repo) -> str:
    """Who says so, for the record: the address that git knows."""
    found = repo.run("config", "user.email", check=False).stdout.decode(errors="replace")
    return " ".join(found.split()) or "unknown"
