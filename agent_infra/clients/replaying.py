"""A recording played again against a scratch copy of a repository: which events lead to which answers.

The copy lies at another path than the repository, but its records name the repository's. So the copy goes by the old
name while it is worked in, and paths in the events are led into it.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_infra.clients import bookkeeping, hook
from agent_infra.clients.protocol import Reply
from agent_infra.core.native import Answer, Event
from agent_infra.core.receipts import Origin
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git.repo import Repo, discover
from agent_infra.services.context import Context, open_context
from agent_infra.stores.atomic import read_regular

LIMIT = 256 << 20  # bytes of a recording


@dataclass(frozen=True)
class Played:
    """One event of a recording, and its answers then and now.

    Attributes:
        what: event, tool and agent in words.
        then: exit code, stdout and stderr when it was recorded; `now` is None for an event of another repository.
    """

    number: int
    what: str
    then: Reply
    now: Reply | None

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        names = ("exit", "stdout", "stderr")
        now = dict(zip(names, self.now, strict=True)) if self.now else None
        return {
            "number": self.number,
            "event": self.what,
            "recorded": dict(zip(names, self.then, strict=True)),
            "now": now,
        }


def replay(repo: Repo, recording: Path) -> Iterator[Played]:
    """Play every event of a recording, in order, as if it came now.

    Raises:
        RefusedError: ORCHESTRATION_PAYLOAD_INVALID for a file that is no recording.

    Side effects:
        A copy of the repository in the temporary folder while it lasts; the repository stays as it is.
    """
    lines = list(_lines(recording))
    with tempfile.TemporaryDirectory(prefix="agent-infra-replay-") as folder:
        scratch = Path(folder).resolve() / "repo"
        _copy(repo, scratch)
        for number, line in enumerate(lines, start=1):
            yield _played(repo, scratch, number, line)


def _lines(recording: Path) -> Iterator[dict[str, Any]]:
    data = read_regular(recording.absolute(), limit=LIMIT)
    if data is None:
        raise RefusedError(ErrorCode.ORCHESTRATION_PAYLOAD_INVALID, f"{recording} does not exist")
    for number, text in enumerate(data.splitlines(), start=1):
        try:
            found = json.loads(text)
            yield {**found, "then": (int(found["exit"]), str(found["stdout"]), str(found["stderr"]))}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            message = f"line {number} of {recording} is no recorded event; expected what AGENT_INFRA_RECORD writes"
            raise RefusedError(ErrorCode.ORCHESTRATION_PAYLOAD_INVALID, message) from error


def _copy(repo: Repo, scratch: Path) -> None:
    """The repository's primary worktree, with everything in it that is a file."""
    with suppress(shutil.Error):  # FIFOs and sockets stay where they are
        shutil.copytree(repo.state_root, scratch, symlinks=True)
    hooks = repo.config().get("core.hookspath", [""])[-1]
    if hooks.startswith(f"{repo.state_root}/"):
        discover(scratch).run("config", "core.hooksPath", str(scratch) + hooks.removeprefix(str(repo.state_root)))


def _played(repo: Repo, scratch: Path, number: int, line: dict[str, Any]) -> Played:
    given = line.get("payload", line.get("raw", ""))
    root, here = str(repo.state_root), str(scratch)
    data = (given if isinstance(given, str) else json.dumps(_moved(given, root, here))).encode()

    def keep(adapter: Any, event: Event) -> Answer:
        def opened(folder: Path) -> Context:
            return replace(open_context(folder, origin=Origin.HOOK), known_as=root)

        return bookkeeping.keep(adapter, event, opened)

    is_here = not isinstance(given, dict) or _is_below(str(given.get("cwd", "")), root)
    now = hook.answered(str(line.get("client")), data, keep) if is_here else None
    if now:
        now = (now[0], now[1].replace(here, root), now[2].replace(here, root))
    return Played(number, _words(given), line["then"], now)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")


def _moved(value: Any, old: str, new: str) -> Any:
    """A payload whose paths lead into the copy."""
    if isinstance(value, str):
        return new + value[len(old) :] if _is_below(value, old) else value.replace(f"{old}/", f"{new}/")
    if isinstance(value, list):
        return [_moved(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _moved(item, old, new) for key, item in value.items()}
    return value


def _words(given: Any) -> str:
    if not isinstance(given, dict):
        return "(no JSON)"
    asked = given.get("tool_input")
    agent = given.get("agent_type") or (asked.get("subagent_type") or asked.get("agent_type") if asked else "")
    words = (given.get("hook_event_name"), given.get("tool_name"), agent)
    return " ".join(str(word) for word in words if word)
