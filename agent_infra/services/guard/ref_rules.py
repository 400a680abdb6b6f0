"""May git move these refs? What `reference-transaction` asks before a ref of a guarded repository changes.

A guarded branch moves only to the authorized commit, to one that a person let pass, or forward to what its upstream
has already; in a run's worktree no ref may bring a commit that nothing reaches. The old value is what a ref holds now,
never what git was told. Nothing here takes our lock, since git may be a child of somebody who holds it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agent_infra.core.run import State
from agent_infra.errors import GitError
from agent_infra.git import refs
from agent_infra.git.caller import Command
from agent_infra.git.refs import HEADS, Update
from agent_infra.git.repo import Head, is_true
from agent_infra.services.context import Context
from agent_infra.services.guard import authorize
from agent_infra.services.guard.gate import Guarding, look
from agent_infra.services.guard.moves import ALLOWED, UPSTREAM, Move
from agent_infra.stores.runs import Guard


@dataclass(frozen=True)
class Asked:
    """A ref transaction that git is about to make.

    Attributes:
        objects: variables that make objects visible which git is still writing.
        is_here: whether git works in the context's worktree; where that is not clear, the strictest rule counts.
        command: the git command that is about to move refs; asked only for the words of a refusal.
    """

    updates: tuple[Update, ...]
    objects: Mapping[str, str] = field(default_factory=dict)
    is_here: bool = True
    command: Callable[[], Command] = Command


@dataclass(frozen=True)
class Watch:
    """One run that guards, and what it guards."""

    guard: Guard
    entry: Guarding


@dataclass(frozen=True)
class Objection:
    """An update that no rule lets pass.

    Attributes:
        watches: the runs whose word it goes against.
        why: what is wrong with it, in words.
        now: what the ref holds.
    """

    update: Update
    watches: tuple[Watch, ...]
    why: str
    now: str | None


def watching(context: Context) -> tuple[Watch, ...]:
    """Every run of the repository that still guards, or whose journal can't say that it doesn't."""
    found = [Watch(guard, look(context, guard)) for guard in context.runs.guards()]
    return tuple(w for w in found if w.entry.fault or (w.entry.state and w.entry.state.run.guards))


@dataclass(frozen=True)
class Judged:
    """The answer to a ref transaction.

    Attributes:
        objection: the first update that must not happen; None lets git go on.
        noted: what must be recorded once git has done it.
    """

    objection: Objection | None = None
    noted: tuple[Move, ...] = ()


def judge(context: Context, asked: Asked) -> Judged:
    """May git make this transaction? Changes nothing."""
    judge = _Judge(context, asked)
    if not judge.watches:
        return Judged()
    updates = [update for update in asked.updates if update.is_head or update.is_branch]
    # guarded branches first: what may come to one of them may be named by HEAD and by aliases too
    for update in sorted(updates, key=lambda update: (update.is_head, not judge.guarding(update))):
        objection = judge.judge(update)
        if objection:
            return Judged(objection)
    return Judged(noted=tuple(judge.noted))


@dataclass
class _Judge:
    context: Context
    asked: Asked
    passed: set[str] = field(default_factory=set)
    noted: list[Move] = field(default_factory=list)

    @cached_property
    def watches(self) -> tuple[Watch, ...]:
        return watching(self.context)

    @cached_property
    def head(self) -> Head:
        return self.context.repo.head() if self.asked.is_here else Head(None, None)

    @cached_property
    def held(self) -> tuple[dict[str, str], dict[str, str]]:
        guarded = {HEADS + str(w.guard.branch) for w in self.watches if w.guard.branch}
        return refs.values(self.context.repo, guarded | {u.name for u in self.asked.updates if u.is_branch})

    @cached_property
    def is_run_worktree(self) -> bool:
        here = self.context.here
        return not self.asked.is_here or any(w.guard.worktree in {"", here} for w in self.watches)

    @cached_property
    def ignores_case(self) -> bool:
        return is_true(self.context.repo.config(), "core.ignorecase")

    def guarding(self, update: Update) -> tuple[Watch, ...]:
        """The runs whose branch the update names, also through a symbolic ref."""
        return tuple(w for w in self.watches if update.is_branch and self._is_guarded_by(update.name, w.guard))

    def _is_guarded_by(self, name: str, guard: Guard) -> bool:
        if not guard.worktree:
            return True  # a guard that can't be read guards everything
        if guard.branch is None:
            return False
        branch = HEADS + guard.branch
        if name in {branch, self.held[1].get(branch)}:
            return True
        return name.lower() == branch.lower() and self.ignores_case

    def now(self, update: Update) -> str | None:
        """What the ref holds."""
        if update.is_head:
            return None if update.is_elsewhere else self.head.oid
        return self.held[0].get(update.name)

    def judge(self, update: Update) -> Objection | None:
        watches = self.guarding(update)
        if watches:
            return self._judge_guarded(update, watches)
        if update.is_symbolic or update.is_deletion:
            return None
        return self._judge_free(update) if self.is_run_worktree or update.is_elsewhere else None

    def _judge_guarded(self, update: Update, watches: tuple[Watch, ...]) -> Objection | None:
        now = self.now(update)
        if update.new == (now or self.context.repo.null_oid):
            return None
        if update.is_symbolic:
            return Objection(update, watches, "it would lead to another ref", now)
        if update.is_deletion:
            if refs.is_pruning(self.context.repo, update) and update.old == now:
                return None
            return Objection(update, watches, "it would be deleted", now)
        if self._passes(update, watches, now):
            return None
        if now is None and update.new in set(self._known_heads(watches)):
            self.passed.add(update.new)
            return None
        return Objection(update, watches, self._why(update, watches, now), now)

    def _passes(self, update: Update, watches: tuple[Watch, ...], now: str | None) -> bool:
        """Whether a run, a person or the branch's upstream stands for the new commit."""
        if any(self._authorizes(state, update, now) for state in _states(watches)):
            self.passed.add(update.new)
            return True
        why = ""
        if any(self._allows(state, update, now) for state in _states(watches)):
            why = ALLOWED
        elif now is not None and self._is_upstream(update, now):
            why = UPSTREAM
        if not why:
            return False
        self.passed.add(update.new)
        tasks = tuple(w.guard.task_id for w in watches if w.entry.state)
        self.noted.append(Move(update.name, now, update.new, why, tasks))
        return True

    def _judge_free(self, update: Update) -> Objection | None:
        """A HEAD or another branch in a run's worktree: what is known already may be checked out, nothing is added."""
        now = self.now(update)
        if update.new == now or update.new in self.passed:
            return None
        here = self.context.here
        watches = tuple(w for w in self.watches if not self.asked.is_here or w.guard.worktree in {"", here})
        watches = watches or self.watches
        if self._authorizes_detached(update, watches, now):
            return None
        if self.asked.is_here and any(self._allows(state, update, now) for state in _states(watches)):
            self.passed.add(update.new)
            tasks = tuple(w.guard.task_id for w in watches if w.entry.state)
            self.noted.append(Move(update.name, now, update.new, ALLOWED, tasks))
            return None
        if refs.is_reached(self.context.repo, update.new, self.asked.objects):
            return None
        return Objection(update, watches, "it would bring a commit that no ref reaches", now)

    def _authorizes_detached(self, update: Update, watches: tuple[Watch, ...], now: str | None) -> bool:
        if not update.is_head or update.is_elsewhere or self.head.ref is not None:
            return False
        return any(self._authorizes(state, update, now) for state in _states(watches))

    def _authorizes(self, state: State, update: Update, now: str | None) -> bool:
        authorized = state.run.commit_authorization
        ref = "HEAD" if update.is_head else update.name
        if not authorize.is_open(state) or (authorized.ref, authorized.head) != (ref, now):
            return False
        try:
            return not authorize.lacks_of(self.context, state, update.new, objects=self.asked.objects)
        except GitError:
            return False

    def _allows(self, state: State, update: Update, now: str | None) -> bool:
        """Whether a person lets pass one commit that follows, or amends, what the ref holds."""
        if not state.memo.allowed or state.memo.allowed_head != now:
            return False
        try:
            parents, _, _ = authorize.commit_facts(self.context, update.new, objects=self.asked.objects)
            if now is None:
                return not parents
            return now in parents or parents == authorize.commit_facts(self.context, now)[0]
        except GitError:
            return False

    def _is_upstream(self, update: Update, now: str) -> bool:
        """Whether the move is a fast-forward to what the branch's upstream has already."""
        repo, objects = self.context.repo, self.asked.objects
        followed = refs.upstream(repo, update.name)
        if followed is None or not refs.is_ancestor(repo, now, update.new, objects):
            return False
        return refs.is_ancestor(repo, update.new, followed, objects)

    @staticmethod
    def _known_heads(watches: tuple[Watch, ...]) -> Iterator[str]:
        for state in _states(watches):
            head = state.memo.head or state.run.baseline.head
            if head:
                yield head

    def _why(self, update: Update, watches: tuple[Watch, ...], now: str | None) -> str:
        if now is None:
            known = ", ".join(self._known_heads(watches)) or "nothing yet"
            return f"it is missing, and the run last saw it at {known}"
        for state in _states(watches):
            if authorize.is_open(state):
                lacks = self._lacks(state, update, now)
                return f"{update.new} is not the authorized commit: {lacks}"
        return f"{update.new} is not an authorized commit"

    def _lacks(self, state: State, update: Update, now: str) -> str:
        authorized = state.run.commit_authorization
        if (authorized.ref, authorized.head) != (update.name, now):
            return f"that one follows {authorized.head} on {authorized.ref}, which is at {now}"
        try:
            return authorize.lacks_of(self.context, state, update.new, objects=self.asked.objects)
        except GitError as error:
            return error.message


def _states(watches: tuple[Watch, ...]) -> Iterator[State]:
    for watch in watches:
        if watch.entry.state:
            yield watch.entry.state
