"""Files are written whole or not at all, read only if they are files, and locked by a lock that the kernel frees."""

import multiprocessing
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from agent_infra.errors import AgentInfraError, CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.atomic import (
    append_durably,
    is_locked,
    locked,
    read_regular,
    remove_durably,
    staged,
    truncate_durably,
    write_atomic,
)

FORK = multiprocessing.get_context("fork")
WAIT = 20.0  # seconds until a test gives a child up


def in_child(act: Callable[[Connection], None]) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    """Run `act` in a process of its own, which says what it has to say through the pipe."""
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=act, args=(theirs,))
    process.start()
    theirs.close()
    return process, ours


def answer(act: Callable[[], object]) -> object:
    """What `act` returned in a process of its own, or the code with which it was refused."""

    def tell(pipe: Connection) -> None:
        try:
            pipe.send(act())
        except AgentInfraError as error:
            pipe.send((str(error.code), error.message))

    process, pipe = in_child(tell)
    assert pipe.poll(WAIT)
    found: object = pipe.recv()
    process.join(WAIT)
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- whole or not at all ---


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    """New folders are made, what was there is replaced, and nothing else stays behind."""
    path = tmp_path / "a" / "b" / "file"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(path.parent) == ["file"]


def test_permissions_survive(tmp_path: Path) -> None:
    """A rewrite keeps the bits; a new file is 0644 whatever the umask; a mode that is named wins."""
    path = tmp_path / "file"
    before = os.umask(0o077)
    try:
        write_atomic(path, b"")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)
    write_atomic(path, b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    write_atomic(path, b"x", mode=0o755)
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_symlink_is_replaced_not_followed(tmp_path: Path) -> None:
    """Writing to a name never writes to where a symlink points."""
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("target")
    write_atomic(tmp_path / "link", b"ours")
    assert (tmp_path / "target").read_bytes() == b"theirs"
    assert not (tmp_path / "link").is_symlink()


WRITES = {
    "write": lambda path: write_atomic(path, b"data"),
    "append": lambda path: append_durably(path, b"data"),
}


@pytest.mark.parametrize("write", list(WRITES))
def test_a_file_where_a_folder_is_expected(tmp_path: Path, write: str) -> None:
    """It is refused by name, and the file is left as it was."""
    (tmp_path / "file").write_bytes(b"theirs")
    with pytest.raises(RefusedError, match=r"cannot write .*file/inner") as caught:
        WRITES[write](tmp_path / "file" / "inner")
    assert caught.value.code is ErrorCode.STORE_WRITE_FAILED
    assert (tmp_path / "file").read_bytes() == b"theirs"


@pytest.mark.parametrize("write", [*WRITES, "remove", "truncate"])
def test_a_folder_where_a_file_is_expected(tmp_path: Path, write: str) -> None:
    """It is refused, and nothing is left beside it."""
    (tmp_path / "place").mkdir()
    ways = WRITES | {"remove": remove_durably, "truncate": lambda path: truncate_durably(path, 0)}
    with pytest.raises(RefusedError) as caught:
        ways[write](tmp_path / "place")
    assert caught.value.code is ErrorCode.STORE_WRITE_FAILED
    assert names(tmp_path) == ["place"]


@pytest.mark.parametrize("write", [*WRITES, "new", "remove", "truncate"])
def test_a_read_only_folder(tmp_path: Path, frozen: Callable[[Path], None], write: str) -> None:
    """What can't be written is refused with the system's reason, and everything is as it was."""
    path = tmp_path / "folder" / "file"
    write_atomic(path, b"before")
    frozen(path)
    frozen(path.parent)
    ways = WRITES | {
        "new": lambda path: write_atomic(path.with_name("new"), b"x"),
        "remove": remove_durably,
        "truncate": lambda path: truncate_durably(path, 0),
    }
    with pytest.raises(RefusedError, match="not permitted") as caught:
        ways[write](path)
    assert caught.value.code is ErrorCode.STORE_WRITE_FAILED
    assert path.read_bytes() == b"before"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("write", ["replace", "append"])
def test_a_disk_that_is_full_half_way(tmp_path: Path, write: str) -> None:
    """A short write leaves the old bytes, all of them and no others."""
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def act() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        (write_atomic if write == "replace" else append_durably)(path, b"x" * 5000)

    found = answer(act)
    assert isinstance(found, tuple)
    assert found[0] == "STORE_WRITE_FAILED"
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]


def test_what_is_staged_is_there_after_the_act(tmp_path: Path) -> None:
    """The new bytes show when the act is done; an act that fails leaves the old ones."""
    path = tmp_path / "file"
    with staged(path, b"new"):
        assert not path.exists()
    assert path.read_bytes() == b"new"
    with pytest.raises(KeyError), staged(path, b"newer"):
        raise KeyError
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_a_staged_place_that_was_taken_meanwhile(tmp_path: Path) -> None:
    """A folder that was put at the place during the act is not removed."""
    with pytest.raises(RefusedError) as caught, staged(tmp_path / "place", b"x"):
        (tmp_path / "place").mkdir()
    assert caught.value.code is ErrorCode.STORE_WRITE_FAILED
    assert names(tmp_path) == ["place"]


def test_appending_and_cutting(tmp_path: Path) -> None:
    """Bytes go to the end; a cut keeps the beginning; a file that is not wanted is gone, also if it never was."""
    path = tmp_path / "new" / "file"
    append_durably(path, b"one\n")
    append_durably(path, b"two\n")
    truncate_durably(path, 6)
    assert path.read_bytes() == b"one\ntw"
    remove_durably(path)
    remove_durably(path)
    remove_durably(tmp_path / "no folder" / "file")
    assert names(path.parent) == []
    with pytest.raises(RefusedError):
        truncate_durably(path, 0)


# --- reading ---


def fifo(path: Path) -> None:
    os.mkfifo(path)


def to_a_file(path: Path) -> None:
    path.with_name("target").write_bytes(b"secret")
    path.symlink_to("target")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(to_a_file, "is a symlink", id="symlink"),
        pytest.param(lambda path: path.symlink_to("nowhere"), "is a symlink", id="dangling symlink"),
        pytest.param(lambda path: path.symlink_to(path.name), "is a symlink", id="symlink to itself"),
        pytest.param(fifo, "is not a regular file", id="FIFO"),
        pytest.param(listening, "is a socket", id="socket"),
        pytest.param(lambda path: path.mkdir(), "is a folder", id="folder"),
        pytest.param(lambda path: path.write_bytes(b"123456"), "is 6 bytes long; at most 5 are read", id="too large"),
    ],
)
def test_only_regular_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], words: str
) -> None:
    """Nothing is followed, waited for or read without end; the name and what it is are in the message."""
    monkeypatch.chdir(tmp_path)  # a socket's name must be short
    make(Path("plan.md"))
    with pytest.raises(CorruptStateError, match=f"plan.md {words}") as caught:
        read_regular(tmp_path / "plan.md", limit=5)
    assert caught.value.code is ErrorCode.ORCHESTRATION_ARTIFACT_INVALID


def test_what_is_read(tmp_path: Path) -> None:
    """All bytes of a file up to the limit; nothing where nothing lies."""
    path = tmp_path / "plan.md"
    assert read_regular(path, limit=5) is None
    path.write_bytes(b"12345")
    assert read_regular(path, limit=5) == b"12345"
    path.write_bytes(b"")
    assert read_regular(path, limit=5) == b""


def test_what_the_system_refuses_to_read(tmp_path: Path) -> None:
    """It is a read fault, not an odd artifact."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CorruptStateError, match="can't be read: Not a directory") as caught:
        read_regular(tmp_path / "file" / "plan.md", limit=5)
    assert caught.value.code is ErrorCode.ORCHESTRATION_TASK_READ_FAILED


# --- the lock ---


def holding(path: Path) -> Callable[[Connection], None]:
    """Takes the lock, says so, and keeps it until it is told to let go."""

    def act(pipe: Connection) -> None:
        with locked(path):
            pipe.send(os.getpid())
            pipe.recv()

    return act


def test_four_processes_lose_nothing(tmp_path: Path) -> None:
    """Read, count and append under the lock by four processes at once: every line is there, in its order."""
    lock, log = tmp_path / "lock", tmp_path / "log"

    def act(pipe: Connection) -> None:
        for _ in range(50):
            with locked(lock, wait=WAIT):
                count = len(log.read_bytes().splitlines()) if log.exists() else 0
                append_durably(log, f"{count}\n".encode())
        pipe.send("done")

    children = [in_child(act) for _ in range(4)]
    for process, pipe in children:
        assert pipe.poll(2 * WAIT)
        process.join(WAIT)
        assert process.exitcode == 0
    assert log.read_text().split() == [str(number) for number in range(200)]


def test_a_lock_that_is_held_is_waited_for_in_vain(tmp_path: Path) -> None:
    """LOCK_TIMEOUT names the holder's process id and comes when the time is up; then the lock is free again."""
    lock = tmp_path / "folder" / "lock"
    process, pipe = in_child(holding(lock))
    holder = pipe.recv()
    assert is_locked(lock)
    begun = time.monotonic()
    with pytest.raises(RefusedError, match=f"process {holder}") as caught, locked(lock, wait=0.2):
        pass
    assert caught.value.code is ErrorCode.LOCK_TIMEOUT
    assert 0.2 <= time.monotonic() - begun < 5
    pipe.send("let go")
    process.join(WAIT)
    assert not is_locked(lock)
    with locked(lock, wait=0):
        assert is_locked(lock)


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    """The kernel lets go when the process dies; nothing stale is left to steal."""
    lock = tmp_path / "lock"
    process, pipe = in_child(holding(lock))
    holder = pipe.recv()
    os.kill(holder, signal.SIGKILL)
    process.join(WAIT)
    with locked(lock, wait=1):
        assert lock.read_text() == f"{os.getpid()}\n"


def test_a_lock_is_free_after_a_fault(tmp_path: Path) -> None:
    """Whatever happens under it, it is let go."""
    with pytest.raises(KeyError), locked(tmp_path / "lock"):
        raise KeyError
    assert not is_locked(tmp_path / "lock")


def test_a_removed_lock_file_does_not_make_two_holders(tmp_path: Path) -> None:
    """Who waited for a file that was removed meanwhile takes the new one, so that both wait for each other."""
    lock = tmp_path / "lock"
    first, first_pipe = in_child(holding(lock))
    first_pipe.recv()
    waiting, waiting_pipe = in_child(holding(lock))
    time.sleep(0.2)  # it has the old file open, or will open the new one: both must end well
    lock.unlink()
    second = waiting_pipe.recv() if waiting_pipe.poll(WAIT) else None
    assert second is not None
    assert lock.read_text() == f"{second}\n"
    with pytest.raises(RefusedError, match=f"process {second}"), locked(lock, wait=0.1):
        pass
    for process, pipe in ((first, first_pipe), (waiting, waiting_pipe)):
        pipe.send("let go")
        process.join(WAIT)


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_lock_on_a_file_that_lies_there_no_more_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, replaced: bool
) -> None:
    """Between opening and locking somebody removes the file: the lock on it would be worthless, so it is taken anew."""
    import fcntl

    lock = tmp_path / "lock"
    flock = fcntl.flock
    calls = []

    def interfere(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        calls.append(descriptor)
        if len(calls) == 1:
            lock.unlink()
            if replaced:
                lock.write_bytes(b"")

    monkeypatch.setattr(fcntl, "flock", interfere)
    with locked(lock):
        monkeypatch.undo()
        assert is_locked(lock)
    assert len(calls) == 2


def test_a_holder_that_did_not_sign(tmp_path: Path) -> None:
    """An unsigned or unreadable lock file does not hide the timeout."""
    lock = tmp_path / "lock"
    process, pipe = in_child(holding(lock))
    pipe.recv()
    lock.write_bytes(b"")
    with pytest.raises(RefusedError, match="process unknown"), locked(lock, wait=0):
        pass
    pipe.send("let go")
    process.join(WAIT)


@pytest.mark.parametrize("where", ["file/lock", "folder"])
def test_a_lock_where_none_can_be(tmp_path: Path, where: str) -> None:
    """A file where the folder should be, a folder where the lock should be: refused by name."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RefusedError, match=r"cannot write") as caught, locked(tmp_path / where):
        pass
    assert caught.value.code is ErrorCode.STORE_WRITE_FAILED


def test_nobody_holds_a_lock_that_never_was(tmp_path: Path) -> None:
    """Asking makes nothing."""
    assert not is_locked(tmp_path / "lock")
    assert names(tmp_path) == []
