"""Whether a compaction pays for itself: the arithmetic of prompt caching over the turns to come.

A swap rewrites what follows it into the provider's cache once, at the write price; each later turn then reads fewer
tokens. What is not saved within the turns that the session can be expected to have is not worth a summary.
"""

from msgspec import Struct

from foldahead.core.models import Price, find_model

UNKNOWN_PRICE = Price(1.0, 5.0, 0.1, 1.25)
"""For an agent's model that is not in the table: only proportions count, and these are the common ones."""
LEAST_TURNS_TO_COME = 8
"""A session that reached its threshold goes on for a while; break-even on a warm cache was seen at 3 to 7 turns."""


class Worth(Struct, frozen=True, kw_only=True):
    """The arithmetic of one compaction, in dollars; `turns` is the break-even, None when it never comes."""

    saved_a_turn_usd: float
    once_usd: float
    turns_to_come: int
    turns: float | None

    @property
    def pays(self) -> bool:
        """Whether the session can be expected to live until it has paid for itself."""
        return self.turns is not None and self.turns <= self.turns_to_come

    def describe(self) -> str:
        """The arithmetic in words."""
        even = "never" if self.turns is None else f"after {self.turns:.1f} turns"
        return (
            f"saves ${self.saved_a_turn_usd:.5f} a turn, costs ${self.once_usd:.5f} once: even {even}, "
            f"{self.turns_to_come} turns expected"
        )


def worth_of(
    *,
    span_tokens: int,
    summary_tokens: int,
    tail_tokens: int,
    turns: int,
    agent_model: str,
    summary_model: str,
    cached: bool = False,
) -> Worth:
    """What a summary of `span_tokens` costs and saves. `cached`: its writer reads what the agent's requests cached.

    `turns` so far: the best guess at the turns to come (a session seen at a random moment is half done).
    `summary_model` "" makes the summary free (`extract`).
    """
    known = find_model(agent_model) if agent_model else None
    price = (known.price_at(span_tokens + tail_tokens) if known else None) or UNKNOWN_PRICE
    million = 1_000_000
    saved = (span_tokens - summary_tokens) * price.cache_read / million
    rewritten = (summary_tokens + tail_tokens) * (price.cache_write - price.cache_read) / million
    once = rewritten + _summary_usd(span_tokens, summary_tokens, summary_model, cached)
    to_come = max(LEAST_TURNS_TO_COME, turns)
    return Worth(
        saved_a_turn_usd=saved,
        once_usd=once,
        turns_to_come=to_come,
        turns=once / saved if saved > 0 else None,
    )


def _summary_usd(span_tokens: int, summary_tokens: int, model: str, cached: bool) -> float:
    known = find_model(model) if model else None
    price = known.price_at(span_tokens) if known else None
    if price is None:
        return 0.0
    read = price.cache_read if cached else price.input
    return (span_tokens * read + summary_tokens * price.output) / 1_000_000
