"""Which engine a name of the configuration means."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.config import Config, EngineConfig
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.runtime.engines import CommandEngine, Engine, EngineChild, EngineOrder


@dataclass(frozen=True)
class MissingEngine:
    """An engine whose kind can't do subtasks."""

    name: str
    kind: str
    timeout: float

    def preflight(self) -> str:
        """Always a fault."""
        return f"the engine {self.name} is of kind {self.kind}, which can't do subtasks; use command or scripted"

    def start(self, order: EngineOrder) -> EngineChild:
        """Raises RefusedError: SUBTASK_CHILD_NOT_STARTED; planning has said so before."""
        raise RefusedError(ErrorCode.SUBTASK_CHILD_NOT_STARTED, f"subtask {order.subtask_id}: {self.preflight()}")

    def usage(self, order: EngineOrder) -> dict[str, Any]:  # noqa: ARG002 - the protocol's signature
        """Nothing."""
        return {}


def engines_of(config: Config, root: Path) -> Mapping[str, Engine]:
    """Every configured engine by name.

    Args:
        root: the folder that relative paths of the configuration start from.
    """
    return {name: _engine(name, settings, root) for name, settings in config.engines.items()}


def _engine(name: str, settings: EngineConfig, root: Path) -> Engine:
    if settings.kind == "command":
        return CommandEngine(name, tuple(settings.argv), settings.timeout, root)
    if settings.kind == "scripted":
        from agent_infra.clients.scripted import ScriptedEngine

        return ScriptedEngine(name, root / settings.script, settings.timeout)
    return MissingEngine(name, settings.kind, settings.timeout)
