"""`agent-infra gate`: the answers to git's hooks, and a person's leave for one commit."""

import json
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from agent_infra.cli.person import challenge, identity
from agent_infra.cli.refs import task_argument
from agent_infra.cli.render import say, tell
from agent_infra.core.outlook import Foresight, Outlook
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.git.repo import of_common_dir
from agent_infra.services.context import Context, open_context
from agent_infra.services.guard import gate as gates
from agent_infra.services.guard.moves import settle
from agent_infra.stores.atomic import HOOK_LOCK_WAIT

HOOK_SETTINGS = {"ignore_unknown_options": True}


@click.group()
def gate() -> None:
    """What git's hooks ask, and what a person may let pass."""


def hook_context(common_dir: Path) -> Context:
    """The repository that a shim speaks for: its folder says which, the current folder only tells the worktree.

    Raises:
        RefusedError: COMMIT_UNAUTHORIZED where the two disagree.
    """
    try:
        context = open_context(Path.cwd(), lock_wait=HOOK_LOCK_WAIT)
    except AgentInfraError as error:
        raise RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, f"the worktree is not clear: {error.message}") from error
    if context.repo.common_dir != common_dir.resolve():
        message = f"the hook belongs to {common_dir.resolve()}, but {Path.cwd()} belongs to {context.repo.common_dir}"
        raise RefusedError(ErrorCode.COMMIT_UNAUTHORIZED, message)
    return context


common_dir_option = click.option("--common-dir", type=click.Path(path_type=Path), required=True)
arguments = click.argument("args", nargs=-1, type=click.UNPROCESSED)


@gate.command("pre-commit", context_settings=HOOK_SETTINGS)
@common_dir_option
@arguments
def pre_commit(common_dir: Path, args: tuple[str, ...]) -> None:  # noqa: ARG001 - git may pass more one day
    """May the index that git is committing become a commit?"""
    context = hook_context(common_dir)
    gates.pre_commit(context, _index(context))


def _index(context: Context) -> Path:
    """The index that git is committing."""
    named = os.environ.get("GIT_INDEX_FILE")
    return Path.cwd() / named if named else context.repo.git_dir / "index"


@gate.command("commit-msg", context_settings=HOOK_SETTINGS)
@common_dir_option
@click.argument("message", type=click.Path(path_type=Path))
@arguments
def commit_msg(common_dir: Path, message: Path, args: tuple[str, ...]) -> None:  # noqa: ARG001 - same
    """Write the trailers of the run into the message."""
    context = hook_context(common_dir)
    gates.commit_msg(context, Path.cwd() / message, _index(context))


@gate.command("post-commit", context_settings=HOOK_SETTINGS)
@common_dir_option
@arguments
def post_commit(common_dir: Path, args: tuple[str, ...]) -> None:  # noqa: ARG001 - same
    """Record the commit with its run."""
    try:
        context = hook_context(common_dir)
        gates.post_commit(context)
        settle(context)  # what git's own question could not record
    except AgentInfraError as error:
        # the commit is made; `orchestrate complete` records it if we could not
        tell(f"agent-infra: the commit was not recorded yet: {error.message} [{error.code}]")


@gate.command("pre-merge-commit", context_settings=HOOK_SETTINGS)
@common_dir_option
@arguments
def pre_merge_commit(common_dir: Path, args: tuple[str, ...]) -> None:  # noqa: ARG001 - same
    """May the merge that git is about to commit be made?"""
    context = hook_context(common_dir)
    gates.pre_merge_commit(context)


@gate.command("pre-rebase", context_settings=HOOK_SETTINGS)
@common_dir_option
@click.argument("upstream", default="")
@click.argument("branch", required=False)
@arguments
def pre_rebase(common_dir: Path, upstream: str, branch: str | None, args: tuple[str, ...]) -> None:  # noqa: ARG001 - git's
    """May this branch be rebased?"""
    from agent_infra.services.guard import transaction

    transaction.pre_rebase(hook_context(common_dir), branch)


@gate.command("pre-push", context_settings=HOOK_SETTINGS)
@common_dir_option
@click.argument("remote")
@click.argument("address", default="")
@arguments
def pre_push(common_dir: Path, remote: str, address: str, args: tuple[str, ...]) -> None:  # noqa: ARG001 - same
    """Push the evidence of the commits that are about to be pushed, where `evidence.push` is set."""
    from agent_infra.git import caller
    from agent_infra.services.proof import carrying

    updates = carrying.parse_updates(sys.stdin.buffer.read())
    dry = caller.is_dry_run(caller.calling_command(os.environ))
    context, _ = _transaction_context(common_dir)
    tell(*carrying.pre_push(context, carrying.Pushed(remote, address, updates, dry), os.environ))


@gate.command("reference-transaction", context_settings=HOOK_SETTINGS)
@common_dir_option
@click.argument("state")
@arguments
def reference_transaction(common_dir: Path, state: str, args: tuple[str, ...]) -> None:  # noqa: ARG001 - same
    """May these refs move?"""
    from agent_infra.git import caller, refs
    from agent_infra.services.guard import transaction

    updates = refs.parse_updates(sys.stdin.buffer.read())
    context, is_here = _transaction_context(common_dir)
    if state == "prepared":
        asked = transaction.Asked(
            updates, refs.hook_objects(os.environ, Path.cwd()), is_here, partial(caller.calling_command, os.environ)
        )
        transaction.reference_transaction(context, asked)
    elif state == "committed":
        try:
            settle(context)
        except AgentInfraError as error:
            tell(f"agent-infra: what moved was not recorded yet: {error.message} [{error.code}]")


def _transaction_context(common_dir: Path) -> tuple[Context, bool]:
    """The repository whose refs move, and whether the current folder tells in which worktree git works."""
    common = common_dir.resolve()
    with suppress(AgentInfraError):
        context = open_context(Path.cwd(), lock_wait=HOOK_LOCK_WAIT)
        if context.repo.common_dir == common:
            return context, True
    return Context(of_common_dir(common), lock_wait=HOOK_LOCK_WAIT), False


@gate.command()
@click.option("--reason", required=True, help="Why this commit may pass; it stays on record.")
@click.pass_obj
def allow(repo: Path, reason: str) -> None:
    """Let the next commit here pass, as a person at a terminal."""
    if not reason.isprintable():
        raise click.BadParameter("expected one line of text", param_hint="--reason")
    context = open_context(repo)
    challenge("gate allow")
    tasks = gates.allow(context, reason=reason, person=identity(context.repo))
    say(f"the next commit here passes {', '.join(tasks)}; it is on record with its reason")


EXIT_OF_OUTLOOK = {Outlook.PASSES: 0, Outlook.REWRITTEN: 1, Outlook.REFUSED: 1, Outlook.UNKNOWN: 2}


@gate.command()
@click.option("-m", "--message", help="The commit message; one made of the task's title when left out.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON line.")
@task_argument
@click.pass_obj
def check(repo: Path, message: str | None, as_json: bool, task: str) -> int:
    """Try git's other hooks, somewhere else, on the commit that TASK's run would make now.

    Exit 0 when they let it pass as it is, 1 when one would rewrite or refuse it, 2 when that is not known.
    """
    from agent_infra.services.guard import foresee

    try:
        found = foresee.check(open_context(repo), task, message=message)
    except AgentInfraError as error:
        if as_json:
            fault = {"code": str(error.code), "message": error.message}
            say(json.dumps({"status": "unknown", "taskId": None, "hooks": [], "error": fault}, separators=(",", ":")))
        tell(f"agent-infra: {error.message} [{error.code}]", *error.notes)
        return EXIT_OF_OUTLOOK[Outlook.UNKNOWN]
    if as_json:
        say(json.dumps(found.to_json() | {"error": None}, separators=(",", ":")))
    else:
        _show(found)
    return EXIT_OF_OUTLOOK[found.outlook]


def _show(found: Foresight) -> None:
    """What each hook would do, and what it said where it would do anything."""
    say(*found.sentences())
    for trial in found.trials:
        if trial.outlook is not Outlook.PASSES and trial.output:
            say(f"{trial.name} said:", *(f"    {line}" for line in trial.output.splitlines()))
    if found.linked:
        tell(f"lent to the hooks from the worktree: {', '.join(found.linked)} (gate.check_links)")
