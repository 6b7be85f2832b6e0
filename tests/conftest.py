"""The fixtures that every test may ask for, and the options of a run."""

from collections.abc import Generator

import pytest

from foldahead_worker.lasting import made_to_last
from tests import hypothesis_profiles
from tests.databases import database_url, databases, pytest_addoption, pytest_collection_modifyitems
from tests.servers import postgres_server, postgres_url, redis_server, redis_url

__all__ = [
    "database_url",
    "databases",
    "hypothesis_profiles",
    "postgres_server",
    "postgres_url",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "redis_server",
    "redis_url",
]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and what they import stay to the end: the collector need not look through them again."""
    with made_to_last():
        return (yield)
