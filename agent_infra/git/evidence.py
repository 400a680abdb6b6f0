"""The chain of evidence commits of a run, on a ref that a clone can fetch.

The journal is the truth; what stands here is its mirror. The objects go to the repository's own store, since the ref
needs them there. Nothing here depends on the user's configuration: no identity, no signing, no hook.
"""

from collections.abc import Mapping
from datetime import datetime

from agent_infra.errors import ErrorCode, GitError
from agent_infra.git.objects import DURABLE
from agent_infra.git.repo import Repo, failure
from agent_infra.git.trees import FOLDER, Entries, attempt, records, render_tree, write_object

RUNS = "refs/agent-infra/runs/"
TRACKED = "refs/agent-infra/remotes/"  # <remote>/runs/<task>: what another repository held when it was last asked
JOURNAL = "journal.jsonl"
IDENTITY = "agent-infra <agent-infra@localhost>"
ATTEMPTS = 20
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")

Folder = dict[str, "bytes | Folder"]


def ref_name(task_id: str) -> str:
    """The ref that holds the evidence of a task."""
    return f"{RUNS}{task_id}"


def head(repo: Repo, task_id: str) -> str | None:
    """The newest evidence commit of a task; None without evidence."""
    done = repo.run("rev-parse", "-q", "--verify", f"{ref_name(task_id)}^{{commit}}", check=False)
    return done.stdout.decode().strip() or None


def heads(repo: Repo) -> dict[str, str]:
    """Task -> newest evidence commit, of all tasks that have evidence here, sorted."""
    listed = repo.text("for-each-ref", "--format=%(objectname) %(refname)", RUNS)
    pairs = (line.split(" ", 1) for line in listed.splitlines())
    return {name.removeprefix(RUNS): oid for oid, name in pairs}


def read(repo: Repo, task_id: str) -> dict[str, bytes] | None:
    """The files of the newest evidence by their path in it; None without evidence.

    Raises:
        GitError: GIT_FAILED when the evidence is there and can't be read.
    """
    commit = head(repo, task_id)
    if commit is None:
        return None
    listed = [record.partition(b"\t") for record in records(repo.run("ls-tree", "-r", "-z", commit).stdout)]
    oids = [entry.split(b" ")[2] for entry, _, _ in listed]
    answer = repo.run("cat-file", "--batch", stdin=b"".join(oid + b"\n" for oid in oids)).stdout
    found: dict[str, bytes] = {}
    position = 0
    for _, _, name in listed:
        end = answer.index(b"\n", position)
        header = answer[position:end].split(b" ")
        if len(header) != 3:
            raise GitError(
                ErrorCode.GIT_FAILED, f"the evidence of {task_id} is incomplete: {header[0].decode()} is gone"
            )
        size = int(header[2])
        found[name.decode("utf-8", "surrogateescape")] = answer[end + 1 : end + 1 + size]
        position = end + size + 2
    return found


def write(repo: Repo, task_id: str, files: Mapping[str, bytes], *, message: str, when: str) -> str:
    """Add one evidence commit with exactly these files; the newest commit if it holds them already.

    Args:
        repo: where.
        task_id: names the ref.
        files: path with "/" between folders -> content.
        message: of the commit.
        when: RFC 3339 UTC; the only clock that the commit knows.

    Raises:
        GitError: GIT_FAILED when git refuses the ref or the objects.

    Side effects: writes and fsyncs objects in the user's store; moves `refs/agent-infra/runs/<task>`.
    """
    tree = _write_folder(repo, _nested(files))
    ref = ref_name(task_id)
    for attempts_left in reversed(range(ATTEMPTS)):
        present = head(repo, task_id)
        # evidence that was lost here and travelled before is gone on with, so that it can travel again
        parent = present or _elsewhere(repo, task_id, files)
        is_same = parent is not None and repo.text("rev-parse", f"{parent}^{{tree}}") == tree
        commit = parent if parent and is_same else _store(repo, "commit", _commit(tree, parent, message, when))
        if commit == present:
            return commit
        moved = ("update-ref", "--no-deref", ref, commit, present or repo.null_oid)
        done = repo.run(*NO_HOOKS, *DURABLE, *moved, check=False)
        if done.code == 0:
            return commit
        if attempts_left == 0 or not _was_beaten(done.stderr):
            raise failure(moved, done)
    raise AssertionError("the last attempt returns or raises")


def _elsewhere(repo: Repo, task_id: str, files: Mapping[str, bytes]) -> str | None:
    """The newest evidence at a remote whose journal the present one goes on with; None without one."""
    found = []
    for oid in set(repo.text("for-each-ref", "--format=%(objectname)", f"{TRACKED}**/runs/{task_id}").splitlines()):
        kept = repo.run("cat-file", "blob", f"{oid}:{JOURNAL}", check=False)
        if kept.code == 0 and files.get(JOURNAL, b"").startswith(kept.stdout):
            found.append((len(kept.stdout), oid))
    return max(found)[1] if found else None


def _was_beaten(words: bytes) -> bool:
    """Whether somebody else moves the same ref: it has moved, or its lock file is there just now."""
    return b"cannot lock ref" in words or b"but expected" in words or b"already exists" in words


def _commit(tree: str, parent: str | None, message: str, when: str) -> bytes:
    seconds = int(datetime.fromisoformat(when).timestamp())
    lines = [f"tree {tree}", *([f"parent {parent}"] if parent else [])]
    lines += [f"author {IDENTITY} {seconds} +0000", f"committer {IDENTITY} {seconds} +0000", "", message.rstrip("\n")]
    return "".join(f"{line}\n" for line in lines).encode()


def _nested(files: Mapping[str, bytes]) -> Folder:
    root: Folder = {}
    for path, data in files.items():
        *folders, name = path.split("/")
        if any(part in {"", ".", "..", ".git"} for part in (*folders, name)):
            raise GitError(ErrorCode.GIT_FAILED, f"{path!r} can't be a file of the evidence: not a plain relative path")
        below = root
        for folder in folders:
            inner = below.setdefault(folder, {})
            if isinstance(inner, bytes):
                raise GitError(ErrorCode.GIT_FAILED, f"{path!r} can't be evidence: {folder!r} is a file in it")
            below = inner
        below[name] = data
    return root


def _write_folder(repo: Repo, folder: Folder) -> str:
    entries: Entries = {}
    for name, content in folder.items():
        is_file = isinstance(content, bytes)
        oid = _store(repo, "blob", content) if isinstance(content, bytes) else _write_folder(repo, content)
        entries[name.encode("utf-8", "surrogateescape")] = ("100644" if is_file else FOLDER, oid)
    return _store(repo, "tree", render_tree(entries))


def _store(repo: Repo, kind: str, data: bytes) -> str:
    """Write one object through libgit2, which opens the object folder alone, or else through git."""
    if repo.object_format == "sha1":
        oid = attempt(repo.common_dir / "objects", lambda odb: write_object(odb, kind, data))
        if oid is not None:
            return oid
    written = repo.run(*DURABLE, "hash-object", "-w", "-t", kind, "--stdin", stdin=data)
    return written.stdout.decode().strip()
