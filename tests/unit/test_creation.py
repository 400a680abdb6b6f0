"""What is said about a new task, and the document that it becomes."""

import json

import pytest

from agent_infra.core.creation import Birth, TaskInput, Wish, check_wish, parse_candidate, render_wish
from agent_infra.core.lifecycle import Flow
from agent_infra.core.tasks import log_entries, parse_task
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.resources import resource

ID = "TASK-20260101-120000"
BIRTH = Birth(ID, "2026-01-01 12:00:00+00:00", "v0.1.0", "fix/sum")
KEY = "3f0d6c1e-9b1a-4c7e-8d2f-0123456789ab"
TEMPLATE = resource("templates", "task.md").read_text(encoding="utf-8")


def code_of(wish: Wish, template: str = TEMPLATE) -> ErrorCode:
    with pytest.raises(RefusedError) as caught:
        render_wish(template, wish, BIRTH)
    return caught.value.code


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"{", "not JSON", id="no JSON"),
        pytest.param(b"\xff", "not JSON", id="no UTF-8"),
        pytest.param(b"[]", "candidate", id="a list"),
        pytest.param(b'{"version": 1, "version": 1}', "twice", id="a key twice"),
        pytest.param(b'{"version": 1}', "is missing", id="keys that are missing"),
        pytest.param(b"[" * 200_000, "not JSON", id="nested too deep"),
    ],
)
def test_json_that_is_no_candidate(data: bytes, words: str) -> None:
    """The fault is named."""
    with pytest.raises(RefusedError, match=words) as caught:
        parse_candidate(data)
    assert caught.value.code is ErrorCode.TASK_CREATE_PAYLOAD_INVALID


def test_a_candidate_may_name_more() -> None:
    """Flow and delivery target; what is left out has its default."""
    said = {
        "version": 1,
        "idempotencyKey": KEY,
        "agent": "human",
        "title": "t",
        "type": "chore",
        "branchSlug": "two-words",
        "priority": "Low",
        "effort": "Low",
        "description": "",
        "taskInput": {},
        "deliveryRemote": "up",
        "deliveryBaseRef": "release/1",
        "flow": "standard",
    }
    wish = parse_candidate(json.dumps(said).encode())
    assert (wish.flow, wish.delivery_remote, wish.delivery_base_ref, wish.slug) == (
        Flow.STANDARD,
        "up",
        "release/1",
        "two-words",
    )
    assert wish.inputs == TaskInput()


def test_the_digest_is_that_of_the_words_and_the_key_is_kept_beside() -> None:
    """Equal words have equal digests; each other word changes it, the key does not."""
    wish = Wish("a", key=KEY)
    assert wish.digest == Wish("a").digest
    assert wish.key_digest == Wish("b", key=KEY.upper()).key_digest
    others = [Wish("b"), Wish("a", type="docs"), Wish("a", branch=""), Wish("a", inputs=TaskInput(facts=("x",)))]
    assert len({wish.digest, *(other.digest for other in others)}) == 5
    fields = parse_task(render_wish(TEMPLATE, wish, BIRTH), ID).fields
    assert (fields["task_create_key_digest"], fields["task_create_candidate_digest"]) == (wish.key_digest, wish.digest)


def test_what_is_said_stands_where_it_belongs() -> None:
    """Fields, lists, the agent in the log; words can't open sections, fences or rows of their own."""
    inputs = TaskInput(facts=("## no heading", "``` no fence"), open_questions=("  spaced   out  ",))
    wish = Wish("  The   title ", description="```\n## Activity Log\n- x", agent="codex", inputs=inputs)
    data = render_wish(TEMPLATE, wish, BIRTH)
    found = parse_task(data, ID)
    assert (found.title, found.fields["assigned_to"], found.fields["branch"]) == ("The title", "codex", "fix/sum")
    assert [(entry.step, entry.agent) for entry in log_entries(data)] == [("Create Task", "codex")]
    assert b"### Confirmed Facts and Evidence\n\n- ## no heading\n- ``` no fence\n\n### Constraints" in data
    assert b"- spaced out\n" in data


def test_short_ids_are_not_written_into_the_document() -> None:
    """They live in the registry alone: two places would drift."""
    assert b"short_id" not in render_wish(TEMPLATE, Wish("a"), BIRTH)


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(Wish(""), id="no title"),
        pytest.param(Wish("a\ud800"), id="half of a character"),
        pytest.param(Wish("a", description="\ud800"), id="half of a character below"),
        pytest.param(Wish("a", description="a\x00b"), id="a zero byte"),
        pytest.param(Wish("a", inputs=TaskInput(facts=("\ud800",))), id="half of a character in a list"),
        pytest.param(Wish("a", inputs=TaskInput(facts=("x",) * 51)), id="too many items"),
        pytest.param(Wish("a", inputs=TaskInput(facts=("é" * 1025,))), id="an item of too many bytes"),
        pytest.param(Wish("a", inputs=TaskInput(facts=(" ",))), id="a blank item"),
    ],
)
def test_words_that_make_no_task(wish: Wish) -> None:
    """Each is refused before anything is made."""
    with pytest.raises(RefusedError) as caught:
        check_wish(wish)
    assert caught.value.code is ErrorCode.TASK_CREATE_PAYLOAD_INVALID


def test_joined_emoji_are_letters() -> None:
    """A title may hold them."""
    check_wish(Wish("for 👩‍💻 and नमस्ते"))


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("no front matter", id="no front matter"),
        pytest.param(TEMPLATE.replace("{{title}}", "{{titel}}"), id="a placeholder that nothing fills"),
        pytest.param(TEMPLATE.replace("### Constraints", ""), id="a heading that is missing"),
        pytest.param(TEMPLATE.replace("## Task Input", "## Other"), id="no task input"),
    ],
)
def test_a_template_that_makes_no_task(template: str) -> None:
    """It is named as such, not the person's words."""
    wish = Wish("a", inputs=TaskInput(constraints=("x",)))
    assert code_of(wish, template) is ErrorCode.TASK_CREATE_TEMPLATE_INVALID


def test_a_chinese_template_is_filled_too() -> None:
    """Its headings are read like the English ones."""
    template = TEMPLATE.replace("## Task Input", "## 任务输入").replace("### Constraints", "### 约束")
    data = render_wish(template, Wish("标题", inputs=TaskInput(constraints=("不",))), BIRTH)
    assert "### 约束\n\n- 不\n" in data.decode()
