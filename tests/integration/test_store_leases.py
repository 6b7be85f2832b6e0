"""Leases: who gets which job, and what becomes of one whose worker is gone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from foldahead_worker.store import open_store
from foldahead_worker.store.jobs import want
from foldahead_worker.store.leases import expire, fail, hand_back, heartbeat, lease, leases, retry_later
from foldahead_worker.store.schema import jobs
from tests.stores import NOW_MS, a_request, a_want, leased


def in_workspace(workspace, n=0, **changes):
    return a_want(request=a_request(n, workspace=workspace), **changes)


def test_a_lease_gives_the_whole_request_and_counts_the_attempt(store):
    asked = want(store, a_want(urgency="forced", max_attempts=2), NOW_MS)
    job = leased(store)
    assert (job.job_id, job.request, job.urgency) == (asked.job_id, a_request(), "forced")
    assert (job.token, job.attempts, job.max_attempts) == (1, 1, 2)


def test_a_leased_job_is_leased_to_nobody_else(store):
    want(store, a_want(), NOW_MS)
    assert lease(store, "one", NOW_MS)
    assert lease(store, "two", NOW_MS) is None


def test_forced_goes_before_ahead_and_then_the_earlier_deadline(store):
    want(store, a_want(1, deadline_ms=NOW_MS + 1), NOW_MS)
    want(store, a_want(2, deadline_ms=NOW_MS + 9, urgency="forced"), NOW_MS)
    want(store, a_want(3, deadline_ms=NOW_MS + 5, urgency="forced"), NOW_MS)
    assert [leased(store).request for _ in range(3)] == [a_request(3), a_request(2), a_request(1)]


def test_a_workspace_with_many_jobs_leaves_turns_to_the_others(store):
    for n in range(4):
        want(store, in_workspace("big", n, deadline_ms=NOW_MS + n), NOW_MS)
    want(store, in_workspace("small", deadline_ms=NOW_MS + 1_000), NOW_MS)
    assert [leased(store).request.workspace for _ in range(3)] == ["big", "small", "big"]


def test_the_job_that_a_wake_up_names_is_taken_among_equals_only(store):
    ids = [want(store, a_want(n), NOW_MS).job_id for n in range(3)]
    urgent = want(store, a_want(9, deadline_ms=NOW_MS), NOW_MS).job_id
    taken = [lease(store, "worker", NOW_MS, prefer_job_id=ids[2]) for _ in range(2)]
    assert [job.job_id for job in taken if job] == [urgent, ids[2]]


@pytest.mark.parametrize(
    "limits",
    [
        {"stopped_workspaces": {"acme"}},
        {"kinds": ("extract",)},
    ],
)
def test_a_worker_takes_no_work_that_it_cannot_do(store, limits):
    want(store, a_want(), NOW_MS)
    assert lease(store, "worker", NOW_MS, **limits) is None


def test_work_that_is_not_due_waits(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    state = retry_later(store, job.job_id, job.token, NOW_MS, not_before_ms=NOW_MS + 50, reason="overloaded")
    assert state == "queued"
    assert lease(store, "worker", NOW_MS + 49) is None
    assert leased(store, now_ms=NOW_MS + 50).attempts == 2


def test_a_retry_without_attempts_left_has_failed(store):
    want(store, a_want(max_attempts=1), NOW_MS)
    job = leased(store)
    state = retry_later(store, job.job_id, job.token, NOW_MS, not_before_ms=NOW_MS, reason="overloaded")
    assert state == "failed"
    assert want(store, a_want(max_attempts=1), NOW_MS).state == "failed"


def test_a_job_that_is_handed_back_spent_no_attempt(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    assert hand_back(store, job.job_id, job.token, NOW_MS)
    again = leased(store)
    assert (again.attempts, again.token) == (1, 2)


def test_a_lease_that_moves_does_not_expire(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    (seen,) = leases(store)
    assert (seen.job_id, seen.token, seen.owner) == (job.job_id, job.token, "worker")
    assert heartbeat(store, job.job_id, job.token)
    assert expire(store, seen, NOW_MS) is None
    assert heartbeat(store, job.job_id, job.token)


def test_a_lease_that_stands_still_expires_and_its_worker_is_fenced_off(store):
    want(store, a_want(), NOW_MS)
    dead = leased(store, "dead")
    (seen,) = leases(store)
    assert expire(store, seen, NOW_MS) == "queued"
    alive = leased(store, "alive")
    assert (alive.token, alive.attempts) == (dead.token + 1, 2)
    assert not heartbeat(store, dead.job_id, dead.token)
    assert not hand_back(store, dead.job_id, dead.token, NOW_MS)
    assert not fail(store, dead.job_id, dead.token, NOW_MS, reason="late")
    assert retry_later(store, dead.job_id, dead.token, NOW_MS, not_before_ms=NOW_MS, reason="late") is None
    assert heartbeat(store, alive.job_id, alive.token)


def test_an_expired_lease_is_not_expired_again_under_a_new_token(store):
    want(store, a_want(), NOW_MS)
    leased(store)
    (seen,) = leases(store)
    expire(store, seen, NOW_MS)
    leased(store)
    assert expire(store, seen, NOW_MS) is None


def test_a_job_that_kills_every_worker_fails_in_the_end(store):
    want(store, a_want(max_attempts=2), NOW_MS)
    ends = []
    for _ in range(2):
        leased(store)
        ends.append(expire(store, leases(store)[0], NOW_MS))
    assert ends == ["queued", "failed"]
    assert lease(store, "worker", NOW_MS) is None


@pytest.mark.parametrize("damage", [{"request": b"\xc1"}, {"cache_key": "of a newer version"}])
def test_a_request_that_cannot_be_read_is_set_aside_and_the_next_is_taken(store, damage):
    unreadable = want(store, a_want(1, deadline_ms=NOW_MS), NOW_MS).job_id
    with store.writing() as connection:
        connection.execute(update(jobs).where(jobs.c.id == unreadable).values(damage))
    want(store, a_want(2), NOW_MS)
    assert leased(store).request == a_request(2)
    assert lease(store, "worker", NOW_MS) is None


def test_a_job_that_is_being_written_is_waited_for_when_a_wake_up_names_it(postgres_url):
    store = open_store(postgres_url)
    job_id = want(store, a_want(), NOW_MS).job_id
    with ThreadPoolExecutor(1) as pool:
        with store.writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id == job_id).values(sent_at_ms=NOW_MS))
            waiting = pool.submit(lease, store, "worker", NOW_MS, prefer_job_id=job_id)
            assert lease(store, "another", NOW_MS) is None
        leased_then = waiting.result(5)
    assert leased_then is not None
    assert leased_then.job_id == job_id
    store.close()
