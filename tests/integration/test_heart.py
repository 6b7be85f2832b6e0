"""The heart: one thread beats for all leases of a worker, and notices what became of them."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import select, update

from foldahead_worker.heart import Heart
from foldahead_worker.store import Store
from foldahead_worker.store.jobs import jobs_still_wanted, want
from foldahead_worker.store.leases import heartbeat_all, put_off
from foldahead_worker.store.schema import jobs
from foldahead_worker.store.waiters import mark_given_up
from tests.stores import NOW_MS, a_want, leased
from tests.waiting import wait_until


def beats_of(store: Store, job_id: int) -> int:
    with store.reading() as connection:
        return connection.scalar(select(jobs.c.heartbeat).where(jobs.c.id == job_id)) or 0


def hearts() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "foldahead-heart"]


@pytest.fixture(autouse=True)
def no_heart_beats_on(store: Store) -> Iterator[None]:
    """What another test left behind has ended, and what beats here ends before the store is closed."""
    wait_until(lambda: not hearts())
    yield
    wait_until(lambda: not hearts())


def test_one_thread_beats_for_many_leases(store: Store) -> None:
    heart = Heart(store, every_s=0.02)
    for n in range(3):
        want(store, a_want(n), NOW_MS)
    held = [leased(store) for _ in range(3)]
    with heart.hold(held[0]), heart.hold(held[1]), heart.hold(held[2]):
        wait_until(lambda: all(beats_of(store, each.job_id) > 2 for each in held))
        assert len(hearts()) == 1
    wait_until(lambda: not hearts())


def test_it_beats_again_after_a_rest(store: Store) -> None:
    heart = Heart(store, every_s=0.02)
    want(store, a_want(), NOW_MS)
    job = leased(store)
    with heart.hold(job):
        wait_until(lambda: beats_of(store, job.job_id) > 0)
    wait_until(lambda: not hearts())
    with heart.hold(job):
        before = beats_of(store, job.job_id)
        wait_until(lambda: beats_of(store, job.job_id) > before)


def test_it_notices_that_a_lease_was_lost(store: Store) -> None:
    want(store, a_want(), NOW_MS)
    job = leased(store)
    with Heart(store, every_s=0.02).hold(job) as pulse:
        with store.writing() as connection:
            connection.execute(update(jobs).values(token=job.token + 1))
        assert pulse.lost.wait(2)


def test_it_notices_that_nobody_waits_any_more(store: Store) -> None:
    wish = a_want()
    want(store, wish, NOW_MS)
    with Heart(store, every_s=0.02).hold(leased(store)) as pulse:
        mark_given_up(store, wish.request.workspace, wish.request.cache_key, [wish.session])
        assert pulse.unwanted.wait(2)


def test_only_leases_that_are_held_are_beaten(store: Store) -> None:
    want(store, a_want(), NOW_MS)
    job = leased(store)
    mine, anothers = (job.job_id, job.token), (job.job_id, job.token + 1)
    assert heartbeat_all(store, [mine, anothers]) == {mine}


def test_what_is_wanted_is_said_of_many_jobs_at_once(store: Store) -> None:
    job_ids = [want(store, a_want(n), NOW_MS).job_id for n in range(3)]
    assert jobs_still_wanted(store, [*job_ids, 99]) == set(job_ids)


def test_a_job_that_is_put_off_spends_no_attempt(store: Store) -> None:
    want(store, a_want(), NOW_MS)
    job = leased(store)
    assert put_off(store, job.job_id, job.token, NOW_MS, not_before_ms=NOW_MS + 5_000, reason="provider_open")
    again = leased(store, now_ms=NOW_MS + 5_000)
    assert (again.job_id, again.attempts) == (job.job_id, 1)
