"""A developer with husky 9, lint-staged and prettier, all real, does a two-line fix from begin to commit."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.core.lifecycle import Flow, Stage, Step
from tests.support.fetching import npm
from tests.support.lifecycle import TASK, World, artifact_text, fresh, terminal

BROKEN = "export function add(a, b) {\n  return a - b;\n}\n\nexport const two = 3;\n"
FIXED = "export function add(a, b) {\n  return a + b;\n}\n\nexport const two = 2;\n"
UNTIDY = "export function add(a, b) {\n    return a+b\n}\n\nexport const two=2\n"
FILES = {
    "src/add.js": BROKEN,
    "src/other.js": "export const other = 1;\n",
    "README.md": "# sums\n",
    "package.json": json.dumps({"private": True, "lint-staged": {"*.js": "prettier --write"}}, indent=2) + "\n",
    ".gitignore": "node_modules/\n",
    ".husky/pre-commit": "npx --no-install lint-staged\n",
    ".husky/commit-msg": 'grep -qE "^(fix|feat|chore): [a-z]" "$1" || { echo "no such kind of message"; exit 1; }\n',
}


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node")
    return npm(folder, "husky@9", "lint-staged@16", "prettier@3").parent


@pytest.fixture
def team(tmp_path: Path, node_modules: Path) -> Callable[[str], World]:
    """Their repository, with us in it as a newcomer installs us, and the developer's own unfinished work beside it."""

    def make(settings: str) -> World:
        world = fresh(tmp_path / "repo", files=FILES)
        shutil.copytree(node_modules, world.root / "node_modules", symlinks=True)
        world.run("node_modules/.bin/husky")
        world.cli("init", "--yes")
        world.write(".agents/config.toml", settings)
        world.git("add", ".agents")
        world.git("commit", "-q", "-m", "chore: install agent-infra")
        world.write("README.md", "# sums, half a sentence\n")
        world.write("src/other.js", "export const other = 2;\n")
        world.git("add", "src/other.js")
        world.write("notes.txt", "mine\n")
        world.make_task()
        world.begin(flow=Flow.STREAMLINED)
        return world

    return make


def to_review(world: World, work: str) -> None:
    while (stage := world.next_stage()) != Stage.REVIEW_CODE:
        world.step(work=(lambda: world.write("src/add.js", work)) if stage == Stage.CODE else None)


def own_work(world: World) -> str:
    """What the developer has staged and edited besides, as git sees it."""
    shown = world.git("status", "--short").out.splitlines()
    return "\n".join(line for line in shown if not line.endswith("src/add.js"))


MINE = " M README.md\nM  src/other.js\n?? notes.txt"


def test_nothing_is_refused(team: Callable[[str], World]) -> None:
    """Every step passes at the first try, the hooks run, and unfinished work beside the fix stays as it was."""
    world = team("[gate]\ncheck = true\n")
    to_review(world, FIXED)
    world.step()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: add the numbers")
    assert world.close_step() == "completed"
    assert world.committed() == ["M src/add.js"]
    assert world.git("show", "HEAD:src/add.js").out == FIXED
    assert own_work(world) == MINE
    assert world.git("stash", "list").out == ""
    assert "1 verified" in world.cli("verify", "HEAD~1..HEAD").out


def test_the_formatter_is_known_before_the_review(team: Callable[[str], World]) -> None:
    """The brief names the path; the formatted content is what gets reviewed, and its commit is refused by nobody."""
    world = team("[gate]\ncheck = true\n")
    to_review(world, UNTIDY)
    step = world.open_step()
    brief = world.verb("brief").json["brief"]
    assert "gate check: pre-commit would rewrite src/add.js" in brief
    assert "before you approve" in brief
    world.verb("abandon", "--reason", "stop here: the review below asks for it")
    rejected = {"verdict": "Changes Requested", "counts": (0, 0, 1)}
    row = f"| CD-1 | code | {step.round} | minor | open | {step.artifact}#CD-1 |"
    world.step(work=lambda: world.finding(row), **rejected)
    assert world.next_stage() == Stage.CODE

    def format_it() -> None:
        world.run("node_modules/.bin/prettier", "--write", "src/add.js")
        world.finding(row.replace("| open |", "| accepted |"))

    world.step(work=format_it)
    world.open_step()
    assert "gate check: pre-commit passes" in world.verb("brief").json["brief"]
    world.verb("abandon", "--reason", "only looked")
    world.step(work=lambda: world.finding(row.replace("| open |", "| closed |")))
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: add the numbers")
    assert world.close_step() == "completed"
    assert world.git("show", "HEAD:src/add.js").out == FIXED
    assert own_work(world) == MINE


def test_without_the_check_the_refusal_names_the_path_and_the_way_on(team: Callable[[str], World]) -> None:
    """What lint-staged rewrote was not reviewed; following the words leads to the commit, and no work is lost."""
    world = team("")
    to_review(world, UNTIDY)
    world.step()
    world.open_step()
    answer = world.cli("commit", TASK, "-m", "fix: add the numbers", check=False)
    assert answer.code == 1
    assert "rewrote src/add.js" in answer.err
    assert f"`agent-infra orchestrate abandon {TASK} --reason …`" in answer.err
    assert "Traceback" not in answer.err
    assert own_work(world) == MINE
    world.verb("abandon", "--reason", "prettier formatted it")
    assert world.next_stage() == Stage.REVIEW_CODE
    world.step()
    world.open_step()
    world.cli("commit", TASK, "-m", "fix: add the numbers")
    assert world.close_step() == "completed"
    assert world.git("show", "HEAD:src/add.js").out == FIXED
    assert own_work(world) == MINE


def test_a_person_at_a_terminal(team: Callable[[str], World], tmp_path: Path) -> None:
    """The same by hand: told before the editor opens; a message that husky refuses is mended by another one."""
    world = team("[gate]\ncheck = true\n")
    to_review(world, FIXED)
    (tmp_path / "review").write_text(artifact_text(Step(Stage.REVIEW_CODE, 1, "review-code.md")))
    person = terminal(world, "review", TASK, env={"EDITOR": f"cp {tmp_path}/review"})
    person.until("gate check: pre-commit passes")
    assert person.end()[0] == 0
    code, said = terminal(world, "commit", TASK, "-m", "Add the numbers").end()
    assert code == 1
    assert "no such kind of message" in said
    code, said = terminal(world, "commit", TASK, "-m", "fix: add the numbers").end()
    assert code == 0, said
    assert world.committed() == ["M src/add.js"]
    assert own_work(world) == MINE
