"""What watchers keep of what agents report: in the order it was made, once, and whoever else reports nonsense."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import redis

from foldahead import keys
from foldahead.calls import close_call, forget_call
from foldahead.core.events import SessionSwapped, envelope
from foldahead_worker.inbox import GROUP
from foldahead_worker.keeping import Keeper
from foldahead_worker.metrics import Metrics
from foldahead_worker.store import DatabaseUnreachable, Store
from foldahead_worker.store.engine import connect_store
from foldahead_worker.store.events import events_after
from foldahead_worker.store.jobs import job_still_wanted, want
from foldahead_worker.store.leases import fail
from foldahead_worker.store.records import RecordRow, append_records, records_of
from foldahead_worker.switchboard import Switchboard
from tests.correspondence import Scribe, a_record
from tests.integration.redis_room.calling import publish, redis_with_library, resume, with_records
from tests.stores import NOW_MS, a_request, a_want, leased, refuse_rows_of, summarised

RECORDS = tuple(a_record(at, at + 2) for at in range(0, 20, 2))


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis_with_library(redis_url) as client:
        yield client


@pytest.fixture
def switchboard(client: "redis.Redis") -> Switchboard:
    return Switchboard(client)


@pytest.fixture
def keeper(store: Store, switchboard: Switchboard) -> Keeper:
    return Keeper("alive", store, switchboard)


def keep_all(keeper: Keeper) -> None:
    while keeper.keep(20):
        pass


def an_event(member: str, turn_id: str = "7") -> bytes:
    _, session = keys.names_of(member)
    event = SessionSwapped(
        session_id=session,
        turn_id=turn_id,
        watermark_after=9,
        summary_kind="extract",
        tokens_before=3_000,
        tokens_after=900,
    )
    return msgspec.json.encode(envelope(event, "acme", NOW_MS))


def left_by_a_dead_watcher(client: "redis.Redis", switchboard: Switchboard, count: int) -> None:
    """The first entries were given to a watcher that is gone, long enough ago for another to take them."""
    entries = switchboard.inbox.read("dead", count, 20)
    ids: list[Any] = [entry.entry_id for entry in entries]
    client.xclaim(keys.INBOX_STREAM, GROUP, "dead", 0, ids, idle=61_000, justid=True)


def test_records_are_in_the_order_of_the_session_whoever_stored_which_first(client, switchboard, keeper, store):
    scribe = Scribe()
    publish(client, scribe, 1, **with_records(*RECORDS))
    dead = Keeper("dead", store, switchboard)
    entries = switchboard.inbox.read("dead", 1, 20)
    keep_all(keeper)
    client.xclaim(keys.INBOX_STREAM, GROUP, "dead", 0, [entries[0].entry_id], idle=61_000, justid=True)
    keep_all(dead)
    assert records_of(store, "acme", "s") == RECORDS


def test_a_name_that_is_used_again_in_the_batch_that_forgets_it_keeps_its_new_records(client, keeper, store):
    scribe = Scribe()
    publish(client, scribe, 1, **with_records(*RECORDS[:3]))
    client.execute_command(*forget_call(scribe.member).command)
    publish(client, scribe, 2, **with_records(*RECORDS[3:]))
    keep_all(keeper)
    assert records_of(store, "acme", "s") == RECORDS[3:]


def test_a_watcher_that_comes_late_to_forget_leaves_what_was_made_since(client, switchboard, keeper, store):
    scribe = Scribe()
    publish(client, scribe, 1, **with_records(*RECORDS[:3]))
    keep_all(keeper)
    client.execute_command(*forget_call(scribe.member).command)
    left_by_a_dead_watcher(client, switchboard, 1)
    publish(client, scribe, 2, **with_records(*RECORDS[3:]))
    entries = switchboard.inbox.read("late", 1, 20)
    late = Keeper("late", store, switchboard)
    keep_all(keeper)
    client.xclaim(keys.INBOX_STREAM, GROUP, "late", 0, [entries[0].entry_id], idle=61_000, justid=True)
    keep_all(late)
    assert records_of(store, "acme", "s") == RECORDS[3:]


def test_records_of_after_a_loss_of_redis_come_behind_those_from_before(client, keeper, store):
    scribe = Scribe()
    publish(client, scribe, 1, **with_records(*RECORDS[:5]))
    keep_all(keeper)
    client.flushall()
    publish(client, scribe, 2, **with_records(*RECORDS[5:]))
    keep_all(keeper)
    assert records_of(store, "acme", "s") == RECORDS


def test_a_restore_gives_the_order_of_the_database_to_what_redis_has_by_then(client, keeper, store):
    scribe = Scribe()
    publish(client, scribe, 1, **with_records(*RECORDS[:5]))
    keep_all(keeper)
    client.flushall()
    resume(client, scribe)
    publish(client, scribe, 2, **with_records(*RECORDS[3:]))
    keeper.restore()
    keep_all(keeper)
    assert resume(client, scribe).records == records_of(store, "acme", "s") == RECORDS


def test_events_of_a_batch_that_is_given_again_are_kept_and_heard_once(client, switchboard, store):
    scribe = Scribe()
    metrics = Metrics()
    keeper = Keeper("alive", store, switchboard, metrics)
    publish(client, scribe, 1, events=[(1, an_event(scribe.member, "1")), (2, an_event(scribe.member, "2"))])
    for _ in range(2):
        keep_all(keeper)
        client.xgroup_setid(keys.INBOX_STREAM, GROUP, "0")
    assert len(events_after(store)) == 2
    assert client.xlen(keys.EVENTS_STREAM) == 2
    assert metrics.registry.get_sample_value("foldahead_swap_outcomes_total", {"outcome": "degraded"}) == 2


def test_the_same_number_of_two_sessions_is_two_events(client, keeper, store):
    for scribe in (Scribe("one"), Scribe("two")):
        publish(client, scribe, 1, events=[(1, an_event(scribe.member))])
    keep_all(keeper)
    assert [row.session for row in events_after(store)] == ["one", "two"]


def test_a_report_that_the_database_refuses_is_set_aside_and_the_rest_of_its_batch_kept(client, switchboard, store):
    refuse_rows_of(store, "records", "evil")
    scribe, evil, metrics = Scribe(), Scribe(workspace="evil"), Metrics()
    publish(client, scribe, 1, **with_records(*RECORDS[:3]))
    publish(client, evil, 1, **with_records(*RECORDS[:2]))
    publish(client, scribe, 2, **with_records(*RECORDS[3:]))
    keep_all(Keeper("alive", store, switchboard, metrics))
    assert records_of(store, "acme", "s") == RECORDS
    assert switchboard.figures.counts().inbox_pending == 0
    assert metrics.registry.get_sample_value("foldahead_set_aside_total", {"where": "inbox"}) == 2


def test_closing_a_session_cancels_what_only_it_waits_for(client, keeper, store):
    scribe = Scribe()
    want(store, a_want(session="s"), NOW_MS)
    job = leased(store)
    publish(client, scribe, 1)
    client.execute_command(*close_call(scribe.member).command)
    keep_all(keeper)
    assert not job_still_wanted(store, job.job_id)


def test_a_session_that_was_opened_again_is_not_closed_by_an_older_word(client, keeper, store):
    scribe = Scribe(due_in_s=0)
    want(store, a_want(session="s"), NOW_MS)
    job = leased(store)
    publish(client, scribe, 1)
    client.execute_command(*close_call(scribe.member).command)
    publish(client, scribe, 2)
    keep_all(keeper)
    assert job_still_wanted(store, job.job_id)


def test_a_session_that_cannot_be_restored_does_not_keep_others_from_it(client, switchboard, keeper, store):
    """A record of a newer version, and one that is none, stand in nobody's way."""
    for name, raw in (("newer", b'{"v":99,"kind":"swapped"}'), ("none", b"")):
        append_records(store, [RecordRow(workspace="acme", session=name, identity="1", json=raw)])
    scribes = [Scribe("newer"), Scribe("none"), Scribe("other")]
    for scribe in scribes:
        resume(client, scribe)
    assert keeper.restore() == 3
    assert all(resume(client, scribe).known for scribe in scribes)


def test_a_session_that_cannot_be_restored_because_the_database_is_away_is_asked_for_again(client, switchboard):
    resume(client, Scribe())
    away = connect_store("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(DatabaseUnreachable):
        Keeper("alive", away, switchboard).restore()
    assert switchboard.figures.counts().restores == 1


def test_failures_of_a_session_are_restored_with_it(client, switchboard, keeper, store):
    for n in (1, 2):
        want(store, a_want(n, request=a_request(n)), NOW_MS + n)
        job = leased(store, now_ms=NOW_MS + n)
        fail(store, job.job_id, job.token, NOW_MS + n, reason="400", error_class="BadRequest")
    resume(client, Scribe())
    keeper.restore()
    assert int(client.hget(keys.state("acme/s"), "failures")) == 2


def test_a_session_whose_last_job_was_done_is_restored_without_failures(client, keeper, store):
    summarised(store, a_want())
    resume(client, Scribe())
    keeper.restore()
    assert client.hget(keys.state("acme/s"), "failures") is None
