"""README.md and docs/configuration.md name everything that a person can meet."""

import json
import re
from functools import reduce
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

from agent_infra.cli.app import app
from agent_infra.core.config import Config
from agent_infra.errors import ErrorCode

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
_LISTING = re.MULTILINE | re.DOTALL
CODE_ROW = re.compile(r"^\| `([A-Z_]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def commands(group: click.Group, prefix: str = "") -> list[str]:
    """Every command of a group that can be called, with the words before it."""
    context = click.Context(group)
    found: list[str] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        full = f"{prefix}{name}"
        if isinstance(command, click.Group):
            found.extend(commands(command, f"{full} "))
        else:
            found.append(full)
    return found


def keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every key of the settings file, dotted."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found.extend(keys(inner, f"{prefix}{name}."))
        else:
            found.append(f"{prefix}{field.alias or name}")
    return found


def test_every_error_code_has_one_row_that_says_what_to_do() -> None:
    """A code that a person meets is in the table, once, and nothing is there that we do not raise."""
    assert sorted(code for code, _, _ in CODE_ROW.findall(README)) == sorted(ErrorCode)


@pytest.mark.parametrize("command", commands(app))
def test_every_command_has_its_row(command: str) -> None:
    """A command that can be called is in the table of commands."""
    assert re.search(rf"^\| (`[^`]+`, )*`{re.escape(command)}`[, ].*\|$", README, re.MULTILINE)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_lead_somewhere(target: str) -> None:
    """README links only to files that are there."""
    assert (ROOT / target).exists()


@pytest.mark.parametrize("key", keys(Config))
def test_every_setting_is_documented_with_its_default(key: str) -> None:
    """A key of config.toml has a row, and the row shows the default that counts."""
    default = reduce(dict.__getitem__, key.split("."), Config().model_dump(by_alias=True))
    row = re.search(rf"^\| `{re.escape(key)}` \| ([^|]+) \|", CONFIGURATION, re.MULTILINE)
    assert row
    listed = re.search(rf"^## Default of `{re.escape(key)}`\n+```toml\n.*?\n```", CONFIGURATION, _LISTING)
    shown = re.findall(r'"([^"]+)"', listed[0]) if listed else json.loads(row[1].strip("` "))
    assert shown == default
