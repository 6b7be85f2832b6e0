"""Redis stopped, emptied, started again, full, hanging: turns go on without waiting, and compaction resumes."""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from foldahead import Foldahead
from foldahead_worker.store.events import events_after
from tests.acceptance.conftest import MakeStack
from tests.conversations import POLICY, add_turn, is_compacted, opening
from tests.databases import NewDatabase
from tests.stack import RealStack, real_stack
from tests.waiting import wait_until

RESUMES_WITHIN_S = 15.0
TURN_S = 0.02
"""What a turn does besides: here the provider's answer takes no longer."""
_sessions = itertools.count(1)


class Agent:
    """An agent that takes turns at a steady pace and keeps what foldahead added to each, in seconds."""

    def __init__(self, url: str, name: str = "s") -> None:
        self.fold = Foldahead(url)
        self.session = self.fold.session(name, policy=POLICY)
        self.history = opening(name)
        self.added_s: list[float] = []
        self.view: list[Any] = []

    def take_turn(self) -> None:
        started_s = time.perf_counter()
        self.view = self.session.request(model="claude-sonnet-5-5", messages=self.history)["messages"]
        asked_s = time.perf_counter()
        add_turn(self.history, len(self.history))
        published_s = time.perf_counter()
        self.session.publish(self.history)
        self.added_s.append(asked_s - started_s + time.perf_counter() - published_s)

    def take_turns(self, count: int) -> None:
        for _ in range(count):
            self.take_turn()

    def goes_out_compacted(self) -> bool:
        """Takes one more turn of an idle agent: it asks again, and adds nothing."""
        self.view = self.session.view(self.history)
        return is_compacted(self.view)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, databases: NewDatabase) -> Iterator[RealStack]:
    """One for all: after each of these troubles watcher and worker are the same, and serve the next session."""
    folder = tmp_path_factory.mktemp("stack")
    with databases(folder) as database_url, real_stack(folder, database_url) as running:
        yield running


@pytest.fixture
def agent(stack: RealStack) -> Iterator[Agent]:
    made = Agent(stack.redis.url, f"session-{next(_sessions)}")
    yield made
    made.fold.close()


def test_turns_go_on_while_redis_is_stopped_and_compaction_resumes_when_it_comes_back_empty(
    stack: RealStack, agent: Agent
) -> None:
    agent.take_turns(3)
    assert agent.session.flush(5)
    stack.redis.kill()
    agent.take_turns(18)
    away_s = agent.added_s[3:]
    stack.restart_redis()

    wait_until(agent.goes_out_compacted, RESUMES_WITHIN_S)

    assert sorted(away_s)[len(away_s) // 2] < 0.005
    assert max(away_s) < 0.1
    assert stack.is_running("watch-1")
    assert stack.is_running("work-1")


def test_a_session_that_was_compacted_stays_so_while_redis_is_stopped_and_folds_on_afterwards(
    stack: RealStack, agent: Agent
) -> None:
    agent.take_turns(18)
    wait_until(agent.goes_out_compacted)
    watermark = agent.session.last_record.end if agent.session.last_record else 0
    stack.redis.kill()
    agent.take_turns(6)
    assert is_compacted(agent.view)
    stack.restart_redis()
    agent.take_turns(10)

    def moved_on() -> bool:
        agent.session.view(agent.history)
        return agent.session.last_record is not None and agent.session.last_record.end > watermark

    wait_until(moved_on, RESUMES_WITHIN_S)


def test_a_redis_that_hangs_for_seconds_makes_no_turn_wait(stack: RealStack, agent: Agent) -> None:
    agent.take_turns(3)
    assert agent.session.flush(5)
    os.kill(stack.redis.pid, signal.SIGSTOP)
    try:
        until_s = time.monotonic() + 3
        while time.monotonic() < until_s:
            agent.take_turn() if len(agent.added_s) < 18 else agent.session.view(agent.history)
    finally:
        os.kill(stack.redis.pid, signal.SIGCONT)

    wait_until(agent.goes_out_compacted, RESUMES_WITHIN_S)

    assert max(agent.added_s[3:]) < 0.1


def test_what_flushall_took_is_told_again(stack: RealStack, agent: Agent) -> None:
    agent.take_turns(12)
    assert agent.session.flush(5)
    stack.client.flushall()
    agent.take_turns(6)

    wait_until(agent.goes_out_compacted, RESUMES_WITHIN_S)


def test_a_redis_out_of_memory_refuses_and_nothing_breaks(stack: RealStack, agent: Agent) -> None:
    stack.client.config_set("maxmemory", "1")
    agent.take_turns(18)
    assert not agent.session.flush(1)
    assert not agent.goes_out_compacted()
    stack.client.config_set("maxmemory", "0")

    wait_until(agent.goes_out_compacted, RESUMES_WITHIN_S)

    assert max(agent.added_s) < 0.1
    assert stack.is_running("watch-1")
    assert stack.is_running("work-1")


def test_a_summary_that_was_paid_for_while_redis_burned_is_used(
    make_stack: MakeStack,
) -> None:
    stack = make_stack(summary_delay_s=1.0)
    agent = Agent(stack.redis.url)
    agent.take_turns(18)
    wait_until(lambda: "session.compaction_started" in [event.kind for event in events_after(stack.store)])
    stack.redis.kill()
    wait_until(lambda: [job.state for job in stack.jobs()] == ["done"])
    stack.restart_redis()

    wait_until(agent.goes_out_compacted, RESUMES_WITHIN_S)

    assert [(job.state, job.attempts) for job in stack.jobs()] == [("done", 1)]
    agent.fold.close()
