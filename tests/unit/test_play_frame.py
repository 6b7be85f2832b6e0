"""What a played agent's requests hold besides their messages."""

from typing import Any

from foldahead_worker.importers import ImportedSession
from foldahead_worker.playing.frame import claude_frame, recorded_frame
from foldahead_worker.standin import anthropic_faults
from tests.conversations import conversation

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "cmVjb3JkZWQ="}


def recording(messages: list[dict[str, Any]], **more: Any) -> ImportedSession:
    return ImportedSession(name="s", dialect="anthropic", messages=messages, **more)


def thoughtful() -> list[dict[str, Any]]:
    messages = conversation(2)
    messages[1]["content"].insert(0, THOUGHT)
    return messages


def test_tools_that_are_called_are_declared_for_anything_they_may_take() -> None:
    frame = claude_frame(recording(conversation(3)))
    assert frame.arguments["tools"] == [{"name": "run", "input_schema": {"type": "object"}}]
    assert anthropic_faults(frame.around(conversation(3))) == []


def test_what_the_recording_says_is_left_as_it_is() -> None:
    tools = [{"name": "run", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}]
    recorded = recording(conversation(1), model="claude-opus-4-6", system="Be brief.", tools=tools)
    expected = {"model": "claude-opus-4-6", "max_tokens": 8_192, "system": "Be brief.", "tools": tools}
    assert claude_frame(recorded).arguments == recorded_frame(recorded).arguments == expected


def test_a_model_that_is_not_served_gives_way_to_a_current_one_and_a_given_one_to_none() -> None:
    assert claude_frame(recording([], model="claude-2.1")).arguments["model"] == "claude-sonnet-5-5"
    assert claude_frame(recording([], model="claude-opus-4-6"), "claude-opus-5-5").arguments["model"] == (
        "claude-opus-5-5"
    )


def test_thinking_is_asked_for_as_the_model_takes_it_where_the_recording_has_some() -> None:
    assert "thinking" not in claude_frame(recording(conversation(2))).arguments
    new = claude_frame(recording(thoughtful(), model="claude-sonnet-5-5"))
    old = claude_frame(recording(thoughtful(), model="claude-sonnet-4-5-20250929"))
    assert new.arguments["thinking"] == {"type": "adaptive"}
    assert old.arguments["thinking"]["type"] == "enabled"
    assert [anthropic_faults(frame.around(thoughtful()[:3])) for frame in (new, old)] == [[], []]
