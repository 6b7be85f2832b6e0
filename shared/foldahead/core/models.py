"""What is known of models: window, prices, thinking. Dated data; an unknown model is said aloud, never
guessed at.

Read on `AS_OF` from platform.claude.com ("Pricing", "Models", "Effort") for the models in the list of
anthropic 2.14.0, and those that were retired since. A model without a price cannot summarise. Servers take
more models, or other prices, from the file that FOLDAHEAD_MODELS_FILE names (docs/operations.md, "Models and
prices").
"""

import re
from collections.abc import Mapping

from msgspec import Struct

AS_OF = "2026-11-29"
PICO_PER_USD = 1_000_000_000_000
_PICO_PER_USD_A_MILLION = 1_000_000


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars per million tokens. `cache_write` is the five-minute one, `cache_write_1h` by rule twice the input."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_1h: float = 0.0

    def picodollars(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        cache_write_1h_tokens: int = 0,
    ) -> int:
        """What so many tokens cost, exactly: dollars a million are a whole number of picodollars a token."""
        long_write = self.cache_write_1h or 2 * self.input
        return (
            input_tokens * _pico(self.input)
            + output_tokens * _pico(self.output)
            + cache_read_tokens * _pico(self.cache_read)
            + cache_write_tokens * _pico(self.cache_write)
            + cache_write_1h_tokens * _pico(long_write)
        )


def _pico(usd_a_million: float) -> int:
    return round(usd_a_million * _PICO_PER_USD_A_MILLION)


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model. `dear` is its price for prompts of more than `band_tokens`, where it has two bands."""

    window_tokens: int
    price: Price | None = None
    band_tokens: int = 0
    dear: Price | None = None
    output_tokens: int = 128_000
    """The longest answer."""
    binds_thinking: bool = False
    """Thinking is bound to the conversation before it (preserved thinking)."""
    thinks: bool = False
    """Thinks unless told otherwise (adaptive), out of the answer's budget."""
    effort: bool = False
    """Takes `output_config.effort`."""
    compacts: bool = False
    """Writes `native` summaries: takes a request with `compaction` (on-demand compaction)."""

    def price_at(self, prompt_tokens: int) -> Price | None:
        """The price of a call with a prompt of that size, cache reads and writes included."""
        return self.dear if self.dear and prompt_tokens > self.band_tokens else self.price


def _claude(into: float, out: float, *, read: float = 0.0, binds: bool = False) -> Model:
    """A model that thinks by itself, with a window of a million tokens; `read` where it is not a tenth of `into`."""
    return Model(
        window_tokens=1_000_000,
        price=Price(into, out, read or into * 0.1, into * 1.25),
        binds_thinking=binds,
        thinks=True,
        effort=True,
        compacts=True,
    )


def _older(into: float, out: float, effort: bool = False) -> Model:
    """A model that thinks only when asked to, with a window of 200,000 tokens."""
    price = Price(into, out, into * 0.1, into * 1.25)
    return Model(window_tokens=200_000, output_tokens=64_000, price=price, effort=effort)


_FABLE_5_1 = _claude(10, 50, read=0.25, binds=True)
_FABLE_5_2 = _claude(8, 40, read=0.20, binds=True)

MODELS: dict[str, Model] = {
    "claude-haiku-5-5": Model(
        window_tokens=1_000_000,
        price=Price(0.10, 0.50, 0.01, 0.125, 0.20),
        band_tokens=100_000,
        dear=Price(0.50, 2.50, 0.05, 0.625, 1.00),
        binds_thinking=True,
        thinks=True,
        effort=True,
        compacts=True,
    ),
    "claude-sonnet-5-5": _claude(2, 10, read=0.10, binds=True),
    "claude-opus-5-5": _claude(4, 20, read=0.20, binds=True),
    "claude-fable-5-2": _FABLE_5_2,
    "claude-mythos-5-2": _FABLE_5_2,
    "claude-fable-5-1": _FABLE_5_1,
    "claude-mythos-5-1": _FABLE_5_1,
    "claude-fable-5": _claude(10, 50),
    "claude-mythos-5": _claude(10, 50),
    # By invitation; no list price was read. Costs are refused rather than guessed.
    "claude-mythos-preview": Model(window_tokens=1_000_000, thinks=True, effort=True, compacts=True),
    "claude-sonnet-5": _claude(2, 10),
    "claude-opus-5": _claude(5, 25),
    "claude-opus-4-8": _claude(5, 25),
    "claude-opus-4-7": _claude(5, 25),
    "claude-opus-4-6": _claude(5, 25),
    "claude-sonnet-4-6": _claude(3, 15),
    "claude-opus-4-5": _older(5, 25, effort=True),
    "claude-sonnet-4-5": _older(3, 15),
    "claude-haiku-4-5": _older(1, 5),
    "claude-opus-4-1": _older(15, 75),
    "claude-opus-4": _older(15, 75),
    "claude-sonnet-4": _older(3, 15),
}

LEAST_WINDOW_TOKENS = min(model.window_tokens for model in MODELS.values())

# The same model as the API, Bedrock, Vertex and gateways spell it: a path or a vendor before it, a date, a
# version or a window behind it. Anything else behind it makes it another model.
_SPELLING = re.compile(
    r"(?:.*[:/.])?(claude-[a-z]+-(?:\d+(?:[-.]\d{1,2})?|preview))(?:[-@]20\d{6})?(?:-latest|@latest)?(?:-v\d+(?::\d+)?)?(?:\[1m\])?"
)


def bare_name(name: str) -> str:
    """A model's name as the Claude API has it, from any spelling; other names as they are, without provider."""
    found = _SPELLING.fullmatch(name)
    return found[1].replace(".", "-") if found else name.partition(":")[2] or name


def find_model(name: str, more: Mapping[str, Model] | None = None) -> Model | None:
    """What is known of a model, by any of its spellings; None when nothing is. What `more` says of a model wins."""
    bare = bare_name(name)
    for known in (more or {}, MODELS):
        for spelling in (name, bare):
            if spelling in known:
                return known[spelling]
    return None


def unknown_model(name: str) -> str:
    """What is said of a model that has no price."""
    return (
        f"model {name!r}: no price is known, so its cost would not be; add it to the file that FOLDAHEAD_MODELS_FILE "
        'names (docs/operations.md, "Models and prices")'
    )
