"""`agent-infra subtasks`: split a task, run the parts, see where they stand."""

import json
import os
from pathlib import Path
from typing import Any

import click

from agent_infra.cli.refs import TASK
from agent_infra.cli.render import say, tell
from agent_infra.clients.engines import engines_of
from agent_infra.core.subtasks.result import DRY_RUN, REAL, Result, Strategy
from agent_infra.core.subtasks.waves import TERMINAL, ChildStatus
from agent_infra.errors import AgentInfraError, ErrorCode, RefusedError
from agent_infra.runtime.engines import Engine
from agent_infra.runtime.subtasks import Options, Orchestration, child_json
from agent_infra.runtime.workers import depth_of
from agent_infra.services.context import Context, open_context
from agent_infra.services.subtasks import overview
from agent_infra.services.subtasks import planning as plans

_RETRY = sorted(str(status) for status in TERMINAL - {ChildStatus.COMPLETED, ChildStatus.ARCHIVED})


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def subtasks() -> None:
    """Run a task as subtasks in dependency waves, each in a git worktree of its own.

    The subtasks are the front matter of the newest approved plan; TASK is a full id, N or #N.
    """


task_argument = click.argument("ref", metavar="TASK", type=TASK)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON line.")
parallel_option = click.option(
    "--parallel", is_flag=False, flag_value="2", metavar="N", help="Side by side, at most N (1 to 4; 2 when left out)."
)
engine_option = click.option("--engine", default="", metavar="E", help="For subtasks that name no engine of their own.")


@subtasks.command()
@task_argument
@parallel_option
@engine_option
@json_option
@click.pass_obj
def plan(repo: Path, ref: str, parallel: str | None, engine: str, as_json: bool) -> int:
    """Show what would run, in which waves and with which conflicts. Changes nothing at all."""
    try:
        context = open_context(repo)
        planned, _ = _planned(context, ref, engine, must_run=False)
    except AgentInfraError as error:
        return _failed(ref, DRY_RUN, error, as_json=as_json)
    strategy = Strategy(parallel, planned.config.subtasks.max_agents_per_manager)
    result = Result(ref_id(planned), DRY_RUN, strategy, request=planned.request, planning=planned.planning)
    return _answer(result, as_json=as_json)


@subtasks.command()
@task_argument
@parallel_option
@engine_option
@click.option("--force", is_flag=True, help="Run children again that need a person.")
@click.option("--retry", default="", metavar="STATUS,…", help="Run children again that ended so, e.g. failed,blocked.")
@json_option
@click.pass_obj
def run(repo: Path, ref: str, parallel: str | None, engine: str, force: bool, retry: str, as_json: bool) -> int:
    """Run TASK's subtasks and merge what they did; called again it goes on and repeats nothing that is done."""
    again = _statuses(retry)
    return _run(repo, ref, Choice(parallel, engine, force, again), as_json=as_json)


@subtasks.command()
@task_argument
@parallel_option
@engine_option
@click.option("--force", is_flag=True, help="Run children again that need a person.")
@click.option("--retry", default="", metavar="STATUS,…", help="Run children again that ended so, e.g. failed,blocked.")
@json_option
@click.pass_obj
def resume(repo: Path, ref: str, parallel: str | None, engine: str, force: bool, retry: str, as_json: bool) -> int:
    """Go on with an orchestration that was stopped; a task without subtasks that is over is not run again."""
    again = _statuses(retry)
    try:
        planned, _ = _planned(open_context(repo), ref, engine, must_run=False)
        over = overview.ended_directly(planned)
    except AgentInfraError as error:
        return _failed(ref, REAL, error, as_json=as_json)
    if over and not again and not force:
        words = f"{ref_id(planned)} has no subtasks and is {over} already; `subtasks run --retry {over}` runs it again"
        result = Result(ref_id(planned), REAL, parent_status=over, reason=words, warnings=(words,))
        return _answer(result, as_json=as_json)
    return _run(repo, ref, Choice(parallel, engine, force, again), as_json=as_json)


class Choice:
    """How a person wants a run."""

    def __init__(self, parallel: str | None, engine: str, force: bool, again: frozenset[ChildStatus]) -> None:
        self.parallel, self.engine, self.force, self.again = parallel, engine, force, again


def _run(repo: Path, ref: str, choice: Choice, *, as_json: bool) -> int:
    try:
        context = open_context(repo)
        planned, engines = _planned(context, ref, choice.engine, must_run=True)
        strategy = Strategy(choice.parallel, planned.config.subtasks.max_agents_per_manager)
        options = Options(strategy, choice.force, choice.again)
        depth = planned.request.depth
        result = Orchestration(context, planned, engines, options, tell, depth).run()
    except AgentInfraError as error:
        return _failed(ref, REAL, error, as_json=as_json)
    return _answer(result, as_json=as_json)


def _planned(context: Context, ref: str, engine: str, *, must_run: bool) -> tuple[plans.Planned, Any]:
    engines: dict[str, Engine] = {}

    def preflight(name: str) -> str | None:
        return engines[name].preflight() if name in engines else None

    # which settings count is known once the run is read, so engines come from the plan's own
    first = plans.plan(context, ref, plans.Asked(depth_of(os.environ), engine))
    engines |= engines_of(first.config, context.repo.state_root)
    asked = plans.Asked(depth_of(os.environ), engine, preflight, must_run)
    return plans.plan(context, ref, asked), engines


def ref_id(planned: plans.Planned) -> str:
    """The full id of the planned task."""
    return planned.place.task_id


def _statuses(words: str) -> frozenset[ChildStatus]:
    found = [word.strip() for word in words.split(",") if word.strip()]
    odd = [word for word in found if word not in _RETRY]
    if odd:
        raise click.UsageError(f"--retry knows {', '.join(_RETRY)}; found {', '.join(odd)}")
    return frozenset(ChildStatus(word) for word in found)


def _failed(ref: str, mode: str, error: AgentInfraError, *, as_json: bool) -> int:
    """A task that can't be read is a result, with the reason."""
    result = Result(ref, mode, errors=(f"{error.message} [{error.code}]",))
    if not as_json:
        tell(f"agent-infra: {error.message} [{error.code}]", *error.notes)
        return 1
    return _answer(result, as_json=True)


def _answer(result: Result, *, as_json: bool) -> int:
    said = result.to_json()
    if as_json:
        say(json.dumps(said, ensure_ascii=False, separators=(",", ":")))
    else:
        _show(said)
    return 0 if result.succeeded else 1


def _show(said: dict[str, Any]) -> None:
    """A result for people: the waves, the children, what stands in the way."""
    execution = said.get("executionPlan")
    for wave in execution["waves"] if execution else ():
        side = ", ".join(wave["parallelSubtaskIds"]) or "-"
        rest = f"; one by one: {', '.join(wave['serialSubtaskIds'])}" if wave["serialSubtaskIds"] else ""
        say(f"wave {wave['waveIndex'] + 1}: side by side: {side}{rest}")
    if not execution and said["plan"]:
        say(f"order: {', '.join(said['plan']['simulation']['order']) or '-'}")
    for child in said["children"]:
        say(f"{child['subtaskId']}: {child['status']} (attempt {child['attempt']})" + _because(child["reason"]))
    for conflict in said["plan"]["conflicts"] if said["plan"] else ():
        say(f"{'blocking ' if conflict['blocking'] else ''}conflict: {conflict['reason']}")
    say(said["summary"])
    if said["statusOverrideReason"]:
        say(f"because: {said['statusOverrideReason']}")
    tell(*(f"warning: {word}" for word in said["warnings"]), *(f"error: {word}" for word in said["errors"]))


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


@subtasks.command()
@task_argument
@json_option
@click.pass_obj
def status(repo: Path, ref: str, as_json: bool) -> int:
    """Where each subtask stands. Changes nothing."""
    try:
        planned, _ = _planned(open_context(repo), ref, "", must_run=False)
        said = overview.on_record(planned, child_json)
    except AgentInfraError as error:
        return _failed(ref, REAL, error, as_json=as_json)
    if as_json:
        say(json.dumps(said, ensure_ascii=False, separators=(",", ":")))
        return 0
    _show(said)
    if said["isRunning"]:
        say("an orchestration is at work")
    return 0


@subtasks.command()
@task_argument
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are, one JSON object each.")
@click.pass_obj
def trail(repo: Path, ref: str, as_json: bool) -> int:
    """What happened, event by event. Changes nothing."""
    planned, _ = _planned(open_context(repo), ref, "", must_run=False)
    found = planned.store.trail()
    for line in found.lines:
        if as_json:
            say(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
        else:
            subject = f" {line['subtaskId']}" if "subtaskId" in line else ""
            status_ = f" {line['status']}" if line.get("status") else ""
            say(f"{line.get('timestamp')} #{line.get('attempt')} {line.get('eventType')}{subject}{status_}")
    if found.unreadable:
        tell(f"warning: {found.unreadable} lines of the trail can't be read")
    return 0


@subtasks.command()
@task_argument
@click.option("--discard", metavar="SUBTASK", help="Remove this child's worktree too; its work is kept under a ref.")
@json_option
@click.pass_obj
def clean(repo: Path, ref: str, discard: str | None, as_json: bool) -> int:
    """Remove worktrees whose work is merged, and list those that hold something, with what they hold."""
    context = open_context(repo)
    place = context.resolve(ref)
    if place.state == "missing":
        raise RefusedError(ErrorCode.TASK_NOT_FOUND, f"there is no task {ref}")
    done, kept = overview.clean(context, place.task_id, discard=discard)
    if as_json:
        say(json.dumps({"taskId": place.task_id, "done": done, "kept": [one.to_json() for one in kept]}))
        return 0
    say(*done, *(f"kept {one.path} ({one.subtask})" for one in kept))
    for one in kept:
        say(*(f"  commit {commit}" for commit in one.commits), *(f"  file {path}" for path in one.files))
    if not done and not kept:
        say("nothing to clean")
    return 0
