"""Wishes: what a watcher asks of the store."""

from concurrent.futures import ThreadPoolExecutor

from foldahead_worker.store.commits import commit
from foldahead_worker.store.jobs import due_unsent, job_still_wanted, mark_sent, want, want_batch
from foldahead_worker.store.leases import fail, lease, needs_bodies, retry_later
from foldahead_worker.store.retention import prune_jobs
from foldahead_worker.store.sessions import close_session
from foldahead_worker.store.summaries import find_summary
from foldahead_worker.store.waiters import mark_ready, waiters_of
from tests.stores import NOW_MS, a_request, a_want, an_answer, leased, summarised


def test_a_wish_opens_a_job_and_a_second_session_joins_it(store):
    first = want(store, a_want(session="one"), NOW_MS)
    second = want(store, a_want(session="two"), NOW_MS + 1)
    assert (first.state, first.opened, second.opened) == ("queued", True, False)
    assert first.job_id == second.job_id
    assert [waiter.session for waiter in waiters_of(store, "acme", first.cache_key)] == ["one", "two"]


def test_a_waiter_carries_what_the_session_asked_for(store):
    request = a_request(message_count=40)
    want(store, a_want(request=request, turn_id="9", watermark_before=3, urgency="forced"), NOW_MS)
    (waiter,) = waiters_of(store, "acme", request.cache_key)
    assert (waiter.start, waiter.end, waiter.head_end.hex()) == (1, 41, request.head)
    assert (waiter.turn_id, waiter.watermark_before, waiter.urgency, waiter.state) == (
        "9",
        3,
        "forced",
        "waiting",
    )


def test_a_batch_answers_in_the_order_of_its_wishes(store):
    wishes = [a_want(n % 700, session=f"s{n}") for n in range(1_100)]
    answers = want_batch(store, wishes, NOW_MS)
    assert [answer.cache_key for answer in answers] == [wish.request.cache_key for wish in wishes]
    assert len({answer.job_id for answer in answers}) == 700
    assert len(waiters_of(store, "acme", wishes[0].request.cache_key)) == 2


def test_an_empty_batch_is_answered(store):
    assert want_batch(store, [], NOW_MS) == ()


def test_one_key_wanted_by_many_at_once_is_one_job_opened_once(store):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: want(store, a_want(session=f"s{n}"), NOW_MS), range(100)))
    assert len({answer.job_id for answer in answers}) == 1
    assert sum(answer.opened for answer in answers) == 1
    assert len(waiters_of(store, "acme", answers[0].cache_key)) == 100


def test_batches_with_the_same_keys_in_any_order_do_not_block_each_other(store):
    wishes = [a_want(n, session=f"s{n}") for n in range(50)]
    orders = [wishes, wishes[::-1], wishes[25:] + wishes[:25]] * 4
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda some: want_batch(store, some, NOW_MS), orders))
    assert len({answer.job_id for some in answers for answer in some}) == 50


def test_a_summary_that_is_there_makes_the_job_done_at_once(store):
    summarised(store, a_want(session="one"))
    again = want(store, a_want(session="two"), NOW_MS + 1)
    assert (again.state, again.opened) == ("done", False)
    assert lease(store, "worker", NOW_MS + 1) is None


def test_a_summary_is_found_by_a_wish_after_its_job_row_is_gone(store):
    summarised(store, a_want(session="one"))
    assert prune_jobs(store, NOW_MS + 1) == 1
    again = want(store, a_want(session="two"), NOW_MS + 2)
    assert (again.state, again.opened) == ("done", False)
    found = find_summary(store, "acme", again.cache_key)
    assert found
    assert found.use_count == 1


def test_workspaces_share_neither_job_nor_summary(store):
    summarised(store, a_want(request=a_request(workspace="acme")))
    other = want(store, a_want(request=a_request(workspace="other")), NOW_MS)
    assert (other.state, other.opened) == ("queued", True)


def test_a_failed_job_opens_again_from_its_time_on(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    fail(store, job.job_id, job.token, NOW_MS, reason="adapter_error", reopens_at_ms=NOW_MS + 100)
    early, later = want(store, a_want(), NOW_MS + 99), want(store, a_want(), NOW_MS + 100)
    assert (early.state, early.opened) == ("failed", False)
    assert (later.state, later.opened) == ("queued", True)


def test_a_job_that_failed_for_good_opens_for_the_hard_cap_alone(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    fail(store, job.job_id, job.token, NOW_MS, reason="validation_failed")
    assert want(store, a_want(), NOW_MS + 10**9).state == "failed"
    assert want(store, a_want(urgency="forced"), NOW_MS + 10**9).opened


def test_missing_bodies_spend_no_attempt_and_the_next_wish_opens_the_job(store):
    want(store, a_want(max_attempts=1), NOW_MS)
    job = leased(store)
    assert needs_bodies(store, job.job_id, job.token, NOW_MS, reopens_at_ms=NOW_MS)
    assert want(store, a_want(max_attempts=1), NOW_MS + 1).opened
    assert leased(store, now_ms=NOW_MS + 1).attempts == 1


def test_wake_ups_that_got_lost_are_found(store):
    ids = [want(store, a_want(n, deadline_ms=NOW_MS + n), NOW_MS).job_id for n in range(3)]
    assert due_unsent(store, NOW_MS, NOW_MS) == ()  # whoever opened them has just sent them
    assert due_unsent(store, NOW_MS + 1, NOW_MS) == tuple(ids)
    mark_sent(store, ids[1:], NOW_MS + 1)
    assert due_unsent(store, NOW_MS + 1, NOW_MS) == (ids[0],)


def test_a_job_that_is_queued_again_wants_a_new_wake_up_when_it_is_due(store):
    sent = want(store, a_want(), NOW_MS)
    job = leased(store)
    retry_later(store, job.job_id, job.token, NOW_MS, not_before_ms=NOW_MS + 500, reason="rate_limited")
    assert due_unsent(store, NOW_MS, NOW_MS + 499) == ()
    assert due_unsent(store, NOW_MS, NOW_MS + 500) == (sent.job_id,)


def test_a_job_is_wanted_until_its_last_session_closes(store):
    job_id = want(store, a_want(session="one"), NOW_MS).job_id
    want(store, a_want(session="two"), NOW_MS)
    close_session(store, "acme", "one", NOW_MS)
    assert job_still_wanted(store, job_id)
    close_session(store, "acme", "two", NOW_MS)
    assert not job_still_wanted(store, job_id)


def test_names_with_nul_and_percent_come_back_as_they_were(store):
    names = ["a\0b", "a%00b", "a%2500b", "ünï/😀"]
    for name in names:
        want(store, a_want(session=name, request=a_request(workspace=name)), NOW_MS)
        (waiter,) = waiters_of(store, name, a_request(workspace=name).cache_key)
        assert (waiter.workspace, waiter.session) == (name, name)


def test_a_session_that_was_told_and_asks_again_is_known_to_have_been_told(store):
    committed = summarised(store, a_want())
    key = committed.waiters[0].cache_key
    again = want(store, a_want(turn_id="8"), NOW_MS)
    assert (again.state, again.before) == ("done", "ready")
    assert waiters_of(store, "acme", key) == ()


def test_a_session_that_asks_for_a_summary_made_for_another_waits_to_be_told(store):
    key = summarised(store, a_want(session="one")).waiters[0].cache_key
    late = want(store, a_want(session="two"), NOW_MS)
    assert (late.state, late.before) == ("done", None)
    assert [waiter.session for waiter in waiters_of(store, "acme", key)] == ["two"]
    assert mark_ready(store, "acme", key, ["two"]) == {"two"}


def test_a_wish_during_the_call_is_answered_by_its_commit(store):
    want(store, a_want(session="one"), NOW_MS)
    job = leased(store)
    assert want(store, a_want(session="two"), NOW_MS).state == "leased"
    committed = commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS)
    assert [waiter.session for waiter in committed.waiters] == ["one", "two"]
