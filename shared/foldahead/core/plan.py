"""What the next view is to be: nothing new, a mend, an elision, a swap, or one of the ways down.

Pure: the same ledger, records, summaries and policy give the same plan in every process. A plan is a list of
records to append; the view follows from them.
"""

from typing import Any

import msgspec

from foldahead.core.calibration import overhead_tokens
from foldahead.core.cut import tail_start
from foldahead.core.elide import elision
from foldahead.core.ledger import Ledger
from foldahead.core.native import goes_on, may_stand
from foldahead.core.policy import Policy
from foldahead.core.scene import Extract, Outcome, Plan, Scene, Situation, window_room_tokens
from foldahead.core.standing import Calibration, Ready
from foldahead.core.thinking import open_thinking_turn
from foldahead.core.view import Active
from foldahead.core.waydown import extract_budget, way_down
from foldahead.core.weigh import pending_estimate
from foldahead.core.wrapper import wrap

__all__ = ["Extract", "Outcome", "Plan", "Scene", "extract_budget", "make_plan", "no_swap_helps", "quiet_plan"]


def make_plan(history: list[Any], ledger: Ledger, scene: Scene, extract: Extract) -> Plan:
    """The plan for the view of a history. `ledger` is the account of exactly these messages."""
    now = Situation(history, ledger, scene)
    if ledger.open_calls and ledger.traits[-1].role == "assistant":
        return now.unchanged("open_call")
    elided = _elided(now)
    if elided is not None:
        return elided
    due = scene.forced or scene.cold or now.over_threshold or now.at_hard_cap or now.active.degraded
    if not due and not _has_block(now):
        return now.unchanged("below_threshold")
    if now.refused_too_often:
        return now.unchanged("refused_before")
    swaps = _swaps(now)
    if (swap := _best(now, swaps)) is not None:
        return swap
    if now.at_hard_cap and scene.may_degrade and (down := way_down(now, extract)) is not None:
        # A summary that misses its target still loses less than leaving messages out.
        late = _best(now, swaps, late=True) if down.outcome == "truncated" else None
        return late or down
    return _waiting(now, swaps)


def no_swap_helps(history: list[Any], ledger: Ledger, scene: Scene) -> bool:
    """Whether each summary at hand leaves more than the policy's target, and will until the user speaks.

    What stands behind its span only grows. Of what is pinned inside, the user's last message goes when there is a
    newer one.
    """
    if not scene.ready or scene.active.degraded:
        return False
    now = Situation(history, ledger, scene)
    return all(
        _belongs(now, ready) and _swap_to(now, ready).tokens_after > now.policy.target_tokens for ready in scene.ready
    )


def quiet_plan(ledger: Ledger, active: Active, policy: Policy, model: str, known: Calibration) -> Plan | None:
    """The plan of a turn of which only its weight is in question; None when it weighs enough to look closer."""
    tail = tail_start(ledger, policy, known.slope)
    pending = int(known.slope * pending_estimate(ledger, active, tail))
    room = window_room_tokens(ledger, tail, policy, model, known.slope, overhead_tokens(known))
    if pending >= policy.threshold or (room is not None and pending > room):
        return None
    return Plan(reason="below_threshold", active=active, tokens_before=pending, tokens_after=pending)


def _elided(now: Situation) -> Plan | None:
    """A batch of stubs, where it is due and enough: under the trigger, or under what the caller named."""
    if not now.policy.age_observations or _waits_for_thinking(now):
        return None
    start = max(now.active.end, now.active.withdrawn, now.ledger.stable_prefix_end())
    if now.tail <= start:
        return None
    record, reclaimed = elision(now.ledger, now.active, (start, now.tail), now.policy, now.scene.now_ms)
    if record is None or (reclaimed < now.policy.age_reclaim_min and not now.over_threshold):
        return None
    records = (*now.repaired, record, *now.thinking_behind(record, now.active))
    plan = now.planned("elided", "", records, now.with_records(records))
    return plan if now.below_trigger(plan.tokens_after) and now.is_smaller(plan) else None


def _waiting(now: Situation, swaps: list[Plan]) -> Plan:
    """A compaction that is due was not made: why, most telling reason first."""
    if _waits_for_thinking(now):
        return now.unchanged("open_thinking_turn")
    cut = now.cut()
    if not cut.found:
        return now.unchanged(cut.reason)
    if now.active.degraded and not now.at_hard_cap:
        return now.unchanged("degraded")
    if cut.end <= now.active.end:
        return now.unchanged("nothing_to_compact")
    if not swaps:
        return now.unchanged("not_ready")
    least = min(swap.tokens_after for swap in swaps)
    return msgspec.structs.replace(now.unchanged("not_smaller"), least_tokens=least, target_tokens=now.target)


def _waits_for_thinking(now: Situation) -> bool:
    """A tool turn with thinking is open and a change now would take its thinking away; the hard cap does not wait."""
    if now.at_hard_cap and not now.scene.forced:
        return False
    return now.strips_thinking and open_thinking_turn(now.ledger)


def _swaps(now: Situation) -> list[Plan]:
    """What the view would come to with each summary that may be swapped in now."""
    waits = _waits_for_thinking(now)
    usable = [ready for ready in now.scene.ready if not waits or now.keeps_thinking(ready)]
    return [_swap_to(now, ready) for ready in usable if _belongs(now, ready)]


def _best(now: Situation, swaps: list[Plan], late: bool = False) -> Plan | None:
    """The swap that leaves the view smallest, if any is acceptable; `late`: it need not meet the target."""
    plans = [swap for swap in swaps if _shrinks_enough(now, swap, late)]
    return min(plans, key=lambda plan: plan.tokens_after, default=None)


def _has_block(now: Situation) -> bool:
    """A `native` summary goes in with the first request after it came, as long as thinking behind it is valid."""
    return any(
        ready.kind == "native" and _belongs(now, ready) and (now.keeps_thinking(ready) or not now.strips_thinking)
        for ready in now.scene.ready
    )


def _belongs(now: Situation, ready: Ready) -> bool:
    """Whether a summary was made from this history, leaves the tail alone, and would be progress."""
    ledger, active = now.ledger, now.active
    if ready.kind == "native" and not _may_stand(now, ready):
        return False
    fits = ready.start < ready.end <= now.tail and ledger.heads[ready.end] == ready.head_end
    if not fits or not ledger.cuttable(ready.end) or ready.cache_key in active.refused:
        return False
    overlapped = any(span.start < ready.start < span.end for span in active.spans)
    return not overlapped and (ready.end > active.end or bool(active.degraded))


def _may_stand(now: Situation, ready: Ready) -> bool:
    """Whether the request that is being made may carry a block, and nothing that stays asks to stand before it."""
    scene = now.scene
    possible = may_stand(ready, now.ledger, now.active, scene.model, scene.envelope, scene.pinned)
    return possible and (goes_on(ready, now.active) or now.at_hard_cap)


def _swap_to(now: Situation, ready: Ready) -> Plan:
    """The swap to a summary that belongs here."""
    if ready.kind == "native":
        records = now.block_records(ready)
    else:
        text = wrap(ready.text, ready.model, ready.end)
        records = now.span_records("swapped", (ready.start, ready.end), text, cache_key=ready.cache_key)
    return now.planned("swapped", "", records, now.with_records(records), ready)


def _shrinks_enough(now: Situation, swap: Plan, late: bool) -> bool:
    """Whether a swap is a compaction at all (P7)."""
    if now.active.degraded and now.below_trigger(swap.tokens_after):
        return True  # it heals, even if the view grows
    waived = now.scene.forced and now.scene.target_tokens is None
    return (waived or late or swap.tokens_after <= now.target) and now.is_smaller(swap)
