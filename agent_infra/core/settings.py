"""The settings file as text: one key looked up or changed, and every comment and blank kept.

Which keys there are, and which values they take, is `config`'s business.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from agent_infra.core.config import Config, parse_config
from agent_infra.errors import ErrorCode, RefusedError

_SENTINEL = "the value goes here"


def parse_key(key: str) -> tuple[str, ...]:
    """The parts of a dotted key as TOML writes it: `flow."src/**"` has two.

    Raises:
        RefusedError: CONFIG_INVALID.
    """
    try:
        found: Any = tomllib.loads(f"{key} = {_SENTINEL!r}") if key.isprintable() else None
    except tomllib.TOMLDecodeError:
        found = None
    parts = []
    while isinstance(found, dict) and len(found) == 1:
        part, found = next(iter(found.items()))
        parts.append(part)
    if found != _SENTINEL:
        helps = "keys look like run.max_steps, and what has more than letters, digits, - and _ in it stands in quotes"
        raise _bad(f'{key[:80]!r} is no key; {helps}: flow."src/**"')
    return tuple(parts)


def parse_value(text: str) -> tuple[object, ...]:
    """What a value on the command line may mean, the likeliest first: TOML, else the text as it is."""
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return (text,)
    if list(found) != ["value"]:
        return (text,)
    return (found["value"],) if isinstance(found["value"], str) else (found["value"], text)


def look_up(settings: Mapping[str, Any], key: Sequence[str]) -> object:
    """The value of a key, or the mapping of a section.

    Raises:
        RefusedError: CONFIG_INVALID, with the nearest known key.
    """
    found: Any = settings
    for depth, part in enumerate(key):
        if not isinstance(found, Mapping) or part not in found:
            known = list(found) if isinstance(found, Mapping) else []
            near = get_close_matches(part, known, n=1)
            helps = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known) or 'nothing'}"
            raise _bad(f"unknown key {'.'.join(key[: depth + 1])}; {helps}")
        found = found[part]
    return found


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """Every key with its value, dotted as TOML has it; an empty table is a value."""
    for name, value in settings.items():
        bare = name.replace("-", "").replace("_", "")
        key = before + (name if bare.isascii() and bare.isalnum() else render_value(name))
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{key}.")
        else:
            yield key, value


def render_value(value: object) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {render_value(each)}" for key, each in flat(value)) + "}"
    # JSON's text is TOML's but for this one character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def with_value(text: str, key: Sequence[str], values: Sequence[object]) -> tuple[str, Config]:
    """The text with a key set to the first of the values that it takes, and the settings that it then means.

    Raises:
        RefusedError: CONFIG_INVALID for a text that is not TOML, or a result that would not be good settings.
    """
    first: RefusedError | None = None
    for value in values:
        try:
            edited = _edited(text, key, value)
            return edited, parse_config(edited)
        except RefusedError as error:
            first = first or error
    raise first or _bad("there is no value")


def _edited(text: str, key: Sequence[str], value: object) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    parse_toml(text)
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for depth, part in enumerate(key[:-1]):
            if part not in table:
                table[part] = tomlkit.table(is_super_table=depth < len(key) - 2)
            table = table[part]
        table[key[-1]] = value
        edited = tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError, KeyError, ValueError) as error:
        raise _bad(f"{'.'.join(key)} can't be set there: {error}") from error
    if parse_toml(edited) != _merged(parse_toml(text), key, value):
        raise _bad(f"{'.'.join(key)} can't be set without touching other keys; edit the file by hand")
    return edited


def parse_toml(text: str) -> dict[str, Any]:
    """What a text says.

    Raises:
        RefusedError: CONFIG_INVALID.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(f"it is not TOML: {error}") from error


def _merged(settings: Mapping[str, Any], key: Sequence[str], value: object) -> dict[str, Any]:
    found = dict(settings)
    if len(key) > 1:
        value = _merged(found.get(key[0], {}), key[1:], value)
    found[key[0]] = value
    return found


def _bad(message: str) -> RefusedError:
    return RefusedError(ErrorCode.CONFIG_INVALID, f".agents/config.toml: {message}")
