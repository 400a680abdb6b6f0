"""Three texts of one file made into one: as it was installed, as people have it now, as this release installs it."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent_infra.clients.setup.record import RecordStore, digest
from agent_infra.git.repo import failure, git_process
from agent_infra.services.context import Context
from agent_infra.stores.atomic import write_atomic
from agent_infra.stores.throwaway import throwaway

_LABELS = ("yours", "as it was installed", "this release")
_FAILED = 128
_COMMITS = 200  # how far back the history of a file is searched for the text that was installed


@dataclass(frozen=True)
class Merge:
    """What became of a merge.

    Attributes:
        text: the one text; with conflict markers where both changed the same lines.
        is_clean: no line was changed by both.
    """

    text: bytes
    is_clean: bool


def merged(context: Context, *, yours: bytes, base: bytes, ours: bytes) -> Merge:
    """The three-way merge that git makes.

    Raises:
        GitError: GIT_FAILED for what git takes for no text.
        OSError: the disk says no.

    Side effects:
        A folder in the common dir, gone afterwards.
    """
    with throwaway(context.runs.folder) as folder:
        paths = [folder / name for name in ("yours", "base", "ours")]
        for path, data in zip(paths, (yours, base, ours), strict=True):
            write_atomic(path, data)
        labels = [word for label in _LABELS for word in ("-L", label)]
        argv = ("merge-file", "-p", "--diff3", *labels, *map(str, paths))
        done = git_process(*argv, cwd=folder)
    if not 0 <= done.code < _FAILED:  # else it is the number of conflicts
        raise failure(argv, done)
    return Merge(done.stdout, is_clean=done.code == 0)


def base_of(context: Context, store: RecordStore, path: str, name: str) -> bytes | None:
    """The text that was installed, by its SHA-256: kept by this clone's `init`, else in the history of the file."""
    kept = store.text(name)
    if kept is not None:
        return kept
    return next((data for data in _history(context, path) if digest(data) == name), None)


def _history(context: Context, path: str) -> Iterator[bytes]:
    """What a file held in the commits that changed it, the newest first."""
    listed = context.repo.run("rev-list", "--all", f"--max-count={_COMMITS}", "--", f":/{path}", check=False)
    for commit in listed.stdout.decode().split():
        found = context.repo.run("cat-file", "blob", f"{commit}:{path}", check=False)
        if found.code == 0:
            yield found.stdout
