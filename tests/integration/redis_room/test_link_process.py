"""The link when its process forks or ends."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foldahead import keys
from tests.correspondence import Scribe
from tests.integration.redis_room.calling import has_all_bodies


def test_a_forked_child_publishes_over_its_own_connection_and_the_parent_goes_on(link, client, switchboard):
    parent, child = Scribe("parent", due_in_s=60).say("one"), Scribe("child").say("eins")
    link.announce(parent)
    assert link.flush(5)
    pid = os.fork()
    if pid == 0:
        link.announce(child)
        os._exit(0 if link.flush(5) else 1)
    parent.say("two")
    link.announce(parent)
    assert link.flush(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert has_all_bodies(switchboard, parent)()
    assert has_all_bodies(switchboard, child)()
    incarnations = {client.hget(keys.state(scribe.member), "inc") for scribe in (parent, child)}
    assert len(incarnations) == 2
    assert link.counters().failed_exchanges == 0


def test_children_forked_while_the_link_is_busy_all_get_through(link, client, switchboard):
    busy = Scribe("busy").say(*(os.urandom(1_000).hex() for _ in range(300)))
    children = [Scribe(f"child {number}").say("eins") for number in range(8)]
    pids: list[int] = []
    for child in children:
        busy.say("more")
        link.announce(busy)
        pid = os.fork()
        if pid == 0:
            link.announce(child)
            os._exit(0 if link.flush(5) else 1)
        pids.append(pid)
    assert {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids} == {0}
    assert link.flush(10)
    assert link.counters().failed_exchanges == 0
    for scribe in (busy, *children):
        assert has_all_bodies(switchboard, scribe)()


PUBLISH_AND_EXIT = """
import sys
from foldahead.link import Link
from tests.correspondence import Scribe
link = Link(sys.argv[1])
scribe = Scribe().say("one", "two")
link.announce(scribe)
{ending}
"""


def run_agent(url: str, ending: str) -> subprocess.CompletedProcess[str]:
    code = PUBLISH_AND_EXIT.format(ending=ending)
    return subprocess.run(
        [sys.executable, "-c", code, url],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path]))},
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "link.close(1)", "raise SystemExit(0)"])
def test_what_is_published_right_before_the_exit_arrives(redis_url, client, switchboard, ending: str):
    ended = run_agent(redis_url, ending)
    assert (ended.returncode, ended.stderr) == (0, "")
    scribe = Scribe().say("one", "two")
    assert has_all_bodies(switchboard, scribe)()


def test_an_exit_with_redis_away_does_not_hang(closed_port, silent_port):
    for port in (closed_port, silent_port):
        started_s = time.monotonic()
        ended = run_agent(f"redis://127.0.0.1:{port}", "")
        assert ended.returncode == 0
        assert time.monotonic() - started_s < 6
