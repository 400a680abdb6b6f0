"""The one command that takes a task further, for whoever looks at it."""

from agent_infra.core.lifecycle import NATIVE_AGENTS, Role, Stage, Step
from agent_infra.core.receipts import Receipt, ReceiptStatus
from agent_infra.core.routing import Route
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import ErrorCode
from agent_infra.stores.workspace import ACTIVE, TaskPlace

_HUMAN = "human"


def next_command(place: TaskPlace, state: State | None, route: Route) -> str | None:
    """What to type next; None where nothing is to be done, or nobody can say."""
    task = place.task_id
    if place.state == "missing":
        return f"agent-infra orchestrate repair {task}"
    if place.state != ACTIVE:
        return None
    if state is None or state.run.ended:
        return f"agent-infra orchestrate begin {task}"
    if state.run.status == RunStatus.COMPLETED:
        return None
    if state.run.status == RunStatus.PAUSED:
        final = state.run.pause is not None and not state.run.pause.recoverable
        faulty = state.pending is not None and state.memo.faulty == state.pending.id
        verb = "abandon {} --reason …" if final or faulty else "begin {}"
        return f"agent-infra orchestrate {verb.format(task)}"
    if state.pending:
        return _of_pending(task, state.pending)
    return _of_fault(task, route) or (_of_step(task, route.step) if route.step else None)


def _of_pending(task: str, receipt: Receipt) -> str:
    """What the pending step waits for."""
    if receipt.client == _HUMAN:
        return _of_step(task, receipt.step)
    if receipt.status == ReceiptStatus.PREPARED:
        return f"agent-infra orchestrate brief {task} --text"
    if receipt.status == ReceiptStatus.ACTIVATED and receipt.stage == Stage.COMMIT:
        return f"agent-infra commit {task} -m MESSAGE"
    if receipt.status == ReceiptStatus.ACTIVATED:
        return f"agent-infra orchestrate complete {task} --agent {receipt.agent or 'AGENT'}"
    if receipt.status == ReceiptStatus.STAGE_COMPLETED:
        name = next(name for name, role in NATIVE_AGENTS.items() if role == receipt.role)
        who = f"--client {receipt.client} --native-agent {name} --child-id {receipt.child_id}"
        return f"agent-infra orchestrate seal {task} {who}"
    return f"agent-infra orchestrate advance {task}"


def _of_fault(task: str, route: Route) -> str | None:
    """The way past what stands before the commit."""
    if route.fault is None or route.step is not None:
        return None
    if route.fault.code == ErrorCode.ORCHESTRATION_MANUAL_VALIDATION_PENDING:
        return f"agent-infra task validate-manual {task} --result …"
    if route.fault.code == ErrorCode.ORCHESTRATION_LEDGER_BLOCKED and "task decide" in route.fault.message:
        return f"agent-infra task decide {task} --item 1 --result …"
    if route.fault.code == ErrorCode.ORCHESTRATION_LEDGER_BLOCKED:
        return f"agent-infra orchestrate reopen {task} --stage code --reason …"
    return f"agent-infra task validate {task}"


def _of_step(task: str, step: Step) -> str:
    if step.stage is Stage.COMMIT:
        return f"agent-infra commit {task} -m MESSAGE"
    return f"agent-infra {'review' if step.role is Role.REVIEWER else 'work'} {task}"
