"""`agent-infra hook` and `agent-infra hooks replay`: what agent clients call, and how to look at it again."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent_infra.cli.render import say, say_json
from agent_infra.git.repo import discover

if TYPE_CHECKING:
    from agent_infra.clients.replaying import Played

CLIENT = click.option("--client", required=True, help="The agent client that calls: claude-code or codex.")


@click.command()
@CLIENT
def hook(client: str) -> int:
    """Answer an event of an agent client: its payload on stdin, its protocol out.

    The command in the client's settings calls this; AGENT_INFRA_RECORD=FILE adds every event to a file.
    """
    from agent_infra.clients import hook as entry

    return entry.run(client)


@click.group()
def hooks() -> None:
    """Look at what agent clients sent."""


@hooks.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line for each event.")
@click.pass_obj
def replay(repo: Path, recording: Path, as_json: bool) -> int:
    """Play a recording of AGENT_INFRA_RECORD against a scratch copy of the repository.

    Says for each event what is answered now; exit 1 where an answer differs from the recorded one in its exit code.
    """
    from agent_infra.clients.replaying import replay as played

    differs = False
    for one in played(discover(repo), recording):
        differs = differs or (one.now is not None and one.now[0] != one.then[0])
        if as_json:
            say_json(one.to_json())
            continue
        say(f"{one.number:4} {one.what}: {_answer(one)}")
    return 1 if differs else 0


def _answer(one: "Played") -> str:
    """What an event is answered now, and how that differs from then."""
    if one.now is None:
        return "not of this repository"
    code, out, err = one.now
    was = f" (recorded: exit {one.then[0]})" if code != one.then[0] else ""
    return f"exit {code} {(out or err).strip()[:160]}".strip() + was
