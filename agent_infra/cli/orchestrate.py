"""`agent-infra orchestrate VERB`: parse, call one service, print one JSON line."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from agent_infra.cli.hooks import CLIENT
from agent_infra.cli.person import challenge, refuse_agents
from agent_infra.cli.refs import TASK, task_argument
from agent_infra.cli.render import emit, say
from agent_infra.core.lifecycle import Flow, Role, Stage, Step
from agent_infra.core.receipts import Activation
from agent_infra.errors import AgentInfraError, UsageError
from agent_infra.services import abandon as abandoning
from agent_infra.services import brief as briefs
from agent_infra.services import delegate
from agent_infra.services import orchestrate as verbs
from agent_infra.services import prepare as preparing
from agent_infra.services import repair as repairing
from agent_infra.services.context import Context, open_context
from agent_infra.services.outcome import Outcome, failed


class PositiveInt(click.ParamType[int]):
    """ASCII digits, from 1 to 999,999,999."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that `value` means."""
        if isinstance(value, int):
            return value
        if value.isascii() and value.isdigit() and 0 < len(value) < 10 and int(value) > 0:
            return int(value)
        return self.fail(f"{value[:40]!r} is not a whole number from 1 on", param, ctx)


class ExitCode(click.ParamType[int]):
    """ASCII digits, perhaps with a minus: a signal is a negative exit code."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that `value` means."""
        if isinstance(value, int):
            return value
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 10:
            return int(value)
        return self.fail(f"{value[:40]!r} is not a whole number", param, ctx)


class VerbCommand(click.Command):
    """A verb whose options are given once, with a value that is no option itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse doubled options and values that are missing, empty or begin with `--`."""
        takes_value = {
            name: not param.is_flag
            for param in self.params
            if isinstance(param, click.Option)
            for name in (*param.opts, *param.secondary_opts)
        }
        seen: set[str] = set()
        rest = list(args)
        while rest:
            name, given, value = rest.pop(0).partition("=")
            if name not in takes_value:
                continue
            if name in seen:
                raise click.UsageError(f"{name} is given twice", ctx)
            seen.add(name)
            if takes_value[name]:
                value = value if given else (rest.pop(0) if rest else "")
                if not value or value.startswith("--"):
                    raise click.UsageError(f"{name} needs a value", ctx)
        return super().parse_args(ctx, args)


class VerbGroup(click.Group):
    """All verbs are `VerbCommand`s."""

    command_class = VerbCommand


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
def orchestrate() -> None:
    """Move the run of a task. TASK is a full id, N or #N; every verb prints one JSON line."""


def answer(repo: Path, task: str, call: Callable[[Context], Outcome]) -> int:
    """Print what a service answers; a refusal is answered with the run as it stands."""
    context: Context | None = None
    try:
        context = open_context(repo)
        outcome = call(context)
    except UsageError as error:
        emit(failed(error))
        return 2
    except AgentInfraError as error:
        outcome = _failure(context, task, error)
    emit(outcome)
    return outcome.exit_code


def _failure(context: Context | None, task: str, error: AgentInfraError) -> Outcome:
    """The failed answer, with task and run where they can be told."""
    if context is None or task == delegate.AUTO:
        return failed(error)
    try:
        place = context.resolve(task)
    except AgentInfraError:
        return failed(error)
    try:
        state = context.load(place)
    except AgentInfraError:
        return failed(error, task_id=place.task_id)
    return failed(error, task_id=place.task_id, run=state.run if state else None)


@orchestrate.command()
@task_argument
@click.option("--max-steps", type=PositiveInt(), help="Limit of steps; may be raised later.")
@click.option("--flow", type=click.Choice([str(word) for word in Flow]), help="How much process the task gets.")
@click.option("--from-head", is_flag=True, help="Edits that lie here already belong to the task.")
@click.option("--adopt-reviews", is_flag=True, help="Reviews that lie here count; a person at a terminal says so.")
@click.pass_obj
def begin(repo: Path, task: str, max_steps: int | None, flow: str | None, from_head: bool, adopt_reviews: bool) -> int:
    """Begin the run of TASK, or resume it."""
    wish = verbs.Beginning(max_steps, Flow(flow) if flow else None, from_head, adopt_reviews)

    def call(context: Context) -> Outcome:
        if adopt_reviews:
            challenge("begin --adopt-reviews")
        return verbs.begin(context, task, wish)

    return answer(repo, task, call)


@orchestrate.command()
@task_argument
@click.pass_obj
def route(repo: Path, task: str) -> int:
    """The next step of TASK, or why there is none."""
    return answer(repo, task, partial(verbs.route_task, ref=task))


@orchestrate.command()
@task_argument
@click.pass_obj
def status(repo: Path, task: str) -> int:
    """The run of TASK."""
    return answer(repo, task, partial(verbs.status, ref=task))


@orchestrate.command()
@task_argument
@click.option("--text", is_flag=True, help="Print the brief alone.")
@click.option("--diff-file", type=click.Path(path_type=Path), help="Write the diff to be judged there too.")
@click.pass_obj
def brief(repo: Path, task: str, text: bool, diff_file: Path | None) -> int:
    """What the child of the pending step must do."""

    def call(context: Context) -> Outcome:
        if diff_file:
            briefs.write_diff(context, task, diff_file)
        return briefs.brief(context, task)

    if not text:
        return answer(repo, task, call)
    say(call(open_context(repo)).extra["brief"])
    return 0


@orchestrate.command()
@task_argument
@click.option("--client", required=True, help="The agent client that will do the step.")
@click.option("--headless", is_flag=True, help="The client is started by a driver, not from a session.")
@click.option("--requested-model", help="The model that was asked for.")
@click.option("--requested-effort", help="The reasoning effort that was asked for.")
@click.pass_obj
def prepare(
    repo: Path, task: str, client: str, headless: bool, requested_model: str | None, requested_effort: str | None
) -> int:
    """Open the next step: snapshot and receipt; for a commit also the authorization."""
    order = preparing.Order(client, headless, requested_model, requested_effort)
    return answer(repo, task, lambda context: preparing.prepare(context, task, order))


@orchestrate.command()
@click.argument("task", metavar="TASK|auto", type=TASK)
@click.option("--client", required=True)
@click.option("--native-agent", required=True, help="The name of the agent that was started.")
@click.option("--child-id", required=True)
@click.option("--parent-id", required=True)
@click.option("--spawn-mode", required=True, help="`fresh`; anything else is refused.")
@click.option("--actual-model")
@click.option("--actual-effort")
@click.option("--fallback-reason", help="Why another model runs than the requested one.")
@click.pass_obj
def activate(repo: Path, /, task: str, fallback_reason: str | None, **event: str) -> int:
    """A child started."""
    started = Activation(**event, fallback_reason=fallback_reason)
    return answer(repo, task, lambda context: delegate.activate(context, task, started))


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name a step."""
    for option in (
        click.option("--artifact", required=True),
        click.option("--round", "round_", type=PositiveInt(), required=True),
        click.option("--stage", type=click.Choice([str(word) for word in Stage]), required=True),
    ):
        command = option(command)
    return command


@orchestrate.command()
@task_argument
@step_options
@click.option("--role", type=click.Choice([str(word) for word in Role]), required=True)
@click.pass_obj
def validate(repo: Path, task: str, stage: str, round_: int, artifact: str, role: str) -> int:
    """Is this the active step?"""
    step = Step(Stage(stage), round_, artifact)
    return answer(repo, task, lambda context: delegate.validate(context, task, step, Role(role)))


@orchestrate.command()
@task_argument
@click.option("--stage", type=click.Choice([str(word) for word in Stage]))
@click.option("--round", "round_", type=PositiveInt())
@click.option("--artifact")
@click.option("--agent", required=True, help="The agent's token, for example `claude`.")
@click.pass_obj
def complete(repo: Path, task: str, stage: str | None, round_: int | None, artifact: str | None, agent: str) -> int:
    """A child says that its step is done; step options that are left out are those of the pending step."""
    return answer(
        repo, task, lambda context: delegate.complete(context, task, delegate.Claim(agent, stage, round_, artifact))
    )


@orchestrate.command()
@click.argument("task", metavar="TASK|auto", type=TASK)
@click.option("--client", required=True)
@click.option("--native-agent", required=True)
@click.option("--child-id", required=True)
@click.option("--exit-code", type=ExitCode(), default=0)
@click.pass_obj
def seal(repo: Path, task: str, client: str, native_agent: str, child_id: str, exit_code: int) -> int:
    """A child stopped."""
    stop = delegate.Stop(client, native_agent, child_id, exit_code)
    return answer(repo, task, lambda context: delegate.seal(context, task, stop))


@orchestrate.command()
@task_argument
@click.pass_obj
def advance(repo: Path, task: str) -> int:
    """Let the sealed receipt count."""
    return answer(repo, task, partial(verbs.advance, ref=task))


@orchestrate.command()
@task_argument
@click.option("--code", required=True)
@click.option("--message", required=True)
@click.option("--recoverable/--final", default=True, help="Whether `begin` ends the pause.")
@click.pass_obj
def pause(repo: Path, task: str, code: str, message: str, recoverable: bool) -> int:
    """Make the run wait for a person."""
    return answer(repo, task, partial(verbs.pause, ref=task, code=code, message=message, recoverable=recoverable))


@orchestrate.command()
@task_argument
@click.option("--reason", required=True)
@click.option("--restore", is_flag=True, help="Put back the product files as they were before the step.")
@click.pass_obj
def abandon(repo: Path, task: str, reason: str, restore: bool) -> int:
    """End the pending receipt as aborted; the way out of every pause."""
    return answer(repo, task, partial(abandoning.abandon, ref=task, reason=reason, restored=restore))


@orchestrate.command()
@task_argument
@click.option("--reason", required=True)
@click.pass_obj
def end(repo: Path, task: str, reason: str) -> int:
    """Give the run up and lift its guard; not for agents."""

    def call(context: Context) -> Outcome:
        refuse_agents("orchestrate end")
        return verbs.end(context, task, reason=reason)

    return answer(repo, task, call)


@orchestrate.command()
@task_argument
@click.option("--stage", type=click.Choice([str(word) for word in Stage]), required=True)
@click.option("--reason", required=True)
@click.pass_obj
def reopen(repo: Path, task: str, stage: str, reason: str) -> int:
    """Ask for a new round of an approved stage."""
    return answer(repo, task, partial(verbs.reopen, ref=task, stage=Stage(stage), reason=reason))


@orchestrate.command()
@task_argument
@click.pass_obj
def repair(repo: Path, task: str) -> int:
    """Rebuild view and evidence from the journal; restore what is lost from the evidence."""
    return answer(repo, task, partial(repairing.repair, ref=task))


@orchestrate.command()
@CLIENT
def hook(client: str) -> int:
    """Answer an event of an agent client, in the client's own protocol; the same as `agent-infra hook`."""
    from agent_infra.clients import hook as entry

    return entry.run(client)
