"""The watcher: looks at armed sessions, decides (pure), opens jobs, wakes workers, settles what it saw.

Any number may run side by side: rows are unique, settling is a compare-and-set, and a lost step is repeated by the
next publish or the next look.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from foldahead import keys, wire
from foldahead.core.decide import Decision, Decline, Start, Wait, decide
from foldahead.core.policy import Policy
from foldahead_worker.apart import done_apart
from foldahead_worker.armed import Armed, Settling, rests, waits, waits_for
from foldahead_worker.backoff import rest_ms
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import deliver
from foldahead_worker.means import NATIVE_FAILED, Chooser
from foldahead_worker.metrics import Metrics
from foldahead_worker.reasons import OTHER, Reasons, class_of
from foldahead_worker.reporting import Reporter, completed
from foldahead_worker.store import Store
from foldahead_worker.store.jobs import Want, Wanted, want_batch
from foldahead_worker.store.sessions import SessionRow, save_sessions
from foldahead_worker.store.status import label_of
from foldahead_worker.store.summaries import existing, find_summary
from foldahead_worker.store.waiters import find_waiter
from foldahead_worker.switchboard import Switchboard

LOOK_AT_ONCE = 200
PICO = 1_000_000_000_000
MOST_PICODOLLARS = 2**62
"""A larger budget, over 4.6 million dollars, is as good as none; it is also what a database's integer holds."""
_log = logging.getLogger("foldahead.watch")

Wake = Callable[[Mapping[int, str]], None]
"""Sends a Celery message for each job id, with what people are shown of it."""


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
        due = self._switchboard.armed.due(LOOK_AT_ONCE)
        starts: list[tuple[Armed, Start]] = []
        settlings: list[Settling] = []
        for armed in due:
            self._metrics.looked(armed.overdue_ms)
            done_apart([armed], lambda one: self._sort(one[0], starts, settlings), self._set_aside)
        self._settle(settlings)
        if starts:
            self._begin(starts)
        return len(due)

    def _sort(self, armed: Armed, starts: list[tuple[Armed, Start]], settlings: list[Settling]) -> None:
        """Adds a session to those that something is to be started for, or to those that are settled so."""
        decision = self._decide(armed)
        _log.debug("looked", extra=_ids(armed) | {"decision": type(decision).__name__.lower()})
        match decision:
            case Start():
                self._reasons.forget(armed.member)
                starts.append((armed, decision))
            case Wait():
                self._tell_reason(armed, decision)
                settlings.append(waits(armed, int(decision.seconds * 1000)))
            case Decline():
                self._tell_reason(armed, decision)
                settlings.append(rests(armed))

    def _settle(self, settlings: Sequence[Settling]) -> None:
        done_apart(settlings, self._switchboard.armed.settle, lambda one, error: self._set_aside(one.seen, error))

    def _decide(self, armed: Armed) -> Decision:
        workspace, _ = keys.names_of(armed.member)
        decision = decide(armed.standing, workspace, self._chooser.means(workspace, armed.standing, armed.failed))
        instead = armed.failed.startswith(NATIVE_FAILED)  # text in place of what failed: nothing to rest from
        if isinstance(decision, Start) and armed.failures and not instead:
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
        self._switchboard.armed.disarm(armed.member)

    def _begin(self, starts: Sequence[tuple[Armed, Start]]) -> None:
        """Writes rows, settles, wakes workers. What no worker needs is done when they are awake.

        The fault of one session must not keep workers from being woken for the others. A broker that is away is no
        session's fault: the sweeper sends again what did not go out.
        """
        opened: list[_Opened] = []
        done_apart(
            starts, lambda some: opened.extend(self._open(some)), lambda start, error: self._set_aside(start[0], error)
        )
        settlings: list[Settling] = []
        for one in opened:
            done_apart([one], lambda some: settlings.append(self._settled(some[0])), _of_session(self._set_aside))
        self._settle(settlings)
        try:
            self._wake(_wakeups(opened))
        finally:
            done_apart(opened, self._keep, _of_session(self._set_aside))

    def _open(self, starts: Sequence[tuple[Armed, Start]]) -> list["_Opened"]:
        """Writes jobs and waiters down."""
        at_ms = now_ms()
        starts = self._with_parents(starts)
        rows = want_batch(self._store, [_wish(armed, start, at_ms) for armed, start in starts], at_ms)
        opened = [_Opened(armed, start, row, at_ms) for (armed, start), row in zip(starts, rows, strict=True)]
        for one in opened:
            _log.info("decided", extra=_ids(one.armed) | _ids_of_job(one.start, one.row))
        return opened

    def _keep(self, opened: Sequence["_Opened"]) -> None:
        """How the sessions stand: what is given back to a Redis that lost them, and what is not to be evicted."""
        save_sessions(self._store, [_session_row(one.armed, one.at_ms) for one in opened])

    def _with_parents(self, starts: Sequence[tuple[Armed, Start]]) -> list[tuple[Armed, Start]]:
        """A summary whose parent the database has lost is made from the originals alone."""
        named = {(start.request.workspace, start.request.parent) for _, start in starts if start.request.parent}
        there = existing(self._store, named) if named else frozenset[tuple[str, str]]()
        return [(armed, start if _has_parent(start, there) else _without_parent(start)) for armed, start in starts]

    def _settled(self, one: "_Opened") -> Settling:
        armed, row = one.armed, one.row
        match row.state:
            case "done":
                self._deliver(armed, one.start, row)
                return rests(armed)
            case "failed":
                return rests(armed) if row.opens_at_ms is None else waits(armed, row.opens_at_ms - one.at_ms)
            case _:
                return waits_for(armed, row.cache_key)

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


class _Opened(Struct, frozen=True):
    """A session that something was started for, and what became of its wish."""

    armed: Armed
    start: Start
    row: Wanted
    at_ms: int


def _of_session(set_aside: Callable[[Armed, Exception], None]) -> Callable[[_Opened, Exception], None]:
    return lambda one, error: set_aside(one.armed, error)


def _wakeups(opened: Sequence[_Opened]) -> dict[int, str]:
    """Jobs to wake a worker for, in their order, each named after the first session that wants it."""
    labels: dict[int, str] = {}
    for one in opened:
        if one.row.opened and one.row.job_id not in labels:
            request, names = one.start.request, keys.names_of(one.armed.member)
            labels[one.row.job_id] = label_of(
                *names, one.start.urgency, request.kind, request.message_count, request.model
            )
    return labels


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
