"""The function library: loading, versions, limits, and sessions that come and go."""

import re
from typing import Any

import pytest
import redis

from foldahead import calls, keys, wire
from foldahead.calls import Publish, forget_call, look_call, publish_call
from foldahead_worker import library
from tests.correspondence import Scribe, a_ready, a_record
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
    assert str(refused.value) == ("FOLDWIRE wire version 2: the server side speaks 1; upgrade the older side")


def test_resuming_an_unknown_session_asks_for_its_restoration_once(client, switchboard, scribe):
    assert not resume(client, scribe).known
    assert not resume(client, scribe).known
    assert switchboard.pop_restores(10) == [scribe.member]
    assert switchboard.pop_restores(10) == []


def test_a_restored_session_is_resumed_with_all_that_was_given_back(client, switchboard, scribe):
    resume(client, scribe)
    assert switchboard.restore(
        scribe.member, scribe.standing(), [a_ready()], [(1, a_record(0, 2)), (2, a_record(2, 4))]
    )
    answer = resume(client, scribe)
    assert answer.known
    assert answer.standing == scribe.standing()
    assert answer.ready == (a_ready(),)
    assert answer.records == (a_record(0, 2), a_record(2, 4))
    assert switchboard.figures.counts().restores == 0


def test_restoring_nothing_lets_a_resume_know_that_there_is_nothing(client, switchboard, scribe):
    switchboard.restore(scribe.member, None, [], [])
    answer = resume(client, scribe)
    assert (answer.known, answer.standing, answer.records) == (True, None, ())


def test_restoring_a_session_that_lives_unites_records_and_keeps_its_standing(client, switchboard, scribe):
    told = publish(client, scribe, 1, **with_records(a_record(4, 6)))
    old = Scribe().say("long ago")
    assert not switchboard.restore(
        scribe.member, old.standing(), [a_ready()], [(1, a_record(0, 2)), (2, a_record(2, 4))]
    )
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
    assert set(client.keys("*")) == {keys.INBOX_STREAM.encode(), keys.HINT_LIST.encode()}
    entries = switchboard.inbox.read("w", 10, 100)
    assert [entry.kind for entry in entries] == ["record", "forget"]
    assert entries[0].data == b""


def expiries(client: "redis.Redis", scribe: Scribe) -> set[int]:
    return {client.ttl(name(scribe.member)) for name in (keys.state, keys.bodies, keys.ready, keys.records)}


def test_every_key_of_a_session_expires_at_the_same_time(client, switchboard, scribe):
    publish(client, scribe, 1, **with_bodies(scribe), **with_records(a_record()))
    client.expire(keys.state(scribe.member), 1000)
    switchboard.ready(scribe.member, a_ready())
    assert client.ttl(keys.ready(scribe.member)) <= 1000
    publish(client, scribe, 2, **with_records(a_record(2, 4)))
    assert expiries(client, scribe) == {keys.SESSION_TTL_S}


@pytest.mark.parametrize(
    ("minutes_ago", "expires_in_s"), [(61, keys.SESSION_TTL_S), (-1, keys.SESSION_TTL_S), (59, 1000)]
)
def test_a_publish_of_counts_renews_the_expiry_once_an_hour(client, scribe, minutes_ago: int, expires_in_s: int):
    publish(client, scribe, 1)
    kept_ms = int(client.hget(keys.state(scribe.member), "kept_ms"))
    client.hset(keys.state(scribe.member), "kept_ms", kept_ms - minutes_ago * 60_000)
    client.expire(keys.state(scribe.member), 1000)
    publish(client, scribe, 2)
    assert client.ttl(keys.state(scribe.member)) == pytest.approx(expires_in_s, abs=2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bodies": [(bytes(32), b"\0", bytes(8 * 1024 * 1024 + 1))], "bodies_from": 0}, "body too large"),
        ({"bodies": [(b"short", b"\0", b"x")], "bodies_from": 0}, "malformed body"),
        ({"records": [(b"id", bytes(256 * 1024 + 1))]}, "record too large"),
        ({"events": [(1, bytes(16 * 1024 + 1))]}, "event too large"),
        ({"standing": bytes(256 * 1024 + 1)}, "incarnation or standing too large"),
        ({"incarnation": "i" * 65}, "incarnation or standing too large"),
        ({"messages": "many"}, "malformed: argument 6"),
        ({"due_ms": -1}, "malformed: argument 8"),
        ({"bodies_from": "1.5"}, "malformed: argument 12"),
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
    assert switchboard.figures.counts().restores == 10_000
