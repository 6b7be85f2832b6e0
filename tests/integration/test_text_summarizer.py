"""`text`: the real SDK asks the stand-in; what is sent, what becomes of long spans, when it stops."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from foldahead.core.messages import Message, Text
from foldahead.core.models import MODELS, find_model
from foldahead_worker.settings import Settings
from foldahead_worker.standin import RunningStandIn, Scripted, ToolCall
from foldahead_worker.summarizers.protocol import Interrupted, SummarizerError
from foldahead_worker.summarizers.text import TextSummarizer
from tests.claude import (
    After,
    Never,
    a_span,
    agent,
    claude_services,
    ended_job,
    settings,
    talk,
    text_summarizer,
    texts,
)
from tests.standins import last_call

pytest_plugins = ["tests.standin_fixtures"]
__all__ = ["settings"]

HAIKU = MODELS["claude-haiku-5-5"]


@pytest.fixture
def summarizer(settings: Settings) -> Iterator[TextSummarizer]:
    with text_summarizer(settings) as made:
        yield made


def last_request(standin: RunningStandIn) -> dict[str, Any]:
    return standin.request(last_call(standin).n)


def test_a_session_gets_a_summary_that_a_model_wrote(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(text="The user wants the parts read, and never touches prod."))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        assert ended_job(services.store)["state"] == "done"
        assert texts(services.store)[0].startswith("The user wants the parts read")


def test_the_mechanical_index_stands_behind_what_the_model_wrote(settings: Settings, standin: RunningStandIn) -> None:
    standin.script(Scripted(text="The user wants the parts read."))
    with claude_services(settings) as services, agent(settings) as process:
        process.grown()
        ended_job(services.store)
        assert "src/part_3.py" in texts(services.store)[0]


def test_no_tools_and_no_thinking_budget_are_sent(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    summarizer.summarise(a_span(talk(3)), Never())
    assert last_request(standin).keys() == {
        "model", "max_tokens", "messages", "system", "stream", "output_config"
    }  # fmt: skip


def test_thinking_is_cheap_and_has_room_of_its_own(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    summarizer.summarise(a_span(talk(3), max_tokens=4_096), Never())
    assert last_request(standin)["output_config"] == {"effort": "low"}
    assert last_request(standin)["max_tokens"] == 4_096 + 2_048


def test_a_model_that_takes_no_effort_is_sent_none(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    summarizer.summarise(a_span(talk(3), model="anthropic:claude-haiku-4-5", max_tokens=4_096), Never())
    assert "output_config" not in last_request(standin)
    assert last_request(standin)["max_tokens"] == 4_096


def test_thinking_in_the_answer_is_not_in_the_summary(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(thinking="what matters here?", text="The user wants it blue."))
    assert summarizer.summarise(a_span(talk(3)), Never()).text == "The user wants it blue."


def test_a_tool_call_in_the_answer_is_said(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(tool_calls=(ToolCall("read_file", {}),)))
    assert summarizer.summarise(a_span(talk(3)), Never()).stop_reason == "tool_use"


def test_the_cost_is_what_the_standin_billed(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    answer = summarizer.summarise(a_span(talk(3)), Never())
    call = last_call(standin)
    assert HAIKU.price is not None
    assert answer.cost.picodollars == call.input_tokens * 100_000 + call.output_tokens * 500_000


def test_a_parent_is_folded_in(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    summarizer.summarise(a_span(talk(3), "Earlier, the user chose blue."), Never())
    sent = last_request(standin)["messages"][0]["content"]
    assert sent.index("Earlier, the user chose blue.") < sent.index("question 0")


def test_instructions_of_the_policy_reach_the_model(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    summarizer.summarise(a_span(talk(3), instructions="Mention every ticket."), Never())
    assert "Mention every ticket." in last_request(standin)["system"]


def test_the_mark_around_the_transcript_is_unknown_to_its_writers(
    summarizer: TextSummarizer, standin: RunningStandIn
) -> None:
    summarizer.summarise(a_span(talk(3)), Never())
    first = last_request(standin)["messages"][0]["content"].splitlines()[0]
    summarizer.summarise(a_span(talk(4)), Never())
    assert first != last_request(standin)["messages"][0]["content"].splitlines()[0]


def test_a_long_span_is_read_in_leaves_in_the_cheap_band(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    answer = summarizer.summarise(a_span(talk(150, words=2_800)), Never())
    calls = standin.ledger("message")
    assert len(calls) > 2
    assert max(call.input_tokens for call in calls) <= HAIKU.band_tokens
    assert answer.cost.input_tokens == sum(call.input_tokens for call in calls)


def test_the_leaves_together_hold_every_turn_once(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    summarizer.summarise(a_span(talk(150, words=2_800)), Never())
    sent = [standin.request(call.n)["messages"][0]["content"] for call in standin.ledger("message")]
    assert all(sum(f"user: question {at}\n" in text for text in sent) == 1 for at in range(150))


def test_a_parent_comes_first_among_the_notes_of_leaves(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    summarizer.summarise(a_span(talk(60, words=2_800), "Earlier, the user chose blue."), Never())
    assert "[part 1]\nEarlier, the user chose blue." in last_request(standin)["messages"][0]["content"]


def test_a_leaf_that_was_refused_makes_no_summary(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(stop_reason="refusal", text="I cannot."))
    answer = summarizer.summarise(a_span(talk(60, words=2_800)), Never())
    assert answer.stop_reason == "refusal"


def test_a_message_that_fits_nowhere_keeps_both_ends(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    giant = Message("user", (Text("BEGINNING " + "x y z " * 200_000 + " END"),))
    summarizer.summarise(a_span([*talk(1), giant]), Never())
    sent = "".join(standin.request(call.n)["messages"][0]["content"] for call in standin.ledger("message"))
    assert "BEGINNING" in sent
    assert "END" in sent
    assert "characters of this message left out" in sent


def test_a_request_that_is_too_large_is_cut_finer(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(status=413))
    answer = summarizer.summarise(a_span(talk(20, words=1_400)), Never())
    assert answer.text
    assert len(standin.ledger("message")) >= 4  # the one that was refused, two leaves at least, their fold


def test_the_forecast_covers_all_calls_of_one_answer(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    for span in (
        a_span(talk(3)),
        a_span(talk(150, words=2_800)),
        a_span([Message("user", (Text("漢字" * 9_000),))]),
    ):
        once = summarizer.summarise(span, Never()).cost.picodollars
        assert once <= summarizer.forecast(span).picodollars


def test_what_the_forecast_rendered_is_asked_and_the_retry_is_made_anew(
    summarizer: TextSummarizer, standin: RunningStandIn
) -> None:
    span = a_span(talk(3))
    forecast = summarizer.forecast(span)
    rendered = structs.replace(span, prompts=forecast.prompts)
    summarizer.summarise(rendered, Never())
    assert last_request(standin)["system"] == forecast.prompts[0].system
    assert last_request(standin)["messages"][0]["content"] == forecast.prompts[0].user
    summarizer.summarise(structs.replace(rendered, tighter=True), Never())
    assert last_request(standin)["system"] != forecast.prompts[0].system


def test_a_silent_stream_is_left_within_a_second(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(first_byte_s=20.0))
    begun_s = time.monotonic()
    with pytest.raises(Interrupted, match="deadline"):
        summarizer.summarise(a_span(talk(3)), After(0.3))
    assert time.monotonic() - begun_s < 1.3


def test_a_stream_that_writes_on_is_left_within_a_second(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(text_tokens=800, per_token_s=0.02))
    begun_s = time.monotonic()
    with pytest.raises(Interrupted, match="deadline"):
        summarizer.summarise(a_span(talk(3)), After(0.5))
    assert time.monotonic() - begun_s < 1.5


def test_the_provider_notices_that_nobody_listens(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(text_tokens=800, per_token_s=0.02))
    with pytest.raises(Interrupted):
        summarizer.summarise(a_span(talk(3)), After(0.5))
    assert last_call(standin).outcome == "broken"


def test_what_an_open_call_may_cost_counts_when_it_is_left(summarizer: TextSummarizer, standin: RunningStandIn) -> None:
    standin.script(Scripted(text_tokens=800, per_token_s=0.02))
    with pytest.raises(Interrupted) as stop:
        summarizer.summarise(a_span(talk(3)), After(0.5))
    call = last_call(standin)
    assert stop.value.cost.picodollars >= call.input_tokens * 100_000 + call.output_tokens * 500_000


def test_a_model_without_a_price_is_an_error_that_says_what_to_do(summarizer: TextSummarizer) -> None:
    with pytest.raises(SummarizerError, match="FOLDAHEAD_MODELS_FILE"):
        summarizer.forecast(a_span(talk(3), model="anthropic:claude-nova-9"))


def test_every_model_of_the_sdk_is_known() -> None:
    from typing import get_args

    from anthropic.types import ModelParam

    names = [name for part in get_args(ModelParam) for name in get_args(part)]
    assert len(names) > 20
    assert not [name for name in names if find_model(name) is None]
    assert MODELS.keys() >= {"claude-haiku-5-5"}
