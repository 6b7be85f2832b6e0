"""What stays in the view from inside a span: pins asked for, and those that go without saying."""

from typing import Any

from foldahead.core.ledger import Ledger
from foldahead.core.policy import Policy
from foldahead.core.record import Record, record_of


def pins_of(ledger: Ledger, start: int, end: int, asked: frozenset[int]) -> dict[int, str]:
    """Indices to pin within a span, and why: asked for; system; the last real user message when the tail has none.

    A pin takes its tool cycle along: a call never stands without its results.
    """
    reasons = {index: "asked" for index in asked if start <= index < end}
    reasons |= dict.fromkeys(ledger.systems(start, end), "system")
    last = ledger.last_real_user(len(ledger))
    if last is not None and start <= last < end:
        reasons.setdefault(last, "last_user")
    closed = dict(reasons)
    for index, reason in reasons.items():
        for neighbour in cycle_of(ledger, index):
            if start <= neighbour < end:
                closed.setdefault(neighbour, reason)
    return dict(sorted(closed.items()))


def pinned_tokens(ledger: Ledger, start: int, end: int, asked: frozenset[int]) -> int:
    """Estimated tokens of what stays in the view from inside a span."""
    pins = pins_of(ledger, start, end, asked) if end > start else {}
    return sum(ledger.span_tokens(index, index + 1) for index in pins)


def chosen_by(policy: Policy, messages: list[Any], since: int) -> set[int]:
    """Indices from `since` on that a policy pins."""
    if (predicate := policy.predicate()) is not None:
        return {at for at in range(since, len(messages)) if predicate(messages[at])}
    return {at for at in policy.pinned_indices() if since <= at < len(messages)}


def cycle_of(ledger: Ledger, index: int) -> range:
    """The messages that cannot be parted from the one at an index: those between the legal cuts around it."""
    first, last = index, index + 1
    while first > 0 and not ledger.cuttable(first):
        first -= 1
    while last < len(ledger) and not ledger.cuttable(last):
        last += 1
    return range(first, last)


def pin_records(ledger: Ledger, pins: dict[int, str], mark: str, now_ms: int) -> list[Record]:
    """A record for each run of messages pinned for one reason. `mark` is that of the span that they stand in."""
    made: list[Record] = []
    for index, why in pins.items():
        reason = f"{why}:{mark[:16]}"
        joins = bool(made) and made[-1].end == index and made[-1].reason == reason
        index_from = made.pop().start if joins else index
        made.append(record_of(ledger.heads, "pinned", index_from, index + 1, now_ms, reason=reason))
    return made
