"""Reading Anthropic messages: what counts, what is left out, and that nothing of the caller's is changed."""

from typing import Any

import anthropic.types as sdk
import anthropic.types.beta as beta
import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from foldahead.core.messages import Call, Document, Other, Picture, Result, Text, Thinking
from foldahead.errors import InvalidHistory, UnknownDialect
from tests.histories import (
    PIXEL,
    assistant,
    call,
    document,
    picture,
    result,
    server_call,
    server_result,
    system,
    text,
    thinking,
    user,
)

DIALECT = get_dialect("anthropic")


def head(*messages: Any) -> bytes:
    return ledger_of(list(messages), DIALECT).head


def test_a_string_equals_one_text_block_of_it() -> None:
    assert head({"role": "user", "content": "hi"}) == head(user("hi"))


def test_an_sdk_reply_equals_the_dicts_that_it_came_from() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a", "limit": None}},
    ]
    objects = [
        sdk.ThinkingBlock.model_validate(blocks[0]),
        sdk.TextBlock.model_validate(blocks[1]),
        sdk.ToolUseBlock.model_validate(blocks[2]),
    ]
    assert head({"role": "assistant", "content": objects}) == head({"role": "assistant", "content": blocks})


def test_a_whole_sdk_message_equals_its_role_and_content() -> None:
    reply = beta.BetaMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-5-5",
            "content": [{"type": "text", "text": "done"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    assert head(reply) == head(assistant("done"))


def test_nulls_of_a_block_say_nothing_and_nulls_of_an_input_do() -> None:
    bare = {"type": "text", "text": "hi"}
    assert head(user(bare)) == head(user({**bare, "citations": None, "cache_control": None}))
    assert head(assistant(call(limit=None, path="a"))) != head(assistant(call(path="a")))


def test_breakpoints_ids_and_timestamps_are_no_content() -> None:
    marked = user({**text("hi"), "cache_control": {"type": "ephemeral"}})
    assert head({**marked, "id": "m1", "timestamp": 12, "cost_usd": 0.1}) == head(user("hi"))


def test_tool_ids_count_by_position_and_not_by_value() -> None:
    def cycle(first: str, second: str) -> list[Any]:
        return [assistant(call(first), call(second)), user(result(second, "b"), result(first, "a"))]

    assert head(*cycle("x", "y")) == head(*cycle("p", "q"))
    swapped = [assistant(call("x"), call("y")), user(result("x", "b"), result("y", "a"))]
    assert head(*cycle("x", "y")) != head(*swapped)


def test_an_unknown_block_counts_whole() -> None:
    read = DIALECT.read(assistant({"type": "hologram", "depth": 3, "note": None}), 0)
    assert read.blocks == (Other("hologram", {"depth": 3}),)


def test_user_text_is_never_normalised() -> None:
    assert head(user("caf\u00e9")) != head(user("cafe\u0301"))
    assert head(user("a ")) != head(user("a"))


def test_each_kind_of_block_is_read_as_what_it_is() -> None:
    message = assistant(thinking("t", "s"), {"type": "redacted_thinking", "data": "xx"}, "said", call("c", "ls", a=1))
    assert DIALECT.read(message, 0).blocks == (
        Thinking("t", "s"),
        Thinking("", "xx", redacted=True),
        Text("said"),
        Call("c", "ls", {"a": 1}),
    )


def test_a_picture_is_known_by_its_bytes_and_measured_by_its_header() -> None:
    (read,) = DIALECT.read(user(picture()), 0).blocks
    assert isinstance(read, Picture)
    assert (read.width, read.height, read.size_bytes) == (1, 1, len(PIXEL))


def test_a_picture_by_url_is_known_by_its_url() -> None:
    one = user({"type": "image", "source": {"type": "url", "url": "https://a.example/1.png"}})
    other = user({"type": "image", "source": {"type": "url", "url": "https://a.example/2.png"}})
    assert head(one) != head(other)


def test_a_text_document_is_read_and_a_pdf_is_counted_in_pages() -> None:
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 400_000}}
    said, counted = DIALECT.read(user(document("page one"), pdf), 0).blocks
    assert isinstance(said, Document)
    assert isinstance(counted, Document)
    assert (said.text, counted.text, counted.pages) == ("page one", "", 5)


def test_a_document_of_blocks_is_known_by_its_pictures_too() -> None:
    def of(*blocks: Any) -> Any:
        return user({"type": "document", "source": {"type": "content", "content": list(blocks)}})

    assert head(of(text("a"), picture())) != head(of(text("a")))
    (read,) = DIALECT.read(of(text("a"), text("b")), 0).blocks
    assert isinstance(read, Document)
    assert read.text == "a\nb"


def test_a_result_holds_text_pictures_and_its_error() -> None:
    (read,) = DIALECT.read(user(result("c", [text("out"), picture()], is_error=True)), 0).blocks
    assert isinstance(read, Result)
    assert read.is_error
    assert [type(part) for part in read.parts] == [Text, Picture]


def test_server_tools_are_told_from_the_agents_own() -> None:
    asked, answered = DIALECT.read(assistant(server_call(), server_result()), 0).blocks
    assert isinstance(asked, Call)
    assert isinstance(answered, Result)
    assert (asked.server, answered.server, answered.kind) == (True, True, "web_search_tool_result")


def test_what_a_system_message_carries_besides_its_content_counts() -> None:
    assert head(user("a"), system("s")) != head(user("a"), {**system("s"), "clear_at": "end"})


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "robot", "content": "x"}, "messages[0].role: expected one of user, assistant, system, got 'robot'"),
        ({"role": "user", "content": 5}, "messages[0].content: expected a text or a list of blocks, got int"),
        ({"role": "user", "content": [5]}, "messages[0].content[0]: expected a message or block"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text: expected a text, got NoneType"),
        ({"role": "user", "content": [{}]}, "messages[0].content[0].type: expected the name"),
        ("hello", "messages[0]: expected a message or block"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(message: Any, said: str) -> None:
    with pytest.raises(InvalidHistory) as refused:
        DIALECT.read(message, 0)
    assert said in str(refused.value)


def test_an_unknown_dialect_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownDialect, match="expected one of anthropic, openai, openai-strict"):
        get_dialect("gemini")


def test_a_stub_replaces_the_content_of_one_result_alone() -> None:
    message = user(result("a", "long"), result("b", "kept"))
    assert DIALECT.with_stub(message, 0, "[gone]") == user(result("a", "[gone]"), result("b", "kept"))
    assert message == user(result("a", "long"), result("b", "kept"))


def test_a_stub_for_what_is_no_result_changes_nothing() -> None:
    message = user("hi")
    assert DIALECT.with_stub(message, 0, "[gone]") is message
    assert DIALECT.with_stub(message, 7, "[gone]") is message


def test_thinking_goes_whole_and_a_message_without_any_is_the_same_object() -> None:
    message = assistant("said")
    assert DIALECT.without_thinking(message) is message
    assert DIALECT.without_thinking(assistant(thinking(), "said")) == assistant("said")
    assert DIALECT.without_thinking(assistant(thinking())) is None


def test_a_message_of_thinking_alone_does_not_stay() -> None:
    assert DIALECT.without_blocks(assistant(thinking(), call()), frozenset({1})) is None


def test_results_take_the_first_place_of_an_answer() -> None:
    before = [system(), user("wait"), user(result("a"), "there")]
    assert DIALECT.results_first(before) == [user(result("a"), "wait"), system(), user("there")]


def test_the_last_breakpoints_are_the_ones_kept() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    messages = [user({**text(str(at)), **mark}) for at in range(5)]
    messages.append(user(result("c", [{**text("in"), **mark}], **mark)))
    limited = DIALECT.limit_breakpoints(messages, 4)
    assert [DIALECT.breakpoints(message) for message in limited] == [0, 0, 0, 1, 1, 2]
    assert DIALECT.breakpoints(messages) == 7


def test_a_fifth_breakpoint_inside_a_result_can_go_by_itself() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    messages = [user(result("c", [{**text("in"), **mark}], **mark)), *[user({**text("x"), **mark})] * 3]
    limited = DIALECT.limit_breakpoints(messages, 4)
    assert limited[0] == user(result("c", [text("in")], **mark))


def test_the_context_is_what_the_last_message_iteration_counted() -> None:
    usage = {
        "input_tokens": 9,
        "output_tokens": 1,
        "iterations": [
            {"type": "message", "input_tokens": 100, "output_tokens": 5},
            {"type": "compaction", "input_tokens": 5_000, "output_tokens": 50},
            {"type": "message", "input_tokens": 30, "cache_read_input_tokens": 400, "output_tokens": 7},
        ],
    }
    assert DIALECT.context_tokens(usage) == 437
    counted = sdk.Usage(input_tokens=10, output_tokens=2, cache_read_input_tokens=30, cache_creation_input_tokens=4)
    assert DIALECT.context_tokens(counted) == 46
    assert DIALECT.context_tokens({}) is None
