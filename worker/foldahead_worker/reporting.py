"""Events on the server side: to the capped live stream and to the database, one set for each waiter."""

import logging
from collections.abc import Sequence

import msgspec
import redis

from foldahead.core.events import (
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
    Event,
    FailureMode,
    Trigger,
    envelope,
)
from foldahead.core.request import SummaryRequest
from foldahead_worker.clock import now_ms
from foldahead_worker.metrics import Metrics
from foldahead_worker.store import Store, StoreError
from foldahead_worker.store.events import EventRow, append_events
from foldahead_worker.store.leases import Leased
from foldahead_worker.store.summaries import Summary
from foldahead_worker.store.waiters import Waiter
from foldahead_worker.switchboard import Switchboard

_log = logging.getLogger("foldahead.events")
PICO = 1_000_000_000_000


class Reporter:
    """Reports what happened to sessions. An event that cannot be written is logged and lost; no work waits for it."""

    def __init__(self, store: Store, switchboard: Switchboard, metrics: Metrics | None = None) -> None:
        self._store = store
        self._switchboard = switchboard
        self._metrics = metrics or Metrics()

    def leased(self, leased: Leased) -> None:
        """A worker has a job, for these sessions."""
        request = leased.request
        ids = {"job": leased.job_id, "kind": request.kind, "model": request.model, "attempt": leased.attempts}
        for waiter in leased.waiters:
            _log.info("leased", extra=_ids(waiter) | ids)

    def committed(self, leased: Leased, summary: Summary, *, cache_hit: bool) -> None:
        """A summary is stored, and the job done."""
        figures = {
            "job": leased.job_id,
            "workspace": summary.workspace,
            "cache_key": summary.cache_key[:12],
            "tokens_in": summary.span_token_count_in,
            "tokens_out": summary.span_token_count_out,
            "cost_usd": summary.cost_picodollars / PICO,
            "cache_hit": cache_hit,
        }
        _log.info("committed", extra=figures)

    def delivered(self, summary: Summary, waiters: Sequence[Waiter]) -> None:
        """A summary is at the disposal of these sessions."""
        at_ms = now_ms()
        for waiter in waiters:
            waited_ms = at_ms - waiter.created_at_ms
            self._metrics.ready(summary.kind, waited_ms)
            _log.info("delivered", extra=_ids(waiter) | {"waited_ms": waited_ms})

    def report(self, workspace: str, events: list[Event]) -> None:
        """Write events of one workspace to the stream and the database."""
        at_ms = now_ms()
        rows: list[EventRow] = []
        for event in events:
            self._metrics.told(event)
            enveloped = envelope(event, workspace, at_ms)
            encoded = msgspec.json.encode(enveloped)
            rows.append(
                EventRow(
                    kind=enveloped.type,
                    workspace=workspace,
                    session=event.session_id,
                    json=encoded.decode(),
                    created_at_ms=at_ms,
                )
            )
            self._stream(encoded)
        try:
            append_events(self._store, rows)
        except StoreError as error:
            _log.warning("events not stored: %s", error)

    def _stream(self, encoded: bytes) -> None:
        try:
            self._switchboard.add_event(encoded)
        except redis.RedisError as error:
            _log.warning("event not streamed: %s", type(error).__name__)


def _ids(waiter: Waiter) -> dict[str, object]:
    return {"workspace": waiter.workspace, "session": waiter.session, "cache_key": waiter.cache_key[:12]}


def trigger_of(waiter: Waiter) -> Trigger:
    """What made the session ask."""
    return "hard_cap" if waiter.urgency == "forced" else "threshold"


def started(waiter: Waiter, request: SummaryRequest, span_tokens: int) -> CompactionStarted:
    """A job was leased for this waiter."""
    return CompactionStarted(
        session_id=waiter.session,
        turn_id=waiter.turn_id,
        watermark_before=waiter.watermark_before,
        span_message_count=request.message_count,
        span_token_count_in=span_tokens,
        threshold_or_hard_cap=trigger_of(waiter),
    )


def completed(waiter: Waiter, summary: Summary, *, cache_hit: bool, latency_ms: int) -> CompactionCompleted:
    """A summary is there for this waiter; only the first to ask is told its cost."""
    return CompactionCompleted(
        session_id=waiter.session,
        turn_id=waiter.turn_id,
        watermark_before=waiter.watermark_before,
        watermark_after=waiter.end,
        span_message_count=waiter.end - waiter.start,
        span_token_count_in=summary.span_token_count_in,
        span_token_count_out=summary.span_token_count_out,
        cache_hit=cache_hit,
        cache_key=summary.cache_key,
        cost_usd=0.0 if cache_hit else summary.cost_picodollars / PICO,
        latency_ms=latency_ms,
    )


def failed(waiter: Waiter, mode: FailureMode, error_class: str, message: str) -> CompactionFailed:
    """The job ended without a summary."""
    return CompactionFailed(
        session_id=waiter.session,
        turn_id=waiter.turn_id,
        watermark_before=waiter.watermark_before,
        span_message_count=waiter.end - waiter.start,
        failure_mode=mode,
        error_class=error_class,
        error_message=message,
    )
