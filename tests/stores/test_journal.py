"""The journal: a chain of lines that can be appended to, cut when torn, and not be edited unseen."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from agent_infra.stores.journal import GENESIS, Chain, Event, Journal, parse_chain, render_line

NOW = "2026-01-01T12:00:00.000Z"
EVENTS = (Event("begin", run={"runId": "r"}), Event("note", facts={"a": "ä"}), Event("advance", close=True))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal of three lines."""
    made = Journal(tmp_path / "runs" / "TASK" / "journal.jsonl")
    chain = Chain()
    for event in EVENTS:
        line, longer = chain.extended(event, now=NOW)
        made.append(chain, line)
        chain = longer
    return made


def test_a_line_is_canonical() -> None:
    """Sorted keys, no blanks, UTF-8 as it is, only the parts that say something, one newline."""
    event = Event("note", run={}, memo={"b": 1, "a": "ä"}, close=True)
    assert (
        render_line(event, seq=2, prev="0" * 64, now=NOW)
        == (
            '{"close":true,"memo":{"a":"ä","b":1},"op":"note","prev":"' + "0" * 64 + f'","seq":2,"ts":"{NOW}","v":1}}\n'
        ).encode()
    )


def test_a_line_with_a_line_break_stays_one_line(tmp_path: Path) -> None:
    """Whatever a text holds, it is no new line of the journal."""
    made = Journal(tmp_path / "journal.jsonl")
    line, longer = Chain().extended(Event("note", facts={"reason": 'a\nb\r\u2028"x"'}), now=NOW)
    made.append(Chain(), line)
    assert made.read() == longer
    assert longer.events[0]["facts"] == {"reason": 'a\nb\r\u2028"x"'}


def test_numbers_that_json_has_not() -> None:
    """Nothing that another program could not read gets into the journal."""
    with pytest.raises(ValueError, match="JSON"):
        Chain().extended(Event("note", facts={"usage": float("nan")}), now=NOW)


def test_lines_are_chained(journal: Journal) -> None:
    """Each names its number and the digest of the line before; what is read is what appending promised."""
    lines = journal.path.read_bytes().splitlines()
    digests = [hashlib.sha256(line).hexdigest() for line in lines]
    parsed = [json.loads(line) for line in lines]
    assert [event["seq"] for event in parsed] == [1, 2, 3]
    assert [event["prev"] for event in parsed] == [GENESIS, *digests[:2]]
    chain = journal.read()
    assert chain is not None
    assert chain.events == tuple(parsed)
    assert chain.heads == tuple(digests)
    assert (chain.head, chain.size, chain.torn) == (digests[-1], journal.path.stat().st_size, False)


def test_no_journal_is_none(tmp_path: Path) -> None:
    """No file is no chain; an empty one is an empty chain; neither has lines."""
    path = tmp_path / "journal.jsonl"
    assert Journal(path).read() is None
    assert not Journal(path).has_lines()
    path.write_bytes(b"")
    assert Journal(path).read() == Chain()
    assert not Journal(path).has_lines()
    assert Chain().head == GENESIS


@pytest.mark.parametrize("kept", [1, 40, 10_000], ids=["one byte", "some bytes", "all but the newline"])
def test_a_torn_last_line_is_cut_at_the_next_append(journal: Journal, kept: int) -> None:
    """It never happened: reading leaves it alone, the next event takes its place."""
    whole = journal.path.read_bytes()
    line, _ = parse_chain(whole).extended(Event("torn", facts={"x": "y" * 50}), now=NOW)
    journal.path.write_bytes(whole + line[:-1][:kept])
    chain = journal.read()
    assert chain is not None
    assert (len(chain.events), chain.torn, chain.size) == (3, True, len(whole))
    assert journal.path.read_bytes() == whole + line[:-1][:kept]
    again, longer = chain.extended(Event("note"), now=NOW)
    journal.append(chain, again)
    assert journal.read() == longer
    assert journal.path.read_bytes() == whole + again


def test_a_journal_of_one_torn_line_has_no_events(tmp_path: Path) -> None:
    """A begin that was cut never happened."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.path.write_bytes(b'{"v":1')
    assert journal.read() == Chain(torn=True)
    assert journal.has_lines()


def lines_of(change: Callable[[list[bytes]], object]) -> Callable[[bytes], bytes]:
    """A change of the list of lines, in place."""

    def changed(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        change(lines)
        return b"".join(lines)

    return changed


def fields(number: int, **changes: object) -> Callable[[bytes], bytes]:
    """A change of fields of one line, which is still canonical JSON."""

    def change(lines: list[bytes]) -> None:
        event = json.loads(lines[number - 1]) | changes
        text = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        lines[number - 1] = text.encode() + b"\n"

    return lines_of(change)


def swap(lines: list[bytes]) -> None:
    lines[1], lines[2] = lines[2], lines[1]


@pytest.mark.parametrize(
    ("damage", "line", "words"),
    [
        pytest.param(fields(1, run={"runId": "x"}), 2, "does not follow", id="a line was edited"),
        pytest.param(fields(2, ts="2026-01-02T00:00:00.000Z"), 3, "does not follow", id="a time was edited"),
        pytest.param(lambda data: data.replace(b'"op":"begin"', b'"op": "begin"'), 2, "follow", id="a blank was added"),
        pytest.param(lines_of(lambda lines: lines.pop(0)), 1, "does not follow", id="the first line was cut"),
        pytest.param(lines_of(lambda lines: lines.pop(1)), 2, "does not follow", id="a line was cut out"),
        pytest.param(lines_of(lambda lines: lines.insert(1, lines[0])), 2, "follow", id="a line was doubled"),
        pytest.param(lines_of(lambda lines: lines.append(lines[2])), 4, "follow", id="the last line was doubled"),
        pytest.param(lines_of(swap), 2, "does not follow", id="lines were swapped"),
        pytest.param(lines_of(lambda lines: lines.insert(1, b"\n")), 2, "not JSON", id="an empty line"),
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), 2, "follow", id="other line ends"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, 2, "follow", id="a byte order mark"),
        pytest.param(lambda data: data + b"{'op'}\n", 4, "not JSON", id="no JSON"),
        pytest.param(lambda data: data + b"\xff\xfe\n", 4, "not JSON", id="no UTF-8"),
        pytest.param(lambda data: data + b"[" * 100_000 + b"\n", 4, "not JSON", id="nested without end"),
        pytest.param(lambda data: data + b"9" * 10_000 + b"\n", 4, "not JSON", id="a number without end"),
        pytest.param(lambda data: data + b"[]\n", 4, "version is None", id="no object"),
        pytest.param(fields(1, v=2), 1, "version is 2, expected 1", id="a newer version"),
        pytest.param(fields(3, v=None), 3, "version is None", id="no version"),
        pytest.param(fields(3, op=None), 3, "no operation or no time", id="no operation"),
        pytest.param(fields(3, ts=7), 3, "no operation or no time", id="no time"),
        pytest.param(fields(3, run=[]), 3, "not an object", id="a run that is no object"),
        pytest.param(fields(3, receipt="x"), 3, "not an object", id="a receipt that is no object"),
        pytest.param(fields(3, memo=None), 3, "not an object", id="a memory that is no object"),
        pytest.param(fields(3, facts=1), 3, "not an object", id="facts that are no object"),
        pytest.param(fields(3, colour="red"), 3, "unknown keys colour", id="an unknown key"),
        pytest.param(fields(3, close="yes"), 3, "not true", id="a close that is no boolean"),
        pytest.param(fields(1, seq=True), 1, "does not follow", id="a number that is none"),
    ],
)
def test_any_other_damage_is_named_and_left(
    journal: Journal, damage: Callable[[bytes], bytes], line: int, words: str
) -> None:
    """The first bad line is named by its number, and not a byte is touched."""
    data = damage(journal.path.read_bytes())
    journal.path.write_bytes(data)
    with pytest.raises(CorruptStateError, match=f"line {line} of the journal is not valid: .*{words}") as caught:
        journal.read()
    assert caught.value.code is ErrorCode.ORCHESTRATION_JOURNAL_INVALID
    assert "orchestrate repair" in caught.value.message
    assert journal.path.read_bytes() == data


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda path: path.mkdir(), "is a folder", id="folder"),
        pytest.param(os.mkfifo, "is not a regular file", id="FIFO"),
        pytest.param(lambda path: path.symlink_to("elsewhere"), "is a symlink", id="symlink"),
    ],
)
def test_only_a_file_is_a_journal(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    """Nothing else is read, waited for or followed."""
    make(tmp_path / "journal.jsonl")
    with pytest.raises(CorruptStateError, match=words) as caught:
        Journal(tmp_path / "journal.jsonl").read()
    assert caught.value.code is ErrorCode.ORCHESTRATION_JOURNAL_INVALID


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    """What lies in the journal's place stays there."""
    (tmp_path / "journal.jsonl").mkdir()
    journal = Journal(tmp_path / "journal.jsonl")
    line, _ = Chain().extended(Event("begin"), now=NOW)
    with pytest.raises(RefusedError):
        journal.append(Chain(), line)


def test_an_append_that_fails_leaves_the_chain(journal: Journal, frozen: Callable[[Path], None]) -> None:
    """A journal that can't be written is refused and read as before."""
    before = journal.read()
    assert before is not None
    frozen(journal.path)
    line, _ = before.extended(Event("note"), now=NOW)
    with pytest.raises(RefusedError) as caught:
        journal.append(before, line)
    assert caught.value.code is ErrorCode.STORE_WRITE_FAILED
    assert journal.read() == before
