"""`[agents] max_threads` in Codex's settings, which are the project's: put in where nothing is said, taken out again.

Its older subagent tools allow six open children otherwise, and a whole lifecycle has seven.
"""

import re
import tomllib
from typing import Any

from agent_infra.core.json_text import JsonTextError

TABLE, KEY, VALUE = "agents", "max_threads", 12
_SAME = (KEY, "max_concurrent_threads_per_session")  # the program reads both
_HEADER = re.compile(r"^[ \t]*\[[ \t]*agents[ \t]*\][ \t]*(?:#.*)?\r?\n", re.MULTILINE)
_LINE = re.compile(r"line (\d+)")


def with_threads(text: str) -> str:
    """The settings with the number of children that a lifecycle needs; whatever is said there already stays.

    Raises:
        JsonTextError: it is no TOML, or `agents` is no table; names the line.
    """
    found = _parsed(text)
    table = found.get(TABLE, {})
    if not isinstance(table, dict):
        raise JsonTextError(f"{TABLE} is no table, expected [{TABLE}]", _line_naming(text))
    if any(key in table for key in _SAME):
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    if TABLE not in found:
        return text + _block(text, newline)
    edited = _HEADER.sub(lambda match: f"{match[0]}{KEY} = {VALUE}{newline}", text, count=1)
    wanted = {**found, TABLE: {**table, KEY: VALUE}}
    if _says(edited, wanted):
        return edited
    import tomlkit

    document = tomlkit.parse(text)
    document[TABLE][KEY] = VALUE
    edited = tomlkit.dumps(document)
    if _says(edited, wanted):
        return edited
    raise JsonTextError(f"{KEY} can't be added to {TABLE} there; add `{KEY} = {VALUE}` by hand", _line_naming(text))


def without_threads(text: str, before: str | None) -> str | None:
    """The settings without our line; `None` where it can't be told from what else stands there.

    Args:
        before: the settings before ours came.

    Raises:
        JsonTextError: it is no TOML.
    """
    found = _parsed(text)
    table = found.get(TABLE)
    if not isinstance(table, dict) or table.get(KEY) != VALUE:
        return text
    rest = {key: value for key, value in table.items() if key != KEY}
    keeps_table = bool(rest) or TABLE in _parsed(before or "")
    wanted = {**found, TABLE: rest} if keeps_table else {key: value for key, value in found.items() if key != TABLE}
    line = rf"(?:{TABLE}\.)?{KEY} = {VALUE}\r?\n"
    head = rf"\[{TABLE}\]\r?\n"
    for pattern in (line,) if keeps_table else (rf"\r?\n{head}{line}", rf"{head}{line}"):
        for match in re.finditer(pattern, text):
            edited = text[: match.start()] + text[match.end() :]
            if _says(edited, wanted):
                return edited
    return None


def _block(text: str, newline: str) -> str:
    before = "" if not text else newline if text.endswith("\n") else newline * 2
    return f"{before}[{TABLE}]{newline}{KEY} = {VALUE}{newline}"


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise JsonTextError(f"it is not TOML: {str(error).lower()}", line) from error


def _line_naming(text: str) -> int:
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines, 1) if line.lstrip(" [\t").startswith(TABLE)), 1)
