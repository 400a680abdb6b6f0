"""Where runs are kept: the journal as truth, orchestration.json as its view, the guard that git's hooks test.

Reading folds in memory and writes nothing. A change is one function that decides under the lock which event happens;
the view, the guard and the active step are renewed after it and may be lost: the journal rebuilds them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_infra.core.run import Run, State, fold
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.atomic import LOCK_WAIT, append_durably, locked, read_regular, remove_durably, write_atomic
from agent_infra.stores.journal import Chain, Event, Journal
from agent_infra.stores.workspace import TaskPlace

VIEW_LIMIT = 64 << 20
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
            Journal line (fsynced), then guard, view. The guard is there before the line that begins a run.
        """
        with locked(self.lock_path, wait=self.lock_wait):
            chain, state = self._load(place, evidence=evidence)
            event = decide(state)
            if event is None:
                if state:
                    self._renew(place, state)
                return state, False
            if state is None or not state.run.guards:
                self._announce(place, event)
            chain = self.journal(place.task_id).append(chain, event, now=self.now())
            state = _state(chain, place.task_id)
            self._renew(place, state)
            return state, True

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
            found = json.loads((self.folder / "guards" / task_id).read_text(encoding="utf-8"))
            return Guard(task_id, str(found["worktree"]), found["branch"])
        except (OSError, ValueError, KeyError, TypeError):
            return Guard(task_id, "", None)

    def _load(self, place: TaskPlace, *, evidence: bool) -> tuple[Chain, State | None]:
        chain = self.journal(place.task_id).read()
        view = read_view(place)
        if chain is None or not chain.events:
            self._check_never_begun(place, chain, view, evidence=evidence)
            return chain or Chain(), None
        state = _state(chain, place.task_id)
        check_view(view, chain, state)
        return chain, state

    def _check_never_begun(self, place: TaskPlace, chain: Chain | None, view: bytes | None, *, evidence: bool) -> None:
        """A trace of a run without its journal is a lost journal, never a new start."""
        traces = [(view, place.view.name), (evidence, f"the evidence ref of {place.task_id}")]
        # an empty journal beside the guard is a `begin` that was cut: the file is made first, then the guard
        traces.append((chain is None and (self.folder / "guards" / place.task_id).exists(), "its guard"))
        for found, what in traces:
            if found:
                raise _journal_missing(place.task_id, f"{what} says that there was one")

    def _announce(self, place: TaskPlace, event: Event) -> None:
        """Guard before the line that makes a run: a crash in between must not leave an unguarded run."""
        if not self.journal(place.task_id).path.exists():
            append_durably(self.journal(place.task_id).path, b"")
        run = event.run or {}
        if run.get("status") == "running" and "worktree" in run:
            self._write_guard(place.task_id, str(run["worktree"]), run["branch"])

    def _renew(self, place: TaskPlace, state: State) -> None:
        """View and guard as the journal has them."""
        view = render_view(state.run)
        if place.folder.is_dir() and read_view(place) != view:
            write_atomic(place.view, view)
        if state.run.guards:
            self._write_guard(place.task_id, state.run.worktree, state.run.branch)
        elif (self.folder / "guards" / place.task_id).exists():
            remove_durably(self.folder / "guards" / place.task_id)

    def _write_guard(self, task_id: str, worktree: str, branch: str | None) -> None:
        path = self.folder / "guards" / task_id
        data = json.dumps({"worktree": worktree, "branch": branch}).encode() + b"\n"
        if not path.exists() or path.read_bytes() != data:
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
        if path.exists():
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


def require(state: State | None, task_id: str) -> State:
    """The state of a run that must be there.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING.
    """
    if state is None:
        message = f"{task_id} has no run; `agent-infra orchestrate begin {task_id}` starts one"
        raise RefusedError(ErrorCode.ORCHESTRATION_RUN_MISSING, message)
    return state
