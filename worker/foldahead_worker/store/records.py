"""Records as agents reported them, byte for byte: with the history they give every view again."""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import chunks, insert_into, values_of
from foldahead_worker.store.schema import records


class RecordRow(Struct, frozen=True, kw_only=True):
    """One record. `identity` tells it from others of its session; `json` is not read: it may be newer.

    `place` orders the records of a session: Redis gave it, whoever stores it and whenever.
    """

    workspace: str
    session: str
    identity: str
    json: bytes
    place: int = 0


def append_records(store: Store, rows: Sequence[RecordRow]) -> int:
    """Appends records that are not there yet, in order, and says how many that were."""
    added = 0
    for some in chunks(rows):
        with store.writing(durable=True) as connection:
            insert = insert_into(connection, records).on_conflict_do_nothing().returning(records.c.seq)
            # By session, so that two batches never wait for each other.
            ordered = sorted(some, key=lambda row: (row.workspace, row.session))
            added += len(connection.execute(insert, [values_of(row) for row in ordered]).all())
    return added


def records_of(store: Store, workspace: str, session: str) -> tuple[bytes, ...]:
    """A session's records, JSON, oldest first."""
    return tuple(json for _, json in placed_records_of(store, workspace, session))


def placed_records_of(store: Store, workspace: str, session: str) -> tuple[tuple[int, bytes], ...]:
    """A session's records with their places, oldest first."""
    row = records.c
    of_session = (row.workspace == workspace, row.session == session)
    query = select(row.place, row.json).where(*of_session).order_by(row.place, row.seq)
    with store.reading() as connection:
        return tuple((found.place, found.json) for found in connection.execute(query))
