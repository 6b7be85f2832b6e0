"""How a session stands: what the agent's side tells the servers, and what they have ready for it."""

from typing import Annotated

from msgspec import Meta, Struct

from foldahead.core.policy import Policy
from foldahead.core.request import SummaryKind

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""Indices and tokens. Bounded where they are read: what comes from an agent goes into rows and arithmetic."""
Head = Annotated[bytes, Meta(min_length=32, max_length=32)]
Quantity = Annotated[float, Meta(ge=-1e9, le=1e9)]


class Ready(Struct, frozen=True, kw_only=True):
    """A summary that a session may swap in: for the messages `start`..`end` under `head_end`, and no others."""

    cache_key: str
    kind: SummaryKind
    model: str
    start: Count
    end: Count
    head_end: Head
    text: str
    block: bytes = b""
    """`native`: the block that the provider signed, JSON, byte for byte."""
    envelope: str = ""
    """`native`: digest of the `Envelope` that it was made under."""
    parent: str = ""
    """Cache key of the summary that this one goes on from."""
    keeps_thinking: bool = False
    """`native`: thinking behind it stays valid, the messages that it stands for were summarised as they were sent."""
    bare_until: Count = 0
    """`native`: those before this index without their thinking."""
    summary_tokens: Count = 0


class Offer(Struct, frozen=True, kw_only=True):
    """The span that a summary could stand for now: the agent's current cut. Heads are 32 bytes.

    `span_estimate_tokens` is uncalibrated (part of a cache key); `span_tokens` calibrated.
    """

    start: Count
    end: Count
    head_start: Head
    head_end: Head
    span_estimate_tokens: Count
    span_tokens: Count

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError(f"expected a span that ends after its start {self.start}, got {self.end}")


class Shown(Struct, frozen=True, kw_only=True):
    """The newest summary that a session has, in its view or ready for it: what the next one folds in."""

    cache_key: str
    start: Count
    end: Count
    head_end: Head
    summary_tokens: Count
    kind: SummaryKind = "text"


class Calibration(Struct, frozen=True, kw_only=True):
    """Provider's tokens per estimated token (`slope`), and the request that the next difference is taken to."""

    slope: Quantity = 1.0
    samples: Count = 0
    context_tokens: Count = 0
    estimate_tokens: Count = 0


class Standing(Struct, frozen=True, kw_only=True):
    """How a session stands after a turn: counts and heads, never content."""

    dialect: str
    policy: Policy
    messages: Count
    head: Head
    turns: Count
    turn_id: str
    pending_tokens: Count
    prefix_tokens: Count
    tail_tokens: Count
    growth_tokens: Quantity
    """Robust mean of pending tokens gained a turn."""
    interval_s: Quantity
    """Robust mean of the time between two turns."""
    calibration: Calibration = Calibration()
    model: str = ""
    """The agent's own model, where `request` named it."""
    envelope: str = ""
    """Digest of the system prompt, tools and betas of the agent's requests (`Envelope`), where the session's summaries
    may be `native`."""
    sent_as_is: bool = False
    """What was sent so far is the history itself, behind the provider's own blocks at most, ..."""
    bare_until: Count = 0
    """... and without the thinking of the messages before this index."""
    parent_session: str = ""
    offer: Offer | None = None
    no_offer_reason: str = ""
    shown: Shown | None = None
    watermark: Count = 0
    """Index at which what the view shows as compacted ends."""
    pinned_tokens: Count = 0
    """Of messages inside the offered span that would stay in the view beside its summary."""
    stalled: Count = 0
    """Compactions in a row that had no effect."""
    at_hard_cap: bool = False
    degraded: bool = False
    """The view stands on `extract` or a truncation: a better summary is wanted at once."""

    @property
    def forced(self) -> bool:
        """Whether work is needed now, whatever the forecast."""
        return self.at_hard_cap or self.degraded
