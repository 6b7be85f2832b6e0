"""The server side as real processes over a Redis of its own: for tests that kill, stop and start them.

The processes are `foldahead watch` and `foldahead work`; they end with this one, however that ends. Names are
`watch-1`, `watch-2`, ..., `work-1`, ....
"""

import contextlib
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from msgspec import Struct
from sqlalchemy import select

from foldahead import Session
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.library import load
from foldahead_worker.server import connect
from foldahead_worker.settings import Settings
from foldahead_worker.settling import settled
from foldahead_worker.stack import Child
from foldahead_worker.store import Store, open_store, schema
from foldahead_worker.store.records import records_of
from foldahead_worker.store.rows import all_of, columns_of
from foldahead_worker.switchboard import Switchboard
from tests.waiting import wait_until

LEASE_DEAD_AFTER_S = 2.0
"""Short, so that a test of a dead worker need not last."""


class JobRow(Struct, frozen=True, kw_only=True):
    """A job as it stands in the database."""

    id: int
    cache_key: str
    state: str
    owner: str
    attempts: int
    token: int
    reason: str

    @property
    def owner_pid(self) -> int | None:
        """The process that has its lease."""
        return int(self.owner.rpartition(":")[2]) if self.owner else None


class RealStack:
    """Watchers and workers as child processes, and the doors to look at what they do."""

    def __init__(
        self, directory: Path, database_url: str, *, watchers: int = 1, workers: int = 1, **settings: Any
    ) -> None:
        self._directory = directory
        self._database_url = database_url
        self._settings = settings
        self._names = [f"watch-{at}" for at in range(1, watchers + 1)]
        self._names += [f"work-{at}" for at in range(1, workers + 1)]
        self._opened = contextlib.ExitStack()
        self._children: dict[str, Child] = {}
        self.redis = EmbeddedRedis()
        """Without persistence: started again it is empty."""

    def start(self) -> None:
        """Start everything and wait until it is ready."""
        self.redis.start()
        url = self.redis.url
        values: dict[str, Any] = {
            "redis_url": url,
            "broker_url": url,
            "database_url": self._database_url,
            "summarizer": "extract",
            "lease_dead_after_s": LEASE_DEAD_AFTER_S,
            "concurrency": 16,
        }
        self.settings = Settings(**values | self._settings)
        self.store: Store = open_store(self.settings.database_url)
        self.client: redis.Redis = connect(url)
        self.switchboard = Switchboard(self.client)
        load(self.client)
        self._children = {name: self._child(name) for name in self._names}
        self.launch(*self._names)

    def stop(self) -> None:
        """Kill everything, paused or not: an end in order takes a second, and tests that look at one ask for it."""
        for name, child in self._children.items():
            if self.is_running(name):
                self.kill(name)
            child.stop()
        if hasattr(self, "store"):
            self.store.close()
            self.client.close()
        self.redis.stop()

    def add(self, name: str) -> None:
        """Start one more process, say `work-3`."""
        self._children[name] = self._child(name)
        self.launch(name)

    def _child(self, name: str) -> Child:
        return Child(name.partition("-")[0], self.settings, self._directory / f"{name}.log")

    # -- one process -----------------------------------------------------------------------------------------------

    def launch(self, *names: str) -> None:
        """Start processes that do not run, and wait until they are ready."""
        for name in names:
            self._children[name].start()
        for name in names:
            self._children[name].wait_ready()

    def pid(self, name: str) -> int:
        """The process id."""
        pid = self._children[name].pid
        assert pid is not None
        return pid

    def is_running(self, name: str) -> bool:
        """Whether it was started and has not ended."""
        child = self._children[name]
        return child.pid is not None and child.ended() is None

    def kill(self, name: str) -> None:
        """SIGKILL: nothing is handed back."""
        os.kill(self.pid(name), signal.SIGKILL)
        self._children[name].stop()

    def terminate(self, name: str, timeout_s: float) -> int:
        """SIGTERM; the exit status. Fails when it has not ended within `timeout_s`."""
        child = self._children[name]
        child.ask_to_stop()
        wait_until(lambda: child.ended() is not None, timeout_s)
        status = child.ended()
        child.stop()
        assert status is not None
        return status

    def pause(self, name: str) -> None:
        """SIGSTOP: it lives and does nothing. Not in a transaction, in which it would hold SQLite's write lock."""
        with self.store.writing():
            os.kill(self.pid(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        os.kill(self.pid(name), signal.SIGCONT)

    def log(self, name: str) -> str:
        """What it logged since its first start."""
        return (self._directory / f"{name}.log").read_text("utf8", "replace")

    def jobs(self, workspace: str = "default") -> list[JobRow]:
        """The job rows of a workspace, oldest first."""
        row = schema.jobs.c
        query = select(*columns_of(schema.jobs, JobRow)).where(row.workspace == workspace)
        with self.store.reading() as connection:
            return list(all_of(connection, query.order_by(row.id), JobRow))

    def kept_records(self, workspace: str, session: str) -> list[bytes]:
        """The records of a session that the database has."""
        return list(records_of(self.store, workspace, session))

    # -- Redis -------------------------------------------------------------------------------------------------------

    def restart_redis(self) -> None:
        """Start Redis again on its port, empty: what it knew is gone, its functions too."""
        self.redis.start()

    # -- sessions ----------------------------------------------------------------------------------------------------

    def is_settled(self, session: Session) -> bool:
        """Whether nothing is under way for a session."""
        return settled(self.client, session.member)

    def wait_settled(self, session: Session, history: list[Any], timeout_s: float = 15) -> None:
        """Until what a session asked for is there, and it has heard of it."""
        assert session.flush(5)
        wait_until(lambda: self.is_settled(session), timeout_s)
        session.resume(history, timeout=2)


@contextmanager
def real_stack(directory: Path, database_url: str, **options: Any) -> Generator[RealStack]:
    """A stack that runs until the block ends; nothing of it stays but logs."""
    stack = RealStack(directory, database_url, **options)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
