"""Patterns as `.gitignore` has them, for paths that need not exist: later ones win, `!` takes back.

Reads nothing; a pattern that names a folder holds for all that lies in it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether the last pattern that fits a path (repo-relative, "/") takes it in."""
    taken = False
    for pattern in patterns:
        text = pattern.removeprefix("!")
        if _compiled(text).fullmatch(path):
            taken = text == pattern
    return taken


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern without a slash in it fits at any depth; everything below what fits is taken in too."""
    body = pattern.rstrip("/")
    anchored = "/" in body
    parts = body.lstrip("/").split("/")
    text = "" if anchored else "(?:.*/)?"
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            text += ".*" if last else "(?:.*/)?"
        else:
            text += _segment(part) + ("" if last else "/")
    return re.compile(text + ("/.*" if pattern.endswith("/") else "(?:/.*)?"), re.DOTALL)


def _segment(part: str) -> str:
    text = ""
    position = 0
    while position < len(part):
        character = part[position]
        end = part.find("]", position + 2)
        if character == "[" and end > 0:
            inner = part[position + 1 : end].replace("\\", r"\\")
            text += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
            position = end
        elif character == "\\" and position + 1 < len(part):
            position += 1
            text += re.escape(part[position])
        else:
            text += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
        position += 1
    return text
