"""One beating thread for all leases of a worker process: one transaction a beat, however many jobs are under way."""

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

from foldahead_worker.store import Store
from foldahead_worker.store.jobs import jobs_still_wanted
from foldahead_worker.store.leases import Leased, heartbeat_all

HEARTBEAT_EVERY_S = 2.0
_log = logging.getLogger("foldahead.heart")


class Pulse:
    """What the heart found out about one lease."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        """Somebody else has the job now, or will."""
        self.unwanted = threading.Event()
        """No session waits for it any more."""


class Heart:
    """Beats while there are leases; its thread ends when there are none, and starts with the next."""

    def __init__(self, store: Store, every_s: float = HEARTBEAT_EVERY_S) -> None:
        self._store = store
        self._every_s = every_s
        self._lock = threading.Lock()
        self._pulses: dict[tuple[int, int], Pulse] = {}
        self._beating = False

    @contextmanager
    def hold(self, leased: Leased) -> Generator[Pulse, None, None]:
        """Beat for a lease until the block ends."""
        key, pulse = (leased.job_id, leased.token), Pulse()
        with self._lock:
            self._pulses[key] = pulse
            if not self._beating:
                self._beating = True
                threading.Thread(target=self._beat, name="foldahead-heart", daemon=True).start()
        try:
            yield pulse
        finally:
            with self._lock:
                self._pulses.pop(key, None)

    def _beat(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(self._every_s)
            with self._lock:
                held = dict(self._pulses)
                if not held:
                    self._beating = False
                    return
            try:
                self._look(held)
            except Exception as error:  # noqa: BLE001 - a heart goes on beating; the sweeper judges what it missed
                _log.warning("%d leases: heartbeat failed: %s", len(held), type(error).__name__)

    def _look(self, held: dict[tuple[int, int], Pulse]) -> None:
        alive = heartbeat_all(self._store, held.keys())
        wanted = jobs_still_wanted(self._store, {job_id for job_id, _ in alive})
        for (job_id, token), pulse in held.items():
            if (job_id, token) not in alive:
                pulse.lost.set()
            elif job_id not in wanted:
                pulse.unwanted.set()
