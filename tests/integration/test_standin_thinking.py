"""The bound thinking of the stand-in, with the real SDK as its client."""

from typing import Any

import anthropic
import pytest

from foldahead_worker.standin import Options, Scripted, ToolCall, start_standin
from tests.standins import (
    ask_opus,
    client_of,
    conversation,
    swapped,
    think,
    user,
)

pytest_plugins = ["tests.standin_fixtures"]


def test_thinking_kept_after_a_block_stays_valid(standin, client):
    history = conversation(standin, client, 3)
    reply = ask_opus(client, [*swapped(client, history, 4), user("go on")])
    assert reply.input_transformations == []


def test_thinking_stays_valid_when_the_cut_is_at_a_request_already_sent(standin, client):
    history = conversation(standin, client, 3)
    reply = ask_opus(client, [*swapped(client, history, 3), user("go on")])
    assert reply.input_transformations == []


def test_thinking_made_after_a_block_stays_valid_through_the_next_compaction(standin, client):
    view = swapped(client, conversation(standin, client, 3), 2)
    view = think(standin, client, [*view, user("and now")])
    view = think(standin, client, [*view, user("and then")])
    again = swapped(client, view, 3)
    assert ask_opus(client, [*again, user("go on")]).input_transformations == []


def test_thinking_is_lost_when_a_block_stands_for_other_messages(standin, client):
    history = conversation(standin, client, 3)
    skipped = [*swapped(client, history, 2)[:1], *history[4:], user("go on")]
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        ask_opus(client, skipped)


def test_thinking_is_lost_when_the_first_kept_message_merges_into_the_last_summarised(standin, client):
    history = conversation(standin, client, 1)
    history = think(standin, client, [*history, user("one"), user("two")])
    # The cut is between the two user messages, which the API reads as one turn.
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        ask_opus(client, [*swapped(client, history, 3), user("go on")])


def test_thinking_is_lost_when_system_changes_after_a_block_which_is_still_taken(standin, client):
    view = [*swapped(client, conversation(standin, client, 3), 4), user("go on")]
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        ask_opus(client, view, system="Be long.")
    plain = [*view[:1], user("go on")]
    assert ask_opus(client, plain, system="Be long.").stop_reason == "end_turn"


def test_a_block_of_a_model_without_preserved_thinking_keeps_no_thinking(standin, client):
    history = conversation(standin, client, 3)
    view = swapped(client, history, 4, model="claude-opus-5")
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        ask_opus(client, [*view, user("go on")])


def test_a_changed_prefix_is_refused_or_its_thinking_dropped_and_told(standin, client):
    history = conversation(standin, client, 2)
    changed = [user("another question"), *history[1:], user("go on")]
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask_opus(client, changed)
    said = "messages[1].content[0]: Invalid `signature` in `thinking` block."
    assert str(caught.value.api_message).startswith(said)
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    reply = ask_opus(client, changed, thinking=thinking)
    told = [(entry.path, entry.reason) for entry in reply.input_transformations]
    reason = "prefix_binding_mismatch"
    assert told == [("messages.1.content.0", reason), ("messages.3.content.0", reason)]


def test_dropped_thinking_is_not_billed(standin, client):
    history = conversation(standin, client, 2)
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    held = ask_opus(client, [*history, user("go on")], thinking=thinking)
    dropped = ask_opus(client, [user(history[0]["content"].upper()), *history[1:], user("go on")], thinking=thinking)
    assert dropped.usage.input_tokens < held.usage.input_tokens


def test_thinking_removed_whole_is_fine(standin, client):
    history = conversation(standin, client, 2)
    for message in history[1::2]:
        message["content"] = message["content"][1:]
    assert ask_opus(client, [*history, user("go on")]).input_transformations == []


def test_thinking_between_other_thinking_may_not_be_left_out(standin, client):
    history = conversation(standin, client, 2)
    history[1]["content"] = history[1]["content"][1:]
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        ask_opus(client, [*history, user("go on")])


def test_a_cache_breakpoint_is_no_change_of_the_prefix(standin, client):
    history = conversation(standin, client, 2)
    block = {"type": "text", "text": history[0]["content"], "cache_control": {"type": "ephemeral"}}
    history[0] = {"role": "user", "content": [block]}
    assert ask_opus(client, [*history, user("go on")]).input_transformations == []


def test_altered_thinking_is_refused_on_every_model(standin, client):
    for model in ("claude-opus-5-5", "claude-opus-4-6"):
        history = think(standin, client, [user("q")], model=model)
        history[1]["content"][0]["thinking"] = "something else"
        with pytest.raises(anthropic.BadRequestError) as caught:
            ask_opus(client, [*history, user("go on")], model=model)
        assert str(caught.value.api_message).endswith("Invalid `signature` in `thinking` block.")


def test_an_older_model_does_not_look_at_what_precedes_thinking(standin, client):
    history = think(standin, client, [user("q")], model="claude-opus-4-6")
    assert ask_opus(client, [user("another"), *history[1:], user("go on")], model="claude-opus-4-6").content


def test_thinking_of_a_model_that_cannot_be_read_is_dropped_without_an_error(standin, client):
    history = think(standin, client, [user("q")], model="claude-opus-4-8")
    reply = ask_opus(client, [*history, user("go on")])
    assert [entry.reason for entry in reply.input_transformations] == ["model_binding_mismatch"]


def test_recorded_signatures_are_taken_unless_told_otherwise(client):
    recorded = {"type": "thinking", "thinking": "so", "signature": "c2lnMQ=="}
    messages = [
        user("q"),
        {"role": "assistant", "content": [recorded, {"type": "text", "text": "a"}]},
        user("r"),
    ]
    assert ask_opus(client, messages).input_transformations == []
    with (
        start_standin(Options(foreign_thinking="refuse")) as strict,
        client_of(strict) as made,
    ):
        with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
            ask_opus(made, messages)
        assert ask_opus(made, messages, model="claude-opus-4-6").content


def test_a_request_may_say_what_is_answered_and_gets_its_thinking_signed_anew(client):
    recorded = [
        {"type": "thinking", "thinking": "so", "signature": "c2lnMQ=="},
        {"type": "redacted_thinking", "data": "c2lnMg=="},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "toolu_recorded", "name": "read_file", "input": {"path": "b"}},
    ]
    own = {"extra_body": {"standin_answer": {"content": recorded}}}
    reply = ask_opus(client, [user("q")], **own)
    content = [block.to_dict() for block in reply.content]
    assert content[2:] == recorded[2:]
    assert reply.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": "toolu_recorded", "content": "found"}
    after = [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    with start_standin(Options(foreign_thinking="refuse")) as strict, client_of(strict) as made:
        assert ask_opus(made, [user("q"), *after]).input_transformations == []
        with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
            ask_opus(made, [user("another"), *after])
        cut = [{"role": "assistant", "content": content[1:]}, after[1]]
        with pytest.raises(anthropic.BadRequestError):
            ask_opus(made, [user("q"), *cut])


def test_an_answer_that_is_no_script_is_refused(client):
    with pytest.raises(anthropic.BadRequestError, match="standin_answer"):
        ask_opus(client, [user("q")], extra_body={"standin_answer": {"says": "a"}})


def test_the_last_tool_turn_keeps_its_thinking_where_thinking_is_enabled(standin, client):
    standin.script(Scripted(thinking="hm", tool_calls=(ToolCall("read_file"),)))
    enabled = {"type": "enabled", "budget_tokens": 1024}
    old = {"model": "claude-haiku-4-5", "thinking": enabled}
    content = [block.to_dict() for block in ask_opus(client, [user("q")], **old).content]
    result = {"type": "tool_result", "tool_use_id": content[1]["id"], "content": "found"}
    whole = [user("q"), {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    assert ask_opus(client, whole, **old).content
    stripped = [whole[0], {"role": "assistant", "content": content[1:]}, whole[2]]
    with pytest.raises(anthropic.BadRequestError, match="Expected `thinking`"):
        ask_opus(client, stripped, **old)


def test_the_last_tool_turn_loses_all_of_its_thinking_or_none(standin, client):
    standin.script(Scripted(thinking=("one", "two"), tool_calls=(ToolCall("read_file"),)))
    content = [block.to_dict() for block in ask_opus(client, [user("q")]).content]
    result = {"type": "tool_result", "tool_use_id": content[2]["id"], "content": "found"}

    def kept(*at: int) -> list[Any]:
        answer = {"role": "assistant", "content": [content[index] for index in at]}
        return [user("q"), answer, {"role": "user", "content": [result]}]

    assert ask_opus(client, kept(0, 1, 2)).input_transformations == []
    assert ask_opus(client, kept(2)).input_transformations == []
    with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
        ask_opus(client, kept(0, 2))
