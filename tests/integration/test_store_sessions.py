"""Sessions: restored after Redis burnt, closed, and forgotten."""

import msgspec
import pytest

from foldahead_worker.store.commits import commit
from foldahead_worker.store.events import EventRow, append_events, events_after
from foldahead_worker.store.jobs import job_still_wanted, want
from foldahead_worker.store.leases import lease
from foldahead_worker.store.records import RecordRow, append_records, records_of
from foldahead_worker.store.retention import CacheRows, forget_idle_sessions, prune_waiters, wanted_cache_rows
from foldahead_worker.store.sessions import (
    SessionRow,
    close_session,
    forget_session,
    load_session,
    save_sessions,
)
from foldahead_worker.store.spend import day_of, reserve, spent_by_session, spent_on
from foldahead_worker.store.status import status
from foldahead_worker.store.summaries import find_summary
from foldahead_worker.store.waiters import ready_for, waiters_of
from tests.stores import NOW_MS, a_request, a_want, an_answer, leased, summarised


def a_session(session="s", standing=b"", shown="", last_seen_ms=NOW_MS):
    return SessionRow(workspace="acme", session=session, standing=standing, shown=shown, last_seen_ms=last_seen_ms)


def spans(ready):
    return [found.waiter.end for found in ready]


def wishes_of_growing_spans(ends, session="s"):
    return [a_want(session=session, request=a_request(end, message_count=end - 1)) for end in ends]


def test_a_session_is_loaded_as_it_was_saved_last(store):
    assert load_session(store, "acme", "s") is None
    save_sessions(store, [a_session(standing=b"\x00\xff")])
    newest = a_session(standing=b"two", shown="k", last_seen_ms=NOW_MS + 1)
    save_sessions(store, [newest, a_session(standing=b"one", last_seen_ms=NOW_MS)])
    assert load_session(store, "acme", "s") == newest
    save_sessions(store, [a_session(standing=b"of a slow watcher", last_seen_ms=NOW_MS)])
    assert load_session(store, "acme", "s") == newest


def test_a_workspace_is_told_what_its_sessions_want_kept(store):
    save_sessions(store, [a_session("one"), a_session("two")])
    rows = {"acme": CacheRows(most=0, left_open=True)}
    assert wanted_cache_rows(store) == rows
    wants = {"one": 9, "two": 5}
    save_sessions(store, [msgspec.structs.replace(a_session(name), cache_max_rows=n) for name, n in wants.items()])
    assert wanted_cache_rows(store) == {"acme": CacheRows(most=9, left_open=False)}


def test_a_restore_gives_the_furthest_eight_summaries_of_a_session(store):
    for wish in wishes_of_growing_spans(range(10, 20)):
        summarised(store, wish)
    summarised(store, a_want(session="other", request=a_request(99, message_count=99)))
    ready = ready_for(store, "acme", "s")
    assert spans(ready) == [19, 18, 17, 16, 15, 14, 13, 12]
    assert all(found.summary.cache_key == found.waiter.cache_key for found in ready)


def test_a_restore_gives_no_summary_that_is_not_there(store):
    want(store, a_want(), NOW_MS)
    assert ready_for(store, "acme", "s") == ()


def test_what_lies_behind_the_summary_shown_is_not_restored(store):
    wishes = wishes_of_growing_spans((10, 20, 30))
    for wish in wishes:
        summarised(store, wish)
    save_sessions(store, [a_session(shown=wishes[1].request.cache_key)])
    assert spans(ready_for(store, "acme", "s")) == [30, 20]


def test_an_extract_that_the_agent_shows_leaves_better_summaries_of_less_ready(store):
    for wish in wishes_of_growing_spans((10, 20)):
        summarised(store, wish)
    save_sessions(store, [a_session(shown="key of an extract that no server made")])
    assert spans(ready_for(store, "acme", "s")) == [20, 10]


def test_a_summary_that_was_rejected_is_shown_no_more(store):
    key = summarised(store, a_want()).waiters[0].cache_key
    save_sessions(store, [a_session(shown=key)])
    save_sessions(store, [a_session(shown="", last_seen_ms=NOW_MS + 1)])
    assert ready_for(store, "acme", "s") == ()


def test_closing_cancels_a_queued_job_that_nobody_else_waits_for(store):
    want(store, a_want(1), NOW_MS)
    want(store, a_want(2), NOW_MS)
    want(store, a_want(2, session="other"), NOW_MS)
    close_session(store, "acme", "s", NOW_MS)
    assert leased(store).request == a_request(2)
    assert lease(store, "worker", NOW_MS) is None
    assert want(store, a_want(1, session="other"), NOW_MS).opened


def test_closing_keeps_what_the_session_may_come_back_for(store):
    key = summarised(store, a_want()).waiters[0].cache_key
    close_session(store, "acme", "s", NOW_MS)
    assert [found.summary.cache_key for found in ready_for(store, "acme", "s")] == [key]


def test_forgetting_leaves_nothing_of_a_session_alone(store):
    key = summarised(store, a_want(1)).waiters[0].cache_key
    queued = want(store, a_want(2), NOW_MS)
    save_sessions(store, [a_session(shown=key)])
    append_records(store, [RecordRow(workspace="acme", session="s", identity="i", json=b"{}")])
    event = EventRow(kind="session.swapped", workspace="acme", session="s", json="{}", created_at_ms=NOW_MS)
    append_events(store, [event])
    forget_session(store, "acme", "s")
    assert load_session(store, "acme", "s") is None
    assert (records_of(store, "acme", "s"), events_after(store), waiters_of(store, "acme", key)) == (
        (),
        (),
        (),
    )
    assert find_summary(store, "acme", key) is None
    assert not job_still_wanted(store, queued.job_id)
    assert lease(store, "worker", NOW_MS) is None
    left = status(store, NOW_MS)
    assert (left.queued, left.done, left.waiting, left.summaries, left.sessions) == (0, 0, 0, 0, 0)


def test_forgetting_leaves_what_others_share(store):
    shared = a_want(1, session="other")
    key = summarised(store, a_want(1)).waiters[0].cache_key
    want(store, shared, NOW_MS)
    queued = want(store, a_want(2), NOW_MS)
    want(store, a_want(2, session="other"), NOW_MS)
    forget_session(store, "acme", "s")
    assert find_summary(store, "acme", key)
    assert leased(store).job_id == queued.job_id


def test_forgetting_stops_at_the_workspace(store):
    other = a_request(workspace="other")
    summarised(store, a_want(request=other))
    forget_session(store, "acme", "s")
    assert find_summary(store, "other", other.cache_key)


def test_spend_of_a_forgotten_session_stays_in_the_books_without_its_name(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    reserve(store, job.job_id, job.token, 100, NOW_MS)
    commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS)
    forget_session(store, "acme", "s")
    assert spent_by_session(store, "acme", "s") == 0
    assert spent_on(store, day_of(NOW_MS)) == 100


def test_sessions_that_were_not_heard_of_for_long_are_forgotten(store):
    save_sessions(store, [a_session("old"), a_session("new", last_seen_ms=NOW_MS + 1)])
    assert forget_idle_sessions(store, NOW_MS + 1) == 1
    assert load_session(store, "acme", "old") is None
    assert load_session(store, "acme", "new")


@pytest.mark.parametrize(("asked_before_ms", "gone"), [(NOW_MS, 0), (NOW_MS + 1, 1)])
def test_waiters_that_gave_up_on_nothing_that_is_kept_go_with_time(store, asked_before_ms, gone):
    want(store, a_want(1), NOW_MS)
    close_session(store, "acme", "s", NOW_MS)
    summarised(store, a_want(2))
    assert prune_waiters(store, asked_before_ms) == gone
