"""The files in hooks folders: read one, write one whole, set one aside and put it back without ever losing it.

It knows nothing about what a shim says but its marker; `hooks.py` decides which file is whose.
"""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_infra.errors import ErrorCode, RefusedError

_LARGEST_SHIM = 64 * 1024  # bytes; nothing of ours is longer
_TEMPORARY = ".tmp"
_MARKER = re.compile(rb"\A#![^\n]*\n# agent-infra shim [0-9]+\n")


@contextmanager
def named_write_errors() -> Iterator[None]:
    """Turn what the disk says into our words.

    Raises:
        RefusedError: STORE_WRITE_FAILED naming the path.
    """
    try:
        yield
    except OSError as error:
        named = Path(os.fsdecode(error.filename2 or error.filename or "the hooks folder"))
        path = named.parent if named.suffix == _TEMPORARY else named
        message = f"cannot write {path}: {error.strerror or error}"
        raise RefusedError(ErrorCode.STORE_WRITE_FAILED, message) from error


def read_small(path: Path) -> bytes | None:
    """The bytes of a regular file that is short enough to be a shim; `None` for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_SHIM:
            return None
        return os.read(descriptor, _LARGEST_SHIM)
    finally:
        os.close(descriptor)


def is_shim(path: Path) -> bool:
    """Whether a file has our marker, whatever else it says."""
    return _MARKER.match(read_small(path) or b"") is not None


def put_file(path: Path, data: bytes, *, mode: int) -> None:
    """Put `data` at `path` whole or not at all, in place of what lies there.

    Side effects:
        A temporary sibling, fsync, rename, fsync of the folder.
    """

    def write(sibling: Path) -> None:
        descriptor = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)

    _put(path, write)


def set_aside(hook: Path, folder: Path) -> Path | None:
    """Make `hook` callable from `folder` too, so that its place can be taken.

    Afterwards both names hold it: whoever takes the place does so by rename, and at no moment is it lost. An older
    one of that name in `folder` keeps its bytes under a numbered name.

    Returns:
        The numbered name that an older hook got, if any.

    Side effects:
        A hard link where the disk can, else a copy with mode and times; fsync of the folder.
    """
    aside = folder / hook.name
    if os.path.lexists(aside):
        if _is_same(hook, aside):
            return None
        older = _free_name(aside)
        aside.rename(older)
    else:
        older = None
    _put(aside, lambda sibling: _duplicate(hook, sibling, target=_target_from(hook, folder)))
    return older


def put_back(aside: Path, hook: Path) -> None:
    """Give a hook that was set aside its place again, with the bytes and the mode it had.

    Side effects:
        Replaces what lies at `hook`; removes `aside`; fsync of both folders.
    """
    prefix = _way(aside.parent, hook.parent)
    target = _text_of(aside).removeprefix(prefix) if aside.is_symlink() else None
    _put(hook, lambda sibling: _duplicate(aside, sibling, target=target))
    aside.unlink()
    _sync_folder(aside.parent)


def link_siblings(hooks_path: Path, folder: Path, is_sibling: Callable[[Path], bool]) -> None:
    """Let hooks that were set aside find the files they expect beside themselves, such as helper scripts."""
    prefix = _way(folder, hooks_path)
    for path in sorted(hooks_path.iterdir()):
        link = folder / path.name
        if is_sibling(path) and not os.path.lexists(link):
            link.symlink_to(prefix + path.name)


def unlink_siblings(hooks_path: Path, folder: Path) -> None:
    """Take away what `link_siblings` made, and nothing else."""
    prefix = _way(folder, hooks_path)
    for link in sorted(folder.iterdir()):
        if link.is_symlink() and _text_of(link) == prefix + link.name:
            link.unlink()


def is_same_hook(hook: Path, aside: Path) -> bool:
    """Whether the file that was set aside is the one that lies at `hook`, byte for byte and with its mode."""
    return os.path.lexists(hook) and os.path.lexists(aside) and _is_same(hook, aside)


def remove(path: Path) -> None:
    """Take one name away for good."""
    path.unlink()
    _sync_folder(path.parent)


def _put(path: Path, make: Callable[[Path], None]) -> None:
    """Make something under a temporary name beside `path`, then give it that name."""
    sibling = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{_TEMPORARY}")
    try:
        make(sibling)
        sibling.replace(path)
        # two names of one file: rename does nothing then and leaves both
        sibling.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            sibling.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _duplicate(source: Path, copy: Path, *, target: str | None) -> None:
    """A second name for `source`; a symlink becomes one that leads to `target`."""
    if target is not None:
        copy.symlink_to(target)
        return
    try:
        os.link(source, copy, follow_symlinks=False)
    except OSError:  # no hard links here, or another disk
        shutil.copy2(source, copy, follow_symlinks=False)
        with copy.open("rb") as file:
            os.fsync(file.fileno())


def _target_from(hook: Path, folder: Path) -> str | None:
    """Where a symlink must lead so that it means the same from `folder`; `None` for what is no symlink.

    The original text is kept whole behind the way back to its folder, so that it can be restored exactly and the
    repository can be moved.
    """
    if not hook.is_symlink():
        return None
    target = _text_of(hook)
    return target if target.startswith("/") else _way(folder, hook.parent) + target


def _text_of(link: Path) -> str:
    return os.readlink(link)  # noqa: PTH115 (`Path.readlink` would tidy it, and it is put back byte for byte)


def _way(start: Path, end: Path) -> str:
    return os.path.relpath(end, start) + "/"


def _is_same(hook: Path, aside: Path) -> bool:
    target = _target_from(hook, aside.parent)
    if target is not None or aside.is_symlink():
        return target is not None and aside.is_symlink() and _text_of(aside) == target
    if stat.S_IMODE(hook.stat().st_mode) != stat.S_IMODE(aside.stat().st_mode):
        return False
    return hook.samefile(aside) or hook.read_bytes() == aside.read_bytes()


def _free_name(path: Path) -> Path:
    number = 1
    while os.path.lexists(path.with_name(f"{path.name}.{number}")):
        number += 1
    return path.with_name(f"{path.name}.{number}")


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
