"""Which result answers which call: by adjacency, never by a global map of ids.

Providers reuse ids in every round and a transcript may hold one id twice, so a result is looked for only among the
calls of the assistant's run before it. The run's calls are numbered; bodies carry those numbers in place of ids.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from foldahead.core.messages import Block, Call, Document, Message, Other, Picture, Result, Text, Thinking

FaultKind = Literal["orphan_result", "result_apart", "dead_call", "empty_block", "empty_message", "repeated_id"]


class Fault(Struct, frozen=True):
    """A block (or, with block -1, a message) that a provider would refuse, and where it stands."""

    index: int
    block: int
    kind: FaultKind
    call: str = ""
    tool: str = ""


class _OpenCall(Struct):
    index: int
    block: int
    position: int
    id: str
    tool: str
    server: bool
    state: Literal["open", "answered", "dead"] = "open"


class Step(Struct, frozen=True):
    """What one more message did: its body's content, and whether history may be cut before it."""

    message: Message
    cuttable_before: bool
    opens_turn: bool
    faults: tuple[Fault, ...]


class Pairing:
    """The state after some messages; `step` takes the next. A run of assistant messages is one unit."""

    def __init__(self) -> None:
        self._calls: list[_OpenCall] = []
        self._index = 0
        self._last_role = ""

    @property
    def open_calls(self) -> tuple[tuple[int, str], ...]:
        """Calls that still wait for their result: (index of their message, name of the tool)."""
        return tuple((call.index, call.tool) for call in self._calls if call.state == "open")

    @property
    def cuttable(self) -> bool:
        """Whether history may be cut after the last message taken, as far as is known."""
        return not self.open_calls

    def step(self, message: Message) -> Step:
        """Take the next message of the history."""
        joins_run = message.role == "assistant" and self._last_role == "assistant"
        faults = self._pass_by(message, joins_run)
        if message.role == "assistant" and not joins_run:
            self._calls = []
        cuttable = not joins_run and not self.open_calls
        numbered = tuple(self._number(block, at, faults) for at, block in enumerate(message.blocks))
        _note_empty(message, self._index, faults)
        if message.role != "system" and message.role != "developer":
            self._last_role = message.role
        self._index += 1
        step = Step(
            Message(message.role, numbered, message.extra),
            cuttable,
            message.role == "assistant" and not joins_run,
            tuple(faults),
        )
        return step

    def _pass_by(self, message: Message, joins_run: bool) -> list[Fault]:
        """The conversation goes past open calls when something comes that neither answers them nor may stand between."""
        if joins_run or message.role in ("system", "developer"):
            return []
        answers = {block.call for block in message.blocks if isinstance(block, Result)}
        still_answered = message.role != "assistant" and any(
            call.state == "open" and call.id in answers for call in self._calls
        )
        if still_answered:
            return []
        faults: list[Fault] = []
        for call in self._calls:
            if call.state == "open":
                call.state = "dead"
                if not call.server:
                    faults.append(Fault(call.index, call.block, "dead_call", call.id, call.tool))
        return faults

    def _number(self, block: Block, at: int, faults: list[Fault]) -> Block:
        match block:
            case Call():
                if any(call.id == block.id for call in self._calls):
                    faults.append(Fault(self._index, at, "repeated_id", block.id, block.name))
                call = _OpenCall(self._index, at, len(self._calls), block.id, block.name, block.server)
                self._calls.append(call)
                return msgspec.structs.replace(block, id=str(call.position))
            case Result():
                return msgspec.structs.replace(block, call=self._answer(block, at, faults))
            case Text() | Thinking() | Picture() | Document() | Other():
                return block

    def _answer(self, result: Result, at: int, faults: list[Fault]) -> str:
        for call in self._calls:
            if call.id == result.call and call.state == "open":
                call.state = "answered"
                return str(call.position)
        if not result.server:
            apart = any(call.id == result.call and call.state == "dead" for call in self._calls)
            kind: FaultKind = "result_apart" if apart else "orphan_result"
            faults.append(Fault(self._index, at, kind, result.call))
        return ""


def _note_empty(message: Message, index: int, faults: list[Fault]) -> None:
    speaks = False
    for at, block in enumerate(message.blocks):
        if isinstance(block, Text) and not block.text.strip() and message.role != "tool":
            if len(message.blocks) > 1:
                faults.append(Fault(index, at, "empty_block"))
        else:
            speaks = True
    if not speaks:
        faults.append(Fault(index, -1, "empty_message"))
