"""`init` and `uninstall`: the git hooks, and the few files of the project that say how it is used."""

import hashlib
import json
import shutil
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import hooks
from agent_infra.services.context import CONFIG_FILE, Context
from agent_infra.stores import litter
from agent_infra.stores.atomic import locked, remove_durably, write_atomic

_GITIGNORE = Path(".agents/.gitignore")

# what init writes where nothing lies; a person's file is never touched
_FILES: dict[Path, str] = {
    _GITIGNORE: "workspace/\n",
    CONFIG_FILE: "# Settings of agent-infra; every key has a default (docs/configuration.md).\n",
}


@dataclass(frozen=True)
class Plan:
    """What `init` would do here.

    Attributes:
        changes: one line each; empty where everything is in place.
    """

    changes: tuple[str, ...]


def this_program() -> str:
    """The program that the hooks start: this very one, by its absolute path."""
    called = Path(sys.argv[0])
    if called.name in ("agent-infra", "git-agent-infra") and called.exists():
        return str(called.absolute().with_name("agent-infra"))
    beside = Path(sys.executable).with_name("agent-infra")
    return str(beside) if beside.exists() else shutil.which("agent-infra") or str(beside)


def plan(context: Context, *, program: str) -> Plan:
    """What is missing; changes nothing."""
    report = hooks.inspect(context.repo, program=program, template=hooks.shim_template())
    missing = [f"hook {state.name} ({state.kind})" for state in report.states if state.kind != "ours"]
    if not report.owned and report.configured:
        missing = [f"hooks: core.hooksPath is {report.configured}; ours go before it and call the hooks there first"]
    missing += [f"file {path}" for path in _FILES if not (context.repo.state_root / path).exists()]
    return Plan(tuple(missing))


def init(context: Context, *, program: str) -> tuple[str, ...]:
    """Install hooks and files, and sweep away what killed commands left; a second time changes nothing.

    Raises:
        RefusedError: INSTALL_REFUSED where `core.hooksPath` can't be taken over; nothing was changed then.

    Side effects:
        The hooks folder, `core.hooksPath` where it was set, `.agents/`, and a record in the common dir of what was
        written.
    """
    with locked(context.runs.lock_path, wait=context.lock_wait):
        # hooks first: their refusal must leave everything as it was
        done = list(hooks.install(context.repo, program=program, template=hooks.shim_template()))
        written = _written(context)
        for path, text in _FILES.items():
            target = context.repo.state_root / path
            if not target.exists():
                write_atomic(target, text.encode())
                written[str(path)] = _digest(text.encode())
                done.append(f"wrote {path}")
        if written != _written(context):
            write_atomic(_record_path(context), json.dumps(written, indent=2).encode() + b"\n")
        swept = left_over(context)
        litter.sweep(swept)
    return (*done, *(f"swept away {path}, left by a killed command" for path in swept))


def left_over(context: Context) -> tuple[Path, ...]:
    """What killed commands left more than an hour ago."""
    now = datetime.fromisoformat(context.now()).timestamp()
    return litter.find(context.repo.common_dir, context.repo.state_root, before=now - litter.LITTER_AGE)


def uninstall(context: Context) -> tuple[str, ...]:
    """Put everything back as it was before `init`; files that a person changed stay.

    Raises:
        RefusedError: INSTALL_REFUSED while a run guards: lifting the guard must be said, not slip through.

    Side effects:
        The hooks folder, `core.hooksPath` and `.agents/`. Journals and evidence stay.
    """
    with locked(context.runs.lock_path, wait=context.lock_wait):
        refuse_while_guarding(context)
        done = list(hooks.uninstall(context.repo))
        for name, digest in _written(context).items():
            done += _remove(context, name, digest)
        remove_durably(_record_path(context))
    return tuple(done)


def refuse_while_guarding(context: Context) -> None:
    """Raises RefusedError: INSTALL_REFUSED where a run guards."""
    guards = [guard.task_id for guard in context.runs.guards()]
    if guards:
        helps = "finish it, or `agent-infra orchestrate end` it first"
        message = f"{', '.join(guards)} still guards this repository; {helps}"
        raise RefusedError(ErrorCode.INSTALL_REFUSED, message)


def _remove(context: Context, name: str, digest: str) -> list[str]:
    """Take away what init wrote, unless a person has changed it, or tasks need it."""
    path = context.repo.state_root / name
    if not path.is_file():
        return []
    if _digest(path.read_bytes()) != digest:
        return [f"kept {name}: it was changed"]
    if name == str(_GITIGNORE) and (path.parent / "workspace").exists():
        return [f"kept {name}: it hides the task folders"]
    remove_durably(path)
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
    return [f"removed {name}"]


def _written(context: Context) -> dict[str, str]:
    """Digests of the files that init wrote, by path."""
    try:
        found = json.loads(_record_path(context).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}


def _record_path(context: Context) -> Path:
    return context.runs.folder / "install.json"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
