"""A whole request around a view: the parameters that the view needs, everything else left alone."""

from typing import Any

from foldahead.core.dialect import Dialect
from foldahead.core.policy import Policy
from foldahead.core.view import MOST_BREAKPOINTS

DROP_BLOCK_BETA = "thinking-binding-controls-2026-08-01"


def request_with(
    view: list[Any], kwargs: dict[str, Any], dialect: Dialect, policy: Policy, marks: int | None = None
) -> dict[str, Any]:
    """The keyword arguments of a request with a view in place of its `messages`.

    System and tools share the provider's limit of cache breakpoints with the messages. `marks` is how many the view
    has, where that is known.
    """
    if view is kwargs["messages"]:
        return kwargs
    made = {**kwargs, "messages": view}
    if marks != 0:
        outside = dialect.breakpoints(kwargs.get("system")) + dialect.breakpoints(kwargs.get("tools"))
        if outside and (marks is None or marks + outside > MOST_BREAKPOINTS):
            made["messages"] = dialect.limit_breakpoints(view, max(0, MOST_BREAKPOINTS - outside))
    thinking = kwargs.get("thinking")
    if policy.tail_thinking == "drop_block" and isinstance(thinking, dict):
        made["betas"] = list(dict.fromkeys([*(kwargs.get("betas") or ()), DROP_BLOCK_BETA]))
        made["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    return made
