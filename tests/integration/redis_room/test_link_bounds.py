"""What the link bounds, refuses and goes on without."""

import os

import pytest

from foldahead import keys
from foldahead.calls import MAX_BODY_BYTES, MAX_RECORD_BYTES
from foldahead.link import Link
from tests.correspondence import Scribe, a_record
from tests.integration.redis_room.calling import has_all_bodies
from tests.waiting import wait_until


def test_the_queue_keeps_the_newest_sessions(closed_port, open_link):
    link = open_link(f"redis://127.0.0.1:{closed_port}")
    scribes = [Scribe(str(number)) for number in range(10_050)]
    for scribe in scribes:
        link.announce(scribe)
    wait_until(lambda: link.counters().failed_exchanges >= 1)
    wait_until(lambda: link.counters().queued == 10_000)
    assert link.counters().dropped_sessions == 50


def test_bodies_kept_for_a_server_that_is_away_are_bounded(own_server, open_link):
    link = open_link(own_server.url)
    scribes = [Scribe(f"s{number}").say("first") for number in range(20)]
    for scribe in scribes:
        link.announce(scribe)
    assert link.flush(5)
    own_server.kill()
    for scribe in scribes:
        scribe.say(os.urandom(2_000_000).hex())
        link.announce(scribe)
    wait_until(lambda: link.counters().failed_exchanges >= 3, timeout_s=20)
    assert link.counters().kept_bytes <= 16 * 1024 * 1024


@pytest.mark.parametrize("text", ["x" * (MAX_BODY_BYTES + 1), "x" * 50_000_000])
def test_a_body_too_large_ends_the_upload_and_the_counts_go_on(link, switchboard, text: str):
    scribe = Scribe(due_in_s=0).say("small", text, "small too")
    link.announce(scribe)
    assert link.flush(20)
    assert link.counters().refused_bodies == 1
    assert switchboard.bodies(scribe.member)[2] == scribe.stored()[:1]
    assert [armed.standing for armed in switchboard.armed.due(1)] == [scribe.standing()]


def test_a_record_too_large_is_left_out_and_the_others_go(link, client):
    scribe = Scribe()
    scribe.kept = [a_record()[:-1] + b" " * MAX_RECORD_BYTES + b"}", a_record(2, 4), b"no record"]
    link.announce(scribe)
    assert link.flush(5)
    assert link.counters().refused_records == 2
    assert client.hlen(keys.records(scribe.member)) == 1


def test_a_session_that_raises_does_not_silence_the_others(link, switchboard, caplog):
    class Broken(Scribe):
        def delta(self):
            raise RuntimeError("broken")

    broken, fine = Broken("broken"), Scribe("fine").say("one")
    link.announce(broken)
    link.announce(fine)
    assert link.flush(5)
    assert link.counters().faults == 1
    assert has_all_bodies(switchboard, fine)()


def test_a_key_of_a_wrong_type_concerns_its_session_alone(link, client, switchboard):
    bad, fine = Scribe("bad"), Scribe("fine").say("one")
    client.set(keys.state(bad.member), "not ours", ex=60)
    link.announce(bad)
    link.announce(fine)
    assert link.flush(5)
    assert link.counters().refused == 1
    assert has_all_bodies(switchboard, fine)()


def test_what_is_announced_after_close_is_counted_as_dropped(link, client):
    assert link.close(1)
    link.announce(Scribe())
    assert link.counters().dropped_sessions == 1
    assert link.resume(Scribe(), 1) is None


def test_a_url_of_no_redis_is_refused_at_once():
    with pytest.raises(ValueError, match="redis://"):
        Link("http://localhost")
