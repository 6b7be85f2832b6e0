"""Watcher, keeper, sweeper and worker as threads of the test process, over a real Redis and a real database."""

import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from foldahead_worker.keeping import Keeper
from foldahead_worker.library import load
from foldahead_worker.means import Chooser, OneKey
from foldahead_worker.metered import MeteredSummarizer
from foldahead_worker.metrics import Metrics
from foldahead_worker.server import Loop, connect
from foldahead_worker.store import Store, open_store
from foldahead_worker.summarizers.extract import ExtractSummarizer
from foldahead_worker.summarizers.protocol import Summarizer
from foldahead_worker.sweep import Sweeper
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.watch import Watcher
from foldahead_worker.work import Worker


class Services:
    """What runs, and the doors to look at it. `wakeups` lists the job ids that were sent."""

    def __init__(self, redis_url: str, database_url: str, summarizer: Callable[[], Summarizer]) -> None:
        self.store: Store = open_store(database_url)
        self.client = connect(redis_url)
        load(self.client)
        self.switchboard = Switchboard(self.client)
        self.wakeups: list[int] = []
        self.metrics = Metrics()
        self._pool = ThreadPoolExecutor(8)
        self.worker = Worker(
            owner="test",
            store=self.store,
            switchboard=self.switchboard,
            summarizers={"extract": lambda _: MeteredSummarizer(summarizer(), self.metrics)},
            call_deadline_s=60.0,
            metrics=self.metrics,
        )
        chooser = Chooser(OneKey(""), rules_only=True)
        self.watcher = Watcher(self.store, self.switchboard, chooser, self._wake, self.metrics)
        self.keeper = Keeper("test", self.store, self.switchboard, self.metrics)
        self.sweeper = Sweeper(self.store, self.switchboard, self._wake, 1.0, 1_000)
        self._stop = threading.Event()
        self._loops = [
            Loop("look", 0.0, self._look, self._stop),
            Loop("keep", 0.0, lambda: self.keeper.keep(50), self._stop),
            Loop("sweep", 0.2, self.sweeper.sweep, self._stop),
        ]

    def _wake(self, job_ids: Iterable[int]) -> None:
        self.wakeups.extend(job_ids)
        for job_id in job_ids:
            self._pool.submit(self.worker.run_one, job_id)

    def _look(self) -> None:
        self.switchboard.armed.await_hint(0.005)
        self.watcher.look()
        self.keeper.restore()

    def start(self) -> None:
        """Begin to watch and work."""
        for loop in self._loops:
            loop.start()

    def failed_rounds(self) -> dict[str, int]:
        """Rounds that failed, by loop."""
        return {loop.name: loop.failures for loop in self._loops if loop.failures}

    def stop(self) -> None:
        """End all threads."""
        self.worker.stopping.set()
        self._stop.set()
        for loop in self._loops:
            loop.join(5.0)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.store.close()
        self.client.close()


@contextmanager
def running_services(
    redis_url: str, database_url: str, summarizer: Callable[[], Summarizer] = ExtractSummarizer
) -> Generator[Services]:
    """Services that run until the block ends."""
    services = Services(redis_url, database_url, summarizer)
    services.start()
    try:
        yield services
    finally:
        services.stop()
    assert services.failed_rounds() == {}
