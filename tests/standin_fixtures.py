"""The stand-in for the Claude API as fixtures: `pytest_plugins = ["tests.standin_fixtures"]`."""

from collections.abc import Iterator

import anthropic
import pytest

from foldahead_worker.standin import RunningStandIn, start_standin
from tests.standins import client_of


@pytest.fixture(scope="session")
def standin_process() -> Iterator[RunningStandIn]:
    with start_standin() as running:
        yield running


@pytest.fixture
def standin(standin_process: RunningStandIn) -> RunningStandIn:
    """A stand-in with empty books, no script and a cold prompt cache."""
    standin_process.reset()
    return standin_process


@pytest.fixture
def client(standin: RunningStandIn) -> Iterator[anthropic.Anthropic]:
    with client_of(standin) as made:
        yield made
