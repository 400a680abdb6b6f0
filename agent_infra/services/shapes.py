"""The templates of documents: the project's own in `.agents/templates`, else those that travel with the program."""

from pathlib import PurePosixPath

from agent_infra.core.brief import fill_template
from agent_infra.core.receipts import Receipt
from agent_infra.core.run import State
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.resources import resource
from agent_infra.services.context import Context
from agent_infra.stores.atomic import read_regular
from agent_infra.stores.workspace import TASK_LIMIT

FOLDER = PurePosixPath(".agents/templates")
_FILES = ("100644", "100755")  # modes of a regular file


def task_template(context: Context) -> str:
    """The shape of a new task.md.

    Raises:
        RefusedError: TASK_CREATE_TEMPLATE_INVALID for one of the project's that can't be read.
    """
    name = FOLDER / "task.md"
    try:
        data = read_regular(context.repo.state_root / name, limit=TASK_LIMIT)
        return _packaged("task") if data is None else data.decode()
    except (AgentInfraError, UnicodeDecodeError) as error:
        raise RefusedError(ErrorCode.TASK_CREATE_TEMPLATE_INVALID, f"{name} can't be read: {error}") from error


def artifact_template(context: Context, state: State, receipt: Receipt) -> str:
    """The shape of a step's artifact, filled with what is known.

    The project's own counts as it was when the run began, so that no child writes what a later one is told; one that
    can't be used is passed over, since it must not stop a run.
    """
    judged = receipt.inputs[0].name if receipt.inputs else "task.md"
    task_id = state.run.task_id
    values = {"artifact": receipt.artifact, "round": str(receipt.round), "input": judged, "task": task_id}
    own = _of_project(context, state, str(receipt.stage))
    if own is not None:
        try:
            return fill_template(own, values)
        except RefusedError:
            pass  # `doctor` says what is wrong with it
    return fill_template(_packaged(str(receipt.stage)), values)


def _of_project(context: Context, state: State, stage: str) -> str | None:
    found = context.objects.entry(state.run.baseline.tree, str(FOLDER / f"{stage}.md"))
    if found is None or found[0] not in _FILES:
        return None
    try:
        return context.objects.blob(found[1]).decode()
    except UnicodeDecodeError:
        return None


def _packaged(name: str) -> str:
    return resource("templates", f"{name}.md").read_text(encoding="utf-8")
