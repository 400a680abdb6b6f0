"""Runs on disk: the journal is the truth, the view and the guard follow it, and nothing is half written."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError, CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.atomic import locked
from agent_infra.stores.journal import Event
from agent_infra.stores.runs import Guard, RunStore, check_view, read_view, render_view, require, write_active
from agent_infra.stores.workspace import TaskPlace
from tests.support.states import BEGIN, NOW, OTHER, TASK, TASK_MD, receipt

FORK = multiprocessing.get_context("fork")
BEGUN = Event("begin", run=dict(BEGIN))
PREPARED = Event("prepare", run={"nextStage": "plan"}, receipt=receipt("plan.md").to_json())
ENDED = Event("end", run={"status": "completed", "ended": {"at": NOW, "reason": "given up"}})
RENEWED = Event("begin", run={**BEGIN, "runId": "run-2"})


@pytest.fixture
def place(tmp_path: Path) -> TaskPlace:
    """An active task."""
    made = TaskPlace(TASK, "active", tmp_path / "tasks" / TASK)
    made.folder.mkdir(parents=True)
    made.document.write_bytes(TASK_MD)
    return made


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """A store without runs."""
    return RunStore(tmp_path / "git" / "agent-infra", now=lambda: NOW, lock_wait=0.2)


def always(event: Event) -> Callable[[State | None], Event]:
    """A decision for this event, whatever the state."""
    return lambda _: event


def step(store: RunStore, place: TaskPlace, *events: Event) -> State:
    """Make events happen, one after the other."""
    state: State | None = None
    for event in events:
        state, changed = store.change(place, always(event))
        assert changed
    assert state is not None
    return state


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the lock, by its path."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refused(call: Callable[[], object], words: str | None = None) -> ErrorCode:
    with pytest.raises(AgentInfraError, match=words) as caught:
        call()
    return caught.value.code


# --- a run's life ---


def test_a_run_begins(store: RunStore, place: TaskPlace) -> None:
    """One line, the view that shows it, and the guard."""
    assert store.load(place) is None
    state = step(store, place, BEGUN)
    assert store.load(place) == store.seen(TASK) == state
    assert json.loads(place.view.read_bytes()) == state.run.to_json()
    assert place.view.read_bytes().endswith(b"\n}\n")
    assert list(store.guards()) == [Guard(TASK, "/repo", "refs/heads/main")]
    assert sorted(path.name for path in place.folder.iterdir()) == ["orchestration.json", "task.md"]


def test_a_change_appends_one_line(store: RunStore, place: TaskPlace) -> None:
    """The journal grows by what changed and is never written anew; the view has it all."""
    step(store, place, BEGUN)
    journal = store.journal(TASK).path
    before, inode = journal.read_bytes(), journal.stat().st_ino
    state = step(store, place, PREPARED)
    assert journal.read_bytes().startswith(before)
    assert journal.stat().st_ino == inode
    assert state.pending == receipt("plan.md")
    assert store.load(place) == state


def test_nothing_decided_is_nothing_written(store: RunStore, place: TaskPlace) -> None:
    """A decision for nothing, and one that raises, leave every byte as it was."""
    assert store.change(place, lambda _: None) == (None, False)
    assert everything(store.folder) == {}
    state = step(store, place, BEGUN)
    before = everything(place.folder.parent) | everything(store.folder)

    def no(_: State | None) -> Event:
        raise RefusedError(ErrorCode.DELEGATION_REPLAY, "no")

    assert refused(lambda: store.change(place, no)) is ErrorCode.DELEGATION_REPLAY
    assert store.change(place, lambda _: None) == (state, False)
    assert everything(place.folder.parent) | everything(store.folder) == before


def test_the_decision_sees_the_present_state(store: RunStore, place: TaskPlace) -> None:
    """It is asked under the lock, with what the journal says by then."""
    seen: list[State | None] = []

    def decide(state: State | None) -> Event:
        seen.append(state)
        assert refused(lambda: locked(store.lock_path, wait=0).__enter__()) is ErrorCode.LOCK_TIMEOUT
        return BEGUN if state is None else PREPARED

    first, _ = store.change(place, decide)
    store.change(place, decide)
    assert seen == [None, first]


def test_a_line_that_makes_no_sense_is_not_written(store: RunStore, place: TaskPlace) -> None:
    """An event that does not fold is refused before it can spoil the journal, also as the first one."""
    assert refused(lambda: step(store, place, PREPARED)) is ErrorCode.ORCHESTRATION_JOURNAL_INVALID
    assert everything(store.folder) == {}
    state = step(store, place, BEGUN)
    odd = Event("note", run={"colour": "red"})
    assert refused(lambda: step(store, place, odd), "line 2") is ErrorCode.ORCHESTRATION_JOURNAL_INVALID
    assert store.load(place) == state


def test_an_ended_run_guards_no_more(store: RunStore, place: TaskPlace) -> None:
    """The guard goes with the end and comes with the next begin, in the same journal."""
    assert not step(store, place, BEGUN, ENDED).run.guards
    assert list(store.guards()) == []
    state = step(store, place, RENEWED)
    assert (state.run.run_id, state.seq) == ("run-2", 3)
    assert [guard.task_id for guard in store.guards()] == [TASK]


def test_a_reopened_run_is_guarded_before_its_line(store: RunStore, place: TaskPlace) -> None:
    """A completed run that runs again guards where it did."""
    step(store, place, BEGUN, ENDED)
    step(store, place, Event("reopen", run={"status": "running", "ended": None}))
    assert list(store.guards()) == [Guard(TASK, "/repo", "refs/heads/main")]


def test_without_a_folder_the_run_goes_on(store: RunStore, place: TaskPlace) -> None:
    """The task's folder was removed: the run is known and guards, and no folder is made for its view."""
    step(store, place, BEGUN)
    place.view.unlink()
    place.document.unlink()
    place.folder.rmdir()
    state = step(store, place, PREPARED)
    assert store.load(place) == state
    assert not place.folder.exists()
    assert len(list(store.guards())) == 1


def test_one_bad_run_disturbs_no_other(store: RunStore, place: TaskPlace, tmp_path: Path) -> None:
    """Another task's journal is damaged: this one's verbs don't notice."""
    other = TaskPlace(OTHER, "active", tmp_path / "tasks" / OTHER)
    other.folder.mkdir()
    step(store, other, Event("begin", run={**BEGIN, "taskId": OTHER}))
    store.journal(OTHER).path.write_bytes(b"{}\n")
    assert refused(lambda: store.load(other)) is ErrorCode.ORCHESTRATION_JOURNAL_INVALID
    state = step(store, place, BEGUN, PREPARED)
    assert store.load(place) == state
    assert [guard.task_id for guard in store.guards()] == [TASK, OTHER]


def test_a_foreign_journal_is_refused(store: RunStore, place: TaskPlace, tmp_path: Path) -> None:
    """A journal that was copied from another task is valid in itself, but not this task's."""
    other = TaskPlace(OTHER, "active", tmp_path / "tasks" / OTHER)
    step(store, other, Event("begin", run={**BEGIN, "taskId": OTHER}))
    ours = store.journal(TASK).path
    ours.parent.mkdir(parents=True)
    ours.write_bytes(store.journal(OTHER).path.read_bytes())
    for look in (lambda: store.load(place), lambda: store.seen(TASK), lambda: store.change(place, lambda _: None)):
        assert refused(look, f"belongs to {OTHER}, not to {TASK}") is ErrorCode.ORCHESTRATION_JOURNAL_INVALID


# --- the view ---


def test_a_lost_or_stale_view_is_rebuilt_in_silence(store: RunStore, place: TaskPlace) -> None:
    """Missing, empty, or as it was some lines ago: reading writes nothing, the next change writes it anew."""
    step(store, place, BEGUN)
    stale = place.view.read_bytes()
    state = step(store, place, PREPARED)
    fresh = place.view.read_bytes()
    for there in (None, b"", stale, json.dumps(json.loads(fresh), sort_keys=True).encode()):
        place.view.unlink()
        if there is not None:
            place.view.write_bytes(there)
        assert store.load(place) == state
        assert (place.view.read_bytes() if there is not None else None) == there
        assert store.change(place, lambda _: None) == (state, False)
        assert place.view.read_bytes() == fresh


def edited(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda view: json.dumps(json.loads(view) | changes).encode()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(edited(status="completed"), "in status;", id="hand-edited"),
        pytest.param(edited(maxSteps=99, stepCount=7), "in maxSteps, stepCount;", id="edited twice"),
        pytest.param(edited(pendingDelegation=None), "in pendingDelegation;", id="a receipt taken out"),
        pytest.param(edited(colour="red"), "in unknown keys;", id="a key added"),
        pytest.param(edited(journalHead="0" * 64), "names a journal line that is not", id="another head"),
        pytest.param(edited(journalHead=None), "names a journal line that is not", id="no head"),
        pytest.param(edited(journalHead=[]), "names a journal line that is not", id="a head that is no text"),
        pytest.param(lambda view: view[:40], "is not JSON", id="cut"),
        pytest.param(lambda _: b"\xff", "is not JSON", id="not UTF-8"),
        pytest.param(lambda _: b"[" * 200_000, "is not JSON", id="nested without end"),
        pytest.param(lambda _: b'{"a":' * 5_000, "is not JSON", id="objects without end"),
        pytest.param(lambda _: b"[]", "names a journal line that is not", id="no object"),
        pytest.param(lambda _: b"null", "names a journal line that is not", id="null"),
        pytest.param(lambda _: b" ", "is not JSON", id="a blank"),
    ],
)
def test_a_view_that_is_not_ours(
    store: RunStore, place: TaskPlace, damage: Callable[[bytes], bytes], words: str
) -> None:
    """Reading says so, changing refuses, both name `repair`; nothing is touched until a person asks to rebuild it."""
    step(store, place, BEGUN)
    state = step(store, place, PREPARED)
    fresh = place.view.read_bytes()
    place.view.write_bytes(damage(fresh))
    before = everything(place.folder) | everything(store.folder)
    for call in (lambda: store.load(place), lambda: step(store, place, ENDED)):
        assert refused(call, words) is ErrorCode.ORCHESTRATION_STATE_TAMPERED
        assert refused(call, f"orchestrate repair {TASK}") is ErrorCode.ORCHESTRATION_STATE_TAMPERED
    assert everything(place.folder) | everything(store.folder) == before
    assert store.seen(TASK) == state
    assert store.rebuild(place) == state
    assert place.view.read_bytes() == fresh


def test_a_stale_view_that_was_edited(store: RunStore, place: TaskPlace) -> None:
    """It is compared with the run as it was at the line that it names."""
    step(store, place, BEGUN)
    stale = place.view.read_bytes()
    step(store, place, PREPARED)
    place.view.write_bytes(edited(maxSteps=99)(stale))
    assert refused(lambda: store.load(place), "maxSteps") is ErrorCode.ORCHESTRATION_STATE_TAMPERED


def test_a_journal_that_lost_its_last_line(store: RunStore, place: TaskPlace) -> None:
    """The cut leaves a valid chain, but the view names a line that is gone."""
    step(store, place, BEGUN, PREPARED)
    path = store.journal(TASK).path
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert refused(lambda: store.load(place)) is ErrorCode.ORCHESTRATION_STATE_TAMPERED


def test_a_last_line_that_was_edited(store: RunStore, place: TaskPlace) -> None:
    """No later line tells, but the view names the digest of the line as it was."""
    step(store, place, BEGUN, PREPARED)
    path = store.journal(TASK).path
    path.write_bytes(path.read_bytes().replace(b'"nextStage":"plan"', b'"nextStage":"code"'))
    assert refused(lambda: store.load(place)) is ErrorCode.ORCHESTRATION_STATE_TAMPERED


def test_a_torn_line_is_no_damage(store: RunStore, place: TaskPlace) -> None:
    """It is read over and cut by the next change."""
    state = step(store, place, BEGUN)
    path = store.journal(TASK).path
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"close":tr')
    assert store.load(place) == state
    assert path.read_bytes() == whole + b'{"close":tr'
    assert step(store, place, PREPARED).seq == 2
    assert path.read_bytes().startswith(whole)
    assert b'"close":tr' not in path.read_bytes()


@pytest.mark.parametrize("kind", ["symlink", "folder", "FIFO"])
def test_a_view_that_is_no_file(store: RunStore, place: TaskPlace, kind: str) -> None:
    """It is refused by name, neither followed nor waited for, and no line is written."""
    step(store, place, BEGUN)
    place.view.unlink()
    make = {"symlink": lambda path: path.symlink_to("task.md"), "folder": Path.mkdir, "FIFO": os.mkfifo}
    make[kind](place.view)
    for call in (lambda: store.load(place), lambda: step(store, place, PREPARED)):
        assert refused(call, "orchestration.json is") is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID
    assert require(store.seen(TASK), TASK).seq == 1
    assert place.document.read_bytes() == TASK_MD


def test_checking_a_view_by_itself(store: RunStore, place: TaskPlace) -> None:
    """No view is no fault, ours is none, and another task's is one."""
    state = step(store, place, BEGUN)
    chain = store.journal(TASK).read()
    assert chain is not None
    check_view(None, chain, state)
    check_view(read_view(place), chain, state)
    with pytest.raises(CorruptStateError):
        check_view(edited(taskId=OTHER)(render_view(state.run)), chain, state)


# --- a journal that is gone ---


def lose(store: RunStore, *, empty: bool = False) -> None:
    path = store.journal(TASK).path
    if empty:
        path.write_bytes(b"")
    else:
        path.unlink()


def test_a_view_without_a_journal(store: RunStore, place: TaskPlace) -> None:
    """It is a lost journal, never a new start; no file or an empty one alike."""
    step(store, place, BEGUN)
    for empty in (False, True):
        lose(store, empty=empty)
        for call in (lambda: store.load(place), lambda: step(store, place, BEGUN)):
            assert refused(call, "orchestration.json says") is ErrorCode.ORCHESTRATION_JOURNAL_MISSING


def test_a_guard_without_a_journal(store: RunStore, place: TaskPlace) -> None:
    """The guard alone tells of the run that was."""
    step(store, place, BEGUN)
    lose(store)
    place.view.unlink()
    for call in (lambda: store.load(place), lambda: step(store, place, BEGUN)):
        assert refused(call, "its guard says") is ErrorCode.ORCHESTRATION_JOURNAL_MISSING
    assert store.seen(TASK) is None


def test_evidence_without_a_journal(store: RunStore, place: TaskPlace) -> None:
    """The evidence ref alone does, too."""
    assert refused(lambda: store.load(place, evidence=True), "evidence ref") is ErrorCode.ORCHESTRATION_JOURNAL_MISSING
    code = refused(lambda: store.change(place, lambda _: BEGUN, evidence=True), f"orchestrate repair {TASK}")
    assert code is ErrorCode.ORCHESTRATION_JOURNAL_MISSING
    assert everything(store.folder) == {}


def test_nothing_to_rebuild_from(store: RunStore, place: TaskPlace) -> None:
    """Without a line there is no run to write a view of."""
    assert refused(lambda: store.rebuild(place)) is ErrorCode.ORCHESTRATION_JOURNAL_MISSING


@pytest.mark.parametrize("torn", [b"", b'{"v":1,'], ids=["no byte", "half a line"])
def test_a_begin_that_was_cut_never_was(store: RunStore, place: TaskPlace, torn: bytes) -> None:
    """Guard and journal were made, the line was not: the next begin begins."""
    step(store, place, BEGUN)
    place.view.unlink()
    store.journal(TASK).path.write_bytes(torn)
    assert store.load(place) is None
    assert len(list(store.guards())) == 1
    assert step(store, place, BEGUN).seq == 1


# --- the guard ---


def test_a_lost_guard_is_mended_by_any_change(store: RunStore, place: TaskPlace) -> None:
    """Also by one that decides for nothing; a guard that outlived its run goes."""
    step(store, place, BEGUN)
    guard = store.folder / "guards" / TASK
    for lose_it in (Path.unlink, lambda path: path.write_bytes(b"{}")):
        lose_it(guard)
        store.change(place, lambda _: None)
        assert list(store.guards()) == [Guard(TASK, "/repo", "refs/heads/main")]
    kept = guard.read_bytes()
    step(store, place, ENDED)
    guard.write_bytes(kept)
    for _ in range(2):
        store.change(place, lambda _: None)
        assert not guard.exists()


def test_a_guard_is_not_written_again(store: RunStore, place: TaskPlace) -> None:
    """While it says what it should, the file stays the same one."""
    step(store, place, BEGUN)
    guard = store.folder / "guards" / TASK
    inode = guard.stat().st_ino
    step(store, place, PREPARED)
    assert guard.stat().st_ino == inode


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(b"\xff"), id="not UTF-8"),
        pytest.param(lambda path: path.write_bytes(b"[]"), id="no object"),
        pytest.param(lambda path: path.write_bytes(b'{"worktree": "/repo"}'), id="no branch"),
        pytest.param(lambda path: path.write_bytes(b"[" * 60_000), id="nested without end"),
        pytest.param(lambda path: path.write_bytes(b" " * 70_000), id="too large"),
        pytest.param(lambda path: path.mkdir(), id="a folder"),
        pytest.param(lambda path: path.symlink_to("nowhere"), id="a symlink"),
        pytest.param(os.mkfifo, id="a FIFO"),
    ],
)
def test_a_guard_that_cannot_be_read_guards_everything(
    store: RunStore, place: TaskPlace, spoil: Callable[[Path], None]
) -> None:
    """Whatever lies there: a guard is there, in no worktree that could be told apart."""
    step(store, place, BEGUN)
    guard = store.folder / "guards" / TASK
    guard.unlink()
    spoil(guard)
    assert list(store.guards()) == [Guard(TASK, "", None)]
    if guard.is_dir():
        assert refused(lambda: store.change(place, lambda _: None)) is ErrorCode.STORE_WRITE_FAILED
        return
    store.change(place, lambda _: None)
    assert list(store.guards()) == [Guard(TASK, "/repo", "refs/heads/main")]


def test_an_odd_guard_goes_with_its_run(store: RunStore, place: TaskPlace) -> None:
    """A symlink that was put in its place does not outlive the run."""
    step(store, place, BEGUN)
    guard = store.folder / "guards" / TASK
    guard.unlink()
    guard.symlink_to("nowhere")
    step(store, place, ENDED)
    assert list(store.guards()) == []


def test_temporary_siblings_are_no_guards(store: RunStore, place: TaskPlace) -> None:
    """What a killed writer left guards nothing."""
    assert list(store.guards()) == []
    step(store, place, BEGUN)
    (store.folder / "guards" / f".{TASK}.7.ab.tmp").write_bytes(b"")
    assert [guard.task_id for guard in store.guards()] == [TASK]


# --- when the disk says no ---


@pytest.mark.parametrize(
    ("before", "event"),
    [
        pytest.param((), BEGUN, id="begin"),
        pytest.param((BEGUN, ENDED), RENEWED, id="begin anew"),
        pytest.param((BEGUN,), PREPARED, id="prepare"),
        pytest.param((BEGUN,), ENDED, id="end"),
    ],
)
@pytest.mark.parametrize("what", ["the task's folder", "the journal"])
def test_what_cannot_be_written_changes_nothing(
    store: RunStore,
    place: TaskPlace,
    frozen: Callable[[Path], None],
    what: str,
    *,
    before: tuple[Event, ...],
    event: Event,
) -> None:
    """The task's folder or the journal is read-only: a code, a sentence, and run, view and guard as they were."""
    state = step(store, place, *before) if before else None
    journal = store.journal(TASK).path
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.touch()
    there = everything(place.folder.parent) | everything(store.folder)
    guards = list(store.guards())
    frozen(journal if what == "the journal" else place.folder)
    assert refused(lambda: step(store, place, event), "cannot write") is ErrorCode.STORE_WRITE_FAILED
    assert everything(place.folder.parent) | everything(store.folder) == there
    assert store.load(place) == state
    assert list(store.guards()) == guards


@pytest.mark.parametrize("what", ["runs", "guards"])
def test_a_store_that_cannot_be_written_begins_nothing(
    store: RunStore, place: TaskPlace, frozen: Callable[[Path], None], what: str
) -> None:
    """Our own folder is read-only: no run, no view, no guard."""
    (store.folder / what).mkdir(parents=True)
    frozen(store.folder / what)
    assert refused(lambda: step(store, place, BEGUN), "cannot write") is ErrorCode.STORE_WRITE_FAILED
    assert store.load(place) is None
    assert everything(place.folder) == {"task.md": TASK_MD}
    assert list(store.guards()) == []


def test_a_file_where_our_folder_is_expected(store: RunStore, place: TaskPlace) -> None:
    """The store's place is taken: refused by name, and the task is as it was."""
    store.folder.parent.mkdir()
    store.folder.write_bytes(b"theirs")
    assert refused(lambda: step(store, place, BEGUN)) is ErrorCode.STORE_WRITE_FAILED
    assert store.folder.read_bytes() == b"theirs"
    assert everything(place.folder) == {"task.md": TASK_MD}


def test_a_busy_lock_is_named(store: RunStore, place: TaskPlace) -> None:
    """Whoever waits in vain is told who holds it, and nothing happened."""
    with locked(store.lock_path):
        assert refused(lambda: step(store, place, BEGUN), f"process {os.getpid()}") is ErrorCode.LOCK_TIMEOUT
    assert everything(store.folder) == {}


# --- several at once ---


def test_four_processes_on_one_run_lose_nothing(store: RunStore, place: TaskPlace) -> None:
    """Each makes 50 changes of the state that it finds; all 200 are there, and the chain is whole."""
    step(store, place, BEGUN)
    patient = RunStore(store.folder, now=store.now, lock_wait=30)

    def count(state: State | None) -> Event:
        assert state is not None
        return Event("note", run={"stepCount": state.run.step_count + 1})

    def work() -> None:
        for _ in range(50):
            patient.change(place, count)

    children = [FORK.Process(target=work) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    state = store.load(place)
    assert state is not None
    assert (state.run.step_count, state.seq) == (200, 201)
    assert json.loads(place.view.read_bytes()) == state.run.to_json()


def test_a_reader_beside_a_writer_sees_a_whole_run(store: RunStore, place: TaskPlace) -> None:
    """Reading takes no lock; it never meets a view that names a line it has not read."""
    step(store, place, BEGUN)

    def write() -> None:
        for number in range(150):
            store.change(place, always(Event("limit", run={"maxSteps": 25 + number})))

    writer = FORK.Process(target=write)
    writer.start()
    looks = 0
    while writer.is_alive():
        assert store.load(place) is not None
        looks += 1
    writer.join()
    assert writer.exitcode == 0
    assert looks > 10
    last = store.load(place)
    assert last is not None
    assert last.run.max_steps == 174


def test_killed_writers_leave_a_run_that_reads(store: RunStore, place: TaskPlace) -> None:
    """SIGKILL at any moment: what was counted before is there, and the next change goes on."""
    step(store, place, BEGUN)

    def work(pipe: Any) -> None:
        while True:
            state, _ = store.change(
                place, lambda state: Event("note", run={"stepCount": state.run.step_count + 1 if state else 0})
            )
            pipe.send(state.run.step_count if state else 0)

    for round_ in range(10):
        ours, theirs = FORK.Pipe(duplex=False)
        child = FORK.Process(target=work, args=(theirs,))
        child.start()
        theirs.close()
        told = [ours.recv() for _ in range(3 + round_ % 4)]
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        while ours.poll():
            try:
                told.append(ours.recv())
            except EOFError:
                break
        state = store.load(place)
        assert state is not None
        assert state.run.step_count in {told[-1], told[-1] + 1}
        assert state.seq == state.run.step_count + 1
    before = require(store.load(place), TASK).seq
    assert step(store, place, ENDED).seq == before + 1


# --- the active step ---


def test_the_pending_step_is_kept_for_hooks(store: RunStore, place: TaskPlace, tmp_path: Path) -> None:
    """It is there while a receipt is pending, and gone after it."""
    git_dir = tmp_path / "repo.git"
    path = git_dir / "agent-infra" / "active.json"
    write_active(git_dir, TASK, None, ())
    assert not git_dir.exists()
    write_active(git_dir, TASK, step(store, place, BEGUN, PREPARED), ("/repo/plan.md",))
    assert json.loads(path.read_bytes()) == {
        "task": TASK,
        "stage": "plan",
        "role": "executor",
        "status": "prepared",
        "allowedPaths": ["/repo/plan.md"],
    }
    write_active(git_dir, TASK, step(store, place, Event("abandon", receipt={"status": "aborted"}, close=True)), ())
    assert not path.exists()


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        pytest.param(json.dumps({"task": OTHER}).encode(), True, id="another task's"),
        pytest.param(json.dumps({"task": TASK}).encode(), False, id="this task's"),
        pytest.param(b"{", False, id="no JSON"),
        pytest.param(b"[]", False, id="no object"),
        pytest.param(b"{}", False, id="no task"),
    ],
)
def test_a_step_of_another_task_stays(tmp_path: Path, data: bytes, *, kept: bool) -> None:
    """A worktree may hold several runs: only the step of this task, or one that can't be read, is taken away."""
    path = tmp_path / "agent-infra" / "active.json"
    path.parent.mkdir()
    path.write_bytes(data)
    write_active(tmp_path, TASK, None, ())
    assert path.exists() is kept


def test_a_run_that_must_be_there(store: RunStore, place: TaskPlace) -> None:
    """Its absence has a code and the command that helps."""
    state = step(store, place, BEGUN)
    assert require(state, TASK) is state
    assert refused(lambda: require(None, TASK), f"orchestrate begin {TASK}") is ErrorCode.ORCHESTRATION_RUN_MISSING
