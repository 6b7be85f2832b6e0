"""How much a view holds: tokens by arithmetic on the ledger, or by a caller's own counter."""

from collections.abc import Callable
from typing import Any, Protocol

from foldahead.core.ledger import Ledger
from foldahead.core.tokens import estimate, estimate_text
from foldahead.core.view import Active, build_view, parse_place

Counter = Callable[[list[Any]], int]


class Scale(Protocol):
    """Weighs the view that some records would give. Numbers of one scale are never compared with another's."""

    def weigh(self, active: Active) -> int:
        """Tokens of the view under these records."""
        ...


class PendingScale:
    """Calibrated tokens of the view between stable prefix and preserved tail. No look at any message."""

    def __init__(self, ledger: Ledger, tail: int, slope: float) -> None:
        self._ledger = ledger
        self._tail = tail
        self._slope = slope

    def weigh(self, active: Active) -> int:
        return int(self._slope * pending_estimate(self._ledger, active, self._tail))


class WholeScale:
    """Calibrated tokens of the whole view, system prompt and tools aside: what a caller's room is compared with."""

    def __init__(self, ledger: Ledger, slope: float) -> None:
        self._ledger = ledger
        self._slope = slope

    def weigh(self, active: Active) -> int:
        return int(self._slope * whole_estimate(self._ledger, active))


class CounterScale:
    """A caller's counter over the candidate view, in the tokens of the backend it is about to call.

    `outside` holds messages that are not to count: stable prefix and tail, where pending tokens are wanted.
    """

    def __init__(self, history: list[Any], ledger: Ledger, counter: Counter, outside: list[Any]) -> None:
        self._history = history
        self._ledger = ledger
        self._counter = counter
        self._outside_tokens = counter(outside) if outside else 0

    def weigh(self, active: Active) -> int:
        whole = self._counter(build_view(self._history, active, self._ledger.dialect))
        return max(0, whole - self._outside_tokens)


def pending_estimate(ledger: Ledger, active: Active, tail: int) -> int:
    """Estimated tokens between the stable prefix and `tail`: what stands for spans, pins, and what is between."""
    total = 0
    at = ledger.stable_prefix_end()
    weights = active.weights or [message_tokens(ledger, span.message) for span in active.spans]
    for span, weight in zip(active.spans, weights, strict=True):
        total += ledger.span_tokens(at, max(at, span.start)) + weight
        pins = [pin for pin in active.pins if span.start <= pin < min(span.end, tail)]
        total += sum(ledger.span_tokens(pin, pin + 1) for pin in pins) + _mended_by(ledger, active, pins)
        at = max(at, span.end)
    total += ledger.span_tokens(at, tail) if tail > at else 0
    return max(0, total - _saved(ledger, active, at, tail))


def whole_estimate(ledger: Ledger, active: Active) -> int:
    """Estimated tokens of the whole view."""
    return ledger.tokens[ledger.stable_prefix_end()] + pending_estimate(ledger, active, len(ledger))


def message_tokens(ledger: Ledger, message: Any) -> int:
    """Estimate of a message that is not of the history."""
    return estimate(ledger.dialect.read(message, 0))


def _mended_by(ledger: Ledger, active: Active, pins: list[int]) -> int:
    """What pins hold more, or less, for having been mended: results may have moved from one to another."""
    mended = {edit.start: edit.message for edit in active.edits if edit.kind == "repaired"} if pins else {}
    return sum(
        (message_tokens(ledger, mended[pin]) if mended[pin] is not None else 0) - ledger.span_tokens(pin, pin + 1)
        for pin in pins
        if pin in mended
    )


def _saved(ledger: Ledger, active: Active, start: int, end: int) -> int:
    """What stubs take off the messages start..end."""
    saved = 0
    for record in active.edits:
        for place, stub in (record.stubs or {}).items():
            seen = ledger.observations.get(parse_place(place))
            if seen is not None and start <= seen.index < end:
                saved += max(0, seen.tokens - estimate_text(stub))
    return saved
