"""The watcher over a real Redis and a real database: what it asks for, what it leaves alone, who cannot stop it."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
import redis
from kombu.exceptions import OperationalError
from sqlalchemy import select

from foldahead import wire
from foldahead.core.policy import Policy
from foldahead.core.request import SummaryRequest
from foldahead_worker.armed import ArmedSessions, Settling
from foldahead_worker.backoff import rest_ms
from foldahead_worker.calling import Caller
from foldahead_worker.delivery import give_up
from foldahead_worker.means import Chooser, OneKey
from foldahead_worker.metrics import Metrics
from foldahead_worker.store import Store
from foldahead_worker.store.jobs import NEVER_MS, due_unsent
from foldahead_worker.store.leases import fail, lease
from foldahead_worker.store.schema import jobs
from foldahead_worker.store.sessions import load_session
from foldahead_worker.store.waiters import waiters_of
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.watch import Watcher
from tests.correspondence import Scribe, a_ready, a_standing
from tests.integration.redis_room.calling import publish, redis_with_library
from tests.stores import NOW_MS, a_want, refuse_rows_of, summarised
from tests.waiting import wait_until

POLICY = Policy(threshold_tokens=3_000, hard_cap_tokens=20_000, min_span_tokens=200, target_ratio=0.9)


class Wanting(Scribe):
    """A session that offers a span, past its threshold."""

    def __init__(self, name: str = "s", workspace: str = "acme", **changes: object) -> None:
        super().__init__(name, workspace, due_in_s=0)
        self.changes = changes

    def standing(self) -> wire.Standing:
        head = self.name.encode().ljust(32, b"h")[:32]
        offer = wire.Offer(
            start=0, end=14, head_start=head, head_end=head, span_estimate_tokens=2_900, span_tokens=2_900
        )
        changes = {"pending_tokens": 3_100, "policy": POLICY, "offer": offer, "messages": 0, "turns": 9} | self.changes
        return msgspec.structs.replace(a_standing(), **changes)


class Watch:
    """A watcher, what it woke, and the doors to look at what it did."""

    def __init__(self, client: "redis.Redis", store: Store) -> None:
        self.client, self.store = client, store
        self.switchboard, self.metrics, self.woken = Switchboard(client), Metrics(), list[int]()
        chooser = Chooser(OneKey("a key"), rules_only=False)
        self.watcher = Watcher(store, self.switchboard, chooser, self.woken.extend, self.metrics)
        self.numbers = iter(range(1, 1_000))

    def turn(self, *scribes: Scribe, **changes: Any) -> None:
        """These publish, with changes to what is sent, and the watcher looks."""
        for scribe in scribes:
            publish(self.client, scribe, next(self.numbers), **changes)
        self.watcher.look()

    def requests(self) -> list[SummaryRequest]:
        with self.store.reading() as connection:
            encoded = connection.scalars(select(jobs.c.request).order_by(jobs.c.id)).all()
        return [msgspec.msgpack.decode(request, type=SummaryRequest) for request in encoded]

    def fail_job(self, scribe: Scribe, reopens_at_ms: int = NEVER_MS) -> None:
        """A worker takes the best job, and it fails for good, or until then."""
        job = lease(self.store, "worker", 2**60)
        assert job is not None
        fail(self.store, job.job_id, job.token, NOW_MS, reason="400", reopens_at_ms=reopens_at_ms)
        assert self.switchboard.failed(scribe.member, job.request.cache_key, "BadRequest")

    def let_pass(self, scribe: Scribe, ms: int) -> None:
        """As if the session's last failure were so much longer ago."""
        state = f"fold:1:s:{scribe.member}:state"
        self.client.hincrby(state, "failed_at", -ms)

    def figure(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"foldahead_{name}_total", labels) or 0


@pytest.fixture
def watch(redis_url: str, store: Store) -> Iterator[Watch]:
    with redis_with_library(redis_url) as client:
        yield Watch(client, store)


def moved(scribe: Wanting, end: int) -> Wanting:
    """The session has gone on: it offers more, which is another summary."""
    offer = scribe.standing().offer
    assert offer is not None
    scribe.changes["offer"] = msgspec.structs.replace(offer, end=end, head_end=str(end).encode().ljust(32, b"x"))
    return scribe


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_session_whose_job_failed_is_not_tried_again_every_turn(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe)
    for end in range(15, 25):
        watch.turn(moved(scribe, end))
    assert len(watch.woken) == 1


def test_it_is_tried_again_after_its_rest_and_rests_twice_as_long_when_that_fails_too(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe)
    watch.let_pass(scribe, rest_ms(1, "ahead"))
    watch.turn(moved(scribe, 15))
    assert len(watch.woken) == 2
    watch.fail_job(scribe)
    watch.let_pass(scribe, rest_ms(1, "ahead"))
    watch.turn(moved(scribe, 16))
    assert len(watch.woken) == 2
    watch.let_pass(scribe, rest_ms(2, "ahead") - rest_ms(1, "ahead"))
    watch.turn(moved(scribe, 17))
    assert len(watch.woken) == 3


def test_a_rest_ends_by_itself_when_the_session_says_nothing_more(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe)
    watch.let_pass(scribe, rest_ms(1, "ahead") - 100)
    watch.turn(moved(scribe, 15))
    assert len(watch.woken) == 1
    wait_until(lambda: watch.watcher.look() and watch.woken[1:])


def test_a_session_at_its_hard_cap_rests_for_a_shorter_time(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe)
    scribe.changes |= {"at_hard_cap": True, "pending_tokens": 21_000}
    watch.turn(moved(scribe, 15))
    assert len(watch.woken) == 1
    watch.let_pass(scribe, rest_ms(1, "forced"))
    watch.turn(moved(scribe, 16))
    assert len(watch.woken) == 2


def test_a_summary_that_is_made_ends_the_count_of_failures(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe)
    watch.switchboard.ready(scribe.member, a_ready())
    watch.turn(moved(scribe, 15), ready_known=(a_ready().cache_key,))
    assert len(watch.woken) == 2


def test_a_session_that_hears_of_a_summary_just_now_is_asked_again_whether_it_wants_another(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe)
    watch.switchboard.ready(scribe.member, a_ready())
    watch.turn(moved(scribe, 15))
    assert len(watch.woken) == 1
    watch.turn(scribe, ready_known=(a_ready().cache_key,))
    assert len(watch.woken) == 2


def test_messages_that_were_missing_are_no_failure(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.switchboard.failed(scribe.member, watch.requests()[0].cache_key, "needs_bodies", counts=False)
    watch.turn(moved(scribe, 15))
    assert len(watch.woken) == 2


def test_a_job_that_failed_for_good_is_not_looked_at_again_while_the_session_is_silent(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe)
    watch.let_pass(scribe, rest_ms(1, "ahead"))
    watch.turn(scribe)
    watch.turn(scribe)
    assert watch.switchboard.figures.counts().armed == 0
    assert len(watch.woken) == 1


def test_a_job_that_failed_for_a_time_is_looked_at_when_that_is_over(watch: Watch) -> None:
    scribe = Wanting()
    watch.turn(scribe)
    watch.fail_job(scribe, reopens_at_ms=2**53)
    watch.let_pass(scribe, rest_ms(1, "ahead"))
    watch.turn(scribe)
    assert watch.switchboard.figures.counts().armed == 1
    assert watch.watcher.look() == 0


# -- parents ----------------------------------------------------------------------------------------------------------


def shown(cache_key: str) -> wire.Shown:
    return wire.Shown(cache_key=cache_key, start=0, end=8, head_end=b"p" * 32, summary_tokens=300)


def test_a_summary_folds_in_the_one_before_where_the_database_has_it(watch: Watch) -> None:
    parent = summarised(watch.store, a_want()).waiters[0].cache_key
    watch.turn(Wanting(shown=shown(parent)))
    assert [(request.parent, request.parent_end) for request in watch.requests()[1:]] == [(parent, 8)]


def test_a_summary_whose_parent_the_database_has_lost_is_made_from_the_originals(watch: Watch) -> None:
    watch.turn(Wanting(shown=shown("0" * 64)))
    assert [(request.parent, request.parent_end) for request in watch.requests()] == [("", 0)]
    assert len(watch.woken) == 1


# -- what ends meanwhile ----------------------------------------------------------------------------------------------


class Overtaken(ArmedSessions):
    """Before a look is settled a worker takes the job that it opened, and is done with it, without a summary."""

    def __init__(self, watch: "Watch") -> None:
        super().__init__(Caller(watch.client))
        self.watch = watch

    def settle(self, settlings: Sequence[Settling]) -> list[bool]:
        job = lease(self.watch.store, "worker", 2**60)
        assert job is not None
        fail(self.watch.store, job.job_id, job.token, NOW_MS, reason="400", reopens_at_ms=NEVER_MS)
        workspace, cache_key = job.request.workspace, job.request.cache_key
        waiters = waiters_of(self.watch.store, workspace, cache_key)
        give_up(self.watch.store, self.watch.switchboard, workspace, cache_key, "BadRequest", waiters)
        return super().settle(settlings)


@pytest.mark.parametrize("was_known", [False, True])
def test_a_job_that_ends_before_its_session_is_settled_is_not_waited_for(watch: Watch, was_known: bool) -> None:
    scribe = Wanting()
    if was_known:
        watch.turn(scribe)
        scribe.changes |= {"at_hard_cap": True, "pending_tokens": 21_000}
    unhindered, watch.switchboard.armed = watch.switchboard.armed, Overtaken(watch)
    watch.turn(scribe)
    watch.switchboard.armed = unhindered
    [seen] = unhindered.due(10)
    assert seen.job == ""
    assert watch.watcher.look() == 1
    seen = unhindered.look(scribe.member)
    assert seen is not None
    assert seen.job == ""


# -- one for all ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "woken"), [("jobs", 2), ("waiters", 2), ("sessions", 3)])
def test_a_session_that_the_database_refuses_is_set_aside_and_all_others_are_served(
    watch: Watch, table: str, woken: int
) -> None:
    refuse_rows_of(watch.store, table, "evil")
    watch.turn(Wanting("a"), Wanting(workspace="evil"), Wanting("b"))
    assert {request.workspace for request in watch.requests()} >= {"acme"}
    assert len(watch.woken) == woken
    assert watch.figure("set_aside", where="watch") == 1
    assert watch.switchboard.figures.counts().armed == 0


def test_a_session_whose_state_redis_chokes_on_is_set_aside_and_all_others_are_served(watch: Watch) -> None:
    evil, good = Wanting(workspace="evil"), Wanting()
    publish(watch.client, evil, 1)
    watch.client.hset(f"fold:1:s:{evil.member}:state", "rev", "no number")
    watch.turn(good)
    assert {request.workspace for request in watch.requests()} == {"evil", "acme"}
    good_keys = {request.cache_key for request in watch.requests() if request.workspace == "acme"}
    seen = watch.switchboard.armed.look(good.member)
    assert seen is not None
    assert seen.job in good_keys
    assert len(watch.woken) == 2
    assert watch.figure("set_aside", where="watch") == 1
    assert watch.switchboard.figures.counts().armed == 0


def test_a_broker_that_is_away_is_no_sessions_fault(watch: Watch) -> None:
    def away(_: object) -> None:
        raise OperationalError("connection refused")

    chooser = Chooser(OneKey("a key"), rules_only=False)
    watcher = Watcher(watch.store, watch.switchboard, chooser, away, watch.metrics)
    for scribe in (Wanting("a"), Wanting("b")):
        publish(watch.client, scribe, 1)
    with pytest.raises(OperationalError):
        watcher.look()
    assert watch.figure("set_aside", where="watch") == 0
    assert len(due_unsent(watch.store, 2**60, 2**60)) == 2
    seen = watch.switchboard.armed.look(Wanting("a").member)
    assert seen is not None
    assert seen.job


def test_a_session_with_a_name_that_no_index_takes_is_refused_where_it_publishes(watch: Watch) -> None:
    for scribe in (Wanting("x" * 513), Wanting(workspace="é" * 257)):
        with pytest.raises(redis.ResponseError, match="FOLDREFUSED name too long"):
            publish(watch.client, scribe, 1)
    watch.turn(Wanting("x" * 512, workspace="%" * 512))
    assert len(watch.woken) == 1


# -- what is told -----------------------------------------------------------------------------------------------------


def test_why_a_session_is_left_alone_is_said_once_for_each_change_and_counted(watch: Watch, caplog) -> None:
    caplog.set_level(logging.INFO, "foldahead.watch")
    small = Wanting(policy=msgspec.structs.replace(POLICY, min_span_tokens=5_000))
    watch.turn(small)
    watch.turn(small)
    assert [record.reason for record in caplog.records] == ["span too small: 2900 of at least 5000 tokens"]
    assert (caplog.records[0].workspace, caplog.records[0].session) == ("acme", "s")
    small.changes |= {"offer": None, "no_offer_reason": "zebracanary"}
    watch.turn(small)
    assert [record.reason for record in caplog.records][1:] == ["other"]
    assert watch.figure("left_alone", reason="span too small") == 2
    assert watch.figure("left_alone", reason="other") == 1


def test_events_are_told_from_where_the_view_stands_not_from_what_is_ready(watch: Watch) -> None:
    watch.turn(Wanting(shown=shown("0" * 64), watermark=5))
    [request] = watch.requests()
    assert [waiter.watermark_before for waiter in waiters_of(watch.store, "acme", request.cache_key)] == [5]


def test_a_session_whose_budget_is_beyond_all_bounds_is_served(watch: Watch) -> None:
    watch.turn(Wanting(policy=msgspec.structs.replace(POLICY, max_cost_per_session_usd=2_000_000_000)))
    assert len(watch.woken) == 1


def test_how_many_summaries_a_session_wants_kept_is_noted_where_it_says_so(watch: Watch) -> None:
    watch.turn(Wanting("open"), Wanting("said", policy=msgspec.structs.replace(POLICY, cache_max_rows=7)))
    noted = [load_session(watch.store, "acme", name) for name in ("open", "said")]
    assert [row.cache_max_rows for row in noted if row] == [0, 7]
