"""The request for a `native` summary: what is sent, and what it may cost at most."""

from typing import Any

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.envelope import Envelope
from foldahead.core.ledger import ledger_of
from foldahead.core.models import PICO_PER_USD, find_model
from foldahead.core.policy import Policy
from foldahead_worker.standin import rules
from foldahead_worker.summarizers.accounts import Account, Providers, Secret
from foldahead_worker.summarizers.asking import Room
from foldahead_worker.summarizers.clients import Clients
from foldahead_worker.summarizers.native import NativeSummarizer, body_of, sendable
from foldahead_worker.summarizers.protocol import Forecast, Span
from tests.histories import rounds, text, user
from tests.stores import a_request
from tests.unit.test_native import thoughtful

ANTHROPIC = get_dialect("anthropic")
TOOLS = [{"name": "read_file", "input_schema": {"type": "object"}}]


def a_span(history: list[Any], envelope: Envelope | None = None, **changes: Any) -> Span:
    request = a_request(kind="native", start=0, message_count=len(history), **changes)
    messages = tuple(ANTHROPIC.read(message, at) for at, message in enumerate(history))
    return Span(
        request=request, messages=messages, originals=tuple(history), envelope=envelope or Envelope(tools=TOOLS)
    )


class Deaf:
    """A `Watch` that nobody asks."""

    def report(self, *args: Any, **kwargs: Any) -> None: ...


def forecast(span: Span) -> Forecast:
    account = Account(name="a", provider="anthropic", key=Secret("k"))
    return NativeSummarizer(account, Clients(Providers()), Deaf()).forecast(span)


@pytest.mark.parametrize("keeps_thinking", [True, False])
def test_a_compaction_request_without_thinking_does_not_ask_that_a_tool_turn_begins_with_it(
    keeps_thinking: bool,
) -> None:
    envelope = Envelope(tools=TOOLS, thinking={"type": "enabled", "budget_tokens": 1_024})
    span = a_span(thoughtful(4)[:9], envelope, model="anthropic:claude-opus-4-6", keeps_thinking=keeps_thinking)
    model = find_model(span.request.model)
    assert model is not None
    room = Room(name="claude-opus-4-6", model=model, transcript_tokens=100_000, max_tokens=8_000)
    assert rules.faults(body_of(span, room, envelope, sendable(span))) == []


@pytest.mark.parametrize(
    ("model", "thousands", "cents"),
    [("haiku-5-5", 30, 1), ("haiku-5-5", 80, 10), ("sonnet-5-5", 30, 17), ("sonnet-5-5", 80, 37), ("opus-5-5", 30, 33)],
)
def test_what_is_reserved_is_one_request_with_nothing_of_it_cached(model: str, thousands: int, cents: int) -> None:
    history = [*rounds(1)[:-1], user(text("So it was. " * (thousands * 318)))]
    span = a_span(history, model=f"anthropic:claude-{model}")
    assert thousands * 990 < ledger_of(history, ANTHROPIC).tokens[-1] < thousands * 1_010
    reserved = forecast(span).picodollars / PICO_PER_USD
    assert cents - 1.5 < 100 * reserved < cents
    assert (reserved < Policy().max_cost_per_session_usd) == (cents < 20)


def test_thinking_that_is_left_out_is_not_paid_for() -> None:
    history = thoughtful(10)[:17]
    with_thinking, without = (forecast(a_span(history, keeps_thinking=keeps)) for keeps in (True, False))
    assert without.picodollars < with_thinking.picodollars


def test_instructions_are_paid_for() -> None:
    history = rounds(4)[:9]
    assert forecast(a_span(history, instructions="Keep it.")).picodollars > forecast(a_span(history)).picodollars
