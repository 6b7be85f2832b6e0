"""One conversation as foldahead knows it: its ledger, its records, what is ready for it. No clock, no I/O.

The agent's session, the one-shot `compact` and `LocalSession` are thin edges around this class, so that the same
core decides in all of them.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from foldahead.core.calibration import calibrate, overhead_tokens
from foldahead.core.cut import Cut, find_cut, tail_start
from foldahead.core.decide import offer_of
from foldahead.core.dialect import Dialect
from foldahead.core.extract import Extractor
from foldahead.core.fingerprint import fingerprint
from foldahead.core.growth import Growth
from foldahead.core.ledger import Ledger, bodies_of
from foldahead.core.plan import DEGRADED, Plan, Scene, make_plan
from foldahead.core.policy import Policy
from foldahead.core.record import Record
from foldahead.core.standing import Calibration, Ready, Shown, Standing
from foldahead.core.view import Active, active_records, build_view
from foldahead.core.weigh import Counter, pending_estimate

MOST_READY = 8
"""Summaries kept ready for one session."""


class Moment(Struct, frozen=True, kw_only=True):
    """What the edge knows and core cannot: the time, and the caller's room for this one view."""

    now_ms: int = 0
    cold: bool = False
    """The last request is longer ago than `cache_ttl_s`: the provider's prompt cache has run out."""
    target_tokens: int | None = None
    counter: Counter | None = None
    forced: bool = False


class Conversation:
    """The state of one session on the agent's side. Not thread-safe: one caller at a time."""

    def __init__(self, dialect: Dialect, policy: Policy) -> None:
        self.dialect = dialect
        self.policy = policy
        self.ledger = Ledger(dialect)
        self.records: list[Record] = []
        self.ready: dict[str, Ready] = {}
        self.refused: set[str] = set()
        """Cache keys of summaries that a provider or the plan refused: not tried again."""
        self.calibration = Calibration()
        self.growth = Growth()
        self.model = ""
        self.stalled = 0
        self.plan = Plan()
        self._seen: list[Any] = []
        self._prints: list[int | None] = []
        self._active = Active()
        self._front: list[Any] | None = None
        self._pinned: set[int] = set()
        self._extractor = Extractor()
        self._extracted = 0

    # -- the history -----------------------------------------------------------------------------------------------

    def observe(self, history: list[Any]) -> bool:
        """Take what is new in a history; False when it is not the one seen before with something added.

        Looks at the ends of the list, and by identity at what records touch; an edit elsewhere inside a message is
        found at the next swap. Raises `InvalidHistory`.
        """
        continues = self._continues(history)
        if not continues:
            self._start_over()
        for message in history[len(self._seen) :]:
            self.ledger.append(message)
            self._seen.append(message)
            self._prints.append(fingerprint(message))
            self._pin_by_policy(message)
        if not continues:
            self._refresh()
        return continues

    def _continues(self, history: list[Any]) -> bool:
        seen = self._seen
        count = len(seen)
        if not count:
            return True
        if len(history) < count or history[count - 1] != seen[count - 1] or history[0] != seen[0]:
            return False
        touched = self._active.touched
        return not touched or history[:touched] == seen[:touched]

    def _start_over(self) -> None:
        self.ledger = Ledger(self.dialect)
        self._seen, self._prints = [], []
        self._pinned = set()
        self._extractor, self._extracted = Extractor(), 0

    def _pin_by_policy(self, message: Any) -> None:
        index = len(self._seen) - 1
        predicate = self.policy.predicate()
        if predicate(message) if predicate else index in self.policy.pinned_indices():
            self._pinned.add(index)

    def pin(self, message: Any) -> None:
        """Keep a message in the view from now on. Raises ValueError when it is not in the history seen so far."""
        index = next((at for at, seen in enumerate(self._seen) if seen is message), None)
        if index is None:
            index = next((at for at, seen in enumerate(self._seen) if seen == message), None)
        if index is None:
            raise ValueError("pin: expected a message of the history last given to view, request or publish")
        self._pinned.add(index)

    def seen(self) -> list[Any]:
        """The messages of the history as last observed."""
        return list(self._seen)

    @property
    def extracted(self) -> int:
        """How many messages `extract` has looked into."""
        return self._extracted

    # -- what is known of it ---------------------------------------------------------------------------------------

    @property
    def active(self) -> Active:
        """The records that count for the history as it is."""
        return self._active

    @property
    def degraded(self) -> str:
        """What the view stands on where it would heal, `extract` or `truncated`; else empty."""
        return next((span.reason for span in self._active.spans if span.reason in DEGRADED), "") or ""

    def add_records(self, records: Iterable[Record]) -> bool:
        """Take records made elsewhere (another process, before a restart); True when some were new."""
        known = {record.identity for record in self.records}
        new = [record for record in records if record.identity not in known]
        self.records.extend(new)
        if new:
            self._refresh()
        return bool(new)

    def replace_records(self, records: list[Record]) -> None:
        """Take all records in the order that Redis has them, so that every process has the same."""
        if [record.identity for record in records] != [record.identity for record in self.records]:
            self.records = list(records)
            self._refresh()

    def add_ready(self, ready: Ready) -> None:
        """Take a summary that is ready for this session."""
        if ready.cache_key in self.refused or ready.cache_key in self.ready:
            return
        self.ready[ready.cache_key] = ready
        while len(self.ready) > MOST_READY:
            del self.ready[min(self.ready, key=lambda key: self.ready[key].end)]

    def reject(self) -> Record | None:
        """Take back all that makes the view differ, and put the summary in it in quarantine. What was taken back."""
        span = self._active.spans[-1] if self._active.spans else None
        end = self._active.touched
        if end:
            heads = self.ledger.heads
            withdrawal = Record(
                kind="swapped",
                start=0,
                end=end,
                head_start=heads[0].hex(),
                head_end=heads[end].hex(),
                cache_key=span.cache_key if span else None,
                reason="rejected",
                created_at_ms=len(self.records),
            )
            self.records.append(withdrawal)
        self._refresh()
        return span

    def _refresh(self) -> None:
        self.refused |= {record.cache_key for record in self.records if record.withdraws and record.cache_key}
        for cache_key in self.refused:
            self.ready.pop(cache_key, None)
        self._active = active_records(self.records, self.ledger)
        self._front = None

    # -- the view --------------------------------------------------------------------------------------------------

    def view(self, history: list[Any], moment: Moment) -> list[Any]:
        """What is sent in place of the history; the history itself when nothing is to be done.

        `plan` says what happened; its records have been appended.
        """
        self.observe(history)
        if self.policy.mode == "off":
            self.plan = Plan(reason="off")
            return history
        self.plan = self._quiet_plan(moment) or self._planned(history, moment)
        if self.policy.mode == "shadow":
            return history
        if self.plan.records:
            self._apply(self.plan)
        return self.shown(history)

    def preview(self, history: list[Any], moment: Moment) -> Plan:
        """The plan of a history with no summary and no way down, applied if it is an elision or a mend alone."""
        policy, self.policy = self.policy, msgspec.structs.replace(self.policy, on_hard_cap="unchanged")
        self.plan = self._planned(history, moment)
        self.policy = policy
        self._apply(self.plan)
        return self.plan

    def shown(self, history: list[Any]) -> list[Any]:
        """The view under the records as they are, of a history that has been observed."""
        active = self._active
        if not active.spans and not active.edits:
            return history
        if self.dialect.profile.alternates:
            return build_view(history, active, self.dialect)
        touched = active.touched
        if self._front is None:
            self._front = build_view(history[:touched], active, self.dialect)
        return self.dialect.limit_breakpoints([*self._front, *history[touched:]], 4)

    def _quiet_plan(self, moment: Moment) -> Plan | None:
        """The plan of an ordinary turn, without a look at anything that grows; None when there may be more to do."""
        loud = (
            moment.forced
            or moment.target_tokens is not None
            or moment.counter is not None
            or self.ledger.faults
            or self.policy.age_observations
            or self.degraded
            or (moment.cold and self.ready)
        )
        if loud:
            return None
        tail = tail_start(self.ledger, self.policy, self.calibration.slope)
        pending = int(self.calibration.slope * pending_estimate(self.ledger, self._active, tail))
        if pending >= self.policy.threshold or self._near_window():
            return None
        return Plan(reason="below_threshold", active=self._active, tokens_before=pending, tokens_after=pending)

    def _near_window(self) -> bool:
        return (
            self.policy.window_tokens is not None
            and self.total_tokens() * 2 > self.policy.window_tokens
        )

    def _planned(self, history: list[Any], moment: Moment) -> Plan:
        plan = self._make_plan(history, moment)
        spans = [record for record in plan.records if record.stands_for_span]
        if spans and not self._unedited(history, max(span.end for span in spans)):
            self._start_over()
            self.observe(history)
            self._refresh()
            plan = self._make_plan(history, moment)
        return plan

    def _make_plan(self, history: list[Any], moment: Moment) -> Plan:
        scene = Scene(
            policy=self.policy,
            records=tuple(self.records),
            active=self._active,
            ready=tuple(self.ready.values()),
            slope=self.calibration.slope,
            model=self.model,
            pinned=frozenset(self._pinned),
            cold=moment.cold,
            forced=moment.forced,
            target_tokens=moment.target_tokens,
            counter=moment.counter,
            overhead_tokens=overhead_tokens(self.calibration),
            now_ms=moment.now_ms,
        )
        return make_plan(history, self.ledger, scene, self.extract)

    def _unedited(self, history: list[Any], end: int) -> bool:
        """The re-hash of a span before it is swapped: an edit in place by the agent is noticed here.

        By fingerprint, and where one differs (a moved cache breakpoint, say) by the digests that count.
        """
        if all(
            kept is not None and kept == fingerprint(message)
            for kept, message in zip(self._prints[:end], history[:end], strict=True)
        ):
            return True
        return len(bodies_of(history, self.ledger, 0, end)) == end

    def _apply(self, plan: Plan) -> None:
        self.records.extend(plan.records)
        self._refresh()
        if plan.outcome == "swapped" and plan.summary is not None:
            self.stalled = 0
            watermark = self._active.end
            self.ready = {key: ready for key, ready in self.ready.items() if ready.end > watermark}

    def extract(self, end: int, budget_tokens: int) -> str:
        """The summary by rules of the first `end` messages."""
        self.prepare_extract(end)
        return self._extractor.text(end, budget_tokens)

    def prepare_extract(self, end: int) -> None:
        """Look into messages ahead of time, so that `extract` is quick when it is needed."""
        while self._extracted < min(end, len(self._seen)):
            index = self._extracted
            self._extractor.add(self.dialect.read(self._seen[index], index))
            self._extracted += 1

    # -- what is told to the servers -------------------------------------------------------------------------------

    def note_usage(self, usage: Any) -> None:
        """Learn from what the provider counted for the last request and its answer, which the ledger holds."""
        context = self.dialect.context_tokens(usage)
        if context is not None:
            self.calibration = calibrate(self.calibration, context, self._shown_estimate())

    def _shown_estimate(self) -> int:
        end = len(self.ledger)
        return self.ledger.tokens[self.ledger.stable_prefix_end()] + pending_estimate(self.ledger, self._active, end)

    def total_tokens(self) -> int:
        """Calibrated tokens of the whole view, system and tools included where they are known."""
        return int(self.calibration.slope * self._shown_estimate()) + overhead_tokens(self.calibration)

    def cut(self) -> Cut:
        """The span that a summary could stand for now."""
        start = 0 if self.policy.resummarise or self.degraded else self._active.end
        tail = tail_start(self.ledger, self.policy, self.calibration.slope)
        return find_cut(self.ledger, tail, start)

    def standing(self, turn_id: str | None = None) -> Standing:
        """How the session stands: counts and heads for the servers."""
        ledger, slope = self.ledger, self.calibration.slope
        tail = tail_start(ledger, self.policy, slope)
        pending = int(slope * pending_estimate(ledger, self._active, tail))
        cut = self.cut()
        return Standing(
            dialect=self.dialect.name,
            policy=msgspec.structs.replace(self.policy, pinned=()),
            messages=len(ledger),
            head=ledger.head,
            turns=len(ledger.turn_starts),
            turn_id=turn_id or str(len(ledger.turn_starts)),
            pending_tokens=pending,
            prefix_tokens=int(slope * ledger.tokens[ledger.stable_prefix_end()]) + overhead_tokens(self.calibration),
            tail_tokens=int(slope * ledger.span_tokens(tail, len(ledger))),
            growth_tokens=self.growth.tokens_per_turn,
            interval_s=self.growth.interval_s,
            calibration=self.calibration,
            model=self.model,
            offer=offer_of(ledger.heads, ledger.tokens, cut, slope),
            no_offer_reason=cut.reason,
            shown=self._newest_summary(),
            stalled=self.stalled,
            at_hard_cap=pending >= self.policy.hard_cap_tokens or bool(self.degraded),
        )

    def wants_work(self, standing: Standing) -> bool:
        """Whether servers should make a summary: past the start, and none that is ready would do at the threshold."""
        policy = self.policy
        if policy.mode == "off" or standing.offer is None:
            return False
        if standing.pending_tokens < policy.start_ratio * policy.threshold and not self.degraded:
            return False
        grown = max(0, policy.threshold - standing.pending_tokens)
        return not any(self._after(ready, standing) + grown <= policy.target_tokens for ready in self._usable())

    def _usable(self) -> list[Ready]:
        heads = self.ledger.heads
        return [ready for ready in self.ready.values() if ready.end < len(heads) and heads[ready.end] == ready.head_end]

    @property
    def has_ready(self) -> bool:
        """Whether a summary of this history is at hand that goes beyond what the view shows."""
        return any(ready.end > self._active.end for ready in self._usable())

    def _after(self, ready: Ready, standing: Standing) -> int:
        """Pending tokens if this summary stood in the view now."""
        tail = tail_start(self.ledger, self.policy, self.calibration.slope)
        rest = self.ledger.span_tokens(ready.end, tail) if tail > ready.end else 0
        return int(self.calibration.slope * (rest + ready.summary_tokens))

    def _newest_summary(self) -> Shown | None:
        """The parent of the next summary: what is ready beyond the view, else what the view shows."""
        usable = max(self._usable(), key=lambda ready: ready.end, default=None)
        if usable is not None and usable.end > self._active.end:
            return Shown(
                cache_key=usable.cache_key,
                start=usable.start,
                end=usable.end,
                head_end=usable.head_end,
                summary_tokens=usable.summary_tokens,
            )
        span = next((span for span in reversed(self._active.spans) if span.cache_key), None)
        if span is None or span.cache_key is None:
            return None
        shown = Active(spans=(span,))
        return Shown(
            cache_key=span.cache_key,
            start=span.start,
            end=span.end,
            head_end=bytes.fromhex(span.head_end),
            summary_tokens=int(self.calibration.slope * pending_estimate(self.ledger, shown, span.end)),
        )


