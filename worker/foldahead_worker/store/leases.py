"""Leases: one worker has a job at a time. A fencing token tells a lease from every later one of its job.

An attempt is counted when a lease is given, and given back where none was made. A lease that ends settles
what was reserved for it: by the bill, or at the upper bound where no bill is known.
"""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, case, func, select, tuple_, update

from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead_worker.store.engine import Store
from foldahead_worker.store.jobs import AT_ONCE_MS, NEVER_MS
from foldahead_worker.store.rows import all_of, chunks, columns_of
from foldahead_worker.store.schema import JobState, Urgency, jobs
from foldahead_worker.store.spend import Bill, settle
from foldahead_worker.store.summaries import Summary, summary_in
from foldahead_worker.store.waiters import Waiter, waiting_in

LEASE_LOST = "lease_lost"
"""`reason` of a job whose worker died, or seemed to."""
UNREADABLE_PAUSE_MS = 60_000
"""A request that this version cannot read may be a newer one's, during an upgrade: then it is tried again."""


class Leased(Struct, frozen=True, kw_only=True):
    """A job that is this worker's, as long as `token` is the row's."""

    job_id: int
    token: int
    request: SummaryRequest
    urgency: Urgency
    deadline_ms: int
    attempts: int
    """With this one."""
    max_attempts: int
    waiters: tuple[Waiter, ...]
    """Who waits for it; the first to ask, who pays, comes first."""
    found: Summary | None
    """Its summary, where that is stored by now: nobody is to be asked again."""


class LeaseSeen(Struct, frozen=True, kw_only=True):
    """A lease as the sweeper sees it: dead when it sees the same one for too long on its own clock."""

    job_id: int
    token: int
    heartbeat: int
    owner: str


class _Taken(Struct, frozen=True, kw_only=True):
    id: int
    token: int
    cache_key: str
    request: bytes
    urgency: Urgency
    deadline_ms: int
    attempts: int
    max_attempts: int


def lease(
    store: Store,
    owner: str,
    now_ms: int,
    *,
    prefer_job_id: int | None = None,
    kinds: Collection[SummaryKind] = ("text", "native", "extract"),
    stopped_workspaces: Collection[str] = (),
) -> Leased | None:
    """The best due job, for this worker alone; None: nothing to do.

    Forced comes before ahead, then the workspace with the fewest leases, then the deadline. `prefer_job_id`
    (the one that a wake-up names) decides between equals.
    """
    row = jobs.c
    can_do = [row.state == "queued", row.not_before_ms <= now_ms, row.kind.in_(kinds)]
    if stopped_workspaces:
        can_do.append(row.workspace.not_in(stopped_workspaces))
    best = _best(can_do, prefer_job_id)
    # A row that somebody writes at this moment is passed over. The one that a wake-up names is worth waiting for:
    # nobody else would come for it soon.
    named = select(row.id).where(row.id == prefer_job_id, *can_do).with_for_update(of=jobs)
    with store.writing() as connection:
        while (
            taken := _take(connection, best, owner, now_ms)
            or (_take(connection, named, owner, now_ms) if prefer_job_id is not None else None)
        ) is not None:
            request = _readable(taken)
            if request is not None:
                return _leased(connection, taken, request)
            reopens = {"not_before_ms": now_ms + UNREADABLE_PAUSE_MS, "attempts": row.attempts - 1}
            reason = "unreadable_request"
            _end(connection, taken.id, taken.token, now_ms, state="failed", reason=reason, **reopens)
    return None


def heartbeat(store: Store, job_id: int, token: int) -> bool:
    """Says that the worker lives. False: the lease is lost, stop."""
    with store.writing() as connection:
        statement = update(jobs).where(*_held(job_id, token)).values(heartbeat=jobs.c.heartbeat + 1)
        return connection.execute(statement).rowcount == 1


def heartbeat_all(store: Store, held: Collection[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """`heartbeat` for many leases (job, token) of one worker in one transaction. Returns those that are still held."""
    row = jobs.c
    alive: set[tuple[int, int]] = set()
    with store.writing() as connection:
        for some in chunks(sorted(held)):
            mine = tuple_(row.id, row.token).in_(some)
            statement = update(jobs).where(mine, row.state == "leased").values(heartbeat=row.heartbeat + 1)
            for job_id, token in connection.execute(statement.returning(row.id, row.token)):
                alive.add((job_id, token))
    return frozenset(alive)


def hand_back(store: Store, job_id: int, token: int, now_ms: int, bill: Bill | None = None) -> bool:
    """Gives a job back unfinished, as at SIGTERM: no attempt is spent. False: the lease was lost before."""
    return _close(store, job_id, token, now_ms, bill, state="queued", attempts=jobs.c.attempts - 1) is not None


def put_off(
    store: Store,
    job_id: int,
    token: int,
    now_ms: int,
    *,
    not_before_ms: int,
    reason: str,
    bill: Bill | None = None,
) -> bool:
    """Queues a job again for later: the provider was not to be asked now, no attempt is spent. False: lease lost."""
    values = {"attempts": jobs.c.attempts - 1, "not_before_ms": not_before_ms, "reason": reason}
    return _close(store, job_id, token, now_ms, bill, state="queued", **values) is not None


def retry_later(
    store: Store,
    job_id: int,
    token: int,
    now_ms: int,
    *,
    not_before_ms: int,
    reason: str,
    bill: Bill | None = None,
) -> JobState | None:
    """Queues a job again for later; without an attempt left it has failed. Its state; None: lease lost."""
    last = jobs.c.attempts >= jobs.c.max_attempts
    return _close(
        store,
        job_id,
        token,
        now_ms,
        bill,
        state=case((last, "failed"), else_="queued"),
        not_before_ms=not_before_ms,
        reason=reason,
    )


def fail(
    store: Store,
    job_id: int,
    token: int,
    now_ms: int,
    *,
    reason: str,
    error_class: str = "",
    reopens_at_ms: int = NEVER_MS,
    bill: Bill | None = None,
) -> bool:
    """Ends a job without a summary; a want from `reopens_at_ms` on opens it again. False: lease lost."""
    values = {"reason": reason, "error_class": error_class, "not_before_ms": reopens_at_ms}
    return _close(store, job_id, token, now_ms, bill, state="failed", **values) is not None


def needs_bodies(store: Store, job_id: int, token: int, now_ms: int, *, reopens_at_ms: int) -> bool:
    """Ends a job whose messages Redis does not have: no attempt is spent, a want opens it again."""
    values = {"reason": "needs_bodies", "attempts": jobs.c.attempts - 1, "not_before_ms": reopens_at_ms}
    return _close(store, job_id, token, now_ms, Bill(), state="failed", **values) is not None


def leases(store: Store) -> tuple[LeaseSeen, ...]:
    """All leases, for the sweeper."""
    row = jobs.c
    query = select(row.id.label("job_id"), row.token, row.heartbeat, row.owner).where(row.state == "leased")
    with store.reading() as connection:
        return all_of(connection, query.order_by(row.id), LeaseSeen)


def expire(store: Store, seen: LeaseSeen, now_ms: int) -> JobState | None:
    """Ends a lease that did not move since it was seen: queued again, or failed without an attempt left.

    Its attempt counts, its reservation is settled at the upper bound. None: it moved after all.
    """
    last = jobs.c.attempts >= jobs.c.max_attempts
    with store.writing() as connection:
        state = _end(
            connection,
            seen.job_id,
            seen.token,
            now_ms,
            jobs.c.heartbeat == seen.heartbeat,
            state=case((last, "failed"), else_="queued"),
            not_before_ms=AT_ONCE_MS,
            reason=LEASE_LOST,
        )
        if state is not None:
            settle(connection, seen.job_id, seen.token, None)
        return state


def finish(connection: Connection, job_id: int, token: int, now_ms: int) -> bool:
    """Marks a leased job done, within the transaction of its commit. False: the lease was lost."""
    return _end(connection, job_id, token, now_ms, state="done", reason="", error_class="") is not None


def _best(can_do: list[ColumnElement[bool]], prefer_job_id: int | None) -> Select[Any]:
    row = jobs.c
    busy = select(row.workspace, func.count().label("leases")).where(row.state == "leased").group_by(row.workspace)
    load = busy.subquery("load")
    order: list[ColumnElement[Any]] = [
        row.urgency.desc(),  # "forced" sorts after "ahead"
        func.coalesce(load.c.leases, 0),
        row.deadline_ms,
    ]
    if prefer_job_id is not None:
        order.append(case((row.id == prefer_job_id, 0), else_=1))
    found = select(row.id).outerjoin(load, load.c.workspace == row.workspace).where(*can_do)
    return found.order_by(*order, row.id).limit(1).with_for_update(of=jobs, skip_locked=True)


def _take(connection: Connection, best: Select[Any], owner: str, now_ms: int) -> _Taken | None:
    row = jobs.c
    chosen: ScalarSelect[Any] = best.scalar_subquery()
    statement = (
        update(jobs)
        .where(row.id == chosen)
        .values(
            state="leased",
            token=row.token + 1,
            attempts=row.attempts + 1,
            heartbeat=0,
            owner=owner,
            updated_at_ms=now_ms,
        )
        .returning(*columns_of(jobs, _Taken))
    )
    rows = all_of(connection, statement, _Taken)
    return rows[0] if rows else None


def _readable(taken: _Taken) -> SummaryRequest | None:
    try:
        request = msgspec.msgpack.decode(taken.request, type=SummaryRequest)
    except msgspec.DecodeError:
        return None
    # Another version's request may decode with a field left out: it would be answered wrongly under this key.
    return request if request.cache_key == taken.cache_key else None


def _leased(connection: Connection, taken: _Taken, request: SummaryRequest) -> Leased:
    return Leased(
        job_id=taken.id,
        token=taken.token,
        request=request,
        urgency=taken.urgency,
        deadline_ms=taken.deadline_ms,
        attempts=taken.attempts,
        max_attempts=taken.max_attempts,
        waiters=waiting_in(connection, request.workspace, request.cache_key),
        found=summary_in(connection, request.workspace, request.cache_key),
    )


def _held(job_id: int, token: int) -> tuple[ColumnElement[bool], ...]:
    return (jobs.c.id == job_id, jobs.c.token == token, jobs.c.state == "leased")


def _close(store: Store, job_id: int, token: int, now_ms: int, bill: Bill | None, **values: Any) -> JobState | None:
    with store.writing(durable=True) as connection:
        state = _end(connection, job_id, token, now_ms, **values)
        settle(connection, job_id, token, bill)
        return state


def _end(
    connection: Connection, job_id: int, token: int, now_ms: int, *also: ColumnElement[bool], **values: Any
) -> JobState | None:
    # Whatever is queued again wants a new wake-up.
    freed = {"owner": "", "sent_at_ms": 0, "updated_at_ms": now_ms}
    statement = update(jobs).where(*_held(job_id, token), *also).values(freed | values).returning(jobs.c.state)
    return connection.scalar(statement)
