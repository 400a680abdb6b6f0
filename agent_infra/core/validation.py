"""The report of a manual validation: which code review left it to a person, and what the person found.

In a run the journal says which review was validated; without one the report is all there is.
"""

import re
from dataclasses import dataclass

from agent_infra.core.markdown import DocumentError, read_document

_FIELD = re.compile(r"- \*\*(Validation Input|Input SHA-256|Verdict|Result)\*\*: (.*)")
_PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Validation:
    """A manual validation that passed: the review by file name and SHA-256, and the person's words."""

    review: str
    sha256: str
    result: str


def render_validation(name: str, found: Validation, *, count: int, at: str, person: str) -> bytes:
    """The report, to lie in the task folder as `name`.

    Args:
        count: how much the review left.
        at: as logs write it.
        person: who says so.
    """
    return f"""# Manual Validation

- **Artifact File**: `{name}`
- **Validation Input**: `{found.review}`
- **Input SHA-256**: `{found.sha256}`
- **Left to a Person**: {count}
- **Verdict**: {_PASSED}
- **Validated At**: {at}
- **Operator**: {person}
- **Result**: {found.result}
""".encode()


def read_validation(data: bytes) -> Validation | None:
    """What a report says; None unless it passed and names each field once."""
    try:
        matches = [match for line in read_document(data) if line.visible and (match := _FIELD.fullmatch(line.text))]
    except DocumentError:
        return None
    fields = {match[1]: match[2].strip() for match in matches}
    if len(matches) != len(fields) or len(fields) != 4 or fields["Verdict"] != _PASSED:
        return None
    return Validation(fields["Validation Input"].strip("`"), fields["Input SHA-256"].strip("`"), fields["Result"])
