"""The fixtures of tests that use a database, and of agents over a server of their own."""

from collections.abc import Iterator

import pytest

from foldahead import Foldahead
from tests.stores import store, store_url

__all__ = ["store", "store_url"]


@pytest.fixture
def fold(redis_url: str) -> Iterator[Foldahead]:
    """An agent's client."""
    client = Foldahead(redis_url)
    yield client
    client.close()
