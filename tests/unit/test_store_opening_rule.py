"""The rule by which a wish opens a job again."""

import msgspec
import pytest

from foldahead_worker.store.jobs import AT_ONCE_MS, Job, after_want
from tests.stores import NOW_MS, a_want

JOB = Job(
    id=1,
    workspace="acme",
    cache_key="k",
    state="queued",
    urgency="ahead",
    deadline_ms=NOW_MS + 90_000,
    not_before_ms=NOW_MS - 1,
    attempts=1,
    max_attempts=3,
)


def job(**changes):
    return msgspec.structs.replace(JOB, **changes)


def test_a_queued_job_takes_the_earlier_deadline():
    assert after_want(JOB, a_want(deadline_ms=NOW_MS), stored=False, now_ms=NOW_MS) == job(deadline_ms=NOW_MS)
    assert after_want(JOB, a_want(deadline_ms=NOW_MS + 99_000), stored=False, now_ms=NOW_MS) == JOB


def test_the_hard_cap_raises_a_job_and_nothing_lowers_it():
    raised = after_want(JOB, a_want(urgency="forced"), stored=False, now_ms=NOW_MS)
    assert (raised.state, raised.urgency, raised.attempts) == ("queued", "forced", 1)
    assert after_want(raised, a_want(urgency="ahead"), stored=False, now_ms=NOW_MS).urgency == "forced"


def test_a_failed_job_opens_again_when_its_time_has_come_and_attempts_are_left():
    again = after_want(job(state="failed"), a_want(), stored=False, now_ms=NOW_MS)
    assert (again.state, again.attempts) == ("queued", 1)


@pytest.mark.parametrize("changes", [{"attempts": 3}, {"not_before_ms": NOW_MS + 1}])
def test_a_failed_job_stays_failed_before_its_time_or_without_attempts(changes):
    failed = job(state="failed", **changes)
    assert after_want(failed, a_want(), stored=False, now_ms=NOW_MS) == failed


def test_the_hard_cap_opens_a_failed_job_once_with_fresh_attempts():
    failed = job(state="failed", attempts=3, not_before_ms=2**62)
    again = after_want(failed, a_want(urgency="forced"), stored=False, now_ms=NOW_MS)
    assert (again.state, again.urgency, again.attempts, again.not_before_ms) == (
        "queued",
        "forced",
        0,
        AT_ONCE_MS,
    )
    spent = msgspec.structs.replace(again, state="failed", attempts=3)
    assert after_want(spent, a_want(urgency="forced"), stored=False, now_ms=NOW_MS) == spent


def test_a_done_job_whose_summary_was_evicted_starts_anew():
    again = after_want(job(state="done", attempts=3, urgency="forced"), a_want(), stored=False, now_ms=NOW_MS)
    assert (again.state, again.urgency, again.attempts) == ("queued", "ahead", 0)


@pytest.mark.parametrize("state", ["queued", "done", "failed"])
def test_a_job_whose_summary_is_there_is_done(state):
    assert after_want(job(state=state), a_want(), stored=True, now_ms=NOW_MS).state == "done"


def test_a_leased_job_is_its_workers_to_end():
    assert after_want(job(state="leased"), a_want(), stored=True, now_ms=NOW_MS).state == "leased"
