"""What Alembic runs for each command: our connection and transaction, our version table, nothing of a file."""

from typing import Any

from alembic import context

from foldahead_worker.store.schema import VERSION_TABLE, metadata

_connection: Any = context.config.attributes["connection"]
context.configure(
    connection=_connection,
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    # SQLite changes a column by making the table anew.
    render_as_batch=_connection.dialect.name == "sqlite",
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
