"""`agent-infra config`, and the least flow that the settings can demand."""

import json

import pytest

from tests.support.world import TASK, Answer, World

PATH = ".agents/config.toml"
TEXT = "# ours\n[run]\nmax_steps = 9 # nine\n"


def code(answer: Answer) -> str:
    return answer.err.rpartition("[")[2].partition("]")[0]


def test_what_counts_is_shown(world: World) -> None:
    """Defaults are marked; one key or a section can be asked for."""
    world.write(PATH, TEXT)
    out = world.call("config", "show").out
    assert "run.max_steps = 9\n" in out
    assert "task.short_id_length = 2  # default\n" in out
    found = world.call("config", "show", "--json").json
    assert (found["settings"]["run"], found["chosen"]) == ({"max_steps": 9, "child_timeout": 3600.0}, ["run.max_steps"])
    assert world.call("config", "get", "run.max_steps").out == "9\n"
    assert world.call("config", "get", "run").out == "max_steps = 9\nchild_timeout = 3600.0\n"
    assert json.loads(world.call("config", "get", "verify.require.paths", "--json").out) == ["**"]


@pytest.mark.parametrize(
    ("key", "words"), [("run.max_step", "did you mean max_steps"), ("zebra", "known here"), ("a b", "no key")]
)
def test_a_key_that_is_not_known(world: World, key: str, words: str) -> None:
    """It is named with the nearest one."""
    answer = world.call("config", "get", key)
    assert (answer.exit, code(answer)) == (1, "CONFIG_INVALID")
    assert words in answer.err


def test_a_setting_is_changed_and_comments_stay(world: World) -> None:
    """The second time nothing moves."""
    path = world.write(PATH, TEXT)
    assert world.call("config", "set", "run.max_steps", "12").out == "run.max_steps = 12\n"
    assert path.read_text() == TEXT.replace("= 9", "= 12")
    again = world.call("config", "set", "run.max_steps", "12", "--json")
    assert again.json == {"key": "run.max_steps", "value": 12, "changed": False}
    path.unlink()
    assert world.call("config", "set", 'flow."src/**"', "full").exit == 0
    assert path.read_text() == '[flow]\n"src/**" = "full"\n'


@pytest.mark.parametrize("text", [TEXT, "[run\n", "[run]\nmax_step = 1\n"])
def test_a_bad_value_leaves_the_bytes(world: World, text: str) -> None:
    """Also in a file that was bad before."""
    path = world.write(PATH, text)
    answer = world.call("config", "set", "run.max_steps", "none")
    assert (answer.exit, code(answer)) == (1, "CONFIG_INVALID")
    assert path.read_text() == text


def test_more_digits_write_the_short_ids_anew(world: World) -> None:
    """A registry has keys of one length; fewer digits than are needed are refused."""
    for _ in range(10):
        world.call("task", "create", "--title", "one")
    assert world.call("config", "set", "task.short_id_length", "3").exit == 0
    assert world.call("task", "show", "7").exit == 0
    assert world.call("task", "ls").out.splitlines()[1].startswith("001")
    answer = world.call("config", "set", "task.short_id_length", "1")
    assert (answer.exit, code(answer)) == (1, "SHORT_ID_CAPACITY_EXCEEDED")
    world.write(PATH, "[task]\nshort_id_length = 4\n")
    assert code(world.call("task", "show", "7")) == "SHORT_ID_REGISTRY_INVALID_SCHEMA"
    assert world.call("config", "set", "task.short_id_length", "4").exit == 0
    assert world.call("task", "show", "7").exit == 0


def test_the_schema_knows_every_section(world: World) -> None:
    """A JSON Schema that refuses unknown keys."""
    schema = json.loads(world.call("config", "schema").out)
    assert {"snapshot", "run", "verify", "flow", "engines"} <= schema["properties"].keys()
    assert schema["additionalProperties"] is False


# -- how much process --------------------------------------------------------------------------------------------------


def test_a_demand_on_every_path_is_asked_at_begin(world: World) -> None:
    """Nothing is begun, and the command that helps is named."""
    world.write(PATH, '[flow]\n"**" = "full"\n')
    world.task(extra="flow: standard\n")
    answer = world.refused("ORCHESTRATION_FLOW_INSUFFICIENT", "begin")
    assert f"begin {TASK} --flow full" in answer.message
    assert world.ok("begin", "--flow", "full")["run"]["flow"] == "full"


def test_a_demand_on_some_paths_is_asked_before_the_commit(world: World) -> None:
    """`begin` warns; `prepare` names path and least flow; the way that is named leads to the commit."""
    world.write(PATH, '[flow]\n"src/**" = "standard"\n')
    world.call("init", "--yes")
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "settings")
    begun = world.begun("--flow", "streamlined")
    assert "src/** (standard)" in begun.notes
    world.write(PATH, '[flow]\n"src/**" = "streamlined"\n')  # a run goes by the settings of its begin
    world.to("commit")
    shown = world.call("task", "status", TASK, "--json")
    assert "ORCHESTRATION_FLOW_INSUFFICIENT" in shown["gate"]["why"][0]
    answer = world.refused("ORCHESTRATION_FLOW_INSUFFICIENT", "prepare", "--client", "claude-code")
    assert "src/app.py needs the standard flow" in answer.message
    world.git("checkout", "-q", PATH)
    world.ok("end", "--reason", "more process")
    world.ok("begin", "--flow", "standard", "--from-head")
    world.to("commit")
    assert world.prepare()["stage"] == "commit"


@pytest.mark.parametrize(("flow", "words"), [("full", ""), ("streamlined", "leaves out the plan")])
def test_what_a_flow_leaves_out_is_told(world: World, flow: str, words: str) -> None:
    """To the child in its brief, and in every status."""
    world.begun("--flow", flow)
    world.prepare()
    brief = world.call("orchestrate", "brief", TASK, "--text").out
    said = [brief, world.ok("status").notes, world.call("task", "status", TASK).out]
    assert all(("leaves out" in text) == bool(words) and words in text for text in said)
