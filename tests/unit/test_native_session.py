"""`native` summaries and a session: what it knows of its requests, and what it says that it can hand over."""

from typing import Any

import msgspec
import pytest

from benchmarks.sessions import SilentCarrier
from foldahead import wire
from foldahead.core.dialects import get_dialect
from foldahead.core.envelope import COMPACT_BETA, MAX_ENVELOPE_BYTES
from foldahead.core.policy import Policy
from foldahead.core.standing import Ready
from foldahead.outbox import Outbox
from foldahead.session import Session
from tests.histories import assistant, call, result, rounds, user
from tests.unit.test_canonical import looped, nested
from tests.unit.test_native import BLOCK, END, MODEL, POLICY

TEXT = msgspec.structs.replace(POLICY, kind="text")


def opened(policy: Policy = POLICY) -> tuple[Session, Outbox]:
    carrier = SilentCarrier()
    session = Session("s", "acme", get_dialect("anthropic"), policy, carrier)
    session.publish([])
    assert carrier.outbox is not None
    return session, carrier.outbox


def asked(session: Session, history: list[Any], system: str = "Be brief.") -> dict[str, Any]:
    return session.request(model=MODEL, max_tokens=9, system=system, messages=history)


def block_of(session: Session, history: list[Any]) -> Ready:
    """A block for the requests that the session makes."""
    session.publish(history)
    standing = session.standing
    assert standing.envelope
    assert standing.offer is not None
    return Ready(
        cache_key="k",
        kind="native",
        model=f"anthropic:{MODEL}",
        start=0,
        end=standing.offer.end,
        head_end=standing.offer.head_end,
        text="They worked.",
        block=msgspec.json.encode(BLOCK),
        envelope=standing.envelope,
        keeps_thinking=True,
        summary_tokens=5,
    )


def test_a_block_that_another_process_showed_is_looked_at_before_it_is_sent_with_another_system_prompt() -> None:
    first, told = opened()
    history = rounds(10)
    asked(first, history)
    told.receive(wire.Answer(known=True, ready=(block_of(first, history),)))
    assert COMPACT_BETA in asked(first, history)["betas"]
    for system, shows in (("Be brief.", True), ("Be long.", False)):
        second, heard = opened(TEXT)
        second.publish(history)
        heard.receive(wire.Answer(known=True, records=tuple(told.records())))
        assert (asked(second, history, system)["messages"][0]["role"] == "assistant") == shows


def test_a_turn_that_was_glanced_at_is_read_with_what_its_own_request_held() -> None:
    """What the next one holds makes the block be given up, and its span be waited for: from that turn on."""
    session, outbox = opened()
    history = rounds(10)
    asked(session, history)
    outbox.receive(wire.Answer(known=True, ready=(block_of(session, history),)))
    asked(session, history)
    history.append(assistant("Fine."))
    session.publish(history)
    history.append(user("Next."))
    asked(session, history)
    history += [assistant("Fine."), user("And?")]
    asked(session, history, "Be long.")
    assert session.plan.reason == "not_ready"
    given_up = msgspec.structs.replace(block_of(session, history), cache_key="t", kind="text", block=b"")
    outbox.receive(wire.Answer(known=True, ready=(given_up,)))
    outbox.take_events()
    asked(session, history, "Be long.")
    assert [msgspec.json.decode(event)["payload"]["waited_turns"] for event in outbox.take_events()] == [1]


def test_requests_that_nobody_looked_at_get_no_block_for_those_of_before() -> None:
    session, outbox = opened()
    history = rounds(10)
    asked(session, history)
    block = block_of(session, history)
    session.policy = TEXT
    history = [*history, assistant("Fine."), user("Next.")]
    asked(session, history, "Be long.")
    outbox.receive(wire.Answer(known=True, ready=(block,)))
    session.publish(history)
    assert asked(session, history, "Be long.")["messages"] is history


def test_a_session_with_a_message_that_cannot_be_handed_over_stops_asking_for_blocks_at_once() -> None:
    session, outbox = opened()
    odd = [assistant(call("odd", value=float("nan"))), user(result("odd"))]
    history = [*rounds(10)[:END], *odd, *rounds(10)[END:]]
    asked(session, history)
    session.publish(history)
    told = outbox.delta()
    assert told is not None
    assert told.standing.envelope
    stored = len(list(outbox.bodies(0)))
    assert stored < len(history)
    assert len(list(outbox.bodies(stored))) == len(history) - stored
    told = outbox.delta()
    assert told is not None
    assert told.standing.envelope == ""


@pytest.mark.parametrize("place", ["tools", "system", "thinking", "output_config"])
@pytest.mark.parametrize(
    "odd",
    [looped(), nested(5_000), 2**70, 10**5_000, float("nan"), "\ud83d", {(1, 2): 3}, b"\xff", object()],
    ids=["looped", "nested", "large", "huge", "nan", "surrogate", "tuple as a key", "bytes", "object"],
)
def test_a_request_with_a_value_that_no_provider_takes_is_left_to_the_provider(odd: Any, place: str) -> None:
    session, outbox = opened()
    history = rounds(10)
    given: dict[str, Any] = {
        "tools": [{"name": "t", "input_schema": odd}],
        "system": [{"type": "text", "text": odd, "content": [odd]}],
        "thinking": {"type": odd},
        "output_config": {"effort": odd},
    }
    request = {"model": MODEL, "messages": history, place: given[place]}
    assert session.request(**request)[place] is given[place]
    session.publish(history)
    told = outbox.delta()
    assert told is not None
    assert outbox.envelope(told.standing.envelope)


@pytest.mark.parametrize("odd", [looped(), nested(5_000), 10**5_000], ids=["looped", "nested", "huge"])
def test_a_message_with_a_value_that_no_provider_takes_silences_no_session(odd: Any) -> None:
    session, outbox = opened()
    history = [*rounds(10), assistant(call("odd", value=odd)), user(result("odd"))]
    assert asked(session, history)["messages"] is history
    session.publish(history)
    stored = len(list(outbox.bodies(0)))  # up to the message that JSON cannot hold, the rest in another form
    assert stored + len(list(outbox.bodies(stored))) == len(history)


@pytest.mark.parametrize(("size", "offers"), [(1_000, True), (MAX_ENVELOPE_BYTES + 1, False)])
def test_a_session_with_too_large_a_system_prompt_asks_for_no_blocks(size: int, offers: bool) -> None:
    session, outbox = opened()
    history = rounds(10)
    asked(session, history, "x" * size)
    session.publish(history)
    told = outbox.delta()
    assert told is not None
    assert bool(told.standing.envelope) == offers
