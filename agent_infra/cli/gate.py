"""`agent-infra gate`: the answers to git's hooks, and a person's leave for one commit."""

import os
from pathlib import Path

import click

from agent_infra.cli.person import challenge
from agent_infra.cli.render import say, tell
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.services import gate as gates
from agent_infra.services.context import Context, open_context
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
    named = os.environ.get("GIT_INDEX_FILE")
    index = Path.cwd() / named if named else context.repo.git_dir / "index"
    gates.pre_commit(context, index)


@gate.command("commit-msg", context_settings=HOOK_SETTINGS)
@common_dir_option
@click.argument("message", type=click.Path(path_type=Path))
@arguments
def commit_msg(common_dir: Path, message: Path, args: tuple[str, ...]) -> None:  # noqa: ARG001 - same
    """Write the trailers of the run into the message."""
    gates.commit_msg(hook_context(common_dir), Path.cwd() / message)


@gate.command("post-commit", context_settings=HOOK_SETTINGS)
@common_dir_option
@arguments
def post_commit(common_dir: Path, args: tuple[str, ...]) -> None:  # noqa: ARG001 - same
    """Record the commit with its run."""
    try:
        gates.post_commit(hook_context(common_dir))
    except AgentInfraError as error:
        # the commit is made; `orchestrate complete` records it if we could not
        tell(f"agent-infra: the commit was not recorded yet: {error.message} [{error.code}]")


@gate.command()
@click.option("--reason", required=True, help="Why this commit may pass; it stays on record.")
@click.pass_obj
def allow(repo: Path, reason: str) -> None:
    """Let the next commit here pass, as a person at a terminal."""
    context = open_context(repo)
    challenge("gate allow")
    person = context.repo.run("config", "user.email", check=False).stdout.decode(errors="replace").strip()
    tasks = gates.allow(context, reason=reason, person=person or "unknown")
    say(f"the next commit here passes {', '.join(tasks)}; it is on record with its reason")
