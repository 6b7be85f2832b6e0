"""Doing one job: lease, prepare, call, commit, deliver. The row is the truth at every step.

A worker that dies anywhere in here loses at most its lease: the sweeper gives the job to another, and an
answer that was stored is found, not paid for again.
"""

import threading
import time
from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from foldahead.core.events import safe_message
from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead.core.tokens import estimate, estimate_text
from foldahead_worker.apart import is_everyones
from foldahead_worker.clock import now_ms
from foldahead_worker.endings import Done, Ending
from foldahead_worker.gate import Admission, Gate
from foldahead_worker.heart import HEARTBEAT_EVERY_S, Heart, Pulse
from foldahead_worker.metrics import Metrics
from foldahead_worker.preparing import ParentGone, prepare
from foldahead_worker.reporting import Reporter
from foldahead_worker.store import Store, StoreError
from foldahead_worker.store.leases import Leased, lease
from foldahead_worker.store.spend import Reserved, reserve
from foldahead_worker.store.summaries import new_summary
from foldahead_worker.summarizers.protocol import (
    Cost,
    Forecast,
    Interrupted,
    Span,
    Summarizer,
    SummarizerError,
)
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.verified import Rejected, summarise_verified

VALIDATION_PAUSE_MS = 60_000
NO_KEY_PAUSE_S = 30.0
REDIS_PAUSE_S = 2.0
PROBE_PAUSE_S = 5.0

SummarizerOf = Callable[[SummaryRequest], Summarizer | None]
"""The summariser for a request, or None where its workspace has no account at the model's provider."""


class Worker:
    """Does jobs, many at once from many threads. Holds no state of any job."""

    def __init__(
        self,
        *,
        owner: str,
        store: Store,
        switchboard: Switchboard,
        summarizers: Mapping[SummaryKind, SummarizerOf],
        call_deadline_s: float,
        heartbeat_every_s: float = HEARTBEAT_EVERY_S,
        gate: Gate | None = None,
        metrics: Metrics | None = None,
        day_budget_picodollars: int | None = None,
    ) -> None:
        """`summarizers` are the kinds of jobs that this worker takes; `gate` is needed where one asks a provider.

        `day_budget_picodollars`: what the summaries of a workspace may cost on one day; None: no limit.
        """
        self._owner = owner
        self._store = store
        self._switchboard = switchboard
        self._summarizers = summarizers
        self._deadline_s = call_deadline_s
        self._day_budget_picodollars = day_budget_picodollars
        self._gate = gate
        self._heart = Heart(store, heartbeat_every_s)
        self._metrics = metrics or Metrics()
        self._reporter = Reporter(store, switchboard, self._metrics)
        self.stopping = threading.Event()
        """Set at the first SIGTERM: no new lease, and what runs is handed back."""

    def run_one(self, prefer_job_id: int | None = None) -> Done:
        """Do the best due job, usually the one that the wake-up names."""
        if self.stopping.is_set():
            return Done(outcome="nothing", reason="stopping")
        leased = lease(
            self._store,
            self._owner,
            now_ms(),
            prefer_job_id=prefer_job_id,
            kinds=tuple(self._summarizers),
            stopped_workspaces=self._gate.stopped_workspaces() if self._gate else (),
        )
        if leased is None:
            return Done(outcome="nothing")
        self._reporter.leased(leased)
        with self._heart.hold(leased) as pulse:
            job = _Job(leased, Ending(self._store, self._switchboard, leased, self._reporter), pulse)
            try:
                return self._do(job)
            except StoreError:
                raise  # the row cannot be written either: the lease dies, and its attempt counts
            except Exception as error:  # noqa: BLE001 - whatever else it is, it is this job's
                if is_everyones(error):
                    return job.ending.put_off("redis_away", REDIS_PAUSE_S)
                self._metrics.set_aside("work")
                return job.ending.broke(error)

    def _do(self, job: "_Job") -> Done:
        request = job.leased.request
        if job.leased.found is not None:
            return job.ending.committed(job.leased.found, Cost(), cache_hit=True)
        summarizer = self._summarizers[request.kind](request)
        if summarizer is None:
            return job.ending.put_off("no_key", NO_KEY_PAUSE_S)
        try:
            span = prepare(self._store, self._switchboard, request, job.leased.waiters)
            if span is None:
                return job.ending.needs_bodies()
            forecast = summarizer.forecast(span)
        except ParentGone:
            return job.ending.failed("adapter_error", "ParentGone", "the earlier summary is gone", Cost())
        except SummarizerError as error:
            return job.ending.failed("adapter_error", _name_of(error), safe_message(error), Cost())
        admission = self._admit(summarizer, request, forecast)
        if not admission.granted:
            return job.ending.put_off(f"provider_{admission.why}", admission.wait_s)
        refusal = self._reserve(job, forecast)
        if refusal is not None:
            return refusal
        return self._call(job, summarizer, structs.replace(span, prompts=forecast.prompts), admission)

    def _admit(self, summarizer: Summarizer, request: SummaryRequest, forecast: Forecast) -> Admission:
        if self._gate is None or not summarizer.account:
            return Admission(granted=True)
        admission = self._gate.admit(summarizer.account, request.model, forecast)
        self._metrics.breaker(summarizer.account, admission.why == "open")
        return admission

    def _reserve(self, job: "_Job", forecast: Forecast) -> Done | None:
        """Reserve what the calls may cost; the end of the job when they may not be made."""
        if forecast.picodollars == 0:
            return None
        reserved = self._reserved(job, forecast)
        if reserved is None:
            return job.ending.done("lost")
        # The first seed: soft trigger and budget gone, skip silently; the hard cap opens the job again.
        return None if reserved.granted else job.ending.skipped("budget_exhausted", Cost())

    def _may_retry(self, job: "_Job", summarizer: Summarizer, span: Span) -> bool:
        """Whether a second answer may be asked for. It is rare: reserved with every first one, it would keep out what
        the budget covers."""
        try:
            forecast = summarizer.forecast(span)
        except SummarizerError:
            return False
        if forecast.picodollars == 0:
            return True
        reserved = self._reserved(job, forecast)
        return reserved is not None and reserved.granted

    def _reserved(self, job: "_Job", forecast: Forecast) -> Reserved | None:
        leased, day = job.leased, self._day_budget_picodollars
        reserved = reserve(self._store, leased.job_id, leased.token, forecast.picodollars, now_ms(), day)
        if reserved is not None and reserved.granted and reserved.over_budget:
            job.ending.tell_over_budget()
        return reserved

    def _call(self, job: "_Job", summarizer: Summarizer, span: Span, admission: Admission) -> Done:
        span_tokens = sum(map(estimate, span.messages)) + estimate_text(span.parent_text)
        job.ending.tell_started(span_tokens)
        check = _Leash(self.stopping, job.pulse, self._deadline_s)
        try:
            result = summarise_verified(
                summarizer, span, span_tokens, check, lambda tighter: self._may_retry(job, summarizer, tighter)
            )
        except Interrupted as stop:
            return self._interrupted(job, summarizer, admission, stop)
        except SummarizerError as error:
            return self._provider_failed(job, summarizer, admission, error)
        if isinstance(result, Rejected):
            reopens_at_ms = now_ms() + VALIDATION_PAUSE_MS
            return job.ending.failed(
                "validation_failed",
                "ValidationFailed",
                result.reason,
                result.cost,
                reopens_at_ms=reopens_at_ms,
            )
        summary = new_summary(
            job.leased.request,
            text=result.text,
            block=result.block,
            span_tokens=span_tokens,
            summary_tokens=estimate_text(result.text),
            cost_picodollars=result.cost.picodollars,
            now_ms=now_ms(),
        )
        return job.ending.committed(summary, result.cost, cache_hit=False)

    def _interrupted(self, job: "_Job", summarizer: Summarizer, admission: Admission, stop: Interrupted) -> Done:
        if admission.is_probe and self._gate is not None:
            self._gate.report(summarizer.account, job.leased.request.model, "given_up")
        match stop.reason:
            case "deadline":
                return job.ending.retried("DeadlineExceeded", "no answer in time", 0.0, stop.cost)
            case "unwanted":
                return job.ending.skipped("cancelled", stop.cost, reopens_at_ms=now_ms())
            case "lease_lost":
                return job.ending.done("lost")
            case _:
                return job.ending.handed_back(stop.cost)

    def _provider_failed(
        self, job: "_Job", summarizer: Summarizer, admission: Admission, error: SummarizerError
    ) -> Done:
        name, message = _name_of(error), safe_message(error)
        if error.stops_workspace and self._gate is not None:
            self._gate.stop(job.leased.request.workspace, summarizer.account, message)
            job.ending.tell_failed("adapter_error", name, message)
            return job.ending.put_off(name, 0.0, error.cost)
        if error.heals and admission.is_probe:
            # The job was sent ahead to find out; that it found nobody is no attempt of its own.
            return job.ending.put_off(name, max(error.retry_after_s, PROBE_PAUSE_S), error.cost)
        if error.heals:
            return job.ending.retried(name, message, error.retry_after_s, error.cost)
        return job.ending.failed("adapter_error", name, message, error.cost)


class _Job(Struct, frozen=True):
    """A leased job, and how it may end."""

    leased: Leased
    ending: Ending
    pulse: Pulse


class _Leash:
    """The `Check` of a job: stops its work when the worker goes, the time is up, or nobody wants it any more."""

    def __init__(self, stopping: threading.Event, pulse: Pulse, deadline_s: float) -> None:
        self._stopping = stopping
        self._pulse = pulse
        self._until_s = time.monotonic() + deadline_s

    def __call__(self, *, new_call: bool = False) -> None:
        if self._stopping.is_set():
            raise Interrupted("stopping")
        if time.monotonic() > self._until_s:
            raise Interrupted("deadline")
        if self._pulse.unwanted.is_set():
            raise Interrupted("unwanted")
        if new_call and self._pulse.lost.is_set():
            raise Interrupted("lease_lost")


def _name_of(error: SummarizerError) -> str:
    return error.code or (f"HTTP{error.status}" if error.status else type(error).__name__)
