"""The stand-in for the Claude API, with the real SDK as its client: answers, scripts, bills, books."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from foldahead_worker.standin import Scripted, ToolCall
from tests.standins import TOOL, ask, client_of, last_call

pytest_plugins = ["tests.standin_fixtures"]


def test_a_turn_is_answered_the_same_way_each_time(client):
    first, second = ask(client), ask(client)
    assert first.content[0].text == second.content[0].text
    assert first.stop_reason == "end_turn"
    assert first.usage.input_tokens > 0
    assert first.usage.output_tokens > 0


def test_the_plain_route_answers_too(client):
    reply = client.messages.create(model="claude-haiku-5-5", max_tokens=50, messages=[{"role": "user", "content": "x"}])
    assert reply.role == "assistant"


def test_a_stream_gives_the_same_message_as_one_response(standin, client):
    calls = (ToolCall("read_file", {"path": "a/é.py"}), ToolCall("read_file", {}))
    scripted = Scripted(text="Ähm, first this.\n" * 20, thinking="let me see", tool_calls=calls, times=2)
    standin.script(scripted)
    whole = ask(client, tools=[TOOL])
    request: dict[str, Any] = {"model": "claude-haiku-5-5", "max_tokens": 1000, "tools": [TOOL]}
    request["messages"] = [{"role": "user", "content": "hello"}]
    with client.beta.messages.stream(**request) as stream:
        kinds = {event.type for event in stream}
        streamed = stream.get_final_message()
    # `stream` is part of the request, so ids and signatures, made from its digest, are not compared.
    assert [block.type for block in streamed.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert streamed.content[0].signature == whole.content[0].signature
    assert streamed.content[1].text == whole.content[1].text
    assert [block.input for block in streamed.content[2:]] == [call.input for call in calls]
    assert streamed.stop_reason == whole.stop_reason == "tool_use"
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert {"message_start", "content_block_start", "content_block_stop", "message_stop"} <= kinds


def test_a_tool_cycle_goes_round(standin, client):
    standin.script(Scripted(text="I look.", tool_calls=(ToolCall("read_file", {"path": "x"}),)))
    reply = ask(client, tools=[TOOL])
    result = {"type": "tool_result", "tool_use_id": reply.content[1].id, "content": "found"}
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": [result]},
    ]
    assert ask(client, messages=messages, tools=[TOOL]).stop_reason == "end_turn"


def test_a_script_waits_for_the_call_that_it_matches(standin, client):
    standin.script(Scripted(contains="special", text="for the special one"))
    assert ask(client).content[0].text != "for the special one"
    assert ask(client, "something special").content[0].text == "for the special one"


def test_a_request_marked_as_compaction_gets_a_summary_that_names_what_it_read(client):
    reply = ask(client, "transcript: edited src/importer.py for BUG-77", system="You do COMPACTION.")
    assert "src/importer.py" in reply.content[0].text
    assert "BUG-77" in reply.content[0].text
    assert reply.stop_reason == "end_turn"


def test_the_cache_of_one_account_is_not_read_by_another(standin, client):
    system = [{"type": "text", "text": "rule " * 4000, "cache_control": {"type": "ephemeral"}}]
    ask(client, system=system)
    with client_of(standin, "other") as other:
        assert ask(other, system=system).usage.cache_read_input_tokens == 0
    assert [call.api_key for call in standin.ledger()] == ["test", "other"]


def test_a_count_is_what_the_same_request_is_billed(standin, client):
    messages = [{"role": "user", "content": "count me " * 50}]
    counted = client.beta.messages.count_tokens(model="claude-haiku-5-5", messages=messages).input_tokens
    assert counted == ask(client, messages=messages).usage.input_tokens
    assert [call.kind for call in standin.ledger()] == ["count", "message"]


def test_rate_limit_headers_come_with_an_answer(client):
    request: dict[str, Any] = {
        "model": "claude-haiku-5-5",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "x"}],
    }
    headers = client.beta.messages.with_raw_response.create(**request).headers
    assert int(headers["anthropic-ratelimit-requests-remaining"]) > 0
    assert headers["anthropic-ratelimit-input-tokens-reset"].endswith("Z")
    assert headers["request-id"].startswith("req_")


def test_a_model_says_whether_it_compacts(client):
    supported = client.beta.models.retrieve("claude-haiku-5-5").capabilities.compaction.summarize.supported
    older = client.beta.models.retrieve("claude-haiku-4-5").capabilities.compaction.summarize.supported
    assert (supported, older) == (True, False)


def test_the_first_byte_waits_as_long_as_scripted(standin, client):
    standin.script(Scripted(first_byte_s=0.15))
    ask(client)
    assert last_call(standin).seconds >= 0.15


def test_the_ledger_keeps_the_body_of_a_call_and_forgets_on_reset(standin, client):
    ask(client, "remember me")
    call = standin.ledger("message")[-1]
    assert standin.request(call.n)["messages"][0]["content"] == "remember me"
    standin.reset_ledger()
    assert standin.ledger() == []


def test_many_calls_are_served_at_once_over_kept_connections(standin, client):
    standin.script(Scripted(first_byte_s=0.2, times=20))
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda at: ask(client, f"call {at}"), range(20)))
    assert len({reply.content[0].text for reply in replies}) == 20
    calls = standin.ledger()
    assert max(call.at_unix_s for call in calls) - min(call.at_unix_s for call in calls) < 2
