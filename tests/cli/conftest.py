"""A fresh world for each test, copied from one that is made once, and no agent's environment around it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import World, copy_of

AGENT_VARIABLES = ("CLAUDECODE", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "CI", "AGENT_INFRA")


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests play people and clients themselves."""
    for name in AGENT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GIT_AUTHOR_DATE", raising=False)
    monkeypatch.delenv("GIT_COMMITTER_DATE", raising=False)


@pytest.fixture(scope="session")
def _first_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada Author",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Carl Committer",
            "GIT_COMMITTER_EMAIL": "carl@example.org",
        }.items():
            patch.setenv(name, value)
        yield World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(_first_world: World, tmp_path: Path) -> World:
    """A repository with one commit and no task."""
    return copy_of(_first_world, tmp_path)
