"""Whatever comes in from outside is read or refused in words: files, wire structs, records, policies, events."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldahead import wire
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from foldahead.core.policy import Policy, policy_from
from foldahead.core.record import Record, RecordKind, decode_record, encode_record
from foldahead.core.replay import replay
from foldahead.errors import FoldaheadError, InvalidHistory, InvalidPolicy, UnusableRecord
from foldahead_worker.importers import UnreadableFile, load
from tests.histories import Spoken, conversations

words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["role", "content", "user", "assistant", "tool", "type", "text", "tool_use", "tool_result", "id"]),
    st.sampled_from(["messages", "sessions", "uuid", "parentUuid", "message", "tool_calls", "function", "arguments"]),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=20,
)
RECORD_KINDS: tuple[RecordKind, ...] = get_args(RecordKind)
KINDS: tuple[Any, ...] = (wire.Standing, wire.Answer, wire.Ready, wire.Delta, wire.Offer)


@st.composite
def mutilated(draw: Any, good: bytes) -> bytes:
    """Good bytes with something done to them: cut, bytes changed, a piece taken out or doubled."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["cut", "change", "take", "double"])):
            case "cut":
                del data[at:]
            case "change" if data:
                data[at] = draw(st.integers(0, 255))
            case "take":
                del data[at : at + draw(st.integers(1, 30))]
            case _:
                data[at:at] = data[at : at + draw(st.integers(1, 30))]
    return bytes(data)


def read_file(path: Path, data: bytes) -> None:
    """The importer's answer: sessions, or one line that says what is wrong."""
    path.write_bytes(data)
    said = "read"
    try:
        for session in load(path).sessions:
            ledger_of(session.messages, get_dialect(session.dialect))
    except (UnreadableFile, InvalidHistory) as refused:
        said = str(refused)
    assert said
    assert "\n" not in said


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "session.json"


@given(data=st.one_of(st.binary(max_size=200), values.map(lambda value: json.dumps(value).encode("utf8"))))
def test_any_file_is_read_or_refused_in_one_line(file: Path, data: bytes) -> None:
    read_file(file, data)


@given(spoken=conversations(most_turns=3), data=st.data(), as_lines=st.booleans())
def test_a_damaged_session_file_is_read_or_refused_in_one_line(
    file: Path, spoken: Spoken, data: st.DataObject, as_lines: bool
) -> None:
    good = "\n".join(map(json.dumps, spoken.messages)) if as_lines else json.dumps(spoken.messages)
    read_file(file, data.draw(mutilated(good.encode())))


@given(lines=st.lists(st.dictionaries(words, values, max_size=5), max_size=5))
def test_any_log_of_lines_is_read_or_refused_in_one_line(file: Path, lines: list[Any]) -> None:
    read_file(file, "\n".join(map(json.dumps, lines)).encode())


@given(data=st.binary(max_size=200), kind=st.sampled_from(KINDS))
def test_any_bytes_from_the_wire_are_read_or_refused(data: bytes, kind: Any) -> None:
    with suppress(UnusableRecord):
        wire.decode(data, kind)


@given(data=st.data())
def test_a_damaged_standing_is_read_or_refused(data: st.DataObject) -> None:
    standing = wire.Standing(
        dialect="anthropic",
        policy=Policy(),
        messages=3,
        head=b"h" * 32,
        turns=1,
        turn_id="1",
        pending_tokens=1,
        prefix_tokens=1,
        tail_tokens=1,
        growth_tokens=1.0,
        interval_s=1.0,
    )
    damaged = data.draw(mutilated(wire.encode(standing)))
    with suppress(UnusableRecord):
        wire.decode(damaged, wire.Standing)


@given(data=st.one_of(st.binary(max_size=200), values.map(lambda value: json.dumps(value).encode("utf8"))))
def test_any_bytes_for_a_record_are_read_or_refused(data: bytes) -> None:
    with suppress(UnusableRecord):
        decode_record(data)


@given(spoken=conversations(most_turns=4), data=st.data())
def test_a_record_that_lies_gives_a_view_or_is_refused_and_leaves_the_history(
    spoken: Spoken, data: st.DataObject
) -> None:
    """Heads are right, everything else is whatever somebody wrote."""
    dialect = get_dialect(spoken.dialect)
    heads = ledger_of(spoken.messages, dialect).heads
    start = data.draw(st.integers(0, len(spoken.messages) - 1))
    end = data.draw(st.integers(start + 1, len(spoken.messages)))
    record = Record(
        kind=data.draw(st.sampled_from(RECORD_KINDS)),
        start=start,
        end=end,
        head_start=heads[start].hex(),
        head_end=heads[end].hex(),
        message=data.draw(st.one_of(st.none(), values, st.sampled_from(spoken.messages))),
        stubs=data.draw(st.one_of(st.none(), st.dictionaries(st.one_of(st.just("1"), words), words, max_size=2))),
        reason=data.draw(st.one_of(st.none(), words)),
    )
    before = json.dumps(spoken.messages)
    with suppress(FoldaheadError):
        replay(spoken.messages, [decode_record(encode_record(record))], dialect)
    assert json.dumps(spoken.messages) == before


@given(given_values=st.dictionaries(st.one_of(words, st.sampled_from(Policy.__struct_fields__)), values, max_size=4))
def test_any_policy_values_are_taken_or_refused_in_words(given_values: dict[str, Any]) -> None:
    with suppress(InvalidPolicy):
        policy = policy_from(given_values)
        published = msgspec.structs.replace(policy, pinned=())  # pins stay with the agent
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(published), type=Policy) == published


@given(history=st.lists(values, max_size=4), dialect=st.sampled_from(["anthropic", "openai"]))
def test_any_history_is_taken_or_refused_with_the_place(history: list[Any], dialect: str) -> None:
    said = "messages[0]"
    try:
        ledger_of(history, get_dialect(dialect))
    except InvalidHistory as refused:
        said = str(refused)
    assert "messages[" in said
