"""What is deleted with time: every table has a bound. Summaries have their own, see `summaries.evict`."""

from msgspec import Struct
from sqlalchemy import delete, exists, func, select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import CHUNK
from foldahead_worker.store.schema import events, jobs, sessions, spend, summaries, waiters
from foldahead_worker.store.sessions import forget_session


def prune_events(store: Store, keep: int) -> int:
    """Keeps the newest events only."""
    with store.writing() as connection:
        oldest = select(events.c.id).order_by(events.c.id.desc()).offset(keep).limit(1).scalar_subquery()
        return connection.execute(delete(events).where(events.c.id <= oldest)).rowcount


def prune_jobs(store: Store, ended_before_ms: int) -> int:
    """Deletes jobs that ended long ago and that no session waits for; a want opens a new one."""
    row = jobs.c
    waits = exists().where(
        waiters.c.workspace == row.workspace,
        waiters.c.cache_key == row.cache_key,
        waiters.c.state == "waiting",
    )
    with store.writing() as connection:
        old = (row.state.in_(("done", "failed")), row.updated_at_ms < ended_before_ms, ~waits)
        return connection.execute(delete(jobs).where(*old)).rowcount


def prune_waiters(store: Store, asked_before_ms: int) -> int:
    """Deletes waiters that gave up on summaries that are not kept; of a kept one they tell whose it is."""
    row = waiters.c
    kept = exists().where(summaries.c.workspace == row.workspace, summaries.c.cache_key == row.cache_key)
    open_job = exists().where(
        jobs.c.workspace == row.workspace,
        jobs.c.cache_key == row.cache_key,
        jobs.c.state.in_(("queued", "leased")),
    )
    with store.writing() as connection:
        old = (row.state == "given_up", row.created_at_ms < asked_before_ms, ~kept, ~open_job)
        return connection.execute(delete(waiters).where(*old)).rowcount


def prune_spend(store: Store, before_day: str) -> int:
    """Deletes settled spend of days before one (`spend.day_of`)."""
    with store.writing() as connection:
        old = (spend.c.day < before_day, spend.c.settled_picodollars.is_not(None))
        return connection.execute(delete(spend).where(*old)).rowcount


def forget_idle_sessions(store: Store, seen_before_ms: int, limit: int = CHUNK) -> int:
    """Forgets sessions that were not heard of for long, records included, and says how many."""
    row = sessions.c
    query = select(row.workspace, row.session).where(row.last_seen_ms < seen_before_ms).order_by(row.last_seen_ms)
    with store.reading() as connection:
        idle = connection.execute(query.limit(limit)).all()
    for found in idle:
        forget_session(store, found.workspace, found.session)
    return len(idle)


class CacheRows(Struct, frozen=True):
    """Summaries that the sessions of a workspace want kept: the `most`; `left_open`: one leaves it to the servers."""

    most: int
    left_open: bool


def wanted_cache_rows(store: Store) -> dict[str, CacheRows]:
    """What the sessions of each workspace want kept."""
    row = sessions.c
    query = select(
        row.workspace, func.max(row.cache_max_rows).label("most"), func.min(row.cache_max_rows).label("least")
    )
    with store.reading() as connection:
        found = connection.execute(query.group_by(row.workspace))
        return {asked.workspace: CacheRows(asked.most, asked.least == 0) for asked in found}


def summary_counts(store: Store) -> dict[str, int]:
    """Summaries kept, by workspace: who may have too many."""
    query = select(summaries.c.workspace, func.count().label("kept")).group_by(summaries.c.workspace)
    with store.reading() as connection:
        return {row.workspace: row.kept for row in connection.execute(query)}
