"""Which line of a journal may follow which: for each operation what it may change, and when. Data, and small checks.

Each check gets the moment before, the moment after and the line; it raises the rule that says no. The moves of run and
receipt themselves are those of their tables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_infra.core.checks import check_key
from agent_infra.core.facts import counted
from agent_infra.core.ledger import DECIDED, is_terminal
from agent_infra.core.lifecycle import NATIVE_AGENTS, Role, Stage
from agent_infra.core.receipts import RECEIPT, Activation, Completion, Outcome, Receipt, ReceiptStatus, Sealing
from agent_infra.core.run import RUN, RunStatus
from agent_infra.errors import ErrorCode, RefusedError

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Moment:
    """What a journal says up to one line; `run` and `memo` as the journal spells them."""

    run: Mapping[str, Any] = field(default_factory=dict)
    pending: Receipt | None = None
    ended: tuple[Receipt, ...] = ()
    memo: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """Where the run stands."""
        return str(self.run["status"])

    @property
    def authorization(self) -> Mapping[str, Any]:
        """Leave for one commit, as far as there is any."""
        found: Mapping[str, Any] = self.run.get("commitAuthorization") or {}
        return found


@dataclass(frozen=True)
class Rule:
    """What a line of one operation may change, and when.

    Attributes:
        run: the fields of the run; None for any. `receipt` and `memo` likewise.
        closes: whether it must (True) or must not (False) end the pending receipt; None for either.
    """

    check: Callable[[Moment, Moment, Event], None]
    run: frozenset[str] | None = frozenset()
    receipt: frozenset[str] | None = frozenset()
    memo: frozenset[str] | None = frozenset()
    closes: bool | None = False


def _begin(before: Moment, after: Moment, event: Event) -> None:
    if before.run and not before.run.get("ended"):
        raise illegal("it begins a run before the one before was ended")
    _expect("runId" in event.get("run", {}), "it names no run")
    _expect(after.run.get("runId") != before.run.get("runId"), "it uses the id of the run before")
    _expect(after.status == RunStatus.RUNNING, f"the run begins {after.status}")
    _expect(not after.authorization.get("tree"), "it begins with an authorization")


def _limit(before: Moment, after: Moment, _event: Event) -> None:
    _expect(before.status != RunStatus.COMPLETED, "a completed run gets no more steps")
    _expect(int(after.run["maxSteps"]) > int(before.run["maxSteps"]), "the limit of steps is lowered")


def _resume(before: Moment, after: Moment, event: Event) -> None:
    _moves(before, after, "resume")
    _expect(after.run.get("pause") is None, "the run goes on with its pause")
    pause = before.run.get("pause") or {}
    _expect(bool(pause.get("recoverable")), "a final pause ends by abandoning alone")
    if "maxSteps" in event["run"]:
        _limit(before, after, event)


def _prepare(before: Moment, after: Moment, _event: Event) -> None:
    RUN.follow(before.status, "work")
    _expect(before.pending is None, "a step is pending already")
    receipt = _pending(after)
    _expect(receipt.status == ReceiptStatus.PREPARED, f"the receipt starts {receipt.status}")
    step = receipt.step
    _expect(receipt.role == step.role, f"{step.stage} is done by the {step.role}, not the {receipt.role}")
    _expect(after.run.get("nextStage") == step.stage, "the receipt is not for the step that is opened")
    _expect(receipt.run_id == after.run["runId"], f"the receipt belongs to run {receipt.run_id}")
    _expect(receipt.task_id == after.run["taskId"], f"the receipt belongs to task {receipt.task_id}")
    _expect(receipt.child_id is None and receipt.artifact_digest is None, "the receipt has a child or a result already")
    _expect(all(receipt.id != known.id for known in before.ended), f"the receipt {receipt.id} was used before")
    if step.stage is not Stage.COMMIT:
        _expect(after.authorization == before.authorization, "it authorizes a commit")
        return
    leave = after.authorization
    _expect(bool(leave.get("tree")) and not leave.get("commit"), "it authorizes no tree, or is used up already")
    _expect(leave.get("head") == receipt.head_before, "the authorized parent is not the HEAD of the receipt")


def _finish(before: Moment, after: Moment, _event: Event) -> None:
    _expect(before.pending is None, "a step is pending")
    _moves(before, after, "finish")


def _activate(before: Moment, after: Moment, _event: Event) -> None:
    RUN.follow(before.status, "work")
    old, new = _pending(before), _pending(after)
    # the agent's name is not kept; by its role the receipt was prepared
    agent = next(name for name, role in NATIVE_AGENTS.items() if role == old.role)
    start = Activation(
        new.client,
        agent,
        new.child_id or "",
        new.parent_id or "",
        new.spawn_mode or "",
        new.actual_model,
        new.actual_effort,
        new.model_fallback_reason,
    )
    _arrow(new, RECEIPT.follow(old.status, "activate", old, start))
    for known in before.ended:
        if known.child_id == new.child_id:
            message = f"child {new.child_id} was the {known.role} of {known.artifact} before, now of {new.artifact}"
            raise RefusedError(
                ErrorCode.VERIFY_REVIEWER_IS_EXECUTOR
                if known.role != new.role
                else ErrorCode.VERIFY_TRANSITION_INVALID,
                message,
            )


def _complete(before: Moment, after: Moment, event: Event) -> None:
    RUN.follow(before.status, "work")
    old, new = _pending(before), _pending(after)
    trigger = "mend" if old.status == ReceiptStatus.STAGE_COMPLETED else "complete"
    word = Completion(new.stage, new.round, new.artifact, new.agent or "", new.artifact_digest)
    _arrow(new, RECEIPT.follow(old.status, trigger, old, word))
    same = (old.artifact_digest, old.agent) == (new.artifact_digest, new.agent)
    _expect(trigger == "complete" or not same, "the same result is handed in again")
    _expect(bool(new.artifact_digest), "the step has no result")
    _rows(new, event)
    verdicts = set(event.get("memo", {}).get("verdicts", {}))
    _expect(verdicts == ({new.artifact} if new.role == Role.REVIEWER else set()), "the verdict is not of this review")
    _records_commit(before, after, new)
    if new.stage == Stage.COMMIT:
        _expect(new.artifact_digest == after.authorization.get("commit"), "the result is not the recorded commit")


def _seal(before: Moment, after: Moment, event: Event) -> None:
    RUN.follow(before.status, "work")
    old, new = _pending(before), _pending(after)
    expected = after.authorization.get("commit") if new.stage == Stage.COMMIT else new.head_before
    folder = f".agents/workspace/active/{new.task_id}"
    agent = next(name for name, role in NATIVE_AGENTS.items() if role == new.role)
    stop = Sealing(
        child_id=new.child_id or "",
        native_agent=agent,
        exit_code=0,
        after_fingerprint=new.after_fingerprint or "",
        changed_paths=tuple(new.changed_paths),
        allowed_paths=(f"{folder}/{new.artifact}", f"{folder}/task.md"),
        head_after=new.head_after,
        index_after=new.index_after,
        control_after=new.control_after,
        head_moved=f"from {expected} to {new.head_after}" if expected != new.head_after else None,
        control_changed=("the digest",) if new.control_before != new.control_after else (),
    )
    _arrow(new, RECEIPT.follow(old.status, "seal", old, stop))
    _expect(bool(new.after_fingerprint), "the receipt is sealed without a snapshot")
    _expect(new.outcome == Outcome.SUCCESS, f"the child ended with {new.outcome}")
    _rows(new, event)


def _stop(before: Moment, after: Moment, _event: Event) -> None:
    _expect(_pending(before).status == ReceiptStatus.ACTIVATED, "nobody was at work")
    _expect(_pending(before).outcome != _pending(after).outcome, "the same stop is told again")


def _advance(before: Moment, after: Moment, event: Event) -> None:
    RUN.follow(before.status, "work")
    old, new = _pending(before), after.ended[-1]
    _arrow(new, RECEIPT.follow(old.status, "consume"))
    rows = event.get("memo", {}).get("ledger", {})
    known = before.memo.get("ledger", {})
    _expect(rows == counted(old, known), "it remembers other ledger rows than its receipt names")
    _rows(old, event, counts=True)
    _expect(after.run["stepCount"] == before.run.get("stepCount", 0) + 1, "the steps are not counted on by one")
    if new.stage != Stage.COMMIT:
        _expect(after.status == before.status, f"the run becomes {after.status}")
        _expect(after.authorization == before.authorization, "the authorization changes")
        return
    _moves(before, after, "finish")
    _same_leave(before, after, but="consumedAt")
    _expect(bool(after.authorization.get("commit")), "the commit stage ends without a commit")


def _pause(before: Moment, after: Moment, _event: Event) -> None:
    if before.status == RunStatus.PAUSED:
        # another reason to wait takes the place of the first, but ends no final pause
        was, now = before.run.get("pause") or {}, after.run.get("pause") or {}
        _expect(after.status == before.status, f"the run becomes {after.status}")
        _expect(bool(was.get("recoverable")) or not now.get("recoverable"), "a final pause ends by abandoning alone")
    else:
        _moves(before, after, "pause")
    _expect(bool(after.run.get("pause")), "the run pauses without a reason")


def _abandon(before: Moment, after: Moment, event: Event) -> None:
    _aborts(before, after, event)
    if after.status != before.status:
        _moves(before, after, "end")
        _expect(bool(before.authorization.get("commit")), "it completes a run that has no commit")
    if after.authorization.get("tree") is not None:
        _same_leave(before, after, but="consumedAt")
    pause = after.run.get("pause")
    _expect(pause is None or pause == before.run.get("pause") or bool(pause.get("recoverable")), "the pause changes")


def _end(before: Moment, after: Moment, event: Event) -> None:
    _aborts(before, after, event)
    _moves(before, after, "end")
    _expect(bool(after.run.get("ended")), "it names no reason")
    if after.authorization.get("tree") is not None:
        _same_leave(before, after, but="consumedAt")


def _reopen(before: Moment, after: Moment, event: Event) -> None:
    _expect(before.pending is None, "a step is pending")
    _expect(not before.run.get("ended"), "the run was ended")
    _expect(bool(event.get("memo", {}).get("reopened")), "it names no stage")
    if after.status != before.status:
        _moves(before, after, "reopen")
        _expect(after.authorization.get("tree") is None, "it leaves a commit authorized")
    else:
        _expect(after.authorization == before.authorization, "the authorization changes")


def _committed(before: Moment, after: Moment, _event: Event) -> None:
    RUN.follow(before.status, "work")
    receipt = _pending(before)
    _expect(receipt.stage == Stage.COMMIT and receipt.status == ReceiptStatus.ACTIVATED, "no commit is under way")
    _expect(before.authorization.get("commit") is None, "the authorization was used before")
    _records_commit(before, after, receipt)
    _expect(bool(after.authorization.get("commit")), "it names no commit")


def _allow(before: Moment, after: Moment, _event: Event) -> None:
    _expect(before.status != RunStatus.COMPLETED, "the run guards nothing any more")
    _expect(bool(after.memo.get("allowed")), "a commit is let pass without a reason")


def _allowed(before: Moment, after: Moment, event: Event) -> None:
    _expect(bool(before.memo.get("allowed")), "nobody let a commit pass")
    _expect(not after.memo.get("allowed"), "the leave is not used up")
    _expect(bool(event.get("facts", {}).get("commit")), "it names no commit")


def _noted(_before: Moment, after: Moment, _event: Event) -> None:
    _expect(bool(after.memo.get("head")), "it names no commit")


def _upstream(_before: Moment, _after: Moment, event: Event) -> None:
    _expect(bool(event.get("facts", {}).get("to")), "it names no commit")


def _decide(_before: Moment, _after: Moment, event: Event) -> None:
    rows: Mapping[str, Sequence[str]] = event.get("memo", {}).get("ledger", {})
    _expect(bool(rows), "it decides no row")
    odd = [name for name, cells in rows.items() if cells[3] != DECIDED]
    _expect(not odd, f"a person's ruling leaves {', '.join(odd)} undecided")


def _validated(before: Moment, _after: Moment, event: Event) -> None:
    _expect(before.pending is None, "a step is pending")
    _expect(before.status != RunStatus.COMPLETED, "the run is over")
    told: Mapping[str, str] = event.get("memo", {}).get("validated", {})
    _expect(bool(told), "it validates no review")
    known = {
        (r.artifact, r.artifact_digest)
        for r in before.ended
        if (r.stage, r.status) == (Stage.REVIEW_CODE, ReceiptStatus.CONSUMED)
    }
    if before.memo.get("adoptReviews"):
        known |= set(before.memo.get("found", {}).items())
    _expect(set(told.items()) <= known, "it validates a review that nobody handed in")


def _checked(before: Moment, _after: Moment, event: Event) -> None:
    RUN.follow(before.status, "work")
    facts = event["facts"]
    counts = facts["tree"] == facts["treeAfter"]
    told = {check_key(facts["tree"], facts["command"]): facts["exitCode"]} if counts else {}
    _expect(event.get("memo", {}).get("checks", {}) == told, "it remembers another result than that of its command")


_ABORT = frozenset({"status", "outcome", "abortedAt", "abortReason", "afterFingerprint"})
_LEAVE = frozenset({"allowed", "allowedHead"})
_TOLD = frozenset({"usage", "evidence"})  # what a client said about its child, whenever it said so
_STARTED = frozenset({"actualModel", "actualEffort", "modelFallbackReason", "activatedAt"})
_SEALED = frozenset({"afterFingerprint", "changedPaths", "headAfter", "indexAfter", "controlAfter", "sealedAt"})

RULES: Mapping[str, Rule] = {
    "begin": Rule(_begin, run=None, memo=None),
    "limit": Rule(_limit, run=frozenset({"maxSteps"})),
    "resume": Rule(_resume, run=frozenset({"status", "pause", "maxSteps"}), memo=frozenset({"forgiven", "faulty"})),
    "prepare": Rule(
        _prepare,
        run=frozenset({"nextStage", "commitAuthorization"}),
        receipt=None,
        memo=frozenset({"control", "faulty"}),
    ),
    "finish": Rule(_finish, run=frozenset({"status", "nextStage"})),
    "activate": Rule(_activate, receipt=frozenset({"status", "childId", "parentId", "spawnMode"}) | _STARTED | _TOLD),
    "complete": Rule(
        _complete,
        run=frozenset({"commitAuthorization"}),
        receipt=frozenset({"status", "agent", "artifactDigest", "completedAt", "ledger"}) | _TOLD,
        memo=frozenset({"ledger", "verdicts", "head"}),
    ),
    "seal": Rule(
        _seal, receipt=frozenset({"status", "outcome", "ledger"}) | _SEALED | _TOLD, memo=frozenset({"ledger"})
    ),
    "stop": Rule(_stop, receipt=frozenset({"outcome"}) | _TOLD),
    "advance": Rule(
        _advance,
        run=frozenset({"nextStage", "stepCount", "pause", "status", "commitAuthorization"}),
        receipt=frozenset({"status", "consumedAt"}),
        memo=frozenset({"control", "ledger"}),
        closes=True,
    ),
    "pause": Rule(
        _pause,
        run=frozenset({"status", "pause"}),
        receipt=frozenset({"outcome"}),
        memo=frozenset({"faulty"}),
    ),
    "abandon": Rule(
        _abandon,
        run=frozenset({"pause", "commitAuthorization", "status", "nextStage"}),
        receipt=_ABORT | _TOLD,
        memo=frozenset({"faulty", "control"}),
        closes=None,
    ),
    "end": Rule(
        _end,
        run=frozenset({"status", "ended", "nextStage", "commitAuthorization"}),
        receipt=_ABORT,
        memo=frozenset({"faulty", "control"}),
        closes=None,
    ),
    "reopen": Rule(
        _reopen, run=frozenset({"worktree", "branch", "status", "commitAuthorization"}), memo=frozenset({"reopened"})
    ),
    "committed": Rule(_committed, run=frozenset({"commitAuthorization"}), memo=_LEAVE | {"head"}),
    "allow": Rule(_allow, memo=_LEAVE),
    "checked": Rule(_checked, memo=frozenset({"checks"})),
    "allowed": Rule(_allowed, memo=_LEAVE | {"head"}),
    "noted": Rule(_noted, memo=frozenset({"head"})),
    "upstream": Rule(_upstream, memo=frozenset({"head"})),
    "decide": Rule(_decide, memo=frozenset({"ledger"})),
    "validated": Rule(_validated, memo=frozenset({"validated"})),
}


def _moves(before: Moment, after: Moment, trigger: str) -> None:
    """The run's status is the one that the table leads to."""
    _expect(after.status == RUN.follow(before.status, trigger), f"the run becomes {after.status}")


def _arrow(receipt: Receipt, wanted: str) -> None:
    _expect(receipt.status == wanted, f"the receipt becomes {receipt.status}, not {wanted}")


def _aborts(before: Moment, after: Moment, event: Event) -> None:
    """A pending receipt is aborted and ended; without one there is nothing to end."""
    if before.pending is None:
        _expect(not event.get("close"), "it ends a receipt, but none is pending")
        return
    _expect(bool(event.get("close")), "it leaves the receipt pending")
    _arrow(after.ended[-1], RECEIPT.follow(before.pending.status, "abort"))


def _rows(receipt: Receipt, event: Event, *, counts: bool = False) -> None:
    """A row of the ledger becomes terminal by a reviewer's receipt alone, and only once that counts."""
    rows: Mapping[str, Sequence[str]] = event.get("memo", {}).get("ledger", {})
    closed = [name for name, cells in rows.items() if is_terminal(cells[3])]
    may_close = counts and receipt.role == Role.REVIEWER
    decided = [name for name, cells in rows.items() if cells[3] == DECIDED]
    _expect(not decided, f"the {receipt.role} decides {', '.join(decided)} of the ledger, which only a person may")
    _expect(may_close or not closed, f"the {receipt.role} settles {', '.join(closed)} of the ledger, or does it early")


def _records_commit(before: Moment, after: Moment, receipt: Receipt) -> None:
    """The commit stage names its commit once; nobody else touches the authorization."""
    if after.authorization == before.authorization:
        return
    _expect(receipt.stage == Stage.COMMIT, f"{receipt.stage} changes the authorization")
    _expect(before.authorization.get("commit") in (None, after.authorization.get("commit")), "another commit stands")
    _same_leave(before, after, but="commit")


def _same_leave(before: Moment, after: Moment, *, but: str) -> None:
    old = {key: value for key, value in before.authorization.items() if key != but}
    new = {key: value for key, value in after.authorization.items() if key != but}
    _expect(old == new, "what was authorized changes")


def _pending(moment: Moment) -> Receipt:
    if moment.pending is None:
        raise illegal("no step is pending")
    return moment.pending


def _expect(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - a sentence in code: expect this, else say that
    if not holds:
        raise illegal(otherwise)


def illegal(message: str) -> RefusedError:
    """The refusal of a line that may not stand where it stands."""
    return RefusedError(ErrorCode.VERIFY_TRANSITION_INVALID, message)
