"""A repository in which a run has begun, and whoever sends events into it."""

import pytest

from tests.support.events import Client
from tests.support.lifecycle import World, world_at


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    """A run of the streamlined flow has begun; nothing is pending."""
    return world_at("begun", tmp_path_factory, monkeypatch)


@pytest.fixture
def client(world: World) -> Client:
    """Claude Code in that repository."""
    return Client(world)


@pytest.fixture
def codex(world: World) -> Client:
    """Codex in that repository."""
    return Client(world, "codex")
