"""The scripted client: real child processes that do what a script says."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.clients.scripted import SCRIPT_BYTES, ScriptedClient, load_script, parse_script
from agent_infra.core.lifecycle import Stage, Step
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.runtime.children import (
    TAIL_BYTES,
    Child,
    ChildOrder,
    ChildResult,
    HeadlessClient,
    ProcessChild,
    child_environment,
    start_process,
)

TASK = "TASK-20260101-120000"
ANALYSIS = Step(Stage.ANALYSIS, 1, "analysis.md")
COMMIT = Step(Stage.COMMIT, 1, "commit")
TASK_MD = """# Add

## Review Disagreement Ledger

| id | stage | round | severity | status | evidence |
|---|---|---|---|---|---|
| AN-1 | analysis | 1 | minor | open |  |

## Activity Log
"""


@pytest.fixture
def order(tmp_path: Path) -> ChildOrder:
    """An order in a worktree whose task folder lies elsewhere, as in a linked worktree."""
    worktree, task_dir = tmp_path / "tree", tmp_path / "state" / TASK
    worktree.mkdir()
    task_dir.mkdir(parents=True)
    (worktree / "app.py").write_text("old\n")
    (task_dir / "task.md").write_text(TASK_MD)
    return ChildOrder(TASK, ANALYSIS, worktree, task_dir, task_dir / "analysis.md", "the brief")


def client_for(attempt: object, step: str = "analysis/1", **options: object) -> ScriptedClient:
    script = parse_script(json.dumps({"version": 1, "steps": {step: attempt}}).encode())
    return ScriptedClient(script, **options)  # type: ignore[arg-type]


def run(attempt: object, order: ChildOrder) -> ChildResult:
    return client_for(attempt).start(order).wait(30)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether it still runs; a zombie that nobody reaps does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


# -- what a child does -------------------------------------------------------------------------------------------------


def test_a_child_does_all_that_its_attempt_says(order: ChildOrder) -> None:
    """Files are written and deleted, the artifact lies at its path, programs run in the worktree."""
    (order.worktree / "old").mkdir()
    (order.worktree / "old" / "file").write_text("x")
    result = run(
        {
            "write": {
                "src/deep/new.py": "é\n",
                "bin/tool": {"text": "#!/bin/sh\n", "executable": True},
                "data.bin": {"base64": "AP8="},
            },
            "delete": ["app.py", "old"],
            "artifact": "# Analysis\n",
            "run": [[sys.executable, "-c", "import os; open('task', 'w').write(os.environ['AGENT_INFRA_TASK'])"]],
        },
        order,
    )
    assert result.exit_code == 0, result.stderr_tail
    assert (order.worktree / "src/deep/new.py").read_bytes() == "é\n".encode()
    assert os.access(order.worktree / "bin/tool", os.X_OK)
    assert (order.worktree / "data.bin").read_bytes() == b"\x00\xff"
    assert not (order.worktree / "app.py").exists()
    assert not (order.worktree / "old").exists()
    assert order.artifact_path.read_text() == "# Analysis\n"
    assert (order.worktree / "task").read_text() == TASK


def test_an_attempt_that_says_nothing_leaves_nothing(order: ChildOrder) -> None:
    """A child that delivers nothing is a case that a driver must be able to meet."""
    before = {path: path.read_bytes() for path in order.worktree.parent.rglob("*") if path.is_file()}
    assert run({}, order) == ChildResult(0, "")
    assert {path: path.read_bytes() for path in order.worktree.parent.rglob("*") if path.is_file()} == before


def test_the_exit_code_is_the_script_s(order: ChildOrder) -> None:
    """A script may let a child fail after it has written."""
    assert run({"write": {"a": "1"}, "exit": 7}, order).exit_code == 7
    assert (order.worktree / "a").read_text() == "1"


def test_ledger_rows_are_replaced_by_id_or_appended(order: ChildOrder) -> None:
    """The row of a known id changes in its place, a new one comes last, and no other byte moves."""
    row = {"stage": "analysis", "round": 1, "severity": "minor"}
    rows = [
        row | {"id": "AN-2", "status": "open", "evidence": "a|b"},
        row | {"id": "AN-1", "status": "closed", "evidence": "analysis.md#AN-1"},
    ]
    assert run({"ledger": rows}, order).exit_code == 0
    changed = (
        "| AN-1 | analysis | 1 | minor | closed | analysis.md#AN-1 |\n| AN-2 | analysis | 1 | minor | open | a\\|b |\n"
    )
    assert (order.task_dir / "task.md").read_text() == TASK_MD.replace(
        "| AN-1 | analysis | 1 | minor | open |  |\n", changed
    )


def test_a_ledger_keeps_its_line_ends_and_odd_bytes(order: ChildOrder) -> None:
    """CRLF stays CRLF, a missing last line end is added, bytes that are no UTF-8 survive."""
    lines = (
        "## 审查分歧账本",
        "",
        "| id | stage | round | severity | status | evidence |",
        "|---|---|---|---|---|---|",
    )
    head = "\r\n".join(lines).encode()
    (order.task_dir / "task.md").write_bytes(b"\xff\r\n" + head)
    row = {"id": "CD-1", "stage": "code", "round": "-", "severity": "major", "status": "open"}
    assert run({"ledger": [row]}, order).exit_code == 0
    expected = b"\xff\r\n" + head + b"\r\n| CD-1 | code | - | major | open |  |\r\n"
    assert (order.task_dir / "task.md").read_bytes() == expected


def test_a_program_that_fails_is_told_and_does_not_end_the_child(order: ChildOrder) -> None:
    """A script may try what will be refused; how each program ended is in the tail."""
    result = run({"run": [["false"], ["no-such-program-here"]], "write": {"a": "1"}}, order)
    assert result.exit_code == 0
    assert "false: exit 1\n" in result.stderr_tail
    assert "no-such-program-here: exit 127\n" in result.stderr_tail


def test_the_commit_goes_through_agent_infra(order: ChildOrder) -> None:
    """The commit is `agent-infra commit TASK -m MESSAGE`, run in the worktree; its failure is the child's."""
    recorder = "import json, sys, pathlib; pathlib.Path('argv').write_text(json.dumps(sys.argv[1:])); sys.exit(5)"
    order = ChildOrder(TASK, COMMIT, order.worktree, order.task_dir, order.task_dir / "commit", "")
    client = client_for({"commit": "Add it\n\nBody"}, "commit/1", program=(sys.executable, "-c", recorder))
    assert client.start(order).wait(30).exit_code == 5
    assert json.loads((order.worktree / "argv").read_text()) == ["commit", TASK, "-m", "Add it\n\nBody"]


def test_the_worktree_s_own_packages_are_not_what_runs(order: ChildOrder) -> None:
    """A worktree may be a checkout of agent-infra itself: the installed one does the work."""
    impostor = order.worktree / "agent_infra" / "clients"
    impostor.mkdir(parents=True)
    for folder in (impostor.parent, impostor):
        (folder / "__init__.py").write_text("raise SystemExit(99)")
    assert run({"artifact": "x"}, order).exit_code == 0


# -- what does not fit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        pytest.param({"delete": ["gone.py"]}, "gone.py", id="delete what is not there"),
        pytest.param({"write": {"out/a": "1"}}, "out of the worktree", id="write through a link that leads out"),
        pytest.param({"delete": ["out/kept"]}, "out of the worktree", id="delete through a link that leads out"),
        pytest.param({"write": {"app.py/a": "1"}}, "app.py", id="write below a file"),
    ],
)
def test_a_script_that_does_not_fit_ends_the_child(order: ChildOrder, attempt: object, says: str) -> None:
    """The child says what it could not do, and nothing outside of the worktree changes."""
    outside = order.worktree.parent / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (order.worktree / "out").symlink_to(outside)
    result = run(attempt, order)
    assert result.exit_code == 3
    assert says in result.stderr_tail
    assert "Traceback" not in result.stderr_tail
    assert [path.name for path in outside.iterdir()] == ["kept"]


@pytest.mark.parametrize("text", ["# Add\n", "## Review Disagreement Ledger\n\nnone\n\n## Other\n\n| a |\n"])
def test_a_ledger_that_is_not_there_is_said(order: ChildOrder, text: str) -> None:
    """A row needs a table, and a table of another section is not it."""
    (order.task_dir / "task.md").write_text(text)
    row = {"id": "AN-1", "stage": "analysis", "round": 1, "severity": "major", "status": "open"}
    result = run({"ledger": [row]}, order)
    assert (result.exit_code, "ledger" in result.stderr_tail) == (3, True)
    assert (order.task_dir / "task.md").read_text() == text


def test_a_link_in_the_way_is_replaced(order: ChildOrder) -> None:
    """Writing never follows a link to somewhere else."""
    outside = order.worktree.parent / "outside"
    outside.write_text("kept")
    (order.worktree / "link").symlink_to(outside)
    assert run({"write": {"link": "new"}}, order).exit_code == 0
    assert (outside.read_text(), (order.worktree / "link").read_text()) == ("kept", "new")
    assert not (order.worktree / "link").is_symlink()


# -- attempts and identity ---------------------------------------------------------------------------------------------


def test_each_attempt_has_its_own_entry(order: ChildOrder) -> None:
    """A list gives one entry to each try; one entry alone serves every try."""
    many, one = client_for([{"artifact": "first"}, {"artifact": "second"}]), client_for({"artifact": "always"})
    for number, text in ((1, "first"), (2, "second")):
        many.check(ANALYSIS, number)
        assert many.start(ChildOrder(**(vars(order) | {"attempt": number}))).wait(30).exit_code == 0
        assert order.artifact_path.read_text() == text
    with pytest.raises(RefusedError, match="2 attempts at analysis/1, but attempt 3") as caught:
        many.check(ANALYSIS, 3)
    assert caught.value.code is ErrorCode.SCRIPT_INVALID
    one.check(ANALYSIS, 7)


def test_a_step_that_the_script_lacks_is_named(order: ChildOrder) -> None:
    """Both before and at the start, with what is there."""
    client = client_for({}, "plan/2")
    for ask in (lambda: client.check(ANALYSIS, 1), lambda: client.start(order)):
        with pytest.raises(RefusedError, match="no step analysis/1, it has: plan/2") as caught:
            ask()
        assert caught.value.code is ErrorCode.SCRIPT_INVALID


def test_every_child_has_an_identity_of_its_own(order: ChildOrder) -> None:
    """`scripted:<uuid>` by default, or what the caller's source of ids says."""
    client: HeadlessClient = client_for({})
    children = [client.start(order), client.start(order)]
    assert client.id == "scripted"
    assert len({child.child_id for child in children}) == 2
    for child in children:
        assert child.child_id.startswith("scripted:")
        assert len(child.child_id) == len("scripted:") + 36
        child.wait(30)
    fixed = client_for({}, new_id=lambda: "scripted:fixed").start(order)
    assert fixed.child_id == "scripted:fixed"
    fixed.stop()


# -- waiting and stopping ----------------------------------------------------------------------------------------------


def sleeper(order: ChildOrder, code: str = "") -> Child:
    """A child whose program says its process id in the file `pid`, then sleeps."""
    says = "open('pid.tmp', 'w').write(str(os.getpid())); os.rename('pid.tmp', 'pid')"
    program = f"import os, signal, time; {code}\n{says}; time.sleep(120)"
    child = client_for({"run": [[sys.executable, "-c", program]], "write": {"started": ""}}).start(order)
    wait_for((order.worktree / "pid").exists)
    return child


@pytest.mark.parametrize(
    "code", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"], ids=["obedient", "deaf to TERM"]
)
def test_stop_ends_the_whole_group(order: ChildOrder, code: str) -> None:
    """The child and what it started are gone after `stop`, also what ignores TERM; a second `stop` is no error."""
    child = sleeper(order, code)
    assert isinstance(child, ProcessChild)
    pid = int((order.worktree / "pid").read_text())
    child.grace = 0.5
    child.stop()
    wait_for(lambda: not is_running(pid))
    assert not is_running(child.pid)
    child.stop()
    assert child.wait(1).exit_code == -signal.SIGTERM


def test_a_child_in_its_own_session_does_not_get_our_signals(order: ChildOrder) -> None:
    """Ctrl-C in the driver's terminal reaches the driver alone, which then decides."""
    child = sleeper(order)
    assert isinstance(child, ProcessChild)
    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid != os.getsid(0)
    child.stop()


def test_wait_gives_up_after_its_time_and_can_be_asked_again(order: ChildOrder) -> None:
    """A time-out ends nothing."""
    child = sleeper(order)
    with pytest.raises(TimeoutError, match=child.child_id):
        child.wait(0.05)
    os.kill(int((order.worktree / "pid").read_text()), signal.SIGKILL)
    assert child.wait(30) == child.wait(0)
    assert "exit -9" in child.wait(0).stderr_tail


def test_what_a_child_left_running_is_ended_with_it(order: ChildOrder) -> None:
    """A background program could write after the step was sealed."""
    left = (
        "import subprocess, sys;"
        "open('left', 'w').write(str(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)']).pid))"
    )
    assert run({"run": [[sys.executable, "-c", left]]}, order).exit_code == 0
    pid = int((order.worktree / "left").read_text())
    wait_for(lambda: not is_running(pid))


def test_only_the_end_of_what_a_child_says_is_kept(order: ChildOrder) -> None:
    """A talkative child blocks nothing and fills no memory."""
    program = "import sys; sys.stdout.write('x' * 1_000_000 + 'é' * 3000); sys.stdout.flush()"
    child = start_process([sys.executable, "-X", "utf8", "-c", program], order, child_id="c", stdin=b"y" * 1_000_000)
    result = child.wait(30)
    assert result.exit_code == 0
    assert result.stderr_tail.endswith("éé")
    assert len(result.stderr_tail.encode()) <= TAIL_BYTES


def test_a_program_that_is_not_there_starts_nothing(order: ChildOrder) -> None:
    """The caller learns it at once."""
    with pytest.raises(OSError, match="no-such-program"):
        start_process(["/no-such-program"], order, child_id="c", stdin=b"")


def test_a_child_s_git_is_not_led_astray() -> None:
    """What git's own hooks leave in the environment does not reach the child; the user's settings do."""
    before = {
        "GIT_DIR": "/x",
        "GIT_INDEX_FILE": "/i",
        "GIT_AUTHOR_NAME": "A",
        "PATH": "/bin",
        "AGENT_INFRA_TASK": "old",
    }
    assert child_environment(before, TASK) == {"GIT_AUTHOR_NAME": "A", "PATH": "/bin", "AGENT_INFRA_TASK": TASK}


# -- bad scripts -------------------------------------------------------------------------------------------------------


def one(attempt: object) -> bytes:
    return json.dumps({"version": 1, "steps": {"code/1": attempt}}).encode()


ROW = {"id": "AN-1", "stage": "analysis", "round": 1, "severity": "major", "status": "open"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "Expecting value", id="empty"),
        pytest.param(b"{", "Expecting property name", id="cut"),
        pytest.param(b"[]", "script", id="no object"),
        pytest.param(b"\xff", "utf-8", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "script", id="too deep"),
        pytest.param(b'{"version": 1, "version": 1, "steps": {}}', "'version' is there twice", id="key twice"),
        pytest.param(b'{"steps": {}}', "version", id="no version"),
        pytest.param(b'{"version": 2, "steps": {}}', "version", id="newer version"),
        pytest.param(b'{"version": true, "steps": {}}', "version", id="version is no number"),
        pytest.param(b'{"version": 1}', "steps", id="no steps"),
        pytest.param(b'{"version": 1, "steps": {}, "more": 1}', "more", id="unknown key"),
        pytest.param(b'{"version": 1, "steps": {"code": {}}}', "steps.code", id="step without a round"),
        pytest.param(b'{"version": 1, "steps": {"code/01": {}}}', "steps.code/01", id="round with a zero"),
        pytest.param(b'{"version": 1, "steps": {"commit/2": {}}}', "steps.commit/2", id="second commit"),
        pytest.param(b'{"version": 1, "steps": {"review/1": {}}}', "steps.review/1", id="unknown stage"),
        pytest.param(one([]), "code/1.attempts", id="no attempts"),
        pytest.param(one("x"), "code/1.attempt", id="attempt is text"),
        pytest.param(one({"wirte": {}}), "wirte", id="misspelt action"),
        pytest.param(one([{}, {"exit": 256}]), "code/1.attempts.1.exit", id="exit code too high"),
        pytest.param(one({"exit": "0"}), "exit", id="exit code is text"),
        pytest.param(one({"write": {"/etc/passwd": "x"}}), "/etc/passwd", id="absolute path"),
        pytest.param(one({"write": {"a/../../b": "x"}}), "a/../../b", id="path leads out"),
        pytest.param(one({"write": {"": "x"}}), "path below the worktree", id="empty path"),
        pytest.param(one({"write": {".": "x"}}), "path below the worktree", id="the worktree itself"),
        pytest.param(one({"write": {"a\0b": "x"}}), "path below the worktree", id="NUL in a path"),
        pytest.param(one({"delete": [".."]}), "delete.0", id="delete the parent"),
        pytest.param(one({"write": {"a": {"text": "x", "base64": "eA=="}}}), "either", id="text and base64"),
        pytest.param(one({"write": {"a": {"executable": True}}}), "either", id="no content"),
        pytest.param(one({"write": {"a": {"base64": "é"}}}), "base64", id="no base64"),
        pytest.param(one({"write": {"a": None}}), "write.a", id="content is null"),
        pytest.param(one({"run": [[]]}), "run.0", id="empty argv"),
        pytest.param(one({"run": ["git status"]}), "run.0", id="a shell line"),
        pytest.param(one({"ledger": [ROW | {"evidence": "a\nb"}]}), "one line", id="cell of two lines"),
        pytest.param(one({"ledger": [{"id": "AN-1"}]}), "ledger.0.stage", id="row without a stage"),
    ],
)
def test_a_bad_script_is_refused_with_the_place(data: bytes, says: str) -> None:
    """Nothing is started from it, and the message says where the fault is."""
    with pytest.raises(RefusedError) as caught:
        parse_script(data)
    assert caught.value.code is ErrorCode.SCRIPT_INVALID
    assert says in caught.value.message


def test_every_fault_of_a_script_is_in_the_notes() -> None:
    """The first fault is the message, the next ones are notes, and many are counted."""
    with pytest.raises(RefusedError) as caught:
        parse_script(one({f"wrong{number}": 1 for number in range(14)}))
    assert len(caught.value.notes) == 10
    assert caught.value.notes[-1] == "… and 4 more"


def test_a_script_is_read_from_its_file(tmp_path: Path) -> None:
    """A file that is missing, a folder or too big is a bad script, with its name."""
    good, big = tmp_path / "good.json", tmp_path / "big.json"
    good.write_bytes(one({"artifact": "x"}))
    assert load_script(good).attempt(Step(Stage.CODE, 1, "code.md"), 1).artifact == "x"
    with big.open("wb") as file:
        file.truncate(SCRIPT_BYTES + 1)
    for path in (tmp_path / "missing.json", tmp_path, big):
        with pytest.raises(RefusedError, match=str(path)) as caught:
            load_script(path)
        assert caught.value.code is ErrorCode.SCRIPT_INVALID
