"""A whole request around a view: what it was made with, and the parameters that the view needs."""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from foldahead.core.canonical import json_of, plain
from foldahead.core.dialect import Dialect
from foldahead.core.policy import Policy
from foldahead.core.view import MOST_BREAKPOINTS

DROP_BLOCK_BETA = "thinking-binding-controls-2026-08-01"
COMPACT_BETA = "compact-2026-09-04"
MAX_ENVELOPE_BYTES = 1024 * 1024
"""A session whose requests carry more beside their messages gets no `native` summaries."""


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session's requests hold beside model and messages and a `native` summary is made under.

    `system` (text or blocks) and `tools` as the caller gave them, without cache breakpoints; None where there are none.
    `thinking` and `effort` are sent along so that the provider finds what it has cached; a block does not depend on
    them.
    """

    system: Any = None
    tools: Any = None
    betas: tuple[str, ...] = ()
    thinking: Any = None
    effort: Any = None

    @property
    def digest(self) -> str:
        """What a block depends on, in the caller's order: SHA-256 of the JSON of system, tools and betas, hex."""
        return hashlib.sha256(json_of((self.system, self.tools, self.betas))).hexdigest()

    def encoded(self) -> bytes:
        """All of it as JSON."""
        return json_of(msgspec.structs.asdict(self))


def envelope_of(kwargs: Mapping[str, Any]) -> Envelope:
    """The envelope of a request's keyword arguments. What is neither a text nor a list (an SDK's mark for "not
    given", say) counts as absent."""
    betas, thinking, output = (kwargs.get(name) for name in ("betas", "thinking", "output_config"))
    return Envelope(
        system=_given(kwargs.get("system")),
        tools=_given(kwargs.get("tools")),
        betas=tuple(sorted(beta for beta in betas if isinstance(beta, str))) if isinstance(betas, list | tuple) else (),  # pyright: ignore[reportUnknownVariableType]
        thinking=thinking if isinstance(thinking, Mapping) else None,
        effort=output.get("effort") if isinstance(output, Mapping) else None,  # pyright: ignore[reportUnknownMemberType]
    )


def _given(value: Any) -> Any:
    if isinstance(value, str):
        return value or None
    if not isinstance(value, list | tuple) or not value:
        return None
    items = cast("list[Any]", value)
    return [_without_breakpoint(item) for item in items]


def _without_breakpoint(item: Any) -> Any:
    entry: object = item if isinstance(item, Mapping) else plain(item)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(entry, Mapping):
        return entry  # no tool and no block: the provider will say so
    members = cast("Mapping[str, Any]", entry)
    return {name: member for name, member in members.items() if name != "cache_control"}


def request_with(
    view: list[Any],
    kwargs: dict[str, Any],
    dialect: Dialect,
    policy: Policy,
    *,
    marks: int | None = None,
    shows_block: bool = False,
) -> dict[str, Any]:
    """The keyword arguments of a request with a view in place of its `messages`.

    System and tools share the provider's limit of cache breakpoints with the messages. `marks` is how many the view
    has, where that is known. `shows_block`: the view has a `native` summary, which wants its beta. A policy that has
    the provider drop thinking says so in every request: also the history may hold some that was bound to a view.
    """
    made: dict[str, Any] = kwargs
    betas: list[str] = []
    if view is not kwargs["messages"]:
        made = {**kwargs, "messages": _within_limit(view, kwargs, dialect, marks)}
        betas += [COMPACT_BETA] if shows_block else []
    thinking: Any = kwargs.get("thinking")
    if policy.tail_thinking == "drop_block" and isinstance(thinking, dict):
        betas.append(DROP_BLOCK_BETA)
        made = {**made, "thinking": {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}
    if betas:
        made = {**made, "betas": list(dict.fromkeys([*(kwargs.get("betas") or ()), *betas]))}
    return made


def _within_limit(view: list[Any], kwargs: dict[str, Any], dialect: Dialect, marks: int | None) -> list[Any]:
    if marks == 0:
        return view
    outside = dialect.breakpoints(kwargs.get("system")) + dialect.breakpoints(kwargs.get("tools"))
    if not outside or (marks is not None and marks + outside <= MOST_BREAKPOINTS):
        return view
    return dialect.limit_breakpoints(view, max(0, MOST_BREAKPOINTS - outside))
