"""`native` summaries in core: what a block goes with, what it is given up for, what it leaves valid."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.cut import current_cut
from foldahead.core.dialects import get_dialect
from foldahead.core.envelope import COMPACT_BETA, DROP_BLOCK_BETA, Envelope, envelope_of, request_with
from foldahead.core.ledger import ledger_of
from foldahead.core.native import MOST_GIVEN_UP
from foldahead.core.originals import decode_original, encode_original, is_original, originals_of
from foldahead.core.policy import Policy
from foldahead.core.prompt import compaction_instructions
from foldahead.core.replay import replay
from foldahead.core.standing import Ready
from foldahead.core.tokens import estimate
from foldahead.core.view import Active
from tests.histories import assistant, call, conversations, rounds, system, text, thinking, user
from tests.judging import faults_of

MODEL = "claude-opus-5-5"
END = 17
POLICY = Policy(
    kind="native", threshold_tokens=1_000, hard_cap_tokens=9_000, preserve_recent_turns=1, min_span_tokens=1
)
ANTHROPIC = get_dialect("anthropic")
BLOCK = {"type": "compaction", "content": "They worked.", "encrypted_content": "AAAA", "signature": "x"}


def conversation(policy: Policy = POLICY, *, envelope: str = "e1", model: str = MODEL) -> Conversation:
    talk = Conversation(ANTHROPIC, policy)
    talk.model, talk.envelope = model, envelope
    return talk


def block_for(talk: Conversation, history: list[Any], end: int, **changes: Any) -> Ready:
    talk.observe(history)
    made: dict[str, Any] = {
        "cache_key": f"k{end}",
        "kind": "native",
        "model": f"anthropic:{MODEL}",
        "start": 0,
        "end": end,
        "head_end": talk.ledger.heads[end],
        "text": "They worked.",
        "block": json.dumps(BLOCK).encode(),
        "envelope": "e1",
        "keeps_thinking": True,
        "summary_tokens": 5,
    }
    return Ready(**made | changes)


def thoughtful(count: int) -> list[Any]:
    """Rounds in which each answer was thought about."""
    history = rounds(count)
    for at in range(1, len(history), 2):
        history[at] = {"role": "assistant", "content": [thinking(f"thought {at}"), *history[at]["content"]]}
    return history


def swapped(history: list[Any] | None = None, **changes: Any) -> tuple[Conversation, list[Any], list[Any]]:
    talk, history = conversation(), history or thoughtful(10)
    talk.add_ready(block_for(talk, history, END, **changes))
    view = talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"
    return talk, history, view


def thoughts_in(view: list[Any]) -> int:
    blocks = [block for message in view for block in message["content"] if isinstance(block, dict)]
    return sum(block["type"] == "thinking" for block in blocks)


def test_the_block_stands_first_in_the_assistants_name_and_its_turns_behind_it_as_they_were() -> None:
    _, history, view = swapped()
    assert view == [{"role": "assistant", "content": [BLOCK]}, *history[END:]]


def test_a_block_does_not_wait_for_the_threshold() -> None:
    talk, history = conversation(msgspec.structs.replace(POLICY, threshold_tokens=8_000)), thoughtful(10)
    talk.add_ready(block_for(talk, history, END))
    talk.view(history, Moment())
    assert talk.plan.outcome == "swapped"


def test_a_text_in_its_place_would_take_the_thinking_away() -> None:
    _, _, kept = swapped()
    _, _, bare = swapped(kind="text", block=b"")
    assert thoughts_in(kept) > 0
    assert thoughts_in(bare) == 0


def test_thinking_goes_where_the_block_stands_for_messages_without_it() -> None:
    _, _, view = swapped([*thoughtful(10), user(text("And now?"))], keeps_thinking=False)
    assert thoughts_in(view) == 0


def test_thinking_goes_where_the_first_message_behind_the_block_speaks_on() -> None:
    history = [*thoughtful(10), user(text("And now?"))]
    history[END:END] = [user(text("one")), user(text("two"))]
    talk = conversation()
    talk.add_ready(block_for(talk, history, END + 1))
    view = talk.view(history, Moment())
    assert view[0]["content"] == [BLOCK]
    assert thoughts_in(view) == 0


@pytest.mark.parametrize(("model", "envelope"), [("claude-sonnet-5-5", "e1"), (MODEL, "e2")])
def test_a_block_of_another_request_is_no_part_of_this_one(model: str, envelope: str) -> None:
    talk, history = conversation(envelope=envelope, model=model), thoughtful(10)
    talk.add_ready(block_for(talk, history, END))
    assert talk.view(history, Moment()) is history


def test_a_request_that_changed_gives_the_block_up_and_the_history_goes_without_thinking() -> None:
    talk, history, _ = swapped()
    talk.envelope = "e2"
    view = talk.view(history, Moment())
    assert len(view) == len(history)
    assert thoughts_in(view) == 0
    assert view == replay(history, list(talk.records), ANTHROPIC)
    talk.envelope = "e1"
    assert talk.view(history, Moment()) == view


def test_the_blocks_that_a_block_went_on_from_are_given_up_with_it() -> None:
    talk, history, _ = swapped()
    history = [*history, *thoughtful(12)]
    talk.add_ready(block_for(talk, history, 40, parent=f"k{END}"))
    talk.view(history, Moment())
    assert talk.active.end == 40
    talk.envelope = "e2"
    view = talk.view(history, Moment())
    assert talk.active.spans == ()
    assert thoughts_in(view) == 0
    assert talk.standing().envelope == "e2"


def test_the_text_that_a_block_took_the_place_of_stands_again_when_it_is_given_up() -> None:
    talk, history = conversation(), rounds(10)
    talk.add_ready(block_for(talk, history, END, kind="text", block=b"", cache_key="t"))
    talk.view(history, Moment())
    history += rounds(12)
    talk.add_ready(block_for(talk, history, 40, parent="t"))
    talk.view(history, Moment())
    assert talk.active.spans[-1].cache_key == "k40"
    talk.envelope = "e2"
    view = talk.view(history, Moment())
    assert talk.active.spans[-1].cache_key == "t"
    assert "COMPACTION_SUMMARY" in json.dumps(view[0])


def test_a_session_whose_requests_keep_changing_offers_no_more_blocks() -> None:
    talk, history = conversation(), rounds(10)
    for at in range(MOST_GIVEN_UP):
        talk.envelope = f"e{at}"
        talk.add_ready(block_for(talk, history, END, cache_key=f"k{at}", envelope=f"e{at}"))
        talk.view(history, Moment(now_ms=at))
        assert talk.standing().envelope
        talk.envelope = "other"
        talk.view(history, Moment(now_ms=at))
    assert talk.standing().envelope == ""


def test_a_block_that_goes_on_from_another_than_the_shown_one_is_not_taken() -> None:
    talk, history, _ = swapped()
    history += rounds(12)
    talk.add_ready(block_for(talk, history, 40, parent="another"))
    view = talk.view(history, Moment())
    assert view[0]["content"] == [BLOCK]
    assert talk.active.end == END


def test_a_block_heals_a_view_that_stands_on_an_extract() -> None:
    talk, history = conversation(msgspec.structs.replace(POLICY, hard_cap_tokens=1_500)), thoughtful(12)
    talk.view(history, Moment())
    assert talk.degraded == "extract"
    history = [*history, assistant("Fine."), user("Next.")]
    talk.add_ready(block_for(talk, history, END))
    view = talk.view(history, Moment())
    assert talk.degraded == ""
    assert view[0]["content"] == [BLOCK]


@pytest.mark.parametrize(("kind", "block"), [("text", b""), ("native", json.dumps(BLOCK).encode())])
def test_a_block_of_the_history_alone_takes_the_place_of_a_text_and_of_a_block_that_is_not_stored_any_more(
    kind: str, block: bytes
) -> None:
    talk, history, _ = swapped(kind=kind, block=block)
    history = [*history, *thoughtful(12)]
    talk.add_ready(block_for(talk, history, 40))
    view = talk.view(history, Moment())
    assert talk.active.spans[-1].cache_key == "k40"
    assert thoughts_in(view) == 0


def test_a_block_that_no_request_may_carry_is_not_waited_for() -> None:
    talk, history = conversation(), rounds(10)
    talk.add_ready(block_for(talk, history, END))
    assert not talk.wants_work(talk.standing())
    talk.envelope = "e2"
    assert talk.wants_work(talk.standing())
    talk.envelope = "e1"
    talk.pin(history[2])
    assert talk.wants_work(talk.standing())


@pytest.mark.parametrize("envelope", ["e1", "e2"])
def test_a_block_that_was_given_up_is_not_waited_for_in_a_new_process(envelope: str) -> None:
    talk, history, _ = swapped()
    talk.envelope = "e2"
    talk.view(history, Moment())
    new = conversation(envelope=envelope)
    new.observe(history)
    new.replace_records(list(talk.records))
    new.add_ready(block_for(new, history, END))
    new.view(history, Moment())
    standing = new.standing()
    assert new.wants_work(standing)
    assert standing.shown is None


@pytest.mark.parametrize(
    "block", [b"", b"5", b"[]", b'{"type":"compaction","content":null}', b'{"type":"text","text":"x"}']
)
def test_what_is_no_block_breaks_no_turn(block: bytes) -> None:
    talk, history = conversation(), thoughtful(10)
    talk.add_ready(block_for(talk, history, END, block=block))
    assert talk.view(history, Moment()) is history


def test_a_session_that_was_turned_off_makes_no_block_from_one_of_other_requests() -> None:
    talk, history, _ = swapped()
    talk.policy = msgspec.structs.replace(POLICY, mode="shadow")
    shown = talk.standing().shown
    assert shown is not None
    assert shown.kind == "native"
    talk.envelope = "e2"
    talk.view(history, Moment())
    shown = talk.standing().shown
    assert shown is not None
    assert shown.kind == "text"


def test_a_summary_that_a_refused_one_took_the_place_of_is_not_shown_again() -> None:
    talk, history = conversation(msgspec.structs.replace(POLICY, kind="text")), rounds(10)
    first = block_for(talk, history, END, kind="text", block=b"", cache_key="t1")
    talk.add_ready(first)
    talk.view(history, Moment())
    history = [*history, *rounds(12)]
    talk.add_ready(block_for(talk, history, 40, kind="text", block=b"", cache_key="t2"))
    talk.view(history, Moment())
    talk.reject()
    new = conversation(talk.policy)
    new.observe(history)
    new.replace_records(list(talk.records))
    new.add_ready(first)
    assert len(new.view(history, Moment())) == len(history)


def test_system_messages_of_the_span_are_said_again_behind_the_block() -> None:
    history = [*thoughtful(10), user(text("And now?"))]
    history[3:3] = [system("Answer in French.")]
    talk = conversation()
    talk.add_ready(block_for(talk, history, END + 1))
    view = talk.view(history, Moment())
    assert view[0]["content"] == [BLOCK]
    assert "French" in json.dumps([message for message in view if message["role"] == "system"])
    assert thoughts_in(view) == 0


@pytest.mark.parametrize(
    ("model", "envelope", "why"),
    [
        ("claude-haiku-4-5", "e1", "a model that writes no blocks"),
        ("", "e1", "an unknown model"),
        (MODEL, "", "no request was seen"),
    ],
)
def test_no_block_is_offered_where_none_could_be_shown(model: str, envelope: str, why: str) -> None:
    talk, history = conversation(model=model, envelope=envelope), rounds(10)
    talk.observe(history)
    assert talk.standing().envelope == "", why


def test_no_block_is_offered_over_what_the_caller_pinned() -> None:
    talk, history = conversation(), rounds(10)
    talk.observe(history)
    assert talk.standing().envelope == "e1"
    talk.pin(history[2])
    assert talk.standing().envelope == ""


def test_a_session_of_blocks_is_cut_where_the_role_changes() -> None:
    history = [*rounds(4), user(text("one")), user(text("two")), *rounds(3)]
    account = ledger_of(history, ANTHROPIC)
    cut = current_cut(account, POLICY, Active(), 9)
    assert account.traits[cut.end].role != account.traits[cut.end - 1].role


def test_a_block_weighs_what_the_model_reads_of_it() -> None:
    sealed = {**BLOCK, "encrypted_content": "A" * 40_000, "signature": "b" * 4_000}
    light = estimate(ANTHROPIC.read({"role": "assistant", "content": [BLOCK]}, 0))
    assert estimate(ANTHROPIC.read({"role": "assistant", "content": [sealed]}, 0)) == light


# -- a block that the agent asked for itself ---------------------------------------------------------------------------

OWN = assistant({"type": "compaction", "content": "Mine.", "encrypted_content": "BBBB", "signature": "y"})


def with_own(at: int, own: Any = OWN) -> list[Any]:
    history = [*thoughtful(10), assistant("Done."), user("And?")]
    return [*history[:at], own, *history[at:]]


@pytest.mark.parametrize(("at", "end"), [(22, END), (8, END + 1)], ids=["behind the span", "inside it"])
def test_no_block_is_offered_or_shown_beside_one_of_the_agents_own(at: int, end: int) -> None:
    talk, history = conversation(), with_own(at)
    talk.add_ready(block_for(talk, history, end))
    assert talk.view(history, Moment()) is history
    assert talk.standing().envelope == ""
    assert talk.wants_work(talk.standing())


def test_a_block_of_the_agents_own_at_the_head_is_summarised_like_any_message() -> None:
    talk, history = conversation(), with_own(0)
    talk.add_ready(block_for(talk, history, END + 1))
    assert talk.standing().envelope
    view = talk.view(history, Moment())
    assert view == [{"role": "assistant", "content": [BLOCK]}, *history[END + 1 :]]


def test_a_compaction_of_the_agents_own_that_failed_is_in_nobodys_way() -> None:
    failed = assistant({"type": "compaction", "content": None}, "I go on.")
    talk, history = conversation(), with_own(22, failed)
    talk.add_ready(block_for(talk, history, END))
    assert talk.view(history, Moment())[0]["content"] == [BLOCK]


def test_the_shown_block_is_given_up_when_one_of_the_agents_own_comes() -> None:
    talk, history, _ = swapped()
    history = [*history, OWN, user("Go on.")]
    view = talk.view(history, Moment())
    assert len(view) == len(history)
    assert thoughts_in(view) == 0
    assert view == replay(history, list(talk.records), ANTHROPIC)


def test_a_pinned_block_of_the_agents_own_still_comes_first() -> None:
    talk, history = conversation(), with_own(0)
    talk.observe(history)
    talk.pin(history[0])
    talk.pin(history[1])
    talk.add_ready(block_for(talk, history, END + 1, kind="text", block=b""))
    view = talk.view(history, Moment())
    assert view[:2] == history[:2]
    assert "COMPACTION_SUMMARY" in json.dumps(view[2])
    assert faults_of(view, "anthropic") == []


@given(spoken=conversations("anthropic"), end=st.integers(1, 40), data=st.data())
def test_every_view_of_a_history_that_the_agent_compacted_is_one_the_provider_takes(
    spoken: Any, end: int, data: st.DataObject
) -> None:
    history = [OWN, *spoken.messages]
    talk = conversation(msgspec.structs.replace(POLICY, threshold_tokens=200))
    talk.observe(history)
    for index in data.draw(st.sets(st.one_of(st.just(0), st.integers(1, len(history) - 1)), max_size=3)):
        talk.pin(history[index])
    cut = current_cut(talk.ledger, talk.policy, talk.active, min(end, len(history)))
    lenient: dict[str, Any] = {"open_tail": True, "reused_ids": True, "unknown_blocks": True}
    if not cut.found or faults_of(history, "anthropic", **lenient):
        return
    kind = data.draw(st.sampled_from(["text", "native"]))
    talk.add_ready(block_for(talk, history, cut.end, kind=kind, block=json.dumps(BLOCK).encode()))
    view = talk.view(history, Moment(forced=True))
    assert faults_of(view, "anthropic", **lenient) == []
    assert view == replay(history, list(talk.records), ANTHROPIC)


# -- the request around it -------------------------------------------------------------------------------------------


def test_the_beta_is_added_once_and_the_rest_left_alone() -> None:
    kwargs = {"messages": [user("q")], "betas": ["b1"], "system": "s"}
    made = request_with([assistant("a"), user("q")], kwargs, ANTHROPIC, POLICY, shows_block=True)
    assert made["betas"] == ["b1", COMPACT_BETA]
    assert kwargs["betas"] == ["b1"]
    assert made["system"] == "s"


def test_a_policy_that_has_thinking_dropped_says_so_with_the_history_too() -> None:
    history = [user("q")]
    kwargs = {"messages": history, "thinking": {"type": "adaptive"}}
    policy = msgspec.structs.replace(POLICY, tail_thinking="drop_block")
    made = request_with(history, kwargs, ANTHROPIC, policy)
    assert made["messages"] is history
    assert made["betas"] == [DROP_BLOCK_BETA]
    assert made["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert kwargs["thinking"] == {"type": "adaptive"}


def test_breakpoints_thinking_and_effort_are_no_part_of_what_a_block_depends_on() -> None:
    tool = {"name": "t", "input_schema": {"type": "object"}}
    marked = {**tool, "cache_control": {"type": "ephemeral"}}
    plain = envelope_of({"system": "s", "tools": [tool]})
    other = envelope_of(
        {"system": "s", "tools": [marked], "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    )
    assert plain.digest == other.digest
    assert plain.digest != envelope_of({"system": "s", "tools": [tool, tool]}).digest
    assert plain.digest != envelope_of({"system": "t", "tools": [tool]}).digest
    assert msgspec.json.decode(other.encoded(), type=Envelope) == other


def test_what_an_sdk_marks_as_not_given_is_absent() -> None:
    assert envelope_of({"system": object(), "tools": object(), "betas": object()}) == Envelope()


def test_the_providers_own_prompt_is_left_alone_unless_there_are_instructions() -> None:
    assert compaction_instructions(1_000) == ""
    assert "Keep the ticket number." in compaction_instructions(1_000, "Keep the ticket number.")
    assert "could not be used" in compaction_instructions(1_000, tighter=True)


# -- bodies ----------------------------------------------------------------------------------------------------------


@given(spoken=conversations("anthropic"))
def test_originals_are_proved_by_the_heads_of_the_canonical_form(spoken: Any) -> None:
    account = ledger_of(spoken.messages, ANTHROPIC)
    bodies = originals_of(spoken.messages, account, 0, len(spoken.messages))
    assert len(bodies) == len(spoken.messages)
    assert all(map(is_original, bodies))
    assert ledger_of([decode_original(body) for body in bodies], ANTHROPIC).heads == account.heads


@given(spoken=conversations("anthropic"), end=st.integers(1, 40))
def test_every_view_with_a_block_is_one_the_provider_takes(spoken: Any, end: int) -> None:
    history = spoken.messages
    talk = conversation(msgspec.structs.replace(POLICY, threshold_tokens=200))
    talk.observe(history)
    cut = current_cut(talk.ledger, talk.policy, talk.active, min(end, len(history)))
    if not cut.found or talk.ledger.stable_prefix_end():
        return
    talk.add_ready(block_for(talk, history, cut.end))
    view = talk.view(history, Moment(forced=True))
    lenient: dict[str, Any] = {"open_tail": True, "reused_ids": True, "unknown_blocks": True}
    assert faults_of(view, "anthropic", **lenient) == []


def test_breakpoints_stay_with_the_agent() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}]}
    assert b"cache_control" not in encode_original(message, ANTHROPIC)


def test_what_json_cannot_hold_is_found_before_it_is_handed_over() -> None:
    history = [user("q"), assistant(call("c", value=float("nan")))]
    account = ledger_of(history, ANTHROPIC)
    assert len(originals_of(history, account, 0, 2)) == 1
