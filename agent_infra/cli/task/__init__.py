"""`agent-infra task`: a module for each kind of command, imported when one of its commands is called."""

import click

from agent_infra.cli.groups import LazyGroup

_COMMANDS = {
    "create": ("task.create", "create", "Make a task and say its id."),
    "ls": ("task.listing", "ls", "List tasks."),
    "show": ("task.reading", "show", "Print task.md."),
    "files": ("task.reading", "files", "List the documents of a task, oldest first."),
    "cat": ("task.reading", "cat", "Print a document of a task."),
    "grep": ("task.listing", "grep", "Search the documents of all tasks, or of one."),
    "log": ("task.reading", "log", "The steps of a task's activity log."),
    "status": ("task.status", "status", "Where a task stands, why the gate is shut, what to do next."),
    "validate": ("task.checking", "validate", "Check every document of a task, and say all that is wrong."),
    "edit": ("task.checking", "edit", "Change fields of the front matter."),
    "block": ("task.moving", "block", "Set a task aside; its run ends."),
    "activate": ("task.moving", "activate", "Take a blocked task up again."),
    "cancel": ("task.moving", "cancel", "Give a task up for good; its run ends."),
    "ledger": ("task.ledger", "ledger", "The findings ledger: add, respond, review, ls."),
    "review": ("task.review", "review", "Help with reviews: finish fills the summary."),
    "decisions": ("task.ledger", "decisions", "List what waits for a person."),
    "check": ("task.people", "check", "Run a command on the product and keep how it ended as evidence."),
    "decide": ("task.people", "decide", "Settle a row of the ledger that waits for a person."),
    "validate-manual": ("task.people", "validate_manual", "Say that what a review left was validated by hand."),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def task() -> None:
    """Make tasks, look at them, settle what only a person may settle.

    TASK is a full id, N or #N. Where it may be left out, it is the one active task of the current branch.
    """
