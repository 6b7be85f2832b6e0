"""Records: plain JSON that any later process can read, and replay."""

import json
from typing import Any

import pytest

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.core.record import RECORD_VERSION, Record, decode_record, encode_record
from foldahead.core.replay import replay
from foldahead.errors import UnusableRecord
from tests.histories import rounds, user

SPAN: dict[str, Any] = {"kind": "swapped", "start": 0, "end": 5, "head_start": "00", "head_end": "ff"}


def test_a_record_comes_back_from_json_as_it_was() -> None:
    record = Record(**SPAN, cache_key="k", message=user("hi"), created_at_ms=12)
    assert decode_record(encode_record(record)) == record
    assert json.loads(encode_record(record))["v"] == RECORD_VERSION


def test_the_keys_of_a_message_keep_their_order() -> None:
    record = Record(**SPAN, message={"role": "user", "content": [{"type": "text", "text": "a"}]})
    assert b'{"role":"user","content":[{"type":"text","text":"a"}]}' in encode_record(record)
    assert encode_record(decode_record(encode_record(record))) == encode_record(record)


def test_a_record_of_a_newer_version_is_refused_in_words() -> None:
    newer = json.dumps({"v": 99, **SPAN})
    with pytest.raises(UnusableRecord, match="record of version 99: this foldahead reads up to 1, upgrade it"):
        decode_record(newer)


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"v": 1, "kind": "dreamt"}', b"\xff\xfe"])
def test_a_damaged_record_is_refused_in_words(damaged: bytes) -> None:
    with pytest.raises(UnusableRecord, match="not a record"):
        decode_record(damaged)


def test_a_record_that_utf8_cannot_hold_is_written_all_the_same() -> None:
    record = Record(**SPAN, message=user("half \ud83d"))
    assert decode_record(encode_record(record)).message == user("half \ufffdd83d")


def test_when_a_record_was_made_is_no_part_of_what_it_says() -> None:
    assert Record(**SPAN, created_at_ms=1).identity == Record(**SPAN, created_at_ms=2).identity


def test_records_and_history_give_the_view_byte_for_byte_in_another_process() -> None:
    policy = Policy(threshold_tokens=100, hard_cap_tokens=400, preserve_recent_turns=1)
    history = rounds(8)
    conversation = Conversation(get_dialect("anthropic"), policy)
    view = conversation.view(history, Moment(now_ms=5))
    assert view is not history
    records = [decode_record(encode_record(record)) for record in conversation.records]
    assert json.dumps(replay(rounds(8), records, get_dialect("anthropic"))) == json.dumps(view)


def test_records_of_another_history_replay_to_the_history_itself() -> None:
    history = rounds(2)
    assert replay(history, [Record(**SPAN, message=user("x"))], get_dialect("anthropic")) is history
