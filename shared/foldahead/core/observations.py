"""What elision needs to know of tool results: how long each is, and whether its call was made more than once.

Found as messages come, so that nothing has to be read again. An observation never holds what a result says.
"""

import hashlib
import re
from contextlib import suppress

import msgspec
from msgspec import Struct

from foldahead.core import canonical
from foldahead.core.messages import Block, Call, Document, Message, Part, Result, Text
from foldahead.core.tokens import estimate_block

_STUB = re.compile(r"\[elided by the harness: \d+-char .* result; re-run the call if you need it again\]")


def stub_for(tool: str, chars: int) -> str:
    """What stands in place of a result: a pure function of the tool's name and the result's length."""
    return f"[elided by the harness: {chars}-char {tool} result; re-run the call if you need it again]"


class Observation(Struct, frozen=True):
    """One tool result. `identity` is a digest of its call's name and canonical arguments; empty: its call is gone."""

    index: int
    block: int
    tool: str
    chars: int
    tokens: int
    identity: bytes


class Observations:
    """The tool results of a history, in order. `add` takes messages whose ids are positions (see pairing)."""

    def __init__(self) -> None:
        self.all: dict[tuple[int, int], Observation] = {}
        self._calls: dict[str, tuple[str, bytes]] = {}

    def add(self, message: Message, index: int, opens_turn: bool) -> None:
        """Take the next message."""
        if opens_turn:
            self._calls = {}
        for at, block in enumerate(message.blocks):
            match block:
                case Call():
                    self._calls[block.id] = (block.name, identity_of(block))
                case Result() if not block.server:
                    self._note(block, index, at)
                case _:
                    pass

    def _note(self, result: Result, index: int, at: int) -> None:
        if len(result.parts) == 1 and isinstance(only := result.parts[0], Text) and _STUB.fullmatch(only.text):
            return
        tool, identity = self._calls.get(result.call, ("tool", b""))
        self.all[index, at] = Observation(index, at, tool, characters(result.parts), estimate_block(result), identity)


def identity_of(call: Call) -> bytes:
    """The same for two calls of one tool with the same arguments, in whatever order or spacing they are written."""
    arguments = call.arguments
    if isinstance(arguments, str):
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            arguments = msgspec.json.decode(arguments)
    return hashlib.sha256(canonical.encode_value((call.name, arguments))).digest()[:16]


def characters(blocks: tuple[Block, ...] | tuple[Part, ...]) -> int:
    """Characters that the model reads: what the second seed measures the trailing grace in."""
    total = 0
    for block in blocks:
        match block:
            case Text() | Document():
                total += len(block.text)
            case Result():
                total += characters(block.parts)
            case _:
                pass
    return total
