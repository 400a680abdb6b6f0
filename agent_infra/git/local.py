"""Which objects lie in one object folder itself, alternates not counted; git has no question for that."""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

INDEX_SIGNATURE = b"\xfftOc\x00\x00\x00\x02"
INDEX_TABLE = 8 + 256 * 4  # the ids follow the signature and the 256 counters
SUFFIXES = (".idx", ".rev", ".bitmap", ".mtimes", ".pack")  # without its .idx a pack is invisible, so that goes first


@dataclass(frozen=True)
class Pack:
    """A pack with an index of version 2 (the only one git has written since 2008).

    Attributes:
        path: of the `.pack` file. width: bytes of an object id.
    """

    path: Path
    width: int

    @cached_property
    def _table(self) -> memoryview:
        data = self.path.with_suffix(".idx").read_bytes()
        if data[:8] != INDEX_SIGNATURE:
            return memoryview(b"")
        count = int.from_bytes(data[INDEX_TABLE - 4 : INDEX_TABLE], "big")
        return memoryview(data)[INDEX_TABLE : INDEX_TABLE + count * self.width]

    def _at(self, position: int) -> bytes:
        return bytes(self._table[position * self.width : (position + 1) * self.width])

    def __contains__(self, oid: str) -> bool:
        raw = bytes.fromhex(oid)
        position = bisect_left(range(len(self._table) // self.width), raw, key=self._at)
        return self._at(position) == raw

    def ids(self) -> frozenset[str]:
        """The ids of all its objects."""
        return frozenset(self._at(i).hex() for i in range(len(self._table) // self.width))

    @property
    def is_fixed(self) -> bool:
        """Whether somebody marked it as not to be rewritten."""
        return any(self.path.with_suffix(mark).exists() for mark in (".keep", ".promisor"))

    def remove(self) -> None:
        """Delete it.

        Side effects: removes the files of this pack.
        """
        for suffix in SUFFIXES:
            self.path.with_suffix(suffix).unlink(missing_ok=True)


@dataclass(frozen=True)
class LocalObjects:
    """The loose objects and packs of the object folder at `path`, as they lay there when first looked at.

    Attributes:
        hex_size: digits of an object id.
    """

    path: Path
    hex_size: int

    @cached_property
    def packs(self) -> tuple[Pack, ...]:
        """Packs that have an index."""
        found = sorted((self.path / "pack").glob("pack-*.idx"))
        packs = (p.with_suffix(".pack") for p in found)
        return tuple(Pack(p, self.hex_size // 2) for p in packs if p.exists())

    def find(self, oid: str) -> Path | None:
        """The file that holds an object: its own, or a pack; None when it is not here."""
        loose = self.path / oid[:2] / oid[2:]
        if loose.exists():
            return loose
        return next((p.path for p in self.packs if oid in p), None)

    def loose(self) -> Iterator[tuple[str, Path]]:
        """Every loose object: id and file."""
        for folder in sorted(self.path.glob("[0-9a-f][0-9a-f]")):
            for file in sorted(folder.iterdir()):
                if len(oid := folder.name + file.name) == self.hex_size:
                    yield oid, file

    def leftovers(self) -> Iterator[Path]:
        """Temporary files of a git that died while it wrote here."""
        yield from self.path.glob("[0-9a-f][0-9a-f]/tmp_obj_*")
        yield from self.path.glob("pack/*tmp_*")


def touch(path: Path) -> None:
    """Make a file count as just used, as git does when it is asked to write what exists.

    Side effects: sets the file's times.
    """
    with contextlib.suppress(FileNotFoundError):
        os.utime(path)


def last_used(path: Path) -> float:
    """When a file was last written or used, in seconds since the epoch; now for a file that just vanished."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
