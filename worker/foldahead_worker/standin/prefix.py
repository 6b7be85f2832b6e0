"""The prefix that thinking is bound to: a running hash over system, tools and every block before it.

A compaction block that the stand-in wrote carries the hash at the end of what it summarised, so that
thinking in the turns kept after it still finds its own prefix ("Compaction and preserved thinking").
After such a block a position therefore has several heads: the one through the block itself, which new
thinking is bound to, and those through the messages it stands for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from foldahead_worker.standin.fault import Json, as_list, as_object
from foldahead_worker.standin.seal import digest
from foldahead_worker.standin.turns import Block, blocks_of, is_noop


class Summarised(msgspec.Struct, frozen=True):
    """What a compaction block says about the messages it stands for."""

    heads: tuple[str, ...]
    role: str
    envelope: str


class Place(msgspec.Struct, frozen=True):
    """A block and the heads of what precedes it; the first head is that of the request as sent."""

    block: Block
    heads: tuple[str, ...]


class Prefix(msgspec.Struct, frozen=True):
    """A request, walked: every block's place, the heads at its end, the role of its last message."""

    places: tuple[Place, ...]
    heads: tuple[str, ...]
    role: str

    @property
    def answer_head(self) -> str:
        """The head that thinking of the answer to this request is bound to."""
        return self.heads[0] if self.role == "assistant" else _link(self.heads[0], "assistant")


def envelope(request: Json) -> str:
    """Hashes system and tools, those left out that are marked `defer_loading`."""
    system: object = request.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    tools = [tool for tool in as_list(request.get("tools")) or [] if not tool.get("defer_loading")]
    return digest([without_cache_control(system), without_cache_control(tools)])


def without_cache_control(value: object) -> object:
    """Leaves breakpoints out of blocks, tools and the content of results, and touches nothing else."""
    items = as_list(value)
    if items is not None:
        return [without_cache_control(item) for item in items]
    holder = as_object(value)
    if holder is None:
        return value
    kept: dict[str, Any] = {name: member for name, member in holder.items() if name != "cache_control"}
    if kept.get("type") == "tool_result" and isinstance(kept.get("content"), list):
        kept["content"] = without_cache_control(kept["content"])
    return kept


class _Walk:
    """The state of one walk over a request."""

    def __init__(self, request: Json) -> None:
        self.envelope = envelope(request)
        self.heads: tuple[str, ...] = (_link("", self.envelope),)
        self.role = ""
        self._summarised: Summarised | None = None
        self._kept_starts = False

    def swap_in(self, block: Block, summarised: Summarised | None) -> None:
        own = _link(self.heads[0], str(block.value.get("signature")))
        same = summarised is not None and summarised.envelope == self.envelope
        self.heads = (own, *(summarised.heads if summarised is not None and same else ()))
        self._summarised, self._kept_starts, self.role = summarised, True, ""

    def enter(self, role: str) -> None:
        if self._kept_starts:
            # Of the same role, or a system message: the API merges it into the last summarised message.
            if role == "system" or (self._summarised is not None and role == self._summarised.role):
                self.heads = self.heads[:1]
            self._kept_starts = False
        if role != self.role:
            self.heads = tuple(_link(head, role) for head in self.heads)
            self.role = role

    def pass_over(self, block: Block) -> None:
        self.heads = tuple(following(head, block.value) for head in self.heads)


def walk(request: Json, summarised_by: Callable[[Block], Summarised | None]) -> Prefix:
    """Walks a request; `summarised_by` reads what a compaction block stands for, None if unknown."""
    state = _Walk(request)
    places: list[Place] = []
    for index, value in enumerate(as_list(request.get("messages")) or []):
        message = as_object(value)
        for block in blocks_of(message, index) if message is not None else ():
            if is_noop(block):
                continue
            if block.type == "compaction":
                state.swap_in(block, summarised_by(block))
                continue
            state.enter(str((message or {}).get("role")))
            places.append(Place(block, state.heads))
            state.pass_over(block)
    return Prefix(tuple(places), state.heads, state.role)


def following(head: str, block: Json) -> str:
    """Gives the head behind a block."""
    return _link(head, digest(without_cache_control(block)))


def _link(head: str, step: str) -> str:
    return hashlib.sha256(f"{head}/{step}".encode()).hexdigest()
