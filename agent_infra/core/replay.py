"""A journal told again, line by line: was every move one that the tables of run and receipt allow?

`fold` says what the lines add up to; here each line is held against the state before it. A line of an operation that
is not known may hold facts, but can't move anything. Nothing here reads a file, an object or a clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent_infra.core.lifecycle import Stage
from agent_infra.core.receipts import Receipt
from agent_infra.core.replay_rules import RULES, Event, Moment, illegal
from agent_infra.core.run import merged
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError

# operations after which the documents of a task may be those of another piece of work
NEW_WORK = frozenset({"begin", "prepare", "reopen"})

_CODES = {
    ErrorCode.DELEGATION_REVIEWER_WRITE_FORBIDDEN: ErrorCode.VERIFY_REVIEWER_WROTE,
    ErrorCode.VERIFY_REVIEWER_IS_EXECUTOR: ErrorCode.VERIFY_REVIEWER_IS_EXECUTOR,
}


@dataclass(frozen=True)
class Story:
    """What became of the steps of a journal.

    Attributes:
        outcomes: last status by receipt id.
        commits: the commit that was recorded, by the id of its commit receipt.
        leaves: commits that a person let pass -> why.
    """

    outcomes: Mapping[str, str]
    commits: Mapping[str, str]
    leaves: Mapping[str, str]


def replay(events: Sequence[Event]) -> Story:
    """Hold every line against the tables.

    Raises:
        RefusedError: VERIFY_TRANSITION_INVALID naming the line and the rule; VERIFY_REVIEWER_WROTE where a reviewer
            was sealed though it wrote what it may not; VERIFY_REVIEWER_IS_EXECUTOR where one child played both roles.
    """
    outcomes: dict[str, str] = {}
    commits: dict[str, str] = {}
    leaves: dict[str, str] = {}
    moment = Moment()
    for number, event in enumerate(events, start=1):
        before, moment = moment, _followed(moment, event, number)
        moved = moment.pending or (moment.ended[-1] if event.get("close") else None)
        if moved:
            outcomes[moved.id] = moved.status
        commit = moment.authorization.get("commit")
        if moved and moved.stage == Stage.COMMIT and commit:
            commits[moved.id] = str(commit)
        if event["op"] == "allowed":
            leaves[str(event.get("facts", {}).get("commit"))] = str(before.memo.get("allowed"))
    return Story(outcomes, commits, leaves)


def _followed(before: Moment, event: Event, number: int) -> Moment:
    """The moment after a line that the rules allow."""
    try:
        after = _after(before, event)
        _check(before, after, event)
    except AgentInfraError as error:
        code = _CODES.get(error.code, ErrorCode.VERIFY_TRANSITION_INVALID)
        raise RefusedError(code, f"line {number} of the journal ({event['op']}): {error.message}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"line {number} of the journal ({event['op']}) makes no sense: {type(error).__name__} in its fields"
        raise RefusedError(ErrorCode.VERIFY_TRANSITION_INVALID, message) from error
    return after


def _after(before: Moment, event: Event) -> Moment:
    """What a line makes of the moment before; the same merging as `fold`."""
    if event["op"] == "begin":
        before = Moment()
    pending = before.pending
    if "receipt" in event:
        pending = Receipt.model_validate((pending.to_json() if pending else {}) | event["receipt"])
    run = {**before.run, **event["run"]} if "run" in event else before.run
    memo = merged(before.memo, event["memo"]) if "memo" in event else before.memo
    after = Moment(run, pending, before.ended, memo)
    if not event.get("close"):
        return after
    if pending is None:
        raise illegal("it closes a receipt, but none is pending")
    return replace(after, pending=None, ended=(*before.ended, pending))


def _check(before: Moment, after: Moment, event: Event) -> None:
    rule = RULES.get(str(event["op"]))
    if rule is None:
        if any(event.get(part) for part in ("run", "receipt", "memo", "close")):
            raise illegal("an operation that is not known moves the run; a newer agent-infra may have written it")
        return
    for part, allowed in (("run", rule.run), ("receipt", rule.receipt), ("memo", rule.memo)):
        strangers = set() if allowed is None else set(event.get(part, {})) - allowed
        if strangers:
            raise illegal(f"it changes {', '.join(sorted(strangers))} of the {part}, which it may not")
    if rule.closes is not None and bool(event.get("close")) != rule.closes:
        raise illegal("it ends the pending receipt" if event.get("close") else "it leaves the receipt pending")
    if event["op"] != "begin" and not before.run:
        raise illegal("it does not begin a run")
    rule.check(before, after, event)
