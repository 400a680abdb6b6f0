"""Where runs are kept: the journal as truth, orchestration.json as its view, the guard that git's hooks test.

Reading folds in memory and writes nothing. A change is one function that decides under the lock which event happens;
the view, the guard and the active step are renewed after it and may be lost: the journal rebuilds them.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.run import Run, State, fold
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.atomic import (
    LOCK_WAIT,
    append_durably,
    locked,
    read_regular,
    remove_durably,
    staged,
    write_atomic,
)
from agent_infra.stores.journal import Chain, Event, Journal
from agent_infra.stores.workspace import TaskPlace

VIEW_LIMIT = 64 << 20
_GUARD_LIMIT = 64 << 10
_TAMPERED = "`agent-infra orchestrate repair {0}` rebuilds it and keeps the odd one aside"


@dataclass(frozen=True)
class Guard:
    """What a guard file says: the worktree and branch in which git must ask."""

    task_id: str
    worktree: str
    branch: str | None


@dataclass(frozen=True)
class RunStore:
    """The runs of one repository; `folder` is `<git common dir>/agent-infra`."""

    folder: Path
    now: Callable[[], str]
    lock_wait: float = LOCK_WAIT

    @property
    def lock_path(self) -> Path:
        """The one lock of the repository."""
        return self.folder / "lock"

    def journal(self, task_id: str) -> Journal:
        """The journal of a task."""
        return Journal(self.folder / "runs" / task_id / "journal.jsonl")

    def load(self, place: TaskPlace, *, evidence: bool = False) -> State | None:
        """The state of a task's run, or `None` without one.

        Args:
            evidence: whether an evidence ref exists for the task.

        Raises:
            CorruptStateError: ORCHESTRATION_JOURNAL_INVALID, _JOURNAL_MISSING or _STATE_TAMPERED.
        """
        return self._load(place, evidence=evidence)[1]

    def seen(self, task_id: str) -> State | None:
        """The state by the journal alone, whatever the view says; for looking at other tasks and for the gate."""
        chain = self.journal(task_id).read()
        return _state(chain, task_id) if chain and chain.events else None

    def change(
        self, place: TaskPlace, decide: Callable[[State | None], Event | None], *, evidence: bool = False
    ) -> tuple[State | None, bool]:
        """Let `decide` make an event of the present state, under the lock, and make it happen.

        Returns:
            The state after, and whether anything changed. If `decide` raises, nothing is written.

        Raises:
            RefusedError: LOCK_TIMEOUT, STORE_WRITE_FAILED, or what `decide` raises.
            CorruptStateError: as for `load`.

        Side effects:
            Journal line (fsynced), then view. The guard is there before the line that begins a run, and goes after
            the line that ends it.
        """
        with locked(self.lock_path, wait=self.lock_wait):
            chain, state = self._load(place, evidence=evidence)
            event = decide(state)
            if event is None:
                if state:
                    self._renew(place, state)
                return state, False
            line, longer = chain.extended(event, now=self.now())
            # folded before it is written: a line that makes no sense must not reach the journal
            after = _state(longer, place.task_id)
            # a folder that can't be written must stop us before the line does: `changed: false` means it
            with self._staged_view(place, after), self._announced(place, state, after):
                self.journal(place.task_id).append(chain, line)
            if not after.run.guards:
                self._lift_guard(place.task_id)
            return after, True

    def rebuild(self, place: TaskPlace) -> State:
        """Write view and guard anew from the journal; the caller holds the lock."""
        chain = self.journal(place.task_id).read()
        if not chain or not chain.events:
            raise _journal_missing(place.task_id, "nothing is left to rebuild it from")
        state = _state(chain, place.task_id)
        self._renew(place, state)
        return state

    def guards(self) -> Iterator[Guard]:
        """What guards in this repository; a guard file that can't be read guards everything."""
        try:
            names = sorted(path.name for path in (self.folder / "guards").iterdir())
        except FileNotFoundError:
            return
        for name in names:
            if not name.startswith("."):
                yield self._guard(name)

    def _guard(self, task_id: str) -> Guard:
        try:
            found = json.loads(read_regular(self.folder / "guards" / task_id, limit=_GUARD_LIMIT) or b"")
            return Guard(task_id, str(found["worktree"]), found["branch"])
        except (CorruptStateError, ValueError, KeyError, TypeError, RecursionError):
            return Guard(task_id, "", None)

    def _load(self, place: TaskPlace, *, evidence: bool) -> tuple[Chain, State | None]:
        # Readers take no lock, and a writer appends before it shows: what is derived is read first, so that the
        # journal, read last, has every line that it names.
        view = read_view(place)
        guarded = (self.folder / "guards" / place.task_id).exists()
        chain = self.journal(place.task_id).read()
        if chain is None or not chain.events:
            # an empty journal beside the guard is a `begin` that was cut: the file is made first, then the guard
            traces = {
                place.view.name: view is not None,
                f"the evidence ref of {place.task_id}": evidence,
                "its guard": guarded and chain is None,
            }
            _check_never_begun(place.task_id, traces)
            return chain or Chain(), None
        state = _state(chain, place.task_id)
        check_view(view, chain, state)
        return chain, state

    @contextmanager
    def _announced(self, place: TaskPlace, before: State | None, after: State) -> Iterator[None]:
        """Guard before the line that makes a run guard: a crash in between must not leave an unguarded run."""
        if not after.run.guards:
            yield
            return
        journal = self.journal(place.task_id)
        is_new = not journal.path.exists()
        if is_new:
            append_durably(journal.path, b"")
        try:
            self._write_guard(place.task_id, after.run.worktree, after.run.branch)
            yield
        except RefusedError:
            with suppress(RefusedError):  # what is said is the first fault
                if before is None or not before.run.guards:
                    self._lift_guard(place.task_id)
                if is_new and not (self.folder / "guards" / place.task_id).exists():
                    remove_durably(journal.path)
            raise

    def _staged_view(self, place: TaskPlace, state: State) -> AbstractContextManager[None]:
        return staged(place.view, render_view(state.run)) if place.folder.is_dir() else nullcontext()

    def _renew(self, place: TaskPlace, state: State) -> None:
        """View and guard as the journal has them."""
        view = render_view(state.run)
        if place.folder.is_dir() and read_view(place) != view:
            write_atomic(place.view, view)
        if state.run.guards:
            self._write_guard(place.task_id, state.run.worktree, state.run.branch)
        else:
            self._lift_guard(place.task_id)

    def _lift_guard(self, task_id: str) -> None:
        path = self.folder / "guards" / task_id
        if os.path.lexists(path):
            remove_durably(path)

    def _write_guard(self, task_id: str, worktree: str, branch: str | None) -> None:
        path = self.folder / "guards" / task_id
        data = json.dumps({"worktree": worktree, "branch": branch}).encode() + b"\n"
        try:
            there = read_regular(path, limit=_GUARD_LIMIT)
        except CorruptStateError:
            there = None
        if there != data:
            write_atomic(path, data)


def read_view(place: TaskPlace) -> bytes | None:
    """The bytes of orchestration.json; `None` where it is missing or empty."""
    return read_regular(place.view, limit=VIEW_LIMIT) or None


def render_view(run: Run) -> bytes:
    """orchestration.json as people read it."""
    return json.dumps(run.to_json(), indent=2, ensure_ascii=False).encode() + b"\n"


def check_view(view: bytes | None, chain: Chain, state: State) -> None:
    """A view is ours if it shows the run up to the journal line that it names.

    Raises:
        CorruptStateError: ORCHESTRATION_STATE_TAMPERED.
    """
    if view is None:
        return
    helps = _TAMPERED.format(state.run.task_id)
    try:
        shown: Any = json.loads(view)
    except (ValueError, RecursionError) as error:
        raise _tampered(f"orchestration.json is not JSON; {helps}") from error
    head = shown.get("journalHead") if isinstance(shown, dict) else None
    if head not in chain.heads:
        raise _tampered(f"orchestration.json names a journal line that is not in the journal; {helps}")
    if head != state.run.journal_head:
        seen = chain.heads.index(head) + 1
        state = fold(chain.events[:seen], task_id=state.run.task_id, head=head)
    if shown != state.run.to_json():
        odd = sorted(key for key, value in state.run.to_json().items() if shown.get(key, ...) != value)
        named = ", ".join(odd) or "unknown keys"
        raise _tampered(f"orchestration.json differs from the journal in {named}; {helps}")


def _check_never_begun(task_id: str, traces: Mapping[str, bool]) -> None:
    """A trace of a run without its journal is a lost journal, never a new start."""
    for what, found in traces.items():
        if found:
            raise _journal_missing(task_id, f"{what} says that there was one")


def _state(chain: Chain, task_id: str) -> State:
    return fold(chain.events, task_id=task_id, head=chain.head)


def _tampered(message: str) -> CorruptStateError:
    return CorruptStateError(ErrorCode.ORCHESTRATION_STATE_TAMPERED, message)


def _journal_missing(task_id: str, why: str) -> CorruptStateError:
    message = f"the journal of {task_id} is gone, though {why}; `agent-infra orchestrate repair {task_id}` restores it"
    return CorruptStateError(ErrorCode.ORCHESTRATION_JOURNAL_MISSING, message)


def write_active(git_dir: Path, task_id: str, state: State | None, allowed: tuple[str, ...]) -> None:
    """Keep the pending step of a worktree where client hooks find it at once.

    Args:
        git_dir: the git dir of the run's worktree.
        allowed: absolute paths that a reviewer's tools may write.
    """
    path = git_dir / "agent-infra" / "active.json"
    pending = state.pending if state else None
    if pending is None:
        if path.exists() and not _shows_another(path, task_id):
            remove_durably(path)
        return
    document = {
        "task": task_id,
        "stage": pending.stage,
        "role": pending.role,
        "status": pending.status,
        "allowedPaths": list(allowed),
    }
    write_atomic(path, json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n")


def _shows_another(path: Path, task_id: str) -> bool:
    """Whether the step shown is another task's: one worktree may hold several runs."""
    try:
        return bool(json.loads(path.read_bytes())["task"] != task_id)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def require(state: State | None, task_id: str) -> State:
    """The state of a run that must be there.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING.
    """
    if state is None:
        message = f"{task_id} has no run; `agent-infra orchestrate begin {task_id}` starts one"
        raise RefusedError(ErrorCode.ORCHESTRATION_RUN_MISSING, message)
    return state
