"""What a list shows of a task, read from the first bytes of its task.md.

A list of ten thousand tasks can't parse YAML ten thousand times. Plain lines, which is what we write, are read here; a
front matter with anything more in it is left to the strict reader, so that both say the same of it. What stands below
the title is not looked at.
"""

import re
from dataclasses import dataclass

from agent_infra.core.markdown import BOM
from agent_infra.core.tasks import parse_task
from agent_infra.errors import AgentInfraError

GLANCE = 1024  # bytes: front matter and title of a usual task

# plain text as YAML has it: no quote, bracket or dash at its start, a colon or number sign only within a word
_NO = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"
_PART = rf"[^{_NO}:#]*"
_PLAIN = rf"[^\s\"'\[\]{{}}&*!|>%@`,?#:{_NO}-]{_PART}(?:(?::(?=\S)|(?<=\S)#){_PART})*"
_LINE = re.compile(rf"(?m)^(?:([A-Za-z_][A-Za-z0-9_-]*):(?: +({_PLAIN})?)?|#[^{_NO}]*|)$")
_TITLE = re.compile(r"\n*# ([^\n]*)\n")
_NO_TEXT = frozenset({"yes", "no", "on", "off", "true", "false", "null"})  # keys that YAML takes for something else


@dataclass(frozen=True, slots=True)
class Glance:
    """Fields and title of a task; `fault` says why it can't be read, and is empty where it can."""

    fields: dict[str, str]
    title: str
    fault: str = ""


def glance(head: bytes, task_id: str) -> Glance | None:
    """Read plain front matter and the title below it; None where only the whole file and the strict reader will do.

    Args:
        head: the first bytes of task.md; the title's line must end within them.
    """
    text = head.removeprefix(BOM).replace(b"\r\n", b"\n").decode("utf-8", "replace")
    end = text.find("\n---\n", 3)
    title = _TITLE.match(text, end + 5) if text.startswith("---\n") and end > 0 else None
    if title is None or "\ufffd" in text[: title.end()]:
        return None
    block = text[4:end]
    found = _LINE.findall(block)
    pairs = [(key, value.rstrip(" ")) for key, value in found if key]
    fields = dict(pairs)
    if len(found) != block.count("\n") + 1 or fields.get("id") != task_id:
        return None
    named = title[1].strip()
    if (
        len(pairs) != len(fields)
        or not _NO_TEXT.isdisjoint(map(str.lower, fields))
        or named.startswith(("任务:", "任务："))
    ):
        return None
    return Glance(fields, named)


def study(data: bytes, task_id: str) -> Glance:
    """The same from the whole file, by the strict reader; a task that can't be read is listed with its fault."""
    try:
        found = parse_task(data, task_id)
    except AgentInfraError as fault:
        return Glance({}, "", fault.message)
    return Glance(found.fields, found.title)
