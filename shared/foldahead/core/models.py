"""What is known of models: window, prices, thinking. Dated data; an unknown model is said aloud, never guessed at zero.

Read on 2026-11-29 from the providers' documentation; models before those from Anthropic's price list. A model
without a price is not charged for and cannot summarise. docs/operations.md says how to add one.
"""

from msgspec import Struct

AS_OF = "2026-11-29"


class Price(Struct, frozen=True):
    """Dollars per million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float


class Model(Struct, frozen=True, kw_only=True):
    """One model. `dear` is its price for prompts of more than `band_tokens`, where it has two bands."""

    window_tokens: int
    price: Price | None = None
    band_tokens: int = 0
    dear: Price | None = None
    binds_thinking: bool = False
    """Thinking is bound to the conversation before it (preserved thinking)."""

    def price_at(self, prompt_tokens: int) -> Price | None:
        """The price of a call with a prompt of that size."""
        return self.dear if self.dear and prompt_tokens > self.band_tokens else self.price


def _claude(window_tokens: int, input: float, output: float, binds: bool = False) -> Model:
    return Model(
        window_tokens=window_tokens,
        price=Price(input, output, input * 0.1, input * 1.25),
        binds_thinking=binds,
    )


MODELS: dict[str, Model] = {
    "claude-haiku-5-5": Model(
        window_tokens=1_000_000,
        price=Price(0.10, 0.50, 0.01, 0.125),
        band_tokens=100_000,
        dear=Price(0.50, 2.50, 0.05, 0.625),
        binds_thinking=True,
    ),
    "claude-sonnet-5-5": _claude(1_000_000, 2, 10, True),
    "claude-opus-5-5": Model(window_tokens=1_000_000, price=Price(4, 20, 0.20, 5), binds_thinking=True),
    "claude-fable-5-1": _claude(1_000_000, 10, 50, True),
    "claude-sonnet-5": _claude(1_000_000, 2, 10),
    "claude-opus-5": _claude(1_000_000, 5, 25),
    "claude-opus-4-8": Model(window_tokens=1_000_000),
    "claude-opus-4-7": Model(window_tokens=1_000_000),
    "claude-opus-4-6": _claude(1_000_000, 5, 25),
    "claude-sonnet-4-6": _claude(1_000_000, 3, 15),
    "claude-opus-4-5": _claude(200_000, 5, 25),
    "claude-sonnet-4-5": _claude(200_000, 3, 15),
    "claude-haiku-4-5": _claude(200_000, 1, 5),
    "claude-opus-4-1": _claude(200_000, 15, 75),
    "claude-opus-4": _claude(200_000, 15, 75),
    "claude-sonnet-4": _claude(200_000, 3, 15),
}


def find_model(name: str) -> Model | None:
    """What is known of a model, by its name with or without provider and date; None when nothing is."""
    bare = name.rpartition(":")[2].rpartition("/")[2]
    while bare:
        if bare in MODELS:
            return MODELS[bare]
        bare, separator, last = bare.rpartition("-")
        if not separator or not (last.isdigit() and len(last) == 8 or last == "latest"):
            return None
    return None
