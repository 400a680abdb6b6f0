"""The command tree and the one error boundary: codes and sentences out, never a traceback."""

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent_infra import __version__
from agent_infra.cli.groups import LazyGroup, show_examples
from agent_infra.cli.render import emit, tell
from agent_infra.errors import AgentInfraError, ErrorCode, UsageError

if TYPE_CHECKING:
    from agent_infra.services.outcome import Outcome

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
_MESSAGE_LIMIT = 400  # characters: a message repeats what was typed, whatever that was

_PATH_OPTIONS = ("--repo", "--script")

# command: module of agent_infra.cli, attribute, one line of help
_COMMANDS = {
    "init": ("install", "init", "Install the git hooks, the project's settings, and what agents read."),
    "uninstall": ("install", "uninstall", "Undo init: hooks and files as they were before."),
    "doctor": ("doctor", "doctor", "Say what is installed, what really works, and what needs a hand."),
    "config": ("config", "config", "Look at the project's settings, and change them."),
    "task": ("task", "task", "Make tasks and look at them; what people add to them."),
    "orchestrate": ("orchestrate", "orchestrate", "Move a task's run: the verbs for agents, hooks and drivers."),
    "run": ("drive", "run", "Drive a task's run with a headless client until it ends or pauses."),
    "review": ("people", "review", "Do the pending review step by hand, in your editor."),
    "work": ("people", "work", "Do the pending executor step by hand, in your editor."),
    "commit": ("commit", "commit", "Commit exactly what was reviewed."),
    "subtasks": ("subtasks", "subtasks", "Split a task into subtasks: plan, run, resume, status, trail, clean."),
    "usage": ("usage", "usage", "Show tokens, cost and time by step, task and client."),
    "overlap": ("overlap", "overlap", "List active tasks whose planned or changed files meet."),
    "verify": ("verify", "verify", "Check how the commits of a range came about."),
    "evidence": ("evidence", "evidence", "Publish the evidence of runs, bring that of others, show it."),
    "gate": ("gate", "gate", "What git's hooks ask; let a commit pass as a person."),
    "hook": ("hooks", "hook", "Answer an event of an agent client; its settings call this."),
    "hooks": ("hooks", "hooks", "Look at what agent clients sent."),
    "completion": ("completion", "completion", "Print the lines that let a shell complete commands and tasks."),
}


@click.group(cls=LazyGroup, table=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agent-infra", message="%(prog)s %(version)s")
@click.option("--repo", type=click.Path(path_type=Path), help="A folder in the repository, instead of the current one.")
@click.pass_context
def app(ctx: click.Context, repo: Path | None) -> None:
    """agent-infra makes coding agents earn their commits."""
    ctx.obj = repo or Path.cwd()


show_examples(app, "")


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    answers_json = "orchestrate" in argv[:3]
    try:
        _check_words(argv)
        code = app.main(list(argv), prog_name="agent-infra", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return _usage(error, argv) if answers_json else EXIT_USAGE
    except click.UsageError as error:
        return _usage(error, argv) if answers_json else _shown(error)
    except click.ClickException as error:
        return _shown(error)
    except (click.Abort, KeyboardInterrupt):
        tell("interrupted; what was recorded stays, the same command goes on")
        return EXIT_INTERRUPTED
    except AgentInfraError as error:
        return _refused(error, answers_json=answers_json)
    except OSError as error:
        return _unwritten(error)
    except Exception:  # noqa: BLE001 - a fault of ours: said as such, with what a report needs
        traceback.print_exc()
        tell("this is a fault of agent-infra; nothing was approved by it")
        return EXIT_BUG
    return code if isinstance(code, int) else 0


def _unwritten(error: OSError) -> int:
    """The disk or the reader of our answer failed us; what a verb has recorded stands all the same."""
    with suppress(OSError, ValueError):
        # what is left in the buffer must not fail a second time when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        where = f" ({error.filename})" if error.filename else ""
        with suppress(OSError):
            tell(f"agent-infra: {error.strerror}{where}; what was recorded stands: `orchestrate status` shows it")
    return EXIT_FAILED


def _check_words(argv: Sequence[str]) -> None:
    """Words become lines of the journal, which is UTF-8; only paths may be any bytes, as git's are.

    Raises:
        click.UsageError: names the first argument that is no text.
    """
    for before, word in zip(("", *argv), argv, strict=False):
        if not word.isascii() and before not in _PATH_OPTIONS and argv[0] != "gate":
            shown = word.encode(errors="surrogateescape").decode(errors="replace")
            if shown != word:
                raise click.UsageError(f"the argument {shown} is not valid UTF-8")


def _usage(error: click.UsageError, argv: Sequence[str]) -> int:
    """A wrong call of `orchestrate`: all six keys on stdout, the usage line on stderr."""
    message = error.format_message().splitlines() or ["a verb is missing"]
    words = message[0][:1].lower() + message[0][1:_MESSAGE_LIMIT]
    emit(_failed(UsageError(ErrorCode.ORCHESTRATION_PAYLOAD_INVALID, words)))
    tell(error.ctx.get_usage() if error.ctx else f"usage: agent-infra {' '.join(argv)}")
    return EXIT_USAGE


def _failed(error: AgentInfraError) -> "Outcome":
    from agent_infra.services.outcome import failed

    return failed(error)


def _shown(error: click.ClickException) -> int:
    error.show(file=sys.stderr)
    return error.exit_code


def _refused(error: AgentInfraError, *, answers_json: bool) -> int:
    code = EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    if answers_json:
        emit(_failed(error))
    else:
        tell(f"agent-infra: {error.message} [{error.code}]", *error.notes)
    return code
