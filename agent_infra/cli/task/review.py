"""`agent-infra task review`: what a reviewer need not do by hand."""

import json
from pathlib import Path

import click

from agent_infra.cli.refs import json_option, named_once, one_task
from agent_infra.cli.render import say
from agent_infra.core.reviews import Verdict
from agent_infra.services.context import open_context
from agent_infra.services.tasks import review as reviews


@click.group()
def review() -> None:
    """Help with reviews of a task; `agent-infra review` does a whole one."""


@review.command()
@one_task
@click.option("--verdict", type=click.Choice([str(word) for word in Verdict]), help="Left out: by the counts.")
@click.option("--manual", type=click.IntRange(0, 9999), help="What only a person can validate; left out: as written.")
@click.option("--review", "name", default="", metavar="FILE", help="Left out: the pending review, or the newest.")
@json_option
@click.pass_obj
def finish(
    repo: Path, task: str | None, named: str | None, verdict: str | None, manual: int | None, name: str, as_json: bool
) -> None:
    """Write verdict and counts into the summary of TASK's review; the counts come from the ledger."""
    wish = reviews.Wish(Verdict(verdict) if verdict else None, manual, name)
    done = reviews.finish(open_context(repo), named_once(task, named), wish)
    counts = {"blocker": done.counts.blocker, "major": done.counts.major, "minor": done.counts.minor}
    if as_json:
        facts = {"taskId": done.place.task_id, "review": done.name, "verdict": str(done.verdict), "counts": counts}
        say(json.dumps(facts | {"manualValidation": done.manual, "changed": done.changed}, separators=(",", ":")))
        return
    numbers = ", ".join(f"{count} {severity}s" for severity, count in counts.items())
    say(f"{done.name}: {done.verdict.words}; {numbers}; {done.manual} to validate by hand")
