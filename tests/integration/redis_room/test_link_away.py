"""The link when Redis is away, empty, paused, without its library, or at the end of a slow line."""

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
import redis

from foldahead import keys
from foldahead_worker.library import load
from foldahead_worker.switchboard import Switchboard
from tests.correspondence import Scribe, a_record
from tests.integration.redis_room.calling import has_all_bodies, server_with_library
from tests.waiting import wait_until


def test_a_server_killed_and_started_empty_is_told_everything_again(own_server, open_link):
    link = open_link(own_server.url)
    scribe, idle = Scribe(due_in_s=60).say("one", "two"), Scribe("idle").say("eins")
    scribe.kept = [a_record()]
    for announced in (scribe, idle):
        link.announce(announced)
    assert link.flush(5)
    own_server.kill()
    scribe.say("three")
    link.announce(scribe)
    assert not link.flush(0.3)
    own_server.start()
    switchboard = Switchboard(server_with_library(own_server))
    assert link.flush(10)
    for told in (scribe, idle):
        wait_until(has_all_bodies(switchboard, told))
    assert [entry.data for entry in switchboard.inbox.read("w", 10, 100)] == [a_record()]


def test_a_session_that_only_waits_notices_an_empty_server(own_server, open_link):
    link = open_link(own_server.url)
    scribe = Scribe(due_in_s=60).say("one")
    link.announce(scribe)
    assert link.flush(5)
    server_with_library(own_server).flushall()
    switchboard = Switchboard(server_with_library(own_server))
    wait_until(has_all_bodies(switchboard, scribe))


def test_records_that_redis_lost_are_sent_again(link, client, switchboard):
    scribe = Scribe()
    scribe.kept = [a_record(0, 2), a_record(2, 4)]
    link.announce(scribe)
    assert link.flush(5)
    client.flushall()
    link.announce(scribe)
    assert link.flush(5)
    assert client.hlen(keys.records(scribe.member)) == 2


def test_a_missing_library_is_said_once_and_waited_for(redis_url, open_link, caplog):
    link, scribe = open_link(), Scribe().say("one")
    with caplog.at_level(logging.WARNING, "foldahead"):
        link.announce(scribe)
        wait_until(lambda: link.counters().failed_exchanges >= 3)
    assert [record.message for record in caplog.records if "function library is missing" in record.message] == [
        caplog.records[0].message
    ]
    assert len(caplog.records) == 1
    with redis.Redis.from_url(redis_url) as client:
        load(client)
        assert link.flush(10)
        assert Switchboard(client).bodies(scribe.member)[2] == scribe.stored()


def test_words_of_a_server_never_show_the_password(own_server, open_link, caplog):
    url = own_server.url.replace("redis://", "redis://someone:hunter2%21@")
    with caplog.at_level(logging.WARNING, "foldahead"):
        link = open_link(url)
        link.announce(Scribe())
        wait_until(lambda: link.counters().failed_exchanges >= 1)
    assert caplog.records
    assert not any(secret in caplog.text for secret in ("hunter2", "someone"))


@pytest.mark.parametrize("kind", ["closed_port", "silent_port"])
def test_with_redis_away_callers_go_on_at_once_and_nothing_piles_up(kind, request, open_link):
    link = open_link(f"redis://127.0.0.1:{request.getfixturevalue(kind)}")
    scribes = [Scribe(f"s{number}").say("one") for number in range(50)]
    started_s = time.perf_counter()
    for _ in range(20):
        for scribe in scribes:
            link.announce(scribe)
    assert time.perf_counter() - started_s < 0.5
    wait_until(lambda: link.counters().failed_exchanges >= 2)
    wait_until(lambda: link.counters().queued == 50)
    assert link.counters().down
    assert link.resume(scribes[0], 0.3) is None


def test_a_black_hole_holds_no_caller_longer_than_asked(open_link):
    # 192.0.2.0/24 is set aside for documentation: nobody answers, or the machine says at once: no way there.
    link = open_link("redis://192.0.2.1:6379")
    for call in (lambda: link.resume(Scribe(), 0.1), lambda: link.flush(0.1), lambda: link.close(0.1)):
        started_s = time.monotonic()
        call()
        assert time.monotonic() - started_s < 0.35


def test_a_paused_server_delays_nobody_and_gets_everything_afterwards(own_server, open_link):
    link = open_link(own_server.url)
    scribe = Scribe().say("one")
    link.announce(scribe)
    assert link.flush(5)
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        scribe.say("two")
        link.announce(scribe)
        wait_until(lambda: link.counters().failed_exchanges >= 1)
        assert link.resume(scribe, 0.1) is None
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    assert link.flush(10)
    switchboard = Switchboard(server_with_library(own_server))
    wait_until(has_all_bodies(switchboard, scribe))


class SlowLine:
    """Passes bytes on to a port, to it no faster than asked."""

    def __init__(self, port: int, bytes_a_s: int) -> None:
        self._port, self._bytes_a_s = port, bytes_a_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Small buffers: what is not through yet must be felt by the sender.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def url_for(self, url: str) -> str:
        return url.replace(f":{self._port}/", f":{self.port}/")

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._pass, args=(near, far, self._bytes_a_s), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, 1 << 30), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, bytes_a_s: int) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(4096):
                target.sendall(data)
                time.sleep(len(data) / bytes_a_s)
            target.shutdown(socket.SHUT_RDWR)


def test_over_a_line_too_slow_for_a_body_counts_still_get_through(redis_url, client, switchboard, open_link):
    slow = SlowLine(urlsplit(redis_url).port or 0, bytes_a_s=1_000_000)
    link = open_link(slow.url_for(redis_url))
    heavy, light = Scribe("heavy").say(os.urandom(2_000_000).hex()), Scribe("light", due_in_s=0)
    link.announce(heavy)
    wait_until(lambda: link.counters().failed_exchanges >= 1)
    light.say("one")
    link.announce(light)
    wait_until(has_all_bodies(switchboard, light), timeout_s=20)
    slow.close()


def test_a_long_history_gets_over_a_slow_line_in_small_pieces(redis_url, client, switchboard, open_link):
    slow = SlowLine(urlsplit(redis_url).port or 0, bytes_a_s=1_000_000)
    link = open_link(slow.url_for(redis_url))
    scribe = Scribe().say(*(os.urandom(4_000).hex() for _ in range(200)))
    link.announce(scribe)
    wait_until(has_all_bodies(switchboard, scribe), timeout_s=30)
    slow.close()
