"""Many agent processes on one session, or many sessions in one process: what each of them sees."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import pytest

from foldahead import keys
from foldahead_worker.settling import settled
from tests.acceptance.agents import publish_anew, turn_of_a_lasting_process, view_of
from tests.conversations import Messages, conversation, is_compacted, opening
from tests.stack import RealStack
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


def wait_settled(stack: RealStack, workspace: str, name: str) -> None:
    wait_until(lambda: settled(stack.client, keys.member(workspace, name)))


@pytest.fixture
def two_processes() -> Iterator[list[ProcessPoolExecutor]]:
    """Two agent processes that last."""
    context = get_context("forkserver")
    with ExitStack() as pools:
        yield [pools.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(2)]


def test_two_processes_that_alternate_on_one_session_show_what_a_third_one_shows(
    shared_stack: RealStack, two_processes: list[ProcessPoolExecutor], new_processes: ProcessPoolExecutor
) -> None:
    url, history, views = shared_stack.redis.url, opening("alternation"), list[Messages]()
    for turn in range(30):
        taken = two_processes[turn % 2].submit(turn_of_a_lasting_process, url, "shared", history, turn)
        view, history = taken.result(30)
        wait_settled(shared_stack, "alternating", "shared")
        views.append(view)
    third = new_processes.submit(view_of, url, "alternating", "shared", history).result(30)
    last = two_processes[0].submit(turn_of_a_lasting_process, url, "shared", [*history], 30).result(30)[0]

    assert json.dumps(last) == json.dumps(third)
    compacted = [is_compacted(view) for view in views]
    assert compacted == sorted(compacted)
    assert is_compacted(third)


def test_counts_that_arrive_out_of_order_from_replicas_that_start_anew_open_one_job_for_a_key(
    shared_stack: RealStack, new_processes: ProcessPoolExecutor
) -> None:
    whole = conversation(26, "out of order")
    lengths = [len(conversation(turns)) for turns in (8, 18, 14, 22)]
    url, place = shared_stack.redis.url, ("disorder", "s")
    for at in (0, 2, 1, 3):
        for _ in range(3):
            new_processes.submit(publish_anew, url, *place, whole[: lengths[at]]).result(30)
    wait_settled(shared_stack, *place)
    view = new_processes.submit(view_of, url, *place, whole[: lengths[3]]).result(30)

    jobs = shared_stack.jobs("disorder")
    assert is_compacted(view)
    assert len({job.cache_key for job in jobs}) == len(jobs) <= len(lengths)
    # A job that came before its messages ends without an attempt; the session's next one takes its place.
    assert ("done", 1) in {(job.state, job.attempts) for job in jobs} <= {("done", 1), ("failed", 0)}
    assert {job.token for job in jobs} == {1}


def run_agent(mode: str, url: str, timeout_s: float = 30) -> tuple[int, float]:
    """Exit status of an agent's process, and the seconds it took."""
    started_s = time.monotonic()
    command = [sys.executable, "-m", "tests.acceptance.agents", mode, url]
    ran = subprocess.run(command, cwd=ROOT, timeout=timeout_s, check=False)
    return ran.returncode, time.monotonic() - started_s


def test_a_server_that_forks_shares_no_connection_with_its_children_and_all_are_served(
    shared_stack: RealStack,
) -> None:
    status, _ = run_agent("prefork", shared_stack.redis.url)

    assert status == 0


def test_what_a_process_published_right_before_its_end_has_arrived(shared_stack: RealStack) -> None:
    status, _ = run_agent("exit", shared_stack.redis.url)

    assert status == 0
    wait_until(lambda: [job.state for job in shared_stack.jobs("leave")] == ["done"])


def test_a_process_that_ends_with_redis_away_does_not_hang() -> None:
    status, took_s = run_agent("exit", "redis://127.0.0.1:1/0")

    assert status == 0
    assert took_s < 6
