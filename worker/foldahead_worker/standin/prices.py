"""What the stand-in bills: the price list of the Claude API, in whole picodollars.

Source: the documentation page "Pricing" as of 2026-11. Written down here once more, apart from foldahead's own list,
so that the two check each other.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldahead_worker.standin.billing import Usage
from foldahead_worker.standin.models import Model

#: Prompts of more tokens than this are billed by the second band, where a model has one.
_BAND_TOKENS: Final = 100_000


class _Rate(msgspec.Struct, frozen=True):
    """Picodollars a token: fresh input, output, cache read, cache write for five minutes and for an hour."""

    fresh: int
    output: int
    read: int
    write: int
    write_1h: int


def _rate(fresh: float, output: float, read: float | None = None) -> _Rate:
    """From dollars a million tokens; a cache read is a tenth of fresh input where nothing else is said."""
    micro = round(fresh * 1_000_000)
    cached = micro // 10 if read is None else round(read * 1_000_000)
    return _Rate(micro, round(output * 1_000_000), cached, micro * 5 // 4, micro * 2)


_RATES: Final[dict[str, tuple[_Rate, ...]]] = {
    "claude-haiku-5-5": (_rate(0.10, 0.50), _rate(0.50, 2.50)),
    "claude-sonnet-5-5": (_rate(2, 10, 0.10),),
    "claude-opus-5-5": (_rate(4, 20, 0.20),),
    "claude-fable-5-1": (_rate(10, 50, 0.25),),
    "claude-sonnet-5": (_rate(2, 10),),
    "claude-opus-5": (_rate(5, 25),),
    "claude-opus-4-8": (_rate(5, 25),),
    "claude-opus-4-7": (_rate(5, 25),),
    "claude-opus-4-6": (_rate(5, 25),),
    "claude-opus-4-5": (_rate(5, 25),),
    "claude-sonnet-4-6": (_rate(3, 15),),
    "claude-sonnet-4-5": (_rate(3, 15),),
    "claude-sonnet-4": (_rate(3, 15),),
    "claude-haiku-4-5": (_rate(1, 5),),
}


def bill(model: Model, usage: Usage) -> int | None:
    """Prices one call in picodollars; None for a model whose price is not listed here."""
    bands = _RATES.get(model.name)
    if bands is None:
        return None
    rate = bands[-1] if usage.prompt_tokens > _BAND_TOKENS else bands[0]
    short = usage.cache_creation_input_tokens - usage.write_1h_tokens
    return (
        usage.input_tokens * rate.fresh
        + usage.output_tokens * rate.output
        + usage.cache_read_input_tokens * rate.read
        + short * rate.write
        + usage.write_1h_tokens * rate.write_1h
    )
