"""The processes of the server side: what `foldahead watch` and `foldahead work` run until they are told to stop."""

import logging
import threading
from collections.abc import Callable

import redis
from celery import signals
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from foldahead_worker.app import QUEUE, make_app, owner_name, wake_with
from foldahead_worker.keeping import Keeper
from foldahead_worker.library import load
from foldahead_worker.means import Chooser, OneKey
from foldahead_worker.settings import Settings
from foldahead_worker.store import Store, open_store
from foldahead_worker.summarizers.extract import ExtractSummarizer
from foldahead_worker.summarizers.protocol import Summarizer
from foldahead_worker.summarizers.slowed import SlowedSummarizer
from foldahead_worker.sweep import Sweeper
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.tasks import register
from foldahead_worker.watch import Watcher
from foldahead_worker.work import Worker

LOOK_EVERY_S = 0.015
SWEEP_EVERY_S = 1.0
TIDY_EVERY_S = 60.0
INBOX_BLOCK_MS = 500
_TROUBLE_PAUSE_S = 1.0
_log = logging.getLogger("foldahead.server")


def connect(url: str) -> "redis.Redis":
    """A client of the server side: retries shortly, then says so."""
    return redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
        url,
        socket_connect_timeout=2.0,
        socket_timeout=10.0,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 3),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError],
    )


class Loop:
    """A loop that must live: what goes wrong in a round is counted and logged, and the next round comes."""

    def __init__(self, name: str, every_s: float, round_: Callable[[], object], stop: threading.Event) -> None:
        self.failures = 0
        self.name = name
        self._every_s = every_s
        self._round = round_
        self._stop = stop
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Run in a thread of its own until `stop` is set."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the round under way."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            pause_s = self._every_s
            try:
                self._round()
            except Exception as error:
                self.failures += 1
                _log.warning("%s: round failed (%d so far): %s: %s", self.name, self.failures, type(error).__name__, error)
                pause_s = max(pause_s, _TROUBLE_PAUSE_S)
            self._stop.wait(pause_s)


def run_watcher(settings: Settings, stop: threading.Event, on_ready: Callable[[], None]) -> None:
    """Watch until `stop` is set. Raises `StoreError` or redis.RedisError when it cannot begin."""
    store = open_store(settings.database_url)
    client = connect(settings.redis_url)
    load(client)
    switchboard = Switchboard(client)
    wake = wake_with(make_app(settings))
    chooser = Chooser(
        OneKey(settings.anthropic_api_key),
        rules_only=settings.summarizer == "extract",
        delay_s=settings.summary_delay_s,
    )
    watcher = Watcher(store, switchboard, chooser, wake)
    keeper = Keeper(owner_name(), store, switchboard)
    sweeper = Sweeper(store, switchboard, wake, settings.lease_dead_after_s, settings.cache_max_rows)

    def look() -> None:
        while watcher.look() or keeper.restore():
            if stop.is_set():
                return

    loops = [
        Loop("look", LOOK_EVERY_S, look, stop),
        Loop("keep", 0.0, lambda: keeper.keep(INBOX_BLOCK_MS), stop),
        Loop("sweep", SWEEP_EVERY_S, sweeper.sweep, stop),
        Loop("tidy", TIDY_EVERY_S, sweeper.tidy, stop),
    ]
    for loop in loops:
        loop.start()
    on_ready()
    stop.wait()
    for loop in loops:
        loop.join(2.0)
    store.close()


def make_worker(settings: Settings, store: Store, switchboard: Switchboard) -> Worker:
    """The worker with the summarisers that the settings allow."""

    def extract(workspace: str) -> Summarizer:  # noqa: ARG001
        inside = ExtractSummarizer()
        return SlowedSummarizer(inside, settings.summary_delay_s) if settings.summary_delay_s else inside

    return Worker(
        owner=owner_name(),
        store=store,
        switchboard=switchboard,
        summarizers={"extract": extract},
        call_deadline_s=settings.call_deadline_s,
    )


def run_worker(settings: Settings) -> None:
    """Run a Celery worker until SIGTERM. Raises `StoreError` or redis.RedisError when it cannot begin."""
    store = open_store(settings.database_url)
    client = connect(settings.redis_url)
    load(client)
    worker = make_worker(settings, store, Switchboard(client))
    app = make_app(settings)
    register(app, worker)

    def on_shutdown(**_: object) -> None:
        worker.stopping.set()

    signals.worker_shutting_down.connect(on_shutdown, weak=False)
    app.Worker(queues=[QUEUE], hostname=f"foldahead@{owner_name().replace(':', '-')}", quiet=True).start()  # pyright: ignore[reportUnknownMemberType]
    store.close()
