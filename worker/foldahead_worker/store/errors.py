"""What can go wrong with the database, one class for each thing that can be done about it.

    FoldaheadError
    └── StoreError
        ├── StoreBusy            locked, or no connection free in time: the same call again soon
        ├── DatabaseUnreachable  no server, no such file, refused: start it, or mend the URL
        ├── StoreBroken          disk full, read-only, damaged: a person has to look
        ├── NewerSchema          a newer foldahead made the tables: upgrade this one
        └── OlderSchema          an older foldahead made the tables: `foldahead db upgrade`

No message of these shows a password, a statement's values or a summary.
"""

import sqlite3

from sqlalchemy import exc

from foldahead.errors import FoldaheadError


class StoreError(FoldaheadError):
    """Anything that the store raises on purpose."""


class StoreBusy(StoreError):
    """The database was locked or had no free connection for longer than we wait. Heals: call again."""


class DatabaseUnreachable(StoreError):
    """The database could not be opened, or was lost. The message says what to do."""


class StoreBroken(StoreError):
    """The database cannot be written or read: full, read-only or damaged. Does not heal by waiting."""


class NewerSchema(StoreError):
    """The tables were made by a newer foldahead, which this one must not touch."""


class OlderSchema(StoreError):
    """The tables were made by an older foldahead, and have to be brought up to date first."""


_SQLITE = {
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_CANTOPEN: DatabaseUnreachable,
    sqlite3.SQLITE_FULL: StoreBroken,
    sqlite3.SQLITE_IOERR: StoreBroken,
    sqlite3.SQLITE_READONLY: StoreBroken,
    sqlite3.SQLITE_CORRUPT: StoreBroken,
    sqlite3.SQLITE_NOTADB: StoreBroken,
}
# The first two characters of a SQLSTATE name its class; whole codes come first.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRES = {
    "40001": StoreBusy,  # serialisation failure
    "40P01": StoreBusy,  # deadlock
    "55P03": StoreBusy,  # lock not available in lock_timeout
    "57014": StoreBusy,  # cancelled, as by a statement_timeout
    "53300": StoreBusy,  # too many connections
    "08": DatabaseUnreachable,
    "57": DatabaseUnreachable,  # shutting down, starting up
    "28": DatabaseUnreachable,  # user or password refused
    "3D": DatabaseUnreachable,  # no such database
    "53": StoreBroken,  # disk full, out of memory
    "25": StoreBroken,  # read-only
    "42": StoreBroken,  # no right to, or no such table
    "58": StoreBroken,  # the server's disk failed
    "XX": StoreBroken,  # damaged
}


def translated(error: exc.SQLAlchemyError, where: str) -> StoreError | None:
    """Our error for one of SQLAlchemy's, None where it is a fault of ours. `where` names the database."""
    if isinstance(error, exc.TimeoutError):
        return StoreBusy(f"{where}: no connection became free in time")
    if not isinstance(error, exc.DBAPIError) or error.orig is None:
        return None
    if isinstance(error.orig, sqlite3.Error):
        return _from_sqlite(error.orig, where)
    return _from_postgres(error, where)


def _from_sqlite(error: sqlite3.Error, where: str) -> StoreError | None:
    code = getattr(error, "sqlite_errorcode", None)
    kind = None if code is None else _SQLITE.get(code & 0xFF)  # the low byte: extended codes refine it
    return None if kind is None else kind(f"{where}: {error}{_advice(kind)}")


def _from_postgres(error: exc.DBAPIError, where: str) -> StoreError | None:
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is None:
        # psycopg gives no code when the server never answered; its text names host, port and user only.
        said = str(error.orig).partition("\n")[0]
        away = error.connection_invalidated or isinstance(error, exc.OperationalError)
        return DatabaseUnreachable(f"{where}: {said}{_advice(DatabaseUnreachable)}") if away else None
    kind = _POSTGRES.get(state) or _POSTGRES.get(state[:2])
    # Only the primary message: the detail quotes values.
    said = getattr(getattr(error.orig, "diag", None), "message_primary", None) or f"SQLSTATE {state}"
    return None if kind is None else kind(f"{where}: {said}{_advice(kind)}")


def _advice(kind: type[StoreError]) -> str:
    if kind is DatabaseUnreachable:
        return " (is it running, and is the database URL right?)"
    return " (free some disk, or see its log)" if kind is StoreBroken else ""
