"""Workers that ask a model, as real processes: killed at each step (scenario 21), and many sessions at once (26)."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foldahead import Foldahead
from foldahead_worker.settings import environment_for
from foldahead_worker.standin import RunningStandIn, Scripted
from tests.claude import Agent, rounds_of, settled
from tests.stack import RealStack, real_stack
from tests.waiting import wait_until

pytest_plugins = ["tests.standin_fixtures"]

POINTS = {
    "after-pop": 1,
    "after-lease": 1,
    "before-call": 1,
    "mid-stream": 2,
    "after-answer": 2,
    "after-commit": 1,
}
"""Where a worker is killed: how many calls may be paid, one more where its lease was lost during an open call."""


def billed(standin: RunningStandIn) -> int:
    """Picodollars, at $0.10 and $0.50 a million."""
    return sum(call.input_tokens * 100_000 + call.output_tokens * 500_000 for call in standin.ledger("message"))


@contextmanager
def claude_stack(directory: Path, database_url: str, standin: RunningStandIn, workers: int) -> Generator[RealStack]:
    with real_stack(
        directory,
        database_url,
        workers=workers,
        summarizer="auto",
        anthropic_api_key="test-key",
        anthropic_base_url=standin.url,
        lease_dead_after_s=4.0,
    ) as stack:
        yield stack


@contextmanager
def paused_worker(stack: RealStack, point: str) -> Generator["subprocess.Popen[bytes]"]:
    script = Path(__file__).with_name("pausing_worker.py")
    command = [sys.executable, str(script), point]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment_for(stack.settings))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def wait_until_paused(process: "subprocess.Popen[bytes]", point: str, standin: RunningStandIn) -> None:
    if point == "mid-stream":
        wait_until(lambda: standin.ledger("message"), 20)
        return
    assert process.stdout is not None
    assert process.stdout.readline() == f"paused {point}\n".encode()


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_anywhere_costs_at_most_the_call_it_held(
    tmp_path: Path, database_url: str, standin: RunningStandIn, point: str
) -> None:
    if point == "mid-stream":
        standin.script(Scripted(text_tokens=400, per_token_s=0.05))
    with claude_stack(tmp_path, database_url, standin, workers=0) as stack, paused_worker(stack, point) as worker:
        fold = Foldahead(stack.settings.redis_url)
        history = rounds_of(14)
        agent = Agent(fold)
        session = agent.session("s", workspace="default")
        agent.publish(session, history)
        wait_until_paused(worker, point, standin)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        stack.add("work-2")
        wait_until(lambda: [job for job in stack.jobs() if job.state == "done"], 40)
        stack.wait_settled(session, history, 20)
        assert "COMPACTION_SUMMARY" in str(session.view([*history, *rounds_of(4, start=14)]))
        assert len(standin.ledger("message")) <= POINTS[point]
        assert settled(stack.store) >= billed(standin)
        fold.close()


def test_a_hundred_forks_over_two_workers_pay_one_call(
    tmp_path: Path, database_url: str, standin: RunningStandIn
) -> None:
    standin.script(Scripted(text_tokens=300, per_token_s=0.002))
    with claude_stack(tmp_path, database_url, standin, workers=2) as stack:
        fold = Foldahead(stack.settings.redis_url)
        agent = Agent(fold)
        history = rounds_of(14)
        sessions = [agent.session(f"fork-{at}", workspace="default") for at in range(100)]
        for session in sessions:
            agent.publish(session, history)
        assert fold.flush(10)
        wait_until(lambda: all(stack.is_settled(session) for session in sessions), 30)
        longer = [*history, *rounds_of(4, start=14)]
        wait_until(lambda: all("COMPACTION_SUMMARY" in str(each.view(longer)) for each in sessions), 15)
        assert len(standin.ledger("message")) == 1
        assert settled(stack.store) == billed(standin)
        fold.close()
