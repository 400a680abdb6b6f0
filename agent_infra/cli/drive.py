"""`agent-infra run TASK --client C`: the headless driver."""

import signal
from pathlib import Path

import click

from agent_infra.cli.progress import Screen
from agent_infra.cli.refs import task_argument
from agent_infra.cli.render import emit, show
from agent_infra.runtime import drive
from agent_infra.runtime.children import HeadlessClient
from agent_infra.services.context import open_context

_CLIENTS = ("claude-code", "codex", "opencode", "gemini-cli", "scripted")


@click.command()
@task_argument
@click.option("--client", required=True, type=click.Choice(_CLIENTS), help="Who does the steps.")
@click.option("--reviewer-client", type=click.Choice(_CLIENTS), help="Who does the reviews, if somebody else.")
@click.option("--model", default="", help="The model of the client; its own choice when left out.")
@click.option("--reviewer-model", default="", help="The model of the reviewer's client.")
@click.option(
    "--script", type=click.Path(path_type=Path), help="What the scripted client does at each step (docs/script.md)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the last answer as one JSON line.")
@click.pass_obj
def run(
    repo: Path,
    task: str,
    client: str,
    reviewer_client: str | None,
    model: str,
    reviewer_model: str,
    script: Path | None,
    as_json: bool,
) -> int:
    """Drive TASK until its run ends or pauses; a line per step on stderr.

    Each step is one fresh process; stopped in any way, the same command goes on. It runs the project's programs, as
    agents do: use it in repositories that you trust.
    """
    doer = _client(client, model, script)
    reviewer = None
    if reviewer_client or reviewer_model:
        is_same = reviewer_client in (None, client)  # a model's name means nothing to another client
        wanted = reviewer_model or (model if is_same else "")
        reviewer = _client(reviewer_client or client, wanted, script)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the child is ended, the run can go on
    screen = Screen()
    try:
        outcome = drive.drive(open_context(repo), task, doer, screen, reviewer=reviewer)
    finally:
        screen.clear()
    (emit if as_json else show)(outcome)
    return outcome.exit_code


def _client(name: str, model: str, script: Path | None) -> HeadlessClient:
    if name != "scripted":
        from agent_infra.clients.programs import ProgramClient

        return ProgramClient(name, model)
    if script is None:
        raise click.UsageError("client scripted needs --script FILE")
    from agent_infra.clients.scripted import ScriptedClient, load_script

    return ScriptedClient(load_script(script))
