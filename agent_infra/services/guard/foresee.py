"""`gate check`: would this commit pass? git's other hooks, tried in a place of their own on the tree to be committed.

Our own gate is not among them. No lock is held, and nothing of the user's files, index, refs or settings moves.
"""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_infra.core.config import GateConfig
from agent_infra.core.outlook import Foresight, Trial, advice, draft_message
from agent_infra.core.redaction import tail
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError
from agent_infra.git import hook_others, hooks
from agent_infra.git.repo import display_path
from agent_infra.services.commands import plain_environment, run_group
from agent_infra.services.context import Context, check_task, run_config
from agent_infra.services.guard import authorize, rehearsal
from agent_infra.stores.artifacts import read_task
from agent_infra.stores.runs import require
from agent_infra.stores.throwaway import throwaway
from agent_infra.stores.workspace import TaskPlace

FORESEEN = "gateCheck"
"""What the facts of a `prepare` are called that say what was foreseen."""

_LINES = 30  # of what a hook said last
_CHARACTERS = 4_000
_KEPT = 64 * 1024  # bytes of its output that are looked at
# git asks the shell where a hook names no interpreter
_START = ("sh", "-c", 'exec "$0" "$@"')
_MESSAGE_ARGS = {"pre-commit": (), "prepare-commit-msg": (".git/COMMIT_EDITMSG", "message")}


@dataclass(frozen=True)
class Question:
    """The commit that is asked about.

    Attributes:
        context: of the worktree that it would be made in.
        product: the product tree that it would take its content from.
        message: its message; one of ours where nobody has written it yet.
    """

    context: Context
    place: TaskPlace
    state: State
    product: str
    message: str | None = None

    @property
    def settings(self) -> GateConfig:
        """Those of the run."""
        return run_config(self.state).gate

    def draft(self) -> str:
        """A message of ours."""
        document = check_task(read_task(self.place), self.place.task_id)
        return draft_message(document.title, document.fields.get("type", ""))


def check(context: Context, ref: str, *, message: str | None = None) -> Foresight:
    """Try the commit that the run of a task would make of what lies in its worktree now.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING, ORCHESTRATION_SNAPSHOT_FAILED, or what a task is refused for.

    Side effects:
        Snapshot objects; a folder in the common dir, gone afterwards; whatever the hooks do outside of it.
    """
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    home = context.home(state)
    return foresee(Question(home, place, state, home.objects.product(context.snapshot(place, state)), message))


def foresee(question: Question) -> Foresight:
    """Try the other hooks; what keeps us from that is an answer too, and nothing is refused for it."""
    context = question.context
    answer = Foresight(question.place.task_id, limit=question.settings.check_timeout)
    try:
        head = context.repo.head().oid
        before, tree = authorize.tree_to_commit(context, question.state, head, question.product)
        answer = replace(answer, tree=tree, head=head)
        if tree == before:
            return replace(answer, reason="HEAD has all of it already, so there is no commit to be tried")
        report = hooks.inspect(context.repo, program="agent-infra", template=hooks.shim_template())
        found = hook_others.find(context.repo, report.hooks_path)
        return _rehearse(question, answer, found) if found else answer
    except AgentInfraError as error:
        return replace(answer, reason=error.message)
    except OSError as error:
        return replace(answer, reason=display_path(os.fsencode(f"the disk says no: {error}")))


def facts(foreseen: Foresight) -> dict[str, Any]:
    """What the journal keeps of it: nothing that a hook said, and what the reviewer is told."""
    return {**foreseen.to_json(outputs=False), "notes": list(advice(foreseen))}


def told(context: Context, task_id: str, receipt_id: str) -> tuple[str, ...]:
    """What was foreseen when the step of a receipt was prepared, in sentences; nothing where nobody looked."""
    chain = context.runs.journal(task_id).read()
    for event in reversed(chain.events if chain else ()):
        if event["op"] == "prepare" and event.get("receipt", {}).get("id") == receipt_id:
            return tuple(str(note) for note in event.get("facts", {}).get(FORESEEN, {}).get("notes", ()))
    return ()


def _rehearse(question: Question, answer: Foresight, found: dict[str, Path]) -> Foresight:
    """Make the place, and let each hook run in it."""
    context, deadline = question.context, time.monotonic() + answer.limit
    links = question.settings.check_links
    with throwaway(context.repo.common_dir / "agent-infra") as folder:
        place = rehearsal.build(context, folder, answer.tree, links=links, timeout=answer.limit)
        if place is None:
            return replace(answer, reason=f"writing the files timed out (limit {answer.limit:g} s)")
        place, files = _located(place, context, found)
        draft = "" if question.message else question.draft()
        (place.repo.git_dir / "COMMIT_EDITMSG").write_bytes(os.fsencode(f"{question.message or draft}\n"))
        trials = tuple(_trials(place, files, deadline))
        return replace(answer, trials=trials, linked=place.linked, draft=draft)


def _located(
    place: rehearsal.Rehearsal, context: Context, found: dict[str, Path]
) -> tuple[rehearsal.Rehearsal, dict[str, Path]]:
    """Hooks of the worktree are taken from the tree; a folder of them that git ignores is lent, as husky's is."""
    files: dict[str, Path] = {}
    real = context.repo
    for name, path in found.items():
        plain = Path(os.path.normpath(path))
        is_product = plain.is_relative_to(real.worktree) and not plain.is_relative_to(real.common_dir)
        files[name] = path
        if is_product:
            inner = plain.relative_to(real.worktree)
            place = rehearsal.lend_folder(place, real, inner.parent)
            own = place.repo.worktree / inner
            files[name] = own if own.is_file() and os.access(own, os.X_OK) else path
    return place, files


def _trials(place: rehearsal.Rehearsal, files: dict[str, Path], deadline: float) -> Iterator[Trial]:
    """Each hook in turn, on what the one before it left; none after one whose time was up."""
    environment = rehearsal.commit_environment(place.repo, plain_environment(os.environ))
    # a manager may call a shim of ours in its turn, which must not judge here
    environment["AGENT_INFRA"] = shutil.which("true") or "/usr/bin/true"
    before = place.look()
    for name, path in files.items():
        command = (*_START, str(path), *_MESSAGE_ARGS.get(name, (".git/COMMIT_EDITMSG",)))
        started, said = time.monotonic(), _Last()
        left = max(0.0, deadline - started)
        code = run_group(command, place.repo.worktree, said.write, timeout=left, env=environment)
        after = place.look()
        yield Trial(
            name=name,
            exit_code=code,
            rewrites=tuple(display_path(os.fsencode(each)) for each in place.differing(before, after)),
            restaged=before.index != after.index,
            output=tail(bytes(said.data), lines=_LINES, limit=_CHARACTERS),
            seconds=round(time.monotonic() - started, 3),
        )
        if code is None:
            return
        before = after


class _Last:
    """The end of what a hook says, however much that is."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > 2 * _KEPT:
            del self.data[:-_KEPT]
