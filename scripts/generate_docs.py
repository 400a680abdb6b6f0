"""Puts the diagrams of the tables into docs/lifecycle.md, and every command's help into docs/cli.md."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "lifecycle.md"
CLI = ROOT / "docs" / "cli.md"

_CLI_TOP = """# Commands

Every command with its help, as `agent-infra COMMAND --help` prints it. This page is made by `scripts/docs`.
"""

_BLOCK = re.compile(r"(<!-- generated: ([a-z]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def diagrams() -> dict[str, str]:
    """The diagrams by the names of their blocks."""
    from agent_infra.core.findings import FINDING
    from agent_infra.core.machines import table_diagram
    from agent_infra.core.receipts import RECEIPT
    from agent_infra.core.routing import route_diagram
    from agent_infra.core.run import RUN
    from agent_infra.core.subtasks.planning import LOOP

    tables = {"receipt": RECEIPT, "run": RUN, "planning": LOOP, "finding": FINDING}
    return {"route": route_diagram(), **{name: table_diagram(table) for name, table in tables.items()}}


def refresh(page: str) -> str:
    """The page with every block as the tables are now.

    Raises:
        ValueError: a block is missing, there twice, or has a name that we draw nothing for.
    """
    drawn = diagrams()
    names = [match[2] for match in _BLOCK.finditer(page)]
    if sorted(names) != sorted(drawn):
        raise ValueError(f"the page has the blocks {', '.join(names)}; expected are {', '.join(drawn)}, each once")
    return _BLOCK.sub(lambda match: f"{match[1]}\n```mermaid\n{drawn[match[2]]}\n```\n\n{match[3]}", page)


def commands() -> Iterator[tuple[str, str]]:
    """Every command that can be called, by its words, with its help at 100 columns."""
    from agent_infra.cli.app import app

    yield from _below(
        click.Context(app, info_name="agent-infra", terminal_width=100, help_option_names=["-h", "--help"])
    )


def _below(ctx: click.Context) -> Iterator[tuple[str, str]]:
    yield ctx.command_path, ctx.command.get_help(ctx)
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            if command and not command.hidden:
                yield from _below(click.Context(command, info_name=name, parent=ctx))


def cli_page() -> str:
    """docs/cli.md as it must be."""
    return _CLI_TOP + "".join(f"\n## `{words}`\n\n```\n{text.rstrip()}\n```\n" for words, text in commands())


def main(args: list[str]) -> int:
    """Write the pages, or with `--check` only compare them."""
    if args not in ([], ["--check"]):
        print("usage: scripts/docs [--check]", file=sys.stderr)
        return 2
    stale = False
    for page in (PAGE, CLI):
        old = page.read_text(encoding="utf-8") if page.exists() else ""
        new = refresh(old) if page == PAGE else cli_page()
        if args:
            print(f"docs/{page.name} is {'stale; run scripts/docs' if old != new else 'up to date'}")
        elif old != new:
            page.write_text(new, encoding="utf-8")
        stale = stale or old != new
    return int(bool(args) and stale)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
