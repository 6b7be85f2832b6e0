"""Doing one job: lease, prepare, call, commit, deliver. The row is the truth at every step.

A worker that dies anywhere in here loses at most its lease: the sweeper gives the job to another, and an answer
that was stored is found, not paid for again.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from foldahead import keys
from foldahead.core.events import FailureMode, safe_message
from foldahead.core.messages import Message
from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead.core.summarise import with_index
from foldahead.core.tokens import estimate, estimate_text
from foldahead.core.verify import verify_text
from foldahead_worker.chain import checked_messages, first_message
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import deliver, give_up
from foldahead_worker.reporting import Reporter, completed, failed, started
from foldahead_worker.store import Store
from foldahead_worker.store.commits import commit
from foldahead_worker.store.jobs import job_still_wanted
from foldahead_worker.store.leases import (
    Leased,
    fail,
    hand_back,
    heartbeat,
    lease,
    needs_bodies,
    retry_later,
)
from foldahead_worker.store.spend import Bill, reserve
from foldahead_worker.store.summaries import Summary, find_summary, new_summary
from foldahead_worker.store.waiters import Waiter, waiters_of
from foldahead_worker.summarizers.protocol import (
    Answer,
    Interrupted,
    Span,
    Summarizer,
    SummarizerError,
)
from foldahead_worker.switchboard import Switchboard

HEARTBEAT_EVERY_S = 2.0
BODIES_PAUSE_MS = 1_000
"""A job without bodies opens again after this: by then the agent has been asked and may have sent them."""
FIRST_BACKOFF_S = 2.0
MOST_BACKOFF_S = 300.0
VALIDATION_PAUSE_MS = 60_000

Outcome = Literal["nothing", "done", "cache_hit", "needs_bodies", "retry", "failed", "handed_back", "lost"]
_log = logging.getLogger("foldahead.work")


class Done(Struct, frozen=True, kw_only=True):
    """What became of one wake-up, for Flower: which job, of which workspace, how it ended. Never content."""

    outcome: Outcome
    job_id: int = 0
    workspace: str = ""
    session: str = ""
    kind: str = ""
    reason: str = ""


class Verified(Struct, frozen=True, kw_only=True):
    """An answer that may be stored."""

    text: str
    block: bytes
    bill: Bill


class Rejected(Struct, frozen=True, kw_only=True):
    """Two answers in a row that may not be stored."""

    reason: str
    bill: Bill


class Worker:
    """Does jobs, many at once from many threads. Holds no state of any job."""

    def __init__(
        self,
        *,
        owner: str,
        store: Store,
        switchboard: Switchboard,
        summarizers: dict[SummaryKind, Callable[[str], Summarizer | None]],
        call_deadline_s: float,
    ) -> None:
        """`summarizers` gives, for a kind, the summariser of a workspace, or None where it has no key."""
        self._owner = owner
        self._store = store
        self._switchboard = switchboard
        self._summarizers = summarizers
        self._deadline_s = call_deadline_s
        self._reporter = Reporter(store, switchboard)
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
        )
        if leased is None:
            return Done(outcome="nothing")
        with _Heart(self._store, leased) as heart:
            return self._do(leased, heart)

    def _do(self, leased: Leased, heart: "_Heart") -> Done:
        request = leased.request
        waiters = waiters_of(self._store, request.workspace, request.cache_key)
        found = find_summary(self._store, request.workspace, request.cache_key)
        if found is not None:
            return self._commit(leased, waiters, found, Bill(), cache_hit=True, begun_s=time.monotonic())
        summarizer = self._summarizers[request.kind](request.workspace)
        if summarizer is None:
            return self._fail(leased, waiters, "adapter_error", "no_key", "no key for this workspace", Bill())
        span = self._prepare(request, waiters)
        if span is None:
            return self._ask_for_bodies(leased, waiters)
        return self._call(leased, waiters, summarizer, span, heart)

    # -- prepare -----------------------------------------------------------------------------------------------------

    def _prepare(self, request: SummaryRequest, waiters: tuple[Waiter, ...]) -> Span | None:
        """The span's messages, proved by the head, from any session that waits; None when none has them."""
        parent_text = ""
        if request.parent:
            parent = find_summary(self._store, request.workspace, request.parent)
            if parent is None:
                return None
            parent_text = parent.summary_text
        for waiter in waiters:
            messages = self._messages_of(request, keys.member(waiter.workspace, waiter.session))
            if messages is not None:
                return Span(request=request, messages=messages, parent_text=parent_text)
        return None

    def _messages_of(self, request: SummaryRequest, member: str) -> tuple[Message, ...] | None:
        first = first_message(request)
        start, head_before, bodies = self._switchboard.bodies(member, first, request.end)
        if start != first or len(bodies) < request.end - first:
            return None
        messages = checked_messages(request, head_before, bodies)
        if messages is None:
            self._switchboard.discard_bodies(member)
        return messages

    def _ask_for_bodies(self, leased: Leased, waiters: tuple[Waiter, ...]) -> Done:
        request = leased.request
        needs_bodies(
            self._store, leased.job_id, leased.token, now_ms(), reopens_at_ms=now_ms() + BODIES_PAUSE_MS
        )
        give_up(self._store, self._switchboard, request.workspace, request.cache_key, "needs_bodies", waiters)
        return _done("needs_bodies", leased, waiters)

    # -- call --------------------------------------------------------------------------------------------------------

    def _call(
        self, leased: Leased, waiters: tuple[Waiter, ...], summarizer: Summarizer, span: Span, heart: "_Heart"
    ) -> Done:
        begun_s = time.monotonic()
        span_tokens = sum(map(estimate, span.messages)) + estimate_text(span.parent_text)
        refusal = self._reserve(leased, waiters, summarizer, span)
        if refusal is not None:
            return refusal
        self._reporter.report(
            leased.request.workspace, [started(waiter, leased.request, span_tokens) for waiter in waiters]
        )
        check = self._check_of(leased, heart, begun_s + self._deadline_s)
        try:
            result = summarise_verified(summarizer, span, span_tokens, check)
        except Interrupted as stop:
            return self._interrupted(leased, waiters, stop)
        except SummarizerError as error:
            return self._provider_failed(leased, waiters, summarizer, error)
        if isinstance(result, Rejected):
            return self._fail(
                leased, waiters, "validation_failed", "ValidationFailed", result.reason, result.bill,
                reopens_at_ms=now_ms() + VALIDATION_PAUSE_MS,
            )
        summary = new_summary(
            leased.request,
            text=result.text,
            block=result.block,
            span_tokens=span_tokens,
            summary_tokens=estimate_text(result.text),
            cost_picodollars=result.bill.picodollars,
            now_ms=now_ms(),
        )
        return self._commit(leased, waiters, summary, result.bill, cache_hit=False, begun_s=begun_s)

    def _reserve(
        self, leased: Leased, waiters: tuple[Waiter, ...], summarizer: Summarizer, span: Span
    ) -> Done | None:
        """Reserve what the call may cost; the end of the job when it may not be made."""
        upper = summarizer.upper_picodollars(span)
        if upper == 0:
            return None
        reserved = reserve(self._store, leased.job_id, leased.token, upper, now_ms())
        if reserved is None:
            return _done("lost", leased, waiters)
        if not reserved.granted:
            # The first seed: soft trigger and budget gone, skip silently; the hard cap opens the job again.
            fail(self._store, leased.job_id, leased.token, now_ms(), reason="budget_exhausted")
            give_up(
                self._store,
                self._switchboard,
                leased.request.workspace,
                leased.request.cache_key,
                "budget_exhausted",
                waiters,
            )
            return _done("failed", leased, waiters, "budget_exhausted")
        if reserved.over_budget:
            self._tell_failed(leased, waiters, "budget_exhausted_forced", "BudgetExhausted", "forced call runs anyway")
        return None

    def _check_of(self, leased: Leased, heart: "_Heart", deadline_s: float) -> Callable[[], None]:
        def check() -> None:
            if self.stopping.is_set():
                raise Interrupted("stopping")
            if heart.lost.is_set():
                raise Interrupted("lease_lost")
            if time.monotonic() > deadline_s:
                raise Interrupted("deadline")
            if heart.unwanted.is_set():
                raise Interrupted("unwanted")

        return check

    def _interrupted(self, leased: Leased, waiters: tuple[Waiter, ...], stop: Interrupted) -> Done:
        match stop.reason:
            case "deadline":
                return self._retry(leased, waiters, "DeadlineExceeded", "no answer in time", 0.0, None)
            case "unwanted":
                fail(self._store, leased.job_id, leased.token, now_ms(), reason="cancelled", reopens_at_ms=now_ms())
                return _done("failed", leased, waiters, "cancelled")
            case "lease_lost":
                return _done("lost", leased, waiters)
            case _:
                hand_back(self._store, leased.job_id, leased.token, now_ms())
                return _done("handed_back", leased, waiters)

    def _provider_failed(
        self, leased: Leased, waiters: tuple[Waiter, ...], summarizer: Summarizer, error: SummarizerError
    ) -> Done:
        usage = error.usage
        cost = summarizer.picodollars(Answer(text="", usage=usage))
        bill = Bill(picodollars=cost, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        name = error.code or (f"HTTP{error.status}" if error.status else type(error).__name__)
        if error.heals:
            return self._retry(leased, waiters, name, safe_message(error), error.retry_after_s, bill)
        return self._fail(leased, waiters, "adapter_error", name, safe_message(error), bill)

    def _retry(
        self,
        leased: Leased,
        waiters: tuple[Waiter, ...],
        error_class: str,
        message: str,
        retry_after_s: float,
        bill: Bill | None,
    ) -> Done:
        """Due again later, in its row; nobody sleeps. Without an attempt left it has failed."""
        wait_s = max(retry_after_s, min(MOST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (leased.attempts - 1)))
        state = retry_later(
            self._store,
            leased.job_id,
            leased.token,
            now_ms(),
            not_before_ms=now_ms() + int(wait_s * 1000),
            reason=error_class,
            bill=bill,
        )
        if state != "failed":
            return _done("retry" if state else "lost", leased, waiters, error_class)
        self._tell_failed(leased, waiters, "adapter_error", error_class, message)
        request = leased.request
        give_up(self._store, self._switchboard, request.workspace, request.cache_key, error_class, waiters)
        return _done("failed", leased, waiters, error_class)

    # -- commit ------------------------------------------------------------------------------------------------------

    def _commit(
        self,
        leased: Leased,
        waiters: tuple[Waiter, ...],
        summary: Summary,
        bill: Bill,
        *,
        cache_hit: bool,
        begun_s: float,
    ) -> Done:
        committed = commit(self._store, leased.job_id, leased.token, summary, now_ms(), bill)
        if not committed.finished or committed.summary is None:
            return _done("lost", leased, waiters)
        told = deliver(self._store, self._switchboard, committed.summary, committed.waiters)
        latency_ms = int((time.monotonic() - begun_s) * 1000)
        events = [
            completed(waiter, committed.summary, cache_hit=cache_hit or at > 0, latency_ms=latency_ms)
            for at, waiter in enumerate(committed.waiters)
            if waiter.session in told
        ]
        self._reporter.report(summary.workspace, list(events))
        return _done("cache_hit" if cache_hit else "done", leased, waiters)

    def _fail(
        self,
        leased: Leased,
        waiters: tuple[Waiter, ...],
        mode: FailureMode,
        error_class: str,
        message: str,
        bill: Bill,
        reopens_at_ms: int | None = None,
    ) -> Done:
        reopens = {} if reopens_at_ms is None else {"reopens_at_ms": reopens_at_ms}
        fail(
            self._store, leased.job_id, leased.token, now_ms(), reason=message, error_class=error_class, bill=bill, **reopens
        )
        self._tell_failed(leased, waiters, mode, error_class, message)
        request = leased.request
        give_up(self._store, self._switchboard, request.workspace, request.cache_key, error_class, waiters)
        return _done("failed", leased, waiters, error_class)

    def _tell_failed(
        self, leased: Leased, waiters: tuple[Waiter, ...], mode: FailureMode, error_class: str, message: str
    ) -> None:
        _log.warning("job %d: %s %s: %s", leased.job_id, mode, error_class, message)
        self._reporter.report(
            leased.request.workspace, [failed(waiter, mode, error_class, message) for waiter in waiters]
        )


def summarise_verified(
    summarizer: Summarizer, span: Span, span_tokens: int, check: Callable[[], None]
) -> Verified | Rejected:
    """An answer that passed verification, with the mechanical index where it is a model's text.

    One retry with a tighter instruction, taken only if it is smaller than the span and than the first attempt.
    """
    picodollars = input_tokens = output_tokens = 0
    first_tokens: int | None = None
    reason = ""
    for tighter in (False, True):
        answer = summarizer.summarise(_tightened(span, tighter), check)
        picodollars += summarizer.picodollars(answer)
        input_tokens += answer.usage.input_tokens
        output_tokens += answer.usage.output_tokens
        bill = Bill(picodollars=picodollars, input_tokens=input_tokens, output_tokens=output_tokens)
        verdict = verify_text(answer.text, span_tokens, answer.stop_reason)
        tokens = estimate_text(answer.text)
        if verdict.ok and (first_tokens is None or tokens < first_tokens):
            text = with_index(answer.text, span.messages) if summarizer.kind == "text" else answer.text
            return Verified(text=text, block=answer.block, bill=bill)
        reason = reason or verdict.reason or "not_smaller"
        first_tokens = tokens
        if summarizer.kind == "extract":
            break
    return Rejected(reason=reason, bill=bill)


def _tightened(span: Span, tighter: bool) -> Span:
    return Span(
        request=span.request,
        messages=span.messages,
        parent_text=span.parent_text,
        envelope=span.envelope,
        tighter=tighter,
    )


def _done(outcome: Outcome, leased: Leased, waiters: tuple[Waiter, ...], reason: str = "") -> Done:
    return Done(
        outcome=outcome,
        job_id=leased.job_id,
        workspace=leased.request.workspace,
        session=waiters[0].session if waiters else "",
        kind=leased.request.kind,
        reason=reason,
    )


class _Heart:
    """Beats for a lease from a thread of its own while the job is done; notices that it was lost or is not wanted."""

    def __init__(self, store: Store, leased: Leased) -> None:
        self._store = store
        self._leased = leased
        self._over = threading.Event()
        self.lost = threading.Event()
        self.unwanted = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heart-{leased.job_id}", daemon=True)

    def __enter__(self) -> "_Heart":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_EVERY_S):
            try:
                if not heartbeat(self._store, self._leased.job_id, self._leased.token):
                    self.lost.set()
                    return
                if not job_still_wanted(self._store, self._leased.job_id):
                    self.unwanted.set()
            except Exception as error:  # a heart must go on beating; the sweeper judges what it missed
                _log.warning("job %d: heartbeat failed: %s", self._leased.job_id, type(error).__name__)
