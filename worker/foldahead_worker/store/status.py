"""Numbers for dashboards and for `foldahead status`."""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import Connection, case, func, select
from sqlalchemy.sql.base import Executable

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import all_of, chunks
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


class Queue(Struct, frozen=True, kw_only=True):
    """What is to be done, and how late the latest of it is."""

    queued: int
    leased: int
    oldest_due_age_ms: int
    """How long the job that became due first has been waiting for a worker; 0 when none is due."""


def queue(store: Store, now_ms: int) -> Queue:
    """The open jobs. Cheap enough for every process to ask every few seconds: what is done is not counted."""
    row = jobs.c
    open_jobs = select(row.state, func.count().label("jobs")).where(row.state.in_(("queued", "leased")))
    with store.reading() as connection:
        by_state: dict[str, int] = {
            found.state: found.jobs for found in connection.execute(open_jobs.group_by(row.state))
        }
        return Queue(
            queued=by_state.get("queued", 0),
            leased=by_state.get("leased", 0),
            oldest_due_age_ms=_oldest_due_age_ms(connection, now_ms),
        )


def models_named(store: Store) -> set[str]:
    """Models that jobs ask for, or asked for as long as they are kept."""
    with store.reading() as connection:
        return set(connection.scalars(select(jobs.c.model).distinct()))


def labels_of(store: Store, job_ids: Sequence[int]) -> dict[int, str]:
    """`label_of` each job."""
    labels: dict[int, str] = {}
    for some in chunks(job_ids):
        with store.reading() as connection:
            for job in all_of(connection, _named(some), _Named):
                session = f"{job.session} +{job.sessions - 1}" if job.sessions > 1 else job.session
                labels[job.id] = label_of(job.workspace, session, job.urgency, job.kind, job.messages, job.model)
    return labels


def label_of(workspace: str, session: str, urgency: str, kind: str, messages: int, model: str) -> str:
    """A job in a few words for people; never content."""
    return f"{workspace}/{session} {urgency} {kind}, {messages} messages, {model}"


class _Named(Struct, frozen=True, kw_only=True):
    id: int
    workspace: str
    session: str
    sessions: int
    urgency: str
    kind: str
    model: str
    messages: int


def _named(job_ids: Sequence[int]) -> Executable:
    row = jobs.c
    same = (waiters.c.workspace == row.workspace) & (waiters.c.cache_key == row.cache_key)
    return (
        select(
            row.id,
            row.workspace,
            func.coalesce(func.min(waiters.c.session), "").label("session"),
            func.count(waiters.c.session).label("sessions"),
            row.urgency,
            row.kind,
            row.model,
            func.coalesce(func.max(waiters.c.end - waiters.c.start), 0).label("messages"),
        )
        .outerjoin(waiters, same)
        .where(row.id.in_(job_ids))
        .group_by(row.id)
    )


def _oldest_due_age_ms(connection: Connection, now_ms: int) -> int:
    row = jobs.c
    due = (row.state == "queued", row.not_before_ms <= now_ms)
    since_ms = case((row.not_before_ms > row.updated_at_ms, row.not_before_ms), else_=row.updated_at_ms)
    oldest = connection.scalar(select(func.min(since_ms)).where(*due))
    return 0 if oldest is None else max(0, now_ms - oldest)


def status(store: Store, now_ms: int) -> Status:
    """The numbers now, each as of one moment."""
    with store.reading() as connection:
        counted = connection.execute(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state))
        by_state: dict[str, int] = {row.state: row.jobs for row in counted}
        waiting = select(func.count()).select_from(waiters).where(waiters.c.state == "waiting")
        tables = {table.name: table for table in (summaries, sessions, records, events)}
        return Status(
            **{state: by_state.get(state, 0) for state in ("queued", "leased", "done", "failed")},
            oldest_due_age_ms=_oldest_due_age_ms(connection, now_ms),
            waiting=connection.scalar(waiting) or 0,
            **{name: connection.scalar(select(func.count()).select_from(table)) or 0 for name, table in tables.items()},
        )
