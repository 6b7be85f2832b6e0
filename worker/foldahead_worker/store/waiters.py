"""Waiters: which session asked for which summary, and how far it got to it."""

from collections.abc import Collection
from itertools import takewhile

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, select, update

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import CHUNK, all_of, columns_of, one_of
from foldahead_worker.store.schema import JobState, Urgency, WaiterState, jobs, summaries, waiters
from foldahead_worker.store.summaries import Summary

BLAMELESS = ("needs_bodies", "cancelled")
"""`reason` of failed jobs that say nothing of whether the next one will fail."""
READY_LIMIT = 8
"""Ready summaries that Redis keeps for a session."""


class Waiter(Struct, frozen=True, kw_only=True):
    """One session's wish for one summary: of the messages `start`..`end` under `head_end` (32 bytes).

    `turn_id`, `watermark_before` and `urgency` are of the turn that asked last; events carry them.
    """

    workspace: str
    session: str
    cache_key: str
    turn_id: str
    watermark_before: int
    start: int
    end: int
    head_end: bytes
    urgency: Urgency
    budget_picodollars: int
    """What the session may spend on summaries in all."""
    state: WaiterState = "waiting"
    created_at_ms: int


class Undelivered(Struct, frozen=True, kw_only=True):
    """A session that was not told how its job ended."""

    waiter: Waiter
    job_state: JobState
    reason: str
    error_class: str


class ReadySummary(Struct, frozen=True, kw_only=True):
    """A summary that a session asked for and may swap in."""

    waiter: Waiter
    summary: Summary


def waiters_of(store: Store, workspace: str, cache_key: str) -> tuple[Waiter, ...]:
    """Who waits for a summary and was not told yet; the first to ask, who pays, comes first."""
    with store.reading() as connection:
        return waiting_in(connection, workspace, cache_key)


def waiting_in(connection: Connection, workspace: str, cache_key: str) -> tuple[Waiter, ...]:
    """`waiters_of` within a transaction."""
    query = select(*columns_of(waiters, Waiter)).where(*_of_key(workspace, cache_key), waiters.c.state == "waiting")
    return all_of(connection, query.order_by(waiters.c.created_at_ms, waiters.c.session), Waiter)


def find_waiter(store: Store, workspace: str, session: str, cache_key: str) -> Waiter | None:
    """One session's wish for one summary, whatever became of it."""
    query = select(*columns_of(waiters, Waiter)).where(*_of_key(workspace, cache_key), waiters.c.session == session)
    with store.reading() as connection:
        return one_of(connection, query, Waiter)


def undelivered(store: Store, settled_before_ms: int, limit: int = CHUNK) -> tuple[Undelivered, ...]:
    """Waiters whose job was done or failed a while ago, and who were not told: whoever should have, died."""
    ended = (jobs.c.state.in_(("done", "failed")), jobs.c.updated_at_ms < settled_before_ms)
    told = ("job_state", "reason", "error_class")
    query = (
        select(*columns_of(waiters, Waiter), jobs.c.state.label(told[0]), jobs.c.reason, jobs.c.error_class)
        .join(jobs, (jobs.c.workspace == waiters.c.workspace) & (jobs.c.cache_key == waiters.c.cache_key))
        .where(waiters.c.state == "waiting", *ended)
        .order_by(jobs.c.updated_at_ms)
        .limit(limit)
    )
    with store.reading() as connection:
        rows = connection.execute(query).mappings().all()
    fields = Waiter.__struct_fields__
    return tuple(
        Undelivered(waiter=Waiter(**{name: row[name] for name in fields}), **{name: row[name] for name in told})
        for row in rows
    )


def mark_ready(store: Store, workspace: str, cache_key: str, sessions: Collection[str]) -> frozenset[str]:
    """Notes that sessions were told of a ready summary. Returns those that had not been."""
    return _move(store, workspace, cache_key, sessions, "ready")


def mark_given_up(store: Store, workspace: str, cache_key: str, sessions: Collection[str]) -> frozenset[str]:
    """Notes that sessions were told that their job failed. Returns those that had not been."""
    return _move(store, workspace, cache_key, sessions, "given_up")


def ready_for(store: Store, workspace: str, session: str, limit: int = READY_LIMIT) -> tuple[ReadySummary, ...]:
    """What a session asked for and is there, the furthest first: what a restore gives back to Redis."""
    same = (summaries.c.workspace == waiters.c.workspace) & (summaries.c.cache_key == waiters.c.cache_key)
    asked = (waiters.c.workspace == workspace, waiters.c.session == session, waiters.c.state != "given_up")
    query = select(*columns_of(waiters, Waiter)).join(summaries, same).where(*asked)
    of_summary = select(*columns_of(summaries, Summary)).join(waiters, same).where(*asked)
    with store.reading() as connection:
        newest_first = (waiters.c.end.desc(), waiters.c.created_at_ms.desc(), waiters.c.cache_key)
        found = all_of(connection, query.order_by(*newest_first).limit(limit), Waiter)
        rows = all_of(connection, of_summary.order_by(*newest_first).limit(limit), Summary)
    by_key = {summary.cache_key: summary for summary in rows}
    return tuple(
        ReadySummary(waiter=waiter, summary=by_key[waiter.cache_key]) for waiter in found if waiter.cache_key in by_key
    )


class Failed(Struct, frozen=True, kw_only=True):
    """Jobs of a session that failed since the last one that did not, and when the last of them ended."""

    in_a_row: int = 0
    last_ms: int = 0


def failed_in_a_row(store: Store, workspace: str, session: str) -> Failed:
    """What a session's patience is made of; failures through no fault of the job do not count."""
    job, ask = jobs.c, waiters.c
    same = (job.workspace == ask.workspace) & (job.cache_key == ask.cache_key)
    ended = select(job.state, job.updated_at_ms).join(waiters, same)
    ended = ended.where(ask.workspace == workspace, ask.session == session, job.reason.not_in(BLAMELESS))
    ended = ended.where(job.state.in_(("done", "failed"))).order_by(job.updated_at_ms.desc()).limit(CHUNK)
    with store.reading() as connection:
        found = connection.execute(ended).all()
    failed = list(takewhile(lambda row: row.state == "failed", found))
    return Failed(in_a_row=len(failed), last_ms=failed[0].updated_at_ms if failed else 0)


def passed_by(store: Store, workspace: str, session: str, cache_key: str, end: int) -> int:
    """How many summaries were ready for a session, and never shown, when it swapped in that of `cache_key`."""
    row = waiters.c
    of_session = (row.workspace == workspace, row.session == session, row.state == "ready")
    passed = select(func.count()).select_from(waiters).where(*of_session, row.cache_key != cache_key, row.end <= end)
    with store.reading() as connection:
        return connection.scalar(passed) or 0


def _move(
    store: Store, workspace: str, cache_key: str, sessions: Collection[str], state: WaiterState
) -> frozenset[str]:
    statement = (
        update(waiters)
        .where(*_of_key(workspace, cache_key), waiters.c.session.in_(sessions), waiters.c.state == "waiting")
        .values(state=state)
        .returning(waiters.c.session)
    )
    with store.writing() as connection:
        return frozenset(connection.scalars(statement))


def _of_key(workspace: str, cache_key: str) -> tuple[ColumnElement[bool], ...]:
    return (waiters.c.workspace == workspace, waiters.c.cache_key == cache_key)
