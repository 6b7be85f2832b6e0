"""The function library, called as agents and servers call it, on a real server."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from foldahead import calls, keys, wire
from foldahead.calls import Publish, forget_call, look_call, publish_call
from foldahead_worker import library
from foldahead_worker.switchboard import Switchboard
from tests.correspondence import Scribe, a_ready, a_record
from tests.integration.redis_room import (
    ask,
    publish,
    redis_with_library,
    resume,
    with_bodies,
    with_records,
)
from tests.waiting import wait_until


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis_with_library(redis_url) as client:
        yield client


@pytest.fixture
def switchboard(client: "redis.Redis") -> Switchboard:
    return Switchboard(client)


@pytest.fixture
def scribe() -> Scribe:
    return Scribe().say("one", "two", "three")


def stored(switchboard: Switchboard, scribe: Scribe) -> list[tuple[bytes, bytes]]:
    return switchboard.bodies(scribe.member)[2]


# Loading


def test_loading_twice_leaves_the_library_as_it_is(client: "redis.Redis"):
    library.load(client)
    assert library.loaded_code(client) == library.source()


def test_another_text_of_the_same_version_is_replaced(client: "redis.Redis"):
    client.function_load(library.source() + "\n-- changed", replace=True)
    library.load(client)
    assert library.loaded_code(client) == library.source()


def test_a_newer_library_is_left_alone(client: "redis.Redis"):
    newer = library.source().replace(f"-- version: {library.LIBRARY_VERSION}", "-- version: 999")
    client.function_load(newer, replace=True)
    library.load(client)
    assert library.version_of(library.loaded_code(client)) == 999


def test_the_library_and_python_agree_on_what_they_share():
    def constant(name: str) -> int:
        found = re.search(rf"^local {name} = ([0-9* ]+)", library.source(), re.MULTILINE)
        assert found is not None
        product = 1
        for factor in found[1].split("*"):
            product *= int(factor)
        return product

    assert library.source().count(f"local WIRE = '{wire.WIRE_VERSION}'") == 1
    assert constant("SESSION_TTL_S") == keys.SESSION_TTL_S
    assert constant("MAX_BODY") == calls.MAX_BODY_BYTES
    assert constant("MAX_BODIES") == calls.MAX_BODIES
    assert constant("MAX_RECORD") == calls.MAX_RECORD_BYTES
    assert constant("MAX_EVENT") == calls.MAX_EVENT_BYTES


@pytest.mark.parametrize(
    "name", ["fold_publish", "fold_look", "fold_resume", "fold_forget", "fold_settle", "fold_ready"]
)
def test_another_wire_version_is_refused_in_words(client: "redis.Redis", name: str):
    with pytest.raises(redis.ResponseError) as refused:
        client.fcall(name, 1, "x", 2, "acme/s")  # pyright: ignore[reportArgumentType]
    assert str(refused.value) == (
        "FOLDWIRE wire version 2: the server side speaks 1; upgrade the older side"
    )


# Bodies


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


def test_more_bodies_than_one_read_holds_come_back_whole(client, switchboard):
    scribe = Scribe().say(*map(str, range(1234)))
    publish(client, scribe, 1, anchors=(), **with_bodies(scribe))
    assert stored(switchboard, scribe) == scribe.stored()


# Order


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


# Arming


def test_a_session_that_wants_work_is_armed_until_a_job_has_it(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    [seen] = switchboard.due(10)
    assert (seen.member, seen.standing) == (scribe.member, scribe.standing())
    assert switchboard.settle_job(seen, "key")
    assert switchboard.due(10) == []
    assert resume(client, scribe).job == "key"


def test_a_session_is_due_when_its_time_has_come_by_redis_clock(client, switchboard, scribe):
    scribe.due_in_s = 0.15
    publish(client, scribe)
    assert switchboard.due(10) == []
    wait_until(lambda: switchboard.due(10), timeout_s=5)


def test_a_publish_that_wants_no_work_disarms(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    scribe.due_in_s = None
    publish(client, scribe, 2)
    assert switchboard.due(10) == []


def test_a_lost_entry_is_armed_again_by_the_next_publish(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    client.delete(keys.armed(keys.shard_of(scribe.member)))
    publish(client, scribe, 2)
    assert len(switchboard.due(10)) == 1


def test_a_publish_while_a_job_is_under_way_does_not_arm(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    switchboard.settle_job(switchboard.due(10)[0], "key")
    publish(client, scribe, 2)
    assert switchboard.due(10) == []


def test_a_session_that_is_suddenly_due_at_once_is_looked_at_in_spite_of_its_job(client, switchboard, scribe):
    scribe.due_in_s = 0.01
    publish(client, scribe, 1)
    wait_until(lambda: switchboard.due(10))
    switchboard.settle_job(switchboard.due(10)[0], "key")
    scribe.due_in_s = 0
    publish(client, scribe, 2)
    [seen] = switchboard.due(10)
    assert (seen.job, seen.due_ms) == ("key", 0)
    switchboard.settle_job(seen, "key")
    publish(client, scribe, 3)
    assert switchboard.due(10) == []


def test_a_job_not_heard_of_for_a_minute_is_looked_at_again(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    switchboard.settle_job(switchboard.due(10)[0], "key")
    started_ms = int(client.hget(keys.state(scribe.member), "job_at"))
    client.hset(keys.state(scribe.member), "job_at", started_ms - 61_000)
    publish(client, scribe, 2)
    assert [seen.job for seen in switchboard.due(10)] == ["key"]


def test_the_most_overdue_come_first_over_all_shards(client, switchboard):
    scribes = [Scribe(f"s{number}", due_in_s=0) for number in range(40)]
    for number, scribe in enumerate(scribes):
        publish(client, scribe, 1)
        client.zadd(keys.armed(keys.shard_of(scribe.member)), {scribe.member: number})
    assert [seen.member for seen in switchboard.due(5)] == [scribe.member for scribe in scribes[:5]]


# Settling


@pytest.mark.parametrize("settle", ["settle_wait", "settle_drop"])
def test_a_newer_publish_stays_armed_whatever_is_settled(client, switchboard, scribe, settle: str):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    [seen] = switchboard.due(10)
    publish(client, scribe, 2)
    still = getattr(switchboard, settle)(seen, *([60_000] if settle == "settle_wait" else []))
    assert not still
    assert [armed.n for armed in switchboard.due(10)] == [2]


def test_a_publish_of_another_incarnation_with_the_same_counter_stays_armed(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1, "a")
    [seen] = switchboard.due(10)
    publish(client, scribe, 1, "b")
    assert not switchboard.settle_drop(seen)
    assert len(switchboard.due(10)) == 1


def test_waiting_puts_the_next_look_off(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    assert switchboard.settle_wait(switchboard.due(10)[0], 60_000)
    assert switchboard.due(10) == []
    assert switchboard.counts().armed == 1


def test_dropping_forgets_until_the_next_publish(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    assert switchboard.settle_drop(switchboard.due(10)[0])
    assert switchboard.counts().armed == 0
    publish(client, scribe, 2)
    assert switchboard.counts().armed == 1


def test_a_job_that_was_done_before_it_was_settled_is_not_waited_for(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    [seen] = switchboard.due(10)
    switchboard.ready(scribe.member, a_ready("key"))
    switchboard.settle_job(seen, "key")
    assert resume(client, scribe).job == ""


def test_members_whose_state_is_gone_are_disarmed(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    client.delete(keys.state(scribe.member))
    assert switchboard.due(10) == []
    assert switchboard.counts().armed == 0


def test_a_standing_of_another_wire_version_is_disarmed(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, standing=b"\x92\x02\xc0")
    assert switchboard.due(10) == []
    assert switchboard.counts().armed == 0


# Ready, failed, looks


def test_a_summary_that_is_ready_ends_the_job_and_is_told_once(client, switchboard, scribe):
    scribe.due_in_s = 0
    told = publish(client, scribe, 1)
    switchboard.settle_job(switchboard.due(10)[0], "key")
    assert switchboard.ready(scribe.member, a_ready("key"))
    reply = ask(client, look_call(scribe.member, told.rev, told.mark, ()))
    assert reply is not None
    assert (reply.answer.ready, reply.answer.job) == ((a_ready("key"),), "")
    assert publish(client, scribe, 2, ready_known=["key"]).answer.ready == ()


def test_a_look_without_news_says_nothing(client, scribe):
    told = publish(client, scribe)
    assert ask(client, look_call(scribe.member, told.rev, told.mark, ())) is None


def test_a_look_at_a_session_that_is_gone_says_so(client, scribe):
    reply = ask(client, look_call(scribe.member, "1", "", ()))
    assert reply is not None
    assert not reply.answer.known


def test_a_summary_for_a_session_that_is_not_known_leaves_no_key(client, switchboard, scribe):
    assert not switchboard.ready(scribe.member, a_ready())
    assert client.keys("*") == []


def test_a_failure_ends_the_job_and_says_why(client, switchboard, scribe):
    scribe.due_in_s = 0
    told = publish(client, scribe, 1)
    switchboard.settle_job(switchboard.due(10)[0], "key")
    assert switchboard.failed(scribe.member, "key", "adapter_error Timeout")
    reply = ask(client, look_call(scribe.member, told.rev, told.mark, ()))
    assert reply is not None
    assert (reply.answer.job, reply.answer.failed) == ("", "adapter_error Timeout")


def test_the_failure_of_an_older_job_leaves_the_newer(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    switchboard.settle_job(switchboard.due(10)[0], "newer")
    assert not switchboard.failed(scribe.member, "older", "adapter_error")
    assert resume(client, scribe).job == "newer"


def test_of_many_summaries_the_shortest_are_dropped(client, switchboard, scribe):
    publish(client, scribe)
    for end in range(12, 0, -1):
        switchboard.ready(scribe.member, a_ready(f"key {end}", end))
    ends = sorted(ready.end for ready in resume(client, scribe).ready)
    assert ends == [1, 6, 7, 8, 9, 10, 11, 12]


def test_overrides_of_the_workspace_come_with_every_answer(client, scribe):
    client.hset(keys.POLICIES_HASH, "acme", '{"mode":"off"}')
    assert publish(client, scribe).answer.overrides == b'{"mode":"off"}'
    assert publish(client, Scribe(workspace="other")).answer.overrides == b""


def test_a_damaged_summary_is_left_out_and_named(client, switchboard, scribe):
    publish(client, scribe, 1)
    switchboard.ready(scribe.member, a_ready())
    client.hset(keys.ready(scribe.member), "bad", b"9:\xff\xff")
    reply = publish(client, scribe, 2)
    assert reply.answer.ready == (a_ready(),)
    assert len(reply.unusable) == 1


# Records and events


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


# Coming and going


def test_resuming_an_unknown_session_asks_for_its_restoration_once(client, switchboard, scribe):
    assert not resume(client, scribe).known
    assert not resume(client, scribe).known
    assert switchboard.pop_restores(10) == [scribe.member]
    assert switchboard.pop_restores(10) == []


def test_a_restored_session_is_resumed_with_all_that_was_given_back(client, switchboard, scribe):
    resume(client, scribe)
    assert switchboard.restore(scribe.member, scribe.standing(), [a_ready()], [a_record(0, 2), a_record(2, 4)])
    answer = resume(client, scribe)
    assert answer.known
    assert answer.standing == scribe.standing()
    assert answer.ready == (a_ready(),)
    assert answer.records == (a_record(0, 2), a_record(2, 4))
    assert switchboard.counts().restores == 0


def test_restoring_nothing_lets_a_resume_know_that_there_is_nothing(client, switchboard, scribe):
    switchboard.restore(scribe.member, None, [], [])
    answer = resume(client, scribe)
    assert (answer.known, answer.standing, answer.records) == (True, None, ())


def test_restoring_a_session_that_lives_unites_records_and_keeps_its_standing(client, switchboard, scribe):
    told = publish(client, scribe, 1, **with_records(a_record(4, 6)))
    old = Scribe().say("long ago")
    assert not switchboard.restore(scribe.member, old.standing(), [a_ready()], [a_record(0, 2), a_record(2, 4)])
    reply = ask(client, look_call(scribe.member, told.rev, told.mark, ()))
    assert reply is not None
    assert reply.answer.records == (a_record(0, 2), a_record(2, 4), a_record(4, 6))
    assert resume(client, scribe).standing == scribe.standing()


def test_a_resume_says_how_long_the_session_was_idle_by_redis_clock(client, scribe):
    publish(client, scribe)
    at_ms = int(client.hget(keys.state(scribe.member), "at_ms"))
    client.hset(keys.state(scribe.member), "at_ms", at_ms - 90_000)
    assert 90 <= resume(client, scribe).idle_s < 100


def test_forgetting_leaves_nothing_but_the_word_to_forget(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1, **with_bodies(scribe), **with_records(a_record()))
    switchboard.ready(scribe.member, a_ready())
    client.execute_command(*forget_call(scribe.member).command)
    assert client.keys("*") == [keys.INBOX_STREAM.encode()]
    entries = switchboard.inbox.read("w", 10, 100)
    assert [(entry.kind, entry.data) for entry in entries] == [("record", b""), ("forget", b"")]


def test_every_key_of_a_session_expires_at_the_same_time(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe), **with_records(a_record()))
    client.expire(keys.state(scribe.member), 1000)
    switchboard.ready(scribe.member, a_ready())
    assert client.ttl(keys.ready(scribe.member)) <= 1000
    publish(client, scribe, 2)
    names = [keys.state, keys.bodies, keys.ready, keys.records]
    assert {client.ttl(name(scribe.member)) for name in names} == {keys.SESSION_TTL_S}


# Limits


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bodies": [(bytes(32), b"\0", bytes(8 * 1024 * 1024 + 1))], "bodies_from": 0}, "body too large"),
        ({"bodies": [(b"short", b"\0", b"x")], "bodies_from": 0}, "malformed body"),
        ({"records": [(b"id", bytes(256 * 1024 + 1))]}, "record too large"),
        ({"events": [(1, bytes(16 * 1024 + 1))]}, "event too large"),
        ({"standing": bytes(256 * 1024 + 1)}, "name, incarnation or standing too large"),
        ({"incarnation": "i" * 65}, "name, incarnation or standing too large"),
        ({"messages": "many"}, "malformed: argument 6"),
        ({"due_ms": -1}, "malformed: argument 8"),
        ({"bodies_from": "1.5"}, "malformed: argument 11"),
    ],
)
def test_what_is_too_large_or_malformed_is_refused_before_anything_is_written(
    client, scribe, changes: dict[str, Any], words: str
):
    with pytest.raises(redis.ResponseError, match=f"^FOLDREFUSED {words}"):
        publish(client, scribe, **changes)
    assert client.keys("*") == []


def test_more_than_64_megabytes_in_one_publish_are_refused(client, scribe):
    bodies = [(bytes(32), b"\0", bytes(8 * 1024 * 1024))] * 8
    with pytest.raises(redis.ResponseError, match="^FOLDREFUSED publish too large: "):
        publish(client, scribe, bodies_from=0, bodies=bodies)


def test_more_bodies_than_a_session_may_have_are_refused(client, scribe):
    bodies = [(bytes(32), b"\0", b"x")] * (calls.MAX_BODIES + 1)
    with pytest.raises(redis.ResponseError, match="^FOLDREFUSED too many bodies in the session: 100001"):
        publish(client, scribe, bodies_from=0, head_before=bytes(32), bodies=bodies)


def test_lists_whose_lengths_do_not_add_up_are_refused(client, scribe):
    call = publish_call(
        Publish(
            member=scribe.member,
            incarnation="a",
            n=1,
            standing=b"",
            messages=0,
            head=b"",
            due_ms=None,
            upload=False,
        )
    )
    with pytest.raises(redis.ResponseError, match="^FOLDREFUSED malformed"):
        client.execute_command(*call.command, "one too many")


def test_at_most_ten_thousand_sessions_wait_for_restoration(client, switchboard, scribe):
    client.sadd(keys.RESTORE_SET, *map(str, range(10_000)))
    client.expire(keys.RESTORE_SET, 60)
    resume(client, scribe)
    assert switchboard.counts().restores == 10_000
