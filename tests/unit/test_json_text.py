"""Edits of JSON text that leave every other byte alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_infra.core.json_text import JsonTextError, appended, line_of, parse, replaced, without

LAYOUTS = [
    pytest.param("{}", id="an empty object"),
    pytest.param("{}\n", id="an empty object and a line end"),
    pytest.param('{"a": 1}', id="one line"),
    pytest.param('{"a":1,"b":[]}', id="no blanks"),
    pytest.param('{\n  "a": 1\n}\n', id="two blanks"),
    pytest.param('{\n\t"a": [\n\t\t1\n\t]\n}\n', id="tabs"),
    pytest.param('{\r\n    "a": 1\r\n}\r\n', id="CRLF"),
    pytest.param('\ufeff{\n  "a": 1\n}', id="BOM, no line end"),
    pytest.param('{ "a" : [ 1 ,2 ] }', id="odd blanks"),
    pytest.param('{"a": 1,\n "b": 2}', id="several lines, the first not alone"),
    pytest.param('{\n  "ключ": "\\u00e9\\"]}",\n  "b": {}\n}\n', id="escapes and other letters"),
]


@pytest.mark.parametrize("text", LAYOUTS)
@pytest.mark.parametrize("value", [pytest.param({"x": ["y", {"z": 1}]}, id="nested"), pytest.param([], id="empty")])
def test_what_is_put_in_and_taken_out_leaves_no_trace(text: str, value: object) -> None:
    """The new member is the last one, the others keep their order; without it the bytes are those of before."""
    more = appended(text, parse(text), value, key="new")
    said = json.loads(more.removeprefix("\ufeff"))
    assert said == json.loads(text.removeprefix("\ufeff")) | {"new": value}
    assert list(said)[-1] == "new"
    root = parse(more)
    item = root.get("new")
    assert item
    assert without(more, root, item) == text
    assert text.count("\r\n") == 0 or "\n" not in more.replace("\r\n", "")


def test_new_entries_look_like_those_beside_them() -> None:
    """In a line where the others are in a line, else on lines of their own with the same indent."""
    text = '{\n    "a": [1, 2],\n    "b": [\n        1\n    ]\n}'
    root = parse(text)
    in_line, on_lines = root.get("a"), root.get("b")
    assert in_line
    assert on_lines
    assert '"a": [1, 2, {"k": 3}],' in appended(text, in_line, {"k": 3})
    assert appended(text, on_lines, {"k": 3}).endswith(
        "        1,\n        {\n" + " " * 12 + '"k": 3\n        }\n    ]\n}'
    )


def test_a_value_is_exchanged_where_it_stands() -> None:
    text = '{\n  "a": [\n    1,\n    {"b": 2}\n  ]\n}'
    entry = parse(text).get("a")
    assert entry
    assert entry.items
    assert json.loads(replaced(text, entry.items[1], {"c": 3})) == {"a": [1, {"c": 3}]}
    assert replaced(text, entry.items[1], {"c": 3}).startswith('{\n  "a": [\n    1,\n    {')


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        pytest.param("", 1, "not JSON", id="empty"),
        pytest.param('{\n  "a": 1,\n}', 3, "not JSON", id="a comma too many"),
        pytest.param('// c\n{"a": 1}', 1, "not JSON", id="a comment"),
        pytest.param('{\n"a": NaN}', 2, "NaN", id="NaN"),
        pytest.param('{\n"a": 1,\n"a": 2}', 3, "occurs twice", id="a key twice"),
        pytest.param("[" * 100_000, 1, "JSON|deeply", id="nested too deeply"),
        pytest.param("[" * 900 + "]" * 900, 1, "deeply", id="nested too deeply for us"),
    ],
)
def test_what_is_no_json_is_named_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(JsonTextError, match=says) as caught:
        parse(text)
    assert caught.value.line == line


def test_a_value_knows_its_line() -> None:
    text = '{\n  "a": 1,\n  "b":\n    []\n}'
    entry = parse(text).get("b")
    assert entry
    assert line_of(text, entry) == 4


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(_JSON, st.sampled_from([None, 0, 2, "\t"]))
def test_positions_and_values_agree(value: object, indent: int | str | None) -> None:
    """Whatever the value and the layout, each node's text is its value."""
    text = json.dumps(value, indent=indent)
    root = parse(text)
    assert root.value == value
    pending = [root]
    while pending:
        node = pending.pop()
        assert json.loads(text[node.open : node.end]) == node.value
        pending.extend(node.items or ())
