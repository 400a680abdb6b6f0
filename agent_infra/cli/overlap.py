"""`agent-infra overlap`: which active tasks write the same files."""

import json
from pathlib import Path

import click

from agent_infra.cli.render import say
from agent_infra.services.context import open_context
from agent_infra.services.overlap import overlaps


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the pairs as one JSON line.")
@click.pass_obj
def overlap(repo: Path, as_json: bool) -> None:
    """List the active tasks whose planned or changed files meet. Changes nothing.

    Planned is what the front matter of a plan declares, changed is what the receipts of a run name.
    """
    found = overlaps(open_context(repo))
    if as_json:
        say(json.dumps([one.to_json() for one in found], ensure_ascii=False, separators=(",", ":")))
    elif not found:
        say("no active tasks write the same files")
    else:
        say(*(f"{one.first} and {one.second}: {one.words}" for one in found))
