"""A Redis with the function library, and links to it."""

import socket
from collections.abc import Callable, Iterator

import pytest
import redis

from foldahead.link import Link
from foldahead_worker.embedded.redis_server import EmbeddedRedis
from foldahead_worker.switchboard import Switchboard
from tests.integration.redis_room.calling import redis_with_library, server_with_library


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis_with_library(redis_url) as client:
        yield client


@pytest.fixture
def switchboard(client: "redis.Redis") -> Switchboard:
    return Switchboard(client)


@pytest.fixture
def open_link(redis_url: str) -> Iterator[Callable[..., Link]]:
    """Links to the test's Redis, or to the URL given; closed at the end."""
    opened: list[Link] = []

    def open_one(url: str = redis_url) -> Link:
        opened.append(Link(url))
        return opened[-1]

    yield open_one
    for link in opened:
        link.close(0.5)


@pytest.fixture
def link(open_link: Callable[..., Link]) -> Link:
    return open_link()


@pytest.fixture
def own_server() -> Iterator[EmbeddedRedis]:
    """A server that the test may kill."""
    with EmbeddedRedis() as server:
        server_with_library(server)
        yield server
        server.kill()


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]
