"""Many threads and processes at one queue: each job goes to one worker at a time, and none is lost."""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

from foldahead_worker.store import Store, open_store
from foldahead_worker.store.commits import commit
from foldahead_worker.store.jobs import want_batch
from foldahead_worker.store.leases import expire, heartbeat, lease, leases
from foldahead_worker.store.status import status
from tests.stores import NOW_MS, a_request, a_want, an_answer

JOBS = 200


def fill(store: Store) -> None:
    want_batch(store, [a_want(n, request=a_request(n, workspace=f"w{n % 7}")) for n in range(JOBS)], NOW_MS)


def drain(store: Store, owner: str) -> list[int]:
    """Leases and commits until nothing is left; the ids of the jobs that were this worker's."""
    mine: list[int] = []
    while job := lease(store, owner, NOW_MS):
        committed = commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS)
        assert committed.stored
        assert committed.finished
        mine.append(job.job_id)
    return mine


def drain_in_threads(url: str, threads: int) -> list[int]:
    """The work of one process."""
    store = open_store(url, busy_timeout_s=60)  # this is about leases, not about how long a loaded machine waits
    try:
        with ThreadPoolExecutor(threads) as pool:
            return [job_id for ids in pool.map(lambda n: drain(store, f"t{n}"), range(threads)) for job_id in ids]
    finally:
        store.close()


def test_a_hundred_threads_lease_each_job_once(store):
    fill(store)
    with ThreadPoolExecutor(100) as pool:
        taken = [job_id for ids in pool.map(lambda n: drain(store, f"t{n}"), range(100)) for job_id in ids]
    assert (len(taken), len(set(taken))) == (JOBS, JOBS)
    assert status(store, NOW_MS).done == JOBS


def test_three_processes_lease_each_job_once(store, store_url):
    fill(store)
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        taken = [job_id for ids in pool.map(drain_in_threads, [store_url] * 3, [4] * 3) for job_id in ids]
    assert (len(taken), len(set(taken))) == (JOBS, JOBS)
    assert status(store, NOW_MS).done == JOBS


def test_jobs_of_killed_workers_are_all_done_by_others(store):
    fill(store)
    dead = [lease(store, "killed", NOW_MS) for _ in range(40)]
    slow = lease(store, "slow", NOW_MS)
    seen = leases(store)
    assert slow
    assert heartbeat(store, slow.job_id, slow.token)
    assert Counter(expire(store, one, NOW_MS) for one in seen) == {"queued": 40, None: 1}
    done = drain(store, "alive")
    assert {job.job_id for job in dead if job} <= set(done)
    assert slow.job_id not in done
    assert len(done) == JOBS - 1
