"""Events, kept for a while: what happened, for people and dashboards. Operational, no compliance record."""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import func, insert, select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import all_of, chunks, columns_of, values_of
from foldahead_worker.store.schema import events

NEWEST_AMONG = 10_000
"""Events that are looked through for the newest of a kind: no index is kept for that."""


class EventRow(Struct, frozen=True, kw_only=True):
    """One event. `kind` is its name, `json` its payload. `id` is the database's, 0 before it is stored."""

    id: int = 0
    kind: str
    workspace: str
    session: str
    json: str
    created_at_ms: int


def append_events(store: Store, rows: Sequence[EventRow]) -> None:
    """Appends events, in order."""
    for some in chunks(rows):
        with store.writing() as connection:
            new = [{name: value for name, value in values_of(row).items() if name != "id"} for row in some]
            connection.execute(insert(events), new)


def events_after(
    store: Store,
    event_id: int = 0,
    *,
    workspace: str | None = None,
    session: str | None = None,
    limit: int = 1000,
) -> tuple[EventRow, ...]:
    """Events after one that was seen, oldest first; of all workspaces, of one, or of one session."""
    row = events.c
    query = select(*columns_of(events, EventRow)).where(row.id > event_id)
    if workspace is not None:
        query = query.where(row.workspace == workspace)
    if session is not None:
        query = query.where(row.session == session)
    with store.reading() as connection:
        return all_of(connection, query.order_by(row.id).limit(limit), EventRow)


def newest_events(store: Store, kinds: Sequence[str], limit: int) -> tuple[EventRow, ...]:
    """The newest events of some kinds, newest first, among the last `NEWEST_AMONG`."""
    row = events.c
    newest = select(func.max(row.id)).scalar_subquery()
    query = select(*columns_of(events, EventRow)).where(row.id > newest - NEWEST_AMONG, row.kind.in_(kinds))
    with store.reading() as connection:
        return all_of(connection, query.order_by(row.id.desc()).limit(limit), EventRow)
