"""Puts the diagrams of the tables into docs/lifecycle.md, between `<!-- generated: NAME -->` markers."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "lifecycle.md"

_BLOCK = re.compile(r"(<!-- generated: ([a-z]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def diagrams() -> dict[str, str]:
    """The diagrams by the names of their blocks."""
    from agent_infra.core.machines import table_diagram
    from agent_infra.core.receipts import RECEIPT
    from agent_infra.core.routing import route_diagram
    from agent_infra.core.run import RUN
    from agent_infra.core.subtasks.planning import LOOP

    tables = {"receipt": RECEIPT, "run": RUN, "planning": LOOP}
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


def main(args: list[str]) -> int:
    """Write the page, or with `--check` only compare it."""
    if args not in ([], ["--check"]):
        print("usage: scripts/docs [--check]", file=sys.stderr)
        return 2
    old = PAGE.read_text(encoding="utf-8")
    new = refresh(old)
    if args:
        print("docs/lifecycle.md is stale; run scripts/docs" if old != new else "docs/lifecycle.md is up to date")
        return int(old != new)
    if old != new:
        PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
