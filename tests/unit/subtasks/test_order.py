"""Waves, conflicts and the order for one at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_infra.core.subtasks.conflicts import Conflict, can_meet, file_conflicts, find_conflicts, forbidden_reason
from agent_infra.core.subtasks.plan import Subtask
from agent_infra.core.subtasks.waves import (
    ACCEPTABLE,
    TERMINAL,
    ChildStatus,
    blocked_dependents,
    plan_waves,
    serial_order,
)
from agent_infra.errors import ErrorCode, RefusedError


def task(name, *wanted, files=None, **more):
    return Subtask(
        id=name,
        title=name,
        expected_files=(f"{name}.py",) if files is None else tuple(files),
        blocked_by=wanted,
        **more,
    )


DIAMOND = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")]


def shape(waves):
    return [(wave.parallel, wave.serial) for wave in waves]


def test_a_wave_holds_what_waits_for_earlier_waves_only():
    """Wave k: every dependency lies in an earlier one; ids are sorted."""
    assert shape(plan_waves(DIAMOND)) == [(("a",), ()), (("b", "c"), ()), (("d",), ())]
    assert plan_waves(DIAMOND)[1].to_json() == {
        "waveIndex": 1,
        "parallelSubtaskIds": ["b", "c"],
        "serialSubtaskIds": [],
    }
    assert plan_waves([]) == ()


def test_subtasks_that_share_files_run_one_by_one():
    """After the parallel ones of their wave."""
    waves = plan_waves([task("a", files=["x"]), task("b", files=["X"]), task("c")])
    assert shape(waves) == [(("c",), ("a", "b"))]


def test_one_that_declares_no_files_may_write_any():
    """So it shares with every other one, unless no change is expected of it or of the other."""
    assert shape(plan_waves([task("a", files=[]), task("b"), task("c")])) == [((), ("a", "b", "c"))]
    quiet = task("a", files=[], no_change_expected=True)
    assert shape(plan_waves([quiet, task("b"), task("c")])) == [(("a", "b", "c"), ())]


@pytest.mark.parametrize(
    ("subtasks", "ring"),
    [
        pytest.param([task("a", "b"), task("b", "a"), task("c")], "a -> b -> a", id="two"),
        pytest.param([task("z"), task("c", "b"), task("b", "a"), task("a", "c")], "a -> c -> b -> a", id="three"),
    ],
)
def test_a_cycle_names_its_members(subtasks, ring):
    """From the smallest member on, each waiting for the next."""
    for order in (subtasks, subtasks[::-1]):
        with pytest.raises(RefusedError) as refused:
            plan_waves(order)
        assert refused.value.code == ErrorCode.SUBTASK_CYCLE
        assert ring in refused.value.message


def test_one_order_for_one_at_a_time():
    """Dependencies first; ready ones by their rank, then by id."""
    assert serial_order(DIAMOND) == ("a", "b", "c", "d")
    assert serial_order(DIAMOND, ("c", "b", "x", "c")) == ("a", "c", "b", "d")
    assert serial_order([task("b"), task("B"), task("ä"), task("a")]) == ("B", "a", "b", "ä")


@pytest.mark.parametrize("status", sorted(TERMINAL - ACCEPTABLE))
def test_what_waits_for_a_bad_end_is_blocked(status):
    """At once and through others; what ended by itself keeps its status."""
    blocked = blocked_dependents(DIAMOND, {"a": ChildStatus.COMPLETED, "b": status})
    assert blocked == {"d": f"dependency b finished as {status}"}
    assert blocked_dependents(DIAMOND, {"a": status}) == {
        "b": f"dependency a finished as {status}",
        "c": f"dependency a finished as {status}",
        "d": "dependency b finished as blocked",
    }


@pytest.mark.parametrize("status", sorted(set(ChildStatus) - (TERMINAL - ACCEPTABLE)))
def test_what_waits_for_a_good_or_open_end_is_not_blocked(status):
    """A dependency that is done, or still open, blocks nobody."""
    assert blocked_dependents(DIAMOND, {"a": status}) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("src/a.py", "src/a.py"),
        ("src/a.py", "SRC/A.py"),
        ("caf\u00e9.md", "cafe\u0301.md"),
        ("src", "src/a.py"),
        ("src/", "src/sub/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src\\a.py", "src/a.py"),
        ("src/*.py", "src/a.py"),
        ("src/**", "src/x/y/z.py"),
        ("**/a.py", "src/a.py"),
        ("src/*_test.py", "src/api_*.py"),
        ("src/[ab].py", "src/?.py"),
        ("**", "anything"),
        ("*", "src/deep/file"),
    ],
)
def test_paths_that_can_be_one_file(one, other):
    """The same file by another spelling, a folder above it, or globs that fit a common name."""
    assert can_meet(one, other)
    assert can_meet(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("src/a.py", "src/b.py"),
        ("src/a", "src/ab"),
        ("src/*.py", "src/a.md"),
        ("src/*.py", "lib/a.py"),
        ("a/**/z", "b/z"),
        ("src/a*", "src/b*"),
    ],
)
def test_paths_that_never_are_one_file(one, other):
    """Different names in one folder, and globs without a common name."""
    assert not can_meet(one, other)
    assert not can_meet(other, one)


@pytest.mark.parametrize(
    "target",
    [
        ".env",
        "app/.env",
        "APP/.ENV",
        "app\\.env",
        ".env.local",
        "../x",
        "a/../../x",
        "a/..",
        "/etc/passwd",
        "\\\\server\\x",
        "C:\\x",
        "c:/x",
        "~/x",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".agents/workspace/active",
        ".agent-infra/x",
        "a\nb",
        "a\0b",
    ],
)
def test_targets_that_nobody_may_write(target):
    """Secrets, what lies outside, and what belongs to git or to us: the plan is refused."""
    assert forbidden_reason(target)
    (conflict,) = find_conflicts([task("a", files=[target])])
    assert conflict.is_blocking


@pytest.mark.parametrize(
    "target", ["", "src/a.py", ".env.example", "environment", ".github/x", ".agents/skills/a.md", "a..b"]
)
def test_targets_that_may_be_written(target):
    """Everything else."""
    assert forbidden_reason(target) is None


@pytest.mark.parametrize(
    ("fields", "blocking"),
    [
        pytest.param({}, False, id="a warning"),
        pytest.param({"severity": "critical"}, True, id="critical"),
        pytest.param({"type": "parallel-write"}, True, id="a parallel write"),
        pytest.param({"parallel": True}, True, id="side by side"),
        pytest.param({"target": "sub/.env"}, True, id="a target that holds secrets"),
        pytest.param({"target": "../x"}, True, id="a target outside"),
    ],
)
def test_what_refuses_real_mode(fields, blocking):
    """Any one of these does."""
    given_ = {"type": "shared-files", "severity": "warning", "parallel": False, "target": "a", "reason": "", **fields}
    assert Conflict(subtasks=("a", "b"), **given_).is_blocking is blocking


def test_shared_files_are_no_conflict_in_order():
    """A subtask that waits for the other, also through a third, can't run beside it."""
    chain = [task("a", files=["x"]), task("b", "a", files=["y"]), task("c", "b", files=["x"])]
    assert find_conflicts(chain) == ()
    (found,) = find_conflicts([chain[0], task("c", files=["x"])])
    assert (found.type, found.subtasks, found.is_blocking) == ("shared-files", ("a", "c"), False)


NAMES = [f"t{number}" for number in range(7)]
FILES = st.lists(st.sampled_from(["a", "A", "b/c", "b", "*", "d/**", "e"]), max_size=2)


@st.composite
def splits(draw):
    """Subtasks without cycles: each waits for earlier ones only."""
    found = []
    for place, name in enumerate(draw(st.permutations(NAMES))):
        earlier = [subtask.id for subtask in found]
        wanted = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if place else []
        found.append(task(name, *wanted, files=draw(FILES)))
    return found


@settings(derandomize=True, max_examples=150, deadline=None)
@given(splits(), st.randoms(use_true_random=False))
def test_the_order_holds_for_every_split(subtasks, random):
    """Dependencies come before, no two that share files run in parallel, and the order of the input does not matter."""
    waves = plan_waves(subtasks)
    place = {name: wave.index for wave in waves for name in (*wave.parallel, *wave.serial)}
    assert sorted(place) == NAMES
    order = serial_order(subtasks, random.sample(NAMES, 3))
    by_id = {subtask.id: subtask for subtask in subtasks}
    for subtask in subtasks:
        assert all(place[wanted] < place[subtask.id] for wanted in subtask.blocked_by)
        assert all(order.index(wanted) < order.index(subtask.id) for wanted in subtask.blocked_by)
    for wave in waves:
        assert not file_conflicts([by_id[name] for name in wave.parallel])
        assert wave.parallel == tuple(sorted(wave.parallel))
        assert wave.serial == tuple(sorted(wave.serial))
    shuffled = random.sample(subtasks, len(subtasks))
    assert plan_waves(shuffled) == waves
    assert serial_order(shuffled) == serial_order(subtasks)
    assert find_conflicts(shuffled) == find_conflicts(subtasks)
