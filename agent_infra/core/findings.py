"""What may become of a row of the findings ledger: who answers, who closes, and when only a person may.

The moves are a table; rows are values. Whether the caller is who it says is proven by receipts, not here.
Source: the reference's structured intents (finding-upsert, finding-respond, finding-review, decision-upsert).
"""

import re
from dataclasses import dataclass, replace

from agent_infra.core.artifacts import ArtifactName, parse_artifact_name
from agent_infra.core.ledger import DECIDED, PENDING, Ledger, Row
from agent_infra.core.machines import Arrow, Table
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError

MAX_ROUNDS = 3  # answers to one finding before a person is asked
RESPONSES = ("accepted", "adjusted", "refuted", "cannot-judge")
REVIEWS = ("closed", "confirmed", "open", PENDING)
_PREFIXES = {"analysis": "AN", "plan": "PL", "code": "CD"}
_ANCHOR = re.compile(r"[^\s#|]+")


@dataclass(frozen=True)
class Move:
    """One answer to a row.

    Attributes:
        row: as it stands.
        status: wanted.
        round: 1-based; of the answer.
        evidence: one line; `<file>.md#<anchor>` where a file shows it.
        max_rounds: answers to one finding before a person is asked.
    """

    row: Row
    status: str
    round: int
    evidence: str
    max_rounds: int = MAX_ROUNDS

    @property
    def is_at_limit(self) -> bool:
        """Whether the row has been talked about often enough."""
        return int(self.row.round) >= self.max_rounds


def _refused(message: str) -> RefusedError:
    return RefusedError(ErrorCode.LEDGER_TRANSITION_INVALID, message)


def _no_arrow(state: str, trigger: str) -> AgentInfraError:
    who, _, wanted = trigger.partition(" ")
    mine = [arrow.trigger for arrow in _ARROWS if arrow.source == state and arrow.trigger.startswith(f"{who} ")]
    allowed = [trigger.partition(" ")[2] for trigger in mine]
    answer = ", ".join(allowed) if allowed else "nothing"
    return _refused(f"a row that is {state} can't become {wanted} by a {who}; it can become: {answer}")


def next_round(move: Move) -> None:
    """An answer belongs to the round after the row's."""
    wanted = int(move.row.round) + 1
    if move.round != wanted:
        raise _refused(
            f"{move.row.id} is of round {move.row.round}, so its answer is of round {wanted}, not {move.round}"
        )


def below_limit(move: Move) -> None:
    """At the limit a row goes to a person, not round once more."""
    if move.is_at_limit:
        message = (
            f"{move.row.id} has gone {move.row.round} rounds, the limit is {move.max_rounds}; ask a person: {PENDING}"
        )
        raise _refused(message)


def at_limit(move: Move) -> None:
    """Nobody is bothered with what was not answered yet."""
    if not move.is_at_limit:
        raise _refused(f"{move.row.id} was not answered yet; a person is asked after {move.max_rounds} rounds")


def minor_of_this_round(move: Move) -> None:
    """A reviewer closes its own finding at once only where it is minor and was mended in the same round."""
    if move.row.severity != "minor" or move.round != int(move.row.round):
        raise _refused(
            f"{move.row.id} is open; only a minor finding that was mended in its own round is closed unanswered"
        )


_ARROWS = (
    *(Arrow(f"executor {word}", "open", word, (next_round,)) for word in RESPONSES),
    Arrow("reviewer closed", "accepted", "closed"),
    Arrow("reviewer confirmed", "adjusted", "confirmed"),
    Arrow("reviewer confirmed", "refuted", "confirmed"),
    *(Arrow("reviewer open", source, "open", (below_limit,)) for source in RESPONSES),
    *(Arrow(f"reviewer {PENDING}", source, PENDING) for source in RESPONSES),
    Arrow("reviewer closed", "open", "closed", (minor_of_this_round,)),
    Arrow(f"reviewer {PENDING}", "open", PENDING, (at_limit,)),
)
FINDING = Table("finding", ("open", *RESPONSES, PENDING, "closed", "confirmed", DECIDED), _ARROWS, _no_arrow)


def answer(move: Move, *, by: str) -> Row:
    """The row after an answer.

    Args:
        by: `executor` or `reviewer`.

    Raises:
        RefusedError: LEDGER_TRANSITION_INVALID where the table has no such arrow or a guard says no;
            LEDGER_EVIDENCE_INVALID for an answer that shows nothing.
    """
    if move.row.kind not in _PREFIXES.values():
        raise _refused(f"{move.row.id} is no finding; a person decides it: `agent-infra task decide`")
    check_evidence(move.evidence)
    if (move.row.status, move.row.evidence) == (move.status, move.evidence):
        return move.row  # said again
    status = FINDING.follow(move.row.status, f"{by} {move.status}", move)
    round_ = str(move.round) if by == "executor" else move.row.round
    return replace(move.row, status=status, round=round_, evidence=move.evidence)


def check_evidence(evidence: str) -> None:
    """Evidence is one line that is not empty.

    Raises:
        RefusedError: LEDGER_EVIDENCE_INVALID.
    """
    if not evidence.strip() or not evidence.isprintable():
        raise RefusedError(ErrorCode.LEDGER_EVIDENCE_INVALID, "evidence is one line, such as code-r2.md#CD-1")


@dataclass(frozen=True)
class Finding:
    """What a reviewer puts into the ledger.

    Attributes:
        review: bare name of the review it stands in.
        row_id: which id it shall have; empty for the next one.
        anchor: where in the review it stands; the id where left out.
    """

    review: str
    severity: str
    row_id: str = ""
    anchor: str = ""


def add_finding(ledger: Ledger, finding: Finding) -> Row:
    """The row of a finding: a new one, or the one that is there where it says the same.

    Raises:
        RefusedError: LEDGER_EVIDENCE_INVALID for a file that is no review or an anchor that is none;
            LEDGER_IDENTITY_CONFLICT where the id stands for something else or is not the next one.
    """
    artifact = _review(finding.review)
    stage = artifact.family.removeprefix("review-")
    prefix = _PREFIXES[stage]
    wanted = finding.row_id.upper() or f"{prefix}-{_highest(ledger, prefix) + 1}"
    row = Row(
        wanted, stage, str(artifact.round), finding.severity, "open", _at(artifact.name, finding.anchor or wanted)
    )
    return _new_or_same(ledger, row, prefix)


def add_decision(ledger: Ledger, stage: str, artifact: str, row_id: str = "") -> Row:
    """The row of a question for a person, told of in an artifact under the row's own id.

    Raises:
        RefusedError: LEDGER_EVIDENCE_INVALID for a file that is no artifact of the stage; LEDGER_IDENTITY_CONFLICT.
    """
    named = _artifact(artifact)
    if named is None or named.family not in (stage, f"review-{stage}"):
        message = f"{artifact} is no artifact of {stage}; expected {stage}[-rN].md or review-{stage}[-rN].md"
        raise RefusedError(ErrorCode.LEDGER_EVIDENCE_INVALID, message)
    wanted = row_id.upper() or f"HD-{_highest(ledger, 'HD') + 1}"
    return _new_or_same(ledger, Row(wanted, stage, "-", "decision", PENDING, f"{artifact}#{wanted}"), "HD")


def _review(name: str) -> ArtifactName:
    artifact = _artifact(name)
    if artifact is None or not artifact.family.startswith("review-"):
        message = f"{name} is no review; expected review-analysis, review-plan or review-code with its round, .md"
        raise RefusedError(ErrorCode.LEDGER_EVIDENCE_INVALID, message)
    return artifact


def _artifact(name: str) -> ArtifactName | None:
    """The artifact of a name; one that looks like an artifact's and is none is no evidence."""
    try:
        return parse_artifact_name(name)
    except RefusedError as error:
        raise RefusedError(ErrorCode.LEDGER_EVIDENCE_INVALID, error.message) from error


def _at(name: str, anchor: str) -> str:
    if not _ANCHOR.fullmatch(anchor):
        raise RefusedError(ErrorCode.LEDGER_EVIDENCE_INVALID, f"the anchor {anchor!r} holds a blank, a bar or a #")
    return f"{name}#{anchor}"


def _highest(ledger: Ledger, prefix: str) -> int:
    return max((int(row.id.partition("-")[2]) for row in ledger.rows if row.kind == prefix), default=0)


def _new_or_same(ledger: Ledger, row: Row, prefix: str) -> Row:
    there = next((each for each in ledger.rows if each.id == row.id), None)
    if there is not None:
        same = (there.stage, there.round, there.severity) == (row.stage, row.round, row.severity)
        if same and (there.evidence == row.evidence or there.status != "open"):
            return there
        raise RefusedError(ErrorCode.LEDGER_IDENTITY_CONFLICT, f"{row.id} stands for another finding: {there.evidence}")
    following = f"{prefix}-{_highest(ledger, prefix) + 1}"
    if row.id != following:
        raise RefusedError(ErrorCode.LEDGER_IDENTITY_CONFLICT, f"{row.id} is not the next id, which is {following}")
    return row
