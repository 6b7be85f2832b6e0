"""What the next view is to be: nothing new, a mend, an elision, a swap, or one of the ways down.

Pure: the same ledger, records, summaries and policy give the same plan in every process. A plan is a list of
records to append; the view follows from them.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from foldahead.core.cut import Cut, find_cut, tail_start
from foldahead.core.elide import elision
from foldahead.core.ledger import Ledger
from foldahead.core.models import find_model
from foldahead.core.pins import pin_records, pins_of
from foldahead.core.policy import Policy
from foldahead.core.record import Record
from foldahead.core.repair import repairs
from foldahead.core.standing import Ready
from foldahead.core.thinking import open_thinking_turn, strips_thinking
from foldahead.core.view import Active, active_records
from foldahead.core.weigh import Counter, CounterScale, PendingScale, Scale
from foldahead.core.wrapper import truncation_marker, wrap

Outcome = Literal["swapped", "elided", "truncated", "unchanged"]
DEGRADED = ("extract", "truncated")
"""Reasons of span records that a better summary may take the place of: the session heals."""
OUTPUT_RESERVE_TOKENS = 8_192
LEAST_EXTRACT_TOKENS = 200

Extract = Callable[[int, int], str]
"""`extract(end, budget_tokens)`: the summary by rules of the span up to an index."""


class Scene(Struct, frozen=True, kw_only=True):
    """All that a plan depends on besides the ledger and the history."""

    policy: Policy
    records: tuple[Record, ...] = ()
    active: Active = Active()
    """Those of the records that were made from this history."""
    ready: tuple[Ready, ...] = ()
    slope: float = 1.0
    model: str = ""
    """The agent's model; empty: unknown."""
    pinned: frozenset[int] = frozenset()
    cold: bool = False
    """Whether the provider's prompt cache has run out anyway."""
    forced: bool = False
    """One-shot use: threshold and target are waived, only smaller it must be."""
    target_tokens: int | None = None
    """The caller's room, in place of the policy's target."""
    counter: Counter | None = None
    overhead_tokens: int = 0
    """System prompt and tools, where they are known."""
    now_ms: int = 0


class Plan(Struct, frozen=True, kw_only=True):
    """Records to append, in order, and what they come to. Tokens are pending tokens, or the caller's counter's."""

    outcome: Outcome = "unchanged"
    reason: str = ""
    records: tuple[Record, ...] = ()
    repaired: tuple[Record, ...] = ()
    active: Active = Active()
    summary: Ready | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    exhausted: bool = False


class _Moment:
    """One plan in the making: what is known of this history now."""

    def __init__(self, history: list[Any], ledger: Ledger, scene: Scene) -> None:
        self.history = history
        self.ledger = ledger
        self.scene = scene
        self.policy = scene.policy
        self.tail = tail_start(ledger, scene.policy, scene.slope)
        self.scale: Scale = (
            CounterScale(history, ledger, scene.counter)
            if scene.counter
            else PendingScale(ledger, self.tail, scene.slope)
        )
        self.repaired = tuple(repairs(history, ledger, scene.active, scene.now_ms))
        self.active = self.with_records(self.repaired) if self.repaired else scene.active
        self.weight = self.scale.weigh(self.active)

    @property
    def target(self) -> int:
        return self.policy.target_tokens if self.scene.target_tokens is None else self.scene.target_tokens

    @property
    def threshold(self) -> int:
        return self.policy.threshold if self.scene.target_tokens is None else self.scene.target_tokens

    @property
    def at_hard_cap(self) -> bool:
        most = self.policy.hard_cap_tokens if self.scene.target_tokens is None else self.scene.target_tokens
        return self.weight >= most

    def with_records(self, records: tuple[Record, ...]) -> Active:
        return active_records((*self.scene.records, *records), self.ledger)

    def cut(self) -> Cut:
        """The span that is due: from the stable prefix, or from the last generation where each has its own summary."""
        start = 0 if self.policy.resummarise or _degraded(self.active) else self.active.end
        return find_cut(self.ledger, self.tail, start)

    def unchanged(self, reason: str) -> Plan:
        return self.planned("unchanged", reason, self.repaired, self.active)

    def planned(
        self, outcome: Outcome, reason: str, records: tuple[Record, ...], active: Active, summary: Ready | None = None
    ) -> Plan:
        after = self.scale.weigh(active)
        return Plan(
            outcome=outcome,
            reason=reason,
            records=records,
            repaired=self.repaired,
            active=active,
            summary=summary,
            tokens_before=self.weight,
            tokens_after=after,
            exhausted=self.exhausted(after),
        )

    def exhausted(self, after: int) -> bool:
        """The window check: prefix + pending + tail + tools + output reserve against the model's window."""
        if self.scene.target_tokens is not None:
            return after > self.scene.target_tokens
        known = find_model(self.scene.model) if self.scene.model else None
        window = self.policy.window_tokens or (known.window_tokens if known else None)
        if window is None:
            return False
        ledger, slope = self.ledger, self.scene.slope
        outside = ledger.span_tokens(0, ledger.stable_prefix_end()) + ledger.span_tokens(self.tail, len(ledger))
        return slope * (outside + self.scene.overhead_tokens) + after + OUTPUT_RESERVE_TOKENS > window


def make_plan(history: list[Any], ledger: Ledger, scene: Scene, extract: Extract) -> Plan:
    """The plan for the view of a history. `ledger` is the account of exactly these messages."""
    moment = _Moment(history, ledger, scene)
    if ledger.open_calls and not ledger.traits[-1].results and ledger.traits[-1].role == "assistant":
        return moment.unchanged("open_call")
    elided = _elide(moment)
    if elided is not None and elided.tokens_after <= moment.target:
        return elided
    due = scene.forced or moment.weight >= moment.threshold or scene.cold or _degraded(moment.active)
    if not due:
        return elided or moment.unchanged("below_threshold")
    swap = _best_swap(moment)
    if swap is not None:
        return swap
    if not moment.at_hard_cap:
        return elided or moment.unchanged(_why_not(moment))
    if _degraded(moment.active) and moment.weight < moment.policy.hard_cap_tokens:
        return moment.unchanged("degraded")
    return _way_down(moment, extract) or elided or moment.unchanged(_why_not(moment))


def _elide(moment: _Moment) -> Plan | None:
    if not moment.policy.age_observations:
        return None
    region = (max(moment.active.end, moment.ledger.stable_prefix_end()), moment.tail)
    if region[1] <= region[0]:
        return None
    record, reclaimed = elision(moment.ledger, moment.active, region, moment.policy, moment.scene.now_ms)
    if record is None or (reclaimed < moment.policy.age_reclaim_min and moment.weight < moment.threshold):
        return None
    records = (*moment.repaired, record)
    return moment.planned("elided", "", records, moment.with_records(records))


def _why_not(moment: _Moment) -> str:
    """Why a compaction that is due was not made, most telling reason first."""
    if _waits_for_thinking(moment):
        return "open_thinking_turn"
    cut = moment.cut()
    if not cut.found:
        return cut.reason
    if cut.end <= moment.active.end:
        return "nothing_to_compact"
    return "not_ready" if not moment.scene.ready else "not_smaller"


def _degraded(active: Active) -> bool:
    return any(span.reason in DEGRADED for span in active.spans)


def _waits_for_thinking(moment: _Moment) -> bool:
    """A tool turn with thinking is open and a swap now would take its thinking away; the hard cap does not wait."""
    return (
        not (moment.at_hard_cap and not moment.scene.forced)
        and strips_thinking(moment.policy, moment.scene.model)
        and open_thinking_turn(moment.ledger)
    )


def _best_swap(moment: _Moment) -> Plan | None:
    """The ready summary that leaves the view smallest, if any is acceptable."""
    if _waits_for_thinking(moment):
        return None
    plans = [plan for ready in moment.scene.ready if (plan := _swap(moment, ready)) is not None]
    return min(plans, key=lambda plan: plan.tokens_after, default=None)


def _swap(moment: _Moment, ready: Ready) -> Plan | None:
    """A swap to this summary, if it was made from this history, is progress, and shrinks enough."""
    ledger = moment.ledger
    belongs = ready.end <= moment.tail and ledger.heads[ready.end] == ready.head_end and ledger.cuttable(ready.end)
    degraded = _degraded(moment.active)
    progress = ready.end > moment.active.end or degraded
    if not (belongs and progress and ready.end > ready.start):
        return None
    text = wrap(ready.text, ready.model, ready.end)
    records = _span_records(moment, "swapped", ready.start, ready.end, text, cache_key=ready.cache_key)
    plan = moment.planned("swapped", "", records, moment.with_records(records), ready)
    heals = degraded and plan.tokens_after < moment.threshold
    smaller = plan.tokens_after < moment.weight
    enough = moment.scene.forced or plan.tokens_after <= moment.target
    return plan if heals or (smaller and enough) else None


def _way_down(moment: _Moment, extract: Extract) -> Plan | None:
    """At the hard cap with nothing ready: `extract` of the current cut, else truncation."""
    policy = moment.policy
    cut = moment.cut()
    if policy.on_hard_cap == "unchanged" or not cut.found:
        return None
    if policy.on_hard_cap == "extract" and (plan := _extracted(moment, cut, extract)) is not None:
        return plan
    return _truncated(moment, cut)


def _extracted(moment: _Moment, cut: Cut, extract: Extract) -> Plan | None:
    budget = extract_budget(moment.ledger, cut, moment.tail, moment.policy, moment.target, moment.scene.slope)
    text = wrap(extract(cut.end, budget), "extract", cut.end)
    records = _span_records(moment, "swapped", cut.start, cut.end, text, reason="extract")
    plan = moment.planned("swapped", "extract", records, moment.with_records(records))
    return plan if plan.tokens_after < moment.weight and plan.tokens_after <= moment.target else None


def extract_budget(ledger: Ledger, cut: Cut, tail: int, policy: Policy, target: int, slope: float) -> int:
    """Tokens for a summary by rules: a quarter of the span, what the target leaves room for, the policy's maximum."""
    room = int(target / slope * 0.9) - ledger.span_tokens(cut.end, tail) if tail > cut.end else int(target / slope * 0.9)
    quarter = ledger.span_tokens(cut.start, cut.end) // 4
    return max(LEAST_EXTRACT_TOKENS, min(quarter, room, policy.summary_max_tokens))


def _truncated(moment: _Moment, cut: Cut) -> Plan | None:
    """Oldest messages out, pair-aligned, until the target is met; never into the tail, nor into a good summary."""
    ledger = moment.ledger
    start = cut.start if _degraded(moment.active) else max(cut.start, moment.active.end)
    ends = [end for end in range(start + 1, cut.end + 1) if ledger.cuttable(end)]
    if not ends:
        return None

    def plan_to(end: int) -> Plan:
        marker = truncation_marker(ledger.heads[end].hex(), end - start)
        records = _span_records(moment, "truncated", start, end, marker, reason="truncated")
        return moment.planned("truncated", "", records, moment.with_records(records))

    at = bisect_left(ends, True, hi=len(ends) - 1, key=lambda end: plan_to(end).tokens_after <= moment.target)
    plan = plan_to(ends[at])
    return plan if plan.tokens_after < moment.weight else None


def _span_records(
    moment: _Moment,
    kind: Literal["swapped", "truncated"],
    start: int,
    end: int,
    text: str,
    cache_key: str | None = None,
    reason: str | None = None,
) -> tuple[Record, ...]:
    """The span's own record, then its pins, then the thinking that goes with it; mends come first."""
    ledger, now_ms = moment.ledger, moment.scene.now_ms
    span = Record(
        kind=kind,
        start=start,
        end=end,
        head_start=ledger.heads[start].hex(),
        head_end=ledger.heads[end].hex(),
        cache_key=cache_key,
        message=ledger.dialect.user_message(text),
        reason=reason,
        created_at_ms=now_ms,
    )
    pins = pins_of(ledger, start, end, moment.scene.pinned)
    removed: list[Record] = []
    if strips_thinking(moment.policy, moment.scene.model):
        removed = _thinking_records(moment, [*pins, *range(end, len(ledger))])
    return (*moment.repaired, span, *pin_records(ledger, pins, now_ms), *removed)


def _thinking_records(moment: _Moment, indices: list[int]) -> list[Record]:
    """One record a message: each holds on whatever branch still has that message."""
    ledger = moment.ledger
    done = {record.start for record in moment.active.edits if record.kind == "thinking_removed"}
    return [
        Record(
            kind="thinking_removed",
            start=index,
            end=index + 1,
            head_start=ledger.heads[index].hex(),
            head_end=ledger.heads[index + 1].hex(),
            created_at_ms=moment.scene.now_ms,
        )
        for index in indices
        if ledger.traits[index].thinking and index not in done
    ]
