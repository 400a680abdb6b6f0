"""What a use case works with: one repository, its stores, a clock, a source of ids, and a way to take snapshots."""

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from agent_infra.core import tasks
from agent_infra.core.config import Config, parse_config
from agent_infra.core.facts import Situation
from agent_infra.core.lifecycle import Flow
from agent_infra.core.receipts import Origin
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError, CorruptStateError, ErrorCode, RefusedError
from agent_infra.git import evidence
from agent_infra.git.fast_snapshot import FastSnapshotter
from agent_infra.git.objects import ObjectStore
from agent_infra.git.repo import Repo, discover, display_path
from agent_infra.git.snapshot import Snapshotter, TaskFolder
from agent_infra.stores.artifacts import read_folder
from agent_infra.stores.atomic import LOCK_WAIT, read_regular
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import RunStore
from agent_infra.stores.workspace import ACTIVE, TASK_LIMIT, TaskPlace, Workspace

CONFIG_FILE = Path(".agents/config.toml")


def utc_now() -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Context:
    """One repository as seen from one of its worktrees.

    Attributes:
        now: RFC 3339 UTC, milliseconds.
        origin: who reports the events.
        known_as: how records name this worktree where it is a copy of another; empty where they go by its path.
    """

    repo: Repo
    now: Callable[[], str] = utc_now
    new_id: Callable[[], str] = new_id
    origin: Origin = Origin.CLI
    lock_wait: float = LOCK_WAIT
    known_as: str = ""

    @cached_property
    def here(self) -> str:
        """The worktree as records name it: UTF-8, other bytes as %XX."""
        return self.known_as or display_path(os.fsencode(self.repo.worktree))

    @cached_property
    def workspace(self) -> Workspace:
        """The tasks, which lie in the primary worktree."""
        return Workspace(self.repo.state_root)

    @cached_property
    def runs(self) -> RunStore:
        """The runs, which lie in the common dir."""
        return RunStore(self.repo.common_dir / "agent-infra", self.now, self.lock_wait)

    @cached_property
    def objects(self) -> ObjectStore:
        """The object store of the snapshots."""
        return ObjectStore(self.repo)

    @cached_property
    def snapshotter(self) -> Snapshotter:
        """The way in which the working tree is read."""
        return FastSnapshotter(self.repo, self.objects)

    @cached_property
    def config(self) -> Config:
        """The project's settings as they are now; a run goes by those of its `begin`.

        Raises:
            RefusedError: CONFIG_INVALID.
        """
        return parse_config(self.config_text())

    def config_text(self) -> str:
        """The text of `.agents/config.toml`, empty without one.

        Raises:
            RefusedError: CONFIG_INVALID.
        """
        try:
            data = read_regular(self.repo.state_root / CONFIG_FILE, limit=TASK_LIMIT)
            return (data or b"").decode()
        except (UnicodeDecodeError, CorruptStateError) as error:
            raise RefusedError(ErrorCode.CONFIG_INVALID, f"{CONFIG_FILE} can't be read: {error}") from error

    def resolve(self, ref: str) -> TaskPlace:
        """The task that a reference means; a task of which only the run is left is found too.

        Raises:
            RefusedError: INVALID_TASK_REF, TASK_NOT_FOUND or a SHORT_ID code.
        """
        length = self._short_id_length()
        try:
            return self.workspace.resolve(ref, short_id_length=length)
        except RefusedError as error:
            if error.code != ErrorCode.TASK_NOT_FOUND:
                raise
            task_id = self.workspace.identify(ref, short_id_length=length)
            if not self._has_traces(task_id):
                raise
            return self.workspace.missing(task_id)

    def active(self, ref: str) -> TaskPlace:
        """The place of an active task.

        Raises:
            RefusedError: as for `resolve`; ORCHESTRATION_TASK_MISSING where only the run is left;
                TASK_STATE_MISMATCH for a task that is blocked, completed or archived.
        """
        place = self.resolve(ref)
        if place.state == "missing":
            helps = f"`agent-infra orchestrate repair {place.task_id}` brings it back"
            message = f"the folder of {place.task_id} is gone, but its run or its evidence is there; {helps}"
            raise RefusedError(ErrorCode.ORCHESTRATION_TASK_MISSING, message)
        if place.state != ACTIVE:
            message = f"{place.task_id} is {place.state}, expected an active task"
            raise RefusedError(ErrorCode.TASK_STATE_MISMATCH, message)
        return place

    def load(self, place: TaskPlace) -> State | None:
        """The run of a task, or `None`.

        Raises:
            CorruptStateError: ORCHESTRATION_JOURNAL_INVALID, _JOURNAL_MISSING or _STATE_TAMPERED.
        """
        return self.runs.load(place, evidence=self.has_evidence(place.task_id))

    def change(self, place: TaskPlace, decide: Callable[[State | None], Event | None]) -> tuple[State | None, bool]:
        """Let `decide` make an event of the present state; the one door for every change of a run.

        Raises:
            AgentInfraError: as for `RunStore.change`, which says what it returns and does.
        """
        return self.runs.change(place, decide, evidence=self.has_evidence(place.task_id))

    def has_evidence(self, task_id: str) -> bool:
        """Whether the evidence ref says that there was a run; only asked where no journal answers."""
        if self.runs.journal(task_id).has_lines():
            return False
        return evidence.head(self.repo, task_id) is not None

    def situation(self, place: TaskPlace, state: State | None, product_tree: Callable[[], str]) -> Situation:
        """What the facts of a task are gathered from.

        Raises:
            RefusedError: ORCHESTRATION_TASK_INVALID for a task.md that can't be read strictly.
        """
        folder = read_folder(place)
        check_task(folder.task, place.task_id)
        flow = Flow(state.run.flow) if state else Flow.FULL
        return Situation(folder, flow, state, product_tree)

    def snapshot(self, place: TaskPlace, state: State | None, *, exclude: list[str] | None = None) -> str:
        """The fingerprint of the run's worktree now, whichever worktree the call came from.

        Raises:
            RefusedError: ORCHESTRATION_SNAPSHOT_FAILED.
        """
        if exclude is None:
            exclude = run_config(state).snapshot.exclude if state else self.config.snapshot.exclude
        keep = sorted({head for head in _heads(state) if head})
        try:
            home = self.home(state)
            return home.snapshotter.capture(TaskFolder(place.task_id, place.folder), exclude=exclude, keep=keep)
        except AgentInfraError as error:
            if error.code == ErrorCode.ORCHESTRATION_SNAPSHOT_FAILED:
                raise
            raise RefusedError(ErrorCode.ORCHESTRATION_SNAPSHOT_FAILED, f"no snapshot: {error.message}") from error

    def home(self, state: State | None) -> "Context":
        """The context of the worktree that a run is bound to.

        Raises:
            RefusedError: ORCHESTRATION_SNAPSHOT_FAILED where that is gone.
        """
        if state is None or state.run.worktree == self.here:
            return self
        worktree = Path(state.run.worktree)
        if not worktree.is_dir():
            message = f"the run's worktree {worktree} is gone; make it again with `git worktree add`, or end the run"
            raise RefusedError(ErrorCode.ORCHESTRATION_SNAPSHOT_FAILED, message)
        return replace(self, repo=discover(worktree))

    def _short_id_length(self) -> int:
        try:
            return self.config.task.short_id_length
        except RefusedError:
            # a broken config must not hide which task is meant; the verbs that need it say so
            return Config().task.short_id_length

    def _has_traces(self, ref: str) -> bool:
        if not tasks.TASK_ID.fullmatch(ref):
            return False
        return self.runs.journal(ref).path.exists() or evidence.head(self.repo, ref) is not None


def open_context(cwd: Path, *, origin: Origin = Origin.CLI, lock_wait: float = LOCK_WAIT) -> Context:
    """The context of the repository around `cwd`.

    Raises:
        RefusedError: REPO_ROOT_NOT_FOUND.
    """
    return Context(discover(cwd), origin=origin, lock_wait=lock_wait)


def check_task(data: bytes, task_id: str) -> tasks.TaskDocument:
    """task.md as the route needs it.

    Raises:
        RefusedError: ORCHESTRATION_TASK_INVALID.
    """
    try:
        return tasks.parse_task(data, task_id)
    except AgentInfraError as error:
        raise RefusedError(ErrorCode.ORCHESTRATION_TASK_INVALID, f"task.md of {task_id}: {error.message}") from error


def run_config(state: State) -> Config:
    """The settings that counted when the run began."""
    return Config.model_validate(state.memo.config)


def _heads(state: State | None) -> list[str | None]:
    if state is None:
        return []
    receipts = [*state.run.receipts, *([state.pending] if state.pending else [])]
    return [state.run.baseline.head, *(head for r in receipts for head in (r.head_before, r.head_after))]
