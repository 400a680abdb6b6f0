"""Trees through libgit2: compared, and edited in place so that only the folders on the way to a path are touched.

libgit2 sees an object folder and nothing else: the user's repository and its configuration are never opened. Where it
can't read something `attempt` says None and the caller asks git.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent_infra.git.repo import display_path

if TYPE_CHECKING:
    import pygit2

FOLDER = "40000"
GITLINK = "160000"

T = TypeVar("T")
Entry = tuple[str, str]  # octal mode as git writes it, object id
Entries = dict[bytes, Entry]


@dataclass(frozen=True)
class TreeChange:
    """One path that differs between two trees.

    Attributes:
        path: bytes as on disk, "/" between folders.
        old_mode: six octal digits, like `new_mode`; None where the path is missing.
        new_mode: see `old_mode`.
        old_oid: object id, like `new_oid`; None where the path is missing.
        new_oid: see `old_oid`.
    """

    path: bytes
    old_mode: str | None
    new_mode: str | None
    old_oid: str | None
    new_oid: str | None

    @property
    def name(self) -> str:
        """The path as people and JSON see it."""
        return display_path(self.path)


def attempt(objects: Path, question: Callable[["pygit2.Odb"], T]) -> T | None:
    """Answer a question through libgit2 over one object folder; None when libgit2 can't."""
    import pygit2

    try:
        return question(pygit2.Odb(str(objects)))
    except (pygit2.GitError, KeyError, ValueError, OSError):
        return None


def compare(odb: "pygit2.Odb", a: str, b: str) -> tuple[TreeChange, ...]:
    """What differs between two trees, by path.

    Raises:
        KeyError: `odb` has no tree of that id.
    """
    import pygit2

    memory = pygit2.Repository()
    memory.set_odb(odb)
    old, new = memory[a], memory[b]
    if not (isinstance(old, pygit2.Tree) and isinstance(new, pygit2.Tree)):
        raise KeyError(f"{a} and {b} are not both trees")
    sides: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    for delta in old.diff_to_tree(new, context_lines=0).deltas:
        # a file that became a symlink comes as two deltas with one path
        was, now = sides.get(delta.new_file.raw_path, (None, None))
        sides[delta.new_file.raw_path] = (was or _side(delta.old_file), now or _side(delta.new_file))
    return settle(sides)


def _side(file: "pygit2.DiffFile") -> Entry | None:
    return (f"{int(file.mode):06o}", str(file.id)) if int(file.mode) else None


def parse_raw_diff(raw: bytes) -> tuple[TreeChange, ...]:
    """The output of `git diff-tree -r -z`: records of `:old new oid oid letter`, NUL, path, NUL."""
    fields = raw.split(b"\0")[:-1]
    sides: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    for head, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, old_oid, new_oid, _ = head.decode().lstrip(":").split(" ")
        sides[path] = (_present(old_mode, old_oid), _present(new_mode, new_oid))
    return settle(sides)


def _present(mode: str, oid: str) -> Entry | None:
    return (mode, oid) if int(mode, 8) else None


def settle(sides: Mapping[bytes, tuple[Entry | None, Entry | None]]) -> tuple[TreeChange, ...]:
    """The changes of both ways in one form: canonical modes, sorted by path, nothing that is equal."""
    found = []
    for path, (was, now) in sorted(sides.items()):
        old, new = _canonical(was), _canonical(now)
        if old != new:
            old_mode, old_oid = old or (None, None)
            new_mode, new_oid = new or (None, None)
            found.append(TreeChange(path, old_mode, new_mode, old_oid, new_oid))
    return tuple(found)


def _canonical(entry: Entry | None) -> Entry | None:
    """Modes that old programs wrote (100664, 100775) are read by git as one of its own."""
    if entry is None or not re.fullmatch("100...", entry[0]):
        return entry
    return "100755" if int(entry[0], 8) & 0o100 else "100644", entry[1]


def parse_tree(data: bytes) -> Entries:
    """The entries of a raw sha1 tree object."""
    entries: Entries = {}
    position = 0
    while position < len(data):
        end = data.index(0, position)
        mode, name = data[position:end].split(b" ", 1)
        entries[name] = (mode.decode(), data[end + 1 : end + 21].hex())
        position = end + 21
    return entries


def _order(item: tuple[bytes, Entry]) -> bytes:
    """Where an entry stands in a tree: a folder as if its name ended in a slash."""
    name, (mode, _) = item
    return name + b"/" if mode == FOLDER else name


def render_tree(entries: Entries) -> bytes:
    """A raw tree object."""
    lines = sorted(entries.items(), key=_order)
    return b"".join(b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid)) for name, (mode, oid) in lines)


def edit_tree(odb: "pygit2.Odb", tree: str | None, wanted: Mapping[bytes, Entry | None]) -> str | None:
    """The id of `tree` with each path set to its entry or, for None, taken out; None when nothing is left.

    Args:
        odb: where trees are read and written.
        tree: None for the empty tree.
        wanted: full path -> entry; a file takes the place of a folder and the reverse.

    Raises:
        KeyError: a folder on the way is not in `odb`.

    Side effects: writes trees.
    """
    entries = _load(odb, tree) if tree is not None else {}
    direct = {path: entry for path, entry in wanted.items() if b"/" not in path}
    for name, entry in direct.items():
        if entry is None and entries.get(name, (FOLDER, ""))[0] != FOLDER:
            del entries[name]
    for name, below in _by_folder(wanted).items():
        _edit_folder(odb, entries, name, below)
    entries |= {name: entry for name, entry in direct.items() if entry is not None}
    return write_object(odb, "tree", render_tree(entries)) if entries else None


def _by_folder(wanted: Mapping[bytes, Entry | None]) -> dict[bytes, dict[bytes, Entry | None]]:
    grouped: dict[bytes, dict[bytes, Entry | None]] = {}
    for path, entry in wanted.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            grouped.setdefault(name, {})[rest] = entry
    return grouped


def _edit_folder(odb: "pygit2.Odb", entries: Entries, name: bytes, below: Mapping[bytes, Entry | None]) -> None:
    mode, oid = entries.get(name, (FOLDER, None))
    edited = edit_tree(odb, oid if mode == FOLDER else None, below)
    if edited is not None:
        entries[name] = (FOLDER, edited)
    elif mode == FOLDER:
        entries.pop(name, None)


def _load(odb: "pygit2.Odb", tree: str) -> Entries:
    import pygit2

    kind, data = odb.read(pygit2.Oid(hex=tree))
    if kind != pygit2.enums.ObjectType.TREE:
        raise KeyError(tree)
    return parse_tree(data)


def write_object(odb: "pygit2.Odb", kind: str, data: bytes) -> str:
    """Store one object durably and say its id; `kind` is blob, tree or commit. Of a sha1 repository.

    Side effects: writes and fsyncs a loose object, unless it exists.
    """
    import pygit2

    oid = pygit2.Oid(
        hex=hashlib.sha1(b"%s %d\0%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()
    )
    if not odb.exists(oid):  # libgit2 would write and flush it once more
        pygit2.settings.enable_fsync_gitdir(True)
        odb.write(pygit2.enums.ObjectType[kind.upper()], data)
    return str(oid)


def records(output: bytes) -> Iterator[bytes]:
    """The records of any git command with `-z`."""
    yield from output.split(b"\0")[:-1]
