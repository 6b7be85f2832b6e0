"""The database locked, away, full, damaged; clocks that disagree: work is late at most, and never wrong."""

import itertools
import resource
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Table, make_url, text, update

from foldahead import Foldahead, Session
from foldahead_worker.clock import now_ms
from foldahead_worker.store.jobs import want
from foldahead_worker.store.leases import lease
from foldahead_worker.store.schema import jobs, records, summaries
from tests.acceptance.conftest import MakeStack
from tests.conversations import POLICY, Messages, conversation, is_compacted
from tests.databases import KINDS, NewDatabase, databases_of_kind
from tests.stack import RealStack, real_stack
from tests.stores import a_want
from tests.waiting import wait_until

LOCKED_S = 30.0
"""A connection waits 5 s for a lock; SQLite counts its own naps, which a loaded machine draws out."""
AN_HOUR_MS, THREE_MINUTES_MS = 3_600_000, 180_000
_rooms = itertools.count(1)


@pytest.fixture
def stack(request: pytest.FixtureRequest, databases: NewDatabase, tmp_path: Path) -> Iterator[RealStack]:
    """A stack on the kind of database that the run is on, or that a test names."""
    kind: str | None = getattr(request, "param", None)
    new_database = databases_of_kind(kind, request) if kind else databases
    with new_database(tmp_path) as database_url, real_stack(tmp_path, database_url) as running:
        yield running


@pytest.fixture
def fold(stack: RealStack) -> Iterator[Foldahead]:
    client = Foldahead(stack.redis.url)
    yield client
    client.close()


def past_threshold(fold: Foldahead, name: str) -> tuple[Session, Messages]:
    return published(fold.session(name, policy=POLICY), name)


def published(session: Session, topic: str) -> tuple[Session, Messages]:
    """The session past its threshold, with its history."""
    history = conversation(18, topic)
    session.publish(history)
    assert session.flush(5)
    return session, history


def goes_out_compacted(session: Session, history: Messages) -> bool:
    session.resume(history, timeout=1)
    return is_compacted(session.view(history))


def runs_on(stack: RealStack) -> bool:
    return stack.is_running("watch-1") and stack.is_running("work-1")


@contextmanager
def locked(stack: RealStack) -> Generator[None]:
    """Somebody else holds what every writer needs: SQLite's write lock, or the tables themselves."""
    with stack.store.writing() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("LOCK TABLE jobs, waiters, sessions")
        yield


@pytest.mark.parametrize("stack", KINDS, indirect=True)
def test_a_database_that_is_locked_for_seconds_delays_a_summary_and_loses_none(
    stack: RealStack, fold: Foldahead
) -> None:
    with locked(stack):
        session, history = past_threshold(fold, "s")
        wait_until(lambda: "StoreBusy" in stack.log("watch-1"), timeout_s=LOCKED_S)

    wait_until(lambda: goes_out_compacted(session, history), timeout_s=15)
    assert runs_on(stack)


@contextmanager
def away(server: str, database_url: str) -> Generator[None]:
    """A PostgreSQL that was stopped, as its clients see it: connections end, and new ones are refused."""
    name = sql.Identifier(make_url(database_url).database or "")
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    end = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(allow.format(name, sql.SQL("false")))
        connection.execute(end.format(sql.Literal(make_url(database_url).database)))
        yield
        connection.execute(allow.format(name, sql.SQL("true")))


@pytest.mark.parametrize("stack", ["postgres"], indirect=True)
def test_a_server_that_is_away_for_seconds_delays_a_summary_and_loses_none(
    stack: RealStack, fold: Foldahead, postgres_server: str
) -> None:
    with away(postgres_server, stack.settings.database_url):
        session, history = past_threshold(fold, "s")
        wait_until(lambda: "DatabaseUnreachable" in stack.log("watch-1"), timeout_s=LOCKED_S)

    wait_until(lambda: goes_out_compacted(session, history), timeout_s=30)
    assert runs_on(stack)


@pytest.mark.parametrize("stack", ["sqlite"], indirect=True)
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


# -- damaged rows --------------------------------------------------------------------------------------------------


class Room:
    """A workspace on a stack that runs, in which a test damages all rows of a kind; its Redis may be emptied."""

    def __init__(self, stack: RealStack, workspace: str) -> None:
        self.stack = stack
        self.workspace = workspace
        self._folds: list[Foldahead] = []

    def session(self, name: str) -> Session:
        """A session of a new process."""
        self._folds.append(Foldahead(self.stack.redis.url))
        return self._folds[-1].session(name, workspace=self.workspace, policy=POLICY)

    def past_threshold(self, name: str) -> tuple[Session, Messages]:
        return published(self.session(name), name)

    def damage(self, table: Table, **values: Any) -> None:
        statement = update(table).where(table.c.workspace == self.workspace).values(values)
        with self.stack.store.writing() as connection:
            assert connection.execute(statement).rowcount > 0

    def close(self) -> None:
        for fold in self._folds:
            fold.close()


@pytest.fixture(scope="module")
def lasting_stack(databases: NewDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStack]:
    folder = tmp_path_factory.mktemp("stack")
    with databases(folder) as database_url, real_stack(folder, database_url) as running:
        yield running


@pytest.fixture
def room(lasting_stack: RealStack) -> Iterator[Room]:
    made = Room(lasting_stack, f"room-{next(_rooms)}")
    yield made
    made.close()


def is_never_shown_when(room: Room, **damaged: Any) -> None:
    session, history = room.past_threshold("s")
    room.stack.wait_settled(session, history)
    room.damage(summaries, **damaged)
    room.stack.client.flushall()
    again, other = room.session("s"), room.past_threshold("other")

    again.resume(history, timeout=1)
    assert not is_compacted(again.view(history))
    wait_until(lambda: goes_out_compacted(*other), timeout_s=15)
    assert runs_on(room.stack)


@pytest.mark.parametrize(
    "damaged", [{"head": b"\0"}, {"head": bytes(32)}, {"kind": "nonsense"}, {"end": 3}], ids=lambda one: next(iter(one))
)
def test_a_damaged_summary_is_never_shown_and_stops_nobody_else(room: Room, damaged: dict[str, Any]) -> None:
    is_never_shown_when(room, **damaged)


@pytest.mark.parametrize("stack", ["sqlite"], indirect=True)
def test_a_number_that_is_none_is_a_damage_like_any_other(stack: RealStack) -> None:
    """SQLite keeps what it is given, whatever the column's type."""
    room = Room(stack, "default")
    is_never_shown_when(room, end=text("'many'"))
    room.close()


def test_a_damaged_job_is_passed_over(room: Room) -> None:
    room.stack.pause("work-1")
    room.past_threshold("damaged")
    wait_until(lambda: len(room.stack.jobs(room.workspace)) == 1)
    room.damage(jobs, request=b"\xc1")
    room.stack.resume("work-1")

    other = room.past_threshold("other")
    wait_until(lambda: goes_out_compacted(*other), timeout_s=15)
    assert room.stack.jobs(room.workspace)[0].reason == "unreadable_request"


def test_records_that_were_damaged_are_left_out(room: Room) -> None:
    session, history = room.past_threshold("s")
    room.stack.wait_settled(session, history)
    assert is_compacted(session.view(history))
    session.flush(5)
    wait_until(lambda: room.stack.kept_records(room.workspace, "s"))
    room.damage(records, json=b'{"v": 1, "kind": "nonsense"}')
    room.stack.client.flushall()

    again = room.session("s")
    again.resume(history, timeout=3)
    again.view(history)
    again.publish(history)
    wait_until(lambda: goes_out_compacted(again, history), timeout_s=15)


@pytest.mark.parametrize("off_ms", [-AN_HOUR_MS, -THREE_MINUTES_MS, THREE_MINUTES_MS, AN_HOUR_MS])
def test_a_worker_whose_clock_is_off_takes_what_a_watcher_asks_for_now(make_stack: MakeStack, off_ms: int) -> None:
    stack = make_stack(watchers=0, workers=0)
    want(stack.store, a_want(), now_ms())

    leased = lease(stack.store, "elsewhere:1", now_ms() + off_ms)

    assert leased is not None
