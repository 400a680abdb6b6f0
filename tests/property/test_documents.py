"""Documents under any input: an edit changes no byte that it did not mean to, and parsers say no in our words only."""

import contextlib
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_infra.core.artifacts import FAMILIES, ArtifactName, artifact_name, parse_artifact_name
from agent_infra.core.frontmatter import parse_front_matter, render_scalar, set_fields
from agent_infra.core.ledger import parse_ledger
from agent_infra.core.markdown import BOM, read_lines
from agent_infra.core.reviews import parse_review
from agent_infra.core.tasks import (
    ArtifactLink,
    LogEntry,
    log_entries,
    parse_log_line,
    parse_registry,
    parse_task,
    parse_task_ref,
    record_step,
    render_log_line,
    render_registry,
    render_task,
)
from agent_infra.errors import AgentInfraError

QUICK = settings(derandomize=True, deadline=None, max_examples=150)
ID = "TASK-20260101-120000"
AT = "2026-01-01 12:00:00+00:00"

characters = st.characters(exclude_categories=["Cs"])
one_line = st.text(st.one_of(characters, st.sampled_from(" :#'\"&*!|>-[]{}%@`\\~,?")), max_size=20).filter(
    lambda text: "\n" not in text and "\r" not in text
)
keys = st.text(string.ascii_letters + "_", min_size=3, max_size=8).filter(
    lambda key: key.lower() not in {"yes", "off", "true", "false", "null"}
)
comments = st.sampled_from(["# a comment", "", "  ", "#"])
body_text = st.lists(
    st.sampled_from(
        ["# Title", "words", "", "## Design", "```", "~~~", "- item", "---", "| a | b |", "\u2028x\x0b", "a: b"]
    ),
    max_size=12,
)


@st.composite
def documents(draw: st.DrawFn, sections: tuple[str, ...] = ()) -> tuple[bytes, dict[str, str], str]:
    """A document with flat front matter, its fields, and its line end."""
    fields = draw(st.dictionaries(keys, one_line, max_size=5))
    eol = draw(st.sampled_from(["\n", "\r\n"]))
    lines = ["---"]
    for key, value in fields.items():
        lines.extend(draw(st.lists(comments, max_size=1)))
        lines.append(f"{key}: {render_scalar(value)}{draw(st.sampled_from(['', '  # why']))}")
    lines += [*draw(st.lists(comments, max_size=2)), "---", *(sections or draw(body_text))]
    end = draw(st.sampled_from(["", eol]))
    mark = draw(st.sampled_from([b"", BOM]))
    return mark + (eol.join(lines) + end).encode(), fields, eol


@QUICK
@given(st.text(st.one_of(characters, st.sampled_from("\r\n`~# "))))
def test_lines_hold_every_character(text):
    """Reading loses nothing, so that writing the lines again is the same file."""
    lines = read_lines(text)
    assert "".join(line.text + line.eol for line in lines) == text
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))


@QUICK
@given(one_line)
def test_a_scalar_reads_back_as_it_was_meant(value):
    data = f"---\nkey: {render_scalar(value)}\n---\n".encode()
    assert parse_front_matter(data, flat=True).fields == {"key": value}


@QUICK
@given(documents(), st.data())
def test_an_edit_changes_only_its_own_lines(document, data):
    """Every line that holds no touched key is there afterwards, byte for byte and in its order."""
    source, fields, eol = document
    known = st.sampled_from([*sorted(fields), "absent"])
    changes = data.draw(st.dictionaries(st.one_of(known, keys), one_line, max_size=3))
    remove = [name for name in data.draw(st.lists(known, unique=True, max_size=2)) if name not in changes]
    edited = set_fields(source, changes, remove)
    expected = {key: value for key, value in fields.items() if key not in remove} | changes
    assert parse_front_matter(edited, flat=True).fields == expected
    touched = {key for key in {*changes, *remove} if fields.get(key) != changes.get(key)}
    ours = tuple(f"{key}:".encode() for key in touched)
    new = tuple(f"{key}:".encode() for key in touched if key not in fields)
    kept = [line for line in source.split(b"\n") if not line.startswith(ours)]
    left = [line for line in edited.split(b"\n") if not line.startswith(ours)]
    assert left == kept
    assert edited.startswith(BOM) is source.startswith(BOM)
    assert all(line.endswith(b"\r") is (eol == "\r\n") for line in edited.split(b"\n") if line.startswith(new))


@QUICK
@given(documents(), st.data())
def test_an_edit_that_says_the_same_changes_nothing(document, data):
    source, fields, _ = document
    same = data.draw(st.sets(st.sampled_from(sorted(fields)))) if fields else set()
    assert set_fields(source, {key: fields[key] for key in same}) == source


names = st.text(characters, min_size=1, max_size=15).map(lambda text: " ".join(text.split()))
entries = st.builds(LogEntry, at=st.just(AT), step=names, agent=names, note=names)


@QUICK
@given(entries)
def test_a_log_line_reads_back_or_is_not_written(entry):
    with contextlib.suppress(AgentInfraError):
        assert parse_log_line(render_log_line(entry)) == entry


SECTIONS = (
    "# T",
    "## Design",
    "",
    "text",
    "## Activity Log",
    "",
    f"- {AT} — **Create Task** by human — created",
    "",
    "## End",
    "x",
)


@QUICK
@given(
    documents(sections=SECTIONS),
    st.sampled_from(["analysis", "plan", "review-plan"]),
    st.integers(1, 999),
    st.dictionaries(keys, one_line, max_size=2),
)
def test_a_recorded_step_only_adds(document, family, number, changes):
    """Without fields all old bytes stay in their order; twice is once; the log grows by one entry."""
    source, _, _ = document
    link = ArtifactLink(family, number)
    entry = LogEntry(AT, f"Step (Round {number})", "claude", f"done → {link.file}")
    plain = record_step(source, entry, fields={}, link=link)
    added = [line for line in plain.split(b"\n") if line.rstrip(b"\r").endswith((b".md", b".md)"))]
    assert [line for line in plain.split(b"\n") if line not in added] == source.split(b"\n")
    assert len(added) == (2 if family == "plan" else 1)
    recorded = record_step(source, entry, fields=changes, link=link)
    assert recorded == set_fields(plain, changes)
    assert log_entries(recorded) == (*log_entries(source), entry)
    assert record_step(recorded, entry, fields={"other": "x"}, link=link) == recorded


@QUICK
@given(st.integers(1, 4), st.data())
def test_a_registry_reads_back(length, data):
    numbers = data.draw(st.sets(st.integers(1, 10**length - 1), max_size=9))
    ids = {number: f"TASK-20260101-{number:06}" for number in numbers}
    assert parse_registry(render_registry(ids, length), length) == ids


@QUICK
@given(st.sampled_from(FAMILIES), st.integers(1, 999))
def test_an_artifact_name_reads_back(family, number):
    assert parse_artifact_name(artifact_name(family, number)) == ArtifactName(family, number)


@QUICK
@given(st.text(max_size=60), st.text(max_size=200))
def test_a_new_task_is_always_the_task_it_was_meant_to_be(title, description):
    """No title and no description changes the id, the log or the title."""
    template = "---\nid: {{id}}\n---\n# {{title}}\n\n{{description}}\n\n## Activity Log\n"
    with contextlib.suppress(AgentInfraError):
        data = render_task(
            template,
            task_id=ID,
            title=title,
            type="docs",
            created_at=AT,
            version="v0.1.0",
            branch="",
            description=description,
        )
        assert parse_task(data, ID).fields == {"id": ID}
        assert log_entries(data) == ()


pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "---\n", "a: b\n", "a: &x [*x]\n", "id: !!int 1\n", "? x\n", "- ", "\n", "\r\n", "\t", "'", '"\\u12',
                "{", "[", "|", ">", "%YAML 1.1\n", "...\n", "```\n", "~~~\n", "## Review Summary\n",
                "- **Overall Verdict**: Approved\n",
                "- **Findings (AI-actionable)**: 0 blockers, 0 majors, 0 minors\n", "## Review Disagreement Ledger\n",
                "| id | stage | round | severity | status | evidence |\n", "|---|---|---|---|---|---|\n",
                "| CD-1 | code | 1 | minor | closed | x |\n", "| ", "\\", "## Activity Log\n", "<<<<<<< x\n", "# ",
                "**Review Input**: `plan.md`", "plan-r", ".md", "\u0660", "\ufeff", "\x85", "\u2028", "\x00", "\ud800",
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=14,
)  # fmt: skip
texts = pieces.map("".join)
raw = st.one_of(texts.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=60))

PARSERS = [
    pytest.param(lambda data: parse_front_matter(data, flat=True), id="flat front matter"),
    pytest.param(lambda data: parse_front_matter(data, flat=False), id="nested front matter"),
    pytest.param(
        lambda data: parse_front_matter(b"---\n" + data + b"\n---\n", flat=True), id="inside flat front matter"
    ),
    pytest.param(
        lambda data: parse_front_matter(b"---\n" + data + b"\n---\n", flat=False), id="inside nested front matter"
    ),
    pytest.param(lambda data: parse_review(data, "review-plan.md"), id="review"),
    pytest.param(parse_ledger, id="ledger"),
    pytest.param(lambda data: parse_ledger(b"## Review Disagreement Ledger\n" + data), id="inside the ledger"),
    pytest.param(lambda data: parse_task(data, ID), id="task"),
    pytest.param(log_entries, id="log"),
    pytest.param(lambda data: parse_registry(data, 2), id="registry"),
    pytest.param(lambda data: set_fields(data, {"a": "c"}, ["b"]), id="edit"),
]


@pytest.mark.parametrize("parse", PARSERS)
@settings(derandomize=True, deadline=None, max_examples=200)
@given(raw)
def test_bytes_never_raise_anything_but_our_errors(parse, data):
    with contextlib.suppress(AgentInfraError):
        parse(data)


@pytest.mark.parametrize("parse", [parse_task_ref, parse_artifact_name, parse_log_line, render_scalar])
@settings(derandomize=True, deadline=None, max_examples=200)
@given(texts)
def test_text_never_raises_anything_but_our_errors(parse, text):
    with contextlib.suppress(AgentInfraError):
        parse(text)
