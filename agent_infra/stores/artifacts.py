"""Reading a task folder: which artifacts lie there, by their bytes. What they mean is `core`'s business."""

import hashlib
from collections.abc import Mapping

from agent_infra.core.artifacts import ArtifactName, parse_artifact_name
from agent_infra.core.facts import ArtifactFile, Folder
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.atomic import read_regular
from agent_infra.stores.workspace import ARTIFACT_LIMIT, TASK_LIMIT, TaskPlace, list_folder


def artifact_names(place: TaskPlace) -> tuple[ArtifactName, ...]:
    """The artifacts in a folder, each a regular file with a canonical name.

    Raises:
        RefusedError: ORCHESTRATION_ARTIFACT_INVALID for a name that means an artifact but is none.
        CorruptStateError: the same code for anything with an artifact's name that is no regular file.
    """
    names = []
    for entry in list_folder(place.folder):
        artifact = parse_artifact_name(entry.name)
        if artifact is None:
            continue
        if entry.kind != "file":
            kind = {"folder": "a folder", "symlink": "a symlink"}.get(entry.kind, "something else")
            message = f"{entry.name} in {place.task_id} is {kind}, expected a regular file"
            raise CorruptStateError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, message)
        if entry.size > ARTIFACT_LIMIT:
            message = f"{entry.name} in {place.task_id} has {entry.size} bytes; at most {ARTIFACT_LIMIT} are read"
            raise CorruptStateError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, message)
        names.append(artifact)
    return tuple(names)


def read_task(place: TaskPlace) -> bytes:
    """The bytes of task.md.

    Raises:
        RefusedError: TASK_NOT_FOUND.
        CorruptStateError: ORCHESTRATION_ARTIFACT_INVALID or ORCHESTRATION_TASK_READ_FAILED.
    """
    data = read_regular(place.document, limit=TASK_LIMIT)
    if data is None:
        raise RefusedError(ErrorCode.TASK_NOT_FOUND, f"there is no task.md in {place.folder}")
    return data


def read_artifact(place: TaskPlace, artifact: ArtifactName) -> ArtifactFile | None:
    """One artifact, or `None` where it does not lie."""
    data = read_regular(place.folder / artifact.name, limit=ARTIFACT_LIMIT)
    return None if data is None else ArtifactFile(artifact, hashlib.sha256(data).hexdigest(), data)


def read_folder(place: TaskPlace) -> Folder:
    """task.md and the newest artifact of each family.

    Raises:
        AgentInfraError: as for `artifact_names` and `read_task`.
    """
    newest: dict[str, ArtifactName] = {}
    for artifact in artifact_names(place):
        known = newest.get(artifact.family)
        if known is None or known.round < artifact.round:
            newest[artifact.family] = artifact
    files = {family: read_artifact(place, artifact) for family, artifact in newest.items()}
    return Folder(read_task(place), {family: file for family, file in files.items() if file})


def read_all(place: TaskPlace) -> Mapping[str, bytes]:
    """task.md and every artifact, by name: what the evidence keeps."""
    documents = {"task.md": read_task(place)}
    for artifact in artifact_names(place):
        file = read_artifact(place, artifact)
        if file:
            documents[file.name] = file.data
    return documents


def digests(place: TaskPlace) -> dict[str, str]:
    """SHA-256 of every artifact, by name."""
    files = (read_artifact(place, artifact) for artifact in artifact_names(place))
    return {file.name: file.sha256 for file in files if file}
