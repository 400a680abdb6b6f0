"""What people see: at a terminal of any width, in a file, without colours, and what a shell completes."""

import os
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from agent_infra.cli.table import cell_width
from tests.support.world import OTHER, PROGRAM, TASK, World

NAMES = ["修复加法的错误", "a party 🎉👩‍💻 for add()", "plain words, and quite a lot of them for a narrow terminal"]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def named(world: World) -> World:
    """Three tasks with names in several scripts."""
    for name in NAMES:
        assert world.call("task", "create", "--title", name).exit == 0
    return world


def at_terminal(world: World, *argv: str, typed: bytes = b"", **env: str) -> str:
    """What a person sees who calls the program and perhaps types something."""
    master, slave = os.openpty()
    clean = {name: value for name, value in world.environment().items() if name not in {"NO_COLOR", "COLUMNS"}}
    process = subprocess.Popen(
        [PROGRAM, *argv], cwd=world.root, env=clean | {"TERM": "xterm"} | env, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    os.write(master, typed)
    out, end = b"", time.monotonic() + 30
    while time.monotonic() < end:
        if select.select([master], [], [], 0.1)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            out += data
    os.close(master)
    assert process.wait(10) in {0, 1}, out
    return out.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [160, 80, 60, 40, 30])
def test_columns_are_aligned_at_any_width(named: World, width: int) -> None:
    """No line is wider than the terminal; the title begins at one cell in every line, and what is cut is marked."""
    out = _COLOUR.sub("", at_terminal(named, "task", "ls", COLUMNS=str(width)))
    lines = out.splitlines()[:4]
    assert all(cell_width(line) <= width for line in lines)
    starts = {
        cell_width(line[: line.index(word)]) for line, word in zip(lines, ["TITLE", "修", "a ", "pl"], strict=True)
    }
    assert len(starts) == 1
    assert ("…" in out) == (width < 160)


def test_colours_are_for_terminals_that_want_them(named: World) -> None:
    """`NO_COLOR`, a dumb terminal and a file get none."""
    assert _COLOUR.search(at_terminal(named, "task", "ls", COLUMNS="80"))
    assert not _COLOUR.search(at_terminal(named, "task", "ls", COLUMNS="80", NO_COLOR="1"))
    assert not _COLOUR.search(at_terminal(named, "task", "ls", COLUMNS="80", TERM="dumb"))
    assert not _COLOUR.search(named.process("task", "ls").out)


def test_a_file_gets_every_character(named: World) -> None:
    """Whatever `COLUMNS` says."""
    out = named.process("task", "ls", env={"COLUMNS": "20"}).out
    assert [line.split("  ")[-1] for line in out.splitlines()[1:4]] == NAMES
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_terminal_that_can_not_show_a_character(named: World) -> None:
    """Escapes instead of a traceback."""
    out = named.process("task", "ls", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}).out
    assert "\\u4fee" in out
    assert (
        named.process("task", "ls", "--json", env={"PYTHONIOENCODING": "ascii"}).json["tasks"][0]["title"] == NAMES[0]
    )


def test_a_person_is_asked_for_the_title(world: World) -> None:
    """Enter takes the defaults; what is asked goes to stderr, the answer to stdout."""
    out = at_terminal(world, "task", "create", typed=b"mend the sum\nbugfix\n\nstreamlined\n")
    assert "title" in out
    (task,) = world.call("task", "ls", "--json").json["tasks"]
    assert (task["title"], task["type"]) == ("mend the sum", "bugfix")
    assert world.call("task", "show", "1", "--json").json["fields"]["flow"] == "streamlined"


def test_words_of_a_task_do_not_move_the_cursor(world: World) -> None:
    """A title with an escape is shown, not obeyed."""
    path = world.task()
    path.write_bytes(path.read_bytes().replace(b"# The sum", b"# \x1b[2JThe sum"))
    assert "\x1b[2J" not in at_terminal(world, "task", "ls", NO_COLOR="1")
    assert "\x1b[2J" not in world.process("task", "grep", "The sum").out


# -- completion --------------------------------------------------------------------------------------------------------


def completed(world: World, *words: str) -> list[str]:
    """What bash is told for the last word."""
    env = {
        "_AGENT_INFRA_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["agent-infra", *words]),
        "COMP_CWORD": str(len(words)),
    }
    return [line.partition(",")[2] for line in world.process(env=env).out.splitlines()]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param(["tas"], ["task"], id="a command"),
        pytest.param(["task", "va"], ["validate", "validate-manual"], id="a command of a group"),
        pytest.param(["task", "ls", "--b"], ["--blocked"], id="an option"),
        pytest.param(["task", "create", "--flow", "s"], ["standard", "streamlined"], id="a value"),
        pytest.param(["task", "show", "TASK-20260101"], [TASK], id="a task"),
        pytest.param(["task", "log", "--task", "TASK"], [TASK, OTHER], id="the task of an option"),
        pytest.param(["orchestrate", "begin", "TASK-20260102"], [OTHER], id="a task of another command"),
    ],
)
def test_a_shell_completes_commands_and_tasks(world: World, words: list[str], wanted: list[str]) -> None:
    """Also where a task can't be read."""
    world.task()
    world.task(OTHER).write_text("nonsense")
    assert completed(world, *words) == wanted


def test_short_ids_complete_too(named: World) -> None:
    """As they are typed."""
    assert completed(named, "task", "show", "3") == ["3"]


def test_completion_outside_of_a_repository_is_silent(world: World, tmp_path: Path) -> None:
    """Nothing to complete is no fault."""
    env = {"_AGENT_INFRA_COMPLETE": "bash_complete", "COMP_WORDS": "agent-infra task show ", "COMP_CWORD": "3"}
    answer = world.process(cwd=tmp_path, env=env)
    assert (answer.exit, answer.out.strip()) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_lines_for_a_shell_are_read_by_it(world: World, shell: str) -> None:
    """The shell itself finds nothing wrong with them."""
    answer = world.process("completion", shell)
    assert answer.exit == 0
    assert "_AGENT_INFRA_COMPLETE" in answer.out
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, "-n"], input=answer.out.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
