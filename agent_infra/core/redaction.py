"""Text that programs said, without the secrets in it: what may be shown to people, agents and logs.

Known kinds of secrets only; what looks like an ordinary word is not recognised.
"""

import re

HIDDEN = "[redacted]"

# each hides its group `secret`, or the whole match where it has none
_SECRETS = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\bxox[a-z]-[A-Za-z0-9-]{10,}|https://hooks\.slack\.com/\S+",
        r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|AIza[A-Za-z0-9_-]{30,})",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        r"(?<=://)(?P<secret>[^\s/@]+)(?=@)",
        r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?P<secret>(?:(?:basic|bearer|token|digest)\s+)?[^\s\"',;]+)",
        r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        r"(?i)(?<![A-Za-z0-9])[A-Za-z0-9_.-]*(?:password|passwd|secret|token|api[_-]?key|private[_-]?key|access[_-]?key)"
        r"[\"']?\s*[=:]\s*[\"']?(?P<secret>[^\s\"',;]{6,})",
    )
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def redact(text: str) -> str:
    """The text with every secret that we know the look of replaced."""
    for pattern in _SECRETS:
        text = pattern.sub(_hidden, text)
    return text


def _hidden(match: re.Match[str]) -> str:
    secret = match.groupdict().get("secret")
    return HIDDEN if secret is None else match[0].replace(secret, HIDDEN)


def tail(data: bytes, *, lines: int, limit: int) -> str:
    """The last lines of what a program said, for people: no secrets, no colours, nothing that moves a cursor.

    Args:
        limit: characters; of a longer end only what comes last.
    """
    text = _ESCAPES.sub("", data.decode(errors="replace")).replace("\r\n", "\n")
    # a line that draws itself anew counts as it was left
    shown = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    plain = [_UNSEEN.sub("?", line) for line in redact("\n".join(shown)).split("\n") if line]
    return "\n".join(plain[-lines:])[-limit:]
