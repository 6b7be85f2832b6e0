"""The one door to the database: short transactions on SQLite (a file, WAL) or PostgreSQL, chosen by URL."""

import hashlib
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc, func, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import ConnectionPoolEntry

from foldahead_worker.store import schema
from foldahead_worker.store.errors import DatabaseUnreachable, NewerSchema, OlderSchema, translated

POOL_SIZE = 4
"""Few on purpose: 100 threads on 4 connections waited 9 ms at the 99th percentile, on 100 of them 130 ms."""
BUSY_TIMEOUT_S = 5.0
_POOL_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5
_TO_WAL = "PRAGMA journal_mode=WAL"
_WRITES = "foldahead_writes"
_DURABLE = "foldahead_durable"


class Store:
    """An open database. The functions of this package take it first; threads of a process share one."""

    def __init__(self, engine: Engine, where: str) -> None:
        self.engine = engine
        self.where = where
        """The database's name for people, without user and password."""
        self._writer = engine.execution_options(**{_WRITES: True})
        self._durable_writer = engine.execution_options(**{_WRITES: True, _DURABLE: True})

    @contextmanager
    def reading(self) -> Generator[Connection, None, None]:
        """A transaction that only reads. Raises the errors of `store.errors`."""
        with _our_errors(self.where), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, durable: bool = False) -> Generator[Connection, None, None]:
        """A transaction that may write; on SQLite it holds the write lock from its start.

        `durable`: it outlives a power cut. What was paid for and what cannot be asked for again has to; a
        lease need not, and a disk takes milliseconds for each such promise. PostgreSQL always gives it.
        """
        writer = self._durable_writer if durable else self._writer
        with _our_errors(self.where), writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Gives all connections back. The store opens new ones when it is used again."""
        self.engine.dispose()


def open_store(url: str, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Store:
    """Opens the database and makes its tables where there are none.

    `url` is `sqlite:////absolute/path.db` or `postgresql://user:password@host/name`. Raises
    `DatabaseUnreachable` (wrong URL, no server), `NewerSchema`, `OlderSchema`, and the other errors of
    `store.errors`. Tables of an older version are left alone: `store.upgrading` brings them up to date.
    """
    store = connect_store(url, busy_timeout_s)
    try:
        _make_tables(store)
    except BaseException:
        store.close()
        raise
    return store


def connect_store(url: str, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Store:
    """A store whose tables were not looked at. Raises `DatabaseUnreachable` for a wrong URL; does not connect."""
    parsed = _parsed(url)
    where = _where(parsed)
    options = _sqlite_options(busy_timeout_s) if _is_sqlite(parsed) else _postgres_options(busy_timeout_s)
    engine = create_engine(parsed, pool_timeout=_POOL_TIMEOUT_S, hide_parameters=True, **options)
    if _is_sqlite(parsed):
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return Store(engine, where)


def version_in(connection: Connection) -> int:
    """Which version the tables of a database are of; 0 where there are none."""
    if not inspect(connection).has_table(schema.VERSION_TABLE):
        return 0
    found = connection.scalar(select(func.max(schema.schema_version.c.version_num)))
    return int(found) if found else 0


def lock(connection: Connection, name: str) -> None:
    """Holds back others that lock the same name until this transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True)
        connection.execute(select(func.pg_advisory_xact_lock(number)))


@contextmanager
def _our_errors(where: str) -> Generator[None, None, None]:
    try:
        yield
    except exc.SQLAlchemyError as error:
        ours = translated(error, where)
        if ours is None:
            raise
        raise ours from error


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        # `from None`: the cause may quote the URL, password and all.
        raise DatabaseUnreachable(f"the database URL cannot be read: {_EXPECTED}") from None
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if not _is_sqlite(parsed):
        raise DatabaseUnreachable(f"{parsed.drivername}: no such database here: {_EXPECTED}")
    if parsed.database in (None, "", ":memory:"):
        raise DatabaseUnreachable(f"{parsed.drivername}: a file is needed, other processes read it: {_EXPECTED}")
    return parsed


_EXPECTED = "expected sqlite:////absolute/path.db or postgresql://user:password@host:5432/name"


def _is_sqlite(url: URL) -> bool:
    return url.drivername in ("sqlite", "sqlite+pysqlite")


def _where(url: URL) -> str:
    """Kind, host and name of the database: neither user nor password nor query, which may hold one too."""
    if _is_sqlite(url):
        return f"SQLite {url.database}"
    return f"PostgreSQL {url.host or 'local socket'}{f':{url.port}' if url.port else ''}/{url.database or ''}"


def _sqlite_options(busy_timeout_s: float) -> dict[str, Any]:
    return {"connect_args": {"timeout": busy_timeout_s}, "pool_size": POOL_SIZE, "max_overflow": 0}


def _postgres_options(busy_timeout_s: float) -> dict[str, Any]:
    arguments = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "options": f"-c lock_timeout={int(busy_timeout_s * 1000)}",
    }
    return {
        "connect_args": arguments,
        "pool_size": POOL_SIZE,
        "max_overflow": POOL_SIZE,
        "pool_pre_ping": True,
    }


def _set_up_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # we begin transactions, not the driver
    try:
        connection.execute(_TO_WAL)
    except sqlite3.OperationalError:
        # Of two that open a new file side by side, SQLite refuses one without waiting, whatever the timeout.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        connection.execute(_TO_WAL)


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get(_WRITES, False):
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if options.get(_DURABLE, False) else 'NORMAL'}")
    # IMMEDIATE: a reader that turns writer fails at once when another wrote meanwhile, whatever the timeout.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _make_tables(store: Store) -> None:
    with store.writing() as connection:
        lock(connection, "foldahead schema")
        version = version_in(connection)
        if version == 0:
            schema.metadata.create_all(connection)
            schema.schema_version.create(connection, checkfirst=True)
            connection.execute(insert(schema.schema_version), {"version_num": f"{schema.SCHEMA_VERSION:04}"})
        elif version < schema.SCHEMA_VERSION:
            raise OlderSchema(
                f"{store.where}: its tables are of version {version}, this foldahead needs {schema.SCHEMA_VERSION}: "
                "stop watchers and workers, then run `foldahead db upgrade`"
            )
        elif version > schema.SCHEMA_VERSION:
            raise NewerSchema(
                f"{store.where}: its tables are of version {version}, this foldahead knows up to "
                f"{schema.SCHEMA_VERSION}: upgrade foldahead here"
            )
