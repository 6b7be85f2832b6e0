"""How looks at armed sessions are settled, and the hint that wakes a watcher."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from foldahead import keys
from foldahead.calls import close_call
from foldahead_worker.armed import Armed, Settling, rests, waits, waits_for
from tests.correspondence import Scribe, a_ready
from tests.integration.redis_room.calling import publish, resume, with_bodies
from tests.waiting import wait_until


@pytest.fixture
def scribe() -> Scribe:
    return Scribe().say("one", "two", "three")


@pytest.mark.parametrize("settling", [lambda seen: waits(seen, 60_000), rests])
def test_a_newer_publish_stays_armed_whatever_is_settled(
    client, switchboard, scribe, settling: Callable[[Armed], Settling]
):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    [seen] = switchboard.armed.due(10)
    publish(client, scribe, 2)
    assert switchboard.armed.settle([settling(seen)]) == [False]
    assert [armed.n for armed in switchboard.armed.due(10)] == [2]


def test_a_publish_of_another_incarnation_with_the_same_counter_stays_armed(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1, "a")
    [seen] = switchboard.armed.due(10)
    publish(client, scribe, 1, "b")
    assert switchboard.armed.settle([rests(seen)]) == [False]
    assert len(switchboard.armed.due(10)) == 1


def test_waiting_puts_the_next_look_off(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    assert switchboard.armed.settle([waits(switchboard.armed.due(10)[0], 60_000)]) == [True]
    assert switchboard.armed.due(10) == []
    assert switchboard.figures.counts().armed == 1


def test_dropping_forgets_until_the_next_publish(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    assert switchboard.armed.settle([rests(switchboard.armed.due(10)[0])]) == [True]
    assert switchboard.figures.counts().armed == 0
    publish(client, scribe, 2)
    assert switchboard.figures.counts().armed == 1


def test_a_job_that_was_done_before_it_was_settled_is_not_waited_for(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    [seen] = switchboard.armed.due(10)
    switchboard.ready(scribe.member, a_ready("key"))
    switchboard.armed.settle([waits_for(seen, "key")])
    assert resume(client, scribe).job == ""


@pytest.mark.parametrize("known_before", [True, False])
def test_a_job_that_failed_before_it_was_settled_is_not_waited_for(client, switchboard, scribe, known_before: bool):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    if known_before:  # another look, for it hurries now
        switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
        scribe.at_hard_cap = True
        publish(client, scribe, 2)
    [seen] = switchboard.armed.due(10)
    assert switchboard.failed(scribe.member, "key", "adapter_error") is known_before
    switchboard.armed.settle([waits_for(seen, "key")])
    [again] = switchboard.armed.due(10)
    assert again.job == ""
    switchboard.armed.settle([waits_for(again, "key")])
    assert resume(client, scribe).job == "key"


def test_a_session_closed_while_it_is_looked_at_waits_for_no_job(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    [seen] = switchboard.armed.due(10)
    client.execute_command(*close_call(scribe.member).command)
    switchboard.armed.settle([waits_for(seen, "key")])
    assert switchboard.armed.wants_nothing(scribe.member)


def test_looks_are_settled_together_each_by_what_became_of_its_session(client, switchboard):
    one, two, odd = (Scribe(name, due_in_s=0) for name in ("one", "two", "odd"))
    for scribe in (one, two, odd):
        publish(client, scribe, 1)
    seen = {armed.member: armed for armed in switchboard.armed.due(10)}
    publish(client, two, 2)
    client.set(keys.state(odd.member), "nothing of ours")
    client.expire(keys.state(odd.member), 60)
    settled = switchboard.armed.settle([rests(seen[scribe.member]) for scribe in (one, two, odd)])
    assert settled == [True, False, False]
    assert [armed.member for armed in switchboard.armed.due(10)] == [two.member]
    assert switchboard.figures.counts().armed == 1


def test_who_waits_for_a_hint_hears_at_once_of_a_session_that_wants_a_look(client, switchboard, scribe):
    scribe.due_in_s = 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(switchboard.armed.await_hint, 4.0)
        wait_until(lambda: client.info("clients")["blocked_clients"])
        publish(client, scribe, **with_bodies(scribe))
        begun_s = time.monotonic()
        waiting.result()
    assert time.monotonic() - begun_s < 2.0


def test_one_hint_is_left_for_many_sessions_and_none_for_those_that_can_wait(client, switchboard):
    publish(client, Scribe("later", due_in_s=60))
    assert client.llen(keys.HINT_LIST) == 0
    for number in range(3):
        publish(client, Scribe(f"s{number}", due_in_s=0))
    assert client.llen(keys.HINT_LIST) == 1
    assert len(switchboard.armed.due(10)) == 3
    assert client.llen(keys.HINT_LIST) == 0


def test_a_session_whose_bodies_are_wanted_leaves_no_hint_before_it_brings_them(client, scribe):
    scribe.due_in_s = 0
    assert publish(client, scribe, 1, upload=True).answer.bodies_from == 0
    assert client.llen(keys.HINT_LIST) == 0
    publish(client, scribe, 2, upload=True, **with_bodies(scribe))
    assert client.llen(keys.HINT_LIST) == 1


def test_a_hint_that_is_not_of_our_making_stops_neither_agents_nor_watchers(client, switchboard, scribe):
    client.set(keys.HINT_LIST, "nothing of ours", ex=60)
    scribe.due_in_s = 0
    publish(client, scribe)
    switchboard.armed.await_hint(0.01)
    assert len(switchboard.armed.due(10)) == 1
    assert not client.exists(keys.HINT_LIST)


def test_a_session_closed_while_it_is_looked_at_is_not_armed_again(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    [seen] = switchboard.armed.due(10)
    client.execute_command(*close_call(scribe.member).command)
    switchboard.armed.settle([waits(seen, 0)])
    assert switchboard.figures.counts().armed == 0
