"""Sessions: how each stood when last heard of, for a restore; and what goes with one that closes."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, exists, or_, select, update

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import chunks, columns_of, insert_into, keyed, one_of, values_of
from foldahead_worker.store.schema import events, jobs, records, sessions, spend, summaries, waiters


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session's last `Standing` as it came over the wire, and the cache key of what its view shows."""

    workspace: str
    session: str
    standing: bytes
    shown: str = ""
    cache_max_rows: int = 0
    """Summaries that it wants kept in its workspace; 0 leaves that to the servers."""
    last_seen_ms: int


def save_sessions(store: Store, rows: Sequence[SessionRow]) -> None:
    """Keeps how sessions stand, the newest of each. What a session no longer shows may be evicted then."""
    newest = {(row.workspace, row.session): row for row in sorted(rows, key=lambda row: row.last_seen_ms)}
    for some in chunks([newest[name] for name in sorted(newest)]):
        with store.writing() as connection:
            _upsert(connection, some)
            _follow_shown(connection, some)


def load_session(store: Store, workspace: str, session: str) -> SessionRow | None:
    """How a session stood when it was last saved."""
    query = select(*columns_of(sessions, SessionRow)).where(*_of_session(sessions, workspace, session))
    with store.reading() as connection:
        return one_of(connection, query, SessionRow)


def close_session(store: Store, workspace: str, session: str, now_ms: int) -> None:
    """The session waits for nothing any more; queued jobs that nobody else waits for are cancelled."""
    with store.writing() as connection:
        keys = _asked_keys(connection, workspace, session)
        still = (*_of_session(waiters, workspace, session), waiters.c.state == "waiting")
        connection.execute(update(waiters).where(*still).values(state="given_up"))
        for some in chunks(keys):
            alone = (keyed(jobs, some), jobs.c.state == "queued", ~_someone_waits())
            cancelled = {
                "state": "failed",
                "reason": "cancelled",
                "not_before_ms": now_ms,
                "updated_at_ms": now_ms,
            }
            connection.execute(update(jobs).where(*alone).values(cancelled))


def forget_session(store: Store, workspace: str, session: str, before_place: int | None = None) -> None:
    """Deletes what is this session's alone, summaries that no other session asked for among it.

    Records from `before_place` on stay: they are of a session that has taken the name since. A job under way goes on
    until its worker asks `job_still_wanted`; its answer is not kept. Spend stays, nameless.
    """
    with store.writing(durable=True) as connection:
        keys = _asked_keys(connection, workspace, session)
        connection.execute(delete(waiters).where(*_of_session(waiters, workspace, session)))
        old = () if before_place is None else (records.c.place < before_place,)
        connection.execute(delete(records).where(*_of_session(records, workspace, session), *old))
        for table in (events, sessions):
            connection.execute(delete(table).where(*_of_session(table, workspace, session)))
        connection.execute(update(spend).where(*_of_session(spend, workspace, session)).values(session=""))
        for some in chunks(keys):
            unasked = ~exists().where(*_same_key(waiters, summaries))
            unshown = ~exists().where(
                sessions.c.workspace == summaries.c.workspace, sessions.c.shown == summaries.c.cache_key
            )
            connection.execute(delete(summaries).where(keyed(summaries, some), unasked, unshown))
            connection.execute(delete(jobs).where(keyed(jobs, some), jobs.c.state != "leased", ~_someone_waits()))


def _upsert(connection: Connection, rows: Sequence[SessionRow]) -> None:
    insert = insert_into(connection, sessions)
    new = {name: insert.excluded[name] for name in ("standing", "shown", "cache_max_rows", "last_seen_ms")}
    upsert = insert.on_conflict_do_update(
        index_elements=["workspace", "session"],
        set_=new,
        where=sessions.c.last_seen_ms <= insert.excluded.last_seen_ms,
    )
    connection.execute(upsert, [values_of(row) for row in rows])


def _follow_shown(connection: Connection, rows: Sequence[SessionRow]) -> None:
    """Marks what each session shows, and gives up what it showed before and what lies behind.

    What is shown without a waiter is an `extract` that the agent made: a better summary of less still
    heals it.
    """
    of_session = (
        waiters.c.workspace == bindparam("of_workspace"),
        waiters.c.session == bindparam("of_session"),
    )
    is_shown = waiters.c.cache_key == bindparam("of_shown")
    newer = waiters.alias("newer")
    passed = exists().where(
        newer.c.workspace == waiters.c.workspace,
        newer.c.session == waiters.c.session,
        newer.c.cache_key == bindparam("of_shown"),
        newer.c.end >= waiters.c.end,
    )
    over = or_(waiters.c.state == "shown", and_(waiters.c.state == "ready", passed))
    named = [{"of_workspace": row.workspace, "of_session": row.session, "of_shown": row.shown} for row in rows]
    mark_shown = update(waiters).where(*of_session, is_shown, waiters.c.state != "shown").values(state="shown")
    give_up = update(waiters).where(*of_session, ~is_shown, over).values(state="given_up")
    connection.execute(mark_shown, named)
    connection.execute(give_up, named)


def _asked_keys(connection: Connection, workspace: str, session: str) -> list[tuple[str, str]]:
    """Keys that a session ever asked for; their jobs are locked, in the order in which a want locks them."""
    query = select(waiters.c.cache_key).where(*_of_session(waiters, workspace, session))
    keys = sorted((workspace, key) for key in connection.scalars(query))
    for some in chunks(keys):
        locked = select(jobs.c.id).where(keyed(jobs, some)).order_by(jobs.c.workspace, jobs.c.cache_key)
        connection.execute(locked.with_for_update()).all()
    return keys


def _someone_waits() -> ColumnElement[bool]:
    return exists().where(*_same_key(waiters, jobs), waiters.c.state == "waiting")


def _same_key(table: Any, other: Any) -> tuple[ColumnElement[bool], ...]:
    return (table.c.workspace == other.c.workspace, table.c.cache_key == other.c.cache_key)


def _of_session(table: Any, workspace: str, session: str) -> tuple[ColumnElement[bool], ...]:
    return (table.c.workspace == workspace, table.c.session == session)
