"""The judge of OpenAI chat messages, rule by rule, with the place that each fault names."""

from typing import Any

import pytest

from foldahead_worker.standin.openai_rules import faults

USER = {"role": "user", "content": "go"}


def call(call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": "{}"}}


def asks(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(call_id) for call_id in ids]}


def answers(call_id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "found"}


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([USER, answers()], "messages[1]: tool message for 'c1' answers no call"),
        ([answers()], "messages[0]: tool message for 'c1' answers no call"),
        ([USER, asks("c1", "c2"), answers(), USER], "messages[1].tool_calls: call 'c2' is not followed"),
        ([USER, asks("c1"), USER, answers()], "messages[3]: tool message for 'c1' answers no call"),
        ([USER, asks("c1"), answers(), answers()], "messages[3]: tool message for 'c1' answers no call"),
        ([USER, asks("c1", "c1"), answers(), answers()], "messages[1].tool_calls[1].id: two calls"),
        ([USER, asks("c1")], "messages[1].tool_calls: call 'c1' is not followed"),
        ([{"role": "exit", "content": "x"}], "messages[0].role: unknown role 'exit'"),
        ([{**USER, "metadata": {}}], "messages[0].metadata: Extra inputs are not permitted"),
        ([{"role": "user", "content": ""}], "messages[0].content: a user message must have non-empty"),
        ([{"role": "user", "content": []}], "messages[0].content: a user message must have non-empty"),
        ([USER, {"role": "assistant", "content": None}], "messages[1].content: content is required"),
        ([{"role": "user", "content": None}], "messages[0].content: null is not permitted here"),
        (
            [{"role": "user", "content": [{"type": "tool_result"}]}],
            "messages[0].content[0].type: a 'tool_result'",
        ),
        ([{"role": "user", "content": "\ud83d"}], "[0].content: not valid UTF-8"),
        ([], "messages: at least one message is required"),
    ],
)
def test_it_is_refused_and_the_place_is_named(messages, said):
    found = [str(fault) for fault in faults(messages)]
    assert any(fault.startswith(said) for fault in found), found


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "be brief"}, USER, asks("a", "b"), answers("b"), answers("a"), USER],
        [USER, asks("c1"), answers(), asks("c1"), answers()],
        [USER, {"role": "assistant", "content": "hm"}, {"role": "system", "content": "later"}, USER],
        [USER, asks("c1"), {"role": "tool", "tool_call_id": "c1", "content": ""}],
        [USER, {"role": "assistant", "content": "hm", "refusal": None, "annotations": [], "audio": None}, USER],
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}],
            }
        ],
    ],
)
def test_it_is_taken(messages):
    assert faults(messages) == []


def test_an_open_tail_and_reused_ids_may_be_allowed():
    assert faults([USER, asks("c1")], allow_open_tail=True) == []
    assert faults([USER, asks("c1", "c1"), answers(), answers()], allow_reused_ids=True) == []


def test_an_open_tail_is_allowed_at_the_end_alone():
    found = faults([USER, asks("c1"), USER], allow_open_tail=True)
    assert [fault.path for fault in found] == ["messages[1].tool_calls"]
