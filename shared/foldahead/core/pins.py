"""What stays in the view from inside a span: pins asked for, and those that go without saying."""

from collections.abc import Mapping, Sequence
from typing import Any

from foldahead.core.dialect import as_plain, role_of
from foldahead.core.ledger import Ledger
from foldahead.core.policy import Policy
from foldahead.core.record import Record, record_of


def pins_of(ledger: Ledger, start: int, end: int, asked: frozenset[int]) -> dict[int, str]:
    """Indices to pin within a span, and why: asked for; system; the user's last own words when the tail has none.

    A pin takes its tool cycle along: a call never stands without its results.
    """
    reasons = {index: "asked" for index in asked if start <= index < end}
    reasons |= dict.fromkeys(ledger.systems(start, end), "system")
    last = ledger.last_own_words()
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


def pins_as_shown(
    pins: dict[int, str], mended: Mapping[int, Any], history: Sequence[Any], ledger: Ledger
) -> dict[int, str]:
    """Pins where their messages stand once a turn was mended: `mended` has what stands in place of some, by index."""
    return dict(sorted((_place_of(index, mended, history, ledger), why) for index, why in pins.items()))


def _place_of(index: int, mended: Mapping[int, Any], history: Sequence[Any], ledger: Ledger) -> int:
    """A message that was moved is found in its turn by what it says; a system message that became part of another by
    its role."""
    if index not in mended:
        return index
    turn = range(ledger.turn_start_at(index), ledger.turn_end_at(index))
    shown = {at: mended[at] for at in turn if mended.get(at) is not None}
    said, role = as_plain(history[index]), role_of(history[index])
    same = [at for at, message in shown.items() if message == said]
    alike = [at for at, message in shown.items() if role_of(message) == role]
    if same or index in alike or (role == "user" and index not in shown):
        return same[0] if same else index
    return min(alike, key=lambda at: abs(at - index), default=index)


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
