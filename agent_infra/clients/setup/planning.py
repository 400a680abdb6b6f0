"""What `init` would write for the clients of a project. It reads every file first: one that can't be read stops it all.

Nothing of a person's is overwritten: what differs from what was installed stays as it is, and is named.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from agent_infra.clients.setup import wanted
from agent_infra.clients.setup.record import MANIFEST, Manifest, digest, parse_manifest, path_of
from agent_infra.clients.setup.wanted import Entries, Whole
from agent_infra.core import hook_settings, thread_setting
from agent_infra.core.json_text import JsonTextError
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.services.context import Context
from agent_infra.stores.atomic import read_regular

_FEW = 2
_Made = TypeVar("_Made")
LIMIT = 4 << 20  # bytes of a settings file


@dataclass(frozen=True)
class Change:
    """One file that would be written.

    Attributes:
        before: what lies there; `None` for nothing.
        after: what will lie there; `None` for nothing.
        says: what that means for people.
    """

    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None
    says: str


@dataclass(frozen=True)
class Plan:
    """What would be written, the manifest last, and what stays though it is not what this release installs.

    Attributes:
        kept: sentences about files that were left alone.
        manifest: what the project has afterwards.
    """

    changes: tuple[Change, ...] = ()
    kept: tuple[str, ...] = ()
    manifest: Manifest = field(default_factory=Manifest)


def plan(context: Context, clients: Sequence[str]) -> Plan:
    """What is missing for these clients and those that the project has already.

    Raises:
        UsageError: for a client for which nothing can be installed.
        RefusedError: CLIENT_SETTINGS_INVALID for a file that can't be read or merged, with its line.
    """
    wanted.check_clients(clients)
    known = parse_manifest(read(context, MANIFEST))
    of = tuple(dict.fromkeys((*(known.clients if known else ()), *clients)))
    found = Plan(manifest=replace(known or Manifest(), clients=of))
    for whole in wanted.files(of):
        found = _with_whole(found, whole, read(context, whole.path))
    for entry in wanted.entries(of):
        found = with_entries(found, entry, read(context, entry.path))
    return with_manifest(found, read(context, MANIFEST))


def with_manifest(found: Plan, before: bytes | None) -> Plan:
    """The plan with the manifest as its last change, if that is not what it must be."""
    data = found.manifest.render()
    if before == data:
        return found
    change = Change(MANIFEST, before, data, None, f"file {MANIFEST}")
    return replace(found, changes=(*found.changes, change))


def in_short(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines about files for people: where several of a folder say the same, only the folder and their number."""
    keys = [_kind_of(line) for line in lines]
    counted = {key: keys.count(key) for key in keys if key}
    said = (
        line if key is None or counted[key] <= _FEW else f"{key[0]}{counted[key]} files in {key[1]}"
        for line, key in zip(lines, keys, strict=True)
    )
    return tuple(dict.fromkeys(said))


def _kind_of(line: str) -> tuple[str, str] | None:
    """What a line says of a file, and the folder of that, two levels deep; `None` where it says more."""
    verb, _, path = line.partition(" ")
    parts = path.split("/")
    if verb not in ("file", "removed") or " " in path or len(parts) <= _FEW or path.startswith("/"):
        return None
    return "" if verb == "file" else f"{verb} ", "/".join(parts[:2])


def _with_whole(found: Plan, whole: Whole, there: bytes | None) -> Plan:
    installed = found.manifest.files.get(whole.path)
    known = replace(found.manifest, files={**found.manifest.files, whole.path: digest(whole.data)})
    if there == whole.data:
        return replace(found, manifest=known)
    if there is None:
        change = Change(whole.path, None, whole.data, whole.mode, f"file {whole.path}")
        return replace(found, changes=(*found.changes, change), manifest=known)
    if installed is None:
        said = f"kept {whole.path}: it was there before, and is not what agent-infra would write"
    elif installed == digest(there):
        said = f"kept {whole.path}: it is of another release; `agent-infra init --update` renews it"
    elif installed == digest(whole.data):
        return found  # a person's version of what this release installs
    else:
        said = f"kept {whole.path}: it was changed here; `agent-infra init --update` merges what is new"
    return replace(found, kept=(*found.kept, said))


def with_entries(found: Plan, entry: Entries, there: bytes | None) -> Plan:
    """The plan with entries of ours in somebody else's file.

    Raises:
        RefusedError: CLIENT_SETTINGS_INVALID.
    """
    text = text_of(entry.path, there)
    if entry.groups is None:
        after = guarded(entry.path, text, thread_setting.with_threads)
        return _with_text(found, entry, there, after)
    installed = found.manifest.hooks.get(entry.path)
    merged = guarded(entry.path, text, lambda known: hook_settings.with_hooks(known, entry.groups or {}))
    found = _with_text(found, entry, there, merged.text)
    if merged.changed_by_people:
        if installed is not None and installed != entry.groups:
            said = f"kept the entries of another release in {entry.path}; `agent-infra init --update` renews them"
            return replace(found, kept=(*found.kept, said))
        if installed is None:
            events = ", ".join(merged.changed_by_people)
            said = f"kept {entry.path}: its entries of agent-infra for {events} are not what this release writes"
            return replace(found, kept=(*found.kept, said))
        return found
    return replace(found, manifest=replace(found.manifest, hooks={**found.manifest.hooks, entry.path: entry.groups}))


def _with_text(found: Plan, entry: Entries, there: bytes | None, text: str) -> Plan:
    after = text.encode()
    if there is not None and after == there:
        return found
    what = "hooks" if entry.groups is not None else f"[{thread_setting.TABLE}] {thread_setting.KEY}"
    says = f"file {entry.path}" if there is None else f"{what} in {entry.path}"
    return replace(found, changes=(*found.changes, Change(entry.path, there, after, None, says)))


def text_of(path: str, data: bytes | None) -> str:
    """The text of a settings file; the empty one of its kind where nothing lies.

    Raises:
        RefusedError: CLIENT_SETTINGS_INVALID for bytes that are no UTF-8.
    """
    if data is None:
        return "" if path.endswith(".toml") else hook_settings.EMPTY
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _invalid(path, line, "it is not UTF-8") from error


def guarded(path: str, text: str, change: Callable[[str], _Made]) -> _Made:
    """What a change of settings makes of them; where it can't be done, the refusal names file and line.

    Raises:
        RefusedError: CLIENT_SETTINGS_INVALID.
    """
    try:
        return change(text)
    except JsonTextError as error:
        raise _invalid(path, error.line, str(error)) from error


def read(context: Context, name: str) -> bytes | None:
    """The bytes of a file of the project, `None` where nothing lies.

    Raises:
        RefusedError: CLIENT_SETTINGS_INVALID for a symlink, here or on the way, or whatever else is no regular file.
    """
    path = path_of(context, name)
    for folder in reversed(path.relative_to(context.repo.state_root).parents):
        place = context.repo.state_root / folder
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            what = "a symlink" if place.is_symlink() else "no folder"
            raise _invalid(name, None, f"{folder} is {what}, expected a folder of the project")
    try:
        return read_regular(path, limit=LIMIT)
    except AgentInfraError as error:
        raise _invalid(name, None, error.message) from error


def _invalid(path: str, line: int | None, why: str) -> RefusedError:
    where = path if line is None else f"{path}, line {line}"
    return RefusedError(ErrorCode.CLIENT_SETTINGS_INVALID, f"{where}: {why}; nothing was written")
