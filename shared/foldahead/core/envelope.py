"""A whole request around a view: the parameters that the view needs, everything else left alone."""

from typing import Any

from foldahead.core.dialect import Dialect
from foldahead.core.policy import Policy
from foldahead.core.view import MOST_BREAKPOINTS

DROP_BLOCK_BETA = "thinking-binding-controls-2026-08-01"


def request_with(view: list[Any], kwargs: dict[str, Any], dialect: Dialect, policy: Policy) -> dict[str, Any]:
    """The keyword arguments of a request with a view in place of its `messages`.

    System and tools share the provider's limit of cache breakpoints with the messages.
    """
    if view is kwargs["messages"]:
        return kwargs
    outside = dialect.breakpoints(kwargs.get("system")) + dialect.breakpoints(kwargs.get("tools"))
    room = max(0, MOST_BREAKPOINTS - outside)
    made = {**kwargs, "messages": dialect.limit_breakpoints(view, room) if outside else view}
    thinking = kwargs.get("thinking")
    if policy.tail_thinking == "drop_block" and isinstance(thinking, dict):
        made["betas"] = list(dict.fromkeys([*(kwargs.get("betas") or ()), DROP_BLOCK_BETA]))
        made["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    return made
