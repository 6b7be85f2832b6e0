"""Real stacks for the acceptance tests."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.databases import NewDatabase
from tests.stack import RealStack, real_stack

MakeStack = Callable[..., RealStack]


@pytest.fixture(scope="session")
def shared_stack(tmp_path_factory: pytest.TempPathFactory, databases: NewDatabase) -> Iterator[RealStack]:
    """A watcher and two workers for tests that leave them alone; each such test has a workspace of its own."""
    folder = tmp_path_factory.mktemp("stack")
    with databases(folder) as database_url, real_stack(folder, database_url, workers=2) as stack:
        yield stack


@pytest.fixture
def make_stack(tmp_path: Path, databases: NewDatabase) -> Iterator[MakeStack]:
    """Starts stacks that a test may break."""
    with ExitStack() as stacks:

        def make(**options: Any) -> RealStack:
            database_url = stacks.enter_context(databases(tmp_path))
            return stacks.enter_context(real_stack(tmp_path, database_url, **options))

        yield make


@pytest.fixture(scope="session")
def new_processes() -> Iterator[ProcessPoolExecutor]:
    """Runs each call in a new process, forked from one that has imported what they need."""
    context = get_context("forkserver")
    # What is installed: before Python 3.13 a fork server does not get our path, and passes over what it misses.
    context.set_forkserver_preload(["anthropic", "anthropic.resources.beta.messages", "foldahead"])
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as executor:
        yield executor
