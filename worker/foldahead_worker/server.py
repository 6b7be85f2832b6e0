"""The processes of the server side: what `foldahead watch` and `foldahead work` run until they are told to
stop.
"""

import contextlib
import gc
import logging
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

import msgspec
import redis
from celery import Celery, signals
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from foldahead import keys
from foldahead.core.models import PICO_PER_USD
from foldahead.errors import FoldaheadError
from foldahead_worker.app import QUEUE, make_app, owner_name, wake_with
from foldahead_worker.gate import Gate
from foldahead_worker.heart import HEARTBEAT_EVERY_S
from foldahead_worker.keeping import Keeper
from foldahead_worker.lasting import made_to_last
from foldahead_worker.library import load
from foldahead_worker.means import Chooser, check_models
from foldahead_worker.metrics import Metrics
from foldahead_worker.page import MEASURE_EVERY_S, Vitals, page_at
from foldahead_worker.readings import take_reading
from foldahead_worker.settings import Settings, accounts_of
from foldahead_worker.store import Store, open_store
from foldahead_worker.supply import Supply
from foldahead_worker.sweep import Sweeper
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.tasks import register
from foldahead_worker.watch import Watcher
from foldahead_worker.work import Worker

LOOK_EVERY_S = 0.05
"""Without a hint that a session wants one at once."""
SWEEP_EVERY_S = 1.0
TIDY_EVERY_S = 60.0
BEATS_A_LEASE = 5
"""Heartbeats in the time after which a lease without one is dead."""
INBOX_BLOCK_MS = 500
_TROUBLE_PAUSE_S = 1.0
_log = logging.getLogger("foldahead.server")


def connect(url: str, role: str = "tool") -> "redis.Redis":
    """A client of the server side: retries shortly, then says so. Redis's list of clients shows role and version."""
    return redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
        url,
        client_name=f"foldahead-{role}/{version('foldahead')}",
        socket_connect_timeout=2.0,
        socket_timeout=10.0,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 3),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError],
    )


class WorkerEnded(FoldaheadError):
    """The worker gave up by itself. The text says where to look."""


class Loop:
    """A loop that must live: what goes wrong in a round is counted and logged, and the next round comes."""

    def __init__(self, name: str, every_s: float, round_: Callable[[], object], stop: threading.Event) -> None:
        self.failures = 0
        self.in_a_row = 0
        """Failed rounds since the last one that did not."""
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
                self.in_a_row = 0
            except Exception as error:  # noqa: BLE001 - a loop that must live counts and logs
                self.failures += 1
                self.in_a_row += 1
                _log.warning(
                    "%s: round failed (%d so far): %s: %s",
                    self.name,
                    self.failures,
                    type(error).__name__,
                    error,
                )
                pause_s = max(pause_s, _TROUBLE_PAUSE_S)
            self._stop.wait(pause_s)


def run_watcher(settings: Settings, stop: threading.Event, on_ready: Callable[[], None]) -> None:
    """Watch until `stop` is set. Raises `StoreError` or redis.RedisError when it cannot begin."""
    store = open_store(settings.database_url)
    client = connect(settings.redis_url, "watch")
    load(client)
    switchboard = Switchboard(client)
    metrics = Metrics()
    wake = wake_with(make_app(settings))
    chooser = make_chooser(settings)
    watcher = Watcher(store, switchboard, chooser, wake, metrics)
    keeper = Keeper(owner_name(), store, switchboard, metrics)
    sweeper = Sweeper(store, switchboard, wake, settings.lease_dead_after_s, settings.cache_max_rows, metrics)
    sweeper.copy_policies()
    check_models(chooser, central_overrides(client))

    def look() -> None:
        switchboard.armed.await_hint(LOOK_EVERY_S)
        # Both in each round: sessions that are always due must not keep others from being restored.
        while sum((watcher.look(), keeper.restore())):
            if stop.is_set():
                return

    def sweep() -> None:
        # A Redis that was started again has no functions, and agents cannot load them.
        load(client)
        sweeper.sweep()

    loops = [
        Loop("look", 0.0, look, stop),
        Loop("keep", 0.0, lambda: keeper.keep(INBOX_BLOCK_MS), stop),
        Loop("sweep", SWEEP_EVERY_S, sweep, stop),
        Loop("tidy", TIDY_EVERY_S, sweeper.tidy, stop),
    ]
    vitals = Vitals(lambda: take_reading(store, switchboard, loops), metrics, settings.health_due_s)
    if settings.watch_metrics_port:
        loops.append(Loop("measure", MEASURE_EVERY_S, vitals.measure, stop))
    with page_at(settings.metrics_host, settings.watch_metrics_port, metrics, vitals):
        for loop in loops:
            loop.start()
        on_ready()
        stop.wait()
        for loop in loops:
            loop.join(2.0)
    store.close()


def make_chooser(settings: Settings) -> Chooser:
    """What decides which summariser serves whom."""
    return Chooser(
        accounts_of(settings),
        rules_only=settings.summarizer == "extract",
        delay_s=settings.summary_delay_s,
        models=settings.models,
    )


def make_worker(settings: Settings, store: Store, switchboard: Switchboard, supply: Supply, metrics: Metrics) -> Worker:
    """The worker with the summarisers that the settings allow."""
    return Worker(
        owner=owner_name(),
        store=store,
        switchboard=switchboard,
        summarizers=supply.by_kind,
        call_deadline_s=settings.call_deadline_s,
        heartbeat_every_s=min(HEARTBEAT_EVERY_S, settings.lease_dead_after_s / BEATS_A_LEASE),
        gate=supply.gate,
        metrics=metrics,
        day_budget_picodollars=int(settings.max_cost_per_workspace_day_usd * PICO_PER_USD) or None,
    )


def central_overrides(client: "redis.Redis") -> dict[str, Any]:
    """The policy values that are set for workspaces. What cannot be read is left out."""
    stored: dict[bytes, bytes] = client.hgetall(keys.POLICIES_HASH)  # pyright: ignore[reportAssignmentType]
    overrides: dict[str, Any] = {}
    for workspace, values in stored.items():
        with contextlib.suppress(msgspec.DecodeError):
            overrides[unquote(workspace.decode())] = msgspec.json.decode(values)
    return overrides


def run_worker(settings: Settings) -> None:
    """Run a Celery worker until SIGTERM.

    Raises `StoreError` or redis.RedisError when it cannot begin, `WorkerEnded` when it gives up by itself.
    """
    store = open_store(settings.database_url)
    client = connect(settings.redis_url, "work")
    load(client)
    check_models(make_chooser(settings), central_overrides(client))
    switchboard, metrics = Switchboard(client), Metrics()
    with made_to_last():  # where a model is asked, this imports the SDK of its provider
        supply = Supply(settings, Gate(client, accounts_of(settings)), metrics)
    worker = make_worker(settings, store, switchboard, supply, metrics)
    app = make_app(settings)
    register(app, worker, metrics)
    told = threading.Lock()

    def on_shutdown(**_: object) -> None:
        # Celery calls this in a signal handler, which the next signal interrupts: it must not wait for the first.
        if told.acquire(blocking=False):
            worker.stopping.set()

    signals.worker_shutting_down.connect(on_shutdown, weak=False)
    vitals = Vitals(lambda: take_reading(store, switchboard), metrics, settings.health_due_s)
    with page_at(settings.metrics_host, settings.work_metrics_port, metrics, vitals):
        if settings.work_metrics_port:
            Loop("measure", MEASURE_EVERY_S, vitals.measure, worker.stopping).start()
        celery_worker = _celery_worker(app)
        # What is loaded by now stays: looking through it takes the collector 100 ms, and all threads wait for that.
        gc.freeze()
        celery_worker.start()
    supply.close()
    store.close()
    # Celery logs what it cannot recover from, say a broker that refuses it, and returns.
    if celery_worker.exitcode and not worker.stopping.is_set():
        raise WorkerEnded("the worker gave up: its log says why (is the broker there, and may we write to it?)")


def _celery_worker(app: Celery) -> Any:
    """It does not mingle: that asks the other workers what they revoked, a second long, at the start and each time that
    the broker comes back. We revoke nothing.
    """
    hostname = f"foldahead@{owner_name().replace(':', '-')}"
    return app.Worker(queues=[QUEUE], hostname=hostname, quiet=True, without_mingle=True)
