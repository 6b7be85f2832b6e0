"""Messages as the API reads them: consecutive messages of one role are a single turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from foldahead_worker.standin.fault import Json, as_list, as_object


class Block(msgspec.Struct, frozen=True):
    """A content block with its place in the request and the index of its message."""

    path: str
    message: int
    value: Json

    @property
    def type(self) -> str:
        """The block's type, or an empty string."""
        kind = self.value.get("type")
        return kind if isinstance(kind, str) else ""


class Turn(msgspec.Struct, frozen=True):
    """Consecutive messages of one role, merged."""

    role: str
    start: int
    blocks: tuple[Block, ...]


def blocks_of(message: Json, index: int) -> Iterator[Block]:
    """Yields the blocks of one message; a string counts as one text block."""
    path = f"messages[{index}].content"
    content: object = message.get("content")
    if isinstance(content, str):
        if content:
            yield Block(path, index, {"type": "text", "text": content})
        return
    for at, value in enumerate(as_list(content) or []):
        block = as_object(value)
        if block is not None:
            yield Block(f"{path}[{at}]", index, block)


def is_noop(block: Block) -> bool:
    """Says whether this is the block of a failed compaction, which the API skips."""
    return block.type == "compaction" and block.value.get("content") is None


def merged_turns(messages: Sequence[Any]) -> list[Turn]:
    """Merges the messages of a request into turns, failed compaction blocks left out."""
    turns: list[Turn] = []
    for index, value in enumerate(messages):
        message = as_object(value)
        if message is None:
            continue
        every = tuple(blocks_of(message, index))
        blocks = tuple(block for block in every if not is_noop(block))
        if every and not blocks:
            continue
        role = str(message.get("role"))
        if turns and turns[-1].role == role and role != "system":
            turns[-1] = Turn(role, turns[-1].start, turns[-1].blocks + blocks)
        else:
            turns.append(Turn(role, index, blocks))
    return turns
