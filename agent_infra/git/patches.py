"""What a change says, wherever it is applied: a digest that a rebase leaves alone.

Like `git patch-id --stable`, but nothing is passed over that a program may depend on: white space, modes, and which
binary content came. Neither the settings of the user nor the attributes of a working tree have a say.
"""

import hashlib
from collections.abc import Mapping

from agent_infra.git.repo import Repo

_PLAIN = (
    *("-c", "core.quotePath=true", "-c", "core.attributesFile=/dev/null"),
    *("diff-tree", "-r", "-p", "-U3", "--inter-hunk-context=0", "--diff-algorithm=myers", "--no-indent-heuristic"),
    *("--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"),
    *("--src-prefix=a/", "--dst-prefix=b/", "-O/dev/null"),
)


def patch_digest(repo: Repo, a: str, b: str, *, env: Mapping[str, str]) -> str:
    """The digest of what differs between two trees or commits, without line numbers.

    Args:
        env: where the objects are.

    Raises:
        GitError: GIT_FAILED where an object is missing.
    """
    # neither a .gitattributes of a working tree nor one in an index is read
    nowhere = {
        "GIT_DIR": str(repo.git_dir),
        "GIT_WORK_TREE": str(repo.common_dir),
        "GIT_INDEX_FILE": str(repo.common_dir / "no-index"),
    }
    patch = repo.run(*_PLAIN, a, b, env={**env, **nowhere}, cwd=repo.common_dir).stdout
    return hashlib.sha256(normal(patch)).hexdigest()


def normal(patch: bytes) -> bytes:
    """A patch without what depends on its surroundings: line numbers, and object ids of text."""
    lines = patch.split(b"\n")
    kept = []
    for line, following in zip(lines, [*lines[1:], b""], strict=True):
        if line.startswith(b"@@ "):
            kept.append(b"@@")
        elif not line.startswith(b"index ") or following.startswith(b"Binary files "):
            kept.append(line)
    return b"\n".join(kept)
