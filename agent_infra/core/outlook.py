"""Would this commit pass git's other hooks? What each did when it was tried, and what that means, in words.

Who runs the hooks, and where, is somebody else's business.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_SHOWN = 20  # paths in a sentence
_DRAFT_LIMIT = 72
_KINDS: Mapping[str, str] = {"bugfix": "fix", "feature": "feat"}
OF_THE_MESSAGE = frozenset({"prepare-commit-msg", "commit-msg"})


class Outlook(StrEnum):
    """What is to be expected of the commit."""

    PASSES = "passes"
    REWRITTEN = "rewritten"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Trial:
    """What one hook did.

    Attributes:
        name: git's name of the hook.
        exit_code: negative where a signal ended it; `None` where its time was up.
        rewrites: paths that are not as they were before it, in the index or in the files; repo-relative, sorted.
        restaged: whether what would be committed is among them.
        output: the end of what it said, for people.
    """

    name: str
    exit_code: int | None
    rewrites: tuple[str, ...] = ()
    restaged: bool = False
    output: str = ""
    seconds: float = 0.0

    @property
    def outlook(self) -> Outlook:
        """What this hook would do to the commit."""
        if self.exit_code is None:
            return Outlook.UNKNOWN
        if self.exit_code != 0:
            return Outlook.REFUSED
        return Outlook.REWRITTEN if self.restaged else Outlook.PASSES


@dataclass(frozen=True)
class Foresight:
    """The answer for one commit.

    Attributes:
        tree: what would be committed; head: on top of which commit, `None` for the first one.
        trials: the hooks in the order in which git calls them.
        linked: what git ignores and the hooks were lent from the worktree.
        draft: the message where we made it up.
        limit: seconds that all of it had.
        reason: why nothing is known, where that is not a hook's doing.
    """

    task_id: str
    tree: str = ""
    head: str | None = None
    trials: tuple[Trial, ...] = ()
    linked: tuple[str, ...] = ()
    draft: str = ""
    limit: float = 0.0
    reason: str = ""

    @property
    def outlook(self) -> Outlook:
        """The worst that is known; only where no harm is known, doubt counts."""
        found = {trial.outlook for trial in self.trials}
        known = (Outlook.REFUSED, Outlook.REWRITTEN)
        doubt = Outlook.UNKNOWN if self.reason or Outlook.UNKNOWN in found else Outlook.PASSES
        return next((each for each in known if each in found), doubt)

    def to_json(self, *, outputs: bool = True) -> dict[str, Any]:
        """The same for programs; without `outputs` nothing that a hook said."""
        return {
            "status": str(self.outlook),
            "taskId": self.task_id,
            "tree": self.tree or None,
            "head": self.head,
            "hooks": [_trial_json(trial, outputs=outputs) for trial in self.trials],
            "linked": list(self.linked),
            "reason": self.reason or None,
        }

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each thing to know; hooks come in their order."""
        if self.reason:
            return (f"git's other hooks were not tried, so whether the commit passes is not known: {self.reason}",)
        if not self.trials:
            return ("git has no other hooks here that could rewrite or refuse the commit",)
        return tuple(self._sentence(trial) for trial in self.trials)

    def _sentence(self, trial: Trial) -> str:
        changed = f"{'rewrite' if trial.restaged else 'change'} {_some(trial.rewrites)}" if trial.rewrites else ""
        if trial.outlook is Outlook.UNKNOWN:
            return f"{trial.name} timed out (limit {self.limit:g} s), so whether the commit passes is not known"
        if trial.outlook is Outlook.REFUSED:
            also = f", and would {changed}" if changed else ""
            about = f"; it judged a draft message of ours ({self.draft!r})" if self._is_drafted(trial) else ""
            return f"{trial.name} would refuse this commit with exit code {trial.exit_code}{also}{about}"
        if trial.outlook is Outlook.REWRITTEN:
            return f"{trial.name} would {changed}, so that it is not what was reviewed and the commit is refused"
        left = f"; it would {changed} beside the commit" if changed else ""
        return f"{trial.name} passes{left}"

    def _is_drafted(self, trial: Trial) -> bool:
        return bool(self.draft) and trial.name in OF_THE_MESSAGE


def advice(foresight: Foresight) -> tuple[str, ...]:
    """What a code reviewer is told: the facts, and what to make of them."""
    said = tuple(f"gate check: {sentence}" for sentence in foresight.sentences())
    if foresight.outlook in {Outlook.PASSES, Outlook.UNKNOWN}:
        return said
    again = f"`agent-infra gate check {foresight.task_id}` shows what the hooks say"
    content = [each for each in foresight.trials if each.outlook in {Outlook.REFUSED, Outlook.REWRITTEN}]
    if all(trial.name in OF_THE_MESSAGE for trial in content):
        return (*said, f"gate check: that concerns the message and not the content; {again}")
    return (
        *said,
        f"gate check: the content that you judge can't be committed as it is; ask for what the hooks want, "
        f"or for the content as they leave it, before you approve; {again}",
    )


def draft_message(title: str, type_: str) -> str:
    """A message that usual rules for messages have nothing against, made of a task's title and type."""
    subject = " ".join(title.split()).rstrip(".") or "change"
    if subject[:1].isupper() and not subject[1:2].isupper():
        subject = subject[:1].lower() + subject[1:]
    whole = f"{_KINDS.get(type_, type_ if re.fullmatch('[a-z]+', type_) else 'chore')}: {subject}"
    return whole if len(whole) <= _DRAFT_LIMIT else whole[:_DRAFT_LIMIT].rpartition(" ")[0] or whole[:_DRAFT_LIMIT]


def _trial_json(trial: Trial, *, outputs: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": trial.name,
        "status": "timed out" if trial.exit_code is None else str(trial.outlook),
        "exitCode": trial.exit_code,
        "rewrites": list(trial.rewrites),
        "restaged": trial.restaged,
        "seconds": trial.seconds,
    }
    return document | ({"output": trial.output} if outputs else {})


def _some(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN} more"
