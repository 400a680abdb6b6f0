"""Our shims in a repository's hooks folder: render, recognise, install, uninstall.

Whether a commit may be made is decided elsewhere; here is only who is asked. Hooks that were there before are kept
under `<common dir>/agent-infra/hooks/moved/`, from where the shims call them first. Where `core.hooksPath` is set, the
hooks stay where they are, and our folder takes the place of theirs.
"""

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import hook_beside, hook_files, hook_managers, hook_path
from agent_infra.git.repo import Repo
from agent_infra.resources import resource

# those without which a commit or a branch could slip through
GUARDS = ("pre-commit", "pre-merge-commit", "commit-msg", "post-commit", "pre-rebase", "reference-transaction")
HOOKS = (*GUARDS, "pre-push")

# git calls it after the fact: neither its own failure nor that of an earlier hook can or should stop anything
_AFTER_THE_FACT = frozenset({"post-commit"})
_PLACES = re.compile("@(HOOK|VETOES|COMMON_DIR|PROGRAM)@")
_QUOTED = rb"(?:[\w@%+=:,./-]+|'[^']*'(?:\"'\"'[^']*')*)"  # what `shlex.quote` writes
_EXECUTABLE = 0o755

Kind = Literal["absent", "ours", "stale", "foreign", "inactive", "not-executable"]


@dataclass(frozen=True)
class HookState:
    """What lies at one hook's place.

    Attributes:
        kind: `ours` as we would write it for this or another place of the repository and the program; `stale` has
            our marker and other content; `not-executable` is ours, but git does not call it; `foreign` is somebody
            else's; `inactive` is somebody else's that git does not call.
    """

    name: str
    path: Path
    kind: Kind


@dataclass(frozen=True)
class HooksReport:
    """Which hooks git calls in a repository, and whose they are.

    Attributes:
        hooks_path: the folder git looks in.
        configured: value of `core.hooksPath` and where it comes from, for people; `None` where it is unset.
        owned: the folder belongs to this repository alone, so shims may live in it.
    """

    hooks_path: Path
    configured: str | None
    owned: bool
    states: tuple[HookState, ...]


def shim_template() -> str:
    """The text that every shim is rendered from."""
    return resource("hooks", "shim.sh").read_text(encoding="utf-8")


def render_shim(name: str, *, common_dir: Path, program: str | Path, template: str) -> bytes:
    """The shim for the git hook `name`.

    Args:
        name: one of `HOOKS`.
        common_dir: absolute; what the shim falls back on where its own folder says nothing.
        program: absolute path of `agent-infra`; `$AGENT_INFRA` goes before it, PATH after it.
        template: of `shim_template`.
    """
    values = {
        "HOOK": name,
        "VETOES": "0" if name in _AFTER_THE_FACT else "1",
        "COMMON_DIR": shlex.quote(os.fsdecode(common_dir)),
        "PROGRAM": shlex.quote(os.fsdecode(program)),
    }
    return os.fsencode(_PLACES.sub(lambda place: values[place[1]], template))


def inspect(repo: Repo, *, program: str | Path, template: str) -> HooksReport:  # noqa: ARG001 (callers pass the same three to install)
    """Look at the hooks that git would call in this worktree. Changes nothing."""
    hooks_path = _hooks_path(repo)
    setting = hook_path.current(repo)
    configured = None if setting is None else str(setting)
    return HooksReport(
        hooks_path=hooks_path,
        configured=configured,
        owned=_is_owned(hooks_path, repo.common_dir, by_choice=configured is not None),
        states=tuple(_state(hooks_path / name, template) for name in HOOKS),
    )


def are_effective(report: HooksReport) -> bool:
    """Whether git asks us about every commit and every branch here."""
    return report.owned and not unguarded(report)


def unguarded(report: HooksReport) -> tuple[HookState, ...]:
    """The hooks by which something could slip through."""
    return tuple(state for state in report.states if state.kind != "ours" and state.name in GUARDS)


def install(repo: Repo, *, program: str | Path, template: str) -> tuple[str, ...]:
    """Make git ask us, and keep what it asked before.

    Returns:
        One sentence for each thing that changed; nothing when all was in place.

    Raises:
        RefusedError: INSTALL_REFUSED, with nothing changed, where `core.hooksPath` can't be taken over, the hooks
            folder is not this repository's own or something that is no hook lies at a hook's place;
            STORE_WRITE_FAILED where the disk says no.

    Side effects:
        Writes shims; moves earlier hooks to `<common dir>/agent-infra/hooks/moved/`, or sets `core.hooksPath`.
    """
    report = inspect(repo, program=program, template=template)
    hook_path.check(repo)
    render = partial(render_shim, common_dir=repo.common_dir, program=program, template=template)
    if report.configured is not None and (not report.owned or hook_path.previous(repo) is not None):
        return _install_beside(repo, report, render, template)
    _check_installable(report)
    moved = _moved_folder(repo)
    with hook_files.named_write_errors():
        report.hooks_path.mkdir(parents=True, exist_ok=True)
        changes = [change for state in report.states for change in _take_place(state, render(state.name), moved)]
        _drop_second_names(report.hooks_path, moved)
        if any(os.path.lexists(moved / name) for name in HOOKS):
            _keep_second_names(report.hooks_path, moved)
            hook_files.link_siblings(report.hooks_path, moved, _is_sibling)
    return tuple(changes)


def _install_beside(repo: Repo, report: HooksReport, render: Callable[[str], bytes], template: str) -> tuple[str, ...]:
    """Put our folder in the place of the one that `core.hooksPath` names; nothing in that one is touched."""
    ours = hook_path.folder(repo)
    states = tuple(_state(ours / name, template) for name in HOOKS)
    _check_places(states)
    for state in states:
        if state.kind in {"foreign", "inactive"}:
            message = f"{state.path} was put into a folder of ours; move it to where it belongs; nothing was changed"
            raise RefusedError(ErrorCode.INSTALL_REFUSED, message)
    with hook_files.named_write_errors():
        ours.mkdir(parents=True, exist_ok=True)
        changes = [change for state in states for change in _take_place(state, render(state.name), ours)]
        if not report.owned:
            changes.append(_take_path(repo))
        kept = hook_path.previous(repo)
        changes += hook_beside.hand_on(repo, kept.path) if kept else ()
    return tuple(changes)


def _take_path(repo: Repo) -> str:
    try:
        return hook_path.take(repo)
    except RefusedError:
        _remove_beside(repo)
        for folder in (hook_path.folder(repo), hook_path.folder(repo).parent):
            with suppress(OSError):  # others keep something there
                folder.rmdir()
        raise


def mend(repo: Repo, *, program: str | Path, template: str) -> tuple[str, ...]:
    """Put right what the installation of a known hook manager did to ours; anything else is left as it is.

    Returns:
        What was found and what was changed; nothing where all was in place or nobody is known to have done it.

    Raises:
        RefusedError: as for `install`.

    Side effects:
        As for `install`.
    """
    report = inspect(repo, program=program, template=template)
    if are_effective(report):
        return ()
    manager = _who_took_it(repo, report) if _was_installed(repo) else None
    if manager is None:
        return ()
    return (f"{manager} had put its hooks in the place of ours", *install(repo, program=program, template=template))


def _was_installed(repo: Repo) -> bool:
    """Whether there is anything of ours that a manager may have put aside."""
    names = [*HOOKS, *(name + end for name in HOOKS for end in hook_managers.SECOND_NAMES)]
    shims = any(hook_files.is_shim(folder / name) for folder in _own_folders(repo.common_dir) for name in names)
    return shims or _moved_folder(repo).is_dir()


def _who_took_it(repo: Repo, report: HooksReport) -> str | None:
    """The manager that all faults are of; `None` where one may be somebody else's."""
    if not report.owned:
        setting, kept = hook_path.current(repo), hook_path.previous(repo)
        if setting is None:
            return None
        known = hook_managers.of_folder(Path(repo.worktree, setting.path))
        return known or (f"whoever set {setting.path}" if kept and setting.path == kept.path else None)
    faults = unguarded(report)
    found = [hook_managers.of_hook(state.path) for state in faults if state.kind != "absent"]
    wipes = "simple-git-hooks" in found  # it removes every hook that it has no entry for
    if not found or None in found or (not wipes and len(found) != len(faults)):
        return None
    return found[0]


def uninstall(repo: Repo) -> tuple[str, ...]:
    """Take our shims away and give the hooks that were there before their places again, byte for byte.

    A hook that somebody put in place of our shim later is left, and so is the one that was moved aside before.

    Returns:
        One sentence for each thing that changed or was left for a person to decide.

    Raises:
        RefusedError: STORE_WRITE_FAILED where the disk says no.

    Side effects:
        Removes and renames hooks; removes our folders once they are empty.
    """
    template, moved = shim_template(), _moved_folder(repo)
    with hook_files.named_write_errors():
        changes = _leave_beside(repo)
        hooks_path = _installed_folder(repo)
        states = [_state(hooks_path / name, template) for name in HOOKS]
        changes += [change for state in states for change in _leave_place(state, moved)]
        _drop_second_names(hooks_path, moved)
        if moved.is_dir():
            _leave_second_names(hooks_path, moved)
            hook_files.unlink_siblings(hooks_path, moved)
            changes += [f"left {older}, an earlier {older.stem}" for older in _numbered(moved)]
        for folder in (moved, moved.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    return tuple(changes)


def _leave_beside(repo: Repo) -> list[str]:
    """Give the folder that `core.hooksPath` named its place again."""
    said = hook_path.give_back(repo)
    if said is None:
        return []
    _remove_beside(repo)
    return [said]


def _remove_beside(repo: Repo) -> None:
    hook_beside.take_away(repo)
    for name in HOOKS:
        shim = hook_path.folder(repo) / name
        if hook_files.is_shim(shim):
            hook_files.remove(shim)


def _installed_folder(repo: Repo) -> Path:
    """Where shims of ours may lie; also when git was told later to look elsewhere."""
    report = inspect(repo, program="", template="")
    return report.hooks_path if report.owned else repo.common_dir / "hooks"


def _moved_folder(repo: Repo) -> Path:
    return repo.common_dir / "agent-infra" / "hooks" / "moved"


def _hooks_path(repo: Repo) -> Path:
    """The folder that git looks in, written from the common dir where it is one of ours."""
    called = Path(repo.worktree, repo.text("rev-parse", "--git-path", "hooks"))
    return next((ours for ours in _own_folders(repo.common_dir) if _real(ours) == _real(called)), called)


def _own_folders(common_dir: Path) -> tuple[Path, ...]:
    return common_dir / "hooks", common_dir / "agent-infra" / "hooks"


def _is_owned(hooks_path: Path, common_dir: Path, *, by_choice: bool) -> bool:
    """Whether the folder is this repository's alone: not shared with others, not tracked as part of the product."""
    if not _real(hooks_path).is_relative_to(_real(common_dir)):
        return False
    return not by_choice or hooks_path in _own_folders(common_dir)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # `Path.resolve` raises where symlinks lead in a circle


def _state(path: Path, template: str) -> HookState:
    return HookState(path.name, path, _kind(path, template))


def _kind(path: Path, template: str) -> Kind:
    if not os.path.lexists(path):
        return "absent"
    is_called = os.access(path, os.X_OK)
    if not hook_files.is_shim(path):
        return "foreign" if is_called else "inactive"
    if not _is_rendered(hook_files.read_small(path) or b"", path.name, template):
        return "stale"
    return "ours" if is_called else "not-executable"


def _is_rendered(data: bytes, name: str, template: str) -> bool:
    """Whether `data` is the template with this hook's name, and any place and program written in.

    Both may differ from today's: a repository may be moved, and agent-infra may be installed twice.
    """
    rendered = render_shim(name, common_dir=Path("@COMMON_DIR@"), program="@PROGRAM@", template=template)
    pattern = re.escape(rendered).replace(re.escape(b"@COMMON_DIR@"), _QUOTED).replace(re.escape(b"@PROGRAM@"), _QUOTED)
    return re.fullmatch(pattern, data) is not None


def _check_installable(report: HooksReport) -> None:
    if not report.owned:
        message = (
            f"the hooks folder {report.hooks_path} leads to {_real(report.hooks_path)}, which is not this "
            "repository's own; replace the symlink by a folder; nothing was changed"
        )
        raise RefusedError(ErrorCode.INSTALL_REFUSED, message)
    if os.path.lexists(report.hooks_path) and not report.hooks_path.is_dir():
        message = f"the hooks folder {report.hooks_path} is no folder; remove it; nothing was changed"
        raise RefusedError(ErrorCode.INSTALL_REFUSED, message)
    _check_places(report.states)


def _check_places(states: tuple[HookState, ...]) -> None:
    for state in states:
        if os.path.lexists(state.path) and not _is_hook(state.path):
            message = f"{state.path} is neither a file nor a symlink; remove it; nothing was changed"
            raise RefusedError(ErrorCode.INSTALL_REFUSED, message)


def _is_hook(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not path.is_dir())


def _take_place(state: HookState, shim: bytes, moved: Path) -> Iterator[str]:
    """Put our shim at one hook's place; what somebody else had there goes aside first."""
    if state.kind == "ours" and hook_files.read_small(state.path) == shim:
        return
    if state.kind in {"foreign", "inactive"}:
        moved.mkdir(parents=True, exist_ok=True)
        older = hook_files.set_aside(state.path, moved)
        manager = hook_managers.of_hook(state.path)
        if older is not None and manager is not None and hook_managers.of_hook(older) == manager:
            hook_files.remove(older)  # the same manager's, renewed
        elif older is not None:
            yield f"kept the {state.name} moved aside before as {older}"
        runs = "which runs first" if state.kind == "foreign" else "which git did not call either"
        yield f"moved {state.path} to {moved / state.name}, {runs}"
    hook_files.put_file(state.path, shim, mode=_EXECUTABLE)
    yield f"{'installed' if state.kind in {'absent', 'foreign', 'inactive'} else 'renewed'} {state.path}"


def _leave_place(state: HookState, moved: Path) -> Iterator[str]:
    """Undo `_take_place` for one hook."""
    aside = moved / state.name
    if state.kind in {"foreign", "inactive"}:
        if hook_files.is_same_hook(state.path, aside):
            hook_files.remove(aside)  # an installation was cut off between its two steps
        elif os.path.lexists(aside):
            yield f"left {state.path}, which came after ours, and {aside}, which was there before; keep one"
    elif os.path.lexists(aside):
        hook_files.put_back(aside, state.path)
        yield f"put {state.path} back"
    elif state.kind != "absent":
        hook_files.remove(state.path)
        yield f"removed {state.path}"


def _is_sibling(path: Path) -> bool:
    """Whether a hook that was moved aside may look for this file beside itself."""
    if path.name in HOOKS or path.name.startswith(".") or path.suffix == ".sample":
        return False
    # another tool may have set our own shim aside: called from there it would lead back to where it came from
    return not hook_files.is_shim(path)


def _keep_second_names(hooks_path: Path, moved: Path) -> None:
    """Keep what a manager calls in turn: installed again, it would put our shim over it."""
    for path in _second_names(hooks_path):
        aside = moved / path.name
        if path.is_file() and not path.is_symlink() and not hook_files.is_shim(path) and not os.path.lexists(aside):
            hook_files.set_aside(path, moved)


def _drop_second_names(hooks_path: Path, moved: Path) -> None:
    """Take away shims of ours that a manager put aside, and give back what they lie over."""
    for path in _second_names(hooks_path):
        aside = moved / path.name
        if hook_files.is_shim(path):
            hook_files.remove(path)
            if aside.is_file() and not aside.is_symlink():
                hook_files.put_back(aside, path)


def _leave_second_names(hooks_path: Path, moved: Path) -> None:
    """Undo `_keep_second_names`; one that was written anew meanwhile is left, and so is the older."""
    for path in _second_names(hooks_path):
        aside = moved / path.name
        if not aside.is_file() or aside.is_symlink():
            continue
        if hook_files.is_same_hook(path, aside):
            hook_files.remove(aside)
        elif not os.path.lexists(path):
            hook_files.put_back(aside, path)


def _second_names(folder: Path) -> list[Path]:
    return [folder / (name + end) for name in HOOKS for end in hook_managers.SECOND_NAMES]


def _numbered(moved: Path) -> list[Path]:
    return [path for path in sorted(moved.iterdir()) if path.stem in HOOKS and path.suffix[1:].isdecimal()]
