"""A store on real SQLite and on real PostgreSQL for tests, and what to put in."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foldahead.core.request import SummaryRequest
from foldahead_worker.store import Store, open_store
from foldahead_worker.store.commits import Committed, commit
from foldahead_worker.store.jobs import Want, want
from foldahead_worker.store.leases import Leased, lease
from foldahead_worker.store.summaries import Summary, new_summary
from foldahead_worker.store.waiters import mark_ready

NOW_MS = 1_800_000_000_000
"""A moment for tests to start from."""


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'foldahead.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An open, empty store, on each kind of database in turn."""
    opened = open_store(store_url)
    yield opened
    opened.close()


def a_request(n: int = 0, **changes: Any) -> SummaryRequest:
    """A request; another `n` is another history."""
    values: dict[str, Any] = {
        "workspace": "acme",
        "dialect": "anthropic",
        "kind": "text",
        "start": 1,
        "message_count": 20,
        "head": hashlib.sha256(str(n).encode()).hexdigest(),
        "model": "anthropic:claude-haiku-5-5",
        "prompt_version": "1",
        "max_tokens": 4_096,
        "length_target_tokens": 1_000,
        "tool_result_cap": 4_000,
        "redaction_version": 1,
        "index_version": 1,
    }
    return SummaryRequest(**values | changes)


def a_want(n: int = 0, session: str = "s", request: SummaryRequest | None = None, **changes: Any) -> Want:
    """A session's wish for the summary of history `n`, unless a request is given."""
    values: dict[str, Any] = {
        "turn_id": "7",
        "watermark_before": 0,
        "urgency": "ahead",
        "deadline_ms": NOW_MS + 60_000,
        "max_attempts": 3,
        "budget_picodollars": 200_000_000_000,
    }
    return Want(request=request or a_request(n), session=session, **values | changes)


def an_answer(request: SummaryRequest, text: str = "The user wants it blue.", now_ms: int = NOW_MS) -> Summary:
    """A verified answer to a request."""
    return new_summary(
        request,
        text=text,
        span_tokens=20_000,
        summary_tokens=900,
        cost_picodollars=2_450_000_000,
        now_ms=now_ms,
    )


def leased(store: Store, owner: str = "worker", now_ms: int = NOW_MS) -> Leased:
    """The best due job, which there must be."""
    job = lease(store, owner, now_ms)
    assert job is not None
    return job


def refuse_rows_of(store: Store, table: str, workspace: str) -> None:
    """From now on the database takes no row of a workspace into a table: a fault that only that workspace has."""
    refusal = (
        f"CREATE TRIGGER refuse_{table} BEFORE INSERT ON {table} WHEN NEW.workspace = '{workspace}' "
        "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        if store.engine.dialect.name == "sqlite"
        else f"ALTER TABLE {table} ADD CONSTRAINT refuse_{table} CHECK (workspace <> '{workspace}')"
    )
    with store.writing() as connection:
        connection.exec_driver_sql(refusal)


def summarised(store: Store, wish: Want, now_ms: int = NOW_MS, text: str = "The user wants it blue.") -> Committed:
    """Takes a wish all the way: asked for, leased, answered, and its session told."""
    want(store, wish, now_ms)
    job = leased(store, now_ms=now_ms)
    committed = commit(store, job.job_id, job.token, an_answer(job.request, text, now_ms), now_ms)
    mark_ready(store, wish.request.workspace, wish.request.cache_key, [wish.session])
    return committed
