"""How the stand-in refuses, breaks and cuts off, with the real SDK as its client."""

import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx2
import pytest

from foldahead_worker.standin import Options, Scripted, start_standin
from tests.standins import TOOL, ask, client_of, last_call

pytest_plugins = ["tests.standin_fixtures"]


def test_a_refused_request_gives_the_error_of_the_api_and_names_the_place(standin, client):
    orphan = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "x"}]}
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, messages=[orphan], tools=[TOOL])
    assert caught.value.type == "invalid_request_error"
    said = "messages[0].content[0]: tool_result for 'toolu_9' has no tool_use in the message before"
    assert caught.value.api_message == said
    call = last_call(standin)
    assert (call.status, call.outcome, call.faults) == (400, "refused", (said,))
    assert call.input_tokens == 0


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (402, anthropic.PaymentRequiredError, "billing_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (408, anthropic.RequestTimeoutError, "timeout_error"),
        (413, anthropic.ContentTooLargeError, "request_too_large"),
        (422, anthropic.UnprocessableEntityError, "invalid_request_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.OverloadedError, "overloaded_error"),
    ],
)
def test_a_scripted_status_becomes_the_error_class_of_the_sdk(standin, client, status, error, kind):
    standin.script(Scripted(status=status, retry_after_s=7200))
    with pytest.raises(error) as caught:
        ask(client)
    assert caught.value.type == kind
    assert caught.value.response.headers["retry-after"] == "7200"
    assert ask(client).stop_reason == "end_turn"


def test_a_scripted_error_code_reaches_the_caller(standin, client):
    standin.script(Scripted(status=429, error_code="enforced_spend_limit_reached"))
    with pytest.raises(anthropic.RateLimitError) as caught:
        ask(client)
    assert caught.value.error_code == "enforced_spend_limit_reached"


def test_a_stream_may_break_midway_and_is_billed_all_the_same(standin, client):
    standin.script(Scripted(text="word " * 400, break_after_events=6))
    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError, anthropic.APIConnectionError)):
        list(ask(client, stream=True))
    call = last_call(standin)
    assert (call.status, call.outcome) == (200, "broken")
    assert call.output_tokens > 0


def test_a_200_may_carry_an_error_event(standin, client):
    standin.script(Scripted(text="word " * 400, error_after_events=5))
    seen: list[Any] = []
    with pytest.raises(anthropic.APIStatusError) as caught:
        seen.extend(ask(client, stream=True))
    assert caught.value.type == "overloaded_error"
    assert [event.type for event in seen][:2] == ["message_start", "content_block_start"]


def test_a_response_that_is_not_streamed_may_break_too(standin, client):
    standin.script(Scripted(break_after_events=0))
    with pytest.raises(anthropic.APIConnectionError):
        ask(client)


@pytest.mark.parametrize(
    ("scripted", "texts", "stop_reason"),
    [
        (Scripted(text=""), [""], "end_turn"),
        (Scripted(no_content=True), [], "end_turn"),
        (Scripted(text="half a sen", stop_reason="max_tokens"), ["half a sen"], "max_tokens"),
        (Scripted(text="No.", stop_reason="refusal"), ["No."], "refusal"),
    ],
)
def test_odd_answers_come_as_scripted(standin, client, scripted, texts, stop_reason):
    standin.script(scripted)
    reply = ask(client)
    assert [block.text for block in reply.content] == texts
    assert reply.stop_reason == stop_reason
    assert (reply.stop_details is not None) == (stop_reason == "refusal")


def test_an_answer_is_cut_at_max_tokens(standin, client):
    standin.script(Scripted(text_tokens=500))
    reply = ask(client, max_tokens=100)
    assert reply.stop_reason == "max_tokens"
    assert reply.usage.output_tokens <= 102


def test_a_breakpoint_is_written_once_and_then_read(standin, client):
    system = [{"type": "text", "text": "rule " * 4000, "cache_control": {"type": "ephemeral"}}]
    first, second = ask(client, system=system), ask(client, "other", system=system)
    written = first.usage.cache_creation_input_tokens
    assert written > 5000
    assert first.usage.cache_read_input_tokens == 0
    assert second.usage.cache_read_input_tokens == written
    assert second.usage.cache_creation_input_tokens == 0
    assert first.usage.input_tokens < 20


def test_a_breakpoint_below_the_minimum_is_not_written(client):
    system = [{"type": "text", "text": "short", "cache_control": {"type": "ephemeral"}}]
    assert ask(client, system=system).usage.cache_creation_input_tokens == 0


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(anthropic.NotFoundError):
        ask(client, model="claude-nobody-1")
    with pytest.raises(anthropic.NotFoundError):
        client.beta.models.retrieve("claude-nobody-1")


def test_a_prompt_beyond_the_window_is_too_long(client):
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: .* > 200000 maximum"):
        ask(client, "word " * 200_000, model="claude-haiku-4-5")


def test_a_body_over_32_megabytes_is_too_large(client):
    with pytest.raises(anthropic.ContentTooLargeError) as caught:
        ask(client, "x" * (33 * 1024 * 1024))
    assert caught.value.type == "request_too_large"


def test_an_unknown_key_is_refused_where_keys_are_known():
    with start_standin(Options(api_keys=("good",))) as running:
        for key, is_known in (("good", True), ("bad", False)):
            with client_of(running, key) as made:
                if is_known:
                    assert ask(made).stop_reason == "end_turn"
                else:
                    with pytest.raises(anthropic.AuthenticationError):
                        ask(made)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"model": "\xff"}', "not valid UTF-8"),
        (b'{"model": "m", "max_tokens": NaN}', "not valid JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (
            b'{"model": "claude-haiku-5-5", "max_tokens": 5, "messages": [{"role": "user", "content": "\\ud83d"}]}',
            "messages[0].content: not valid UTF-8: lone surrogate at character 0",
        ),
    ],
)
def test_a_body_that_is_no_proper_json_is_refused(standin, body, said):
    connection = HTTPConnection(urlsplit(standin.url).netloc, timeout=10)
    headers = {"x-api-key": "test", "anthropic-version": "2026-10-21", "content-type": "application/json"}
    connection.request("POST", "/v1/messages", body=body, headers=headers)
    response = connection.getresponse()
    answer = json.load(response)
    connection.close()
    assert response.status == 400
    assert said in answer["error"]["message"]


def test_stopping_ends_the_process():
    running = start_standin()
    running.stop()
    running.stop()
    assert not running.is_alive()
