"""`agent-infra config`: the project's settings, one key at a time."""

from pathlib import Path

import click

from agent_infra.cli.refs import json_option
from agent_infra.cli.render import say, say_json, tell
from agent_infra.core.settings import flat, render_value
from agent_infra.services import settings
from agent_infra.services.context import open_context


@click.group()
def config() -> None:
    """Look at the settings of `.agents/config.toml`, and change them; comments stay."""


@config.command()
@json_option
@click.pass_obj
def show(repo: Path, as_json: bool) -> None:
    """Print every setting that counts, those of the file and the defaults.

    The lines are TOML, and may be copied into the file.
    """
    found = settings.read_settings(open_context(repo))
    if as_json:
        say_json({"path": str(found.path), "settings": found.values, "chosen": sorted(found.chosen)})
        return
    for key, value in flat(found.values):
        say(f"{key} = {render_value(value)}{'  # default' if found.is_default(key) else ''}")


@config.command()
@click.argument("key")
@json_option
@click.pass_obj
def get(repo: Path, key: str, as_json: bool) -> None:
    """Print the value of KEY, or every key of a section."""
    found = settings.get(open_context(repo), key)
    if as_json:
        say_json(found)
    elif isinstance(found, dict):
        say(*(f"{name} = {render_value(value)}" for name, value in flat(found)))
    else:
        say(found if isinstance(found, str) else render_value(found))


@config.command("set")
@click.argument("key")
@click.argument("value")
@json_option
@click.pass_obj
def set_(repo: Path, key: str, value: str, as_json: bool) -> None:
    """Set KEY to VALUE, which is TOML, or a text without quotes. A value that KEY does not take changes nothing."""
    found, changed = settings.put(open_context(repo), key, value)
    if as_json:
        say_json({"key": key, "value": found, "changed": changed})
        return
    if not changed:
        tell("it is so already")
    say(f"{key} = {render_value(found)}")


@config.command()
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors."""
    say_json(settings.schema())
