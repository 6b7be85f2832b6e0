"""How much a view holds: pending tokens by arithmetic on the ledger, or a caller's own counter."""

from collections.abc import Callable
from typing import Any, Protocol

from foldahead.core.elide import tokens_saved
from foldahead.core.ledger import Ledger
from foldahead.core.tokens import estimate
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


class CounterScale:
    """A caller's counter over the whole candidate view, in the tokens of the backend it is about to call."""

    def __init__(self, history: list[Any], ledger: Ledger, counter: Counter) -> None:
        self._history = history
        self._ledger = ledger
        self._counter = counter

    def weigh(self, active: Active) -> int:
        return self._counter(build_view(self._history, active, self._ledger.dialect))


def pending_estimate(ledger: Ledger, active: Active, tail: int) -> int:
    """Estimated tokens between the stable prefix and `tail`: what stands for spans, pins, and what is between."""
    total = 0
    at = ledger.stable_prefix_end()
    for span in active.spans:
        total += ledger.span_tokens(at, max(at, span.start)) + message_tokens(ledger, span.message)
        total += sum(
            ledger.span_tokens(pin, pin + 1) for pin in active.pins if span.start <= pin < min(span.end, tail)
        )
        at = max(at, span.end)
    total += ledger.span_tokens(at, tail) if tail > at else 0
    return max(0, total - _saved(active, at, tail))


def message_tokens(ledger: Ledger, message: Any) -> int:
    """Estimate of a message that is not of the history."""
    return estimate(ledger.dialect.read(message, 0))


def _saved(active: Active, start: int, end: int) -> int:
    return sum(
        tokens_saved(stub)
        for record in active.edits
        for place, stub in (record.stubs or {}).items()
        if start <= parse_place(place)[0] < end
    )
