"""Which database a run of tests is on: SQLite, or with `--database postgres` a real PostgreSQL for all of them.

Tests ask for `database_url`, or for `databases` where they make one for longer than a test. Those that look at both
kinds ask for `store_url` (tests/stores.py).
"""

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.servers import new_database

KINDS = ("sqlite", "postgres")
NewDatabase = Callable[[Path], AbstractContextManager[str]]
"""The URL of a new, empty database until the block ends; a SQLite file is made in the folder."""
_ASKED_FOR = {"databases", "store_url", "postgres_server"}
_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=KINDS,
        default="sqlite",
        help="what `databases` makes; with postgres, only the tests that use a database run",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A run on PostgreSQL leaves out what would be the same on SQLite."""
    if config.getoption("--database") == "sqlite":
        return
    left_out = [item for item in items if not _runs_on_postgres(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if _runs_on_postgres(item)]


def _runs_on_postgres(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not _ASKED_FOR & set(item.fixturenames):
        return False
    asked = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return "sqlite" not in asked


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> NewDatabase:
    """Makes databases of the kind that this run is on."""
    return databases_of_kind(str(request.config.getoption("--database")), request)


def databases_of_kind(kind: str, request: pytest.FixtureRequest) -> NewDatabase:
    """Makes databases of a kind; a PostgreSQL server is started at the first need."""
    if kind == "sqlite":
        return _new_file
    server: str = request.getfixturevalue("postgres_server")
    return lambda _: new_database(server)


@contextmanager
def _new_file(folder: Path) -> Generator[str]:
    yield f"sqlite:///{folder}/foldahead-{next(_numbers)}.db"


@pytest.fixture
def database_url(databases: NewDatabase, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    with databases(tmp_path) as url:
        yield url
