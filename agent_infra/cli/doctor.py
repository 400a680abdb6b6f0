"""`agent-infra doctor`: lines for people, one JSON line for programs."""

import json
from pathlib import Path

import click

from agent_infra.cli.render import say
from agent_infra.clients.setup.checks import checks
from agent_infra.errors import AgentInfraError
from agent_infra.services.context import open_context
from agent_infra.services.setup import doctor as doctors

_MARKS = {"fine": "ok   ", "note": "note ", "fault": "FAULT"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON line.")
@click.pass_obj
def doctor(repo: Path, as_json: bool) -> int:
    """Say what is installed, what really works, and what needs a hand; changes nothing.

    Exit 0 when nothing is wrong, else 1.
    """
    try:
        report = doctors.examine(open_context(repo), checks(repo))
    except AgentInfraError as error:
        report = doctors.Report((doctors.failed_check("place", error),))
    if as_json:
        say(json.dumps(report.to_json(), separators=(",", ":")))
    else:
        _show(report)
    return 0 if report.is_healthy else 1


def _show(report: doctors.Report) -> None:
    for finding in report.findings:
        say(f"{_MARKS[finding.level]} {finding.check}: {finding.message}")
        if finding.helps:
            say(f"      → {finding.helps}")
    faults = sum(finding.level == "fault" for finding in report.findings)
    say(f"{faults} fault{'' if faults == 1 else 's'}" if faults else "nothing is wrong")
