"""Money: a reservation before each paid call, and what was billed for it. Integer picodollars.

One row per (job, fencing token). Until it is settled, a reservation counts as spent.
"""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, Connection, cast, func, select, update

from foldahead.core.request import SummaryKind
from foldahead_worker.store.engine import Store, lock
from foldahead_worker.store.rows import all_of, insert_into
from foldahead_worker.store.schema import jobs, spend, waiters


class Bill(Struct, frozen=True, kw_only=True):
    """What the calls of one lease cost. `Bill()`: nothing."""

    picodollars: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Reserved(Struct, frozen=True, kw_only=True):
    """Whether a call may be made. `over_budget` and granted: a forced call that runs anyway."""

    granted: bool
    over_budget: bool
    session: str
    """Who pays: the first that waited."""
    spent_picodollars: int
    """By the session, before this."""


class SpendRow(Struct, frozen=True, kw_only=True):
    """Spend of one session on one model and kind."""

    workspace: str
    session: str
    model: str
    kind: SummaryKind
    leases: int
    picodollars: int
    input_tokens: int
    output_tokens: int


class _Payer(Struct, frozen=True, kw_only=True):
    workspace: str
    model: str
    kind: SummaryKind
    urgency: str
    session: str
    budget_picodollars: int


def day_of(now_ms: int) -> str:
    """The UTC day of a moment, as in 2026-11-29."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()


def reserve(
    store: Store,
    job_id: int,
    token: int,
    upper_picodollars: int,
    now_ms: int,
    day_budget_picodollars: int | None = None,
) -> Reserved | None:
    """Reserves the most that a call can cost; a second call of a lease adds to the first. None: lease lost.

    Not granted when the payer's budget, or that of its workspace for the day (None: no limit), does not cover it,
    unless the job is forced.
    """
    with store.writing(durable=True) as connection:
        payer = _payer(connection, job_id, token)
        if payer is None:
            return None
        # Two jobs of one payer may be reserved at once; the wider lock comes first.
        over_day = False
        if day_budget_picodollars is not None:
            lock(connection, f"foldahead spend {payer.workspace}")
            today = (spend.c.workspace == payer.workspace, spend.c.day == day_of(now_ms))
            over_day = _sum(connection, *today) + upper_picodollars > day_budget_picodollars
        lock(connection, f"foldahead spend {payer.workspace}/{payer.session}")
        spent = _sum(connection, spend.c.workspace == payer.workspace, spend.c.session == payer.session)
        over = over_day or spent + upper_picodollars > payer.budget_picodollars
        granted = not over or payer.urgency == "forced"
        if granted:
            _reserve(connection, job_id, token, payer, upper_picodollars, now_ms)
        return Reserved(granted=granted, over_budget=over, session=payer.session, spent_picodollars=spent)


def settle(connection: Connection, job_id: int, token: int, bill: Bill | None) -> None:
    """Settles what a lease reserved, within the transaction that ends it.

    None: nobody knows what was billed, so the upper bound stands; a bill that comes late takes its place.
    """
    row = spend.c
    values: dict[str, Any] = {"settled_picodollars": func.coalesce(row.settled_picodollars, row.reserved_picodollars)}
    if bill is not None:
        values = {
            "settled_picodollars": bill.picodollars,
            "input_tokens": bill.input_tokens,
            "output_tokens": bill.output_tokens,
        }
    connection.execute(update(spend).where(row.job_id == job_id, row.token == token).values(values))


def spent_by_session(store: Store, workspace: str, session: str) -> int:
    """Picodollars that a session spent and has reserved."""
    with store.reading() as connection:
        return _sum(connection, spend.c.workspace == workspace, spend.c.session == session)


def spent_on(store: Store, day: str) -> int:
    """Picodollars that all workspaces spent and have reserved on a day (`day_of`)."""
    with store.reading() as connection:
        return _sum(connection, spend.c.day == day)


def spend_rows(
    store: Store, workspace: str | None = None, since_day: str = "", session: str | None = None
) -> tuple[SpendRow, ...]:
    """Spend by workspace, session, model and kind, the dearest first."""
    row = spend.c
    by = (row.workspace, row.session, row.model, row.kind)
    total = _total().label("picodollars")
    query = select(
        *by,
        func.count().label("leases"),
        total,
        func.sum(row.input_tokens).label("input_tokens"),
        func.sum(row.output_tokens).label("output_tokens"),
    ).where(row.day >= since_day)
    if workspace is not None:
        query = query.where(row.workspace == workspace)
    if session is not None:
        query = query.where(row.session == session)
    with store.reading() as connection:
        return all_of(connection, query.group_by(*by).order_by(total.desc(), *by), SpendRow)


def _payer(connection: Connection, job_id: int, token: int) -> _Payer | None:
    row = jobs.c
    same = (waiters.c.workspace == row.workspace) & (waiters.c.cache_key == row.cache_key)
    query = (
        select(
            row.workspace,
            row.model,
            row.kind,
            row.urgency,
            func.coalesce(waiters.c.session, "").label("session"),
            func.coalesce(waiters.c.budget_picodollars, 0).label("budget_picodollars"),
        )
        .outerjoin(waiters, same & (waiters.c.state == "waiting"))
        .where(row.id == job_id, row.token == token, row.state == "leased")
        .order_by(waiters.c.created_at_ms, waiters.c.session)
        .limit(1)
    )
    return next(iter(all_of(connection, query, _Payer)), None)


def _reserve(
    connection: Connection, job_id: int, token: int, payer: _Payer, upper_picodollars: int, now_ms: int
) -> None:
    insert = insert_into(connection, spend).values(
        job_id=job_id,
        token=token,
        workspace=payer.workspace,
        session=payer.session,
        model=payer.model,
        kind=payer.kind,
        reserved_picodollars=upper_picodollars,
        settled_picodollars=None,
        input_tokens=0,
        output_tokens=0,
        day=day_of(now_ms),
        created_at_ms=now_ms,
    )
    more = {"reserved_picodollars": spend.c.reserved_picodollars + upper_picodollars}
    connection.execute(insert.on_conflict_do_update(index_elements=["job_id", "token"], set_=more))


def _total() -> ColumnElement[Any]:
    # Cast: PostgreSQL's sum of big integers is a decimal.
    return cast(func.sum(func.coalesce(spend.c.settled_picodollars, spend.c.reserved_picodollars)), BigInteger)


def _sum(connection: Connection, *where: ColumnElement[bool]) -> int:
    return connection.scalar(select(_total()).where(*where)) or 0
