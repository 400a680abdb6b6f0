"""The project's settings for people: looked at, changed one key at a time, described for editors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core import tasks
from agent_infra.core.config import Config, parse_config
from agent_infra.core.settings import flat, look_up, parse_key, parse_toml, parse_value, with_value
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import CONFIG_FILE, Context
from agent_infra.stores.atomic import locked, write_atomic


@dataclass(frozen=True)
class Settings:
    """Every setting that counts, and the keys that the file sets itself.

    Attributes:
        values: as the file would have them, nested.
        chosen: dotted keys of the file.
    """

    path: Path
    values: dict[str, Any]
    chosen: frozenset[str]

    def is_default(self, key: str) -> bool:
        """Whether nothing in the file says so."""
        return key not in self.chosen


def read_settings(context: Context) -> Settings:
    """The settings as they are now.

    Raises:
        RefusedError: CONFIG_INVALID.
    """
    text = context.config_text()
    values = parse_config(text).model_dump(mode="json", by_alias=True)
    chosen = frozenset(key for key, _ in flat(parse_toml(text)))
    return Settings(context.repo.state_root / CONFIG_FILE, values, chosen)


def get(context: Context, key: str) -> object:
    """One value, or the mapping of a section.

    Raises:
        RefusedError: CONFIG_INVALID, also for an unknown key.
    """
    return look_up(read_settings(context).values, parse_key(key))


def put(context: Context, key: str, value: str) -> tuple[object, bool]:
    """Set one key in the file; comments and layout stay.

    Returns:
        The value as it now counts, and whether a byte moved.

    Raises:
        RefusedError: CONFIG_INVALID for an unknown key or a value that it does not take, SHORT_ID_CAPACITY_EXCEEDED for
            fewer digits than the short ids need, LOCK_TIMEOUT, STORE_WRITE_FAILED; the bytes are as they were.

    Side effects:
        `.agents/config.toml`; with other digits the registry of short ids is written anew.
    """
    parts = parse_key(key)
    path = context.repo.state_root / CONFIG_FILE
    with locked(context.runs.lock_path, wait=context.lock_wait):
        before = context.config_text()
        after, config = with_value(before, parts, parse_value(value))
        found = look_up(config.model_dump(mode="json", by_alias=True), parts)
        registry = _registry(context, config) if parts == ("task", "short_id_length") else None
        if after != before:
            write_atomic(path, after.encode())
        if registry is not None:
            write_atomic(context.workspace.registry, registry)
    return found, after != before or registry is not None


def schema() -> dict[str, Any]:
    """JSON Schema of the settings file."""
    found = Config.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "agent-infra settings"}


def _registry(context: Context, config: Config) -> bytes | None:
    """The registry with as many digits as the settings will ask for; None where it has them, or there is none.

    Raises:
        RefusedError: SHORT_ID_CAPACITY_EXCEEDED.
    """
    if not context.workspace.registry.exists():
        return None
    length, ids = context.workspace.read_registry()
    wanted = config.task.short_id_length
    if length == wanted or not ids:
        return None
    if max(ids) >= 10**wanted:
        message = f"the short id {max(ids)} of {ids[max(ids)]} needs more than {wanted} digits; complete or block it"
        raise RefusedError(ErrorCode.SHORT_ID_CAPACITY_EXCEEDED, message)
    return tasks.render_registry(ids, wanted)
