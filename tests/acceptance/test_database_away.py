"""The database locked, full, replaced, damaged; clocks that disagree: work is late at most, and never wrong."""

import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldahead import Foldahead, Session
from foldahead_worker.clock import now_ms
from foldahead_worker.store.jobs import want
from foldahead_worker.store.leases import lease
from tests.acceptance.conftest import MakeStack
from tests.conversations import POLICY, Messages, conversation, is_compacted
from tests.stack import RealStack
from tests.stores import a_want
from tests.waiting import wait_until

LOCKED_S = 30.0
"""A connection waits 5 s for a lock; SQLite counts its own naps, which a loaded machine draws out."""
AN_HOUR_MS, THREE_MINUTES_MS = 3_600_000, 180_000


@pytest.fixture
def stack(make_stack: MakeStack) -> RealStack:
    return make_stack()


@pytest.fixture
def fold(stack: RealStack) -> Iterator[Foldahead]:
    client = Foldahead(stack.redis.url)
    yield client
    client.close()


def past_threshold(fold: Foldahead, name: str) -> tuple[Session, Messages]:
    session, history = fold.session(name, policy=POLICY), conversation(18, name)
    session.publish(history)
    assert session.flush(5)
    return session, history


def goes_out_compacted(session: Session, history: Messages) -> bool:
    session.resume(history, timeout=1)
    return is_compacted(session.view(history))


def database_of(stack: RealStack) -> Path:
    return Path(stack.settings.database_url.removeprefix("sqlite:///"))


def runs_on(stack: RealStack) -> bool:
    return stack.is_running("watch-1") and stack.is_running("work-1")


def test_a_database_that_is_locked_for_seconds_delays_a_summary_and_loses_none(
    stack: RealStack, fold: Foldahead
) -> None:
    locked = sqlite3.connect(database_of(stack), isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    session, history = past_threshold(fold, "s")
    wait_until(lambda: "StoreBusy" in stack.log("watch-1"), timeout_s=LOCKED_S)
    locked.execute("ROLLBACK")
    locked.close()

    wait_until(lambda: goes_out_compacted(session, history), timeout_s=15)
    assert runs_on(stack)


def test_a_full_disk_delays_a_summary_and_loses_none(stack: RealStack, fold: Foldahead) -> None:
    pids = [stack.pid("watch-1"), stack.pid("work-1")]
    # No file of these processes may grow: what they see is a disk without room.
    before = [resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids]
    for pid, (_, hard) in zip(pids, before, strict=True):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    session, history = past_threshold(fold, "s")
    wait_until(lambda: not session.has_ready and stack.switchboard.figures.overdue_ms() > 2_000)
    for pid, limits in zip(pids, before, strict=True):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)

    wait_until(lambda: goes_out_compacted(session, history), timeout_s=15)
    assert runs_on(stack)


def damage(stack: RealStack, statement: str) -> None:
    with sqlite3.connect(database_of(stack), timeout=10) as connection:
        assert connection.execute(statement).rowcount > 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE summaries SET head = x'00'",
        "UPDATE summaries SET head = zeroblob(32)",
        "UPDATE summaries SET kind = 'nonsense'",
        'UPDATE summaries SET "end" = 3',
        "UPDATE summaries SET \"end\" = 'many'",
    ],
)
def test_a_damaged_summary_is_never_shown_and_stops_nobody_else(
    stack: RealStack, fold: Foldahead, statement: str
) -> None:
    session, history = past_threshold(fold, "s")
    stack.wait_settled(session, history)
    damage(stack, statement)
    stack.client.flushall()
    later = Foldahead(stack.redis.url)
    again, other = later.session("s", policy=POLICY), past_threshold(fold, "other")

    again.resume(history, timeout=1)
    assert not is_compacted(again.view(history))
    wait_until(lambda: goes_out_compacted(*other), timeout_s=15)
    assert runs_on(stack)
    later.close()


def test_a_damaged_job_is_passed_over(stack: RealStack, fold: Foldahead) -> None:
    stack.pause("work-1")
    past_threshold(fold, "damaged")
    wait_until(lambda: len(stack.jobs()) == 1)
    damage(stack, "UPDATE jobs SET request = x'c1'")
    stack.resume("work-1")

    other = past_threshold(fold, "other")
    wait_until(lambda: goes_out_compacted(*other), timeout_s=15)
    assert stack.jobs()[0].reason == "unreadable_request"


def test_records_that_were_damaged_are_left_out(stack: RealStack, fold: Foldahead) -> None:
    session, history = past_threshold(fold, "s")
    stack.wait_settled(session, history)
    assert is_compacted(session.view(history))
    session.flush(5)
    wait_until(lambda: stack.kept_records("default", "s"))
    damage(stack, 'UPDATE records SET json = \'{"v": 1, "kind": "nonsense"}\'')
    stack.client.flushall()

    later = Foldahead(stack.redis.url)
    again = later.session("s", policy=POLICY)
    again.resume(history, timeout=3)
    again.view(history)
    again.publish(history)
    wait_until(lambda: goes_out_compacted(again, history), timeout_s=15)
    later.close()


@pytest.mark.parametrize("off_ms", [-AN_HOUR_MS, -THREE_MINUTES_MS, THREE_MINUTES_MS, AN_HOUR_MS])
def test_a_worker_whose_clock_is_off_takes_what_a_watcher_asks_for_now(make_stack: MakeStack, off_ms: int) -> None:
    stack = make_stack(watchers=0, workers=0)
    want(stack.store, a_want(), now_ms())

    leased = lease(stack.store, "elsewhere:1", now_ms() + off_ms)

    assert leased is not None
