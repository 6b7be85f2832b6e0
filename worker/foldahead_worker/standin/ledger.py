"""The stand-in's own books: every call with what it was, what became of it, and what it was billed."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

_MAX_CALLS: Final = 100_000
_MAX_BODIES: Final = 256


class Call(msgspec.Struct, frozen=True):
    """One call, as `GET /_standin/ledger` shows it.

    `kind`: message, compaction, count or models. `outcome`: open (in flight), answered, refused, or broken
    (the connection closed before the answer was whole). A call that answered is billed even if it broke;
    `picodollars` is null for a model without a price.
    """

    n: int
    at_unix_s: float
    kind: str
    api_key: str
    model: str = ""
    streamed: bool = False
    status: int = 0
    outcome: str = "open"
    error_type: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    stop_reason: str | None = None
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0
    picodollars: int | None = 0
    messages: int = 0
    request_digest: str = ""
    faults: tuple[str, ...] = ()
    seconds: float = 0.0


class Ledger:
    """The calls, oldest first, and the last request bodies. Not safe between threads; the service locks."""

    def __init__(self) -> None:
        self._calls: OrderedDict[int, Call] = OrderedDict()
        self._bodies: OrderedDict[int, bytes] = OrderedDict()
        self._next = 1

    def open(self, at_unix_s: float, kind: str, api_key: str, body: bytes) -> Call:
        """Enters a call that has come in."""
        call = Call(n=self._next, at_unix_s=at_unix_s, kind=kind, api_key=api_key)
        self._next += 1
        self._calls[call.n] = call
        self._bodies[call.n] = body
        while len(self._calls) > _MAX_CALLS:
            self._calls.popitem(last=False)
        while len(self._bodies) > _MAX_BODIES:
            self._bodies.popitem(last=False)
        return call

    def write(self, call: Call) -> None:
        """Enters what is now known of a call; a call from before a reset is let go."""
        if call.n in self._calls:
            self._calls[call.n] = call

    def calls(self) -> list[Call]:
        """Gives all calls, oldest first."""
        return list(self._calls.values())

    def body(self, n: int) -> bytes | None:
        """Gives the body of a recent request."""
        return self._bodies.get(n)

    def reset(self) -> None:
        """Forgets all calls; numbers go on."""
        self._calls.clear()
        self._bodies.clear()
