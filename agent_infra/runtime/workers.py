"""The children of one orchestration: started in worktrees of their own, watched, and read from git when they end."""

import os
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_infra.core.subtasks.plan import Subtask
from agent_infra.core.subtasks.trail import TrailEvent
from agent_infra.core.subtasks.waves import ChildStatus
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.git import worktrees
from agent_infra.runtime.engines import End, EngineChild, await_orphan, find_orphan
from agent_infra.services.subtasks.evidence import capture, diff_facts, syntax_facts
from agent_infra.stores.atomic import write_atomic
from agent_infra.stores.subtasks import ChildRecord

if TYPE_CHECKING:
    from agent_infra.runtime.subtasks import Orchestration

_LATE_START = 0.3  # seconds in which a child that was just started writes down its number


@dataclass
class Worker:
    """A child at work."""

    subtask: Subtask
    record: ChildRecord
    child: EngineChild


@dataclass
class Workers:
    """All children of an orchestration that are at work now."""

    orchestration: "Orchestration"
    active: list[Worker] = field(default_factory=list)

    def start(self, record: ChildRecord, subtask: Subtask, base: str) -> ChildRecord:
        """Start a child on a commit.

        Raises:
            AgentInfraError: GIT_FAILED where its worktree can't be made; SUBTASK_CHILD_NOT_STARTED.

        Side effects: a worktree, the prompt, the record, a trail event, a process.
        """
        whole, planned = self.orchestration, self.orchestration.planned
        path = planned.store.worktree(subtask.id, record.attempt)
        engine = whole.engines[planned.engine_of(subtask.id)]
        begun = whole.save(
            replace(
                record,
                status=ChildStatus.RUNNING,
                engine=engine.name,
                worktree=str(path),
                base=base,
                started_at=whole.context.now(),
                inherited=planned.inherited() | {"acceptance": [criterion.text for criterion in subtask.acceptance]},
            )
        )
        worktrees.add(whole.context.repo, path, base)
        self._bring_along(path)
        order = whole.order(subtask.id, record.attempt, path)
        write_atomic(order.prompt_file, prompt_text(subtask, whole).encode("utf-8", "surrogateescape"))
        whole.tell_child(TrailEvent.CHILD_STARTED, begun)
        worker = Worker(subtask, begun, engine.start(order))
        self.active.append(worker)  # from here on it is ended with the others
        worker.record = whole.save(replace(begun, pid=worker.child.pid, started=worker.child.started))
        return worker.record

    def _bring_along(self, path: Path) -> None:
        """Untracked files and submodules that the configuration names."""
        context, settings = self.orchestration.context, self.orchestration.planned.config.subtasks
        for name in settings.copy_files:
            source, target = context.repo.worktree / name, path / name
            if not source.exists() or target.exists() or ".." in Path(name).parts or Path(name).is_absolute():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, target, **_as_is(source))
        if settings.submodules:
            context.repo.run("submodule", "update", "--quiet", "--init", "--recursive", cwd=path)

    def poll(self) -> list[tuple[Worker, End]]:
        """The children that have ended since the last look."""
        ended = [(worker, end) for worker in self.active if (end := worker.child.poll()) is not None]
        self.active = [worker for worker in self.active if all(worker is not one for one, _ in ended)]
        return ended

    def stop_all(self) -> None:
        """End all that is at work; on record it still runs, so the next orchestration takes it up."""
        for worker in self.active:
            worker.child.stop()
        self.active = []

    def settle(self, worker: Worker, end: End) -> ChildRecord:
        """What a child did, from git and its process.

        Side effects: objects, its ref, the record, a trail event.
        """
        usage = self.orchestration.engines[worker.record.engine].usage(worker.child.order)
        facts = {**usage, "durationMs": worker.child.duration_ms}
        return self._record_end(worker.record, worker.subtask, end, facts)

    def recover(self, record: ChildRecord, subtask: Subtask) -> ChildRecord:
        """A child that is on record as running, while its orchestrator is gone.

        One still at work is waited for; one that left its exit code has done its work; of any other the work that lies
        in its worktree is kept under a ref, and it is to be started again as a new attempt.
        """
        whole = self.orchestration
        exit_file = whole.planned.store.exit_file(subtask.id, record.attempt)
        pid, started = record.pid, record.started
        if pid is None:
            time.sleep(_LATE_START)
            pid, started = find_orphan(exit_file) or (0, None)
        engine = whole.engines.get(record.engine)
        whole.report(f"{subtask.id}: its orchestrator was lost; looking how it ended")
        end = await_orphan(pid, started, exit_file, seconds=engine.timeout if engine else 0)
        if end.is_known:
            return self._record_end(record, subtask, end, {})
        lost = self.let_go(record)
        words = f"{subtask.id}: attempt {record.attempt} was lost, nobody saw its end" + (f"; {lost}" if lost else "")
        whole.warnings.append(words)
        whole.report(words)
        return whole.save(ChildRecord(record.subtask_id, record.digest, record.attempt + 1, reason=words))

    def let_go(self, record: ChildRecord) -> str:
        """Keep what an attempt that is over left in its worktree under a ref, and take the worktree away; says where.

        Side effects: a commit and a ref where it left something.
        """
        path, results = Path(record.worktree), self.orchestration.results
        if not record.worktree or not path.is_dir():
            results.repo.run("worktree", "prune")  # somebody may have removed it without git
            return ""
        try:
            tree = capture(results, path, self._exclude)
            if results.changes(record.base, tree):
                ref = results.keep_lost(record.run_id, base=record.base, tree=tree)
                worktrees.remove(results.repo, path)
                return f"its work is kept as {ref}"
            worktrees.remove(results.repo, path)
        except AgentInfraError as error:
            return f"its worktree stays at {path}: {error.message}"
        return ""

    @property
    def _exclude(self) -> list[str]:
        config = self.orchestration.planned.config
        return [*config.snapshot.exclude, *(f"/{name}" for name in config.subtasks.copy_files)]

    def _record_end(self, record: ChildRecord, subtask: Subtask, end: End, more: dict[str, Any]) -> ChildRecord:
        whole, results = self.orchestration, self.orchestration.results
        facts, commit, reason = {**end.facts(), **more}, None, ""
        try:
            tree = capture(results, Path(record.worktree), self._exclude)
            changes = results.changes(record.base, tree)
            facts |= diff_facts(changes, subtask) | syntax_facts(results, changes)
            if end.category is None:
                commit = results.keep(subtask.id, base=record.base, tree=tree, title=subtask.title)
        except AgentInfraError as error:
            whole.interrupts.check()  # a Ctrl-C also ends the git that we had asked
            reason = f"its work can't be read: {error.message}"
        facts["warnings"] = _warnings(facts)
        status, words = _status(end, reason, facts)
        facts["status"] = str(status)
        ended = replace(
            record,
            status=status,
            reason=words,
            commit=commit,
            facts={name: value for name, value in facts.items() if value is not None},
            ended_at=whole.context.now(),
            pid=None,
        )
        whole.save(ended)
        whole.tell_child(TrailEvent.CHILD_FINISHED, ended)
        return ended


def _as_is(source: Path) -> dict[str, Any]:
    return {"symlinks": True} if source.is_dir() else {"follow_symlinks": False}


def _warnings(facts: dict[str, Any]) -> list[str]:
    undeclared = [f"{path} was not declared" for path in facts.get("undeclaredFiles") or ()]
    faulty = [f"{entry['file']}: {entry['error']}" for entry in facts.get("syntaxValidation") or () if not entry["ok"]]
    return [*undeclared, *faulty]


def _status(end: End, fault: str, facts: dict[str, Any]) -> tuple[ChildStatus, str]:
    """A child's status, and why it is no better."""
    if fault:
        return ChildStatus.NEEDS_HUMAN, fault
    if end.category:
        how = f"exit {end.code}" if end.code is not None else f"signal {end.signal}" if end.signal else end.category
        return ChildStatus.FAILED, f"{end.category}: {how}"
    return (ChildStatus.COMPLETED_WITH_WARNINGS if facts["warnings"] else ChildStatus.COMPLETED), ""


def prompt_text(subtask: Subtask, whole: "Orchestration") -> str:
    """What a child is told."""
    files = "\n".join(f"- {path}" for path in subtask.expected_files) or "- none declared"
    wanted = "\n".join(f"- {criterion.text}" for criterion in subtask.acceptance) or "- none written"
    title = whole.planned.fields.get("title") or whole.planned.place.task_id
    return (
        f"# Subtask {subtask.id}: {subtask.title}\n\n"
        f"It is one part of {whole.planned.place.task_id} ({title}).\n\n{subtask.description}\n\n"
        f"## Files you may write\n\n{files}\n\n## It is done when\n\n{wanted}\n\n"
        "## Rules\n\n- Work in the current folder alone; it is a worktree of your own.\n"
        "- Leave the result in the files; you need not commit. Never touch another worktree, branch or git's hooks.\n"
        f"- More about the whole task: {whole.planned.place.document}\n"
    )


def depth_of(environment: dict[str, str] | os._Environ[str]) -> int:
    """The depth of an orchestration that is started in this environment, counted from 1.

    Raises:
        RefusedError: SUBTASK_PLAN_INVALID where the variable holds no number.
    """
    text = environment.get("AGENT_INFRA_DEPTH") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise RefusedError(ErrorCode.SUBTASK_PLAN_INVALID, f"AGENT_INFRA_DEPTH is {text[:40]!r}, expected a number")
    return int(text) + 1
