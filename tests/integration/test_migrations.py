"""The database's tables: from empty, and from the version before with all that is in them."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, update

from foldahead_worker.store import NewerSchema, OlderSchema, Store, open_store
from foldahead_worker.store.engine import connect_store
from foldahead_worker.store.schema import SCHEMA_VERSION, VERSION_TABLE, metadata, schema_version
from foldahead_worker.store.summaries import find_summary
from foldahead_worker.store.upgrading import schema_status, upgrade
from tests.stores import a_want, summarised

NEXT = SCHEMA_VERSION + 1
STEP = f'''
    """A column with a value that is worked out from the others."""
    import sqlalchemy as sa
    from alembic import op

    revision, down_revision, branch_labels, depends_on = "{NEXT:04}", "{SCHEMA_VERSION:04}", None, None

    def upgrade() -> None:
        op.add_column("summaries", sa.Column("characters", sa.Integer(), nullable=True))
        op.execute("UPDATE summaries SET characters = length(summary_text)")
        with op.batch_alter_table("summaries") as table:
            table.alter_column("characters", nullable=False, existing_type=sa.Integer())
'''
BROKEN_STEP = STEP + '        op.execute("SELECT no_such_function()")\n'


def step_in(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / f"{NEXT:04}_next.py").write_text(textwrap.dedent(text))
    return folder


@pytest.fixture
def bare(store_url: str) -> Iterator[Store]:
    """A database that nobody made tables in."""
    store = connect_store(store_url)
    yield store
    store.close()


def characters_of(store: Store, key: str) -> int | None:
    with store.reading() as connection:
        query = "SELECT characters FROM summaries WHERE cache_key = %(key)s"
        if connection.dialect.name == "sqlite":
            query = query.replace("%(key)s", ":key")
        return connection.exec_driver_sql(query, {"key": key}).scalar()


def test_all_steps_from_an_empty_database_give_the_tables_that_the_code_uses(store_url: str, bare: Store) -> None:
    before, after = upgrade(store_url)
    assert (before.version, after.version) == (0, SCHEMA_VERSION)
    with bare.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_tables_made_by_opening_are_those_that_the_steps_make(store_url: str, store: Store) -> None:
    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    assert schema_status(store_url).is_current
    assert upgrade(store_url)[0].version == SCHEMA_VERSION


def test_a_new_step_keeps_what_is_in_the_tables(store_url: str, store: Store, tmp_path: Path) -> None:
    key = summarised(store, a_want(), text="blue").waiters[0].cache_key
    store.close()
    before, after = upgrade(store_url, [step_in(tmp_path / "steps", STEP)])
    assert (before.version, after.version) == (SCHEMA_VERSION, NEXT)
    found = find_summary(store, "acme", key)
    assert found is not None
    assert found.summary_text == "blue"
    assert characters_of(store, key) == 4


def test_a_step_that_fails_changes_nothing(store_url: str, store: Store, tmp_path: Path) -> None:
    summarised(store, a_want())
    store.close()
    with pytest.raises(Exception, match="no_such_function"):
        upgrade(store_url, [step_in(tmp_path / "steps", BROKEN_STEP)])
    assert schema_status(store_url).version == SCHEMA_VERSION
    with store.reading() as connection:
        assert "characters" not in {column["name"] for column in inspect(connection).get_columns("summaries")}


def test_eight_that_upgrade_at_once_make_each_step_once(store_url: str, bare: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(upgrade, [store_url] * 8))
    assert sorted(before.version for before, _ in ends) == [0, *[SCHEMA_VERSION] * 7]


def test_a_foldahead_that_is_older_than_the_tables_touches_nothing(
    store_url: str, store: Store, tmp_path: Path
) -> None:
    store.close()
    upgrade(store_url, [step_in(tmp_path / "steps", STEP)])
    with pytest.raises(NewerSchema, match=f"version {NEXT}.*upgrade foldahead"):
        open_store(store_url)
    with pytest.raises(NewerSchema, match=f"version {NEXT}.*upgrade foldahead"):
        upgrade(store_url)


def test_tables_of_an_older_version_are_not_opened_and_the_command_is_named(store_url: str, store: Store) -> None:
    with store.writing() as connection:
        connection.execute(update(schema_version).values(version_num="-001"))
    with pytest.raises(OlderSchema, match="foldahead db upgrade"):
        open_store(store_url)


def test_asking_for_the_version_changes_nothing(store_url: str, bare: Store) -> None:
    assert schema_status(store_url).version == 0
    with bare.reading() as connection:
        assert inspect(connection).get_table_names() == []


def foldahead_db(command: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foldahead_worker.cli", "db", command],
        env=os.environ | {"FOLDAHEAD_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_says_what_is_to_be_done_and_does_it(store_url: str, bare: Store) -> None:
    before = foldahead_db("status", store_url)
    assert before.returncode == 1
    assert "no tables yet" in before.stdout
    assert "foldahead db upgrade" in before.stdout
    assert f"from version 0 to {SCHEMA_VERSION}" in foldahead_db("upgrade", store_url).stdout
    after = foldahead_db("status", store_url)
    assert (after.returncode, "up to date" in after.stdout) == (0, True)
