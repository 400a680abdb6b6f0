"""Runs a planned task's subtasks: waves of children, their ends, the merge of what they did, the parent's status.

A kernel lock is held the whole time, so whoever gets it later knows that a child on record as running has lost its
orchestrator. Every step is on disk before the next: killed anywhere, the same command goes on.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_infra.core.checks import words_of
from agent_infra.core.subtasks.consolidation import Consolidation, consolidate
from agent_infra.core.subtasks.evidence import Child
from agent_infra.core.subtasks.plan import Criterion, Subtask
from agent_infra.core.subtasks.planning import LoopState
from agent_infra.core.subtasks.result import REAL, Result, Strategy
from agent_infra.core.subtasks.trail import TrailEvent
from agent_infra.core.subtasks.verification import CheckRun, settle_parent, verify_result
from agent_infra.core.subtasks.waves import ACCEPTABLE, TERMINAL, ChildStatus, blocked_dependents
from agent_infra.errors import AgentInfraError, RefusedError
from agent_infra.git.checkout import Checkout
from agent_infra.git.checkout import capture as capture_checkout
from agent_infra.runtime.engines import Engine, EngineOrder, start_engine
from agent_infra.runtime.interrupts import Interrupts
from agent_infra.runtime.workers import Worker, Workers
from agent_infra.services.context import Context
from agent_infra.services.subtasks.planning import Planned, digest_of
from agent_infra.services.subtasks.results import Results
from agent_infra.stores.atomic import locked
from agent_infra.stores.subtasks import ChildRecord

DIRECT = "task"  # the child of a task that is not split
_POLL = 0.02  # seconds between looks at the children
_CHECK_SECONDS = 1800.0
_ENDED = (TrailEvent.FINISHED, TrailEvent.BLOCKED)


@dataclass(frozen=True)
class Options:
    """How a person wants it done.

    Attributes:
        force: children that needed a person are run again. retry: so are those that ended in these ways.
    """

    strategy: Strategy = field(default_factory=Strategy)
    force: bool = False
    retry: frozenset[ChildStatus] = frozenset()


class _StoppedError(Exception):
    """The wave can't go on; what stands in its way is on record."""


@dataclass
class Orchestration:
    """One orchestration of one task.

    Attributes:
        engines: by name, for every engine that the plan assigns.
        report: hears a line for each thing that happens.
    """

    context: Context
    planned: Planned
    engines: Mapping[str, Engine]
    options: Options
    report: Callable[[str], None]
    depth: int = 1
    attempt: int = 1
    observed: int = 0
    applied: str | None = None
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    interrupts: Interrupts = field(default_factory=Interrupts)
    _children: dict[str, ChildRecord] = field(default_factory=dict)
    _skipped: set[str] = field(default_factory=set)
    _checkout: Checkout | None = None

    def run(self) -> Result:
        """Run to the end of what can be done.

        Raises:
            RefusedError: LOCK_TIMEOUT while another orchestration of the task runs; SUBTASK_STATE_INVALID.

        Side effects:
            Child processes, worktrees, commits under `refs/agent-infra`, the trail; at the end of each wave the files
            of the parent's worktree. After Ctrl-C the children are ended, and the same command goes on later.
        """
        with locked(self._store.lock_path, wait=0), self.interrupts:
            trail = self._store.trail()
            self.attempt = trail.next_attempt(self._task_id)
            refusal = self.planned.planning.refusal
            if refusal is not None:
                return self._refused(refusal)
            mine = [line for line in trail.lines if line.get("parentTaskId") == self._task_id]
            self.applied = _last(mine, "applied")
            is_unfinished = bool(mine) and mine[-1].get("eventType") not in _ENDED
            return self._execute(_last(mine, "baseTree"), is_unfinished=is_unfinished)

    @property
    def _store(self) -> Any:
        return self.planned.store

    @property
    def _task_id(self) -> str:
        return self.planned.place.task_id

    @property
    def results(self) -> Results:
        """The results of this task."""
        return Results(self.context, self.planned.place, self.planned.state)

    @property
    def subtasks(self) -> tuple[Subtask, ...]:
        """The planned ones, or the task itself where it is not split."""
        planned = self.planned.planning.subtasks
        if planned:
            return planned
        title = self.planned.fields.get("title") or self._task_id
        return (Subtask(DIRECT, title, f"Do the whole task {self._task_id}: {self.planned.place.document}"),)

    def _refused(self, reason: str) -> Result:
        """Nothing is started."""
        asks = self.planned.planning.state == LoopState.NEEDS_HUMAN
        status = "needs_human" if asks else "blocked"
        self._tell(TrailEvent.BLOCKED, status=status, reason=reason)
        self.errors.append(reason)
        return self._result(executed=False, status=status, reason=reason)

    def _execute(self, base_before: str | None, *, is_unfinished: bool) -> Result:
        results = self.results
        try:
            tree = results.base_tree()
            # within a run the parent's files count, results that it was given among them; else HEAD alone
            base = results.open(tree, self.applied if results.has_run else base_before)
        except RefusedError as error:
            return self._refused(f"{error.message} [{error.code}]")
        self.applied = self.applied or results.tree()
        self._tell(TrailEvent.STARTED, base=base, baseTree=tree, applied=self.applied)
        self._checkout = capture_checkout(self.context.repo)
        workers = Workers(self)
        try:
            self._take_up(workers)
            if is_unfinished:
                self._tell(TrailEvent.RESUMED, status="running", children=self._short())
            self._run_waves(workers)
        except _StoppedError as error:
            self.errors.append(str(error))
        except AgentInfraError as error:
            self.interrupts.check()
            self.errors.append(f"{error.message} [{error.code}]")
        finally:
            workers.stop_all()
        return self._conclude()

    # what was there before

    def _take_up(self, workers: Workers) -> None:
        """Find each child once: as it is on record, or new."""
        for subtask in self.subtasks:
            digest = digest_of(subtask, self.planned.engine_of(subtask.id))
            record = self._store.load(subtask.id)
            if record is None:
                record = ChildRecord(subtask.id, digest)
            elif record.status == ChildStatus.RUNNING:
                record = workers.recover(record, subtask)
            if record.digest != digest:
                self.warnings.append(f"{subtask.id}: the plan says something else now, so it is done again")
                record = self._again(workers, record, digest)
            elif self._is_wanted_again(record):
                record = self._again(workers, record, digest)
            self._children[subtask.id] = replace(record, orchestration=self._id)
            if record.status in TERMINAL:
                self._skipped.add(subtask.id)

    def _again(self, workers: Workers, record: ChildRecord, digest: str) -> ChildRecord:
        """The next attempt at a child's work; what the last one left is kept."""
        if kept := workers.let_go(record):
            self.report(f"{record.subtask_id}: attempt {record.attempt}: {kept}")
        return ChildRecord(record.subtask_id, digest, record.attempt + 1)

    def _is_wanted_again(self, record: ChildRecord) -> bool:
        is_forced = self.options.force and record.status == ChildStatus.NEEDS_HUMAN
        return record.status in TERMINAL and (is_forced or record.status in self.options.retry)

    # waves

    def _run_waves(self, workers: Workers) -> None:
        planning = self.planned.planning
        groups: list[tuple[int, tuple[tuple[str, ...], ...]]]
        if self.options.strategy.parallel is None or not planning.waves:
            groups = [(index, ((name,),)) for index, name in enumerate(planning.order or (DIRECT,))]
        else:
            groups = [(wave.index, (wave.parallel, *((name,) for name in wave.serial))) for wave in planning.waves]
        for index, batches in groups:
            for batch in batches:
                self._run_batch(workers, batch)
                self._merge([name for name in batch if self._children[name].status in ACCEPTABLE])
            self._tell(TrailEvent.WAVE_FINISHED, waveIndex=index, children=self._short())
            self._apply(index)

    def _run_batch(self, workers: Workers, names: Sequence[str]) -> None:
        """Children that may run side by side, started in the order of their ids."""
        self._block()
        waiting = [name for name in sorted(names) if self._children[name].status == ChildStatus.PENDING]
        base = self.results.head or ""
        while waiting or workers.active:
            self.interrupts.check()
            while waiting and len(workers.active) < self.options.strategy.max_concurrent:
                self._start(workers, waiting.pop(0), base)
            ended = workers.poll()
            for worker, end in ended:
                self._children[worker.subtask.id] = workers.settle(worker, end)
                self._check_checkout(workers, worker)
            if not ended:
                time.sleep(_POLL)

    def _start(self, workers: Workers, name: str, base: str) -> None:
        subtask = self.subtask(name)
        try:
            self._children[name] = workers.start(self._children[name], subtask, base)
        except AgentInfraError as error:
            self.interrupts.check()
            self.errors.append(f"{name}: {error.message} [{error.code}]")
            self.save(replace(self._children[name], status=ChildStatus.NEEDS_HUMAN, reason=error.message))
        self.observed = max(self.observed, len(workers.active))

    def subtask(self, name: str) -> Subtask:
        """A subtask by its id."""
        return next(subtask for subtask in self.subtasks if subtask.id == name)

    def save(self, record: ChildRecord) -> ChildRecord:
        """Keep a child's state."""
        self._store.save(record)
        self._children[record.subtask_id] = record
        return record

    def _block(self) -> None:
        statuses = {name: record.status for name, record in self._children.items()}
        for name, reason in blocked_dependents(self.subtasks, statuses).items():
            if statuses[name] != ChildStatus.BLOCKED:
                self.save(replace(self._children[name], status=ChildStatus.BLOCKED, reason=reason))
                self.report(f"{name}: blocked, {reason}")

    def _check_checkout(self, workers: Workers, ended: Worker) -> None:
        """Nobody but us writes into the parent's checkout while children are at work."""
        before = self._checkout
        now = capture_checkout(self.context.repo)
        differing = before.differences(now) if before else ()
        if not differing:
            return
        suspects = [ended.subtask.id, *(worker.subtask.id for worker in workers.active)]
        workers.stop_all()
        words = f"the main checkout changed while {', '.join(suspects)} worked: {', '.join(differing)}"
        for name in suspects:
            self.save(replace(self._children[name], status=ChildStatus.NEEDS_HUMAN, reason=words))
        self.report(words)
        raise _StoppedError(words)

    # results

    def _merge(self, names: Sequence[str]) -> None:
        """Bring children's commits into the result, in the order of their ids."""
        for name in sorted(names):
            record = self._children[name]
            if record.commit is None or self.results.has(record.commit):
                self._tidy(record)
                continue
            merged = self.results.merge(name, commit=record.commit, base=record.base)
            if merged.tree is None:
                others = self._authors(merged.conflicts, name)
                words = f"merge conflict in {', '.join(merged.conflicts)}" + (
                    f" with {', '.join(others)}" if others else ""
                )
                self.save(replace(record, status=ChildStatus.NEEDS_HUMAN, reason=words))
                self.report(f"{name}: {words}")
            else:
                self._tidy(record)

    def _authors(self, paths: Sequence[str], name: str) -> list[str]:
        """The other children that touched some of these paths."""
        keys = ("changedFiles", "createdFiles", "deletedFiles")
        touched = {
            other: {path for key in keys for path in record.facts.get(key) or ()}
            for other, record in self._children.items()
            if other != name and record.status in ACCEPTABLE
        }
        return sorted(other for other, found in touched.items() if found & set(paths))

    def _tidy(self, record: ChildRecord) -> None:
        """Take away the worktree of a child whose work is merged."""
        from agent_infra.git import worktrees

        if record.worktree and Path(record.worktree).exists():
            try:
                worktrees.remove(self.context.repo, Path(record.worktree))
            except AgentInfraError as error:
                self.warnings.append(f"{record.subtask_id}: its worktree stays: {error.message}")

    def _apply(self, index: int) -> None:
        """Give the parent's files what this wave brought."""
        self.applied, paths = self.results.apply(self.applied or self.results.tree())
        self._checkout = capture_checkout(self.context.repo)
        self._tell(
            TrailEvent.MERGE_FINISHED,
            waveIndex=index,
            result=self.results.head,
            applied=self.applied,
            paths=list(paths),
        )

    # the end

    def _conclude(self) -> Result:
        if not self.planned.planning.subtasks:
            record = self._children.get(DIRECT)
            status = str(record.status) if record and record.status in TERMINAL else "needs_human"
            reason = record.reason if record else "it was not run"
            return self._finish(self._result(executed=True, status=status, reason=reason))
        names = [subtask.id for subtask in self.subtasks]
        consolidation = consolidate(self._task_id, names, [self._as_child(name) for name in names])
        criteria = [criterion for subtask in self.subtasks for criterion in subtask.acceptance]
        checks = self._run_checks(criteria, consolidation)
        verification = verify_result(consolidation, criteria, checks)
        status, reason = settle_parent(verification.outcome, consolidation.status, consolidation.completeness)
        if self.errors and status in ("completed", "completed_with_warnings"):
            status_text, reason = "needs_human", self.errors[0]
        else:
            status_text = str(status)
        found = self._result(executed=True, status=status_text, reason=reason)
        return self._finish(replace(found, consolidation=consolidation, verification=verification))

    def _as_child(self, name: str) -> Child:
        record, subtask = self._children.get(name), self.subtask(name)
        if record is None:
            return Child(name, ChildStatus.PENDING)
        run_id = record.run_id if record.ended_at else None
        return Child(name, record.status, run_id, record.facts, subtask.expected_files, subtask.no_change_expected)

    def _run_checks(self, criteria: Sequence[Criterion], consolidation: Consolidation) -> dict[str, CheckRun]:
        """Run the commands of the criteria on the merged tree, once each, where there is something to accept."""
        if not str(consolidation.status).startswith("accepted") or self.errors:
            return {}
        commands = dict.fromkeys(criterion.command for criterion in criteria if criterion.command)
        tree = self.results.tree()
        return {command: self._check(command, number, tree) for number, command in enumerate(commands)}

    def _check(self, command: str, number: int, tree: str) -> CheckRun:
        self.report(f"check: {command}")
        try:
            argv = words_of(command)
            order = self.order(f"check-{number}", self.attempt, self.context.repo.worktree)
            child = start_engine(argv, order, timeout=_CHECK_SECONDS)
        except (AgentInfraError, ValueError) as error:
            return CheckRun(command, None, tree, str(error))
        try:
            while (end := child.poll()) is None:
                self.interrupts.check()
                time.sleep(_POLL)
        finally:
            child.stop()
        if end.code is None or end.category == "missing-program":
            return CheckRun(command, None, tree, f"it could not be run to its end ({end.category})")
        return CheckRun(command, end.code, tree)

    def order(self, name: str, attempt: int, worktree: Path) -> EngineOrder:
        """What an engine is handed for a child or a check."""
        prompt = self._store.prompt(name, attempt)
        return EngineOrder(
            task_id=self._task_id,
            subtask_id=name,
            attempt=attempt,
            worktree=worktree,
            prompt_file=prompt,
            log=self._store.log(name, attempt),
            exit_file=self._store.exit_file(name, attempt),
            environment={
                "AGENT_INFRA_SUBTASK": name,
                "AGENT_INFRA_PROMPT_FILE": str(prompt),
                "AGENT_INFRA_DEPTH": str(self.depth),
            },
            output_limit=self.planned.config.subtasks.output_limit,
        )

    def _finish(self, result: Result) -> Result:
        said = result.to_json()
        self._tell(
            TrailEvent.FINISHED,
            status=result.parent_status,
            reason=result.reason,
            children=self._short(),
            consolidation=said["consolidation"],
            verification=said["verification"],
            warnings=said["warnings"],
            trace=said["trace"],
        )
        return result

    def _result(self, *, executed: bool, status: str, reason: str | None) -> Result:
        return Result(
            task_id=self._task_id,
            mode=REAL,
            strategy=self.options.strategy,
            executed=executed,
            request=self.planned.request,
            planning=self.planned.planning,
            children=[
                child_json(record, skipped=name in self._skipped) for name, record in sorted(self._children.items())
            ],
            observed=self.observed,
            parent_status=status,
            reason=reason,
            warnings=self.warnings,
            errors=self.errors,
        )

    @property
    def _id(self) -> str:
        return f"{self._task_id}:{self.attempt}"

    def _short(self) -> list[dict[str, Any]]:
        return [
            {"subtaskId": name, "status": str(record.status), "attempt": record.attempt, "commit": record.commit}
            for name, record in sorted(self._children.items())
        ]

    def _tell(self, event: TrailEvent, **more: Any) -> None:
        """Append one event to the trail."""
        strategy = self.options.strategy
        now = self.context.now()
        line = {
            "orchestrationId": self._id,
            "parentTaskId": self._task_id,
            "attempt": self.attempt,
            "mode": REAL,
            "eventType": str(event),
            "timestamp": now,
            "strategy": strategy.name,
            "concurrency": {"maxConcurrent": strategy.max_concurrent, "observedMaxActive": self.observed},
        }
        if event == TrailEvent.STARTED:
            line |= {"startTime": now, "pid": os.getpid()}
            line |= {"waves": [wave.to_json() for wave in self.planned.planning.waves]}
        if event in _ENDED:
            line |= {"endTime": now}
        self._store.append(line | more)
        subject = more.get("subtaskId")
        self.report(
            f"{subject + ': ' if subject else ''}{str(event).replace('_', ' ')} {more.get('status') or ''}".rstrip()
        )

    def tell_child(self, event: TrailEvent, record: ChildRecord) -> None:
        """Append one event about a child."""
        self._tell(
            event,
            subtaskId=record.subtask_id,
            runId=record.run_id,
            childAttempt=record.attempt,
            status=str(record.status),
            reason=record.reason,
        )


def _last(lines: Sequence[Mapping[str, Any]], key: str) -> str | None:
    """The newest value of a key in the trail."""
    return next((str(line[key]) for line in reversed(lines) if line.get(key)), None)


def child_json(record: ChildRecord, *, skipped: bool = False) -> dict[str, Any]:
    """A child as results show it."""
    return {
        "subtaskId": record.subtask_id,
        "status": str(record.status),
        "attempt": record.attempt,
        "runId": record.run_id,
        "engine": record.engine,
        "commit": record.commit,
        "worktree": record.worktree or None,
        "startedAt": record.started_at,
        "endedAt": record.ended_at,
        "reason": record.reason or None,
        "skipped": "already_terminal" if skipped else None,
        "inherited": dict(record.inherited),
        "facts": dict(record.facts),
    }
