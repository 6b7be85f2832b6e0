"""The server side's wrappers, on a real server: what they make of what is there and what should not be."""

import os
import zlib
from collections.abc import Iterator

import pytest
import redis

from foldahead import keys
from foldahead.calls import MAX_BODY_BYTES
from foldahead_worker.figures import Counts
from foldahead_worker.inbox import GROUP, Inbox
from foldahead_worker.switchboard import MAX_EVENTS, Switchboard
from tests.correspondence import Scribe, a_ready, a_record
from tests.integration.redis_room.calling import publish, with_bodies, with_records


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def switchboard(client: "redis.Redis", redis_url: str, request: pytest.FixtureRequest) -> Iterator[Switchboard]:
    with redis.Redis.from_url(redis_url, protocol=request.param) as own:
        yield Switchboard(own)


@pytest.fixture
def scribe() -> Scribe:
    return Scribe(due_in_s=0).say("one", "two", "three")


def test_a_server_that_lost_the_library_gets_it_again(client, switchboard, scribe):
    publish(client, scribe)
    client.function_flush()
    assert switchboard.ready(scribe.member, a_ready())


def test_a_session_can_be_looked_at_whether_it_is_armed_or_not(client, switchboard, scribe):
    scribe.due_in_s = None
    publish(client, scribe, 7)
    seen = switchboard.armed.look(scribe.member)
    assert seen is not None
    assert (seen.n, seen.standing) == (7, scribe.standing())
    assert switchboard.armed.look("acme/other") is None


@pytest.mark.parametrize(
    ("flag", "stored"),
    [
        (b"\1", b"no zlib"),
        (b"\1", zlib.compress(b"cut off" * 100)[:-9]),
        (b"\1", zlib.compress(bytes(MAX_BODY_BYTES + 1))),
        (b"\7", b"an unknown flag"),
    ],
)
def test_a_damaged_body_ends_the_list_before_it(client, switchboard, scribe, flag: bytes, stored: bytes):
    bodies = [(head, b"\0", body) for head, body in scribe.stored()]
    bodies[1] = (bodies[1][0], flag, stored)
    publish(client, scribe, bodies_from=0, head_before=scribe.heads[0], bodies=bodies)
    assert switchboard.bodies(scribe.member)[2] == scribe.stored()[:1]


def test_bodies_of_a_session_without_any_are_an_empty_list(client, switchboard, scribe):
    assert switchboard.bodies(scribe.member) == (0, b"", [])
    assert switchboard.bodies(scribe.member, 5) == (5, b"", [])


def test_forged_heads_come_back_as_they_are_for_the_caller_to_find_out(client, switchboard, scribe):
    scribe.heads[2] = bytes(32)
    publish(client, scribe, **with_bodies(scribe))
    assert [head for head, _ in switchboard.bodies(scribe.member)[2]] == scribe.heads[1:]


def test_an_entry_is_given_to_one_watcher_until_it_is_acknowledged(client, switchboard, scribe):
    publish(client, scribe, **with_records(a_record()))
    [entry] = switchboard.inbox.read("one", 10, 50)
    assert switchboard.inbox.read("two", 10, 50) == []
    assert switchboard.figures.counts().inbox_pending == 1
    switchboard.inbox.acknowledge([entry.entry_id])
    assert switchboard.figures.counts().inbox_pending == 0


def test_what_a_dead_watcher_left_lying_goes_to_another(client, switchboard, scribe):
    publish(client, scribe, **with_records(a_record()))
    [entry] = switchboard.inbox.read("dead", 10, 50)
    client.xclaim(keys.INBOX_STREAM, GROUP, "dead", 0, [entry.entry_id], idle=61_000, justid=True)
    assert switchboard.inbox.read("alive", 10, 50) == [entry]


def test_reports_from_before_the_first_watcher_are_read_too(client, switchboard, scribe):
    publish(client, scribe, events=[(1, b'"early"')])
    assert switchboard.figures.counts().inbox_lag == 1
    assert [entry.data for entry in switchboard.inbox.read("w", 10, 50)] == [b'"early"']


def test_an_empty_inbox_is_waited_for_no_longer_than_asked(client, switchboard):
    assert switchboard.inbox.read("w", 10, 1) == []
    assert Inbox(client).counts().entries == 0


def test_an_entry_of_an_unknown_kind_is_left_to_a_newer_watcher(client, switchboard, scribe):
    publish(client, scribe, events=[(1, b"{}")])
    client.xadd(keys.INBOX_STREAM, {"kind": "tomorrow", "member": "a/b", "id": "", "data": ""})
    assert [entry.kind for entry in switchboard.inbox.read("w", 10, 50)] == ["event"]
    assert switchboard.figures.counts().inbox_pending == 2


def test_the_stream_of_events_is_capped(client, switchboard):
    pipeline = client.pipeline(transaction=False)
    for _ in range(MAX_EVENTS + 500):
        pipeline.xadd(keys.EVENTS_STREAM, {"event": "{}"})
    pipeline.execute()
    switchboard.add_event(b'{"last":1}')
    assert client.xlen(keys.EVENTS_STREAM) < MAX_EVENTS + 200
    [(_, fields)] = client.xrevrange(keys.EVENTS_STREAM, count=1)
    assert fields == {b"event": b'{"last":1}'}


def test_the_counts_say_what_waits_where(client, switchboard, scribe):
    assert switchboard.figures.counts() == Counts(armed=0, restores=0, inbox=0, inbox_lag=0, inbox_pending=0, events=0)
    publish(client, scribe, events=[(1, b"{}")])
    switchboard.add_event(b"{}")
    assert switchboard.figures.counts() == Counts(armed=1, restores=0, inbox=1, inbox_lag=1, inbox_pending=0, events=1)


def test_restored_summaries_and_records_stay_within_their_bounds(client, switchboard, scribe):
    ready = [a_ready(os.urandom(8).hex(), end) for end in range(1, 30)]
    switchboard.restore(scribe.member, None, ready, [])
    assert client.hlen(keys.ready(scribe.member)) == 8
