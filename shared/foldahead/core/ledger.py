"""The running account of one history: heads, tokens, turns, places where it may be cut. O(1) a message.

A ledger never holds what a message says, only what follows from it. The agent's side keeps one per session and
appends to it as the history grows; everything that core decides is decided from it.
"""

from bisect import bisect_left, bisect_right
from typing import Any

from msgspec import Struct

from foldahead.core import canonical
from foldahead.core.dialect import Dialect
from foldahead.core.messages import SYSTEM_ROLES, Block, Message, Result, Text, Thinking, is_compaction
from foldahead.core.observations import Observation, Observations, characters
from foldahead.core.pairing import Fault, Pairing, Step
from foldahead.core.text.talk import is_harness_alone
from foldahead.core.tokens import estimate
from foldahead.core.wrapper import is_ours
from foldahead.errors import InvalidHistory

MOST_DEFERRED = 256
"""Messages whose hashing is put off at the most."""


class Traits(Struct, frozen=True):
    """What decisions need to know of one message."""

    role: str
    real_user: bool
    """A user message with content other than tool results, and not ours."""
    own_words: bool
    """A real user message in which the user said or showed something: it does not all come from the agent's harness."""
    system: bool
    thinking: bool
    results: int
    block: bool
    """Holds a summary that the provider wrote and the agent asked for itself."""


class Ledger:
    """The account of the first `len(ledger)` messages of a history, in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.settled_heads: list[bytes] = [canonical.first_head(dialect.canonical)]
        """`heads` of the messages that were hashed so far: what another thread may read."""
        self.traits: list[Traits] = []
        self.tokens: list[int] = [0]
        """`tokens[i]`: estimate of the first i messages together."""
        self.turn_starts: list[int] = []
        self.faults: list[Fault] = []
        self._cuttable: list[bool] = []
        profile = dialect.profile
        self._pairing = Pairing(
            merges_runs=profile.merges_runs,
            places_system=profile.places_system,
            thinking_is_content=profile.thinking_is_content,
            plain_ids=profile.plain_ids,
        )
        self._observations = Observations()
        self._chars: list[int] = [0]
        self._deferred: list[Step] = []
        self._real_users: list[int] = []
        self._own_words: list[int] = []
        self._systems: list[int] = []
        self._thinking: list[int] = []
        self._last_block = -1

    def __len__(self) -> int:
        return len(self.traits)

    @property
    def heads(self) -> list[bytes]:
        """`heads[i]`: the chain head of the first i messages."""
        self.settle()
        return self.settled_heads

    @property
    def head(self) -> bytes:
        """The chain head of all messages."""
        return self.heads[-1]

    @property
    def chars(self) -> list[int]:
        """`chars[i]`: characters of content of the first i messages together."""
        self.settle()
        return self._chars

    @property
    def open_calls(self) -> tuple[tuple[int, str], ...]:
        """Calls at the end that still wait for their result: (index, tool)."""
        return self._pairing.open_calls

    @property
    def waiting(self) -> tuple[str, ...] | None:
        """Ids of the calls that results, and results alone, may answer next; None where even those would be faulty."""
        return self._pairing.waiting

    @property
    def observations(self) -> dict[tuple[int, int], Observation]:
        """Every tool result that is no stub, by (index of its message, block)."""
        self.settle()
        return self._observations.all

    def append(self, message: Any) -> None:
        """Take the next message. Raises `InvalidHistory` when it is none; the ledger is then as it was.

        What a turn that needs no compaction does not ask for is put off: the hash above all, which costs by length.
        """
        at = len(self)
        try:
            read = self.dialect.read(message, at)
            traits, tokens = _traits_of(read), estimate(read)
        except InvalidHistory:
            raise
        except (RecursionError, TypeError, ValueError) as error:  # an object that cannot tell what it holds, say
            raise InvalidHistory(f"messages[{at}]: cannot be read: {type(error).__name__}: {error}") from error
        step = self._pairing.step(read)
        self.traits.append(traits)
        self.tokens.append(self.tokens[-1] + tokens)
        self._cuttable.append(step.cuttable_before)
        self._note_pairing(step, at)
        if self.dialect.well_formed(message) is not message and Fault(at, -1, "empty_message") not in step.faults:
            self.faults.append(Fault(at, -1, "ill_formed"))
        self._deferred.append(step)
        if len(self._deferred) > MOST_DEFERRED:
            self.settle()
        if traits.real_user:
            self._real_users.append(at)
        if traits.own_words:
            self._own_words.append(at)
        if traits.system:
            self._systems.append(at)
        if traits.thinking:
            self._thinking.append(at)
        if traits.block:
            self._last_block = at

    def settle(self) -> None:
        """Do what was put off."""
        deferred, self._deferred = self._deferred, []
        for step in deferred:
            at, message = len(self._chars) - 1, step.message
            digest = canonical.digest(canonical.encode(message))
            self.settled_heads.append(canonical.next_head(self.settled_heads[-1], digest))
            self._chars.append(self._chars[-1] + characters(message.blocks))
            self._observations.add(message, at, step.opens_turn)

    def _note_pairing(self, step: Step, at: int) -> None:
        for fault in step.answered_late:
            self.faults.remove(fault)
            for between in range(fault.index + 1, at):
                self._cuttable[between] = False
        for between in range(at if step.unit_since is None else step.unit_since, at):
            self._cuttable[between] = False
        self.faults.extend(step.faults)
        if step.opens_turn:
            self.turn_starts.append(at)

    def extend(self, messages: list[Any]) -> None:
        """Take the messages that follow those it has, from a whole history."""
        for message in messages[len(self) :]:
            self.append(message)

    def span_tokens(self, start: int, end: int) -> int:
        """Estimate of the messages start..end."""
        return self.tokens[end] - self.tokens[start]

    def cuttable(self, at: int) -> bool:
        """Whether history may be cut before the message at index `at`, or, with its length, at its end."""
        return self._cuttable[at] if at < len(self) else self._pairing.cuttable

    def stable_prefix_end(self) -> int:
        """Index after the system and developer messages that head the list."""
        at = 0
        while at < len(self) and self.traits[at].system:
            at += 1
        return at

    def systems(self, start: int, end: int) -> list[int]:
        """System and developer messages within a span."""
        return self._systems[bisect_left(self._systems, start) : bisect_left(self._systems, end)]

    def thinking(self, start: int, end: int) -> list[int]:
        """Messages with thinking within a span."""
        return self._thinking[bisect_left(self._thinking, start) : bisect_left(self._thinking, end)]

    def thinks(self, since: int) -> bool:
        """Whether any message from an index on has thinking."""
        return bool(self._thinking) and self._thinking[-1] >= since

    def holds_block(self, since: int) -> bool:
        """Whether any message from an index on holds a summary that the provider wrote for the agent."""
        return self._last_block >= since

    def last_real_user(self, before: int) -> int | None:
        """The last real user message before an index."""
        at = bisect_left(self._real_users, before)
        return self._real_users[at - 1] if at else None

    def last_own_words(self) -> int | None:
        """The last message in which the user said something; without one, the last real user message."""
        return self._own_words[-1] if self._own_words else self.last_real_user(len(self))

    def turn_start_at(self, at: int) -> int:
        """Where the turn begins that holds the message at an index: pairing starts anew there."""
        turn = bisect_right(self.turn_starts, at)
        return self.turn_starts[turn - 1] if turn else 0

    def turn_end_at(self, at: int) -> int:
        """Where the turn ends that holds the message at an index."""
        turn = bisect_right(self.turn_starts, at)
        return self.turn_starts[turn] if turn < len(self.turn_starts) else len(self)


def ledger_of(messages: list[Any], dialect: Dialect) -> Ledger:
    """The account of a whole history."""
    ledger = Ledger(dialect)
    ledger.extend(messages)
    ledger.settle()
    return ledger


def bodies_of(messages: list[Any], ledger: Ledger, start: int, end: int) -> list[bytes]:
    """The canonical bodies of the messages start..end of the history that a ledger was made of.

    Ends before the first message that no longer gives the head that it had: one that was edited in place. Only
    looks at what the ledger has settled: it may be called on another thread.
    """
    heads = ledger.settled_heads
    pairing = Pairing(merges_runs=ledger.dialect.profile.merges_runs)
    found: list[bytes] = []
    for at in range(ledger.turn_start_at(start), min(end, len(heads) - 1)):
        body = canonical.encode(pairing.step(ledger.dialect.read(messages[at], at)).message)
        if canonical.next_head(heads[at], canonical.digest(body)) != heads[at + 1]:
            break
        if at >= start:
            found.append(body)
    return found


def _is_own(block: Block) -> bool:
    if isinstance(block, Text):
        return not is_harness_alone(block.text)
    return not isinstance(block, Result | Thinking)


def _traits_of(message: Message) -> Traits:
    results, speaks, thinks, blocks = 0, False, False, False
    for block in message.blocks:
        if isinstance(block, Result):
            results += not block.server
        else:
            speaks = True
            thinks = thinks or isinstance(block, Thinking)
            blocks = blocks or is_compaction(block)
    own = message.role == "user" and speaks and any(map(_is_own, message.blocks))
    ours = speaks and isinstance(first := message.blocks[0], Text) and is_ours(first.text)
    return Traits(
        role=message.role,
        real_user=message.role == "user" and speaks and not ours,
        own_words=own and not ours,
        system=message.role in SYSTEM_ROLES,
        thinking=thinks,
        results=results,
        block=blocks,
    )
