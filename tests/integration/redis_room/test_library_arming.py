"""Who the function library has the watcher look at, and what sessions hear of their jobs."""

import pytest

from foldahead import keys
from foldahead.calls import close_call, look_call
from foldahead_worker.armed import waits_for
from tests.correspondence import Scribe, a_ready, a_record
from tests.integration.redis_room.calling import (
    ask,
    publish,
    resume,
    with_bodies,
    with_records,
)
from tests.waiting import wait_until


@pytest.fixture
def scribe() -> Scribe:
    return Scribe().say("one", "two", "three")


def test_a_session_that_wants_work_is_armed_until_a_job_has_it(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    [seen] = switchboard.armed.due(10)
    assert (seen.member, seen.standing) == (scribe.member, scribe.standing())
    assert switchboard.armed.settle([waits_for(seen, "key")]) == [True]
    assert switchboard.armed.due(10) == []
    assert resume(client, scribe).job == "key"


def test_a_session_is_due_when_its_time_has_come_by_redis_clock(client, switchboard, scribe):
    scribe.due_in_s = 0.15
    publish(client, scribe)
    assert switchboard.armed.due(10) == []
    wait_until(lambda: switchboard.armed.due(10), timeout_s=5)


def test_a_publish_that_wants_no_work_disarms(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    scribe.due_in_s = None
    publish(client, scribe, 2)
    assert switchboard.armed.due(10) == []


def test_a_lost_entry_is_armed_again_by_the_next_publish(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    client.delete(keys.armed(keys.shard_of(scribe.member)))
    publish(client, scribe, 2)
    assert len(switchboard.armed.due(10)) == 1


def test_a_publish_while_a_job_is_under_way_does_not_arm(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
    publish(client, scribe, 2)
    assert switchboard.armed.due(10) == []


def test_a_session_that_comes_to_its_hard_cap_is_looked_at_once_in_spite_of_its_job(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
    scribe.at_hard_cap = True
    publish(client, scribe, 2)
    [seen] = switchboard.armed.due(10)
    assert (seen.job, seen.standing.at_hard_cap) == ("key", True)
    switchboard.armed.settle([waits_for(seen, "key")])
    publish(client, scribe, 3)
    assert switchboard.armed.due(10) == []


def test_a_job_not_heard_of_for_a_minute_is_looked_at_again(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1)
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
    started_ms = int(client.hget(keys.state(scribe.member), "job_at"))
    client.hset(keys.state(scribe.member), "job_at", started_ms - 61_000)
    publish(client, scribe, 2)
    assert [seen.job for seen in switchboard.armed.due(10)] == ["key"]


def test_the_most_overdue_come_first_over_all_shards(client, switchboard):
    scribes = [Scribe(f"s{number}", due_in_s=0) for number in range(40)]
    for number, scribe in enumerate(scribes):
        publish(client, scribe, 1)
        client.zadd(keys.armed(keys.shard_of(scribe.member)), {scribe.member: number})
    assert [seen.member for seen in switchboard.armed.due(5)] == [scribe.member for scribe in scribes[:5]]


def test_members_whose_state_is_gone_are_disarmed(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    client.delete(keys.state(scribe.member))
    assert switchboard.armed.due(10) == []
    assert switchboard.figures.counts().armed == 0


def test_a_standing_of_another_wire_version_is_disarmed(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, standing=b"\x92\x02\xc0")
    assert switchboard.armed.due(10) == []
    assert switchboard.figures.counts().armed == 0


def test_a_summary_that_is_ready_ends_the_job_and_is_told_once(client, switchboard, scribe):
    scribe.due_in_s = 0
    told = publish(client, scribe, 1)
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
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
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
    assert switchboard.failed(scribe.member, "key", "adapter_error Timeout")
    reply = ask(client, look_call(scribe.member, told.rev, told.mark, ()))
    assert reply is not None
    assert (reply.answer.job, reply.answer.failed) == ("", "adapter_error Timeout")


def test_the_failure_of_an_older_job_leaves_the_newer(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe)
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "newer")])
    assert not switchboard.failed(scribe.member, "older", "adapter_error")
    assert resume(client, scribe).job == "newer"


def test_failures_in_a_row_are_counted_until_a_summary_is_there(client, switchboard, scribe):
    scribe.due_in_s = 0
    for n, counts in ((1, True), (2, False), (3, True)):
        publish(client, scribe, n)
        switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
        switchboard.failed(scribe.member, "key", "adapter_error", counts=counts)
    publish(client, scribe, 4)
    [seen] = switchboard.armed.due(10)
    assert seen.failures == 2
    assert 0 <= seen.seen_at_ms - seen.failed_at_ms < 10_000
    switchboard.ready(scribe.member, a_ready())
    assert switchboard.armed.look(scribe.member).failures == 0


def test_closing_disarms_a_session_and_leaves_what_is_known_of_it(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, **with_bodies(scribe), **with_records(a_record()))
    assert client.execute_command(*close_call(scribe.member).command) == 1
    assert switchboard.armed.due(10) == []
    assert switchboard.armed.wants_nothing(scribe.member)
    answer = resume(client, scribe)
    assert (answer.known, answer.records, answer.standing) == (True, (a_record(),), scribe.standing())
    assert [entry.kind for entry in switchboard.inbox.read("w", 10, 50)] == ["record", "close"]


def test_a_process_that_goes_does_not_close_what_another_has_published_since(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1, incarnation="gone")
    publish(client, scribe, 1, incarnation="next")
    assert client.execute_command(*close_call(scribe.member, "gone").command) == 0
    assert len(switchboard.armed.due(10)) == 1
    assert client.execute_command(*close_call(scribe.member, "next").command) == 1


def test_closing_a_session_that_is_not_known_does_nothing(client, scribe):
    assert client.execute_command(*close_call(scribe.member).command) == 0
    assert client.keys("*") == []


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


def test_bodies_that_come_too_late_for_their_job_have_the_watcher_look_again(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1, upload=True)
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
    publish(client, scribe, 2, **with_bodies(scribe))
    assert switchboard.armed.due(10) == []
    switchboard.failed(scribe.member, "key", "needs_bodies", counts=False)
    assert len(switchboard.armed.due(10)) == 1


def test_a_session_whose_bodies_are_still_missing_is_not_looked_at_again_for_them(client, switchboard, scribe):
    scribe.due_in_s = 0
    publish(client, scribe, 1, upload=True)
    switchboard.armed.settle([waits_for(switchboard.armed.due(10)[0], "key")])
    switchboard.failed(scribe.member, "key", "needs_bodies", counts=False)
    assert switchboard.armed.due(10) == []
