"""The request for a `native` summary: what is sent, and what it may cost at most."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foldahead.core.conversation import Conversation, Moment
from foldahead.core.decide import Means, request_for
from foldahead.core.dialects import get_dialect
from foldahead.core.envelope import Envelope
from foldahead.core.ledger import ledger_of
from foldahead.core.models import PICO_PER_USD, find_model
from foldahead.core.policy import Policy
from foldahead.core.standing import Ready
from foldahead_worker.delivery import ready_from
from foldahead_worker.standin import rules
from foldahead_worker.store.summaries import new_summary
from foldahead_worker.summarizers.accounts import Account, Providers, Secret
from foldahead_worker.summarizers.asking import Room
from foldahead_worker.summarizers.clients import Clients
from foldahead_worker.summarizers.native import NativeSummarizer, body_of, sendable
from foldahead_worker.summarizers.protocol import Forecast, Span
from tests.histories import rounds, text, user
from tests.stores import a_request
from tests.unit.test_native import BLOCK, MODEL, POLICY, conversation, thoughtful, thoughts_in

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


class Blocks:
    """Summaries for a conversation as it stands, and what each native one was asked with."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Any]] = {}
        self._blocks: dict[str, bytes] = {"": b""}

    def summarised(self, cache_key: str, shown: Any) -> list[Any]:
        """The messages that a block stands for, from the block on that is shown; others stand for theirs."""
        asked = self.asked[cache_key]
        parents = [
            key for key, block in self._blocks.items() if key and asked[0]["content"] == [msgspec.json.decode(block)]
        ]
        if not parents or asked[0] == shown:
            return asked
        return [*self.summarised(parents[0], shown), *asked[1:]]

    def made(self, talk: Conversation, history: list[Any], kind: Any) -> Ready | None:
        standing = talk.standing()
        if standing.offer is None or (kind == "native" and not standing.envelope):
            return None
        means = Means(kind=kind, model=f"anthropic:{MODEL}", prompt_version="1", summary_s=1.0)
        request = request_for(standing, standing.offer, "w", talk.policy, means)
        block = b""
        if kind == "native":
            parent = self._blocks[request.parent]
            originals = tuple(history[request.first : request.end])
            span = Span(request=request, messages=(), originals=originals, parent_block=parent)
            self.asked[request.cache_key] = sendable(span)
            block = msgspec.json.encode(BLOCK | {"content": f"Block {len(self.asked)}."})
            self._blocks[request.cache_key] = block
        summary = new_summary(
            request, text="So.", block=block, span_tokens=9, summary_tokens=1, cost_picodollars=0, now_ms=0
        )
        return ready_from(summary)


EVENTS = ("native", "native", "native, late", "text", "arrives", "envelope", "envelope", "mode", "nothing")


def arrive(talk: Conversation, late: list[Ready]) -> None:
    for ready in late:
        talk.add_ready(ready)
    late.clear()


def steps_of(*events: str) -> list[tuple[int, str]]:
    return [(3, event) for event in events]


@example(steps=steps_of("native", "native, late", "mode", "mode", "nothing", "arrives", "nothing"))
@example(steps=steps_of("native", "native, late", "envelope", "envelope", "native", "nothing"))
@given(steps=st.lists(st.tuples(st.integers(1, 3), st.sampled_from(EVENTS)), min_size=3, max_size=12))
def test_thinking_stays_behind_a_block_only_where_that_stands_for_just_what_was_sent(steps: Any) -> None:
    talk, blocks = conversation(msgspec.structs.replace(POLICY, threshold_tokens=1)), Blocks()
    history, late = thoughtful(3), list[Ready]()
    for now_ms, (count, event) in enumerate(steps):
        history = [*history, *thoughtful(count)[1:]]
        talk.observe(history)
        sent, known = talk.shown(history), len(talk.records)
        view = talk.view(history, Moment(forced=True, now_ms=now_ms))
        shown = talk.plan.summary
        loses = any(record.kind == "thinking_removed" for record in talk.records[known:])
        if shown is not None and shown.kind == "native" and not loses and thoughts_in(view):
            assert sent == [*blocks.summarised(shown.cache_key, sent[0]), *view[1:]]
        if event == "mode":
            talk.policy = msgspec.structs.replace(talk.policy, mode="on" if talk.policy.mode == "off" else "off")
        elif event == "envelope":
            talk.envelope = "e2" if talk.envelope == "e1" else "e1"
        if event in ("native", "text", "arrives"):
            arrive(talk, late)
        if event in ("native", "native, late", "text"):
            ready = blocks.made(talk, history, event[:6])
            late += [ready] if ready is not None else []
        if event in ("native", "text"):
            arrive(talk, late)


@pytest.mark.parametrize("change", ["text", "envelope"])
def test_thinking_that_went_once_is_no_loss_to_the_blocks_that_follow(change: str) -> None:
    talk, blocks, history = conversation(), Blocks(), thoughtful(10)
    for kind in ("text" if change == "text" else "native", "native", "native"):
        talk.observe(history)
        ready = blocks.made(talk, history, kind)
        assert ready is not None
        talk.add_ready(ready)
        talk.view(history, Moment(forced=True))
        assert talk.active.spans[-1].cache_key == ready.cache_key
        if change == "envelope":
            talk.envelope, change = "e2", ""
            talk.view(history, Moment())
        history = [*history, *thoughtful(12)]
    assert not any(record.kind == "thinking_removed" for record in talk.plan.records)
    assert thoughts_in(talk.shown(history)) > 0


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
