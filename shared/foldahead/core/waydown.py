"""The ways down at the hard cap, when nothing is ready: a summary by rules, else the oldest messages left out."""

from bisect import bisect_left

from foldahead.core.cut import Cut
from foldahead.core.ledger import Ledger
from foldahead.core.pins import pinned_tokens
from foldahead.core.policy import Policy
from foldahead.core.scene import Extract, Plan, Situation
from foldahead.core.wrapper import truncation_marker, wrap

LEAST_EXTRACT_TOKENS = 200


def way_down(now: Situation, extract: Extract) -> Plan | None:
    """`extract` of the current cut, else truncation; None where the policy forbids both or neither helps."""
    policy, cut = now.policy, now.cut()
    if policy.on_hard_cap == "unchanged" or not cut.found:
        return None
    if policy.on_hard_cap == "extract" and (plan := _extracted(now, cut, extract)) is not None:
        return plan
    return _truncated(now, cut)


def _extracted(now: Situation, cut: Cut, extract: Extract) -> Plan | None:
    if f"extract:{now.ledger.heads[cut.end].hex()}" in now.active.refused:
        return None
    tail = now.tail if now.scene.target_tokens is None else len(now.ledger)
    room = now.target if now.scene.target_tokens is None else now.target - _outside(now)
    pinned = pinned_tokens(now.ledger, cut.start, cut.end, now.scene.pinned)
    budget = extract_budget(now.ledger, cut, tail, now.policy, room, _per_token(now), pinned)
    text = wrap(extract(cut.end, budget), "extract", cut.end)
    records = now.span_records("swapped", (cut.start, cut.end), text, reason="extract")
    plan = now.planned("swapped", "extract", records, now.with_records(records))
    return plan if now.is_smaller(plan) and plan.tokens_after <= now.target else None


def _outside(now: Situation) -> int:
    return int(_per_token(now) * now.ledger.tokens[now.ledger.stable_prefix_end()])


def _per_token(now: Situation) -> float:
    """What one estimated token weighs on the scale of this plan."""
    if now.scene.counter is None:
        return now.scene.slope
    return max(0.1, now.scene.counter(now.history) / max(1, now.ledger.tokens[-1]))


def extract_budget(
    ledger: Ledger, cut: Cut, tail: int, policy: Policy, target: int, slope: float, pinned_tokens: int
) -> int:
    """Tokens for a summary by rules: a quarter of what goes, what the target leaves room for, the policy's maximum.

    `pinned_tokens`: an estimate of what stays in the view from inside the span.
    """
    kept = pinned_tokens + (ledger.span_tokens(cut.end, tail) if tail > cut.end else 0)
    quarter = (ledger.span_tokens(cut.start, cut.end) - pinned_tokens) // 4
    return max(LEAST_EXTRACT_TOKENS, min(quarter, int(target / slope * 0.9) - kept, policy.summary_max_tokens))


def _truncated(now: Situation, cut: Cut) -> Plan | None:
    """Oldest messages out, pair-aligned, until the target is met; never into the tail, nor into a good summary."""
    ledger, refused = now.ledger, now.active.refused
    start = max(cut.start, now.active.settled_end)
    ends = [
        end
        for end in range(start + 1, cut.end + 1)
        if ledger.cuttable(end) and f"truncated:{ledger.heads[end].hex()}" not in refused
    ]
    if not ends:
        return None

    def plan_to(end: int) -> Plan:
        marker = truncation_marker(ledger.heads[end].hex(), end - start)
        records = now.span_records("truncated", (start, end), marker, reason="truncated")
        return now.planned("truncated", "", records, now.with_records(records))

    at = bisect_left(ends, True, hi=len(ends) - 1, key=lambda end: plan_to(end).tokens_after <= now.target)
    plan = plan_to(ends[at])
    return plan if now.is_smaller(plan) else None
