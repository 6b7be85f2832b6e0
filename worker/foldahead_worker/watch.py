"""The watcher: looks at armed sessions, decides (pure), opens jobs, wakes workers, settles what it saw.

Any number may run side by side: rows are unique, settling is a compare-and-set, and a lost step is repeated by the
next publish or the next look.
"""

import logging
from collections.abc import Callable, Sequence

import redis

from foldahead import keys, wire
from foldahead.core.decide import Decision, Decline, Start, Wait, decide
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import deliver
from foldahead_worker.means import Chooser
from foldahead_worker.metrics import Metrics
from foldahead_worker.reporting import Reporter, completed
from foldahead_worker.store import Store, StoreError
from foldahead_worker.store.jobs import Want, Wanted, mark_sent, want_batch
from foldahead_worker.store.sessions import SessionRow, save_sessions
from foldahead_worker.store.summaries import find_summary
from foldahead_worker.store.waiters import waiters_of
from foldahead_worker.switchboard import Armed, Switchboard

LOOK_AT_ONCE = 200
FAILED_LOOK_MS = 2_000
"""How soon a session is looked at again whose job has failed and may not open yet."""
FAULT_PAUSE_S = 60.0
"""How soon a session is looked at again that could not be dealt with, which is a fault of ours."""
PICO = 1_000_000_000_000
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

    def look(self) -> int:
        """Look at the sessions that are due. Returns how many there were."""
        due = self._switchboard.due(LOOK_AT_ONCE)
        decided = [(armed, self._decide(armed)) for armed in due]
        for armed, decision in decided:
            self._metrics.looked(armed.overdue_ms)
            _log.debug("looked", extra=_ids(armed) | {"decision": type(decision).__name__.lower()})
        starts = [(armed, decision) for armed, decision in decided if isinstance(decision, Start)]
        for armed, decision in decided:
            match decision:
                case Wait():
                    self._switchboard.settle_wait(armed, int(decision.seconds * 1000))
                case Decline():
                    self._switchboard.settle_drop(armed)
                case Start():
                    pass
        if starts:
            self._start_apart(starts)
        return len(due)

    def _decide(self, armed: Armed) -> Decision:
        workspace, _ = keys.names_of(armed.member)
        try:
            return decide(armed.standing, workspace, self._chooser.means(workspace, armed.standing.policy))
        except Exception:  # noqa: BLE001 - one session's fault must not stop the look at all others
            _log.exception("no decision", extra=_ids(armed))
            return Wait(seconds=FAULT_PAUSE_S, reason="fault")

    def _start_apart(self, starts: list[tuple[Armed, Start]]) -> None:
        """All in one transaction; where one of them cannot be written, each by itself, and that one left out."""
        try:
            self._start(starts)
        except (StoreError, redis.RedisError):
            raise
        except Exception:  # noqa: BLE001 - one session's fault must not stop the look at all others
            if len(starts) > 1:
                for start in starts:
                    self._start_apart([start])
                return
            _log.exception("no job", extra=_ids(starts[0][0]))
            self._switchboard.settle_wait(starts[0][0], int(FAULT_PAUSE_S * 1000))

    def _start(self, starts: list[tuple[Armed, Start]]) -> None:
        at_ms = now_ms()
        save_sessions(self._store, [_session_row(armed, at_ms) for armed, _ in starts])
        wanted = want_batch(self._store, [_wish(armed, start, at_ms) for armed, start in starts], at_ms)
        # Settled before a worker can be done with it, or the session would wait for a job that has ended.
        for (armed, start), row in zip(starts, wanted, strict=True):
            self._settle(armed, start, row)
            level = logging.DEBUG if row.state == "failed" else logging.INFO  # looked at again every two seconds
            _log.log(level, "decided", extra=_ids(armed) | _ids_of_job(start, row))
        opened = [row.job_id for row in wanted if row.opened]
        if opened:
            self._wake(opened)
            mark_sent(self._store, opened, at_ms)

    def _settle(self, armed: Armed, start: Start, row: Wanted) -> None:
        match row.state:
            case "done":
                self._deliver(start)
                self._switchboard.settle_drop(armed)
            case "failed":
                # Its time has not come, or its attempts are spent: looked at again, never every turn.
                self._switchboard.settle_wait(armed, FAILED_LOOK_MS)
            case _:
                self._switchboard.settle_job(armed, row.cache_key)

    def _deliver(self, start: Start) -> None:
        """The summary is there already: a session that was late is told at once."""
        request = start.request
        summary = find_summary(self._store, request.workspace, request.cache_key)
        waiters = waiters_of(self._store, request.workspace, request.cache_key)
        if summary is None or not waiters:
            return
        told = deliver(self._store, self._switchboard, summary, waiters)
        self._reporter.delivered(summary, [waiter for waiter in waiters if waiter.session in told])
        self._reporter.report(
            request.workspace,
            [
                completed(waiter, summary, cache_hit=True, latency_ms=0)
                for waiter in waiters
                if waiter.session in told
            ],
        )


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


def _wish(armed: Armed, start: Start, at_ms: int) -> Want:
    standing = armed.standing
    _, session = keys.names_of(armed.member)
    return Want(
        request=start.request,
        session=session,
        turn_id=standing.turn_id,
        watermark_before=standing.shown.end if standing.shown else 0,
        urgency=start.urgency,
        deadline_ms=at_ms + int(start.needed_in_s * 1000),
        max_attempts=standing.policy.max_attempts,
        budget_picodollars=int(standing.policy.max_cost_per_session_usd * PICO),
    )


def _session_row(armed: Armed, at_ms: int) -> SessionRow:
    workspace, session = keys.names_of(armed.member)
    shown = armed.standing.shown
    return SessionRow(
        workspace=workspace,
        session=session,
        standing=wire.encode(armed.standing),
        shown=shown.cache_key if shown else "",
        last_seen_ms=at_ms,
    )
