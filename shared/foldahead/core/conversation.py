"""One conversation as foldahead knows it: its ledger, its records, what is ready for it. No clock, no I/O.

The agent's session, the one-shot `compact` and `LocalSession` are thin edges around this class, so that the same
core decides in all of them.
"""

from contextlib import AbstractContextManager
from typing import Any

from foldahead.core import bulletin
from foldahead.core.ahead import Foresight
from foldahead.core.calibration import learn, overhead_tokens
from foldahead.core.cut import Cut, current_cut
from foldahead.core.dialect import Dialect
from foldahead.core.growth import Growth
from foldahead.core.ledger import Ledger
from foldahead.core.native import is_native, misfits
from foldahead.core.pins import chosen_by
from foldahead.core.plan import Plan, Scene, make_plan, quiet_plan
from foldahead.core.policy import Policy
from foldahead.core.record import THINKING_BOUND, Record
from foldahead.core.recorded import Recorded
from foldahead.core.repair import may_mend
from foldahead.core.scene import Moment
from foldahead.core.showing import Showing
from foldahead.core.standing import Calibration, Ready, Standing
from foldahead.core.thinking import removed_thinking, says_bound, strips_thinking
from foldahead.core.tracked import TrackedHistory
from foldahead.core.view import Active
from foldahead.core.weigh import whole_estimate

__all__ = ["Conversation", "Moment"]

GIVEN_BACK = ("off", "shadow")
"""Modes in which the history itself is sent, and reasons of records that were made so."""


class Conversation:
    """The state of one session on the agent's side. Not thread-safe: one caller at a time.

    `guard` is a lock where `foresight` is advanced on another thread.
    """

    def __init__(self, dialect: Dialect, policy: Policy, guard: AbstractContextManager[Any] | None = None) -> None:
        self.dialect = dialect
        self.policy = policy
        self.calibration = Calibration()
        self.growth = Growth()
        self.model = ""
        self.envelope = ""
        """Digest of what the last request held beside model and messages; empty: none was seen."""
        self.hands_out_originals = True
        """Whether all that a `native` summary takes can be handed to the servers: False once something could not be."""
        self.stalled = 0
        """Summaries in a row that would have had no effect."""
        self.plan = Plan()
        self._guard = guard
        self._follow(TrackedHistory(dialect))
        self._recorded = Recorded()
        self._showing = Showing(dialect)
        self._policy_pins: set[int] = set()
        self._without_effect: set[str] = set()

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
        recorded = self._recorded
        continues = self._history.continued_by(history, self.active.touched)
        if continues and recorded.doubted:
            continues = self._history.unedited(history, len(self._history))
        recorded.doubted = False
        if not continues:
            self._start_over(history)
            return False
        self._take(history[len(self._history) :])
        if recorded.concerns_more_at(len(self.ledger)):
            recorded.refresh(self.ledger)
        return True

    def observe_afresh(self, history: list[Any]) -> None:
        """Take a whole history anew: one of its messages was changed in place. Raises `InvalidHistory`."""
        self._start_over(history)

    def _take(self, new: list[Any]) -> None:
        before = len(self._history)
        try:
            self._history.append(new)
        finally:
            self._policy_pins |= chosen_by(self.policy, self._history.messages, before)

    def _start_over(self, history: list[Any]) -> None:
        self._follow(TrackedHistory(self.dialect))
        self._policy_pins = set()
        try:
            self._take(history)
        finally:
            self._recorded.refresh(self.ledger)

    def pin(self, message: Any, now_ms: int = 0) -> None:
        """Keep a message in the view from now on. Raises ValueError when it is not in the history seen so far."""
        index = self._history.index_of(message)
        if index is None:
            raise ValueError("pin: expected a message of the history last given to view, request or publish")
        self._recorded.pin(index, self.ledger, now_ms)

    def seen(self) -> list[Any]:
        """The messages of the history as last observed."""
        return list(self._history.messages)

    # -- what is known of it ---------------------------------------------------------------------------------------

    @property
    def records(self) -> list[Record]:
        """Every difference between history and view so far, of every branch, in order."""
        return self._recorded.records

    @property
    def active(self) -> Active:
        """The records that count for the history as it is."""
        return self._recorded.active

    @property
    def ready(self) -> dict[str, Ready]:
        """Summaries that are ready for this session, by cache key."""
        return self._recorded.ready

    @property
    def degraded(self) -> str:
        """What the view stands on where it would heal, `extract` or `truncated`; else empty."""
        return self.active.degraded

    @property
    def shows_block(self) -> bool:
        """Whether the view has a `native` summary: its request needs the beta of such blocks."""
        return any(map(is_native, self.active.spans))

    @property
    def has_block_ready(self) -> bool:
        """Whether a `native` summary is at hand: it goes in with the next request that may carry it."""
        return any(ready.kind == "native" for ready in self.ready.values())

    @property
    def has_ready(self) -> bool:
        """Whether a summary is at hand that reaches beyond what the view shows."""
        return any(ready.end > self.active.end for ready in self._known().usable)

    def replace_records(self, records: list[Record]) -> None:
        """Take all records in the order that Redis has them, so that every process has the same."""
        self._recorded.replace(records, self.ledger)

    def add_ready(self, ready: Ready) -> None:
        """Take a summary that is ready for this session."""
        self._recorded.add_ready(ready, self.ledger)

    def reject(self, now_ms: int = 0, error: BaseException | None = None) -> Record | None:
        """Take back all that makes the view differ, and put the summary in it in quarantine. What was taken back.

        `error`: what the provider said, where it may be learned from.
        """
        spans = self.active.spans
        bound = error is not None and says_bound(error)
        self._recorded.withdraw(self.ledger, now_ms, THINKING_BOUND if bound else "rejected")
        # Whatever was thought since the first swap is bound to a view, and that may be known to another process alone.
        self._void_thinking(f"rejected:{self.ledger.heads[-1].hex()[:32]}", now_ms)
        return spans[-1] if spans else None

    # -- the view --------------------------------------------------------------------------------------------------

    def view(self, history: list[Any], moment: Moment) -> list[Any]:
        """What is sent in place of the history; the history itself when nothing is to be done.

        `plan` says what happened; its records have been appended.
        """
        self.observe(history)
        if self.policy.mode == "off":
            self.plan = Plan(reason="off")
            return self._given_back(history, moment.now_ms)
        if self.policy.mode == "on" and self.was_given_back:
            # The view takes the history's place again: what was thought in between is bound to that.
            self._void_thinking("on", moment.now_ms)
        self.plan = self._quiet_plan(moment) or self._planned(history, moment)
        if self.policy.mode == "shadow":
            return self._given_back(history, moment.now_ms)
        self._apply(self.plan)
        return self.shown(history)

    def preview(self, history: list[Any], moment: Moment) -> Plan:
        """The plan of a history with no summary and no way down, applied unless a summary is to be made first."""
        self.plan = self._planned(history, moment, may_degrade=False)
        if self.plan.reason != "not_ready":
            self._apply(self.plan)
        return self.plan

    def shown(self, history: list[Any]) -> list[Any]:
        """The view under the records as they are, of a history that has been observed."""
        return self._showing.view(history, self.active, self._history.revision)

    @property
    def was_given_back(self) -> bool:
        """Whether the last that is recorded was recorded while the session was off, in whichever process."""
        return bool(self.records) and self.records[-1].reason in GIVEN_BACK

    def _given_back(self, history: list[Any], now_ms: int) -> list[Any]:
        """The history, also where something else was shown before: then without the thinking bound to that."""
        if self.active.thinking_alone is not self.active:
            self._void_thinking(self.policy.mode, now_ms)
        return self._showing.view(history, self.active.thinking_alone, self._history.revision)

    def _void_thinking(self, reason: str, now_ms: int) -> None:
        """Record that all thinking goes, where the model binds it to the conversation before it."""
        if strips_thinking(self.policy, self.model, self.dialect, self.active):
            every = range(len(self.ledger))
            self._recorded.append(removed_thinking(self.ledger, self.active, every, reason, now_ms), self.ledger)

    def _quiet_plan(self, moment: Moment) -> Plan | None:
        """The plan of an ordinary turn, without a look at anything that grows; None when there may be more to do."""
        asked = moment.forced or moment.target_tokens is not None or moment.counter is not None
        if (
            asked
            or may_mend(self.ledger, self.active)
            or self.policy.age_observations
            or self.degraded
            or (moment.cold and self.ready)
        ):
            return None
        if self.has_block_ready or self._has_outgrown_block():
            return None
        return quiet_plan(self.ledger, self.active, self.policy, self.model, self.calibration)

    def _has_outgrown_block(self) -> bool:
        """Whether the view has a `native` summary that the request which is being made cannot carry."""
        return bool(self.active.spans and misfits(self.ledger, self.active, self.model, self.envelope))

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
            active=self.active,
            ready=tuple(self.ready.values()),
            slope=self.calibration.slope,
            model=self.model,
            envelope=self.envelope,
            pinned=self.active.asked | self._policy_pins,
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
            self._recorded.append(plan.records, self.ledger)
        if plan.summary is not None:
            self.stalled, self._without_effect = 0, set()
            self._recorded.forget_ready_up_to(self.active.end)
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
        learned = learn(self.calibration, self.dialect, usage, whole_estimate(self.ledger, self.active))
        self.calibration = learned or self.calibration
        return learned is not None

    def total_tokens(self) -> int:
        """Calibrated tokens of the whole view, system and tools included where they are known."""
        return self._known().total_tokens

    def cut(self) -> Cut:
        """The span that a summary could stand for now."""
        return current_cut(self.ledger, self.policy, self.active, self._known().tail)

    def standing(self, turn_id: str | None = None) -> Standing:
        """How the session stands: counts and heads for the servers."""
        self.ledger.settle()
        return bulletin.standing_of(self._known(), turn_id)

    def wants_work(self, standing: Standing) -> bool:
        """Whether servers should make a summary: past the start, and none that is ready would do at the threshold."""
        return bulletin.wants_work(self._known(), standing)

    def _known(self) -> bulletin.Known:
        return bulletin.Known(
            ledger=self.ledger,
            policy=self.policy,
            active=self.active,
            ready=tuple(self.ready.values()),
            calibration=self.calibration,
            growth=self.growth,
            model=self.model,
            envelope=self.envelope,
            hands_out_originals=self.hands_out_originals,
            stalled=self.stalled,
            policy_pins=frozenset(self._policy_pins),
        )
