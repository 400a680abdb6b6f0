"""`agent-infra usage`: what tasks cost."""

import json
from pathlib import Path
from typing import Any

import click

from agent_infra.cli.refs import json_option, named_once, one_task
from agent_infra.cli.render import say
from agent_infra.cli.table import Column, render_table, terminal_width
from agent_infra.services import usage as costs
from agent_infra.services.context import open_context

_COLUMNS = (
    Column("what", least=12),
    Column("client"),
    Column("model", drop=1),
    Column("steps", right=True),
    Column("seconds", right=True),
    Column("in", right=True),
    Column("out", right=True),
    Column("USD", right=True),
)


@click.command()
@one_task
@json_option
@click.pass_obj
def usage(repo: Path, task: str | None, named: str | None, as_json: bool) -> None:
    """Show tokens, cost and time of TASK's steps, or of every task's, with sums by client.

    They are what the clients say of themselves; a step of which nothing is said counts with its time alone.
    """
    ref = named_once(task, named)
    found = costs.usage(open_context(repo), ref)
    steps = [step for used in found.values() for step in used]
    clients = sorted({step.client for step in steps})
    by_client = {client: costs.total(step for step in steps if step.client == client) for client in clients}
    if as_json:
        tasks = [
            {"taskId": task_id, "total": costs.total(used), "steps": [step.to_json() for step in used]}
            for task_id, used in found.items()
        ]
        say(json.dumps({"tasks": tasks, "clients": by_client, "total": costs.total(steps)}, separators=(",", ":")))
        return
    rows = []
    if ref:
        rows = [
            _row(f"{step.stage} round {step.round}", step.client, step.model, costs.total([step])) for step in steps
        ]
    else:
        rows = [_row(task_id, "", "", costs.total(used)) for task_id, used in found.items()]
    rows += [_row("all", client, "", sums) for client, sums in by_client.items()]
    say(*render_table(_COLUMNS, rows, width=terminal_width()) if rows else ("no step has been done",))


def _row(what: str, client: str, model: str, sums: dict[str, Any]) -> tuple[str, ...]:
    tokens = [str(sums[name]) if name in sums else "-" for name in ("inputTokens", "outputTokens")]
    cost = f"{sums['costUsd']:g}" if "costUsd" in sums else "-"
    return (what, client, model, str(sums["steps"]), f"{sums['seconds']:.1f}", *tokens, cost)
