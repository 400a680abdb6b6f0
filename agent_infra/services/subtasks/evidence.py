"""What a child really did, read from its worktree by git; and whether what it wrote can be read at all."""

import ast
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_infra.core.subtasks.conflicts import can_meet
from agent_infra.core.subtasks.plan import Subtask
from agent_infra.git.repo import discover
from agent_infra.git.snapshot import TaskFolder
from agent_infra.git.trees import GITLINK, TreeChange
from agent_infra.services.context import Context
from agent_infra.services.subtasks.results import Results

_SIZE_LIMIT = 1 << 20  # bytes of a file whose syntax is looked at


def capture(results: Results, worktree: Path, exclude: list[str]) -> str:
    """The product tree of a child's worktree, in the repository's own store.

    Raises:
        RefusedError: ORCHESTRATION_SNAPSHOT_FAILED; GIT_FAILED where the worktree is none any more.

    Side effects: objects.
    """
    here: Context = replace(results.context, repo=discover(worktree))
    folder = TaskFolder(results.place.task_id, results.place.folder)
    tree = here.objects.product(here.snapshotter.capture(folder, exclude=exclude, keep=[]))
    here.objects.publish(tree)
    return tree


def diff_facts(changes: Sequence[TreeChange], subtask: Subtask) -> dict[str, Any]:
    """The workspace-diff of a run, with the files that were not declared."""
    created = sorted(change.name for change in changes if change.old_oid is None)
    deleted = sorted(change.name for change in changes if change.new_oid is None)
    changed = sorted(change.name for change in changes if change.old_oid and change.new_oid)
    declared = subtask.expected_files
    undeclared = [
        name
        for name in sorted((*created, *changed, *deleted))
        if declared and not any(can_meet(wanted, name) for wanted in declared)
    ]
    return {
        "workspaceChanged": bool(changes),
        "changedFiles": changed,
        "createdFiles": created,
        "deletedFiles": deleted,
        "undeclaredFiles": undeclared,
    }


def syntax_facts(results: Results, changes: Sequence[TreeChange]) -> dict[str, Any]:
    """What of the written Python, JSON, TOML and YAML can't be read."""
    found = []
    for change in changes:
        reader = _READERS.get(Path(change.name).suffix.lower())
        if reader is None or change.new_oid is None or change.new_mode in (GITLINK, "120000"):
            continue
        data = results.context.objects.blob(change.new_oid)
        if len(data) <= _SIZE_LIMIT:
            fault = _fault(reader, data)
            found.append({"file": change.name, "ok": fault is None, **({"error": fault} if fault else {})})
    return {"syntaxValidation": found, "syntaxValidationFailed": any(not entry["ok"] for entry in found)}


def _fault(reader: Any, data: bytes) -> str | None:
    try:
        reader(data)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return None


def _read_yaml(data: bytes) -> None:
    import yaml

    try:
        for _ in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


_READERS: Mapping[str, Any] = {
    ".py": ast.parse,
    ".json": json.loads,
    ".toml": lambda data: tomllib.loads(data.decode()),
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
}
