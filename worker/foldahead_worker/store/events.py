"""Events, kept for a while: what happened, for people and dashboards. Operational, no compliance record."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from sqlalchemy import func, select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import all_of, chunks, columns_of, insert_into, values_of
from foldahead_worker.store.schema import events

NEWEST_AMONG = 10_000
"""Events that are looked through for the newest of a kind: no index is kept for that."""


class EventRow(Struct, frozen=True, kw_only=True):
    """One event. `kind` is its name, `json` its payload. `id` is the database's, 0 before it is stored.

    `identity` tells an agent's event from others of its session; what servers report has none.
    """

    id: int = 0
    kind: str
    workspace: str
    session: str
    identity: str | None = None
    json: str
    created_at_ms: int

    @property
    def identity_in_all(self) -> tuple[str, str, str | None]:
        """What tells it from all agents' events."""
        return self.workspace, self.session, self.identity


def append_events(store: Store, rows: Sequence[EventRow]) -> tuple[EventRow, ...]:
    """Appends events that are not there yet, in order, and returns those, with their ids."""
    added: list[EventRow] = []
    for some in chunks(rows):
        with store.writing() as connection:
            insert = insert_into(connection, events).on_conflict_do_nothing()
            new = [{name: value for name, value in values_of(row).items() if name != "id"} for row in some]
            stored = connection.execute(insert.returning(*columns_of(events, EventRow)), new).mappings()
            added.extend(msgspec.convert(row, EventRow) for row in stored)
    return tuple(sorted(added, key=lambda row: row.id))


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


def sessions_told(store: Store, workspace: str, kinds: Sequence[str], since_ms: int) -> dict[str, int]:
    """How many sessions of a workspace have events of these kinds from some time on."""
    row = events.c
    sessions = func.count(row.session.distinct()).label("sessions")
    query = select(row.kind, sessions).where(
        row.workspace == workspace, row.kind.in_(kinds), row.created_at_ms > since_ms
    )
    with store.reading() as connection:
        return {found.kind: found.sessions for found in connection.execute(query.group_by(row.kind))}


def newest_events(store: Store, kinds: Sequence[str], limit: int) -> tuple[EventRow, ...]:
    """The newest events of some kinds, newest first, among the last `NEWEST_AMONG`."""
    row = events.c
    newest = select(func.max(row.id)).scalar_subquery()
    query = select(*columns_of(events, EventRow)).where(row.id > newest - NEWEST_AMONG, row.kind.in_(kinds))
    with store.reading() as connection:
        return all_of(connection, query.order_by(row.id.desc()).limit(limit), EventRow)
