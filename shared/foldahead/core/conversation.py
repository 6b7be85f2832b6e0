"""One conversation as foldahead knows it: its ledger, its records, what is ready for it. No clock, no I/O.

The agent's session, the one-shot `compact` and `LocalSession` are thin edges around this class, so that the same
core decides in all of them.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct

from foldahead.core import bulletin
from foldahead.core.ahead import Foresight
from foldahead.core.calibration import calibrate, overhead_tokens
from foldahead.core.cut import Cut, current_cut
from foldahead.core.dialect import Dialect, role_of
from foldahead.core.growth import Growth
from foldahead.core.ledger import Ledger
from foldahead.core.plan import Plan, Scene, make_plan
from foldahead.core.policy import Policy
from foldahead.core.record import Record
from foldahead.core.scene import window_exceeded
from foldahead.core.standing import Calibration, Ready, Standing
from foldahead.core.tracked import TrackedHistory
from foldahead.core.view import Active, active_records, compacted, joined, kept_messages, made_from
from foldahead.core.weigh import Counter, pending_estimate, whole_estimate
from foldahead.errors import InvalidHistory

MOST_CONTEXT_TOKENS = 1_000_000_000
"""A count beyond this is no context size of any model."""
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
    """The state of one session on the agent's side. Not thread-safe: one caller at a time.

    `guard` is a lock where `foresight` is advanced on another thread.
    """

    def __init__(
        self, dialect: Dialect, policy: Policy, guard: AbstractContextManager[Any] | None = None
    ) -> None:
        self.dialect = dialect
        self.policy = policy
        self.records: list[Record] = []
        self.ready: dict[str, Ready] = {}
        self.refused: set[str] = set()
        """Cache keys of summaries that a provider refused: not tried again."""
        self.calibration = Calibration()
        self.growth = Growth()
        self.model = ""
        self.stalled = 0
        """Summaries in a row that would have had no effect."""
        self.plan = Plan()
        self._guard = guard
        self._follow(TrackedHistory(dialect))
        self._active = Active()
        self._front: tuple[tuple[int, str], list[Any]] | None = None
        self._policy_pins: set[int] = set()
        self._without_effect: set[str] = set()
        self._doubted = False
        self._records_ahead_end: int | None = None
        """Where the first record ends that is of a longer history than was seen so far."""

    def _follow(self, history: TrackedHistory) -> None:
        self._history = history
        self.foresight = Foresight(self.dialect, history.messages, self._guard)

    def guard_with(self, guard: AbstractContextManager[Any]) -> None:
        """Use another lock from now on; what was looked into ahead of time is looked into again."""
        self._guard = guard
        self._follow(self._history)

    # -- the history -----------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The account of the history as last observed."""
        return self._history.ledger

    def observe(self, history: list[Any]) -> bool:
        """Take what is new in a history; False when it is not the one seen before with something added.

        Looks at the ends of the list and at what records touch; an edit elsewhere is found at the next swap, or when
        another process has recorded something of the edited history. Raises `InvalidHistory`.
        """
        continues = self._history.continued_by(history, self._active.touched)
        if continues and self._doubted:
            continues = self._history.unedited(history, len(self._history))
        self._doubted = False
        if not continues:
            self._start_over(history)
            return False
        self._take(history)
        if self._records_ahead_end is not None and len(self.ledger) >= self._records_ahead_end:
            self._refresh()
        return True

    def observe_afresh(self, history: list[Any]) -> None:
        """Take a whole history anew: one of its messages was changed in place. Raises `InvalidHistory`."""
        self._start_over(history)

    def _take(self, history: list[Any]) -> None:
        before = len(self._history)
        try:
            self._history.take(history)
        finally:
            self._pin_by_policy(before)

    def _start_over(self, history: list[Any]) -> None:
        self._follow(TrackedHistory(self.dialect))
        self._policy_pins = set()
        try:
            self._take(history)
        finally:
            self._refresh()

    def _pin_by_policy(self, since: int) -> None:
        messages, predicate = self._history.messages, self.policy.predicate()
        if predicate is None:
            self._policy_pins.update(at for at in self.policy.pinned_indices() if since <= at < len(messages))
        else:
            self._policy_pins.update(at for at in range(since, len(messages)) if predicate(messages[at]))

    def pin(self, message: Any, now_ms: int = 0) -> None:
        """Keep a message in the view from now on. Raises ValueError when it is not in the history seen so far."""
        index = self._history.index_of(message)
        if index is None:
            raise ValueError("pin: expected a message of the history last given to view, request or publish")
        if index not in self._active.asked:
            heads = self.ledger.heads
            self.records.append(
                Record(
                    kind="pinned",
                    start=index,
                    end=index + 1,
                    head_start=heads[index].hex(),
                    head_end=heads[index + 1].hex(),
                    reason="pinned",
                    created_at_ms=now_ms,
                )
            )
            self._refresh()

    def seen(self) -> list[Any]:
        """The messages of the history as last observed."""
        return list(self._history.messages)

    # -- what is known of it ---------------------------------------------------------------------------------------

    @property
    def active(self) -> Active:
        """The records that count for the history as it is."""
        return self._active

    @property
    def degraded(self) -> str:
        """What the view stands on where it would heal, `extract` or `truncated`; else empty."""
        return self._active.degraded

    @property
    def has_ready(self) -> bool:
        """Whether a summary is at hand that reaches beyond what the view shows."""
        return any(ready.end > self._active.end for ready in self._known().usable)

    def add_records(self, records: Iterable[Record]) -> bool:
        """Take records made elsewhere (another process, before a restart); True when some were new."""
        known = {record.identity for record in self.records}
        new = [record for record in records if record.identity not in known]
        if new:
            self.records.extend(new)
            self._doubt(new)
            self._refresh()
        return bool(new)

    def replace_records(self, records: list[Record]) -> None:
        """Take all records in the order that Redis has them, so that every process has the same."""
        known = [record.identity for record in self.records]
        if [record.identity for record in records] != known:
            seen = set(known)
            self._doubt([record for record in records if record.identity not in seen])
            self.records = list(records)
            self._refresh()

    def _doubt(self, new: list[Record]) -> None:
        """What another process recorded does not fit: this history may have been edited in place."""
        self._doubted |= any(
            record.end <= len(self.ledger) and not made_from(record, self.ledger) for record in new
        )

    def add_ready(self, ready: Ready) -> None:
        """Take a summary that is ready for this session."""
        if ready.cache_key in self.refused or ready.cache_key in self.ready:
            return
        self.ready[ready.cache_key] = ready
        while len(self.ready) > MOST_READY:
            del self.ready[min(self.ready, key=self._usefulness)]

    def _usefulness(self, cache_key: str) -> tuple[bool, int]:
        """Summaries of another branch first, then those that end earliest."""
        ready, heads = self.ready[cache_key], self.ledger.heads
        return ready.end < len(heads) and heads[ready.end] == ready.head_end, ready.end

    def reject(self, now_ms: int = 0) -> Record | None:
        """Take back all that makes the view differ, and put the summary in it in quarantine. What was taken back."""
        active, heads = self._active, self.ledger.heads
        refused = [(span.start, span.end, span.cache_key) for span in active.spans]
        if active.touched > active.end:
            refused.append((0, active.touched, None))
        for start, end, cache_key in refused:
            withdrawal = Record(
                kind="swapped",
                start=start,
                end=end,
                head_start=heads[start].hex(),
                head_end=heads[end].hex(),
                cache_key=cache_key,
                reason="rejected",
                created_at_ms=now_ms,
            )
            self.records.append(withdrawal)
        self._refresh()
        return active.spans[-1] if active.spans else None

    def _refresh(self) -> None:
        self._active = active_records(self.records, self.ledger)
        length = len(self.ledger)
        self._records_ahead_end = min((record.end for record in self.records if record.end > length), default=None)
        self._front = None
        self.refused |= {record.cache_key for record in self.records if record.withdraws and record.cache_key}
        self.refused |= self._active.refused
        for cache_key in self.refused & self.ready.keys():
            del self.ready[cache_key]

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
        self._apply(self.plan)
        return self.shown(history)

    def preview(self, history: list[Any], moment: Moment) -> Plan:
        """The plan of a history with no summary and no way down, applied if it is an elision or a mend alone."""
        self.plan = self._planned(history, moment, may_degrade=False)
        self._apply(self.plan)
        return self.plan

    def shown(self, history: list[Any]) -> list[Any]:
        """The view under the records as they are, of a history that has been observed."""
        active = self._active
        if not active.spans and not active.edits:
            return history
        kept = kept_messages(history, active, self.dialect)
        next_role = role_of(kept[0]) if kept else ""
        made_of = (self._history.revision, next_role)
        if self._front is None or self._front[0] != made_of:
            self._front = (made_of, compacted(history, active, self.dialect, next_role))
        return joined(self._front[1], kept, self.dialect)

    def _quiet_plan(self, moment: Moment) -> Plan | None:
        """The plan of an ordinary turn, without a look at anything that grows; None when there may be more to do."""
        asked = moment.forced or moment.target_tokens is not None or moment.counter is not None
        mended_to = max(self._active.end, self._active.withdrawn)
        faulty = any(fault.index >= mended_to for fault in reversed(self.ledger.faults))
        if asked or faulty or self.policy.age_observations or self.degraded or (moment.cold and self.ready):
            return None
        known = self._known()
        tail = known.tail
        pending = int(known.slope * pending_estimate(self.ledger, self._active, tail))
        if pending >= self.policy.threshold or window_exceeded(self.ledger, self._scene(moment), tail, pending):
            return None
        return Plan(reason="below_threshold", active=self._active, tokens_before=pending, tokens_after=pending)

    def _planned(self, history: list[Any], moment: Moment, may_degrade: bool = True) -> Plan:
        plan = self._make_plan(history, moment, may_degrade)
        reach = max((record.end for record in plan.records), default=0)
        if reach and not self._history.unedited(history, reach):
            self._start_over(history)
            plan = self._make_plan(history, moment, may_degrade)
        return plan

    def _make_plan(self, history: list[Any], moment: Moment, may_degrade: bool) -> Plan:
        return make_plan(history, self.ledger, self._scene(moment, may_degrade), self.foresight.text)

    def _scene(self, moment: Moment, may_degrade: bool = True) -> Scene:
        return Scene(
            policy=self.policy,
            records=tuple(self.records),
            active=self._active,
            ready=tuple(self.ready.values()),
            slope=self.calibration.slope,
            model=self.model,
            pinned=self._active.asked | self._policy_pins,
            cold=moment.cold,
            forced=moment.forced,
            may_degrade=may_degrade,
            target_tokens=moment.target_tokens,
            counter=moment.counter,
            overhead_tokens=overhead_tokens(self.calibration),
            now_ms=moment.now_ms,
        )

    def _apply(self, plan: Plan) -> None:
        if plan.records:
            self.records.extend(plan.records)
            self._refresh()
        if plan.summary is not None:
            self.stalled, self._without_effect = 0, set()
            watermark = self._active.end
            self.ready = {key: ready for key, ready in self.ready.items() if ready.end > watermark}
        elif plan.reason == "not_smaller":
            self._note_without_effect()

    def _note_without_effect(self) -> None:
        """A summary of all that can be compacted is ready and would not help: counted once."""
        end = self.cut().end
        useless = {ready.cache_key for ready in self._known().usable if ready.end >= end} - self._without_effect
        if useless:
            self._without_effect |= useless
            self.stalled += 1

    # -- what is told to the servers -------------------------------------------------------------------------------

    def note_usage(self, usage: Any) -> bool:
        """Learn from what the provider counted for the last request and its answer, which the ledger holds.

        False: the usage cannot be read, and nothing was learned.
        """
        try:
            context = self.dialect.context_tokens(usage)
        except (InvalidHistory, TypeError, ValueError, AttributeError):
            return False
        if context is not None and context > MOST_CONTEXT_TOKENS:
            return False
        if context is not None:
            self.calibration = calibrate(self.calibration, context, whole_estimate(self.ledger, self._active))
        return True

    def total_tokens(self) -> int:
        """Calibrated tokens of the whole view, system and tools included where they are known."""
        return self._known().total_tokens

    def cut(self) -> Cut:
        """The span that a summary could stand for now."""
        return current_cut(self.ledger, self.policy, self._active, self._known().tail)

    def standing(self, turn_id: str | None = None) -> Standing:
        """How the session stands: counts and heads for the servers."""
        return bulletin.standing_of(self._known(), turn_id)

    def wants_work(self, standing: Standing) -> bool:
        """Whether servers should make a summary: past the start, and none that is ready would do at the threshold."""
        return bulletin.wants_work(self._known(), standing)

    def _known(self) -> bulletin.Known:
        return bulletin.Known(
            ledger=self.ledger,
            policy=self.policy,
            active=self._active,
            ready=tuple(self.ready.values()),
            calibration=self.calibration,
            growth=self.growth,
            model=self.model,
            stalled=self.stalled,
            policy_pins=frozenset(self._policy_pins),
        )
