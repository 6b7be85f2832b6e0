"""A small fleet at a steady pace; benchmarks/fleet.py is the same at its full size."""

import argparse

import pytest

from benchmarks.fleet import TROUBLE, Found, measure
from foldahead_worker.embedded.redis_server import EmbeddedRedis

SESSIONS = 50


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """What two agent processes saw of fifty sessions of different content, one turn in half a second each."""
    options = argparse.Namespace(agents=2, threshold=8_000, head_start=12, summary_seconds=0.0)
    with EmbeddedRedis() as server:
        return measure(options, SESSIONS, 0.5, tmp_path_factory.mktemp("fleet"), server)[0]


def test_every_session_of_a_fleet_gets_its_summary_and_shows_it(fleet: list[Found]) -> None:
    assert [number for agent in fleet for number in agent.unready] == []
    assert sum(len(agent.waited_turns) for agent in fleet) == SESSIONS


def test_no_turn_of_a_fleet_waits_for_a_summary(fleet: list[Found]) -> None:
    requests_ms = sorted(ms for agent in fleet for ms in agent.request_ms)

    assert requests_ms[len(requests_ms) // 2] < 2


def test_what_a_fleet_publishes_is_neither_dropped_nor_refused(fleet: list[Found]) -> None:
    assert [agent.counters for agent in fleet] == [dict.fromkeys(TROUBLE, 0)] * 2
