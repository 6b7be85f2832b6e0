"""What a request costs in tokens: a prompt cache over its breakpoints, and the usage that is billed.

Rules of the "Prompt caching" documentation: the prompt is tools, system, messages; a breakpoint writes
the prefix that it ends, for five minutes or an hour, when that is long enough for the model; a request
reads the longest written prefix at or up to twenty blocks before one of its breakpoints.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Set
from typing import Any, Final

import msgspec

from foldahead_worker.standin.counting import MESSAGE_TOKENS, block_tokens
from foldahead_worker.standin.fault import Json, as_list, as_object
from foldahead_worker.standin.models import Model
from foldahead_worker.standin.prefix import without_cache_control
from foldahead_worker.standin.seal import digest
from foldahead_worker.standin.turns import blocks_of

CACHE_TTL_S: Final = 300.0
_LONG_TTL_S: Final = 3600.0
_LOOK_BACK_BLOCKS: Final = 20
_MAX_ENTRIES: Final = 100_000


class Step(msgspec.Struct, frozen=True):
    """The prompt up to and with one block: its hash, its tokens, the TTL of a breakpoint here (or 0)."""

    prefix: str
    tokens: int
    ttl_s: float


class Usage(msgspec.Struct, frozen=True):
    """The token counts of one call. `write_1h_tokens` is the part of the cache write kept for an hour."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0
    write_1h_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt, however it is billed."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    def to_wire(self) -> Json:
        """Gives the `usage` object of a response."""
        long = self.write_1h_tokens
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": self.cache_creation_input_tokens,
            "cache_read_input_tokens": self.cache_read_input_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_creation_input_tokens - long,
                "ephemeral_1h_input_tokens": long,
            },
            "output_tokens": self.output_tokens,
        }


def _ttl_s(holder: Json) -> float:
    control = as_object(holder.get("cache_control"))
    if control is None:
        return 0.0
    return _LONG_TTL_S if control.get("ttl") == "1h" else CACHE_TTL_S


def _parts(request: Json, dropped: Set[str]) -> Iterator[tuple[object, Json, int]]:
    """Yields what the prompt is made of: the thing hashed, the block, its tokens."""
    for tool in as_list(request.get("tools")) or []:
        yield without_cache_control(tool), tool, block_tokens(tool)
    system: object = request.get("system") or []
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else as_list(system) or []:
        yield without_cache_control(block), block, block_tokens(block)
    for index, value in enumerate(as_list(request.get("messages")) or []):
        message = as_object(value) or {}
        overhead = MESSAGE_TOKENS
        for block in blocks_of(message, index):
            if block.path in dropped:
                continue
            hashed: list[Any] = [message.get("role"), without_cache_control(block.value)]
            yield hashed, block.value, block_tokens(block.value) + overhead
            overhead = 0


def prompt_steps(request: Json, dropped: Set[str] = frozenset()) -> list[Step]:
    """Lays the prompt of a request out, block by block; `dropped` blocks do not count."""
    thinking = as_object(request.get("thinking")) or {}
    effort = (as_object(request.get("output_config")) or {}).get("effort")
    running = hashlib.sha256(digest([thinking.get("type"), thinking.get("budget_tokens"), effort]).encode())
    tokens = 0
    steps: list[Step] = []
    for hashed, holder, more in _parts(request, dropped):
        running.update(digest(hashed).encode())
        tokens += more
        steps.append(Step(running.hexdigest(), tokens, _breakpoint_ttl_s(holder)))
    automatic = _ttl_s(request)
    if automatic and steps:
        steps[-1] = msgspec.structs.replace(steps[-1], ttl_s=max(automatic, steps[-1].ttl_s))
    return steps


def _breakpoint_ttl_s(holder: Json) -> float:
    """A breakpoint inside a tool result counts as one at its end."""
    nested = as_list(holder.get("content")) if holder.get("type") == "tool_result" else None
    return max([_ttl_s(holder), *(_ttl_s(as_object(block) or {}) for block in nested or [])])


class PromptCache:
    """What has been written to the prompt cache, per account and model. Not safe between threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str, str], tuple[float, float]] = OrderedDict()

    def bill(self, account: str, model: Model, steps: list[Step]) -> Usage:
        """Bills the prompt of one call, and writes and refreshes what its breakpoints name."""
        total = steps[-1].tokens if steps else 0
        marks = [at for at, step in enumerate(steps) if step.ttl_s and step.tokens >= model.min_cache_tokens]
        if not marks:
            return Usage(input_tokens=total)
        read_at = self._longest_hit(account, model.name, steps, marks)
        read = steps[read_at].tokens if read_at >= 0 else 0
        long = 0
        for at in marks:
            self._write(account, model.name, steps[at])
            if steps[at].ttl_s > CACHE_TTL_S:
                long = max(long, steps[at].tokens - read)
        written = max(0, steps[marks[-1]].tokens - read)
        return Usage(
            input_tokens=total - read - written,
            cache_creation_input_tokens=written,
            cache_read_input_tokens=read,
            write_1h_tokens=max(0, min(long, written)),
        )

    def clear(self) -> None:
        """Forgets everything, as if every entry had expired."""
        self._entries.clear()

    def _longest_hit(self, account: str, model: str, steps: list[Step], marks: list[int]) -> int:
        now = self._clock()
        for mark in reversed(marks):
            for at in range(mark, max(-1, mark - _LOOK_BACK_BLOCKS), -1):
                key = (account, model, steps[at].prefix)
                entry = self._entries.get(key)
                if entry is not None and entry[0] > now:
                    self._entries[key] = (now + entry[1], entry[1])
                    return at
        return -1

    def _write(self, account: str, model: str, step: Step) -> None:
        key = (account, model, step.prefix)
        self._entries[key] = (self._clock() + step.ttl_s, step.ttl_s)
        self._entries.move_to_end(key)
        while len(self._entries) > _MAX_ENTRIES:
            self._entries.popitem(last=False)
