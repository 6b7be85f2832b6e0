"""Money: reserved before a call, settled after it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from foldahead_worker.store.commits import commit
from foldahead_worker.store.jobs import want
from foldahead_worker.store.leases import expire, fail, hand_back, lease, leases, needs_bodies, retry_later
from foldahead_worker.store.retention import prune_spend
from foldahead_worker.store.spend import (
    Bill,
    SpendRow,
    day_of,
    reserve,
    spend_rows,
    spent_by_session,
    spent_on,
)
from tests.stores import NOW_MS, a_request, a_want, an_answer, leased

BILL = Bill(picodollars=70, input_tokens=20_000, output_tokens=900)


def asked_for(store, job, picodollars=100):
    """The answer to a reservation for a lease that is held."""
    answer = reserve(store, job.job_id, job.token, picodollars, NOW_MS)
    assert answer
    return answer


def reserved(store, **changes):
    """A leased job with a reservation."""
    want(store, a_want(**changes), NOW_MS)
    job = leased(store)
    assert asked_for(store, job).granted
    return job


def test_a_reservation_counts_until_the_bill_takes_its_place(store):
    job = reserved(store)
    assert spent_by_session(store, "acme", "s") == 100
    commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS, BILL)
    assert spent_by_session(store, "acme", "s") == spent_on(store, day_of(NOW_MS)) == 70
    assert spent_by_session(store, "other", "s") == 0


@pytest.mark.parametrize(
    "end",
    [
        lambda store, job, bill: commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS, bill),
        lambda store, job, bill: hand_back(store, job.job_id, job.token, NOW_MS, bill),
        lambda store, job, bill: fail(store, job.job_id, job.token, NOW_MS, reason="adapter_error", bill=bill),
        lambda store, job, bill: retry_later(
            store, job.job_id, job.token, NOW_MS, not_before_ms=NOW_MS, reason="overloaded", bill=bill
        ),
    ],
)
@pytest.mark.parametrize(("bill", "spent"), [(BILL, 70), (Bill(), 0), (None, 100)])
def test_every_end_of_a_lease_settles_by_the_bill_or_at_the_upper_bound(store, end, bill, spent):
    end(store, reserved(store), bill)
    assert spent_by_session(store, "acme", "s") == spent


def test_missing_bodies_cost_nothing(store):
    job = reserved(store)
    needs_bodies(store, job.job_id, job.token, NOW_MS, reopens_at_ms=NOW_MS)
    assert spent_by_session(store, "acme", "s") == 0


def test_a_lease_that_died_is_settled_at_the_upper_bound_and_corrected_by_a_late_bill(store):
    job = reserved(store)
    expire(store, leases(store)[0], NOW_MS)
    assert spent_by_session(store, "acme", "s") == 100
    commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS, BILL)
    assert spent_by_session(store, "acme", "s") == 70


def test_two_leases_of_a_job_are_paid_both(store):
    reserved(store)
    expire(store, leases(store)[0], NOW_MS)
    again = leased(store)
    reserve(store, again.job_id, again.token, 30, NOW_MS)
    assert spent_by_session(store, "acme", "s") == 130


def test_a_second_call_under_one_lease_adds_to_the_first(store):
    job = reserved(store)
    assert asked_for(store, job, 11).spent_picodollars == 100
    assert spent_by_session(store, "acme", "s") == 111


def test_nothing_is_reserved_for_a_lease_that_was_lost(store):
    want(store, a_want(), NOW_MS)
    job = leased(store)
    expire(store, leases(store)[0], NOW_MS)
    assert reserve(store, job.job_id, job.token, 100, NOW_MS) is None
    assert spent_by_session(store, "acme", "s") == 0


def test_a_call_that_the_budget_does_not_cover_is_not_granted(store):
    want(store, a_want(budget_picodollars=99), NOW_MS)
    job = leased(store)
    asked = asked_for(store, job)
    assert (asked.granted, asked.over_budget) == (False, True)
    assert spent_by_session(store, "acme", "s") == 0


def test_a_forced_call_runs_over_the_budget_and_counts(store):
    want(store, a_want(budget_picodollars=99, urgency="forced"), NOW_MS)
    job = leased(store)
    asked = asked_for(store, job)
    assert (asked.granted, asked.over_budget) == (True, True)
    assert spent_by_session(store, "acme", "s") == 100


def test_the_first_session_that_waited_pays(store):
    want(store, a_want(session="z-first"), NOW_MS)
    want(store, a_want(session="a-second", budget_picodollars=0), NOW_MS + 1)
    job = leased(store, now_ms=NOW_MS + 1)
    assert asked_for(store, job).session == "z-first"
    assert (spent_by_session(store, "acme", "z-first"), spent_by_session(store, "acme", "a-second")) == (
        100,
        0,
    )


def test_jobs_of_one_session_never_reserve_more_than_its_budget_together(store):
    for n in range(12):
        want(store, a_want(n, budget_picodollars=500), NOW_MS)
    held = [job for _ in range(12) if (job := lease(store, "worker", NOW_MS))]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda job: asked_for(store, job), held))
    assert sum(answer.granted for answer in answers) == 5
    assert spent_by_session(store, "acme", "s") == 500


def test_spend_is_listed_by_session_model_and_kind_the_dearest_first(store):
    cheap = reserved(store, n=1, session="cheap")
    commit(store, cheap.job_id, cheap.token, an_answer(cheap.request), NOW_MS, Bill(picodollars=1))
    for n in (2, 3):
        job = reserved(store, n=n, session="dear")
        commit(store, job.job_id, job.token, an_answer(job.request), NOW_MS, BILL)
    model = "anthropic:claude-haiku-5-5"
    dear = SpendRow(
        workspace="acme",
        session="dear",
        model=model,
        kind="text",
        leases=2,
        picodollars=140,
        input_tokens=40_000,
        output_tokens=1_800,
    )
    assert spend_rows(store)[0] == dear
    assert [row.session for row in spend_rows(store, "acme")] == ["dear", "cheap"]
    assert spend_rows(store, "other") == spend_rows(store, since_day="9999-01-01") == ()


def test_a_workspace_whose_day_is_spent_gets_no_more_ahead_of_time(store):
    reserved(store, n=1)
    want(store, a_want(2, session="other"), NOW_MS)
    job = leased(store)
    refused = reserve(store, job.job_id, job.token, 100, NOW_MS, day_budget_picodollars=199)
    assert refused
    assert (refused.granted, refused.over_budget) == (False, True)
    granted = reserve(store, job.job_id, job.token, 100, NOW_MS, day_budget_picodollars=200)
    assert granted
    assert (granted.granted, granted.over_budget) == (True, False)


def test_the_hard_cap_goes_over_the_budget_of_the_day_and_says_so(store):
    want(store, a_want(urgency="forced"), NOW_MS)
    job = leased(store)
    answer = reserve(store, job.job_id, job.token, 100, NOW_MS, day_budget_picodollars=1)
    assert answer
    assert (answer.granted, answer.over_budget) == (True, True)


def test_a_day_budget_is_of_the_day_and_of_the_workspace(store):
    reserved(store, n=1)
    want(store, a_want(2, request=a_request(2, workspace="umbrella")), NOW_MS)
    elsewhere = leased(store)
    answer = reserve(store, elsewhere.job_id, elsewhere.token, 100, NOW_MS, day_budget_picodollars=100)
    assert answer
    assert answer.granted
    want(store, a_want(3), NOW_MS)
    tomorrow = leased(store)
    answer = reserve(store, tomorrow.job_id, tomorrow.token, 100, NOW_MS + 86_400_000, day_budget_picodollars=100)
    assert answer
    assert answer.granted


def test_old_spend_goes_when_it_is_settled(store):
    job = reserved(store)
    assert prune_spend(store, "9999-01-01") == 0
    fail(store, job.job_id, job.token, NOW_MS, reason="adapter_error", bill=BILL)
    assert prune_spend(store, day_of(NOW_MS)) == 0
    assert prune_spend(store, "9999-01-01") == 1


def test_a_day_is_the_utc_day():
    assert day_of(1_795_996_799_999) == "2026-11-29"
    assert day_of(1_795_996_800_000) == "2026-11-30"
