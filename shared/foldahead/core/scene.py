"""What a plan is made from, and what it comes to."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from foldahead.core.canonical import encodable
from foldahead.core.cut import Cut, current_cut, tail_start, turns_role
from foldahead.core.ledger import Ledger
from foldahead.core.models import find_model
from foldahead.core.native import block_message, given_up, made_for, misfits, stands_for_what_was_sent
from foldahead.core.pins import pin_records, pins_as_shown, pins_of
from foldahead.core.policy import Policy
from foldahead.core.record import Record, record_of
from foldahead.core.repair import repairs
from foldahead.core.standing import Ready
from foldahead.core.thinking import removed_thinking, strips_thinking
from foldahead.core.view import Active, active_records
from foldahead.core.weigh import Counter, CounterScale, PendingScale, Scale, WholeScale

Outcome = Literal["swapped", "elided", "truncated", "unchanged"]
OUTPUT_RESERVE_TOKENS = 8_192
SEAM_TOKENS = 16
"""A word of the user's and one of the assistant's, to keep roles in order around what was put in."""

Extract = Callable[[int, int], str]
"""`extract(end, budget_tokens)`: the summary by rules of the span up to an index."""


MOST_REFUSALS = 2
REFUSED_GROWTH = 2
"""Times its length at the last refusal that a session must reach before another view is tried."""


class Moment(Struct, frozen=True, kw_only=True):
    """What the edge knows and core cannot: the time, and the caller's room for this one view."""

    now_ms: int = 0
    cold: bool = False
    """The last request is longer ago than `cache_ttl_s`: the provider's prompt cache has run out."""
    target_tokens: int | None = None
    counter: Counter | None = None
    forced: bool = False


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
    envelope: str = ""
    """Digest of what its requests hold beside model and messages; empty: unknown, or never a `native` summary."""
    pinned: frozenset[int] = frozenset()
    cold: bool = False
    """Whether the provider's prompt cache has run out anyway."""
    forced: bool = False
    """One-shot use: threshold and target are waived, only smaller it must be."""
    may_degrade: bool = True
    """False: a look ahead, before a summary was even asked for."""
    target_tokens: int | None = None
    """The caller's room for the whole view, in place of the policy's target for pending tokens."""
    counter: Counter | None = None
    overhead_tokens: int = 0
    """System prompt and tools in the provider's tokens, where they are known."""
    now_ms: int = 0


class Plan(Struct, frozen=True, kw_only=True):
    """Records to append, in order, and what they come to. Tokens are pending tokens; of the whole view where the
    caller gave a target; by the caller's counter where there is one."""

    outcome: Outcome = "unchanged"
    reason: str = ""
    records: tuple[Record, ...] = ()
    repaired: tuple[Record, ...] = ()
    active: Active = Active()
    summary: Ready | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    exhausted: bool = False
    least_tokens: int = 0
    """Of `not_smaller`: what it would come to with the best summary at hand."""
    target_tokens: int = 0
    """Of `not_smaller`: what it should have come to."""


def window_room_tokens(
    ledger: Ledger, tail: int, policy: Policy, model: str, slope: float, overhead_tokens: int
) -> int | None:
    """Pending tokens that the model's window has room for besides prefix, tail, tools and an output reserve; below 0
    when those alone are too much, None for an unknown window."""
    known = find_model(model) if model else None
    window = policy.window_tokens or (known.window_tokens if known else None)
    if window is None:
        return None
    outside = ledger.span_tokens(0, ledger.stable_prefix_end()) + ledger.span_tokens(tail, len(ledger))
    return window - OUTPUT_RESERVE_TOKENS - overhead_tokens - int(slope * outside)


class Situation:
    """One plan in the making: what is known of this history now."""

    def __init__(self, history: list[Any], ledger: Ledger, scene: Scene) -> None:
        self.history = history
        self.ledger = ledger
        self.scene = scene
        self.policy = scene.policy
        self.tail = tail_start(ledger, scene.policy, scene.slope)
        self.pending = PendingScale(ledger, self.tail, scene.slope)
        self.window_room = window_room_tokens(
            ledger, self.tail, scene.policy, scene.model, scene.slope, scene.overhead_tokens
        )
        self.scale = self._scale()
        self.strips_thinking = strips_thinking(scene.policy, scene.model, ledger.dialect, scene.active)
        self.repaired = self._mends()
        self.active = self.with_records(self.repaired) if self.repaired else scene.active
        self.weight = self.scale.weigh(self.active)

    def _scale(self) -> Scale:
        history, ledger, scene = self.history, self.ledger, self.scene
        if scene.counter is not None:
            outside = [*history[: ledger.stable_prefix_end()], *history[self.tail :]]
            return CounterScale(history, ledger, scene.counter, outside if scene.target_tokens is None else [])
        return self.pending if scene.target_tokens is None else WholeScale(ledger, scene.slope)

    def _mends(self) -> tuple[Record, ...]:
        """What must be done before anything else: blocks given up that the requests have outgrown, and repairs."""
        ledger, scene = self.ledger, self.scene
        mends: list[Record] = []
        active = scene.active
        # What a block took the place of stands again: it may be a block of the same requests.
        while outgrown := misfits(ledger, active, scene.model, scene.envelope):
            mends += [given_up(ledger, span, scene.now_ms) for span in outgrown]
            active = self.with_records(tuple(mends))
        mends += repairs(self.history, ledger, active, scene.now_ms, scene.model)
        if not mends:
            return ()
        return (*mends, *self.thinking_behind(mends[0], active))

    def thinking_behind(self, change: Record, active: Active) -> list[Record]:
        """Records that take away the thinking which a change ahead of it made void."""
        if not self.strips_thinking:
            return []
        behind = range(change.start + 1, len(self.ledger))
        reason = f"{change.kind}:{change.head_end[:16]}"
        return removed_thinking(self.ledger, active, behind, reason, self.scene.now_ms)

    @property
    def target(self) -> int:
        """What a compaction must come to, on the scale of this plan."""
        if self.scene.target_tokens is not None:
            return self.scene.target_tokens
        room = self.window_room
        if room is None or room <= 0:
            return self.policy.target_tokens
        return min(self.policy.target_tokens, max(1, int(room * self.policy.target_ratio)))

    def below_trigger(self, tokens: int) -> bool:
        """Whether nothing more is to be done about a view of this weight."""
        target = self.scene.target_tokens
        return tokens < self.policy.threshold if target is None else tokens <= target

    @property
    def over_threshold(self) -> bool:
        """Whether a compaction is due by weight."""
        if not self.below_trigger(self.weight):
            return True
        return self.scene.target_tokens is not None and self.pending.weigh(self.active) >= self.policy.threshold

    @property
    def refused_too_often(self) -> bool:
        """A breaker: a provider refused views of this session again and again, and it has not grown much since."""
        refusals = {record.created_at_ms: record.end for record in self.scene.records if record.withdraws}
        return len(refusals) >= MOST_REFUSALS and len(self.ledger) < max(refusals.values()) * REFUSED_GROWTH

    @property
    def at_hard_cap(self) -> bool:
        """Whether something must be done now, ready or not."""
        if self.scene.target_tokens is not None:
            return self.weight > self.scene.target_tokens
        return self.weight >= self.policy.hard_cap_tokens or self._window_forces()

    def _window_forces(self) -> bool:
        """The view does not fit the window, and would if it were compacted."""
        room = self.window_room
        return room is not None and 0 < room < self.pending.weigh(self.active)

    def is_smaller(self, plan: Plan) -> bool:
        """Whether a plan takes something away, counting what its seams may cost where the provider is strict."""
        profile = self.ledger.dialect.profile
        seams = len(plan.active.spans) + len(plan.active.pins) if profile.alternates or profile.places_system else 0
        grown = max(0, seams - len(self.active.spans) - len(self.active.pins))
        return plan.tokens_after + grown * SEAM_TOKENS < plan.tokens_before

    def with_records(self, records: tuple[Record, ...]) -> Active:
        """The records that count if these were appended."""
        return active_records((*self.scene.records, *records), self.ledger)

    def cut(self) -> Cut:
        """The span that is due."""
        return current_cut(self.ledger, self.policy, self.active, self.tail)

    def unchanged(self, reason: str) -> Plan:
        """A plan of nothing but the mending that is due."""
        return self.planned("unchanged", reason, self.repaired, self.active)

    def planned(
        self, outcome: Outcome, reason: str, records: tuple[Record, ...], active: Active, summary: Ready | None = None
    ) -> Plan:
        """A plan with what it comes to."""
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
            exhausted=self._exhausted(active, after),
        )

    def _exhausted(self, active: Active, after: int) -> bool:
        if self.scene.target_tokens is not None:
            return after > self.scene.target_tokens
        return self.window_room is not None and self.pending.weigh(active) > self.window_room

    def span_records(
        self,
        kind: Literal["swapped", "truncated"],
        span: tuple[int, int],
        text: str,
        cache_key: str | None = None,
        reason: str | None = None,
    ) -> tuple[Record, ...]:
        """The span's own record, then its pins, then the thinking that goes with it; mends come first.

        What is mended inside the span is not recorded: records hold whole messages, and travel.
        """
        ledger, now_ms, (start, end) = self.ledger, self.scene.now_ms, span
        message = ledger.dialect.user_message(encodable(text))
        record = record_of(ledger.heads, kind, start, end, now_ms, cache_key=cache_key, message=message, reason=reason)
        pins = self._as_shown(pins_of(ledger, start, end, self.scene.pinned))
        mends = tuple(mend for mend in self.repaired if mend.start in pins or not _is_edit_within(mend, start, end))
        made = self._with_what_follows(record, pins, mends, self.strips_thinking)
        # A shorter span than the one that is shown, a session that heals, uncovers what needed no mending.
        if not ledger.faults:
            return made
        return (*made, *repairs(self.history, ledger, self.with_records(made), now_ms, self.scene.model))

    def block_records(self, ready: Ready) -> tuple[Record, ...]:
        """`span_records` of a `native` summary: of its span only system messages stay, behind the block."""
        ledger, start, end = self.ledger, ready.start, ready.end
        record = record_of(
            ledger.heads,
            "swapped",
            start,
            end,
            self.scene.now_ms,
            cache_key=ready.cache_key,
            message=block_message(ready),
            reason=made_for(ready.model, ready.envelope),
        )
        restated = self._as_shown(dict.fromkeys(ledger.systems(start, end), "system"))
        strips = self.strips_thinking and not self.keeps_thinking(ready)
        return self._with_what_follows(record, restated, self.repaired, strips)

    def keeps_thinking(self, ready: Ready) -> bool:
        """Whether a summary leaves thinking in the turns behind it valid: a block that stands for just what was sent,
        from the block that is shown on, with nothing between it and those turns."""
        as_sent = stands_for_what_was_sent(ready, self.ledger, self.active)
        alone = not self.ledger.systems(ready.start, ready.end) and turns_role(self.ledger, ready.end)
        return as_sent and alone

    def _as_shown(self, pins: dict[int, str]) -> dict[int, str]:
        mended = {edit.start: edit.message for edit in self.active.edits if edit.kind == "repaired"}
        return pins_as_shown(pins, mended, self.history, self.ledger) if mended else pins

    def _with_what_follows(
        self, record: Record, pins: dict[int, str], mends: tuple[Record, ...], strips: bool
    ) -> tuple[Record, ...]:
        ledger, now_ms = self.ledger, self.scene.now_ms
        removed: list[Record] = []
        if strips:
            kept = (*pins, *range(record.end, len(ledger)))
            removed = removed_thinking(ledger, self.active, kept, f"{record.kind}:{record.mark[:32]}", now_ms)
        return (*mends, record, *pin_records(ledger, pins, record.mark, now_ms), *removed)


def _is_edit_within(record: Record, start: int, end: int) -> bool:
    """Whether a record changes a message of a span and nothing else: nobody sees it where a summary stands for that."""
    return record.kind in ("repaired", "thinking_removed") and start <= record.start and record.end <= end
