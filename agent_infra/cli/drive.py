"""`agent-infra run TASK --client C`: the headless driver."""

import signal
from pathlib import Path

import click

from agent_infra.cli.refs import task_argument
from agent_infra.cli.render import emit, show, tell
from agent_infra.runtime import drive
from agent_infra.runtime.children import HeadlessClient
from agent_infra.services.context import open_context


@click.command()
@task_argument
@click.option("--client", required=True, type=click.Choice(["scripted"]), help="Who does the steps.")
@click.option(
    "--script", type=click.Path(path_type=Path), help="What the scripted client does at each step (docs/script.md)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the last answer as one JSON line.")
@click.pass_obj
def run(repo: Path, task: str, client: str, script: Path | None, as_json: bool) -> int:
    """Drive TASK until its run ends or pauses; a line per step on stderr."""
    if script is None:
        raise click.UsageError(f"client {client} needs --script FILE")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the child is ended, the run can go on
    outcome = drive.drive(open_context(repo), task, _scripted(script), _line)
    (emit if as_json else show)(outcome)
    return outcome.exit_code


def _scripted(script: Path) -> HeadlessClient:
    from agent_infra.clients.scripted import ScriptedClient, load_script

    return ScriptedClient(load_script(script))


def _line(progress: drive.Progress) -> None:
    step = progress.step
    tell(f"{step.stage} round {step.round}: {progress.what}" if step else progress.what)
