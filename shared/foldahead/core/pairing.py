"""Which result answers which call: by adjacency, never by a global map of ids.

Providers reuse ids in every round and a transcript may hold one id twice, so a result is looked for only among the
calls of the assistant's run before it. The run's calls are numbered; bodies carry those numbers in place of ids.
Server tools alone may be answered in a later run, as long as only results of other tools stand between.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from foldahead.core.messages import (
    PLAIN_NAME,
    SYSTEM_ROLES,
    Block,
    Call,
    Document,
    Message,
    Other,
    Picture,
    Result,
    Text,
    Thinking,
)

FaultKind = Literal[
    "orphan_result",
    "result_apart",
    "dead_call",
    "empty_block",
    "empty_message",
    "repeated_id",
    "system_apart",
    "thinking_last",
    "ill_formed",
    "foreign_id",
]


class Fault(Struct, frozen=True):
    """A block (or, with block -1, a message) that a provider would refuse, and where it stands."""

    index: int
    block: int
    kind: FaultKind
    call: str = ""
    tool: str = ""


class _Asked(Struct):
    """A call that was made. `position` counts within its run; None: the run is over, a server tool is still at work."""

    index: int
    block: int
    position: int | None
    id: str
    tool: str
    server: bool
    state: Literal["open", "answered", "dead"] = "open"

    def dead(self) -> Fault:
        return Fault(self.index, self.block, "dead_call", self.id, self.tool)


class Step(Struct, frozen=True):
    """What one more message did: its body's content, and whether history may be cut before it."""

    message: Message
    cuttable_before: bool
    opens_turn: bool
    faults: tuple[Fault, ...]
    answered_late: tuple[Fault, ...] = ()
    """Dead calls of this turn that were answered after all: no faults any more, and no cut between call and result."""
    unit_since: int | None = None
    """Where the run goes on that this message joins, behind instructions that stand within it: no cut since then."""


class Pairing:
    """The state after some messages; `step` takes the next.

    `merges_runs`: a run of assistant messages is one unit; otherwise each of them is answered by itself.
    `places_system`: a system message in the middle follows a user's and is followed by an assistant's.
    `thinking_is_content`: thinking alone is a message, but no turn of the assistant's may end in it.
    `plain_ids`: ids of calls and names of tools are of letters, digits, `_` and `-` alone.
    """

    def __init__(
        self,
        *,
        merges_runs: bool,
        places_system: bool = False,
        thinking_is_content: bool = False,
        plain_ids: bool = False,
    ) -> None:
        self._merges_runs = merges_runs
        self._places_system = places_system
        self._thinking_is_content = thinking_is_content
        self._plain_ids = plain_ids
        self._system_before: int | None = None
        """Where the system message stands that the next message follows, if it is none of those that head the list."""
        self._thought_last: list[tuple[int, int]] = []
        """The thinking at the end of the assistant's run so far: message and block."""
        self._ends_in_server_tool = False
        self._calls: list[_Asked] = []
        self._index = 0
        self._last_role = ""
        self._spoke_at = -1
        """Index of the assistant's last message."""
        self._interrupted = False
        """Something other than results has come since the assistant's run."""

    @property
    def open_calls(self) -> tuple[tuple[int, str], ...]:
        """Calls that still wait for their result: (index of their message, name of the tool)."""
        return tuple((call.index, call.tool) for call in self._calls if call.state == "open")

    @property
    def waiting(self) -> tuple[str, ...] | None:
        """Ids of the calls that results, and results alone, may answer next; None where even those would be faulty."""
        if (self._places_system and self._system_before is not None) or self._thought_last:
            return None
        waiting = [call for call in self._calls if call.state == "open"]
        if waiting and (self._interrupted or any(call.server or self._is_foreign(call.id) for call in waiting)):
            return None
        return tuple(call.id for call in waiting)

    @property
    def cuttable(self) -> bool:
        """Whether history may be cut after the last message taken, as far as is known."""
        return all(call.state != "open" for call in self._calls)

    def step(self, message: Message) -> Step:
        """Take the next message of the history."""
        faults: list[Fault] = []
        late: list[_Asked] = []
        joins_run = self._merges_runs and message.role == self._last_role == "assistant"
        opens_turn = message.role == "assistant" and not joins_run
        if opens_turn:
            self._begin_run(faults)
        cuttable = self.cuttable and not joins_run
        numbered = tuple(self._number(message.role, block, at, faults, late) for at, block in enumerate(message.blocks))
        self._pass_by(message, faults)
        self._note_system(message, faults)
        self._note_thought(message, faults)
        self._note_empty(message, faults)
        if message.role not in SYSTEM_ROLES:
            self._last_role = message.role
        unit_since = self._spoke_at + 1 if joins_run else None
        if message.role == "assistant":
            self._spoke_at = self._index
        self._index += 1
        return Step(
            Message(message.role, numbered, message.extra),
            cuttable and not late,
            opens_turn,
            tuple(faults),
            tuple(call.dead() for call in late),
            unit_since,
        )

    def _begin_run(self, faults: list[Fault]) -> None:
        """The assistant speaks again: what nobody answered is dead, but for server tools still at work."""
        carried: list[_Asked] = []
        for call in self._calls:
            if call.state == "open" and call.server:
                call.position = None
                carried.append(call)
            elif call.state == "open":
                faults.append(call.dead())
        self._calls = carried
        self._interrupted = False

    def _pass_by(self, message: Message, faults: list[Fault]) -> None:
        """A user's message that says anything besides results goes past every call that is still open."""
        if message.role == "assistant":
            self._interrupted = False
        elif message.role in SYSTEM_ROLES:
            self._interrupted = True
        elif not all(isinstance(block, Result) for block in message.blocks):
            for call in self._calls:
                if call.state == "open":
                    call.state = "dead"
                    faults.append(call.dead())

    def _note_system(self, message: Message, faults: list[Fault]) -> None:
        """Between a user's message and the assistant's, one at a time; behind the assistant's own server tools too."""
        before, at = self._system_before, self._index
        if message.role in SYSTEM_ROLES:
            if before is not None and self._places_system:
                faults.append(Fault(at, -1, "system_apart"))
            elif self._last_role:
                self._system_before = at
            return
        within_run = self._last_role == "assistant" and not self._ends_in_server_tool
        if self._places_system and before is not None and (message.role != "assistant" or within_run):
            faults.append(Fault(before, -1, "system_apart"))
        self._system_before = None
        if message.blocks:
            last = message.blocks[-1]
            self._ends_in_server_tool = isinstance(last, Call | Result) and last.server

    def _note_thought(self, message: Message, faults: list[Fault]) -> None:
        if message.role in SYSTEM_ROLES or not self._thinking_is_content:
            return
        if message.role != "assistant":
            faults += [Fault(index, block, "thinking_last") for index, block in self._thought_last]
            self._thought_last = []
            return
        for at, block in enumerate(message.blocks):
            if isinstance(block, Thinking):
                self._thought_last.append((self._index, at))
            else:
                self._thought_last = []

    def _note_empty(self, message: Message, faults: list[Fault]) -> None:
        """Blank text alone is nothing; beside other content only a text without a single character is refused."""
        if all(map(self._says_nothing, message.blocks)):
            if not message.extra.keys() - {"name"}:
                faults.append(Fault(self._index, -1, "empty_message"))
            return
        for at, block in enumerate(message.blocks):
            if isinstance(block, Text) and not block.text:
                faults.append(Fault(self._index, at, "empty_block"))

    def _says_nothing(self, block: Block) -> bool:
        if isinstance(block, Text):
            return not block.text.strip()
        return isinstance(block, Thinking) and not self._thinking_is_content

    def _number(self, role: str, block: Block, at: int, faults: list[Fault], late: list[_Asked]) -> Block:
        match block:
            case Call():
                return self._ask(role, block, at, faults)
            case Result():
                return msgspec.structs.replace(block, call=self._answer(role, block, at, faults, late))
            case Text() | Thinking() | Picture() | Document() | Other():
                self._interrupted = True
                return block

    def _ask(self, role: str, call: Call, at: int, faults: list[Fault]) -> Call:
        own = [asked for asked in self._calls if asked.position is not None]
        if role != "assistant":  # nobody else calls: nothing answers it, wherever a result stands
            faults.append(Fault(self._index, at, "dead_call", call.id, call.name))
            return msgspec.structs.replace(call, id=str(len(own)))
        if any(asked.id == call.id for asked in own):
            faults.append(Fault(self._index, at, "repeated_id", call.id, call.name))
        if not call.server and (self._is_foreign(call.id) or self._is_foreign(call.name)):
            faults.append(Fault(self._index, at, "foreign_id", call.id, call.name))
        self._calls.append(_Asked(self._index, at, len(own), call.id, call.name, call.server))
        return msgspec.structs.replace(call, id=str(len(own)))

    def _answer(self, role: str, result: Result, at: int, faults: list[Fault], late: list[_Asked]) -> str:
        """The position of the call that a result answers; empty when it is none of this run's."""
        asked = self._waiting_for(result, "open") or (None if result.server else self._waiting_for(result, "dead"))
        position = "" if asked is None or asked.position is None else str(asked.position)
        if asked is None or (role == "assistant" and not result.server):  # only the provider answers in its own message
            faults.append(Fault(self._index, at, "orphan_result", result.call))
            return position
        if not result.server and self._is_foreign(result.call):
            faults.append(Fault(self._index, at, "foreign_id", result.call, asked.tool))
        if asked.state == "dead":
            late.append(asked)
        if self._interrupted and not result.server:
            faults.append(Fault(self._index, at, "result_apart", result.call, asked.tool))
        asked.state = "answered"
        return position

    def _is_foreign(self, name: str) -> bool:
        return self._plain_ids and PLAIN_NAME.fullmatch(name) is None

    def _waiting_for(self, result: Result, state: Literal["open", "dead"]) -> _Asked | None:
        matching = (
            call
            for call in self._calls
            if call.id == result.call and call.state == state and call.server == result.server
        )
        return next(matching, None)
