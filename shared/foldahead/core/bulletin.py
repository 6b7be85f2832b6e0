"""What a session tells the servers after a turn: how it stands, and whether it wants a summary."""

import msgspec
from msgspec import Struct

from foldahead.core.calibration import overhead_tokens
from foldahead.core.cut import current_cut, tail_start
from foldahead.core.decide import offer_of
from foldahead.core.growth import Growth
from foldahead.core.ledger import Ledger
from foldahead.core.native import bare_until, goes_on, is_native, may_be_native, may_stand, misfits
from foldahead.core.pins import pinned_tokens
from foldahead.core.policy import Policy
from foldahead.core.standing import Calibration, Ready, Shown, Standing
from foldahead.core.view import Active
from foldahead.core.weigh import pending_estimate, whole_estimate


class Known(Struct, frozen=True, kw_only=True):
    """What is known of a session on the agent's side."""

    ledger: Ledger
    policy: Policy
    active: Active
    ready: tuple[Ready, ...]
    calibration: Calibration
    growth: Growth
    model: str
    envelope: str
    hands_out_originals: bool
    stalled: int
    policy_pins: frozenset[int] = frozenset()

    @property
    def slope(self) -> float:
        """Provider's tokens per estimated token."""
        return self.calibration.slope

    @property
    def tail(self) -> int:
        """Where the preserved tail begins."""
        return tail_start(self.ledger, self.policy, self.slope)

    @property
    def usable(self) -> list[Ready]:
        """Summaries that are ready and were made from this history."""
        heads = self.ledger.heads
        made = [ready for ready in self.ready if ready.end < len(heads) and heads[ready.end] == ready.head_end]
        return [ready for ready in made if ready.kind != "native" or self._may_show(ready)]

    @property
    def asked(self) -> frozenset[int]:
        """Indices that the caller or the policy pinned."""
        return self.active.asked | self.policy_pins

    def _may_show(self, block: Ready) -> bool:
        """Whether the next request may carry a block; before the first one nothing is known against it."""
        fits = not self.envelope or may_stand(block, self.ledger, self.active, self.model, self.envelope, self.asked)
        return fits and goes_on(block, self.active)

    @property
    def total_tokens(self) -> int:
        """Calibrated tokens of the whole view, system and tools included where they are known."""
        return int(self.slope * whole_estimate(self.ledger, self.active)) + overhead_tokens(self.calibration)


def standing_of(known: Known, turn_id: str | None) -> Standing:
    """Counts and heads for the servers, never content."""
    ledger, slope, tail = known.ledger, known.slope, known.tail
    pending = int(slope * pending_estimate(ledger, known.active, tail))
    cut = current_cut(ledger, known.policy, known.active, tail)
    prefix = ledger.tokens[ledger.stable_prefix_end()]
    native = known.policy.kind == "native" and known.hands_out_originals and cut.start == 0
    native = native and may_be_native(ledger, known.active, known.model, known.asked, cut.end)
    bare = bare_until(ledger, known.active) if native else None
    return Standing(
        dialect=ledger.dialect.name,
        policy=msgspec.structs.replace(known.policy, pinned=()),
        messages=len(ledger),
        head=ledger.head,
        turns=len(ledger.turn_starts),
        turn_id=turn_id or str(len(ledger.turn_starts)),
        pending_tokens=pending,
        prefix_tokens=int(slope * prefix) + overhead_tokens(known.calibration),
        tail_tokens=int(slope * ledger.span_tokens(tail, len(ledger))),
        growth_tokens=known.growth.tokens_per_turn,
        interval_s=known.growth.interval_s,
        calibration=known.calibration,
        model=known.model,
        envelope=known.envelope if native else "",
        sent_as_is=bare is not None,
        bare_until=bare or 0,
        offer=offer_of(ledger.heads, ledger.tokens, cut, slope),
        no_offer_reason=cut.reason,
        shown=_newest_summary(known),
        stalled=known.stalled,
        watermark=known.active.end,
        pinned_tokens=_pinned_tokens(known, cut.start, cut.end),
        at_hard_cap=pending >= known.policy.hard_cap_tokens,
        degraded=bool(known.active.degraded),
    )


def wants_work(known: Known, standing: Standing) -> bool:
    """Whether servers should make a summary: past the start, and none that is ready would do at the threshold."""
    policy = known.policy
    if policy.mode == "off" or standing.offer is None:
        return False
    if standing.pending_tokens < policy.start_ratio * policy.threshold and not known.active.degraded:
        return False
    grown = max(0, policy.threshold - standing.pending_tokens)
    return not any(_after(known, ready) + grown <= policy.target_tokens for ready in known.usable)


def _after(known: Known, ready: Ready) -> int:
    """Pending tokens if this summary stood in the view now."""
    tail = known.tail
    rest = known.ledger.span_tokens(ready.end, tail) if tail > ready.end else 0
    return int(known.slope * (rest + ready.summary_tokens)) + _pinned_tokens(known, ready.start, ready.end)


def _pinned_tokens(known: Known, start: int, end: int) -> int:
    """Calibrated tokens of what would stay in the view from inside a span."""
    return int(known.slope * pinned_tokens(known.ledger, start, end, known.asked))


def _newest_summary(known: Known) -> Shown | None:
    """The parent of the next summary: what is ready beyond the view, else what the view shows."""
    usable = max(known.usable, key=lambda ready: ready.end, default=None)
    if usable is not None and usable.end > known.active.end:
        return Shown(
            cache_key=usable.cache_key,
            start=usable.start,
            end=usable.end,
            head_end=usable.head_end,
            summary_tokens=usable.summary_tokens,
            kind=usable.kind,
        )
    span = next((span for span in reversed(known.active.spans) if span.cache_key), None)
    if span is None or span.cache_key is None:
        return None
    shown = Active(spans=(span,))
    outgrown = misfits(known.ledger, shown, known.model, known.envelope)
    return Shown(
        cache_key=span.cache_key,
        start=span.start,
        end=span.end,
        head_end=bytes.fromhex(span.head_end),
        summary_tokens=int(known.slope * pending_estimate(known.ledger, shown, span.end)),
        kind="native" if is_native(span) and span not in outgrown else "text",
    )
