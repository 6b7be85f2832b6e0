"""Records, events and numbers."""

from concurrent.futures import ThreadPoolExecutor

from foldahead.core.record import Record, decode_record, encode_record
from foldahead_worker.store.events import EventRow, append_events, events_after
from foldahead_worker.store.jobs import want
from foldahead_worker.store.records import RecordRow, append_records, records_of
from foldahead_worker.store.retention import prune_events
from foldahead_worker.store.status import Status, status
from tests.stores import NOW_MS, a_want, leased


def a_row(identity="i", json=b"{}", session="s", workspace="acme", place=0):
    return RecordRow(workspace=workspace, session=session, identity=identity, json=json, place=place)


def an_event(kind="session.swapped", session="s", identity=None):
    return EventRow(
        kind=kind, workspace="acme", session=session, identity=identity, json='{"turn_id":"7"}', created_at_ms=NOW_MS
    )


def test_records_come_back_byte_for_byte_in_their_order(store):
    record = Record(
        kind="swapped",
        start=1,
        end=9,
        head_start="aa",
        head_end="bb",
        message={"role": "user", "content": "a\0b 😀"},
    )
    rows = [a_row("1", encode_record(record)), a_row("2", b'{"v":99,"kind":"of a newer version"}')]
    assert append_records(store, rows) == 2
    assert records_of(store, "acme", "s") == tuple(row.json for row in rows)
    assert decode_record(records_of(store, "acme", "s")[0]) == record


def test_a_record_that_is_reported_again_is_kept_once_as_it_was(store):
    append_records(store, [a_row(json=b"first")])
    assert append_records(store, [a_row(json=b"later"), a_row("other"), a_row("other")]) == 1
    assert records_of(store, "acme", "s") == (b"first", b"{}")


def test_the_same_record_of_two_sessions_is_two_records(store):
    rows = [a_row(session="one"), a_row(session="two"), a_row(session="one", workspace="other")]
    assert append_records(store, rows) == 3


def test_records_that_many_report_at_once_are_kept_once(store):
    rows = [a_row(str(n), session=f"s{n % 5}") for n in range(50)]
    with ThreadPoolExecutor(8) as pool:
        added = sum(pool.map(lambda some: append_records(store, some), [rows, rows[::-1]] * 4))
    assert added == 50


def test_events_are_read_on_from_the_last_one_seen(store):
    append_events(store, [an_event("one"), an_event("two"), an_event("three", session="other")])
    first = events_after(store, limit=1)
    assert [event.kind for event in first] == ["one"]
    assert [event.kind for event in events_after(store, first[0].id)] == ["two", "three"]
    assert [event.kind for event in events_after(store, workspace="acme", session="other")] == ["three"]
    assert events_after(store, workspace="other") == ()
    assert first[0].json == '{"turn_id":"7"}'


def test_records_are_ordered_by_their_place_whenever_they_were_stored(store):
    append_records(store, [a_row("c", b"c", place=30), a_row("a", b"a", place=10)])
    append_records(store, [a_row("b", b"b", place=20)])
    assert records_of(store, "acme", "s") == (b"a", b"b", b"c")


def test_an_event_that_is_reported_again_is_kept_once(store):
    first = append_events(store, [an_event("one", identity="i:1"), an_event("two", identity="i:2")])
    assert [event.kind for event in first] == ["one", "two"]
    again = append_events(store, [an_event("two", identity="i:2"), an_event("three", identity="i:3")])
    assert [event.kind for event in again] == ["three"]
    assert [event.kind for event in events_after(store)] == ["one", "two", "three"]


def test_events_of_servers_have_no_identity_and_are_all_kept(store):
    append_events(store, [an_event(), an_event()])
    assert len(events_after(store)) == 2


def test_only_the_newest_events_are_kept(store):
    append_events(store, [an_event(str(n)) for n in range(10)])
    assert prune_events(store, keep=3) == 7
    assert prune_events(store, keep=3) == 0
    assert [event.kind for event in events_after(store)] == ["7", "8", "9"]


def test_nothing_at_all_is_appended_without_complaint(store):
    append_events(store, [])
    assert append_records(store, []) == 0


def test_status_counts_everything_once(store):
    want(store, a_want(1), NOW_MS)
    want(store, a_want(2, session="other"), NOW_MS + 5)
    want(store, a_want(3), NOW_MS + 9)
    append_records(store, [a_row()])
    append_events(store, [an_event()])
    leased(store)
    assert status(store, NOW_MS + 105) == Status(
        queued=2,
        leased=1,
        done=0,
        failed=0,
        oldest_due_age_ms=100,
        waiting=3,
        summaries=0,
        sessions=0,
        records=1,
        events=1,
    )
