"""Whatever somebody with an agent's rights writes into Redis, the service goes on with everybody else's sessions."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from foldahead import Foldahead, keys, wire
from foldahead.calls import Publish, publish_call
from foldahead_worker.store.events import events_after
from tests.conversations import POLICY, opening, take_turns
from tests.services import Services, running_services
from tests.waiting import wait_until

HUGE = 2**62


@pytest.fixture
def services(redis_url: str, store_url: str) -> Iterator[Services]:
    """Fails when a round of any loop failed."""
    with running_services(redis_url, store_url) as running:
        yield running


def standing(**changes: Any) -> bytes:
    """A standing as somebody may write it who does not use our code: nothing in it was looked at."""
    values: dict[str, Any] = {
        "dialect": "anthropic",
        "policy": msgspec.to_builtins(POLICY),
        "messages": 20,
        "head": b"h" * 32,
        "turns": 9,
        "turn_id": "9",
        "pending_tokens": 2_900,
        "prefix_tokens": 10,
        "tail_tokens": 500,
        "growth_tokens": 200.0,
        "interval_s": 5.0,
        "offer": offer(),
    }
    return msgspec.msgpack.encode((wire.WIRE_VERSION, values | changes))


def offer(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "start": 0,
        "end": 14,
        "head_start": b"a" * 32,
        "head_end": b"b" * 32,
        "span_estimate_tokens": 2_300,
        "span_tokens": 2_300,
    }
    return values | changes


def policy(**changes: Any) -> dict[str, Any]:
    return msgspec.to_builtins(POLICY) | changes


def publish(services: Services, state: bytes, member: str = "evil/s") -> None:
    call = publish_call(
        Publish(
            member=member,
            incarnation="i" * 32,
            n=1,
            standing=state,
            messages=20,
            head=b"h" * 32,
            due_ms=0,
            upload=False,
        )
    )
    services.client.execute_command(*call.command)


def an_honest_session_is_served(services: Services, redis_url: str) -> None:
    fold = Foldahead(redis_url)
    session = fold.session("honest", policy=POLICY)
    history = opening()
    take_turns(session, services.client, 14, history)
    assert len(session.view(history)) < len(history)
    assert session.flush(5)
    fold.close()
    wait_until(lambda: any(row.kind == "session.swapped" for row in events_after(services.store, workspace="default")))


EVIL_ENTRIES: list[dict[Any, Any]] = [
    {"kind": "record"},
    {"kind": "event", "member": b"\xff\xfe", "id": "x", "data": "{}"},
    {"kind": "event", "member": "evil/s", "id": "x", "data": b"\xff\x00"},
    {"kind": "event", "member": "evil/s", "id": "x", "data": "[" * 10_000},
    {
        "kind": "event",
        "member": "evil/s",
        "id": "x",
        "data": '{"type": "a\\u0000b", "workspace": "w", "created_at_ms": 1, "payload": {}}',
    },
    {
        "kind": "event",
        "member": "evil/s",
        "id": "x",
        "data": '{"type": "session.swapped", "workspace": "w", "created_at_ms": 1, "payload": '
        '{"watermark_after": 12345678901234567890123, "waited_turns": -5, "cache_key": "\\u0000\\ud83d\\ude00"}}',
    },
    {"kind": "event", "member": "e" * 100_000, "id": "x", "data": "{}"},
    {"kind": "record", "member": "evil/s", "id": b"\xff" * 16, "data": ""},
    {"kind": "record", "member": "evil%00/s%00", "id": b"\x00", "data": ""},
    {"kind": "forget", "member": "no slash at all", "id": "", "data": ""},
    {"kind": b"\xff", "member": "evil/s", "id": "", "data": ""},
]


@pytest.mark.parametrize("entry", EVIL_ENTRIES, ids=range(len(EVIL_ENTRIES)))
def test_a_report_that_is_none_stops_no_other(services: Services, redis_url: str, entry: dict[Any, Any]) -> None:
    services.client.xadd(keys.INBOX_STREAM, entry)
    an_honest_session_is_served(services, redis_url)


STATES: dict[str, bytes] = {
    "no msgpack": b"\xc1",
    "another struct": msgspec.msgpack.encode((wire.WIRE_VERSION, offer())),
    "another version": msgspec.msgpack.encode((99, {})),
    "deep": b"\x91" * 50_000,
    "huge numbers": standing(
        messages=HUGE, turns=HUGE, pending_tokens=HUGE, tail_tokens=HUGE, offer=offer(end=HUGE, span_tokens=HUGE)
    ),
    "numbers too large for a column": standing(messages=2**40, offer=offer(start=2**33, end=2**34)),
    "negative numbers": standing(
        messages=-1, pending_tokens=5_000, tail_tokens=-HUGE, offer=offer(start=-5, end=-1, span_tokens=-1)
    ),
    "a span that ends before it begins": standing(offer=offer(start=10, end=2)),
    "heads of any length": standing(offer=offer(head_end=b"x" * 100_000)),
    "no heads": standing(offer=offer(head_end=b"")),
    "not a number": standing(growth_tokens=float("nan"), interval_s=float("inf")),
    "a name with a NUL": standing(turn_id="a\0b", dialect="\0", model="\0"),
    "a long turn": standing(turn_id="t" * 200_000),
    "no dialect of ours": standing(dialect="esperanto"),
    "endless money": standing(policy=policy(max_cost_per_session_usd=1e300)),
    "infinite money": standing(policy=policy(max_cost_per_session_usd=float("inf"))),
    "endless attempts": standing(policy=policy(max_attempts=HUGE)),
}


@pytest.mark.parametrize("name", STATES)
def test_a_standing_that_is_none_stops_no_other(services: Services, redis_url: str, name: str) -> None:
    publish(services, STATES[name])
    an_honest_session_is_served(services, redis_url)


@pytest.mark.parametrize("member", [b"\xff\xfe", b"", b"no slash", b"%ff%fe/%00", b"m" * 200_000])
def test_a_member_that_is_none_stops_no_other(services: Services, redis_url: str, member: bytes) -> None:
    services.client.zadd(keys.armed(0), {member: 1})
    services.client.sadd(keys.RESTORE_SET, member)
    an_honest_session_is_served(services, redis_url)
