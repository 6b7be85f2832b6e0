"""Opening a database, and the errors that say what to do about it."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, event, make_url, update

from foldahead_worker.store import DatabaseUnreachable, NewerSchema, StoreBroken, StoreBusy, open_store
from foldahead_worker.store.jobs import want, want_batch
from foldahead_worker.store.schema import SCHEMA_VERSION, schema_version
from foldahead_worker.store.status import status
from foldahead_worker.store.summaries import find_summary
from tests.stores import NOW_MS, a_want, summarised


def test_an_opened_store_is_found_as_it_was_left(store_url):
    first = open_store(store_url)
    key = summarised(first, a_want()).waiters[0].cache_key
    first.close()
    second = open_store(store_url)
    assert find_summary(second, "acme", key)
    second.close()


def test_eight_processes_may_open_an_empty_database_at_once(store_url):
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(open_store, [store_url] * 8))
    assert {status(opened, NOW_MS).queued for opened in stores} == {0}
    for opened in stores:
        opened.close()


def test_a_new_file_that_another_process_is_making_is_waited_for(tmp_path: Path):
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_store, f"sqlite:///{tmp_path / 'a.db'}")
        with pytest.raises(TimeoutError):
            opening.result(timeout=0.1)
        other.execute("COMMIT")
        other.close()
        opening.result(timeout=5).close()


def test_tables_of_a_newer_version_are_refused_in_words(store, store_url):
    with store.writing() as connection:
        connection.execute(update(schema_version).values(version_num=f"{SCHEMA_VERSION + 1:04}"))
    with pytest.raises(NewerSchema, match=f"version {SCHEMA_VERSION + 1}.*upgrade"):
        open_store(store_url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("not a url with secret", "cannot be read"),
        ("mysql://u:secret@host/db", "mysql: no such database here"),
        ("sqlite://", "a file is needed"),
        ("sqlite:////nowhere/at/all/foldahead.db", "unable to open.*is it running"),
        ("postgresql://u:secret@127.0.0.1:1/db?password=secret", "127.0.0.1:1/db.*is it running"),
    ],
)
def test_what_cannot_be_opened_is_said_without_the_password(url, says):
    with pytest.raises(DatabaseUnreachable, match=says) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_a_database_that_the_server_does_not_have_is_unreachable(postgres_url):
    missing = make_url(postgres_url).set(database="no_such_database").render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnreachable, match='database "no_such_database" does not exist'):
        open_store(missing)


def test_a_lock_that_is_held_too_long_is_busy_and_heals(tmp_path: Path):
    store = open_store(f"sqlite:///{tmp_path / 'a.db'}", busy_timeout_s=0.02)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=r"a\.db: database is locked"):
        want(store, a_want(), NOW_MS)
    other.execute("ROLLBACK")
    other.close()
    assert want(store, a_want(), NOW_MS).opened
    store.close()


def test_a_row_lock_that_is_held_too_long_is_busy_on_postgres(postgres_url):
    store = open_store(postgres_url, busy_timeout_s=0.02)
    job_id = want(store, a_want(), NOW_MS).job_id
    with store.writing() as connection:
        connection.exec_driver_sql(f"SELECT 1 FROM jobs WHERE id = {job_id} FOR UPDATE")
        with pytest.raises(StoreBusy, match="lock timeout"):
            want(store, a_want(), NOW_MS)
    store.close()


def test_a_full_disk_is_broken_and_keeps_what_was_stored(tmp_path: Path):
    store = open_store(f"sqlite:///{tmp_path / 'a.db'}")
    want(store, a_want(-1), NOW_MS)
    # SQLite's own limit: it answers with the error of a full disk.
    event.listen(store.engine, "connect", lambda connection, _entry: connection.execute("PRAGMA max_page_count=60"))
    store.close()
    with pytest.raises(StoreBroken, match=r"full.*free some disk"):
        want_batch(store, [a_want(n) for n in range(500)], NOW_MS)
    assert status(store, NOW_MS).queued == 1
    store.close()


def test_a_file_that_is_no_database_is_broken(tmp_path: Path):
    (tmp_path / "a.db").write_text("a shopping list, and a long one at that " * 100)
    with pytest.raises(StoreBroken, match="not a database"):
        open_store(f"sqlite:///{tmp_path / 'a.db'}")


def test_a_store_goes_on_after_the_server_dropped_its_connections(postgres_url):
    store = open_store(postgres_url)
    other = create_engine(postgres_url, poolclass=NullPool)
    with other.connect() as connection:
        mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        assert connection.exec_driver_sql(f"{mine} AND datname = current_database()").rowcount > 0
    assert want(store, a_want(), NOW_MS).opened
    store.close()
