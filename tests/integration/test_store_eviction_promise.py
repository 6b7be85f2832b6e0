"""Whatever happens in whatever order: what a session shows or waits for is not evicted."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from foldahead_worker.store import open_store
from foldahead_worker.store.commits import commit
from foldahead_worker.store.jobs import want
from foldahead_worker.store.leases import lease
from foldahead_worker.store.sessions import SessionRow, close_session, forget_session, save_sessions
from foldahead_worker.store.summaries import evict, find_summary, touch
from foldahead_worker.store.waiters import mark_ready
from tests.databases import NewDatabase
from tests.stores import NOW_MS, a_request, a_want, an_answer

KEYS = [a_request(n, message_count=10 + n).cache_key for n in range(4)]
numbers = st.sampled_from(range(4))
names = st.sampled_from(["one", "two"])


class Eviction(RuleBasedStateMachine):
    """Sessions that ask, show, close and are forgotten, and an eviction at any moment."""

    def __init__(self, new_database: Callable[[], AbstractContextManager[str]]) -> None:
        super().__init__()
        self.new_database = new_database

    @initialize()
    def open(self):
        self.opened = ExitStack()
        self.store = open_store(self.opened.enter_context(self.new_database()))
        self.now_ms = NOW_MS
        self.held = {"one": set(), "two": set()}
        self.shown = {"one": "", "two": ""}

    @rule(n=numbers, session=names)
    def ask(self, n, session):
        request = a_request(n, message_count=10 + n)
        want(self.store, a_want(request=request, session=session), self.now_ms)
        while job := lease(self.store, "worker", self.now_ms):
            commit(self.store, job.job_id, job.token, an_answer(job.request, now_ms=self.now_ms), self.now_ms)
        self.held[session].add(KEYS[n])

    @rule(n=numbers, session=names)
    def tell(self, n, session):
        mark_ready(self.store, "acme", KEYS[n], [session])

    @rule(session=names, data=st.data())
    def show(self, session, data):
        if self.held[session]:
            key = data.draw(st.sampled_from(sorted(self.held[session])))
            self.now_ms += 1
            row = SessionRow(workspace="acme", session=session, standing=b"", shown=key, last_seen_ms=self.now_ms)
            save_sessions(self.store, [row])
            self.shown[session] = key
            # What lies behind what is shown may go, and what was shown before.
            self.held[session] = {key}

    @rule(session=names)
    def close(self, session):
        close_session(self.store, "acme", session, self.now_ms)
        self.held[session] = {self.shown[session]} - {""}

    @rule(session=names)
    def forget(self, session):
        forget_session(self.store, "acme", session)
        self.held[session], self.shown[session] = set(), ""

    @rule(n=numbers)
    def read(self, n):
        self.now_ms += 1
        touch(self.store, {("acme", KEYS[n]): 1}, self.now_ms)

    @rule(max_rows=st.integers(0, 2))
    def evict(self, max_rows):
        evict(self.store, "acme", max_rows)

    @invariant()
    def what_is_held_is_there(self):
        for key in set().union(*getattr(self, "held", {}).values()):
            assert find_summary(self.store, "acme", key)

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.opened.close()


def test_what_a_session_shows_or_waits_for_is_not_evicted(databases: NewDatabase, tmp_path: Path) -> None:
    run_state_machine_as_test(
        lambda: Eviction(lambda: databases(tmp_path)),  # pyright: ignore[reportArgumentType] - it takes any factory
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
