"""The judge of Claude API requests, rule by rule, with the place that each fault names."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldahead_worker.standin.rules import faults

TOOL = {"name": "read_file", "input_schema": {"type": "object"}}


def call(call_id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read_file", "input": {}}


def result(call_id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "found", **more}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content) or "go"}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content) or "done"}


def judge(messages: Any, allow: str = "", betas: Any = None, **more: Any) -> list[str]:
    request = {"model": "claude-haiku-5-5", "max_tokens": 100, "tools": [TOOL], "messages": messages, **more}
    allowed: dict[str, Any] = {f"allow_{name}": True for name in allow.split()}
    return [str(fault) for fault in faults(request, betas=betas, **allowed)]


CYCLE = [user(), assistant(text("I look."), call()), user(result()), assistant(), user()]

REFUSED: list[tuple[str, Any, str]] = [
    (
        "a result without its call",
        [user(), assistant(), user(result("toolu_9"))],
        "messages[2].content[0]: tool_result for 'toolu_9' has no tool_use in the message before",
    ),
    (
        "a call without its result",
        [user(), assistant(call()), user(text("and?"))],
        "messages[1].content[0]: tool_use 'toolu_1' has no tool_result in the message after",
    ),
    (
        "a result one turn too late",
        [user(), assistant(call()), user(text("wait")), assistant(), user(result())],
        "messages[4].content[0]: tool_result for 'toolu_1' has no tool_use in the message before",
    ),
    (
        "text ahead of a result",
        [user(), assistant(call()), user(text("here"), result())],
        "messages[2].content[1]: tool_result for 'toolu_1' stands behind other content",
    ),
    (
        "one of two parallel results",
        [user(), assistant(call("a"), call("b")), user(result("a"))],
        "messages[1].content[1]: tool_use 'b' has no tool_result in the message after",
    ),
    (
        "two results for one call",
        [user(), assistant(call()), user(result(), result())],
        "messages[2].content[1]: a second tool_result for 'toolu_1'",
    ),
    (
        "an id twice in a message",
        [user(), assistant(call("a"), call("a")), user(result("a"))],
        "messages[1].content[1].id: tool_use ids must be unique: 'a' is also at messages[1].content[0]",
    ),
    (
        "an id twice in a conversation",
        [*CYCLE[:3], assistant(call()), user(result())],
        "messages[3].content[0].id: tool_use ids must be unique: 'toolu_1' is also at messages[1].content[1]",
    ),
    ("a tool role", [user(), {"role": "tool", "content": "x"}], "messages[1].role: unknown role 'tool'"),
    ("an assistant first", [assistant(), user()], "messages[0].role: the first message is the user's"),
    (
        "a result in an assistant's mouth",
        [user(), assistant(result()), user()],
        "messages[1].content[0].type: a",
    ),
    ("a call in a user's mouth", [user(call())], "messages[0].content[0].type: a 'tool_use' block may not"),
    ("no messages", [], "messages: at least one message is required"),
    (
        "an empty list",
        [user(), {"role": "assistant", "content": []}, user()],
        "messages[1].content: a assistant",
    ),
    ("an empty string", [{"role": "user", "content": ""}], "messages[0].content: a user message must have"),
    (
        "an empty text block",
        [user(text("a"), text(""))],
        "messages[0].content[1]: text content blocks must be",
    ),
    (
        "white space alone",
        [user(text(" "), text("\n"))],
        "messages[0].content: text content blocks must contain",
    ),
    ("a foreign message key", [{**user(), "metadata": {}}], "messages[0].metadata: Extra inputs are not"),
    (
        "a foreign block key",
        [user({**text("a"), "id": 1})],
        "messages[0].content[0].id: Extra inputs are not",
    ),
    (
        "a null of model_dump()",
        [user(), assistant({**call(), "caller": None}), user(result())],
        "messages[1].content[0].caller: null is not permitted here",
    ),
    (
        "a future block",
        [user(text("a"), {"type": "new_2027"})],
        "messages[0].content[1].type: unknown block type",
    ),
    (
        "a lone surrogate",
        [user(text("a"), text("\ud83d"))],
        "messages[0].content[1].text: not valid UTF-8: lone",
    ),
    ("an object of the SDK", [user(object())], "messages[0].content[0]: object is no JSON value"),
    (
        "thinking without a signature",
        [user(), assistant({"type": "thinking", "thinking": "so", "signature": ""}), user()],
        "messages[1].content[0].signature: a thinking block needs its signature",
    ),
    (
        "a server result without its call",
        [user(), assistant({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}), user()],
        "messages[1].content[0]: web_search_tool_result for 's' has no call before it",
    ),
    (
        "a server call left behind",
        [
            user(),
            assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            user(),
        ],
        "messages[1].content[0]: server_tool_use 's' was found without its result",
    ),
    (
        "a system message first",
        [{"role": "system", "content": "x"}, user()],
        "messages[0].role: the first message",
    ),
    (
        "a system message behind an assistant",
        [user(), assistant(), {"role": "system", "content": "x"}],
        "messages[2].role: role 'system' must follow a 'user' message",
    ),
    (
        "a system message ahead of a user",
        [user(), {"role": "system", "content": "x"}, user()],
        "messages[1].role: role 'system' must precede an 'assistant' message or end the array",
    ),
    (
        "an answer begun",
        [user(), assistant()],
        "messages[1]: This model does not support assistant message prefill",
    ),
    (
        "a trailing space",
        [user(), assistant(text("so "))],
        "messages[1].content[0]: final assistant content cannot",
    ),
    (
        "a picture of no known format",
        [user({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "x"}})],
        "messages[0].content[0].source.media_type: 'image/bmp'",
    ),
]


@pytest.mark.parametrize(("messages", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_is_refused_and_the_place_is_named(messages, said):
    found = judge(messages)
    assert any(fault.startswith(said) for fault in found), found


TAKEN: list[tuple[str, Any, str]] = [
    ("a tool cycle", CYCLE, ""),
    (
        "results in two user messages",
        [user(), assistant(call("a"), call("b")), user(result("a")), user(result("b"))],
        "",
    ),
    ("a note behind the results", [user(), assistant(call()), user(result(), text("and hurry"))], ""),
    ("two user messages in a row", [user(), user(), assistant(), user()], ""),
    (
        "calls in two assistant messages",
        [user(), assistant(text("a")), assistant(call()), user(result())],
        "",
    ),
    ("an empty result", [user(), assistant(call()), user(result(content=[text("")]))], ""),
    (
        "a result with no content",
        [user(), assistant(call()), user({"type": "tool_result", "tool_use_id": "toolu_1"})],
        "",
    ),
    ("white space beside a call", [user(), assistant(text("\n"), call()), user(result())], ""),
    ("nulls that the API takes", [user({**text("a"), "citations": None, "cache_control": None})], ""),
    ("a system message in its place", [user(), {"role": "system", "content": "x"}, assistant(), user()], ""),
    (
        "a server tool in one message",
        [
            user(),
            assistant(
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            ),
            user(),
        ],
        "",
    ),
    (
        "a server tool that ends in the next message",
        [
            user(),
            assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            assistant({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
            user(),
        ],
        "",
    ),
    ("an open call, allowed", [user(), assistant(call())], "open_tail"),
    ("reused ids, allowed", [*CYCLE[:3], assistant(call()), user(result())], "reused_ids"),
    (
        "an id twice in a message, allowed",
        [user(), assistant(call("t:1"), call("t:1")), user(result("t:1"), result("t:1"))],
        "reused_ids",
    ),
    ("a future block, allowed", [user(text("a"), {"type": "new_2027", "x": None})], "unknown_blocks"),
]


@pytest.mark.parametrize(("messages", "allow"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_it_is_taken(messages, allow):
    assert judge(messages, allow) == []


def test_reused_ids_that_are_allowed_still_pair_by_adjacency():
    messages = [*CYCLE[:3], assistant(call()), user(text("no result"))]
    assert judge(messages, "reused_ids") == [
        "messages[3].content[0]: tool_use 'toolu_1' has no tool_result in the message after"
    ]


def test_more_than_four_breakpoints_are_refused_wherever_they_stand():
    mark = {"cache_control": {"type": "ephemeral"}}
    nested = result(content=[{**text("x"), **mark}])
    messages = [user({**text("a"), **mark}), assistant({**call(), **mark}), user(nested)]
    system = [{**text("rules"), **mark}]
    assert judge(messages, system=system) == []
    (fault,) = judge(messages, system=system, tools=[{**TOOL, **mark}])
    assert fault.startswith("messages[2].content[0].content[0]: at most 4 blocks with cache_control")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"max_tokens": None}, "max_tokens: null is not permitted here"),
        ({"max_tokens": 200_000}, "max_tokens: 200000 > 128000"),
        ({"metadata": None}, "metadata: null is not permitted here"),
        ({"turn": 1}, "turn: Extra inputs are not permitted"),
        ({"system": [text("")]}, "system[0]: text content blocks must be non-empty"),
        ({"system": "  "}, "system: text content blocks must contain non-whitespace text"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name: tool names must be unique"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name: 'a b' does not match"),
        ({"thinking": {"type": "enabled", "budget_tokens": 50}}, "thinking.budget_tokens: at least 1024"),
        ({"model": "claude-haiku-4-5", "thinking": {"type": "adaptive"}}, "thinking.type: "),
        ({"tools": []}, "tools: a request with tool_use blocks (messages[1].content[1]) must define tools"),
    ],
)
def test_a_parameter_is_refused_by_name(more, said):
    found = judge(CYCLE, betas=(), **more)
    assert any(fault.startswith(said) for fault in found), found


def test_a_missing_max_tokens_is_refused():
    request = {"model": "claude-haiku-5-5", "messages": [user()]}
    assert [str(fault) for fault in faults(request)] == ["max_tokens: Field required"]
    assert faults(request, kind="count") == []


def test_betas_in_the_body_are_refused_once_the_header_is_known():
    request = {"model": "claude-haiku-5-5", "max_tokens": 9, "messages": [user()], "betas": []}
    assert [str(fault) for fault in faults(request, betas=())] == ["betas: Extra inputs are not permitted"]


def test_tools_may_be_missing_where_that_is_allowed():
    assert judge(CYCLE, "missing_tools", tools=[]) == []


def test_the_sdk_s_own_arguments_are_judged_with_their_betas():
    request = {"model": "claude-haiku-5-5", "max_tokens": 9, "messages": [user()], "betas": []}
    asked = {**request, "compaction": {"type": "summarize"}}
    assert faults(request) == []
    assert [fault.path for fault in faults(asked)] == ["compaction"]


def test_a_system_message_is_refused_on_a_model_that_has_none():
    messages = [user(), {"role": "system", "content": "x"}]
    assert judge(messages, model="claude-haiku-4-5") == [
        "messages[1].role: role 'system' is not supported on this model"
    ]


def test_an_answer_may_be_begun_on_an_older_model():
    assert judge([user(), assistant()], model="claude-haiku-4-5") == []


def test_judging_changes_nothing():
    before = copy.deepcopy(CYCLE)
    judge(CYCLE)
    assert before == CYCLE


KEYS = ("role", "content", "type", "text", "id", "name", "input", "tool_use_id", "source", "cache_control")
WORDS = ("user", "assistant", "system", "text", "tool_use", "tool_result", "compaction", "thinking", "image")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(WORDS)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
)


@given(st.lists(JSON, max_size=5), st.dictionaries(st.sampled_from(("system", "tools", "thinking")), JSON))
@settings(max_examples=150, deadline=None)
def test_any_json_is_judged_and_nothing_is_raised(messages, more):
    assert isinstance(judge(messages, betas=(), **more), list)
