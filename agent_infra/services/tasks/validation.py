"""`task validate`: every document of a task, every fault of each. Changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent_infra.core.artifacts import parse_artifact_name, round_gaps
from agent_infra.core.diagnosis import Fault, Level, artifact_faults, refusal, task_faults
from agent_infra.core.facts import check_proof, read_ledger
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError, ErrorCode
from agent_infra.services.context import Context
from agent_infra.stores.artifacts import read_artifact, read_task
from agent_infra.stores.workspace import ACTIVE, ARTIFACT_LIMIT, FolderEntry, TaskPlace, list_folder


@dataclass(frozen=True)
class Examined:
    """A task and everything that was found about it; warnings alone leave it valid."""

    place: TaskPlace
    faults: tuple[Fault, ...]

    @property
    def is_valid(self) -> bool:
        """Whether nothing is wrong."""
        return all(fault.level is Level.WARNING for fault in self.faults)

    def to_json(self) -> dict[str, Any]:
        """The facts for programs."""
        faults = [
            {"file": f.file, "line": f.line, "code": str(f.code), "level": str(f.level), "message": f.message}
            for f in self.faults
        ]
        return {"taskId": self.place.task_id, "valid": self.is_valid, "faults": faults}


def examine(context: Context, place: TaskPlace) -> Examined:
    """Look at every document of a task, at its run, and at the registry that names it."""
    entries = list_folder(place.folder)
    found = [*_task(place)]
    for entry in entries:
        found += _entry(place, entry)
    found += _gaps(entries)
    found += _run(context, place)
    if place.state == ACTIVE and context.workspace.registry.exists():
        try:
            context.workspace.identify("1", short_id_length=context.config.task.short_id_length)
        except AgentInfraError as error:
            if error.code != ErrorCode.SHORT_ID_NOT_FOUND:
                found.append(refusal(context.workspace.registry.name, error, Level.WARNING))
    return Examined(place, tuple(found))


def _task(place: TaskPlace) -> tuple[Fault, ...]:
    try:
        return task_faults(read_task(place), place.task_id, place.state)
    except AgentInfraError as error:
        return (refusal("task.md", error),)


def _entry(place: TaskPlace, entry: FolderEntry) -> Iterator[Fault]:
    """The faults of one name in the folder; what is no artifact is nobody's business."""
    try:
        artifact = parse_artifact_name(entry.name)
        if artifact is None:
            return
        file = read_artifact(place, artifact)
    except AgentInfraError as error:
        yield refusal(entry.name, error)
        return
    if file is not None and entry.size <= ARTIFACT_LIMIT:
        yield from artifact_faults(entry.name, file.data)


def _gaps(entries: tuple[FolderEntry, ...]) -> Iterator[Fault]:
    """Rounds that are missing route all the same, and are only odd."""
    names = [entry.name for entry in entries if _is_artifact(entry.name)]
    for gap in round_gaps(names):
        words = f"{gap.name} is missing, and later rounds of {gap.family} are there"
        yield Fault(gap.name, None, ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, words, Level.WARNING)


def _is_artifact(name: str) -> bool:
    try:
        return parse_artifact_name(name) is not None
    except AgentInfraError:
        return False


def _run(context: Context, place: TaskPlace) -> Iterator[Fault]:
    """Whether the view is the journal's, and whether the ledger's rows are those that were proven."""
    try:
        state = context.load(place)
    except AgentInfraError as error:
        yield refusal(place.view.name, error)
        return
    if state is not None:
        yield from _proof(place, state)


def _proof(place: TaskPlace, state: State) -> Iterator[Fault]:
    try:
        ledger = read_ledger(read_task(place), state)
    except AgentInfraError:
        return  # the table itself is faulty, which is said already
    try:
        check_proof(ledger, state, may_close=bool(state.pending and state.pending.role == "reviewer"))
    except AgentInfraError as error:
        yield refusal("task.md", error)
