"""Bringing a database's tables to the version that this foldahead knows, step by step, in one transaction."""

from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from msgspec import Struct

from foldahead_worker.store import migrations
from foldahead_worker.store.engine import connect_store, lock, version_in
from foldahead_worker.store.errors import NewerSchema
from foldahead_worker.store.schema import SCHEMA_VERSION


class SchemaStatus(Struct, frozen=True, kw_only=True):
    """Which version a database's tables are of (0: there are none), and which this foldahead knows."""

    where: str
    version: int
    known: int = SCHEMA_VERSION

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to do."""
        return self.version == self.known


def schema_status(url: str) -> SchemaStatus:
    """The version of a database's tables. Changes nothing. Raises `StoreError`."""
    store = connect_store(url)
    try:
        with store.reading() as connection:
            return SchemaStatus(where=store.where, version=version_in(connection))
    finally:
        store.close()


def upgrade(url: str, more_steps: Sequence[Path] = ()) -> tuple[SchemaStatus, SchemaStatus]:
    """Runs the steps that a database lacks, all or none of them; how it stood before and stands now.

    `more_steps` are folders with further steps. Others that upgrade at the same time wait and find nothing to
    do. Raises `NewerSchema`, and the other errors of `store.errors`.
    """
    config = _config(more_steps)
    newest = int(ScriptDirectory.from_config(config).get_current_head() or 0)
    store = connect_store(url)
    try:
        with store.writing(durable=True) as connection:
            lock(connection, "foldahead schema")
            before = version_in(connection)
            if before > newest:
                raise NewerSchema(
                    f"{store.where}: its tables are of version {before}, this foldahead knows up to {newest}: "
                    "upgrade foldahead here"
                )
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            after = version_in(connection)
    finally:
        store.close()
    return (
        SchemaStatus(where=store.where, version=before, known=newest),
        SchemaStatus(where=store.where, version=after, known=newest),
    )


def _config(more_steps: Sequence[Path]) -> Config:
    room = Path(migrations.__file__).parent
    config = Config()
    config.set_main_option("script_location", str(room).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    steps = [room / "versions", *more_steps]
    config.set_main_option("version_locations", ":".join(map(str, steps)).replace("%", "%%"))
    return config
