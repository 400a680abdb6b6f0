"""`agent-infra hook --client C`: a client's event on standard input, the client's protocol out.

What is none of our business is answered with the standard library alone; what concerns a run is handed to the
bookkeeping, which imports the rest.
"""

import os
import sys

from agent_infra.clients import payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from agent_infra.clients.places import Place
    from agent_infra.clients.protocol import Reply
    from agent_infra.core.native import Answer, Event

CLIENTS = ("claude-code", "codex")
RECORD = "AGENT_INFRA_RECORD"
HEADLESS = "AGENT_INFRA_HEADLESS"
_SILENT: "Reply" = (0, "", "")
_MANAGED = b"agent-infra-lifecycle-"
_OF_SESSIONS = ("UserPromptSubmit", "Stop", "SessionStart", "SessionEnd")
_WAITS = ("wait_agent", "close_agent", "list_agents")


def client_of(argv: "list[str]") -> str | None:
    """The client that a command line of this entry names; None for one that something else must read."""
    words = argv[1:] if argv[:1] == ["orchestrate"] else argv
    if words[:1] != ["hook"]:
        return None
    if len(words) == 2 and words[1].startswith("--client="):
        return words[1][9:]
    return words[2] if len(words) == 3 and words[1] == "--client" else None


def run(client: str) -> int:
    """Answer the event on standard input; the exit code is part of the answer."""
    data = payload.read(0)
    if os.environ.get(HEADLESS):
        return 0  # a driver keeps the books of this process
    code, out, err = answered(client, data)
    if os.environ.get(RECORD):
        from agent_infra.clients.recording import record

        err += record(os.environ[RECORD], client, data, (code, out, err))
    try:
        sys.stdout.write(out)
        sys.stdout.flush()
        sys.stderr.write(err)
    except OSError:  # nobody listens any more
        os._exit(code)
    return code


def answered(client: str, data: bytes, keep: "Callable[[ModuleType, Event], Answer] | None" = None) -> "Reply":
    """The answer to one payload.

    Args:
        keep: keeps the books in place of `bookkeeping.keep`.

    Side effects:
        What the bookkeeping does; none for events that are none of our business.
    """
    if client not in CLIENTS:
        known = ", ".join(CLIENTS)
        return _fault(f"client {client[:40]!r} has no hooks of ours; expected one of: {known}", "")
    try:
        found = payload.parse(data)
    except payload.PayloadError as error:
        return _fault(f"{error}; nothing was changed", error.event_name)
    if not _may_be_ours(found, data):
        return _SILENT
    # each of these imports is dearer than most events are worth
    from agent_infra.clients import places

    where = places.around(found["cwd"])
    if not where:
        return _SILENT
    from agent_infra.clients import protocol

    adapter = adapter_of(client)
    event: Event | None = adapter.event_of(found)
    if event is None:
        return protocol.SILENT
    quick = _quick(event, _of_worktree(where))
    return protocol.reply(quick, event.name) if quick else _kept(adapter, event, keep)


def _may_be_ours(found: "dict[str, Any]", data: bytes) -> bool:
    """Whether a payload can be about a run at all: it names our agents, or is an event of a main agent that we use."""
    if _MANAGED in data:
        return True
    if found.get("agent_id"):
        return False
    return found["hook_event_name"] in _OF_SESSIONS or str(found.get("tool_name")).endswith(_WAITS)


def _fault(message: str, event_name: str) -> "Reply":
    from agent_infra.clients import protocol

    return protocol.fault(message, event_name)


def adapter_of(client: str) -> "ModuleType":
    """The module that speaks a client's language; the other's is not needed."""
    if client == "codex":
        from agent_infra.clients import codex

        return codex
    from agent_infra.clients import claude_code

    return claude_code


def _of_worktree(where: "list[Place]") -> "Place":
    """The innermost repository in which a session is noted or a step pending; a submodule has neither."""
    return next((place for place in where if place.has_notes()), where[0])


def _quick(event: "Event", place: "Place") -> "Answer | None":
    """The answer to what needs no look at the run; None for what does."""
    from agent_infra.core import native

    if event.kind == native.TOOL_ASKED:
        from agent_infra.clients.courtesies import judge

        return judge(event, place)
    if event.kind == native.SPAWN_ASKED and event.child:
        why = f"{event.agent_type} does a step of the task's run, and only the main agent starts it; do your own step"
        return native.Answer(native.REFUSE, f"agent-infra: {why}.")
    if event.kind in native.OF_KNOWN_SESSIONS and not place.knows(event.session):
        return native.Answer()
    if event.kind == native.SESSION_STARTED and not place.has_notes():
        return native.Answer()
    return None


def _kept(adapter: "ModuleType", event: "Event", keep: "Callable[[ModuleType, Event], Answer] | None") -> "Reply":
    """The answer of the bookkeeping; a fault of ours denies a tool call and stops nothing else."""
    from agent_infra.clients import protocol

    try:
        from agent_infra.clients import bookkeeping

        return protocol.reply((keep or bookkeeping.keep)(adapter, event), event.name)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the client must understand us
        return protocol.fault(_sentence(error), event.name)


def _sentence(error: "Any") -> str:
    code = getattr(error, "code", None)
    if code is not None and hasattr(error, "message"):
        return f"{error.message} [{code}]"
    return f"a fault of agent-infra ({type(error).__name__}: {error}); nothing was approved by it"
