"""The sweeper: what was left lying is picked up. Dead leases, wake-ups that were lost, sessions nobody told."""

import logging
import time
from collections.abc import Sequence

from msgspec import Struct

from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import deliver, give_up
from foldahead_worker.reporting import Reporter, completed, failed
from foldahead_worker.store import Store
from foldahead_worker.store.jobs import due_unsent, mark_sent
from foldahead_worker.store.leases import LEASE_LOST, LeaseSeen, expire, leases
from foldahead_worker.store.retention import (
    forget_idle_sessions,
    prune_events,
    prune_jobs,
    prune_spend,
    prune_waiters,
    summary_counts,
)
from foldahead_worker.store.spend import day_of
from foldahead_worker.store.summaries import Summary, evict, find_summary
from foldahead_worker.store.waiters import Undelivered, Waiter, undelivered
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.watch import Wake

RESEND_AFTER_MS = 5_000
"""A queued job whose wake-up is older than this is sent again: the message, or the worker that took it, is gone."""
UNTOLD_AFTER_MS = 2_000
DAY_MS = 24 * 3600 * 1000
KEEP_EVENTS = 1_000_000
KEEP_ENDED_JOBS_MS = 7 * DAY_MS
KEEP_WAITERS_MS = 30 * DAY_MS
KEEP_SESSIONS_MS = 90 * DAY_MS
KEEP_SPEND_DAYS = 400
_log = logging.getLogger("foldahead.sweep")


class _Watched(Struct):
    seen: LeaseSeen
    since_s: float


class Sweeper:
    """One sweeper of any number. Judges leases by its own monotonic clock alone."""

    def __init__(
        self, store: Store, switchboard: Switchboard, wake: Wake, dead_after_s: float, cache_max_rows: int
    ) -> None:
        self._store = store
        self._switchboard = switchboard
        self._reporter = Reporter(store, switchboard)
        self._wake = wake
        self._dead_after_s = dead_after_s
        self._cache_max_rows = cache_max_rows
        self._watched: dict[int, _Watched] = {}

    def sweep(self) -> None:
        """One round: leases, lost wake-ups, sessions that were not told."""
        self._bury_dead_leases()
        self._resend()
        self._tell(undelivered(self._store, now_ms() - UNTOLD_AFTER_MS))

    def _bury_dead_leases(self) -> None:
        now_s = time.monotonic()
        seen_now = {seen.job_id: seen for seen in leases(self._store)}
        self._watched = {
            job_id: kept for job_id, kept in self._watched.items() if seen_now.get(job_id) == kept.seen
        }
        for job_id, seen in seen_now.items():
            since_s = self._watched.setdefault(job_id, _Watched(seen, now_s)).since_s
            if now_s - since_s >= self._dead_after_s:
                state = expire(self._store, seen, now_ms())
                _log.warning("job %d: lease of %s is dead, the job is %s", job_id, seen.owner, state)

    def _resend(self) -> None:
        at_ms = now_ms()
        unsent = due_unsent(self._store, at_ms - RESEND_AFTER_MS, at_ms)
        if unsent:
            self._wake(unsent)
            mark_sent(self._store, unsent, at_ms)

    def _tell(self, untold: Sequence[Undelivered]) -> None:
        """What a worker would have done that died, or had no Redis, between the end of its job and this."""
        paid: set[tuple[str, str]] = set()
        for one in sorted(untold, key=lambda one: one.waiter.created_at_ms):
            workspace, cache_key = one.waiter.workspace, one.waiter.cache_key
            summary = find_summary(self._store, workspace, cache_key) if one.job_state == "done" else None
            if summary is None:
                self._give_up(one)
            elif deliver(self._store, self._switchboard, summary, [one.waiter]):
                asked_later = one.waiter.created_at_ms > summary.created_at_ms
                self._report_completed(one.waiter, summary, asked_later or (workspace, cache_key) in paid)
                paid.add((workspace, cache_key))

    def _report_completed(self, waiter: Waiter, summary: Summary, cache_hit: bool) -> None:
        waited_ms = now_ms() - waiter.created_at_ms
        self._reporter.delivered(summary, [waiter])
        event = completed(waiter, summary, cache_hit=cache_hit, latency_ms=waited_ms)
        self._reporter.report(summary.workspace, [event])

    def _give_up(self, one: Undelivered) -> None:
        waiter, reason = one.waiter, one.error_class or one.reason or "evicted"
        told = give_up(self._store, self._switchboard, waiter.workspace, waiter.cache_key, reason, [waiter])
        if told and one.reason == LEASE_LOST:  # other failures were reported by the worker that had them
            event = failed(waiter, "adapter_error", "LeaseLost", "its workers died")
            self._reporter.report(waiter.workspace, [event])

    def tidy(self) -> None:
        """The slow round: bounds of every table."""
        at_ms = now_ms()
        for workspace, count in summary_counts(self._store).items():
            if count > self._cache_max_rows:
                evict(self._store, workspace, self._cache_max_rows)
        prune_events(self._store, KEEP_EVENTS)
        prune_jobs(self._store, at_ms - KEEP_ENDED_JOBS_MS)
        prune_waiters(self._store, at_ms - KEEP_WAITERS_MS)
        prune_spend(self._store, day_of(at_ms - KEEP_SPEND_DAYS * DAY_MS))
        forget_idle_sessions(self._store, at_ms - KEEP_SESSIONS_MS)
