"""The sweeper: what was left lying is picked up. Dead leases, wake-ups that were lost, sessions nobody told."""

import logging
import time
from collections.abc import Sequence

from msgspec import Struct

from foldahead_worker.apart import done_apart
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import deliver, give_up
from foldahead_worker.metrics import Metrics
from foldahead_worker.reporting import Reporter, completed, failed
from foldahead_worker.store import Store
from foldahead_worker.store.jobs import due_unsent, mark_sent
from foldahead_worker.store.leases import LEASE_LOST, LeaseSeen, expire, leases
from foldahead_worker.store.policies import get_policies, stale_copies
from foldahead_worker.store.retention import (
    CacheRows,
    forget_idle_sessions,
    prune_events,
    prune_jobs,
    prune_spend,
    prune_waiters,
    summary_counts,
    wanted_cache_rows,
)
from foldahead_worker.store.spend import day_of
from foldahead_worker.store.status import labels_of
from foldahead_worker.store.summaries import Summary, evict, find_summary
from foldahead_worker.store.waiters import Undelivered, Waiter, mark_given_up, undelivered
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


def rows_to_keep(wanted: CacheRows | None, default: int) -> int:
    """Summaries that a workspace keeps: the most that one of its sessions wants. Pure.

    `default` where its sessions leave it to the servers, or none is known.
    """
    if wanted is None:
        return default
    return max(wanted.most, default) if wanted.left_open else wanted.most


class _Watched(Struct):
    seen: LeaseSeen
    since_s: float


class Sweeper:
    """One sweeper of any number. Judges leases by its own monotonic clock alone."""

    def __init__(
        self,
        store: Store,
        switchboard: Switchboard,
        wake: Wake,
        dead_after_s: float,
        cache_max_rows: int,
        metrics: Metrics | None = None,
    ) -> None:
        """`cache_max_rows`: summaries kept in a workspace whose sessions ask for no other number."""
        self._store = store
        self._switchboard = switchboard
        self._metrics = metrics or Metrics()
        self._reporter = Reporter(store, switchboard, self._metrics)
        self._wake = wake
        self._dead_after_s = dead_after_s
        self._cache_max_rows = cache_max_rows
        self._watched: dict[int, _Watched] = {}

    def sweep(self) -> None:
        """One round: leases, lost wake-ups, sessions that were not told."""
        self._bury_dead_leases()
        self._resend()
        done_apart(undelivered(self._store, now_ms() - UNTOLD_AFTER_MS), self._tell, self._set_aside)
        if not self._switchboard.has_policies():
            self.copy_policies()

    def copy_policies(self) -> None:
        """Redis says what the database keeps of central policy values."""
        stale = stale_copies(get_policies(self._store), self._switchboard.policies())
        if stale:
            self._switchboard.put_policies(stale)
            _log.warning("central policy values copied to Redis again: %d workspaces", len(stale))

    def _bury_dead_leases(self) -> None:
        now_s = time.monotonic()
        seen_now = {seen.job_id: seen for seen in leases(self._store)}
        self._watched = {job_id: kept for job_id, kept in self._watched.items() if seen_now.get(job_id) == kept.seen}
        for job_id, seen in seen_now.items():
            since_s = self._watched.setdefault(job_id, _Watched(seen, now_s)).since_s
            if now_s - since_s >= self._dead_after_s:
                state = expire(self._store, seen, now_ms())
                _log.warning("job %d: lease of %s is dead, the job is %s", job_id, seen.owner, state)

    def _resend(self) -> None:
        at_ms = now_ms()
        unsent = due_unsent(self._store, at_ms - RESEND_AFTER_MS, at_ms)
        if unsent:
            mark_sent(self._store, unsent, at_ms)
            labels = labels_of(self._store, unsent)
            self._wake({job_id: labels.get(job_id, f"job {job_id}") for job_id in unsent})

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

    def _set_aside(self, one: Undelivered, error: Exception) -> None:
        """A session that cannot be told is not tried for ever."""
        waiter = one.waiter
        self._metrics.set_aside("sweep")
        told = {"workspace": waiter.workspace, "session": waiter.session, "cache_key": waiter.cache_key[:12]}
        _log.error("not told: %s", type(error).__name__, exc_info=error, extra=told)
        mark_given_up(self._store, waiter.workspace, waiter.cache_key, [waiter.session])

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
        self.copy_policies()
        wanted = wanted_cache_rows(self._store)
        for workspace, count in summary_counts(self._store).items():
            most = rows_to_keep(wanted.get(workspace), self._cache_max_rows)
            if count > most:
                evict(self._store, workspace, most)
        prune_events(self._store, KEEP_EVENTS)
        prune_jobs(self._store, at_ms - KEEP_ENDED_JOBS_MS)
        prune_waiters(self._store, at_ms - KEEP_WAITERS_MS)
        prune_spend(self._store, day_of(at_ms - KEEP_SPEND_DAYS * DAY_MS))
        forget_idle_sessions(self._store, at_ms - KEEP_SESSIONS_MS)
