"""Workers and watchers that are killed, stopped, ended: every session gets its summary, paid for once."""

import os
import signal
from collections.abc import Iterator

import pytest

from foldahead import Foldahead, Session
from foldahead_worker.clock import now_ms
from foldahead_worker.store.commits import commit
from foldahead_worker.store.events import events_after
from foldahead_worker.store.leases import Leased, lease
from foldahead_worker.store.summaries import Summary, find_summary, new_summary
from tests.acceptance.conftest import MakeStack
from tests.conversations import POLICY, Messages, conversation, is_compacted
from tests.stack import LEASE_DEAD_AFTER_S, RealStack
from tests.waiting import wait_until

SOON_S = LEASE_DEAD_AFTER_S + 6
TURNS = 18


class Agent:
    """An agent whose session is past its threshold."""

    def __init__(self, stack: RealStack, name: str = "s", history: Messages | None = None) -> None:
        self.fold = Foldahead(stack.redis.url)
        self.session: Session = self.fold.session(name, policy=POLICY)
        self.history = conversation(TURNS, name) if history is None else history
        self.session.publish(self.history)
        assert self.session.flush(5)

    def is_compacted(self) -> bool:
        self.session.resume(self.history, timeout=1)
        return is_compacted(self.session.view(self.history))

    def view(self) -> str:
        return str(self.session.view(self.history))


@pytest.fixture
def agents() -> Iterator[list[Agent]]:
    """Those that a test makes; their links are closed at its end."""
    made: list[Agent] = []
    yield made
    for agent in made:
        agent.fold.close()


def is_leased(stack: RealStack) -> bool:
    return any(job.state == "leased" for job in stack.jobs())


def lease_as_a_worker(stack: RealStack) -> Leased:
    """What a worker does first; the test is that worker, and then does no more."""
    taken: list[Leased] = []

    def took() -> bool:
        leased = lease(stack.store, "a-dead-worker:1", now_ms())
        taken.extend([leased] if leased else [])
        return bool(taken)

    wait_until(took)
    return taken[0]


def answer_to(leased: Leased, text: str) -> Summary:
    return new_summary(
        leased.request, text=text, span_tokens=2_000, summary_tokens=20, cost_picodollars=1, now_ms=now_ms()
    )


def completed(stack: RealStack) -> int:
    return sum(event.kind == "session.compaction_completed" for event in events_after(stack.store))


def test_a_worker_killed_while_it_writes_a_summary_and_started_again_delivers_it(
    make_stack: MakeStack, agents: list[Agent]
) -> None:
    stack = make_stack(summary_delay_s=1.5)
    agents.append(Agent(stack))
    wait_until(lambda: is_leased(stack))
    stack.kill("work-1")
    stack.launch("work-1")

    wait_until(agents[0].is_compacted, SOON_S)

    (job,) = stack.jobs()
    assert (job.state, job.attempts) == ("done", 2)
    wait_until(lambda: completed(stack) == 1)


def test_a_worker_killed_between_lease_and_call_costs_its_lease_alone(
    make_stack: MakeStack, agents: list[Agent]
) -> None:
    stack = make_stack(workers=0)
    agents.append(Agent(stack))
    lease_as_a_worker(stack)
    stack.add("work-1")

    wait_until(agents[0].is_compacted, SOON_S)

    assert "lease of a-dead-worker:1 is dead" in stack.log("watch-1")


def test_a_summary_stored_by_a_worker_that_died_before_it_told_anyone_is_delivered_without_another_call(
    make_stack: MakeStack, agents: list[Agent]
) -> None:
    stack = make_stack(workers=0)
    agents.append(Agent(stack))
    leased = lease_as_a_worker(stack)
    commit(stack.store, leased.job_id, leased.token, answer_to(leased, "The answer that was paid for."), now_ms())

    wait_until(agents[0].is_compacted, SOON_S)

    assert "The answer that was paid for." in agents[0].view()
    wait_until(lambda: completed(stack) == 1)


def test_the_answer_of_a_worker_that_lost_its_lease_is_used_in_place_of_a_second_call(
    make_stack: MakeStack, agents: list[Agent]
) -> None:
    stack = make_stack(workers=0)
    agents.append(Agent(stack))
    leased = lease_as_a_worker(stack)
    wait_until(lambda: not is_leased(stack), SOON_S)
    late = commit(stack.store, leased.job_id, leased.token, answer_to(leased, "Late, and paid for."), now_ms())
    stack.add("work-1")

    wait_until(agents[0].is_compacted, SOON_S)

    assert (late.stored, late.finished) == (True, False)
    assert "Late, and paid for." in agents[0].view()


def test_a_worker_stopped_past_its_lease_and_continued_does_no_harm(make_stack: MakeStack, agents: list[Agent]) -> None:
    stack = make_stack(summary_delay_s=0.5)
    agents.append(Agent(stack))
    wait_until(lambda: is_leased(stack))
    stack.pause("work-1")
    wait_until(lambda: not is_leased(stack), SOON_S)
    stack.resume("work-1")

    wait_until(agents[0].is_compacted, SOON_S)
    wait_until(lambda: completed(stack) == 1)

    assert [job.state for job in stack.jobs()] == ["done"]


def test_workers_killed_over_and_over_lose_no_sessions_summary(make_stack: MakeStack, agents: list[Agent]) -> None:
    stack = make_stack(workers=2, summary_delay_s=1.0, concurrency=1)
    agents.extend(Agent(stack, f"session-{at}") for at in range(8))
    for name in ("work-1", "work-2"):
        wait_until(lambda: is_leased(stack))
        stack.kill(name)
        stack.launch(name)

    for agent in agents:
        wait_until(agent.is_compacted, SOON_S)

    jobs = stack.jobs()
    assert [job.state for job in jobs] == ["done"] * 8
    assert all(find_summary(stack.store, "default", job.cache_key) for job in jobs)


def test_at_sigterm_a_worker_hands_back_what_it_has_takes_nothing_new_and_ends(
    make_stack: MakeStack, agents: list[Agent]
) -> None:
    stack = make_stack(summary_delay_s=60.0, concurrency=1)
    agents.extend(Agent(stack, f"session-{at}") for at in range(3))
    wait_until(lambda: is_leased(stack) and len(stack.jobs()) == 3)

    status = stack.terminate("work-1", timeout_s=5)

    assert status == 0
    assert [(job.state, job.attempts) for job in stack.jobs()] == [("queued", 0)] * 3


def test_processes_that_are_told_to_end_again_and_again_end(make_stack: MakeStack) -> None:
    stack = make_stack()

    def told_and_gone(name: str) -> bool:
        os.kill(stack.pid(name), signal.SIGTERM)
        return not stack.is_running(name)

    for name in ("watch-1", "work-1"):
        wait_until(lambda name=name: told_and_gone(name), timeout_s=20, every_s=0.002)


def test_a_watcher_killed_and_started_again_goes_on(make_stack: MakeStack, agents: list[Agent]) -> None:
    stack = make_stack()
    stack.kill("watch-1")
    agents.append(Agent(stack))
    stack.launch("watch-1")

    wait_until(agents[0].is_compacted, SOON_S)

    assert len(stack.jobs()) == 1


def test_two_watchers_open_one_job_for_a_key_and_only_workers_have_leases(
    make_stack: MakeStack, agents: list[Agent]
) -> None:
    stack = make_stack(watchers=2, workers=2, summary_delay_s=3.0)
    same = conversation(TURNS)
    agents.extend(Agent(stack, f"session-{at}", [*same]) for at in range(20))
    wait_until(lambda: is_leased(stack))
    owners = {job.owner_pid for job in stack.jobs()}

    for agent in agents:
        wait_until(agent.is_compacted, SOON_S)

    assert owners <= {stack.pid("work-1"), stack.pid("work-2")}
    assert len(stack.jobs()) == 1


def test_the_broker_restarted_while_a_summary_is_written_loses_neither_worker_nor_summary(
    make_stack: MakeStack, agents: list[Agent]
) -> None:
    stack = make_stack(summary_delay_s=2.0)
    agents.append(Agent(stack))
    wait_until(lambda: is_leased(stack))
    stack.redis.kill()
    stack.restart_redis()
    agents[0].session.publish(agents[0].history)

    wait_until(agents[0].is_compacted, SOON_S)

    (job,) = stack.jobs()
    assert (job.state, job.attempts) == ("done", 1)
    assert stack.is_running("work-1")


def test_a_worker_takes_new_jobs_after_its_broker_was_restarted(make_stack: MakeStack, agents: list[Agent]) -> None:
    stack = make_stack()
    stack.redis.kill()
    stack.restart_redis()
    agents.append(Agent(stack))

    wait_until(agents[0].is_compacted, SOON_S)
