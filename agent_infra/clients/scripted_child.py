"""The process behind the `scripted` client: it does what one attempt of a script says, then ends.

Standard library only, because it starts once per step. It obeys no rule of the lifecycle: that a reviewer writes code,
or that nothing is handed in, is what scripts are for. It never writes outside of the worktree and the task's folder.
"""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

UNAPPLIED = 3  # exit code: the script does not fit to what is there
_LEDGER = ("## review disagreement ledger", "## 审查分歧账本")
_COLUMNS = ("id", "stage", "round", "severity", "status", "evidence")


class UnappliedError(Exception):
    """An action of the script can't be done here."""


def main() -> int:
    """Read the order from stdin and carry it out; the exit code is the script's own."""
    order = json.load(sys.stdin.buffer)
    try:
        return carry_out(order)
    except (UnappliedError, OSError) as error:
        sys.stderr.write(f"scripted child: {error}\n")
        return UNAPPLIED


def carry_out(order: dict[str, Any]) -> int:
    """Writes, deletions, artifact, ledger, programs, commit: in this order.

    How the programs end is not judged, since a script may try what will be refused; a commit that fails ends the child
    with its exit code.
    """
    worktree, script = Path(order["worktree"]), order["script"]
    for name, content in script["write"].items():
        write_file(inside(worktree, name), content)
    for name in script["delete"]:
        remove(inside(worktree, name))
    if script["artifact"] is not None:
        write_file(Path(order["artifactPath"]), script["artifact"])
    if script["ledger"]:
        task_md = Path(order["taskDir"]) / "task.md"
        write_file(task_md, {"base64": base64.b64encode(merge_rows(task_md.read_bytes(), script["ledger"])).decode()})
    for argv in script["run"]:
        run(argv, worktree)
    if script["commit"] is not None:
        ended = run([*order["program"], "commit", order["taskId"], "-m", script["commit"]], worktree)
        if ended != 0:
            return ended
    return int(script["exit"])


def inside(worktree: Path, name: str) -> Path:
    """The path of `name` in the worktree; a linked folder must not lead out of it."""
    path = worktree / name
    if not path.parent.resolve().is_relative_to(worktree.resolve()):
        raise UnappliedError(f"{name} leads out of the worktree through a symbolic link")
    return path


def write_file(path: Path, content: str | dict[str, Any]) -> None:
    """Make the file what the script says; a symbolic link of that name is replaced, not followed."""
    spec = {"text": content} if isinstance(content, str) else content
    text, executable = spec.get("text"), spec.get("executable")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    path.write_bytes(base64.b64decode(spec["base64"]) if text is None else text.encode())
    if executable is not None:
        path.chmod(0o755 if executable else 0o644)


def remove(path: Path) -> None:
    """Delete a file, a link or a whole folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def run(argv: list[str], worktree: Path) -> int:
    """Run a program in the worktree and say how it ended; 127 if there is none of that name."""
    try:
        ended = subprocess.run(argv, cwd=worktree, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error}\n")
        ended = 127
    sys.stderr.write(f"{argv[0]}: exit {ended}\n")
    sys.stderr.flush()
    return ended if ended >= 0 else 128 - ended


def merge_rows(document: bytes, rows: list[dict[str, Any]]) -> bytes:
    """task.md with each row in the place of the row of its id, or after the last row of the ledger.

    All other bytes stay. Raises `UnappliedError` where there is no ledger table.
    """
    lines = document.decode(errors="surrogateescape").splitlines(keepends=True)
    start, end = _table(lines)
    newline = "\r\n" if lines[start].endswith("\r\n") else "\n"
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += newline
    for row in rows:
        cells = (str(row[column]).replace("\\", "\\\\").replace("|", "\\|") for column in _COLUMNS)
        line = f"| {' | '.join(cells)} |{newline}"
        for at in range(start, end):
            if lines[at].split("|")[1].strip() == row["id"]:
                lines[at] = line
                break
        else:
            lines.insert(end, line)
            end += 1
    return "".join(lines).encode(errors="surrogateescape")


def _table(lines: list[str]) -> tuple[int, int]:
    """First and behind-the-last line of the ledger table, header included."""
    heading = next((at for at, line in enumerate(lines) if line.strip().lower() in _LEDGER), None)
    if heading is None:
        raise UnappliedError("task.md has no section for the ledger")
    start = heading + 1
    while start < len(lines) and not lines[start].startswith(("|", "## ")):
        start += 1
    end = start
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    if end == start:
        raise UnappliedError("the ledger in task.md has no table")
    return start, end


if __name__ == "__main__":
    sys.exit(main())
