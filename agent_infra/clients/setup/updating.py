"""`init --update`: what this release installs, merged into what people made of an earlier one.

All or nothing: where a person and a release changed the same lines, nothing is written, and both are shown. People
then say which one stands (`--keep`, `--take`), or bring the file into shape and keep that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent_infra import __version__
from agent_infra.clients.setup import wanted
from agent_infra.clients.setup.merging import base_of, merged
from agent_infra.clients.setup.planning import Change, Plan, guarded, plan, read, text_of, with_entries, with_manifest
from agent_infra.clients.setup.record import MANIFEST, Manifest, RecordStore, digest, parse_manifest
from agent_infra.clients.setup.wanted import Entries, Whole
from agent_infra.core import hook_settings
from agent_infra.errors import ErrorCode, RefusedError, UsageError
from agent_infra.services.context import Context

_SHOWN = 60  # lines of one conflict


@dataclass(frozen=True)
class Choice:
    """What people say about files where they and a release disagree.

    Attributes:
        keep: paths that stay as they are.
        take: paths that become what this release installs.
    """

    keep: tuple[str, ...] = ()
    take: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Update:
    """What would be written, and what stands against it.

    Attributes:
        conflicts: path -> the two texts in one, for people.
    """

    plan: Plan
    conflicts: dict[str, str] = field(default_factory=dict)

    def change(self, change: Change | None, known: Manifest) -> "_Update":
        changes = self.plan.changes if change is None else (*self.plan.changes, change)
        return replace(self, plan=replace(self.plan, changes=changes, manifest=known))

    def conflict(self, path: str, shown: str) -> "_Update":
        return replace(self, conflicts={**self.conflicts, path: shown})


def plan_update(context: Context, clients: Sequence[str], choice: Choice) -> Plan:
    """What an update writes; what is missing is added as by `init`.

    Raises:
        UsageError: for a client or a path that is not known here.
        RefusedError: INSTALL_CONFLICT with both texts as notes; CLIENT_SETTINGS_INVALID.
    """
    before = read(context, MANIFEST)
    known = parse_manifest(before)
    if known is None:
        return plan(context, clients)
    wanted.check_clients(clients)
    known = replace(known, version=__version__, clients=tuple(dict.fromkeys((*known.clients, *clients))))
    _check_choice(known, choice)
    store = RecordStore(context)
    found = _Update(Plan(manifest=known))
    for whole in wanted.files(known.clients):
        found = _with_whole(context, store, found, whole, choice)
    found = _with_dropped(context, found)
    for entry in wanted.entries(known.clients):
        found = _with_entries(context, found, entry, choice)
    if found.conflicts:
        raise _conflict(found.conflicts)
    return with_manifest(found.plan, before)


def _check_choice(known: Manifest, choice: Choice) -> None:
    paths = {file.path for file in wanted.files(known.clients)} | {each.path for each in wanted.entries(known.clients)}
    for path in (*choice.keep, *choice.take):
        if path not in paths:
            message = f"{path} is none of the files that are installed here; .agents/installed.json lists them"
            raise UsageError(ErrorCode.ORCHESTRATION_PAYLOAD_INVALID, message)
    if both := sorted({*choice.keep} & {*choice.take}):
        raise UsageError(ErrorCode.ORCHESTRATION_PAYLOAD_INVALID, f"{both[0]} can't be kept and taken at once")


def _with_whole(context: Context, store: RecordStore, found: _Update, whole: Whole, choice: Choice) -> _Update:
    path, manifest = whole.path, found.plan.manifest
    installed, there = manifest.files.get(path), read(context, path)
    known = replace(manifest, files={**manifest.files, path: digest(whole.data)})
    if there == whole.data or path in choice.keep:
        return found.change(None, known)
    renewed = Change(path, there, whole.data, whole.mode, f"file {path}")
    if there is None or path in choice.take or installed == digest(there):
        return found.change(renewed, known)
    if installed is None:
        return replace(found, plan=replace(found.plan, kept=(*found.plan.kept, f"kept {path}: it is not ours")))
    if installed == digest(whole.data):
        return found  # nothing new: a person's version stands
    base = base_of(context, store, path, installed)
    if base is None:
        return found.conflict(path, "the text that was installed is not here any more, so nothing can be merged")
    made = merged(context, yours=there, base=base, ours=whole.data)
    if not made.is_clean:
        return found.conflict(path, made.text.decode(errors="replace"))
    return found.change(replace(renewed, after=made.text, mode=None, says=f"{path}, with your changes"), known)


def _with_dropped(context: Context, found: _Update) -> _Update:
    """Files of an earlier release that this one has no more: removed if nobody changed them."""
    now = {file.path for file in wanted.files(found.plan.manifest.clients)}
    for path, installed in sorted(found.plan.manifest.files.items()):
        if path in now:
            continue
        there = read(context, path)
        known = found.plan.manifest
        known = replace(known, files={name: each for name, each in known.files.items() if name != path})
        if there is not None and digest(there) == installed:
            found = found.change(Change(path, there, None, None, f"took away {path}, which is no longer used"), known)
        else:
            kept = () if there is None else (f"kept {path}: it is no longer used, but you changed it",)
            found = replace(found, plan=replace(found.plan, manifest=known, kept=(*found.plan.kept, *kept)))
    return found


def _with_entries(context: Context, found: _Update, entry: Entries, choice: Choice) -> _Update:
    manifest, there = found.plan.manifest, read(context, entry.path)
    if entry.groups is None or entry.path not in manifest.hooks:
        return _as_init(context, found, entry)
    known = replace(manifest, hooks={**manifest.hooks, entry.path: entry.groups})
    if entry.path in choice.keep:
        return found.change(None, known)
    groups, base = entry.groups, manifest.hooks[entry.path]
    text = text_of(entry.path, there)
    if entry.path in choice.take:
        text = guarded(entry.path, text, hook_settings.without_hooks)
    made = guarded(entry.path, text, lambda text: hook_settings.with_hooks(text, groups, base))
    if made.conflicts:
        events = ", ".join(made.conflicts)
        return found.conflict(entry.path, f"its hooks for {events} were changed here and by this release")
    after = made.text.encode()
    change = None if after == there else Change(entry.path, there, after, None, f"hooks in {entry.path}")
    return found.change(change, known)


def _as_init(context: Context, found: _Update, entry: Entries) -> _Update:
    """An entry that is new here, or has only one form, goes in as `init` puts it in."""
    return replace(found, plan=with_entries(found.plan, entry, read(context, entry.path)))


def _conflict(conflicts: dict[str, str]) -> RefusedError:
    first = next(iter(conflicts))
    message = (
        f"{', '.join(conflicts)} can't be merged, so nothing was written; bring it into shape and say "
        f"`agent-infra init --update --keep {first}`, or take this release's with `--take {first}`"
    )
    notes = [f"{path}:\n{_cut(shown)}" for path, shown in conflicts.items()]
    return RefusedError(ErrorCode.INSTALL_CONFLICT, message, *notes)


def _cut(shown: str) -> str:
    """A conflict with some lines around it, for a terminal."""
    lines = shown.splitlines()
    marks = [number for number, line in enumerate(lines) if line.startswith(("<<<<<<< ", ">>>>>>> "))]
    if marks:
        lines = lines[max(marks[0] - 3, 0) : marks[-1] + 4]
    more = [f"… {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    return "\n".join(f"    {line}" for line in (*lines[:_SHOWN], *more))
