"""Run the benchmarks, print their tables, keep the ratios in `benchmarks/results/`. Started by `scripts/bench`."""

import argparse
import compileall
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import snapshots
import startup
import subtasks
import tasks
import verifying
from repositories import git
from timing import Row, table

import agent_infra

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    """Measure what argv asks for."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Ratios, never times; see docs/performance.md.")
    parser.add_argument(
        "--quick", action="store_true", help="three rounds, no repository above 10,000 files; no result kept"
    )
    parser.add_argument("--only", choices=PARTS, help="one of them")
    parser.add_argument("--rounds", type=int, help="rounds per table, in place of the part's own number")
    args = parser.parse_args()
    _as_installed()
    for name, part in PARTS.items():
        if args.only in (None, name):
            part(args.rounds, args.quick)


def _as_installed() -> None:
    """Measure what a user starts: an installed program has its bytecode, and nobody's settings change the interpreter.

    Side effects: this process' environment; byte code in the package's `__pycache__`.
    """
    for name in [name for name in os.environ if name.startswith(("PYTHON", "GIT_"))]:
        del os.environ[name]
    compileall.compile_dir(Path(agent_infra.__file__).parent, quiet=2)


def _startup(rounds: int | None, quick: bool) -> None:  # noqa: FBT001
    rounds = rounds or (3 if quick else 11)
    found = startup.run(rounds=rounds)
    tables = {"whole processes, ratio to `python -c pass`": found.verbs, "what hooks add to `git commit`": found.added}
    _show("startup", tables, rounds, keep=not quick)


def _snapshots(rounds: int | None, quick: bool) -> None:  # noqa: FBT001
    rounds = rounds or (3 if quick else 7)
    sizes = tuple(size for size in snapshots.SIZES if size <= 10_000 or not quick)
    found = snapshots.run(sizes, rounds=rounds)
    _show("snapshots", {f"{case.title}, ratio to `git status`": lines for case, lines in found}, rounds, keep=not quick)


def _subtasks(rounds: int | None, quick: bool) -> None:  # noqa: FBT001
    rounds, files = rounds or (1 if quick else 3), 200 if quick else 50_000
    title = f"eight children in a repository of {files:,} files, ratio to git alone"
    _show("subtasks", {title: subtasks.run(files=files, rounds=rounds)}, rounds, keep=not quick)


def _tasks(rounds: int | None, quick: bool) -> None:  # noqa: FBT001
    rounds, count = rounds or (3 if quick else 11), 1_000 if quick else tasks.TASKS
    title = f"{count:,} tasks, ratio to `python -c pass`"
    _show("tasks", {title: tasks.run(tasks=count, rounds=rounds)}, rounds, keep=not quick)


def _verify(rounds: int | None, quick: bool) -> None:  # noqa: FBT001
    rounds, sizes = rounds or (1 if quick else 3), (20, 60) if quick else verifying.SIZES
    title = "histories of receipted commits, ratio to the smallest"
    _show("verify", {title: verifying.run(sizes, rounds=rounds)}, rounds, keep=not quick)


# name: measures, prints, and keeps what it measured unless it was quick
PARTS: dict[str, Callable[[int | None, bool], None]] = {
    "startup": _startup,
    "snapshots": _snapshots,
    "subtasks": _subtasks,
    "verify": _verify,
    "tasks": _tasks,
}


def _show(name: str, tables: Mapping[str, Sequence[Row]], rounds: int, *, keep: bool) -> None:
    for title, lines in tables.items():
        print(table(f"{title} (n = {rounds})", lines))
    if not keep:
        return
    document = {
        "rounds": rounds,
        "python": platform.python_version(),
        "git": git(RESULTS.parent, "version").removeprefix("git version "),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "tables": {title: [line.to_json() for line in lines] for title, lines in tables.items()},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
