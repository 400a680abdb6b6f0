"""Two hundred histories that people make of earned commits, none of which is called a lie; and the same with one byte.

A few runs are made through the product's own verbs. What follows is git's: merges, rebases, squashes, cherry-picks,
rewordings of what those runs committed, drawn by a seed.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from agent_infra.core.history import Kind
from agent_infra.core.lifecycle import Stage
from agent_infra.services import orchestrate
from agent_infra.services.proof.verify import Report, Wish, verify
from tests.support.lifecycle import STATES, World, world_at
from tests.support.surroundings import linked

SEEDS, PARTS = 200, 4
BRANCHES = ("main", "topic", "twice")
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
LONG = [f"line {number}" for number in range(80)]
FLAGGED = {Kind.UNRECEIPTED, Kind.BROKEN}


def _task(number: int) -> str:
    return f"TASK-20260102-12000{number}"


def _changed(world: World, name: str, number: int, text: str) -> None:
    lines = (world.root / name).read_text().splitlines()
    lines[number] = text
    world.write(name, "\n".join(lines) + "\n")


def _earn(world: World, number: int, work: Callable[[], None]) -> None:
    """A whole run of a task in this worktree, or another round of it."""
    task = _task(number)
    primary = World(world.primary or world.root, world.env)
    if primary.folder(task).exists():
        orchestrate.reopen(world.context, task, stage=Stage.CODE, reason="more")
    else:
        primary.make_task(task)
        world.begin(task)
    world.to_commit(task, work=work)
    world.open_step(task)
    world.cli("commit", task, "-m", f"work of {task}")
    assert world.close_step(task) == "completed"


def _earned_everywhere(world: World) -> None:
    """Three lines of earned work from one commit: one of them in a linked worktree, one of a task with two commits."""
    world.write("long.txt", "\n".join(LONG) + "\n")
    world.write("tool.sh", "#!/bin/sh\n")
    world.git("add", "-A")
    world.git("commit", "-qm", "base")
    world.git("tag", "base")

    def first() -> None:
        _changed(world, "long.txt", 5, "five")
        world.write("one.txt", "1\n")

    def second() -> None:
        _changed(world, "long.txt", 25, "twenty-five")
        (world.root / "src/old.py").unlink()

    def undo_first() -> None:
        _changed(world, "long.txt", 5, LONG[5])
        (world.root / "one.txt").unlink()

    for number, work in ((1, first), (2, second), (3, undo_first)):
        _earn(world, number, work)

    world.git("branch", "topic", "base")
    other = linked(world, "linked")
    other.git("checkout", "-q", "topic")
    other.primary = world.root

    def fourth() -> None:
        _changed(other, "long.txt", 45, "forty-five")
        other.write("tool.sh", "#!/bin/sh\n", mode=0o755)

    def fifth() -> None:
        _changed(other, "long.txt", 55, "fifty-five")
        other.write("bin/\u00e9.bin", bytes(range(256)))

    _earn(other, 4, fourth)
    _earn(other, 5, fifth)
    world.git("checkout", "-q", "-b", "twice", "base")
    _earn(world, 6, lambda: _changed(world, "long.txt", 65, "sixty-five"))
    _earn(world, 6, lambda: _changed(world, "long.txt", 75, "seventy-five"))
    world.git("worktree", "remove", "--force", str(other.root))
    world.git("checkout", "-q", "--detach", "base")
    shutil.rmtree(world.root / ".git/hooks")


STATES["earned-everywhere"] = ("installed", _earned_everywhere)


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    return world_at("earned-everywhere", tmp_path_factory, monkeypatch)


@dataclass
class Author:
    """Somebody who puts earned commits together, one move after the other, on a detached HEAD."""

    world: World
    rng: random.Random
    lines: dict[str, list[str]]
    moves: list[str] = field(default_factory=list)

    def git(self, *args: str, check: bool = True) -> bool:
        return self.world.git(*NO_HOOKS, *args, check=check).code == 0

    @property
    def head(self) -> str:
        """HEAD is detached all the time, so this costs no process."""
        return (self.world.root / ".git/HEAD").read_text().strip()

    def write(self, base: str) -> None:
        """A history of two to five moves."""
        self.git("checkout", "-q", "--detach", "-f", base)
        moves = (self.forward, self.merge, self.pick, self.rebase, self.squash, self.reword)
        for _ in range(self.rng.randint(2, 5)):
            move, before = self.rng.choice(moves), self.head
            if move() and self.head != before:
                self.moves.append(move.__name__)
            else:
                self._give_up(before)
        if self.head == base:
            self.git("merge", "-q", "--ff-only", "main")
            self.moves.append("forward")

    def _give_up(self, before: str) -> None:
        for left in ("rebase-merge", "sequencer"):
            shutil.rmtree(self.world.root / ".git" / left, ignore_errors=True)
        self.git("update-ref", "--no-deref", "HEAD", before)
        self.git("reset", "-q", "--hard")

    def segment(self) -> list[str]:
        """Some consecutive commits of one line of work."""
        line = self.rng.choice(list(self.lines.values()))
        start = self.rng.randrange(len(line))
        return line[start : self.rng.randint(start + 1, len(line))]

    # -- the moves; each says whether git did it -----------------------------------------------------------------------

    def forward(self) -> bool:
        return self.git("merge", "-q", "--ff-only", self.segment()[-1], check=False)

    def merge(self) -> bool:
        lines = self.rng.sample(list(self.lines.values()), self.rng.choice((1, 1, 1, 2)))
        return self.git("merge", "-q", "--no-ff", "-m", "merge", *map(self.rng.choice, lines), check=False)

    def pick(self) -> bool:
        return self.git("cherry-pick", *self.segment(), check=False)

    def rebase(self) -> bool:
        """Work of a line, as a branch, rebased onto HEAD, which goes forward to it."""
        some = self.segment()
        return self.git("rebase", "-q", "--no-verify", "--onto", "HEAD", f"{some[0]}~", some[-1], check=False)

    def squash(self) -> bool:
        """A branch squashed by git, whose message has the trailers of all."""
        tip = self.rng.choice(self.rng.choice(list(self.lines.values())))
        return self.git("merge", "-q", "--squash", tip, check=False) and self.git(
            "commit", "-q", "--no-edit", check=False
        )

    def reword(self) -> bool:
        """The last commit, with another message above its trailers; one of a single task now and then without them."""
        message = self.world.git("log", "-1", "--format=%B").out
        if "Agent-Infra-Task" not in message:
            return False
        if message.count("Agent-Infra-Task") == 1 and self.rng.random() < 0.4:
            message = "".join(line for line in message.splitlines(keepends=True) if "Agent-Infra-" not in line)
        return self.git("commit", "-q", "--amend", "-m", f"reworded\n\n{message}")


def check(world: World) -> Report:
    return verify(world.root, Wish("base..HEAD"), environment={})


def told(found: Report) -> list[tuple[str, str, str]]:
    return [(one.commit.subject, str(one.verdict), one.verdict.detail) for one in found.commits]


def sneak(author: Author) -> None:
    """The last commit again, with one byte more in a file that it changed, or else in another one."""
    world = author.world
    names = world.git("diff", "--name-only", "--diff-filter=AM", "-z", "HEAD~", "HEAD").out.split("\0")[:-1]
    name = author.rng.choice(names or ["README.md"])
    (world.root / name).write_bytes((world.root / name).read_bytes() + b"x")
    author.git("commit", "-q", "-a", "--amend", "--no-edit")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_honest_history_is_called_a_lie_and_one_byte_is_found(world: World, part: int) -> None:
    """Originals are verified, what was made again is weak and says why, a merge is as good as its parents.

    The same history with one byte more in its last commit is flagged, at that commit.
    """
    base, *_ = world.git("rev-parse", "base").out.split()
    lines = {name: world.git("rev-list", "--reverse", f"base..{name}").out.split() for name in BRANCHES}
    originals = {oid for line in lines.values() for oid in line}
    assert [len(line) for line in lines.values()] == [3, 2, 2]
    seen: set[str] = set()
    for seed in range(part, SEEDS, PARTS):
        author = Author(world, random.Random(seed), lines)
        author.write(base)
        found = check(world)
        where = (seed, author.moves, told(found))
        assert found.exit_code == 0, where
        for one in found.commits:
            kind, reason = one.verdict.kind, one.verdict.reason
            assert kind is Kind.VERIFIED or (kind is Kind.WEAK and reason), where
            assert one.commit.oid not in originals or kind is Kind.VERIFIED, where
        seen |= {str(one.verdict) for one in found.commits}
        sneak(author)
        after = check(world)
        flagged = [one.commit.oid for one in after.commits if one.verdict.kind in FLAGGED]
        assert (after.exit_code, flagged) == (1, [author.head]), (seed, author.moves, told(after))
    assert {"verified", *(f"verified-weak({word})" for word in ("rebased", "squashed", "amended", "merge"))} <= seen
