"""The watcher: looks at armed sessions, decides (pure), opens jobs, wakes workers, settles what it saw.

Any number may run side by side: rows are unique, settling is a compare-and-set, and a lost step is repeated by the
next publish or the next look.
"""

import logging
from collections.abc import Callable, Sequence

import msgspec

from foldahead import keys, wire
from foldahead.core.decide import Decision, Decline, Start, Wait, decide
from foldahead.core.policy import Policy
from foldahead_worker.apart import done_apart
from foldahead_worker.backoff import rest_ms
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import deliver
from foldahead_worker.means import Chooser
from foldahead_worker.metrics import Metrics
from foldahead_worker.reasons import OTHER, Reasons, class_of
from foldahead_worker.reporting import Reporter, completed
from foldahead_worker.store import Store
from foldahead_worker.store.jobs import Want, Wanted, mark_sent, want_batch
from foldahead_worker.store.sessions import SessionRow, save_sessions
from foldahead_worker.store.summaries import existing, find_summary
from foldahead_worker.store.waiters import find_waiter
from foldahead_worker.switchboard import Armed, Switchboard

LOOK_AT_ONCE = 200
PICO = 1_000_000_000_000
MOST_PICODOLLARS = 2**62
"""A larger budget, over 4.6 million dollars, is as good as none; it is also what a database's integer holds."""
_log = logging.getLogger("foldahead.watch")

Wake = Callable[[Sequence[int]], None]
"""Sends a Celery message for each job id."""


class Watcher:
    """One watcher. `look` is one round; the loop around it lives in `foldahead_worker.server`."""

    def __init__(
        self,
        store: Store,
        switchboard: Switchboard,
        chooser: Chooser,
        wake: Wake,
        metrics: Metrics | None = None,
    ) -> None:
        self._store = store
        self._switchboard = switchboard
        self._chooser = chooser
        self._wake = wake
        self._metrics = metrics or Metrics()
        self._reporter = Reporter(store, switchboard, self._metrics)
        self._reasons = Reasons()

    def look(self) -> int:
        """Look at the sessions that are due. Returns how many there were."""
        due = self._switchboard.due(LOOK_AT_ONCE)
        starts: list[tuple[Armed, Start]] = []
        for armed in due:
            self._metrics.looked(armed.overdue_ms)
            done_apart([armed], lambda one: starts.extend(self._decided(one[0])), self._set_aside)
        if starts:
            opened: list[int] = []
            done_apart(
                starts,
                lambda some: opened.extend(self._start(some)),
                lambda start, error: self._set_aside(start[0], error),
            )
            self._wake_for(opened)
        return len(due)

    def _decided(self, armed: Armed) -> list[tuple[Armed, Start]]:
        """What is to be started for a session; else it is settled here."""
        decision = self._decide(armed)
        _log.debug("looked", extra=_ids(armed) | {"decision": type(decision).__name__.lower()})
        match decision:
            case Start():
                self._reasons.forget(armed.member)
                return [(armed, decision)]
            case Wait():
                self._switchboard.settle_wait(armed, int(decision.seconds * 1000))
            case Decline():
                self._switchboard.settle_drop(armed)
        self._tell_reason(armed, decision)
        return []

    def _decide(self, armed: Armed) -> Decision:
        workspace, _ = keys.names_of(armed.member)
        decision = decide(armed.standing, workspace, self._chooser.means(workspace, armed.standing, armed.failed))
        if isinstance(decision, Start) and armed.failures:
            left_ms = armed.failed_at_ms + rest_ms(armed.failures, decision.urgency) - armed.seen_at_ms
            if left_ms > 0:
                return Wait(seconds=left_ms / 1000, reason=f"failed before: {armed.failures} in a row")
        return decision

    def _tell_reason(self, armed: Armed, decision: Wait | Decline) -> None:
        reason = class_of(decision.reason)
        self._metrics.left_alone(reason)
        if self._reasons.is_news(armed.member, decision.reason):
            said = reason if reason == OTHER else decision.reason
            what = type(decision).__name__.lower()
            _log.info("left alone", extra=_ids(armed) | {"decision": what, "reason": said})

    def _set_aside(self, armed: Armed, error: Exception) -> None:
        """A session that cannot be served is not looked at until it publishes again."""
        self._metrics.set_aside("watch")
        _log.error("set aside: %s", type(error).__name__, exc_info=error, extra=_ids(armed))
        self._switchboard.disarm(armed.member)

    def _wake_for(self, opened: list[int]) -> None:
        """A broker that is away is no session's fault: the sweeper sends again what did not go out."""
        if opened:
            # Before they are sent: a worker that comes while the row is being written would pass it over (SKIP LOCKED).
            mark_sent(self._store, opened, now_ms())
            self._wake(opened)

    def _start(self, starts: Sequence[tuple[Armed, Start]]) -> list[int]:
        """Writes jobs and waiters down. Returns the jobs that a worker is to be woken for."""
        at_ms = now_ms()
        starts = self._with_parents(starts)
        save_sessions(self._store, [_session_row(armed, at_ms) for armed, _ in starts])
        wanted = want_batch(self._store, [_wish(armed, start, at_ms) for armed, start in starts], at_ms)
        # Settled before a worker can be done with it, or the session would wait for a job that has ended.
        for (armed, start), row in zip(starts, wanted, strict=True):
            self._settle_apart(armed, start, row, at_ms)
            _log.info("decided", extra=_ids(armed) | _ids_of_job(start, row))
        return [row.job_id for row in wanted if row.opened]

    def _with_parents(self, starts: Sequence[tuple[Armed, Start]]) -> list[tuple[Armed, Start]]:
        """A summary whose parent the database has lost is made from the originals alone."""
        named = {(start.request.workspace, start.request.parent) for _, start in starts if start.request.parent}
        there = existing(self._store, named) if named else frozenset[tuple[str, str]]()
        return [(armed, start if _has_parent(start, there) else _without_parent(start)) for armed, start in starts]

    def _settle_apart(self, armed: Armed, start: Start, row: Wanted, at_ms: int) -> None:
        """All have their rows by now: the fault of one must not keep the others from being woken for."""
        done_apart([armed], lambda one: self._settle(one[0], start, row, at_ms), self._set_aside)

    def _settle(self, armed: Armed, start: Start, row: Wanted, at_ms: int) -> None:
        match row.state:
            case "done":
                self._deliver(armed, start, row)
                self._switchboard.settle_drop(armed)
            case "failed" if row.opens_at_ms is None:
                self._switchboard.settle_drop(armed)
            case "failed":
                self._switchboard.settle_wait(armed, (row.opens_at_ms or 0) - at_ms)
            case _:
                self._switchboard.settle_job(armed, row.cache_key)

    def _deliver(self, armed: Armed, start: Start, row: Wanted) -> None:
        """The summary is there already: a session that comes late is told at once, and by its own look alone.

        Who asked before it was there is told by the worker, right now, or by the sweeper if that one died. Who was
        told, and has lost it with Redis, gets it again.
        """
        workspace, cache_key = start.request.workspace, start.request.cache_key
        if row.before == "waiting" or self._switchboard.has_ready(armed.member, cache_key):
            return
        summary = find_summary(self._store, workspace, cache_key)
        waiter = find_waiter(self._store, workspace, keys.names_of(armed.member)[1], cache_key)
        if summary is None or waiter is None:
            return
        if deliver(self._store, self._switchboard, summary, [waiter]):
            self._reporter.delivered(summary, [waiter])
            event = completed(waiter, summary, cache_hit=True, latency_ms=0)
            self._reporter.report(workspace, [event])


def _ids(armed: Armed) -> dict[str, object]:
    """What a log line says of a session and of what it published: names and counts."""
    workspace, session = keys.names_of(armed.member)
    standing = armed.standing
    return {
        "workspace": workspace,
        "session": session,
        "published": f"{armed.incarnation[:6]}-{armed.n}",
        "pending_tokens": standing.pending_tokens,
        "threshold_tokens": standing.policy.threshold,
        "overdue_ms": armed.overdue_ms,
    }


def _ids_of_job(start: Start, row: Wanted) -> dict[str, object]:
    request = start.request
    return {
        "job": row.job_id,
        "cache_key": row.cache_key[:12],
        "kind": request.kind,
        "model": request.model,
        "urgency": start.urgency,
        "messages": request.message_count,
        "needed_in_s": round(start.needed_in_s, 1),
        "state": "opened" if row.opened else row.state,
    }


def _has_parent(start: Start, there: frozenset[tuple[str, str]]) -> bool:
    request = start.request
    return not request.parent or (request.workspace, request.parent) in there


def _without_parent(start: Start) -> Start:
    request = msgspec.structs.replace(start.request, parent="", parent_end=0)
    return msgspec.structs.replace(start, request=request)


def _wish(armed: Armed, start: Start, at_ms: int) -> Want:
    standing = armed.standing
    _, session = keys.names_of(armed.member)
    return Want(
        request=start.request,
        session=session,
        turn_id=standing.turn_id,
        watermark_before=standing.watermark,
        urgency=start.urgency,
        deadline_ms=at_ms + int(start.needed_in_s * 1000),
        max_attempts=standing.policy.max_attempts,
        budget_picodollars=min(MOST_PICODOLLARS, int(standing.policy.max_cost_per_session_usd * PICO)),
    )


def _session_row(armed: Armed, at_ms: int) -> SessionRow:
    workspace, session = keys.names_of(armed.member)
    shown, rows = armed.standing.shown, armed.standing.policy.cache_max_rows
    return SessionRow(
        workspace=workspace,
        session=session,
        standing=wire.encode(armed.standing),
        shown=shown.cache_key if shown else "",
        cache_max_rows=0 if rows == Policy().cache_max_rows else rows,
        last_seen_ms=at_ms,
    )
