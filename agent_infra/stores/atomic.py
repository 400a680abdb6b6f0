"""The only code that writes files: whole or not at all, durable before anybody is told, under a kernel lock.

A lock is freed by the kernel when its holder dies; it is never stolen by age or process id.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError

LOCK_WAIT = 5.0  # seconds on the command line
HOOK_LOCK_WAIT = 1.5  # seconds in a hook, where somebody waits for us
_POLL = 0.01


def write_atomic(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` at `path`, whole or not at all.

    Args:
        mode: permission bits; those of the file that is there, or 0644, when left out.

    Raises:
        RefusedError: STORE_WRITE_FAILED; what was there is untouched.

    Side effects:
        A temporary sibling, fsync, rename, fsync of the folder. Missing folders are made.
    """
    with staged(path, data, mode=mode):
        pass


@contextmanager
def staged(path: Path, data: bytes, *, mode: int | None = None) -> Iterator[None]:
    """Write `data` beside `path`, let the caller act, then put it there: a disk that says no says so before the act.

    Raises:
        RefusedError: STORE_WRITE_FAILED; as for `write_atomic`. If the caller raises, `path` is untouched.
    """
    sibling = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_new(sibling, data, _mode_of(path) if mode is None else mode)
        except OSError as error:
            raise _write_failed(path, error) from error
        yield
        try:
            sibling.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise _write_failed(path, error) from error
    finally:
        # it is gone already unless something went wrong
        with suppress(OSError):
            sibling.unlink(missing_ok=True)


def append_durably(path: Path, data: bytes) -> None:
    """Add `data` at the end of `path`; when this returns, it is on disk.

    Raises:
        RefusedError: STORE_WRITE_FAILED; what was there before is there still, and nothing else.

    Side effects:
        fsync of the file, and of the folder when the file is new.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
        if new:
            sync_folder(path.parent)
    except OSError as error:
        raise _write_failed(path, error) from error


def truncate_durably(path: Path, size: int) -> None:
    """Cut a file to its first `size` bytes: a torn last line goes."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _write_failed(path, error) from error


def remove_durably(path: Path) -> None:
    """Make sure that there is no file at `path`."""
    try:
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            sync_folder(path.parent)
    except OSError as error:
        raise _write_failed(path, error) from error


def move_folder(source: Path, target: Path) -> None:
    """Rename a folder, durably on both sides.

    Raises:
        RefusedError: LIFECYCLE_DIRECTORY_RENAME_FAILED.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        sync_folder(target.parent)
        sync_folder(source.parent)
    except OSError as error:
        message = f"cannot move {source} to {target}: {error.strerror or error}; mend that and repeat the command"
        raise RefusedError(ErrorCode.LIFECYCLE_DIRECTORY_RENAME_FAILED, message) from error


def read_regular(path: Path, *, limit: int) -> bytes | None:
    """The bytes of a regular file, or `None` where nothing lies.

    Args:
        limit: the largest size in bytes that is read.

    Raises:
        CorruptStateError: ORCHESTRATION_ARTIFACT_INVALID for a symlink, FIFO, folder or larger file at that place;
            ORCHESTRATION_TASK_READ_FAILED where it can't be read.
    """
    try:
        # no following, no waiting: a symlink or a FIFO must not decide what is read or when
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink() or error.errno == errno.ENXIO:
            raise _not_regular(path, "a symlink" if path.is_symlink() else "a socket") from error
        message = f"{path.name} can't be read: {error.strerror}"
        raise CorruptStateError(ErrorCode.ORCHESTRATION_TASK_READ_FAILED, message) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _not_regular(path, "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file")
        if found.st_size > limit:
            raise _not_regular(path, f"{found.st_size} bytes long; at most {limit} are read")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait: float = LOCK_WAIT) -> Iterator[None]:
    """Hold the kernel lock at `path`.

    Args:
        wait: seconds to try.

    Raises:
        RefusedError: LOCK_TIMEOUT naming the holder's process id.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _write_failed(path, error) from error
    descriptor = _acquire(path, time.monotonic() + wait)
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock at `path` right now."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _acquire(path: Path, deadline: float) -> int:
    """The descriptor of the held lock."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _write_failed(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise _timeout(path) from None
            time.sleep(_POLL)
            continue
        # somebody may have removed the file between open and flock: then two could hold "the" lock
        if _is_still(path, descriptor):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            return descriptor
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _timeout(path: Path) -> RefusedError:
    try:
        holder = path.read_text(encoding="ascii", errors="replace").strip() or "unknown"
    except OSError:
        holder = "unknown"
    message = f"another agent-infra holds {path} (process {holder}); try again when it is done"
    return RefusedError(ErrorCode.LOCK_TIMEOUT, message)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(path: Path) -> None:
    """Make a rename or a new name in `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o644


def _write_failed(path: Path, error: OSError) -> RefusedError:
    return RefusedError(ErrorCode.STORE_WRITE_FAILED, f"cannot write {path}: {error.strerror or error}")


def _not_regular(path: Path, kind: str) -> CorruptStateError:
    message = f"{path.name} is {kind}, expected a regular file"
    return CorruptStateError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, message)
