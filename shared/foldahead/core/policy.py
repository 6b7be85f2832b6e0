"""What a caller may choose, for one session. Validated when it is made; names are the seeds' where they have one."""

from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from foldahead.errors import InvalidPolicy

Mode = Literal["on", "shadow", "off"]
Kind = Literal["text", "native"]
OnHardCap = Literal["extract", "truncate", "unchanged"]
TailThinking = Literal["auto", "strip", "drop_block", "keep"]
Predicate = Callable[[Any], bool]


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a session is compacted, how, and for how much. Raises `InvalidPolicy`, which names the field.

    Tokens are the provider's, as calibrated; ratios are of `threshold_tokens`. Defaults are the first seed's
    (sections 3.1 and 11) and the second seed's (`age_*`, `tool_result_cap`, `max_attempts`, `target_ratio`).
    """

    mode: Mode = "on"
    """`shadow` does all but the swap; `off` does nothing."""
    threshold_tokens: int | Literal["auto"] = 30_000
    """Pending tokens at which a ready summary is swapped in. `auto`: where it saves most money."""
    hard_cap_tokens: int = 80_000
    """Pending tokens that are never exceeded while anything can be done about it."""
    window_tokens: int | None = None
    """The model's context window; None: as known for the model of the request."""
    preserve_recent_turns: int = 5
    preserve_recent_tokens: int = 20_000
    """A longer tail gives up whole oldest turns, never the last."""
    model: str = "anthropic:claude-haiku-5-5"
    """The summariser, `provider:model`."""
    kind: Kind = "text"
    max_cost_per_session_usd: float = 0.20
    summary_max_tokens: int = 4_096
    cache_max_rows: int = 1_000
    """Summaries kept per workspace, not counting those that a session shows or waits for."""
    start_ratio: float = 0.6
    """Paid work starts no earlier than at this part of the threshold."""
    upload_ratio: float = 0.5
    """Bodies are sent from this part of the threshold on."""
    target_ratio: float = 0.7
    """A compaction must bring pending tokens to or under this part of the threshold."""
    min_span_tokens: int = 2_000
    on_hard_cap: OnHardCap = "extract"
    tail_thinking: TailThinking = "auto"
    age_observations: bool = False
    age_min_chars: int = 2_000
    age_reclaim_min: int = 20_000
    tool_result_cap: int = 4_000
    """Characters of a tool result, or of a call's arguments, that a summariser is shown."""
    max_attempts: int = 3
    resummarise: bool = True
    """False: one summary per generation, as in the first seed; True: a later summary takes the earlier in."""
    instructions: str = ""
    """Added to the summariser's prompt; part of the cache key."""
    pinned: Any = ()
    """Messages that stay in the view: a tuple of indices into the history, or a `Predicate` of a message."""
    cache_ttl_s: int = 300
    """How long the provider keeps a prompt prefix cached after a request."""

    def __post_init__(self) -> None:
        pinned: Any = self.pinned
        if pinned.__class__ is list:  # as JSON and msgpack give it back
            msgspec.structs.force_setattr(self, "pinned", tuple(pinned))
        _check_ranges(self)
        if not callable(pinned) and any(not _whole(index) or index < 0 for index in pinned):
            raise InvalidPolicy(f"pinned: expected indices of messages, 0 or more, or a function, got {pinned!r}")
        if self.threshold >= self.hard_cap_tokens:
            raise InvalidPolicy(
                f"threshold_tokens: expected less than hard_cap_tokens ({self.hard_cap_tokens}), "
                f"got {self.threshold_tokens}"
            )
        provider, separator, name = self.model.partition(":")
        if not (provider and separator and name):
            raise InvalidPolicy(f'model: expected "provider:model", got {self.model!r}')

    @property
    def threshold(self) -> int:
        """`threshold_tokens` as a number; `auto`: three eighths of the hard cap, the defaults' proportion."""
        return self.hard_cap_tokens * 3 // 8 if self.threshold_tokens == "auto" else self.threshold_tokens

    @property
    def target_tokens(self) -> int:
        """Pending tokens that a view must not exceed after a swap."""
        return max(1, int(self.threshold * self.target_ratio))

    def predicate(self) -> Predicate | None:
        """`pinned` where it is a function of a message."""
        return cast("Predicate", self.pinned) if callable(self.pinned) else None

    def pinned_indices(self) -> tuple[int, ...]:
        """`pinned` where it names messages."""
        return () if callable(self.pinned) else self.pinned


POLICY_FIELDS = Policy.__struct_fields__

_MOST = 2**31 - 1
"""What a database's integer holds. Policies come from agents: no number of one may stop the servers."""
_LEAST: dict[str, float] = {
    "hard_cap_tokens": 2,
    "preserve_recent_turns": 0,
    "preserve_recent_tokens": 0,
    "max_cost_per_session_usd": 0,
    "summary_max_tokens": 1,
    "cache_max_rows": 1,
    "min_span_tokens": 0,
    "age_min_chars": 0,
    "age_reclaim_min": 0,
    "tool_result_cap": 1,
    "max_attempts": 1,
    "cache_ttl_s": 0,
}
_RATIOS = ("start_ratio", "upload_ratio", "target_ratio")
_BESIDES = {"threshold_tokens": "auto", "window_tokens": None}
"""Whole numbers, and what else each may be."""
_CHOICES = {
    "mode": ("on", "shadow", "off"),
    "kind": ("text", "native"),
    "on_hard_cap": ("extract", "truncate", "unchanged"),
    "tail_thinking": ("auto", "strip", "drop_block", "keep"),
}


def policy_from(values: dict[str, Any]) -> Policy:
    """A policy from plain values, as of a command line or an override. Raises `InvalidPolicy` naming the field."""
    for name in values:
        if name not in POLICY_FIELDS:
            raise InvalidPolicy(f"{name}: no such policy field; there are {', '.join(POLICY_FIELDS)}")
    if isinstance(values.get("pinned"), list):
        values = {**values, "pinned": tuple(values["pinned"])}
    return Policy(**values)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_ranges(policy: Policy) -> None:
    _check_numbers(policy)
    for name, choices in _CHOICES.items():
        if (chosen := getattr(policy, name)) not in choices:
            raise InvalidPolicy(f"{name}: expected one of {', '.join(choices)}, got {chosen!r}")
    for name in ("age_observations", "resummarise"):
        if not isinstance(flag := getattr(policy, name), bool):
            raise InvalidPolicy(f"{name}: expected true or false, got {flag!r}")
    for name in ("model", "instructions"):
        if not isinstance(text := getattr(policy, name), str):
            raise InvalidPolicy(f"{name}: expected a text, got {text!r}")
    if not isinstance(policy.pinned, tuple) and not callable(policy.pinned):
        raise InvalidPolicy(f"pinned: expected indices of messages or a function, got {policy.pinned!r}")


def _check_numbers(policy: Policy) -> None:
    for name, least in _LEAST.items():
        value: object = getattr(policy, name)
        fractional = name == "max_cost_per_session_usd" and isinstance(value, float)
        if not (_whole(value) or fractional) or not least <= value <= _MOST:  # type: ignore[operator]
            raise InvalidPolicy(f"{name}: expected a number of at least {least:g} and at most {_MOST}, got {value!r}")
    for name in _RATIOS:
        ratio: object = getattr(policy, name)
        if not isinstance(ratio, int | float) or isinstance(ratio, bool) or not 0 < ratio <= 1:
            raise InvalidPolicy(f"{name}: expected a ratio over 0 and up to 1, got {ratio!r}")
    for name, besides in _BESIDES.items():
        value = getattr(policy, name)
        if value != besides and (not _whole(value) or not 1 <= value <= _MOST):  # type: ignore[operator]
            raise InvalidPolicy(f"{name}: expected a whole number from 1 to {_MOST}, got {value!r}")
