"""Hooks that we do not judge, where our folder took the place of another: each is handed on to that folder."""

from pathlib import Path

from agent_infra.git import hook_files, hook_path
from agent_infra.git.repo import Repo
from agent_infra.resources import resource

# handed on whether the hook is there or not, since it may come later
_ALWAYS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "prepare-commit-msg", "post-checkout", "post-merge"),
    *("post-rewrite", "pre-auto-gc", "pre-receive", "update", "post-receive", "post-update"),
    "sendemail-validate",
)
# that one of these exists changes what git does, or costs a process at every turn: only where it was there
_IF_THERE = (
    *("push-to-checkout", "proc-receive", "post-index-change"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)
_EXECUTABLE = 0o755


def hand_on(repo: Repo, previous: str) -> tuple[str, ...]:
    """Write what hands every other hook on to the folder where git looked before.

    Returns:
        One sentence where anything was written.

    Side effects:
        Files in our folder.
    """
    shim = resource("hooks", "through.sh").read_bytes()
    there = Path(repo.worktree, previous)
    wanted = [*_ALWAYS, *(name for name in _IF_THERE if (there / name).is_file())]
    ours = hook_path.folder(repo)
    missing = [name for name in wanted if not _stands(ours / name, shim)]
    for name in missing:
        hook_files.put_file(ours / name, shim, mode=_EXECUTABLE)
    return (f"hand {len(missing)} other hooks on to {previous}",) if missing else ()


def take_away(repo: Repo) -> None:
    """Remove what hands hooks on."""
    for name in (*_ALWAYS, *_IF_THERE):
        path = hook_path.folder(repo) / name
        if hook_files.is_shim(path):
            hook_files.remove(path)


def _stands(path: Path, shim: bytes) -> bool:
    return hook_files.read_small(path) == shim and path.stat().st_mode & 0o777 == _EXECUTABLE
