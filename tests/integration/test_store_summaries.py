"""The cache: what is read stays, what is shown or waited for is never evicted."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from foldahead_worker.store.commits import commit
from foldahead_worker.store.jobs import want
from foldahead_worker.store.retention import summary_counts
from foldahead_worker.store.sessions import SessionRow, close_session, save_sessions
from foldahead_worker.store.summaries import evict, find_summary, touch
from foldahead_worker.store.waiters import mark_given_up
from tests.stores import NOW_MS, a_request, a_want, an_answer, leased, summarised


def key(n, **changes):
    return a_request(n, **changes).cache_key


def kept(store, numbers):
    return [n for n in numbers if find_summary(store, "acme", key(n))]


@pytest.fixture
def three(store):
    """Three summaries that no session holds any more, read in this order."""
    for n in range(3):
        made_and_let_go(store, n, "s", NOW_MS + n)
    return store


def made_and_let_go(store, n, session, now_ms=NOW_MS):
    """A summary whose session was closed before it was told of it."""
    want(store, a_want(n, session=session), now_ms)
    job = leased(store, now_ms=now_ms)
    commit(store, job.job_id, job.token, an_answer(job.request, now_ms=now_ms), now_ms)
    close_session(store, "acme", session, now_ms)


def test_what_was_read_longest_ago_goes_first(three):
    touch(three, {("acme", key(0)): 2}, NOW_MS + 10)
    assert evict(three, "acme", max_rows=2) == 1
    assert kept(three, range(3)) == [0, 2]
    found = find_summary(three, "acme", key(0))
    assert found
    assert (found.last_read_at_ms, found.use_count) == (NOW_MS + 10, 2)


def test_a_touch_from_a_slow_clock_does_not_age_a_summary(three):
    touch(three, {("acme", key(2)): 1}, NOW_MS - 10)
    found = find_summary(three, "acme", key(2))
    assert found
    assert found.last_read_at_ms == NOW_MS + 2


def test_nothing_is_evicted_within_the_limit(three):
    assert evict(three, "acme", max_rows=3) == 0


def test_eviction_keeps_to_its_workspace(three):
    assert evict(three, "other", max_rows=0) == 0
    assert summary_counts(three) == {"acme": 3}


def test_a_summary_that_a_session_waits_for_neither_goes_nor_counts(three):
    want(three, a_want(0, session="other"), NOW_MS)
    assert evict(three, "acme", max_rows=1) == 1
    assert kept(three, range(3)) == [0, 2]


def test_a_summary_that_a_session_shows_stays_until_it_shows_another(three):
    for n in (0, 1):
        want(three, a_want(n), NOW_MS)
    shows = SessionRow(workspace="acme", session="s", standing=b"", shown=key(0), last_seen_ms=NOW_MS + 1)
    save_sessions(three, [shows])
    evict(three, "acme", max_rows=0)
    assert kept(three, range(3)) == [0, 1]
    shows = SessionRow(workspace="acme", session="s", standing=b"", shown=key(1), last_seen_ms=NOW_MS + 2)
    save_sessions(three, [shows])
    evict(three, "acme", max_rows=0)
    assert kept(three, range(3)) == [1]


def test_the_parent_of_an_open_job_stays_until_the_job_has_ended(three):
    child = a_request(9, parent=key(0), parent_end=10)
    want(three, a_want(request=child, session="other"), NOW_MS)
    evict(three, "acme", max_rows=0)
    assert kept(three, range(3)) == [0]
    job = leased(three)
    commit(three, job.job_id, job.token, an_answer(child), NOW_MS)
    evict(three, "acme", max_rows=0)
    assert kept(three, range(3)) == []


def test_a_session_that_was_told_of_a_failure_holds_nothing(three):
    want(three, a_want(0, session="other"), NOW_MS)
    mark_given_up(three, "acme", key(0), ["other"])
    evict(three, "acme", max_rows=0)
    assert kept(three, range(3)) == []


def test_summaries_of_an_old_prompt_stay_readable(store):
    old = a_request(prompt_version="0.9")
    summarised(store, a_want(request=old))
    assert want(store, a_want(request=a_request(prompt_version="1")), NOW_MS).opened
    found = find_summary(store, "acme", old.cache_key)
    assert found
    assert found.summarization_prompt_version == "0.9"


def test_an_evicted_summary_is_made_again_when_it_is_wanted(three):
    assert evict(three, "acme", max_rows=0) == 3
    assert want(three, a_want(0), NOW_MS).opened
    assert leased(three).attempts == 1


def test_what_a_wish_found_is_not_evicted_under_it(store):
    with ThreadPoolExecutor(1) as pool:
        for n in range(60):
            made_and_let_go(store, n, "before")
            evicting = pool.submit(evict, store, "acme", 0)
            answer = want(store, a_want(n, session="after"), NOW_MS)
            evicting.result()
            found = find_summary(store, "acme", answer.cache_key)
            assert (found is not None) == (answer.state == "done")
            close_session(store, "acme", "after", NOW_MS)
