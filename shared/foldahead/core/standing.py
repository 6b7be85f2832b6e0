"""How a session stands: what the agent's side tells the servers, and what they have ready for it."""

from msgspec import Struct

from foldahead.core.policy import Policy
from foldahead.core.request import SummaryKind


class Ready(Struct, frozen=True, kw_only=True):
    """A summary that a session may swap in: for the messages `start`..`end` under `head_end`, and no others."""

    cache_key: str
    kind: SummaryKind
    model: str
    start: int
    end: int
    head_end: bytes
    text: str
    block: bytes = b""
    """`native`: the block that the provider signed, JSON, byte for byte."""
    summary_tokens: int = 0


class Offer(Struct, frozen=True, kw_only=True):
    """The span that a summary could stand for now: the agent's current cut. Heads are 32 bytes.

    `span_estimate_tokens` is uncalibrated (part of a cache key); `span_tokens` calibrated.
    """

    start: int
    end: int
    head_start: bytes
    head_end: bytes
    span_estimate_tokens: int
    span_tokens: int


class Shown(Struct, frozen=True, kw_only=True):
    """The newest summary that a session has, in its view or ready for it: what the next one folds in."""

    cache_key: str
    start: int
    end: int
    head_end: bytes
    summary_tokens: int


class Calibration(Struct, frozen=True, kw_only=True):
    """Provider's tokens per estimated token (`slope`), and the request that the next difference is taken to."""

    slope: float = 1.0
    samples: int = 0
    context_tokens: int = 0
    estimate_tokens: int = 0


class Standing(Struct, frozen=True, kw_only=True):
    """How a session stands after a turn: counts and heads, never content."""

    dialect: str
    policy: Policy
    messages: int
    head: bytes
    turns: int
    turn_id: str
    pending_tokens: int
    prefix_tokens: int
    tail_tokens: int
    growth_tokens: float
    """Robust mean of pending tokens gained a turn."""
    interval_s: float
    """Robust mean of the time between two turns."""
    calibration: Calibration = Calibration()
    model: str = ""
    """The agent's own model, where `request` named it."""
    parent_session: str = ""
    offer: Offer | None = None
    no_offer_reason: str = ""
    shown: Shown | None = None
    stalled: int = 0
    """Compactions in a row that had no effect."""
    at_hard_cap: bool = False
