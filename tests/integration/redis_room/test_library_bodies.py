"""What the function library keeps of histories: by heads, whoever sends them and in whatever order."""

from typing import Any

import pytest
import redis

from foldahead.calls import look_call
from foldahead_worker.switchboard import Switchboard
from tests.correspondence import Scribe, a_record
from tests.integration.redis_room.calling import (
    ask,
    publish,
    resume,
    with_bodies,
    with_records,
)


@pytest.fixture
def scribe() -> Scribe:
    return Scribe().say("one", "two", "three")


def stored(switchboard: Switchboard, scribe: Scribe) -> list[tuple[bytes, bytes]]:
    return switchboard.bodies(scribe.member)[2]


def test_bodies_that_go_on_from_what_is_stored_are_appended(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe))
    scribe.say("four", "five")
    reply = publish(client, scribe, 2, **with_bodies(scribe, 3))
    assert reply.answer.bodies_from is None
    assert stored(switchboard, scribe) == scribe.stored()


def test_a_session_that_is_not_known_is_asked_for_all_bodies(client, scribe):
    assert publish(client, scribe).answer.bodies_from == 0


def test_a_session_that_does_not_upload_is_asked_for_nothing(client, scribe):
    scribe.upload = False
    assert publish(client, scribe).answer.bodies_from is None


def test_after_a_gap_bodies_are_wanted_from_where_the_stored_ones_end(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe))
    before = stored(switchboard, scribe)
    scribe.say("four", "five", "six")
    reply = publish(client, scribe, 2, **with_bodies(scribe, 5))
    assert reply.answer.bodies_from == 3
    assert stored(switchboard, scribe) == before


def test_a_rewind_inside_what_is_stored_replaces_the_end(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe))
    scribe.rewind(1).say("zwei")
    reply = publish(client, scribe, 2, **with_bodies(scribe, 1))
    assert reply.answer.bodies_from is None
    assert stored(switchboard, scribe) == scribe.stored()


def test_a_rewind_without_anything_new_needs_no_bodies(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe))
    scribe.rewind(2)
    assert publish(client, scribe, 2).answer.bodies_from is None


def test_a_fork_is_asked_from_the_last_place_at_which_both_agree(client, scribe):
    publish(client, scribe, 1, **with_bodies(scribe))
    other = Scribe().say("one", "two", "drei", "vier")
    assert publish(client, other, 1, "b").answer.bodies_from == 2


def test_bodies_of_another_history_are_not_appended(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe))
    before = stored(switchboard, scribe)
    other = Scribe().say("eins", "zwei", "drei", "vier")
    reply = publish(client, other, 1, "b", **with_bodies(other, 3))
    assert reply.answer.bodies_from == 0
    assert stored(switchboard, scribe) == before


def test_bodies_that_are_stored_already_change_nothing(client, switchboard, scribe):
    scribe.say("four")
    publish(client, scribe, 1, **with_bodies(scribe))
    before = stored(switchboard, scribe)
    shorter = Scribe().say("one", "two")
    publish(client, shorter, 1, "b", **with_bodies(shorter))
    assert stored(switchboard, scribe) == before


def test_discarded_bodies_are_wanted_again_at_the_next_look(client, switchboard, scribe):
    told = publish(client, scribe, 1, **with_bodies(scribe))
    switchboard.discard_bodies(scribe.member)
    reply = ask(client, look_call(scribe.member, told.rev, "", ()))
    assert reply is not None
    assert reply.answer.bodies_from == 0


def test_a_range_of_bodies_comes_with_the_head_before_it(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe))
    assert switchboard.bodies(scribe.member, 1, 2) == (1, scribe.heads[1], scribe.stored()[1:2])
    assert switchboard.bodies(scribe.member)[1] == scribe.heads[0]


def test_bodies_that_come_just_when_they_are_read_come_with_the_head_before_them(client, redis_url, scribe):
    class Overtaken(redis.Redis):
        """A connection that an agent's publish overtakes."""

        def lrange(self, name: Any, start: int, end: int) -> Any:
            publish(client, scribe, 1, **with_bodies(scribe))
            return super().lrange(name, start, end)

    with Overtaken.from_url(redis_url) as own:
        assert Switchboard(own).bodies(scribe.member) == (0, scribe.heads[0], scribe.stored())


def test_more_bodies_than_one_read_holds_come_back_whole(client, switchboard):
    scribe = Scribe().say(*map(str, range(1234)))
    publish(client, scribe, 1, anchors=(), **with_bodies(scribe))
    assert stored(switchboard, scribe) == scribe.stored()


def test_a_counter_that_is_not_newer_is_old_news(client, switchboard, scribe):
    publish(client, scribe, 5, **with_bodies(scribe))
    old = Scribe().say("one")
    publish(client, old, 4, **with_bodies(old))
    assert resume(client, scribe).standing == scribe.standing()
    assert stored(switchboard, scribe) == scribe.stored()


def test_old_news_still_bring_their_records(client, scribe):
    publish(client, scribe, 5)
    publish(client, scribe, 4, **with_records(a_record()))
    assert resume(client, scribe).records == (a_record(),)


def test_another_incarnation_replaces_the_standing_whatever_its_counter(client, scribe):
    publish(client, scribe, 5, "a")
    other = Scribe().say("one")
    publish(client, other, 1, "b")
    assert resume(client, scribe).standing == other.standing()


def test_two_incarnations_that_alternate_both_have_their_bodies_stored(client, switchboard, scribe):
    publish(client, scribe, 1, "a", **with_bodies(scribe))
    for n in range(2, 8):
        start = len(scribe.texts)
        scribe.say(f"turn {n}")
        publish(client, scribe, n, "ab"[n % 2], **with_bodies(scribe, start))
    assert stored(switchboard, scribe) == scribe.stored()


def test_the_same_fact_is_recorded_once_whenever_it_was_made(client, scribe):
    publish(client, scribe, 1, **with_records(a_record(0, 2, created_at_ms=1)))
    publish(client, scribe, 1, "b", **with_records(a_record(0, 2, created_at_ms=9), a_record(2, 4)))
    assert resume(client, scribe).records == (a_record(0, 2, created_at_ms=1), a_record(2, 4))


def test_who_knows_all_records_is_not_told_them_again(client, scribe):
    first = publish(client, scribe, 1, **with_records(a_record(0, 2)))
    second = publish(client, scribe, 2, mark=first.mark, **with_records(a_record(2, 4)))
    assert not second.records_told
    assert not publish(client, scribe, 3, mark=second.mark).records_told


def test_who_misses_a_record_is_told_all(client, scribe):
    first = publish(client, scribe, 1, **with_records(a_record(0, 2)))
    publish(client, scribe, 1, "b", **with_records(a_record(2, 4)))
    reply = publish(client, scribe, 2, mark=first.mark, **with_records(a_record(4, 6)))
    assert reply.answer.records == (a_record(0, 2), a_record(2, 4), a_record(4, 6))


def test_a_new_record_is_reported_to_the_inbox_once(client, switchboard, scribe):
    publish(client, scribe, 1, **with_records(a_record()))
    publish(client, scribe, 2, **with_records(a_record()))
    [entry] = switchboard.inbox.read("w", 10, 100)
    assert (entry.kind, entry.member, entry.data) == ("record", scribe.member, a_record())


def test_an_event_that_was_sent_twice_is_reported_once(client, switchboard, scribe):
    publish(client, scribe, 1, events=[(1, b'"x"'), (2, b'"y"')])
    publish(client, scribe, 2, events=[(2, b'"y"'), (5, b'"z"')])
    entries = switchboard.inbox.read("w", 10, 100)
    assert [(entry.item_id, entry.data) for entry in entries] == [
        (b"a:1", b'"x"'),
        (b"a:2", b'"y"'),
        (b"a:5", b'"z"'),
    ]
