"""What was installed: a manifest in the project, for everybody, and a record in the common dir, for who takes it away.

The manifest says of which release each file is, so that a change of it can be told from an older text. The record
holds what was there before, byte for byte, and the texts as they were installed, which a later update merges against.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_infra import __version__
from agent_infra.core.hook_settings import Groups
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.stores.atomic import remove_durably, write_atomic

MANIFEST = ".agents/installed.json"
_HELPS = "put it back from git, or remove it and run `agent-infra init` again"


@dataclass(frozen=True)
class Manifest:
    """What a project got, as everybody who has a clone can see.

    Attributes:
        files: path -> SHA-256 of a whole file as it was installed.
        hooks: path -> our entries in a client's settings as they were installed.
    """

    version: str = __version__
    clients: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    hooks: Mapping[str, Groups] = field(default_factory=dict)

    def render(self) -> bytes:
        """The bytes of the file."""
        said = {
            "version": self.version,
            "clients": sorted(self.clients),
            "files": dict(sorted(self.files.items())),
            "hooks": dict(sorted(self.hooks.items())),
        }
        return json.dumps(said, indent=2).encode() + b"\n"


def parse_manifest(data: bytes | None) -> Manifest | None:
    """The manifest of a project, if it has one.

    Raises:
        RefusedError: CLIENT_SETTINGS_INVALID.
    """
    if data is None:
        return None
    try:
        said = json.loads(data)
        return _checked(Manifest(said["version"], tuple(said["clients"]), dict(said["files"]), dict(said["hooks"])))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        message = f"{MANIFEST}, line {line}: it is not as agent-infra writes it ({error}); {_HELPS}"
        raise RefusedError(ErrorCode.CLIENT_SETTINGS_INVALID, message) from error


def _checked(known: Manifest) -> Manifest:
    """The manifest, if its parts are of the kinds they must be; else a TypeError."""
    words = (known.version, *known.clients, *known.files, *known.files.values())
    if not all(isinstance(word, str) for word in words):
        raise TypeError("a name or digest is no string")
    if not all(isinstance(groups, dict) for groups in known.hooks.values()):
        raise TypeError("hooks are no object")
    return known


@dataclass(frozen=True)
class Trace:
    """What was done to one file.

    Attributes:
        after: SHA-256 of what was written; `None` where it was removed.
        before: SHA-256 of what lay there; `None` where nothing did.
    """

    after: str | None
    before: str | None


@dataclass(frozen=True)
class Record:
    """What was done in this clone.

    Attributes:
        files: path -> what was done to it.
        folders: folders that were made, from the root.
    """

    files: Mapping[str, Trace] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    def with_folders(self, folders: Iterator[str]) -> "Record":
        """The record with more folders."""
        return replace(self, folders=tuple(sorted({*self.folders, *folders})))


class RecordStore:
    """The record and the texts it speaks of, in the common dir."""

    def __init__(self, context: Context) -> None:
        self.folder = context.runs.folder / "installed"
        self._path = self.folder / "record.json"

    def load(self) -> Record:
        """The record; an empty one where nothing was installed or nobody can read it."""
        try:
            said: Any = json.loads(self._path.read_bytes())
            files = {path: Trace(trace["after"], trace["before"]) for path, trace in said["files"].items()}
            return Record(files, tuple(said["folders"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return Record()

    def save(self, record: Record) -> None:
        """Keep the record.

        Side effects:
            A file in the common dir.
        """
        files = {path: {"after": trace.after, "before": trace.before} for path, trace in sorted(record.files.items())}
        said = {"version": 1, "files": files, "folders": list(record.folders)}
        data = json.dumps(said, indent=2).encode() + b"\n"
        if not self._path.is_file() or self._path.read_bytes() != data:
            write_atomic(self._path, data)

    def keep(self, data: bytes) -> str:
        """Keep a text; its SHA-256."""
        name = digest(data)
        if not (self.folder / name).is_file():
            write_atomic(self.folder / name, data)
        return name

    def text(self, name: str) -> bytes | None:
        """A text that was kept, if its bytes are still those."""
        try:
            data = (self.folder / name).read_bytes()
        except OSError:
            return None
        return data if digest(data) == name else None

    def forget(self) -> None:
        """Nothing is installed any more.

        Side effects:
            The folder is gone.
        """
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.iterdir()):
            remove_durably(path)
        self.folder.rmdir()


def digest(data: bytes) -> str:
    """SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def path_of(context: Context, name: str) -> Path:
    """Where a file of the project lies: in the primary worktree, as all that is the project's."""
    return context.repo.state_root / name
