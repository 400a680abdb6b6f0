"""`agent-infra task ledger` and `task decisions`: findings, their answers, and what waits for a person."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from agent_infra.cli.refs import json_option, named_once, one_task
from agent_infra.cli.render import say
from agent_infra.cli.table import Column, render_table
from agent_infra.core.findings import RESPONSES, REVIEWS, Finding
from agent_infra.core.ledger import Row, gate
from agent_infra.services.context import open_context
from agent_infra.services.tasks import ledger as ledgers

_COLUMNS = (
    Column("id"),
    Column("stage"),
    Column("round", right=True),
    Column("severity"),
    Column("status"),
    Column("evidence", least=12, drop=1),
)


@click.group()
def ledger() -> None:
    """The findings ledger of a task: add findings, answer them, settle the answers."""


@ledger.command("ls")
@one_task
@json_option
@click.pass_obj
def list_rows(repo: Path, task: str | None, named: str | None, as_json: bool) -> None:
    """List the rows of TASK's ledger, and say whether they let the work go on."""
    place, found = ledgers.rows(open_context(repo), named_once(task, named))
    open_rows = gate(found).open_rows
    if as_json:
        facts = {"taskId": place.task_id, "rows": [asdict(row) for row in found.rows]}
        _say_json(facts | {"open": [row.id for row in open_rows], "canAdvance": not open_rows})
        return
    _show(found.rows)
    say(f"open: {', '.join(row.id for row in open_rows)}" if open_rows else "nothing is open")


@ledger.command()
@one_task
@click.option("--review", metavar="FILE", help="The review that the finding stands in, such as review-code-r2.md.")
@click.option("--severity", type=click.Choice(["blocker", "major", "minor"]), help="How much it matters.")
@click.option("--decision", metavar="FILE", help="Ask a person instead: the artifact that tells what is to be decided.")
@click.option("--stage", type=click.Choice(["analysis", "plan", "code"]), help="Of the decision.")
@click.option("--id", "row_id", default="", metavar="ID", help="Must be the next one; chosen when left out.")
@click.option("--anchor", default="", help="Where in the review it stands; the id when left out.")
@json_option
@click.pass_obj
def add(
    repo: Path,
    task: str | None,
    named: str | None,
    review: str | None,
    severity: str | None,
    decision: str | None,
    stage: str | None,
    row_id: str,
    anchor: str,
    as_json: bool,
) -> None:
    """Put a finding, or a question for a person, into TASK's ledger."""
    context, ref = open_context(repo), named_once(task, named)
    if decision and stage and not review and not severity and not anchor:
        written = ledgers.ask(context, ref, stage=stage, artifact=decision, row_id=row_id)
    elif review and severity and not decision and not stage:
        written = ledgers.add(context, ref, Finding(review, severity, row_id, anchor))
    else:
        raise click.UsageError("a finding needs --review and --severity, a question --decision and --stage")
    _tell(written, as_json=as_json)


_row_option = click.option("--id", "row_id", required=True, metavar="ID", help="The row, such as CD-1.")
_evidence_option = click.option("--evidence", required=True, help="One line, such as code-r2.md#CD-1.")
_round_option = click.option("--round", "round_", type=click.IntRange(1, 999), help="Of the answer; the one that fits.")


@ledger.command()
@one_task
@_row_option
@click.option("--status", required=True, type=click.Choice(RESPONSES), help="What the executor says.")
@_evidence_option
@_round_option
@json_option
@click.pass_obj
def respond(
    repo: Path,
    task: str | None,
    named: str | None,
    row_id: str,
    status: str,
    evidence: str,
    round_: int | None,
    as_json: bool,
) -> None:
    """Answer an open finding, as the executor."""
    said = ledgers.Answer(row_id, status, evidence, "executor", round_)
    _tell(ledgers.answer(open_context(repo), named_once(task, named), said), as_json=as_json)


@ledger.command()
@one_task
@_row_option
@click.option("--status", required=True, type=click.Choice(REVIEWS), help="What the reviewer says.")
@_evidence_option
@_round_option
@json_option
@click.pass_obj
def review(
    repo: Path,
    task: str | None,
    named: str | None,
    row_id: str,
    status: str,
    evidence: str,
    round_: int | None,
    as_json: bool,
) -> None:
    """Settle an answered finding, send it back, or ask a person, as the reviewer."""
    said = ledgers.Answer(row_id, status, evidence, "reviewer", round_)
    _tell(ledgers.answer(open_context(repo), named_once(task, named), said), as_json=as_json)


@click.command()
@one_task
@json_option
@click.pass_obj
def decisions(repo: Path, task: str | None, named: str | None, as_json: bool) -> None:
    """List what waits for a person in TASK's ledger; `task decide --item N` settles it."""
    place, found = ledgers.waiting(open_context(repo), named_once(task, named))
    if as_json:
        _say_json(
            {"taskId": place.task_id, "decisions": [{"item": n, **asdict(row)} for n, row in enumerate(found, 1)]}
        )
    elif not found:
        say("nothing waits for a person")
    else:
        _show(found)
        say(f'settle one: `agent-infra task decide --item 1 --result "…" {place.task_id}`')


def _show(rows: Sequence[Row]) -> None:
    if rows:
        cells = [(row.id, row.stage, row.round, row.severity, row.status, row.evidence) for row in rows]
        say(*render_table(_COLUMNS, cells))


def _tell(written: ledgers.Written, *, as_json: bool) -> None:
    row = written.row
    if as_json:
        _say_json({"taskId": written.place.task_id, "changed": written.changed, "row": asdict(row)})
        return
    say(f"{row.id} is {'' if written.changed else 'already '}{row.status}: {row.evidence}")


def _say_json(document: object) -> None:
    say(json.dumps(document, ensure_ascii=False, separators=(",", ":")))
