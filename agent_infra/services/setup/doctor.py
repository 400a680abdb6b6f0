"""`doctor`: is everything here as it must be? Small checks in a list; each says what it found and what mends it.

It changes nothing. What is wrong is a fault; what is only worth knowing is a note.
"""

import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from agent_infra import __version__
from agent_infra.core import tasks
from agent_infra.core.config import Config
from agent_infra.core.subtasks.trail import TrailEvent
from agent_infra.errors import AgentInfraError, CorruptStateError, RefusedError
from agent_infra.git import hooks
from agent_infra.git.probe import git_version, libgit2_version, probe
from agent_infra.git.repo import is_true, promises_objects
from agent_infra.services.context import Context
from agent_infra.services.setup import doctor_runs
from agent_infra.services.setup.doctor_runs import Level, Said, fault, fine, note
from agent_infra.services.setup.install import left_over
from agent_infra.services.subtasks.overview import kept_worktrees
from agent_infra.stores.atomic import is_locked, read_regular
from agent_infra.stores.subtasks import SubtaskStore
from agent_infra.stores.workspace import REGISTRY_LIMIT

_INIT = "agent-infra init"
_AGAIN = "mend what it names, then `agent-infra doctor` again"


@dataclass(frozen=True)
class Finding:
    """What one check says.

    Attributes:
        check: its name.
        helps: the command, or the words, that mend it; `None` where nothing has to be done.
    """

    check: str
    level: Level
    message: str
    helps: str | None = None


@dataclass(frozen=True)
class Report:
    """What all checks say."""

    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.level != Level.FAULT for finding in self.findings)

    def to_json(self) -> Mapping[str, Any]:
        """The same for programs."""
        return {"status": "ok" if self.is_healthy else "faulty", "findings": [asdict(each) for each in self.findings]}


def examine(context: Context, more: "Checks | None" = None) -> Report:
    """Let every check look; one that fails is a fault of its own and keeps no other from looking.

    Args:
        more: checks of what this layer does not know, such as agent clients.
    """
    findings: list[Finding] = []
    for name, check in {**CHECKS, **(more or {})}.items():
        try:
            findings += (Finding(name, *said) for said in check(context))
        except AgentInfraError as error:
            findings.append(failed_check(name, error))
        except OSError as error:
            findings.append(Finding(name, Level.FAULT, f"it can't be looked at: {error}", _AGAIN))
    return Report(tuple(findings))


def failed_check(name: str, error: AgentInfraError) -> Finding:
    """The finding that a check was refused."""
    return Finding(name, Level.FAULT, f"{error.message} [{error.code}]", _AGAIN)


def _programs(context: Context) -> Iterator[Said]:
    version, is_new = git_version(context.repo.worktree)
    yield fine(f"agent-infra {__version__}, Python {platform.python_version()} at {sys.executable}")
    if is_new:
        yield fine(f"git {version}")
    else:
        yield fault(f"git {version}, expected 2.34 or newer", "install a newer git")
    yield fine(libgit2_version())


def _place(context: Context) -> Iterator[Said]:
    repo = context.repo
    linked = "" if repo.worktree == repo.state_root else f" (linked; tasks lie in {repo.state_root})"
    yield fine(f"worktree {repo.worktree}{linked}, records in {context.runs.folder}")


def _features(context: Context) -> Iterator[Said]:
    """What libgit2 can't open or git does otherwise; all of it works, some of it slower."""
    repo, config = context.repo, context.repo.config()
    present = {
        "sha256 objects": repo.object_format == "sha256",
        "a partial clone": promises_objects(config),
        "a split index": is_true(config, "core.splitindex") or any(repo.git_dir.glob("sharedindex.*")),
        "a sparse checkout": is_true(config, "core.sparsecheckout"),
        "reftable": config.get("extensions.refstorage", [""])[-1].lower() == "reftable",
    }
    named = [name for name, is_there in present.items() if is_there]
    yield (
        note(f"{', '.join(named)}: git is asked where libgit2 can't be") if named else fine("nothing out of the usual")
    )
    if (repo.common_dir / "shallow").exists():
        yield note("the history is cut, so `verify` can't look beyond", "git fetch --unshallow")


def _config(context: Context) -> Iterator[Said]:
    try:
        config = context.config
    except RefusedError as error:
        yield fault(f"{error.message} [{error.code}]", "mend the key it names, as docs/configuration.md has it")
        return
    yield fine(f".agents/config.toml is valid; a new run may take {config.run.max_steps} steps")
    if config.evidence.push:
        yield fine("`git push` pushes the evidence of its commits too (evidence.push), documents of tasks with it")


def _hooks(context: Context) -> Iterator[Said]:
    """Whose hooks lie where git looks."""
    report = _inspected(context)
    if not report.owned:
        where = report.configured or str(report.hooks_path)
        yield fault(f"git looks for hooks elsewhere: core.hooksPath is {where}", _INIT)
    odd = [f"{state.name} is {state.kind}" for state in report.states if state.kind != "ours"]
    if odd:
        yield fault(f"in {report.hooks_path} {', '.join(odd)}", _INIT)
    elif report.owned:
        yield fine(f"{len(report.states)} hooks are installed in {report.hooks_path}")


def _firing(context: Context) -> Iterator[Said]:
    """Which of our hooks git really calls, and whether the program behind them refuses: tried, not read."""
    states = [state for state in _inspected(context).states if state.kind not in {"absent", "foreign", "inactive"}]
    if not states:
        yield fault("none of our hooks is there to be tried", _INIT)
        return
    tried = probe(states)
    if not tried.usable:
        yield fault("no program may run in the folder for temporary files, so nothing was tried", "set TMPDIR")
        return
    silent = [state.name for state in states if state.name not in tried.fired]
    if silent:
        yield fault(f"git was made to call {', '.join(silent)}, and nothing came", _INIT)
    if tried.fired:
        yield fine(f"fired when tried: {', '.join(name for name in hooks.HOOKS if name in tried.fired)}")
    if tried.refused:
        yield fine("an unauthorized commit was refused when tried")
    else:
        yield fault(f"an unauthorized commit was not refused by agent-infra when tried: {tried.words}", _INIT)


def _inspected(context: Context) -> hooks.HooksReport:
    return hooks.inspect(context.repo, program="agent-infra", template=hooks.shim_template())


def _short_ids(context: Context) -> Iterator[Said]:
    path, length = context.workspace.registry, Config().task.short_id_length
    data = read_regular(path, limit=REGISTRY_LIMIT)
    if data is None:
        yield fine("no short ids are registered")
        return
    with suppress(RefusedError):  # said by the check of the settings
        length = context.config.task.short_id_length
    try:
        ids = tasks.parse_registry(data, length)
    except CorruptStateError as error:
        yield fault(f"{error.message} [{error.code}]", f"mend {path} by hand; full ids work meanwhile")
        return
    stale = [f"#{number} ({task})" for number, task in sorted(ids.items()) if not (path.parent / task).is_dir()]
    if stale:
        yield fault(f"short ids of tasks that are not active: {', '.join(stale)}", f"take them out of {path}")
    else:
        yield fine(f"{len(ids)} short ids, all of active tasks")


def _runs(context: Context) -> Iterator[Said]:
    task_ids = doctor_runs.known_tasks(context)
    faults = 0
    for task_id in task_ids:
        for said in doctor_runs.look_at(context, task_id):
            faults += said[0] == Level.FAULT
            yield said
    if not faults:
        yield fine(f"{len(task_ids)} runs, none needs a hand")


def _children(context: Context) -> Iterator[Said]:
    """Worktrees of subtasks that hold work, and orchestrations that nobody goes on with."""
    folder = context.runs.folder / "subtasks"
    count = 0
    for task_id in sorted(path.name for path in folder.iterdir()) if folder.is_dir() else ():
        store = SubtaskStore(context.runs.folder, task_id)
        lines = store.trail().lines
        if lines and lines[-1].get("eventType") not in (TrailEvent.FINISHED, TrailEvent.BLOCKED):
            if not is_locked(store.lock_path):
                count += 1
                yield fault(f"{task_id}: its subtasks were stopped half-way", f"agent-infra subtasks resume {task_id}")
            continue
        for kept in kept_worktrees(context, task_id):
            count += 1
            held = f"{len(kept.commits)} commits and {len(kept.files)} files"
            words = f"{task_id}: the worktree of subtask {kept.subtask} stays, with {held} at {kept.path}"
            yield note(words, f"agent-infra subtasks clean {task_id}")
    if not count:
        yield fine("no subtask needs a hand")


def _litter(context: Context) -> Iterator[Said]:
    found = left_over(context)
    for path in found:
        yield fault(f"{path} was left by a command that was killed", _INIT)
    if not found:
        yield fine("nothing was left by killed commands")


Checks = Mapping[str, Callable[[Context], Iterator[Said]]]
CHECKS: Checks = {
    "programs": _programs,
    "place": _place,
    "features": _features,
    "config": _config,
    "hooks": _hooks,
    "firing": _firing,
    "short ids": _short_ids,
    "runs": _runs,
    "subtasks": _children,
    "litter": _litter,
}
