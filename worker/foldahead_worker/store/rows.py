"""Rows to structs and back: a struct's fields bear the names of its table's columns."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import Executable

Kind = TypeVar("Kind", bound=Struct)
Item = TypeVar("Item")
Insert = sqlite.Insert | postgresql.Insert
CHUNK = 500
"""Rows named by one statement; SQLite takes 32,766 values at most."""


def columns_of(table: Table, kind: type[Struct]) -> list[ColumnElement[Any]]:
    """The columns of a table that make such a struct."""
    return [table.c[name] for name in kind.__struct_fields__]


def all_of(connection: Connection, query: Executable, kind: type[Kind]) -> tuple[Kind, ...]:
    """The rows that a query gives, as structs."""
    return tuple(msgspec.convert(row, kind) for row in connection.execute(query).mappings())


def one_of(connection: Connection, query: Executable, kind: type[Kind]) -> Kind | None:
    """The first row that a query gives, as a struct."""
    row = connection.execute(query).mappings().first()
    return None if row is None else msgspec.convert(row, kind)


def values_of(value: Struct) -> dict[str, Any]:
    """A struct's fields, for an insert."""
    return msgspec.structs.asdict(value)


def insert_into(connection: Connection, table: Table) -> Insert:
    """An insert that knows ON CONFLICT, in this connection's dialect."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def keyed(table: Table, keys: Iterable[tuple[str, str]]) -> ColumnElement[bool]:
    """Rows whose (workspace, cache_key) is one of some."""
    return tuple_(table.c.workspace, table.c.cache_key).in_(list(keys))


def chunks(items: Sequence[Item]) -> Iterable[Sequence[Item]]:
    """A sequence in pieces that one statement can name."""
    return (items[at : at + CHUNK] for at in range(0, len(items), CHUNK))
