"""The commit: one answer for a key, whoever comes first."""

import msgspec

from foldahead_worker.store.commits import commit
from foldahead_worker.store.jobs import want
from foldahead_worker.store.leases import expire, fail, leases
from foldahead_worker.store.sessions import forget_session
from foldahead_worker.store.spend import Bill
from foldahead_worker.store.status import status
from foldahead_worker.store.summaries import find_summary
from foldahead_worker.store.waiters import mark_given_up, mark_ready, undelivered
from tests.stores import NOW_MS, a_request, a_want, an_answer, leased


def test_a_commit_stores_the_summary_and_ends_the_job(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    committed = commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS)
    assert (committed.stored, committed.finished) == (True, True)
    assert find_summary(store, "acme", job.request.cache_key) == committed.summary == an_answer(job.request)
    assert (status(store, NOW_MS).done, status(store, NOW_MS).leased) == (1, 0)


def test_a_late_answer_is_stored_and_leaves_the_job_to_its_new_worker(store):
    want(store, a_want(), NOW_MS)
    late = leased(store, "late")
    expire(store, leases(store)[0], NOW_MS)
    alive = leased(store, "alive")
    first = commit(store, late.job_id, late.token, an_answer(late.request, "first"), NOW_MS)
    assert (first.stored, first.finished, first.waiters) == (True, False, ())
    second = commit(store, alive.job_id, alive.token, an_answer(alive.request, "second"), NOW_MS)
    assert (second.stored, second.finished, len(second.waiters)) == (False, True, 1)
    assert second.summary
    assert second.summary.summary_text == "first"


def test_a_late_answer_to_a_failed_job_serves_the_next_wish(store):
    want(store, a_want(max_attempts=1), NOW_MS)
    late = leased(store)
    assert expire(store, leases(store)[0], NOW_MS) == "failed"
    commit(store, late.job_id, late.token, an_answer(late.request), NOW_MS)
    assert want(store, a_want(max_attempts=1), NOW_MS).state == "done"


def test_a_cache_hit_ends_its_job_by_committing_what_was_found(store):
    want(store, a_want(), NOW_MS)
    late = leased(store)
    expire(store, leases(store)[0], NOW_MS)
    commit(store, late.job_id, late.token, an_answer(late.request), NOW_MS)
    job = leased(store)
    found = find_summary(store, "acme", job.request.cache_key)
    assert found
    committed = commit(store, job.job_id, job.token, found, NOW_MS, Bill())
    assert (committed.stored, committed.finished) == (False, True)


def test_an_answer_for_a_session_that_was_forgotten_meanwhile_is_not_kept(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    forget_session(store, "acme", "s")
    committed = commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS)
    assert (committed.stored, committed.summary) == (False, None)
    assert find_summary(store, "acme", job.request.cache_key) is None


def test_a_text_that_no_database_takes_is_stored_with_marks_in_place_of_it(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    committed = commit(store, job.job_id, job.token, an_answer(job.request, "a\0b\ud83dc 😀"), NOW_MS)
    assert committed.summary
    assert committed.summary.summary_text == "a\ufffdb\ufffdc 😀"


def test_a_native_block_comes_back_byte_for_byte(store):
    request = a_request(kind="native", envelope_digest="ab")
    want(store, a_want(request=request), NOW_MS)
    job = leased(store)
    block = bytes(range(256))
    answer = msgspec.structs.replace(an_answer(request), block=block)
    assert commit(store, job.job_id, job.token, answer, NOW_MS).summary == answer


def test_sessions_that_nobody_told_of_the_end_are_found_until_they_are_told(store):
    want(store, a_want(1, session="one"), NOW_MS)
    want(store, a_want(2, session="two"), NOW_MS)
    done, failed = leased(store), leased(store)
    commit(store, done.job_id, done.token, an_answer(done.request), NOW_MS)
    fail(store, failed.job_id, failed.token, NOW_MS, reason="adapter_error", error_class="RateLimitError")
    assert undelivered(store, NOW_MS) == ()
    untold = undelivered(store, NOW_MS + 1)
    assert {(left.waiter.cache_key, left.job_state, left.reason, left.error_class) for left in untold} == {
        (done.request.cache_key, "done", "", ""),
        (failed.request.cache_key, "failed", "adapter_error", "RateLimitError"),
    }
    sessions = {left.job_state: left.waiter.session for left in untold}
    assert mark_ready(store, "acme", done.request.cache_key, [sessions["done"]]) == {sessions["done"]}
    assert mark_given_up(store, "acme", failed.request.cache_key, [sessions["failed"]]) == {sessions["failed"]}
    assert undelivered(store, NOW_MS + 1) == ()


def test_a_session_is_told_once(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS)
    assert mark_ready(store, "acme", job.request.cache_key, ["s"]) == {"s"}
    assert mark_ready(store, "acme", job.request.cache_key, ["s"]) == frozenset()
