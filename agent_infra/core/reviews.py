"""The summary of a review: its verdict, its counts, and what it judged.

A verdict is read from two lines of one section and nowhere else; text inside a fence is not read. Whether a review is
current, and what follows from it, is decided in `routing`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from agent_infra.core.artifacts import parse_artifact_name
from agent_infra.core.frontmatter import has_front_matter, parse_front_matter
from agent_infra.core.markdown import DocumentError, Line, Section, find_sections, read_document, replace_lines
from agent_infra.errors import ErrorCode, RefusedError

SUMMARY = ("Review Summary", "审查摘要")
MAX_NUMBER = 2**53 - 1
_INPUT_LINES = 12  # the line that names the input, and eleven below it

_VERDICT = re.compile(r"[-*]?[ \t]*\*\*(?:Overall Verdict|总体结论)\*\*[:：](.*)", re.IGNORECASE | re.DOTALL)
_FINDINGS = re.compile(
    r"[-*]?[ \t]*\*\*(?:Findings \(AI-actionable\)|发现（AI 可处理）)\*\*[:：](.*)", re.IGNORECASE | re.DOTALL
)
_NUMBER = r"[ \t]*([0-9]{1,16})[ \t]*"
_TAIL = r"[ \t]*(?:/.*)?"
_COUNTS = (
    re.compile(rf"{_NUMBER}blockers?,{_NUMBER}majors?,{_NUMBER}minors?{_TAIL}", re.IGNORECASE | re.DOTALL),
    re.compile(rf"{_NUMBER}阻塞项，{_NUMBER}主要，{_NUMBER}次要{_TAIL}", re.DOTALL),
)
_MANUAL = re.compile(r"\*\*(?:Manual[ -]validation|人工校验)\*\*[:：][ \t]*([0-9]{1,16})(?!\d|[.,]\d)", re.IGNORECASE)
_TOKENS = ("{unresolved-blockers}", "{unresolved-major}", "{unresolved-minor}")
_INPUT = re.compile(r"\*\*(?:Review Input\*\*:|审查输入\*\*：|Review Input\*\*：|审查输入\*\*:)", re.IGNORECASE)
_QUOTED = re.compile(r"`([^`]*\.md)`")


class Verdict(StrEnum):
    """What a review concludes."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes-requested"
    REJECTED = "rejected"

    @property
    def words(self) -> str:
        """As reviews and logs write it: `Changes Requested`."""
        return self.value.replace("-", " ").title()

    @property
    def strictness(self) -> int:
        """Its place from the mildest, 0, to the strictest, 2."""
        return tuple(Verdict).index(self)


_VERDICTS = {verdict.words.lower(): verdict for verdict in Verdict} | {
    "通过": Verdict.APPROVED,
    "需要修改": Verdict.CHANGES_REQUESTED,
    "拒绝": Verdict.REJECTED,
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Unresolved findings by severity."""

    blocker: int
    major: int
    minor: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.blocker + self.major + self.minor


@dataclass(frozen=True, slots=True)
class Review:
    """What a review says: `manual_validation` is None where it says nothing, `input` where it names no artifact."""

    verdict: Verdict
    counts: Counts
    manual_validation: int | None
    input: str | None


@lru_cache(maxsize=2)  # one look at a task asks several times about the same review
def parse_review(data: bytes, name: str) -> Review:
    """Read a review; `name` is its file name, which tells the family that it must have judged.

    Raises:
        RefusedError: ORCHESTRATION_REVIEW_INVALID, the message begins with `<name>:<line>:`, if it is not UTF-8, the
            front matter is faulty, or there is not exactly one summary with one verdict and one line of numbers.
    """
    try:
        if has_front_matter(data):
            parse_front_matter(data, flat=False)
        lines = read_document(data)
        section = _summary(lines)
        verdict = _verdict(section)
        counts, manual = _findings(section)
    except DocumentError as fault:
        message = f"{name}:{fault.line}: {fault.reason}"
        raise RefusedError(ErrorCode.ORCHESTRATION_REVIEW_INVALID, message) from fault
    return Review(verdict, counts, manual, _input(lines, name))


def review_faults(data: bytes) -> tuple[DocumentError, ...]:
    """Every fault of a review's summary, for whoever mends it; `parse_review` stops at the first.

    Raises:
        DocumentError: as for `read_document`.
    """
    try:
        section = _summary(read_document(data))
    except DocumentError as fault:
        return (fault,)
    faults = []
    for read in (_verdict, _findings):
        try:
            read(section)
        except DocumentError as fault:
            faults.append(fault)
    return tuple(faults)


def approves(review: Review) -> bool:
    """Whether it lets the work go on: the verdict says so, and no finding contradicts it."""
    return review.verdict is Verdict.APPROVED and not review.counts.total


def fill_summary(data: bytes, name: str, *, verdict: Verdict, counts: Counts, manual: int) -> bytes:
    """The review with verdict and numbers in its summary; every other line keeps its bytes.

    Raises:
        RefusedError: ORCHESTRATION_REVIEW_INVALID where there is not exactly one summary with one line of each.
    """
    numbers = f"{counts.blocker} blockers, {counts.major} majors, {counts.minor} minors"
    try:
        section = _summary(read_document(data))
        wanted = {
            _only(section, _VERDICT, "Overall Verdict")[0]: f"- **Overall Verdict**: {verdict.words}",
            _only(section, _FINDINGS, "Findings (AI-actionable)")[0]: (
                f"- **Findings (AI-actionable)**: {numbers} / **Manual validation**: {manual}"
            ),
        }
        return replace_lines(data, {number: (text,) for number, text in wanted.items()})
    except DocumentError as fault:
        message = f"{name}:{fault.line}: {fault.reason}"
        raise RefusedError(ErrorCode.ORCHESTRATION_REVIEW_INVALID, message) from fault


def stated_manual(data: bytes) -> int | None:
    """How many validations by hand the summary names, whatever else is wrong with it."""
    try:
        section = _summary(read_document(data))
        found = _MANUAL.findall(_only(section, _FINDINGS, "Findings (AI-actionable)")[1])
    except DocumentError:
        return None
    return int(found[0]) if len(found) == 1 else None


def _summary(lines: Sequence[Line]) -> Section:
    found = find_sections(lines, SUMMARY, stop_level=1)
    if not found:
        raise DocumentError(1, 'no visible heading "## Review Summary"; a review has exactly one')
    if len(found) > 1:
        raise DocumentError(found[1].heading.number, 'a second "## Review Summary"; a review has exactly one')
    return found[0]


def _only(section: Section, pattern: re.Pattern[str], what: str) -> tuple[int, str]:
    """Line number and value of the one visible line that matches."""
    bold = (line for line in section.body if line.visible and "**" in line.text)
    found = [(line.number, match[1]) for line in bold if (match := pattern.fullmatch(line.text))]
    if not found:
        raise DocumentError(section.heading.number, f'the summary has no line "- **{what}**: …"')
    if len(found) > 1:
        raise DocumentError(found[1][0], f'a second line "**{what}**"; the summary has exactly one')
    return found[0]


def _verdict(section: Section) -> Verdict:
    number, value = _only(section, _VERDICT, "Overall Verdict")
    verdict = _VERDICTS.get(value.strip().lower())
    if verdict is None:
        wanted = ", ".join(each.words for each in Verdict)
        raise DocumentError(number, f'the verdict "{value.strip()[:60]}"; it is one of {wanted}, and nothing else')
    return verdict


def _findings(section: Section) -> tuple[Counts, int | None]:
    number, value = _only(section, _FINDINGS, "Findings (AI-actionable)")
    if any(token in value for token in _TOKENS):
        raise DocumentError(number, "the counts are still placeholders; write the numbers of unresolved findings")
    match = _COUNTS[0].fullmatch(value) or _COUNTS[1].fullmatch(value)
    if match is None:
        raise DocumentError(number, f'the findings "{value.strip()[:80]}"; write "0 blockers, 0 majors, 0 minors"')
    manual = _MANUAL.findall(value)
    if len(manual) > 1:
        raise DocumentError(number, "two counts of manual validations; write one")
    blocker, major, minor, *rest = (_number(digits, number) for digits in (*match.groups(), *manual))
    return Counts(blocker, major, minor), next(iter(rest), None)


def _number(digits: str, line: int) -> int:
    value = int(digits)
    if value > MAX_NUMBER:
        raise DocumentError(line, f"the number {value}; at most {MAX_NUMBER} is read")
    return value


def _input(lines: Sequence[Line], name: str) -> str | None:
    """The artifact that the review says it judged, of the family that its own name asks for."""
    own = _family(name)
    if own is None or not own.startswith("review-"):
        return None
    bold = (index for index, line in enumerate(lines) if line.visible and "**" in line.text)
    start = next((index for index in bold if _INPUT.search(lines[index].text)), len(lines))
    for line in lines[start : start + _INPUT_LINES]:
        tokens = _QUOTED.findall(line.text) if line.visible else []
        for token in tokens:
            if _family(token) == own.removeprefix("review-"):
                return str(token)
    return None


def _family(name: str) -> str | None:
    """The family of a canonical artifact name; None for every other text."""
    try:
        found = parse_artifact_name(name)
    except RefusedError:
        return None
    return found.family if found else None
