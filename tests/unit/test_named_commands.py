"""What agents and people read names only commands that are there, with options that are there."""

import re
from pathlib import Path

import click
import pytest

from agent_infra.cli.app import app
from agent_infra.clients.setup import wanted
from agent_infra.core.frontmatter import parse_front_matter

ROOT = Path(__file__).parents[2]
TEXTS = [
    *sorted((ROOT / "assets").rglob("*.md")),
    *sorted((ROOT / "templates").glob("*.md")),
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "cli.md"),
]
IN_TEXT = re.compile(r"`(?:\.agents/hooks/)?agent-infra ([^`]+)`")
IN_BLOCK = re.compile(r"^(?:\$ )?agent-infra ([a-z-][^\n]*)$", re.MULTILINE)


def named(text: str) -> list[str]:
    """The calls that a text names, without comments: between backticks, or a line of a block."""
    parts = re.split(r"^```.*$", text, flags=re.MULTILINE)
    calls = [call for part in parts[::2] for call in IN_TEXT.findall(part)]
    calls += [call for part in parts[1::2] for call in IN_BLOCK.findall(part)]
    return sorted({" ".join(re.split(r" +#", call)[0].split()) for call in calls})


def check_call(call: str) -> None:
    """The words lead to a command, and every option named belongs to it."""
    words, command, ctx = call.split(), app, click.Context(app, info_name="agent-infra")
    while words and words[0] == "--repo":
        words = words[2:]
    known: click.Command = command
    while isinstance(known, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        found = known.get_command(ctx, words[0])
        assert found is not None, f"{words[0]!r} of `agent-infra {call}` is no command"
        known, words = found, words[1:]
        ctx = click.Context(known, info_name=known.name, parent=ctx)
    options = {name for param in known.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
    ours = words[: words.index("--")] if "--" in words else words
    for word in ours:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in options, f"{word!r} of `agent-infra {call}` is no option"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_is_named_exists(path: Path) -> None:
    for call in named(path.read_text(encoding="utf-8")):
        check_call(call)


def test_calls_are_found_in_text_and_in_blocks() -> None:
    """Or nothing would be tested at all."""
    assert named("Say `agent-infra task ls`.\n\n```sh\nagent-infra init --yes   # now\n```\n") == [
        "init --yes",
        "task ls",
    ]
    with pytest.raises(AssertionError, match="no command"):
        check_call("task make")
    with pytest.raises(AssertionError, match="no option"):
        check_call("task ls --nothing")
    assert sum(len(named(path.read_text(encoding="utf-8"))) for path in (ROOT / "assets").rglob("*.md")) > 10


@pytest.mark.parametrize("name", wanted.SKILLS)
def test_a_skill_says_what_it_is_for_and_is_short(name: str) -> None:
    """Its name is that of its folder; it fits on a page; what it points to is installed."""
    data = (ROOT / f"assets/skills/{name}.md").read_bytes()
    fields = parse_front_matter(data, flat=True).fields
    assert fields["name"] == name
    assert len(fields["description"]) < 250
    assert len(data) < 3_000
    paths = {file.path for file in wanted.files(())}
    for path in re.findall(rb"`(\.agents/[^`]+\.md)`", data):
        assert path.decode() in paths


def test_every_stage_has_its_skill_and_template() -> None:
    """All that is in the folders is installed, and nothing else."""
    installed = {file.path for file in wanted.files(())}
    assert {f".agents/templates/{path.name}" for path in (ROOT / "templates").iterdir()} <= installed
    assert {f".agents/rules/{path.name}" for path in (ROOT / "assets/rules").iterdir()} <= installed
    assert {f".agents/skills/{path.stem}/SKILL.md" for path in (ROOT / "assets/skills").iterdir()} <= installed
