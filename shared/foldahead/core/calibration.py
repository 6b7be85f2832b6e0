"""From estimated tokens to the provider's: a slope per session, learned from differences.

System prompt and tools are in every count and in no message, so a count says little and the difference between two
says much: the intercept falls out. Steps are bounded, so that one odd request (edited by the server, a cache that
was counted twice) cannot throw a session off.
"""

from typing import Any

import msgspec

from foldahead.core.dialect import Dialect
from foldahead.core.standing import Calibration
from foldahead.errors import InvalidHistory

MOST_CONTEXT_TOKENS = 1_000_000_000
"""A count beyond this is no context size of any model."""
LEAST_DIFFERENCE_TOKENS = 400
"""Smaller differences are mostly rounding and framing."""
LEAST_SLOPE, MOST_SLOPE = 0.5, 3.0
"""chars/4 was seen to run 1.3 to 2.1 times low (facts.md); beyond these bounds the count is of something else."""
_GAIN = 0.5
_MOST_STEP = 0.25
"""Of the slope known so far; the first step may be twice that."""


def learn(known: Calibration, dialect: Dialect, usage: Any, estimate_tokens: int) -> Calibration | None:
    """Take what a provider counted for one request; None when that cannot be read."""
    try:
        context = dialect.context_tokens(usage)
    except (InvalidHistory, TypeError, ValueError, AttributeError):
        return None
    if context is None:
        return known
    return calibrate(known, context, estimate_tokens) if context <= MOST_CONTEXT_TOKENS else None


def calibrate(known: Calibration, context_tokens: int, estimate_tokens: int) -> Calibration:
    """Take one request's context size, and the estimate of the messages it held.

    A request that is not the last one with something added (a swap, another branch) only becomes the new base, and
    so does one that is out of all proportion to the last. A count smaller than its messages can be is of something
    else, and passed over.
    """
    if context_tokens < LEAST_SLOPE * estimate_tokens:
        return known
    base = msgspec.structs.replace(known, context_tokens=context_tokens, estimate_tokens=estimate_tokens)
    gained = estimate_tokens - known.estimate_tokens
    billed = context_tokens - known.context_tokens
    if not known.context_tokens or gained <= 0 or billed <= 0:
        return base
    if gained < LEAST_DIFFERENCE_TOKENS and billed <= MOST_SLOPE * LEAST_DIFFERENCE_TOKENS:
        return known
    ratio = billed / gained
    if not LEAST_SLOPE <= ratio <= MOST_SLOPE:
        return base
    gain = _GAIN if known.samples else 1.0
    most = _MOST_STEP * known.slope * (1 if known.samples else 2)
    step = min(most, max(-most, gain * (ratio - known.slope)))
    return msgspec.structs.replace(base, slope=round(known.slope + step, 4), samples=known.samples + 1)


def overhead_tokens(known: Calibration) -> int:
    """System prompt and tools, as the last request leaves them over."""
    return max(0, int(known.context_tokens - known.slope * known.estimate_tokens)) if known.context_tokens else 0
