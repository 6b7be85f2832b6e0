"""Numbers for dashboards and for `foldahead status`."""

from msgspec import Struct
from sqlalchemy import func, select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.schema import events, jobs, records, sessions, summaries, waiters


class Status(Struct, frozen=True, kw_only=True):
    """How much there is of everything, and how late the latest job is."""

    queued: int
    leased: int
    done: int
    failed: int
    oldest_due_age_ms: int
    """How long the job that became due first has been waiting for a worker; 0 when none is due."""
    waiting: int
    """Sessions' wishes that are not answered."""
    summaries: int
    sessions: int
    records: int
    events: int


def status(store: Store, now_ms: int) -> Status:
    """The numbers now, each as of one moment."""
    due = (jobs.c.state == "queued", jobs.c.not_before_ms <= now_ms)
    with store.reading() as connection:
        counted = connection.execute(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state))
        by_state: dict[str, int] = {row.state: row.jobs for row in counted}
        oldest = connection.scalar(select(func.min(jobs.c.not_before_ms)).where(*due))
        waiting = select(func.count()).select_from(waiters).where(waiters.c.state == "waiting")
        tables = {table.name: table for table in (summaries, sessions, records, events)}
        return Status(
            **{state: by_state.get(state, 0) for state in ("queued", "leased", "done", "failed")},
            oldest_due_age_ms=0 if oldest is None else max(0, now_ms - oldest),
            waiting=connection.scalar(waiting) or 0,
            **{
                name: connection.scalar(select(func.count()).select_from(table)) or 0
                for name, table in tables.items()
            },
        )
