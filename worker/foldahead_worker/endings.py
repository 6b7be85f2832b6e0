"""How a job ends, one method for each way: committed, failed, due again, put off, given back. Row, sessions,
events.

The row comes first: whoever lost the lease tells nobody anything.
"""

import logging
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import redis
from msgspec import Struct

from foldahead.core.events import FailureMode
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import deliver, give_up
from foldahead_worker.means import NATIVE_FAILED
from foldahead_worker.reporting import Reporter, completed, failed, started
from foldahead_worker.store import Store, StoreError
from foldahead_worker.store.commits import Committed, commit
from foldahead_worker.store.jobs import NEVER_MS
from foldahead_worker.store.leases import (
    Leased,
    fail,
    hand_back,
    needs_bodies,
    put_off,
    retry_later,
)
from foldahead_worker.store.summaries import Summary
from foldahead_worker.store.waiters import BLAMELESS
from foldahead_worker.summarizers.protocol import Cost
from foldahead_worker.switchboard import Switchboard
from foldahead_worker.verified import bill_of

BODIES_PAUSE_MS = 1_000
"""A job without bodies opens again after this: by then the agent has been asked and may have sent them."""
FIRST_BACKOFF_S = 2.0
MOST_BACKOFF_S = 300.0
COMMIT_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""A summary that was paid for is not thrown away because the database is away for a moment."""

Outcome = Literal["nothing", "done", "cache_hit", "needs_bodies", "retry", "put_off", "failed", "handed_back", "lost"]
Result = TypeVar("Result")
_log = logging.getLogger("foldahead.work")


class Done(Struct, frozen=True, kw_only=True):
    """What became of one wake-up, for Flower: which job, of which workspace, how it ended. Never content."""

    outcome: Outcome
    job_id: int = 0
    workspace: str = ""
    session: str = ""
    kind: str = ""
    reason: str = ""


class Ending:
    """The end of one job: made when it is leased, used once."""

    def __init__(
        self,
        store: Store,
        switchboard: Switchboard,
        leased: Leased,
        reporter: Reporter | None = None,
    ) -> None:
        self._store = store
        self._switchboard = switchboard
        self._reporter = reporter or Reporter(store, switchboard)
        self._leased = leased
        self._waiters = leased.waiters
        self._begun_s = time.monotonic()
        self._over_budget = False

    def tell_started(self, span_tokens: int) -> None:
        """Report that the work has begun."""
        request = self._leased.request
        self._reporter.report(request.workspace, [started(waiter, request, span_tokens) for waiter in self._waiters])

    def tell_failed(self, mode: FailureMode, error_class: str, message: str) -> None:
        """Report a failure to every waiter; the job may go on all the same."""
        _log.warning("job %d: %s %s: %s", self._leased.job_id, mode, error_class, message)
        events = [failed(waiter, mode, error_class, message) for waiter in self._waiters]
        self._reporter.report(self._leased.request.workspace, list(events))

    def tell_over_budget(self) -> None:
        """Report, once, that a forced call runs over its budget."""
        if not self._over_budget:
            self._over_budget = True
            self.tell_failed("budget_exhausted_forced", "BudgetExhausted", "the forced call runs anyway")

    def committed(self, summary: Summary, cost: Cost, *, cache_hit: bool) -> Done:
        """The summary is stored, the job done, every waiter told. A late answer is stored if its key is empty."""
        job_id, token = self._leased.job_id, self._leased.token
        done = _patiently(lambda: commit(self._store, job_id, token, summary, now_ms(), bill_of(cost)))
        if not done.finished or done.summary is None:
            return self.done("lost", "stored" if done.stored else "")
        self._reporter.committed(self._leased, done.summary, cache_hit=cache_hit)
        self._tell_committed(done, done.summary, cache_hit)
        return self.done("cache_hit" if cache_hit else "done")

    def failed(
        self,
        mode: FailureMode,
        error_class: str,
        message: str,
        cost: Cost,
        *,
        reopens_at_ms: int = NEVER_MS,
    ) -> Done:
        """No summary, and no retry by itself."""
        held = fail(
            self._store,
            self._leased.job_id,
            self._leased.token,
            now_ms(),
            reason=message,
            error_class=error_class,
            reopens_at_ms=reopens_at_ms,
            bill=bill_of(cost),
        )
        if not held:
            return self.done("lost")
        self.tell_failed(mode, error_class, message)
        self._give_up(error_class)
        return self.done("failed", error_class)

    def skipped(self, reason: str, cost: Cost, *, reopens_at_ms: int = NEVER_MS) -> Done:
        """No summary, and nothing is said of it: it was not wanted any more, or there is no budget for it."""
        held = fail(
            self._store,
            self._leased.job_id,
            self._leased.token,
            now_ms(),
            reason=reason,
            reopens_at_ms=reopens_at_ms,
            bill=bill_of(cost),
        )
        if not held:
            return self.done("lost")
        self._give_up(reason)
        return self.done("failed", reason)

    def broke(self, error: Exception) -> Done:
        """What nobody foresaw is tried again like an error that heals; the log says where it was raised.

        Not in which words: they may quote a conversation. Nor does anybody know what was billed by then.
        """
        name = type(error).__name__
        _log.error("job %d: unforeseen %s at %s", self._leased.job_id, name, _places_of(error))
        return self.retried(name, "unforeseen: the worker's log says where", 0.0, None)

    def retried(self, error_class: str, message: str, retry_after_s: float, cost: Cost | None) -> Done:
        """Due again later, in its row; nobody sleeps. Without an attempt left it has failed.

        `cost` None: what was reserved stands.
        """
        backoff_s = min(MOST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (self._leased.attempts - 1))
        state = retry_later(
            self._store,
            self._leased.job_id,
            self._leased.token,
            now_ms(),
            not_before_ms=now_ms() + int(max(retry_after_s, backoff_s) * 1000),
            reason=error_class,
            bill=None if cost is None else bill_of(cost),
        )
        if state != "failed":
            return self.done("retry" if state else "lost", error_class)
        self.tell_failed("adapter_error", error_class, message)
        self._give_up(error_class)
        return self.done("failed", error_class)

    def put_off(self, reason: str, wait_s: float, cost: Cost | None = None) -> Done:
        """Not now, through no fault of the job: due again later, and no attempt is spent."""
        held = put_off(
            self._store,
            self._leased.job_id,
            self._leased.token,
            now_ms(),
            not_before_ms=now_ms() + int(wait_s * 1000),
            reason=reason,
            bill=bill_of(cost or Cost()),
        )
        return self.done("put_off" if held else "lost", reason)

    def needs_bodies(self) -> Done:
        """The messages are not in Redis: the session is told, sends them, and asks again."""
        at_ms = now_ms()
        token = self._leased.token
        if not needs_bodies(self._store, self._leased.job_id, token, at_ms, reopens_at_ms=at_ms + BODIES_PAUSE_MS):
            return self.done("lost")
        self._give_up("needs_bodies")
        return self.done("needs_bodies")

    def handed_back(self, cost: Cost) -> Done:
        """The worker goes: another one takes the job, and no attempt is spent."""
        hand_back(self._store, self._leased.job_id, self._leased.token, now_ms(), bill_of(cost))
        return self.done("handed_back")

    def done(self, outcome: Outcome, reason: str = "") -> Done:
        """What the task says of the job."""
        request = self._leased.request
        return Done(
            outcome=outcome,
            job_id=self._leased.job_id,
            workspace=request.workspace,
            session=self._waiters[0].session if self._waiters else "",
            kind=request.kind,
            reason=reason,
        )

    def _tell_committed(self, done: Committed, summary: Summary, cache_hit: bool) -> None:
        try:
            told = deliver(self._store, self._switchboard, summary, done.waiters)
        except redis.RedisError as error:
            _log.warning("job %d: sessions are told later: %s", self._leased.job_id, type(error).__name__)
            return  # by the sweeper, which reports it too
        self._reporter.delivered(summary, [waiter for waiter in done.waiters if waiter.session in told])
        latency_ms = int((time.monotonic() - self._begun_s) * 1000)
        events = [
            completed(waiter, summary, cache_hit=cache_hit or at > 0, latency_ms=latency_ms)
            for at, waiter in enumerate(done.waiters)
            if waiter.session in told
        ]
        self._reporter.report(summary.workspace, list(events))

    def _give_up(self, reason: str) -> None:
        request = self._leased.request
        if request.kind == "native" and reason not in BLAMELESS:
            reason = f"{NATIVE_FAILED}{reason}"
        try:
            give_up(self._store, self._switchboard, request.workspace, request.cache_key, reason, self._waiters)
        except redis.RedisError as error:
            _log.warning("job %d: sessions are told later: %s", self._leased.job_id, type(error).__name__)


def _places_of(error: Exception) -> str:
    """Where an error came through, the innermost last: files and lines, nothing of what they worked on."""
    frames = traceback.extract_tb(error.__traceback__)
    return " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)


def _patiently(step: Callable[[], Result]) -> Result:
    for pause_s in COMMIT_PAUSES_S:
        try:
            return step()
        except StoreError as error:
            _log.warning("a summary is not stored yet: %s", type(error).__name__)
            time.sleep(pause_s)
    return step()
