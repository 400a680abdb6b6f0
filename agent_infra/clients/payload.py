"""What a client writes on our standard input: read without trusting it, and never waited for longer than need be."""

import json
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT = 1 << 20  # bytes
PATIENCE = 2.0  # seconds
ID_LIMIT = 512  # characters
_IDS = ("session_id", "agent_id", "tool_use_id", "turn_id", "prompt_id")
_CHILD_EVENTS = ("SubagentStart", "SubagentStop")
_BEFORE_TOOL = rb'"hook_event_name"\s*:\s*"PreToolUse"'


class PayloadError(Exception):
    """What came is no payload; the text says why, `event_name` what it seems to be about."""

    def __init__(self, why: str, event_name: str) -> None:
        super().__init__(why)
        self.event_name = event_name


def read(descriptor: int) -> bytes:
    """What came until a JSON value was whole, 1 MiB or 2 s: a client may leave the other end open."""
    deadline = time.monotonic() + PATIENCE
    data = b""
    while len(data) <= LIMIT:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            break
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        data += chunk
        if chunk.rstrip()[-1:] in (b"}", b"]", b"") and _is_whole(data):
            break
    return data


def _is_whole(data: bytes) -> bool:
    try:
        _first_value(data)
    except (ValueError, RecursionError):
        return False
    return True


def _first_value(data: bytes) -> object:
    text = data.decode()
    return json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))[0]


def parse(data: bytes) -> "dict[str, Any]":
    """The payload, with ids that can be trusted to be ids.

    Raises:
        PayloadError: it is not JSON, not an object, names no event or folder, or has ids that are none.
    """
    try:
        found = _object(data)
    except ValueError as error:
        import re  # a compiled pattern is worth its time only here

        raise PayloadError(str(error), "PreToolUse" if re.search(_BEFORE_TOOL, data) else "") from None
    event_name = found["hook_event_name"]
    needed = {"session_id"} | ({"agent_id"} if event_name in _CHILD_EVENTS else set())
    for key in _IDS:
        value = found.get(key)
        if not _is_id(value) and (key in needed or value is not None):
            message = f"{key} is {_shown(value)}, expected text of 1 to {ID_LIMIT} printable characters"
            raise PayloadError(message, event_name)
    if not isinstance(found.get("cwd"), str) or "\0" in found["cwd"]:
        raise PayloadError(f"cwd is {_shown(found.get('cwd'))}, expected the path of a folder", event_name)
    return found


def _object(data: bytes) -> "dict[str, Any]":
    """The object that came; `ValueError` says why there is none."""
    if len(data) > LIMIT:
        raise ValueError(f"the payload is longer than {LIMIT} bytes, which are all that is read")
    try:
        found = _first_value(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"the payload is not UTF-8: {error.reason} at byte {error.start}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"the payload is not JSON: {len(data)} bytes came that make no whole value") from None
    if not isinstance(found, dict):
        raise ValueError(f"the payload is a {type(found).__name__}, expected an object")  # noqa: TRY004 - one class
    if not isinstance(found.get("hook_event_name"), str):
        raise ValueError("the payload names no event; expected text in hook_event_name")  # noqa: TRY004 - one class
    return found


def _is_id(value: object) -> bool:
    # surrogates and control characters are not printable
    return isinstance(value, str) and 0 < len(value) <= ID_LIMIT and value.isprintable()


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f"text of {len(value)} characters" if value else "empty"
    return "missing" if value is None else f"a {type(value).__name__}"
