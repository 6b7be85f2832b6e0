"""`foldahead db`: the version of the database's tables."""

import sys

import typer

from foldahead_worker.settings import read_settings

db = typer.Typer(name="db", help="The database's tables: which version they are of, and bring them up to date.")


@db.command()
def status() -> None:
    """Say which version the tables are of. Changes nothing. Exit status 1: there is something to do.

    FOLDAHEAD_DATABASE_URL=postgresql://foldahead@localhost/foldahead foldahead db status
    """
    from foldahead_worker.store.upgrading import schema_status

    found = schema_status(read_settings().database_url)
    if found.is_current:
        sys.stdout.write(f"{found.where}: version {found.version}, up to date\n")
        return
    what = f"version {found.version}" if found.version else "no tables yet"
    how = "run `foldahead db upgrade`" if found.version < found.known else "upgrade foldahead here"
    sys.stdout.write(f"{found.where}: {what}, this foldahead knows version {found.known}: {how}\n")
    raise typer.Exit(1)


@db.command()
def upgrade() -> None:
    """Bring the tables up to date: all steps that they lack, or none of them.

    Stop watchers and workers of the older version first, and keep a backup. From an empty database this makes the
    tables; watchers and workers do that by themselves too.
    """
    from foldahead_worker.store.upgrading import upgrade as upgrade_tables

    before, after = upgrade_tables(read_settings().database_url)
    if before.version == after.version:
        sys.stdout.write(f"{after.where}: version {after.version}, up to date already\n")
    else:
        sys.stdout.write(f"{after.where}: from version {before.version} to {after.version}\n")
