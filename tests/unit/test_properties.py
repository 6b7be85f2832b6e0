"""Promises about every history: valid, replayable, shrinking, nothing lost and nothing twice."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import bodies_of, ledger_of
from foldahead.core.policy import Policy
from foldahead.core.record import decode_record, encode_record
from foldahead.core.replay import replay
from foldahead.oneshot import compact
from tests.fleet import Process, Shelf, as_json, check_validity, copied, summary_for
from tests.histories import Spoken, broken_conversations, conversations


@st.composite
def policies(
    draw: Any,
    thresholds: tuple[int, ...] = (1, 60, 200, 600, 1_500),
    ratios: tuple[float, ...] = (0.3, 0.7, 1.0),
    starts: tuple[float, ...] = (0.3, 0.6, 1.0),
) -> Policy:
    threshold = draw(st.sampled_from(thresholds))
    return Policy(
        threshold_tokens=threshold,
        hard_cap_tokens=threshold * draw(st.sampled_from([2, 3, 8])) + 1,
        preserve_recent_turns=draw(st.integers(0, 4)),
        preserve_recent_tokens=draw(st.sampled_from([0, 100, 800, 20_000])),
        target_ratio=draw(st.sampled_from(ratios)),
        start_ratio=draw(st.sampled_from(starts)),
        min_span_tokens=1,
        on_hard_cap=draw(st.sampled_from(["extract", "truncate", "unchanged"])),
        tail_thinking=draw(st.sampled_from(["auto", "strip", "keep"])),
        age_observations=draw(st.booleans()),
        age_min_chars=draw(st.sampled_from([0, 100, 500])),
        age_reclaim_min=draw(st.sampled_from([0, 300, 2_000])),
        resummarise=draw(st.booleans()),
        pinned=draw(st.sampled_from([(), (0,), (1, 4), (3, 5, 6)])),
    )


@given(conversations(), policies(), st.sampled_from(["rules", "short", "long", "empty"]), st.booleans())
def test_one_compaction_gives_a_valid_view_that_replays(
    spoken: Spoken, policy: Policy, answer: str, force: bool
) -> None:
    texts = {"short": "They talked about files.", "long": "word " * 4_000, "empty": ""}
    summarize = None if answer == "rules" else lambda prompt: texts[answer]
    history = spoken.messages
    before = as_json(history)
    compaction = compact(history, policy, spoken.dialect, summarize, force=force)
    assert as_json(history) == before
    check_validity(history, compaction.messages, spoken.dialect, broken=False)
    records = [decode_record(encode_record(record)) for record in compaction.records]
    assert as_json(replay(copied(history), records, get_dialect(spoken.dialect))) == as_json(compaction.messages)
    if compaction.outcome != "unchanged":
        assert compaction.tokens_after < compaction.tokens_before
    again = compact(compaction.messages, policy, spoken.dialect, summarize, force=force)
    assert again.outcome == "unchanged" or again.tokens_after < again.tokens_before


@given(broken_conversations(), policies(), st.booleans())
def test_what_came_in_broken_is_mended_or_left_and_never_made_worse(
    spoken: Spoken, policy: Policy, force: bool
) -> None:
    history = spoken.messages
    compaction = compact(history, policy, spoken.dialect, force=force)
    check_validity(history, compaction.messages, spoken.dialect, broken=True)
    records = [decode_record(encode_record(record)) for record in compaction.records]
    assert as_json(replay(copied(history), records, get_dialect(spoken.dialect))) == as_json(compaction.messages)


@given(broken_conversations(), policies(), st.data())
def test_a_history_that_breaks_as_it_grows_is_never_made_worse(
    spoken: Spoken, policy: Policy, data: st.DataObject
) -> None:
    process = Process(spoken.dialect, policy, Shelf())
    for length in range(1, len(spoken.messages) + 1):
        if data.draw(st.booleans()):
            process.view(spoken.messages[:length], Moment(), broken=True)


@given(conversations(), policies(), st.data())
def test_a_session_compacted_ahead_keeps_every_promise(spoken: Spoken, policy: Policy, data: st.DataObject) -> None:
    shelf = Shelf()
    process = Process(spoken.dialect, policy, shelf)
    words = data.draw(st.sampled_from([3, 30, 300]))
    for length in spoken.requests:
        history = spoken.messages[:length]
        process.view(history, Moment(cold=data.draw(st.booleans())))
        request = process.ask(history)
        if request is not None and data.draw(st.booleans()):
            process.conversation.add_ready(summary_for(history, request, spoken.dialect, words))


@given(conversations(), policies(), st.integers(1, 3_000))
def test_a_callers_room_is_met_or_said_to_be_exhausted(spoken: Spoken, policy: Policy, room: int) -> None:
    def counter(messages: list[Any]) -> int:
        return len(json.dumps(messages)) // 3

    history = spoken.messages
    compaction = compact(history, policy, spoken.dialect, target_tokens=room, counter=counter)
    check_validity(history, compaction.messages, spoken.dialect, broken=False)
    assert compaction.tokens_before == counter(history)
    assert compaction.tokens_after == counter(compaction.messages)
    assert compaction.exhausted == (compaction.tokens_after > room)


@given(conversations())
def test_identity_counts_ids_by_position_and_ignores_breakpoints(spoken: Spoken) -> None:
    dialect = get_dialect(spoken.dialect)
    renamed = json.loads(as_json(spoken.messages).replace('"call_', '"toolu_').replace('"srv_', '"other_'))
    for message in renamed:
        if spoken.dialect == "anthropic" and isinstance(message["content"], list):
            message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    assert ledger_of(renamed, dialect).heads == ledger_of(spoken.messages, dialect).heads


@given(broken_conversations(), st.data())
def test_bodies_are_the_same_whatever_index_they_are_asked_from(spoken: Spoken, data: st.DataObject) -> None:
    ledger = ledger_of(spoken.messages, get_dialect(spoken.dialect))
    whole = bodies_of(spoken.messages, ledger, 0, len(ledger))
    assert len(whole) == len(spoken.messages)
    start = data.draw(st.integers(0, len(ledger) - 1))
    assert bodies_of(spoken.messages, ledger, start, len(ledger)) == whole[start:]


@given(broken_conversations(), st.data())
def test_a_history_read_in_any_pieces_has_the_same_account(spoken: Spoken, data: st.DataObject) -> None:
    dialect = get_dialect(spoken.dialect)
    conversation = Conversation(dialect, Policy())
    for length in sorted(data.draw(st.lists(st.integers(1, len(spoken.messages)), max_size=4))):
        conversation.observe(spoken.messages[:length])
    conversation.observe(copied(spoken.messages))
    whole, pieces = ledger_of(spoken.messages, dialect), conversation.ledger
    assert (pieces.heads, pieces.faults, pieces.tokens) == (whole.heads, whole.faults, whole.tokens)
