"""The models that the stand-in serves, with what decides how it judges and bills them.

Sources: the model list of anthropic 2.14.0, the documentation pages "Compaction on demand", "Prefix
checks on thinking blocks", "Troubleshooting thinking", "Mid-conversation system messages" and "Prompt
caching", as of 2026-11.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_NEW: Final = frozenset({"adaptive", "disabled", "between_tools"})
_ALWAYS_ON: Final = frozenset({"adaptive"})
_OLD: Final = frozenset({"enabled", "disabled"})


class Model(msgspec.Struct, frozen=True):
    """One model.

    `binds_thinking`: it has preserved thinking, that is, it checks a thinking block against the
    conversation before it. `prefill`: a request may end with a part of the answer. `thinking`: the
    values of `thinking.type` that it takes.
    """

    name: str
    window_tokens: int = 1_000_000
    max_output_tokens: int = 128_000
    binds_thinking: bool = False
    compacts: bool = True
    system_messages: bool = True
    prefill: bool = False
    min_cache_tokens: int = 1024
    thinking: frozenset[str] = _NEW


def _old(name: str, window_tokens: int = 200_000, min_cache_tokens: int = 1024) -> Model:
    return Model(
        name=name,
        window_tokens=window_tokens,
        max_output_tokens=64_000,
        compacts=False,
        system_messages=False,
        prefill=True,
        min_cache_tokens=min_cache_tokens,
        thinking=_OLD,
    )


_TABLE: Final = (
    Model("claude-fable-5-2", binds_thinking=True, thinking=_ALWAYS_ON),
    Model("claude-mythos-5-2", binds_thinking=True, thinking=_ALWAYS_ON),
    Model("claude-fable-5-1", binds_thinking=True, thinking=_ALWAYS_ON),
    Model("claude-mythos-5-1", binds_thinking=True, thinking=_ALWAYS_ON),
    Model("claude-opus-5-5", binds_thinking=True),
    Model("claude-sonnet-5-5", binds_thinking=True),
    Model("claude-haiku-5-5", binds_thinking=True),
    Model("claude-fable-5", thinking=_ALWAYS_ON),
    Model("claude-mythos-5", thinking=_ALWAYS_ON),
    Model("claude-mythos-preview", thinking=_ALWAYS_ON | {"enabled"}),
    Model("claude-opus-5"),
    Model("claude-opus-4-8"),
    Model("claude-sonnet-5", system_messages=False),
    Model("claude-opus-4-7", system_messages=False, min_cache_tokens=2048),
    Model("claude-opus-4-6", system_messages=False, min_cache_tokens=4096, thinking=_NEW | _OLD),
    Model("claude-sonnet-4-6", system_messages=False, max_output_tokens=64_000, thinking=_NEW | _OLD),
    _old("claude-opus-4-5", min_cache_tokens=4096),
    _old("claude-haiku-4-5", min_cache_tokens=4096),
    _old("claude-sonnet-4-5"),
    _old("claude-sonnet-4"),
    _old("claude-opus-4-1"),
    _old("claude-opus-4"),
)
_BY_NAME: Final = {model.name: model for model in _TABLE}
_DATED: Final = re.compile(r"-20\d{6}$")

#: Which other models' thinking a model reads; every model reads its own and that of haiku-5-5, whose
#: blocks are not locked to it ("Preserved thinking").
_READS: Final[dict[str, frozenset[str]]] = {
    "claude-fable-5-1": frozenset({"claude-opus-5", "claude-opus-5-5"}),
}
_READ_BY_ALL: Final = "claude-haiku-5-5"


def find_model(name: str) -> Model | None:
    """Finds a model by its id, with or without a date at its end; None for one that is not served."""
    return _BY_NAME.get(_DATED.sub("", name))


def reads_thinking_of(reader: Model, writer: str) -> bool:
    """Says whether `reader` may use thinking that the model named `writer` produced."""
    return writer in (reader.name, _READ_BY_ALL) or writer in _READS.get(reader.name, frozenset())
