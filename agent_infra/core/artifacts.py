"""The names of what steps leave behind: families, rounds, and names that only look like one.

What lies inside an artifact is not read here, nor is a folder: names come in as text.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from agent_infra.errors import ErrorCode, RefusedError

FAMILIES: tuple[str, ...] = (
    "analysis",
    "review-analysis",
    "plan",
    "review-plan",
    "code",
    "review-code",
    "manual-validation",
    "validation-run",
    "pr-review",
)
MAX_ROUND = 999

_ANY_FAMILY = "|".join(FAMILIES)
_CANONICAL = re.compile(rf"({_ANY_FAMILY})(?:-r([1-9][0-9]{{0,2}}))?\.md")
_LOOKS_LIKE = re.compile(rf"(?:{_ANY_FAMILY})(?:-r(.*))?\.md", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class ArtifactName:
    """One attempt at a stage: `round` is 1-based and at most 999."""

    family: str
    round: int

    @property
    def name(self) -> str:
        """The bare file name: `plan.md`, `plan-r2.md`."""
        return f"{self.family}.md" if self.round == 1 else f"{self.family}-r{self.round}.md"


def artifact_name(family: str, round: int) -> str:  # noqa: A002 - the word of the domain
    """The file that this round of a family lies in.

    Raises:
        RefusedError: ORCHESTRATION_ARTIFACT_INVALID for an unknown family or a round that is not 1 to 999.
    """
    if family not in FAMILIES:
        raise _invalid(f'"{family}" is no family of artifacts; they are {", ".join(FAMILIES)}')
    if not 1 <= round <= MAX_ROUND:
        raise _invalid(f"round {round} of {family}; rounds are 1 to {MAX_ROUND}")
    return ArtifactName(family, round).name


def parse_artifact_name(name: str) -> ArtifactName | None:
    """What a file in a task folder is an artifact of; None if its name is nobody's business.

    Raises:
        RefusedError: ORCHESTRATION_ARTIFACT_INVALID for a name that means an artifact but is none: another case, an
            invisible character, a round that is 1, zero, padded, too large or not in ASCII digits.
    """
    match = _CANONICAL.fullmatch(name)
    if match and match[2] != "1":
        return ArtifactName(match[1], int(match[2] or 1))
    if _means_artifact(name):
        raise _invalid(
            f"{name[:260]!r} looks like an artifact but is none; round 1 is plan.md, later ones plan-r2.md to r999"
        )
    return None


def newest_rounds(names: Iterable[str]) -> dict[str, int]:
    """The highest round of each family that is there.

    Raises:
        RefusedError: ORCHESTRATION_ARTIFACT_INVALID as `parse_artifact_name`.
    """
    newest: dict[str, int] = {}
    for found in _parsed(names):
        newest[found.family] = max(found.round, newest.get(found.family, 0))
    return newest


def round_gaps(names: Iterable[str]) -> tuple[ArtifactName, ...]:
    """The rounds that are missing below the newest of their family, in order.

    Raises:
        RefusedError: ORCHESTRATION_ARTIFACT_INVALID as `parse_artifact_name`.
    """
    there = set(_parsed(names))
    newest = newest_rounds(artifact.name for artifact in there)
    wanted = {ArtifactName(family, number) for family, top in newest.items() for number in range(1, top)}
    return tuple(sorted(wanted - there))


def _parsed(names: Iterable[str]) -> Iterable[ArtifactName]:
    return (found for name in names if (found := parse_artifact_name(name)))


def _means_artifact(name: str) -> bool:
    """Whether a person would take the name for an artifact's, or a file system could."""
    shown = "".join(character for character in name if unicodedata.category(character) != "Cf")
    match = _LOOKS_LIKE.fullmatch(unicodedata.normalize("NFKC", shown).casefold().strip())
    return match is not None and all(character.isnumeric() for character in match[1] or "")


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.ORCHESTRATION_ARTIFACT_INVALID, message)
