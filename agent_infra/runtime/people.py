"""A person as the child of a step: prepare, editor, complete, seal, advance, in one sitting."""

import getpass
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from agent_infra.core.lifecycle import NATIVE_AGENTS, Role, Step
from agent_infra.core.receipts import Activation, Origin, ReceiptStatus
from agent_infra.core.reviews import Verdict
from agent_infra.core.run import RunStatus, State
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.services import delegate, orchestrate
from agent_infra.services import prepare as preparing
from agent_infra.services.context import Context
from agent_infra.services.guard import authorize
from agent_infra.services.guard import commit as commits
from agent_infra.services.guard.foresee import told
from agent_infra.services.outcome import Outcome
from agent_infra.services.shapes import artifact_template
from agent_infra.services.tasks.review import Wish, finish
from agent_infra.stores.atomic import write_atomic
from agent_infra.stores.runs import require

CLIENT = "human"
_FRESH = "fresh"


@dataclass(frozen=True)
class Sitting:
    """How a person is met.

    Attributes:
        edit: opens a file and comes back when it is closed.
        again: says what is wrong and asks whether the person wants to mend it.
        tell: says what to know before the editor opens.
    """

    edit: Callable[[Path], None]
    again: Callable[[AgentInfraError], bool]
    tell: Callable[[tuple[str, ...]], None] = lambda _: None


def as_person(context: Context) -> Context:
    """The same repository, with a person reporting the events."""
    return replace(context, origin=Origin.HUMAN)


def open_editor(path: Path) -> None:
    """Open a file in the person's editor, as git would choose it, and wait.

    Raises:
        RefusedError: TERMINAL_REQUIRED where the editor can't be started or fails.

    Side effects:
        A child process on this terminal.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except (OSError, ValueError) as error:
        message = f"the editor {editor!r} can't be started ({error}); set EDITOR"
        raise RefusedError(ErrorCode.TERMINAL_REQUIRED, message) from error
    if code:
        raise RefusedError(ErrorCode.TERMINAL_REQUIRED, f"the editor {editor!r} ended with {code}; the step stays open")


def do_step(context: Context, ref: str, role: Role, sitting: Sitting) -> Outcome:
    """Do the pending or next step of a role by hand.

    Raises:
        RefusedError: ORCHESTRATION_PROVENANCE_MISMATCH where the next step is for the other role or is the commit;
            what the verbs refuse.

    Side effects:
        What prepare, activate, complete, seal and advance do; an editor on the terminal.
    """
    place = context.active(ref)
    state = _open(context, ref, role)
    receipt = state.pending
    if receipt is None:
        return Outcome(state.run.status, task_id=place.task_id, run=state.run)
    path = place.folder / receipt.artifact
    template = artifact_template(context, state, receipt).encode()
    if not path.exists():
        write_atomic(path, template)
    sitting.tell(told(context, place.task_id, receipt.id))
    while True:
        sitting.edit(path)
        try:
            _check_written(path, template)
            _fill(context, ref, path)
            delegate.complete(context, ref, delegate.Claim(CLIENT))
            break
        except RefusedError as error:
            if not sitting.again(error):
                raise
    return _close(context, ref, receipt.role, str(receipt.child_id))


def _fill(context: Context, ref: str, path: Path) -> None:
    """Put the ledger's counts in the place of the template's braces, where a person left them."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.name.startswith("review-") and "{unresolved-" in text:
        said = re.search(r"Overall Verdict\*\*: *(Approved|Changes Requested|Rejected) *$", text, re.MULTILINE)
        verdict = Verdict(said[1].lower().replace(" ", "-")) if said else None
        finish(context, ref, Wish(verdict, review=path.name))


def _check_written(path: Path, template: bytes) -> None:
    """A template that nobody filled is no result."""
    if path.is_file() and path.read_bytes() == template:
        message = f"{path.name} is the template still; write what you did or found, then close the editor"
        raise RefusedError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, message)


def commit_step(context: Context, ref: str, *, message: str) -> Outcome:
    """Do the whole commit step by hand.

    Side effects:
        As `do_step`, and one commit.
    """
    state = _open(context, ref, Role.EXECUTOR, commits_too=True)
    if state.pending is None:
        return Outcome(state.run.status, task_id=state.run.task_id, run=state.run)
    notes = _committed(context, ref, state, message)
    delegate.complete(context, ref, delegate.Claim(CLIENT))
    done = _close(context, ref, state.pending.role, str(state.pending.child_id))
    return replace(done, notes=(*notes, *done.notes))


def _committed(context: Context, ref: str, state: State, message: str) -> tuple[str, ...]:
    """Make the commit, unless an earlier sitting that was cut short has made it."""
    try:
        oid, _ = authorize.made_commit(context, state)
    except RefusedError:
        return commits.commit(context, ref, message=message).notes
    return (f"{oid} was committed already",)


def _open(context: Context, ref: str, role: Role, *, commits_too: bool = False) -> State:
    """The run with its step activated by this person; one that this person left open is taken up again."""
    place = context.active(ref)
    state = require(context.load(place), place.task_id)
    if state.run.status == RunStatus.PAUSED:
        pause = state.run.pause.message if state.run.pause else "no reason"
        helps = preparing.how_to_run(place.task_id, state)
        message = f"the run of {place.task_id} is paused: {pause}; {helps}"
        raise RefusedError(ErrorCode.ORCHESTRATION_RUN_PAUSED, message)
    if state.pending is None:
        _check_step(place.task_id, orchestrate.route_task(context, ref), role, commits_too=commits_too)
        preparing.prepare(context, ref, preparing.Order(CLIENT))
        state = require(context.load(place), place.task_id)
    receipt = state.pending
    if receipt is None:
        return state
    if receipt.client == CLIENT:
        _check_kind(place.task_id, receipt.step, role, commits_too=commits_too)
    else:
        gives_up = f"`agent-infra orchestrate abandon {place.task_id} --reason …` ends that step"
        message = (
            f"{receipt.artifact} is pending for the {receipt.role} of client {receipt.client}, not for you; {gives_up}"
        )
        raise RefusedError(ErrorCode.ORCHESTRATION_DELEGATION_BUSY, message)
    if receipt.status == ReceiptStatus.PREPARED:
        native = next(name for name, of in NATIVE_AGENTS.items() if of == role)
        child = f"human:{_email(context)}:{context.new_id()}"
        parent = f"terminal:{getpass.getuser()}"
        delegate.activate(context, ref, Activation(CLIENT, native, child, parent, _FRESH))
    return require(context.load(place), place.task_id)


def _check_step(task_id: str, outcome: Outcome, role: Role, *, commits_too: bool) -> None:
    step: Step | None = outcome.next
    if step is None:
        reopens = f"`agent-infra orchestrate reopen {task_id} --stage STAGE --reason …` asks for another round"
        message = f"the run of {task_id} is {outcome.status} and has no next step; {reopens}"
        raise outcome.error or RefusedError(ErrorCode.ORCHESTRATION_RUN_NOT_RUNNING, message)
    _check_kind(task_id, step, role, commits_too=commits_too)


def _check_kind(task_id: str, step: Step, role: Role, *, commits_too: bool) -> None:
    """A step is done with the command for its kind: `work`, `review` or `commit`."""
    is_commit = step.artifact == "commit"
    if step.role != role or is_commit != commits_too:
        helps = {
            (Role.REVIEWER, False): f"`agent-infra review {task_id}`",
            (Role.EXECUTOR, False): f"`agent-infra work {task_id}`",
            (Role.EXECUTOR, True): f"`agent-infra commit {task_id} -m MESSAGE`",
        }[step.role, is_commit]
        message = (
            f"the next step is {step.stage} round {step.round} by the {step.role}; {helps} does it, "
            f"`agent-infra orchestrate status {task_id}` says why"
        )
        raise RefusedError(ErrorCode.ORCHESTRATION_PROVENANCE_MISMATCH, message)


def _close(context: Context, ref: str, role: str, child_id: str) -> Outcome:
    native = next(name for name, of in NATIVE_AGENTS.items() if of == role)
    sealed = delegate.seal(context, ref, delegate.Stop(CLIENT, native, child_id))
    if sealed.exit_code or sealed.status == "paused":
        return sealed
    return orchestrate.advance(context, ref)


def _email(context: Context) -> str:
    return context.repo.run("config", "user.email", check=False).stdout.decode(errors="replace").strip() or "unknown"
