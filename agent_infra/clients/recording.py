"""Raw events in a file of the user's choice, for finding out what a client really sends; and played again elsewhere.

Off unless `AGENT_INFRA_RECORD` names a file. Secrets of known kinds are taken out; prompts and texts are not.
"""

import json
from pathlib import Path
from typing import Any

from agent_infra.clients.protocol import Reply
from agent_infra.core.redaction import redact
from agent_infra.errors import AgentInfraError
from agent_infra.stores.atomic import append_durably

VERSION = 1


def record(path: str, client: str, data: bytes, said: Reply) -> str:
    """Add an event and its answer to the file; a sentence for stderr where that fails.

    Side effects:
        One line of JSON at the end of the file.
    """
    code, out, err = said
    line: dict[str, Any] = {"v": VERSION, "client": client, "exit": code, "stdout": redact(out), "stderr": redact(err)}
    try:
        line["payload"] = redacted(json.loads(data))
    except (ValueError, RecursionError):
        line["raw"] = redact(data.decode(errors="replace"))
    try:
        append_durably(Path(path).absolute(), json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")
    except AgentInfraError as error:
        return f"agent-infra: the event was not recorded: {error.message}\n"
    return ""


def redacted(value: Any) -> Any:
    """A JSON value without the secrets in its texts."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if isinstance(value, dict):
        return {redact(key): redacted(item) for key, item in value.items()}
    return value
