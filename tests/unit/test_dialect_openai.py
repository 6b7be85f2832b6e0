"""Reading OpenAI chat messages."""

from typing import Any

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from foldahead.core.messages import Call, Document, Picture, Result, Text, Thinking
from foldahead.errors import InvalidHistory
from tests.histories import PIXEL, answers, calls, says

DIALECT = get_dialect("openai")


def head(*messages: Any) -> bytes:
    return ledger_of(list(messages), DIALECT).head


def test_a_string_equals_one_text_part_of_it() -> None:
    assert head(says("hi")) == head({"role": "user", "content": [{"type": "text", "text": "hi"}]})


def test_no_content_and_an_empty_one_are_the_same_beside_calls() -> None:
    assert head(calls("a", said="")) == head(calls("a", said=None))


def test_calls_reasoning_and_content_are_read_in_that_order() -> None:
    message = {**calls("c1", said="I look."), "reasoning_content": "hm"}
    assert DIALECT.read(message, 0).blocks == (
        Thinking("hm"),
        Text("I look."),
        Call("c1", "read_file", '{"path": "a.py"}'),
    )


def test_a_tool_message_is_the_result_of_its_call() -> None:
    read = DIALECT.read(answers("c1", "out"), 0)
    assert (read.role, read.blocks) == ("tool", (Result("c1", (Text("out"),)),))


def test_the_old_function_call_is_a_call_too() -> None:
    asked = DIALECT.read({"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}, 0)
    answered = DIALECT.read({"role": "function", "name": "ls", "content": "a"}, 0)
    assert asked.blocks == (Call("ls", "ls", "{}"),)
    assert answered.blocks == (Result("ls", (Text("a"),)),)


def test_a_picture_given_as_data_is_known_by_its_bytes() -> None:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}}
    (read,) = DIALECT.read({"role": "user", "content": [part]}, 0).blocks
    assert isinstance(read, Picture)
    assert (read.width, read.media_type, read.extra) == (1, "image/png", {"detail": "low"})


def test_a_file_is_a_document() -> None:
    part = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
    (read,) = DIALECT.read({"role": "user", "content": [part]}, 0).blocks
    assert isinstance(read, Document)
    assert read.title == "a.pdf"


def test_ids_count_by_position() -> None:
    assert head(calls("a", "b"), answers("b"), answers("a")) == head(calls("x", "y"), answers("y"), answers("x"))


def test_an_sdk_object_equals_its_dict() -> None:
    class Reply:
        def to_dict(self) -> dict[str, Any]:
            return calls("a", said="hi")

        role = "assistant"

    assert head(Reply()) == head(calls("a", said="hi"))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "bot", "content": "x"}, "messages[0].role: expected one of system, developer, user"),
        ({"role": "user", "content": 5}, "messages[0].content: expected a text, null or a list of parts, got int"),
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, "messages[0].content[0].text: expected a text"),
        ({"role": "assistant", "content": "", "tool_calls": "x"}, "messages[0].tool_calls: expected a list of calls"),
        ({"role": "user", "content": [{}]}, "messages[0].content[0].type: expected the name of a part's type"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(message: Any, said: str) -> None:
    with pytest.raises(InvalidHistory) as refused:
        DIALECT.read(message, 0)
    assert said in str(refused.value)


def test_blocks_are_taken_out_by_the_place_they_are_read_at() -> None:
    message = {**calls("a", "b", said="hi"), "reasoning_content": "hm"}
    assert DIALECT.without_blocks(message, frozenset({2})) == {**message, "tool_calls": message["tool_calls"][1:]}
    assert DIALECT.without_blocks(message, frozenset({1})) == {**message, "content": None}
    bare = {"role": "assistant", "content": "hi", "reasoning_content": "hm"}
    assert DIALECT.without_blocks(message, frozenset({2, 3})) == bare
    assert DIALECT.without_blocks(message, frozenset({1, 2, 3})) is None
    assert DIALECT.without_blocks(answers("a"), frozenset({0})) is None


def test_parts_of_a_list_are_taken_out_one_by_one() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert DIALECT.without_blocks({"role": "user", "content": parts}, frozenset({0})) == {
        "role": "user",
        "content": parts[1:],
    }


def test_an_old_function_call_can_be_taken_out() -> None:
    message = {"role": "assistant", "content": "hi", "function_call": {"name": "ls", "arguments": "{}"}}
    assert DIALECT.without_blocks(message, frozenset({1})) == {"role": "assistant", "content": "hi"}


def test_reasoning_goes_whole_and_nothing_else() -> None:
    message = calls("a", said="hi")
    assert DIALECT.without_thinking(message) is message
    assert DIALECT.without_thinking({**message, "reasoning_content": "x", "reasoning_details": [{}]}) == message
    assert DIALECT.without_thinking({"role": "assistant", "content": None, "reasoning": "x"}) is None


def test_results_come_before_what_interrupted_them() -> None:
    wait = says("wait")
    assert DIALECT.results_first([wait, answers("a"), answers("b")]) == [answers("a"), answers("b"), wait]


def test_reasoning_that_does_not_come_back_is_not_in_the_context() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 40}}
    assert DIALECT.context_tokens(usage) == 110
    assert DIALECT.context_tokens({}) is None


def test_a_stub_replaces_what_a_tool_said() -> None:
    assert DIALECT.with_stub(answers("a", "long"), 0, "[gone]") == answers("a", "[gone]")
    message = says("hi")
    assert DIALECT.with_stub(message, 0, "[gone]") is message
