"""An index of our own per worktree, always exactly HEAD's tree: it remembers which files were looked at.

It holds stat data that git itself wrote while reading the files under the present attributes and, in large
repositories, git's cache of untracked files. It is made anew on any doubt, and never from the user's index, whose stat
data may be older than the attributes that count now.

git compares times in whole seconds, so a file that is changed in the very second in which git looked at it, its size
and time of modification put back, would pass for unchanged. Every file and folder whose status changed in that second
is therefore a suspect: its nanoseconds are kept here and compared before git is trusted again.
"""

import fcntl
import hashlib
import json
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_infra.git.objects import WORKSPACE
from agent_infra.git.repo import Repo

VERSION = 1
LARGE = 5_000  # files from which the cache of untracked files is worth its risk
_KEYS = frozenset(
    f"core.{name}"
    for name in ("autocrlf", "eol", "filemode", "symlinks", "attributesfile", "ignorecase", "precomposeunicode")
)
# all that stat can say is asked, whatever the user's own index is content with
_STRICT = ("-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "index.version=2")
_SUSPECTS = 2_000  # beyond which nothing is remembered
_TICK = 50_000_000  # nanoseconds: clocks of file systems are coarser than their digits
_ENTRY = struct.Struct(">IIIIIIIIII")


@dataclass(frozen=True)
class BaseIndex:
    """The index file, and what it was made under."""

    repo: Repo
    quiet: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The index."""
        return self.repo.git_dir / "agent-infra" / "base-index"

    @property
    def _key_path(self) -> Path:
        return self.path.with_name("base-index.json")

    @cached_property
    def env(self) -> dict[str, str]:
        """Variables for git children that work on it; they may renew its stat data."""
        return {"GIT_INDEX_FILE": str(self.path), "GIT_OPTIONAL_LOCKS": "1"}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold others off: two that make it at the same time would meet git's own lock file and fail."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path.with_name("base-index.lock-file"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self.path.with_name(f"{self.path.name}.lock").unlink(missing_ok=True)  # of a git that was killed
            yield
        finally:
            os.close(handle)

    def bring_to(self, head_tree: str, config: Mapping[str, Sequence[str]]) -> bool:
        """Make it HEAD's tree, with the stat data that still counts.

        Returns:
            Whether HEAD's tree is plain: nothing in it at the places that never belong to a fingerprint, and no file
            at `.agents`.

        Raises:
            GitError: GIT_FAILED with git's words; what is there then is made anew next time.

        Side effects: writes the index and its key.
        """
        rules = self._rules(config)
        known = self._known(rules)
        if known is not None and known["tree"] == head_tree:
            return bool(known["plain"])
        self._unlock_key()
        suspects = known["suspects"] if known else {}
        if known is None or self._attributes_moved(str(known["tree"]), head_tree):
            self.forget()
            suspects = {}
            self.git("read-tree", head_tree)
        else:
            self.git("read-tree", "--reset", head_tree)
        wanted = "--untracked-cache" if self.count >= LARGE else "--no-untracked-cache"
        self.git("update-index", wanted, "--force-write-index")
        plain = self._is_plain(head_tree)
        key = {"version": VERSION, "tree": head_tree, "rules": rules, "plain": plain, "suspects": suspects}
        self._write_key(key)
        return plain

    def look(self, *args: str, settings: Sequence[str]) -> bytes:
        """Ask git's status, which renews the stat data, and note what it can't be trusted with next time.

        Raises:
            ValueError: a suspect was changed without git seeing it.
        """
        before, began = self._stamp(), time.time_ns()
        key = json.loads(self._key_path.read_bytes())
        untracked = "true" if self.count >= LARGE else "false"
        answer = self.git(*settings, "-c", f"core.untrackedCache={untracked}", *args)
        if not self._are_still(key["suspects"]):
            self._unlock_key()
            raise ValueError("a file was changed in the second in which git looked at it")
        if self._stamp() == before and key["suspects"] == {}:
            return answer
        suspects = self._suspects(began)
        if suspects is None:
            self._unlock_key()
        elif suspects != key["suspects"]:
            self._write_key(key | {"suspects": suspects})
        return answer

    def forget(self) -> None:
        """Remove it; the next snapshot makes it anew."""
        for path in (self._key_path, self.path, self.path.with_name(f"{self.path.name}.lock")):
            path.unlink(missing_ok=True)

    @property
    def count(self) -> int:
        """How many files it holds."""
        with self.path.open("rb") as file:
            header = file.read(12)
        return int.from_bytes(header[8:12], "big") if len(header) == 12 else 0

    def _known(self, rules: str) -> dict[str, Any] | None:
        """What the index was made under; None where it does not count any more."""
        try:
            found = json.loads(self._key_path.read_bytes())
            is_fit = found["version"] == VERSION and found["rules"] == rules and self.path.exists()
            still = self._are_still(found["suspects"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if is_fit and still else None

    def _are_still(self, suspects: Mapping[str, int]) -> bool:
        """Whether none was touched since it was noted."""
        return all(_changed_at(self._full(name)) == when for name, when in suspects.items())

    def _suspects(self, began: int) -> dict[str, int] | None:
        """Files and folders whose status changed in the second of the look, with when; None for too many or too close.

        Args:
            began: nanoseconds; when git began to look.
        """
        second = began // 1_000_000_000
        found: dict[str, int] = {}
        folders = {b""}
        for path, changed in self._entries():
            folders.add(path.rpartition(b"/")[0])
            if changed // 1_000_000_000 >= second:
                found[path.decode("utf-8", "surrogateescape")] = changed
        if self.count >= LARGE:
            for folder in folders:
                changed = _changed_at(self._full(os.fsdecode(folder)))
                if changed // 1_000_000_000 >= second:
                    found[os.fsdecode(folder)] = changed
        if len(found) > _SUSPECTS or any(changed >= began - _TICK for changed in found.values()):
            return None
        return found

    def _full(self, name: str) -> Path:
        return self.repo.worktree / name

    def _entries(self) -> Iterator[tuple[bytes, int]]:
        """Every path of the index with the time of its last change of status, in nanoseconds.

        Raises:
            ValueError: an index of another version.
        """
        data = self.path.read_bytes()
        if data[:4] != b"DIRC" or data[4:8] != b"\0\0\0\2":
            raise ValueError("the base index is of another version")
        position, width = 12, self.repo.hex_size // 2
        for _ in range(int.from_bytes(data[8:12], "big")):
            seconds, nanoseconds = _ENTRY.unpack_from(data, position)[:2]
            start = position + _ENTRY.size + width + 2
            end = data.index(b"\0", start)
            yield data[start:end], seconds * 1_000_000_000 + nanoseconds
            # an entry is padded with 1 to 8 zeros to a multiple of eight bytes
            position += (end - position + 8) // 8 * 8

    def _stamp(self) -> tuple[int, int]:
        """Tells whether the index was written anew."""
        found = self.path.stat()
        return found.st_ino, found.st_mtime_ns

    def _unlock_key(self) -> None:
        """Whatever happens now, a half-made index must not pass for a good one."""
        with suppress(FileNotFoundError):
            self._key_path.unlink()

    def _write_key(self, key: Mapping[str, Any]) -> None:
        fresh = self._key_path.with_suffix(".new")
        fresh.write_text(json.dumps(key), encoding="utf-8")
        fresh.replace(self._key_path)

    def _attributes_moved(self, before: str, after: str) -> bool:
        """Whether the way from one tree to another touches a file of attributes: stat data says nothing about those."""
        asked = ("diff-tree", "-r", "--no-renames", "--name-only", before, after, "--", ":(glob)**/.gitattributes")
        done = self.repo.run(*asked, check=False)
        return done.code != 0 or bool(done.stdout)

    def _rules(self, config: Mapping[str, Sequence[str]]) -> str:
        """A digest of all that says how a file becomes a blob, the trees aside."""
        found = {
            key: list(values)
            for key, values in sorted(config.items())
            if key in _KEYS or key.startswith(("filter.", "extensions.", "core.checkroundtripencoding"))
        }
        digest = hashlib.sha256(json.dumps(found).encode())
        for path in self._attribute_files(config):
            try:
                digest.update(path.read_bytes() + b"\0")
            except OSError:
                digest.update(b"\0\0")
        return digest.hexdigest()

    def _attribute_files(self, config: Mapping[str, Sequence[str]]) -> tuple[Path, ...]:
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - no HOME, no error
        configured = config.get("core.attributesfile", [f"{home}/git/attributes"])[-1]
        named = self.repo.worktree / os.path.expanduser(configured)  # noqa: PTH111 - as above
        return (self.repo.common_dir / "info" / "attributes", named)

    def git(self, *args: str) -> bytes:
        """Ask git about this index."""
        return self.repo.run(*self.quiet, *_STRICT, *args, env=self.env).stdout

    def _is_plain(self, head_tree: str) -> bool:
        asked = ("ls-tree", "-z", "--full-tree", head_tree, "--", WORKSPACE, ".agent-infra", ".agents")
        listed = self.repo.run(*asked).stdout
        entries = [record.partition(b"\t")[::2] for record in listed.split(b"\0") if record]
        return all(name == b".agents" and head.split(b" ")[1] == b"tree" for head, name in entries)


def _changed_at(path: Path) -> int:
    """When the status of a file last changed, in nanoseconds; 0 where it is gone."""
    try:
        return path.lstat().st_ctime_ns
    except OSError:
        return 0
