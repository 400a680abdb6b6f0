"""What agents are told about a run by the hooks of their client: the main agent what comes next, a child what it lacks.

Some words are a contract with whoever scripts an agent: "Spawn the agent type NAME", "Wait for it", "is completed",
"is not finished". No text may hold the words of another situation.
"""

from agent_infra.core.lifecycle import NATIVE_AGENTS, Step
from agent_infra.core.receipts import Receipt
from agent_infra.errors import AgentInfraError, ErrorCode

PROMPT = "Do the step that agent-infra hands you."
LIMIT = 4_000  # characters of a reason; its cause may repeat what a program said

# what a child can put right by going on; anything else is not its business
MENDABLE = frozenset(
    {
        ErrorCode.ARTIFACT_NOT_FOUND,
        ErrorCode.REVIEW_SUMMARY_COUNT_MISMATCH,
        ErrorCode.REVIEW_VERDICT_FINDING_MISMATCH,
        ErrorCode.ORCHESTRATION_REVIEW_INVALID,
        ErrorCode.ORCHESTRATION_ARTIFACT_INVALID,
        ErrorCode.ORCHESTRATION_LEDGER_INVALID,
        ErrorCode.ORCHESTRATION_LEDGER_UNPROVEN,
        ErrorCode.ORCHESTRATION_TASK_INVALID,
        ErrorCode.ORCHESTRATION_TASK_READ_FAILED,
        ErrorCode.ORCHESTRATION_COMMIT_MISSING,
        ErrorCode.ORCHESTRATION_BRANCH_MISMATCH,
        ErrorCode.COMMIT_UNAUTHORIZED,
        ErrorCode.GIT_FAILED,
    }
)


def agent_of(step: Step) -> str:
    """The name of the agent that does a step."""
    return next(name for name, role in NATIVE_AGENTS.items() if role == step.role)


def named(step: Step) -> str:
    """A step in words."""
    return f"{step.stage} round {step.round}"


def next_step(task: str, step: Step, *, is_only_run: bool = True) -> str:
    """What the main agent is to do now."""
    prompt = PROMPT if is_only_run else f"{PROMPT} It belongs to {task}."
    return (
        f"agent-infra: the next step of {task} is {named(step)}, done by a fresh {step.role}. "
        f'Spawn the agent type {agent_of(step)} with the prompt "{prompt}" and nothing else; do no step yourself.'
    )


def again(task: str, step: Step, why: str, *, is_only_run: bool = True) -> str:
    """The same for a step whose child will not bring anything any more."""
    return f"agent-infra: {why}. {next_step(task, step, is_only_run=is_only_run).removeprefix('agent-infra: ')}"


def wait(task: str, receipt: Receipt) -> str:
    """The step is being done."""
    by = f"is being done by child {receipt.child_id}" if receipt.child_id else "is given to a child that is starting"
    return f"agent-infra: {named(receipt.step)} of {task} {by}. Wait for it; do no step yourself."


def unknown(task: str, receipt: Receipt) -> str:
    """The step was given to a child of which nothing is known any more."""
    what = f"{named(receipt.step)} of {task} was given to child {receipt.child_id}, which may be gone"
    return f"agent-infra: {what}. If so, run: agent-infra orchestrate abandon {task} --reason gone"


def elsewhere(task: str, receipt: Receipt) -> str:
    """The step is being done by somebody who is none of this session's children."""
    by = receipt.child_id or f"a child of {receipt.client}"
    what = f"{named(receipt.step)} of {task} is under way elsewhere"
    return f"agent-infra: {what} ({by}, told by {receipt.origin}); leave it alone."


def completed(task: str, commit: str | None) -> str:
    """Nothing is left to do."""
    made = f" Its commit is {commit[:12]}." if commit else ""
    return f"agent-infra: the run of {task} is completed.{made}"


def stuck(task: str, fault: AgentInfraError) -> str:
    """The route says no."""
    return (
        f"agent-infra: {task} can't go on by itself: {fault.message} [{fault.code}]. "
        "Tell the user, and start no step before that is settled."
    )


def paused(task: str, code: str, message: str, helps: str) -> str:
    """A person must look."""
    return (
        f"agent-infra: the run of {task} is paused ({code}): {message}. It waits for a person: tell the user, and that "
        f"{helps} lets it go on. Start no step before."
    )


def several(tasks: tuple[str, ...]) -> str:
    """A spawn that names no task where several could be meant."""
    return (
        f"agent-infra: several runs are in this worktree: {', '.join(tasks)}. Put the id of the one that is meant into "
        "the prompt of the spawn."
    )


def not_here(task: str, runs: tuple[str, ...]) -> str:
    """A spawn that names a task which has no run in this worktree."""
    here = ", ".join(runs)
    return f"agent-infra: {task} has no run in this worktree; runs here: {here}. Name one of them in the prompt."


def mend(step: Step, fault: AgentInfraError, place: str, left: int) -> str:
    """What a child is told that wants to stop too early."""
    what = f"{fault.message} [{fault.code}]"
    if fault.code == ErrorCode.ARTIFACT_NOT_FOUND:  # its words are for whoever completes a step by hand
        what = f"there is no {step.artifact} [{fault.code}]"
    ending = "This is the last time that you are asked." if left == 0 else "Mend it, then stop again."
    return f"agent-infra: {named(step)} is not finished: {what[:LIMIT]}. {place} {ending}"


def stepless(name: str) -> str:
    """What a managed child is told for which there is no step."""
    return (
        f"agent-infra: there is no step for you as {name} now: none was prepared for you, or another child does it. "
        "Touch nothing and stop at once."
    )
