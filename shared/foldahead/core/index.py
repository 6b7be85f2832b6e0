"""The mechanical index: exact references of a span, found by rules, as a bare list within a token budget.

Those in tool calls come first, then the most recent: on 16 real sessions this kept 94 % of what was needed
after a cut in 2 % of the span, and all of it in 5 %. Deterministic.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

from foldahead.core.messages import Block, Call, Message, Picture, Result, Text, Thinking, text_of
from foldahead.core.redact import redact
from foldahead.core.text.entities import Entity, entities_in
from foldahead.core.text.outcomes import result_text
from foldahead.core.text.steps import COMMAND, argument_texts, command_label
from foldahead.core.text.talk import STRONG, said, without_harness
from foldahead.core.tokens import BYTES_PER_TOKEN, estimate_text
from foldahead.core.wrapper import is_ours

INDEX_VERSION = 4
"""Part of every cache key: count up when the same span gives another index."""

_HEADINGS = {
    "file": "Files",
    "command": "Commands",
    "id": "Ids",
    "url": "URLs",
    "error": "Errors",
    "route": "Folders and routes",
    "number": "Numbers",
    "name": "Names",
}
_SEPARATOR = {"command": " · "}
_SAID = "The user said: "
_SAID_FROM_TOKENS = 150
"""Below this budget the references alone: the user's words are in the summary that the index follows."""
_COMMAND_CHARS = 140
_LEAST_TOKENS = 3
_LAST_TOKENS, _MISFITS = 12, 40
"""With less room than this, and so many in a row that did not fit into it, no more are looked at: what is small enough
for the last few tokens is not worth looking through the whole span."""
_EXACT = ("file", "id", "url", "error")
"""What cannot be guessed comes before commands, numbers and names."""
_FLOOD = 12
"""In a first round this many references of one message, and this many ids that differ in their digits alone (the
flights of a search, say), so that a listing crowds out no other."""
_DIGITS = re.compile(r"[0-9]+")


class Index:
    """The references of a span, message by message; `pick` chooses for the first `end` of them."""

    def __init__(self) -> None:
        self._called: list[list[Entity]] = []
        self._seen: list[Callable[[], list[Entity]]] = []

    def add(self, called: list[Entity], seen: Callable[[], list[Entity]]) -> None:
        """One message more: references in its tool calls, and those in anything else, asked for where there is room."""
        self._called.append(called)
        self._seen.append(seen)

    def pick(self, end: int, budget_tokens: int, shown: str = "", carried: Sequence[Entity] = ()) -> list[Entity]:
        """References for the budget, the most needed first. What `shown` already holds is not repeated.

        `carried` are those of an earlier summary: they have a third of the room, more if there is more.
        """
        own = self._ordered(end)
        picked = _Picked(shown)
        if carried:
            picked.take(iter(carried), budget_tokens // 3)
        picked.take(own, budget_tokens)
        picked.take(iter(carried), budget_tokens)
        return picked.entities

    def _ordered(self, end: int) -> Iterator[Entity]:
        last = min(end, len(self._called)) - 1
        for at in range(last, -1, -1):
            yield from (entity for entity in self._called[at] if entity.kind in _EXACT)
        alike: Counter[str] = Counter()
        met: set[str] = set()
        later: list[Entity] = []
        for flood in (slice(0, _FLOOD), slice(_FLOOD, None)):
            for at in range(last, -1, -1):
                for entity in [entity for entity in self._seen[at]() if entity.kind in _EXACT][flood]:
                    if entity.kind == "id" and entity.text not in met:
                        met.add(entity.text)
                        shape = _DIGITS.sub("0", entity.text)
                        alike[shape] += 1
                        if alike[shape] > _FLOOD:
                            later.append(entity)
                            continue
                    yield entity
        yield from later
        for at in range(last, -1, -1):
            yield from [entity for entity in self._called[at] if entity.kind not in _EXACT][:_FLOOD]
        for at in range(last, -1, -1):
            yield from [entity for entity in self._seen[at]() if entity.kind not in _EXACT][:_FLOOD]


class _Picked:
    """Entities chosen so far: what is shown already, or ends a path that is, is not chosen again."""

    def __init__(self, shown: str) -> None:
        self.entities: list[Entity] = []
        self._shown = shown
        self._known: set[str] = set()
        self._files: set[str] = set()
        self._kinds: set[str] = set()
        self._spent_tokens = 0.0

    def take(self, entities: Iterator[Entity], budget_tokens: int) -> None:
        misfits = 0
        for entity in entities:
            left = budget_tokens - self._spent_tokens
            if left < _LEAST_TOKENS or (left < _LAST_TOKENS and misfits == _MISFITS):
                return
            cost = _tokens(entity.text)
            if entity.kind not in self._kinds:
                cost += _tokens(_HEADINGS[entity.kind])
            misfits = min(misfits + 1, _MISFITS) if cost > left else 0
            if cost > left or entity.text in self._known:
                continue
            self._learn(entity)
            if entity.text not in self._shown:
                self._spent_tokens += cost
                self._kinds.add(entity.kind)
                self._give_up_ends_of(entity)
                self.entities.append(entity)
                if entity.kind == "file":
                    self._files.add(entity.text)

    def _give_up_ends_of(self, entity: Entity) -> None:
        """A path says what its end says: a bare name chosen before it makes room again."""
        ends = self._files.intersection(_ends_of(entity.text))
        for ended in [one for one in self.entities if one.kind == "file" and one.text in ends] if ends else ():
            self.entities.remove(ended)
            self._files.discard(ended.text)
            self._spent_tokens -= _tokens(ended.text)

    def _learn(self, entity: Entity) -> None:
        self._known.add(entity.text)
        if entity.kind == "file":
            self._known.update(_ends_of(entity.text))
            self._known.add(entity.text[: entity.text.rfind("/") + 1])


def _ends_of(text: str) -> Iterator[str]:
    """What stands behind each slash of a path."""
    while (cut := text.find("/")) >= 0:
        text = text[cut + 1 :]
        yield text


def _tokens(text: str) -> float:
    """What one item of a list costs, what parts it from the next included; not rounded, as they are many."""
    return (len(text) + 2) / BYTES_PER_TOKEN if text.isascii() else estimate_text(text) + 1


def listed(entities: Sequence[Entity]) -> str:
    """References as lines, one for each kind: `Files: a, b`."""
    kinds = (
        (heading, _SEPARATOR.get(kind, ", "), [entity.text for entity in entities if entity.kind == kind])
        for kind, heading in _HEADINGS.items()
    )
    return "\n".join(f"{heading}: {separator.join(texts)}" for heading, separator, texts in kinds if texts)


def unlisted(text: str) -> list[Entity]:
    """The references that `listed` wrote, read back from an earlier summary."""
    kinds = {heading: kind for kind, heading in _HEADINGS.items()}
    found: list[Entity] = []
    for line in text.splitlines():
        heading, colon, rest = line.partition(": ")
        if colon and heading in kinds:
            kind = kinds[heading]
            found += [Entity(kind, item) for item in rest.split(_SEPARATOR.get(kind, ", ")) if item]
    return found


def mechanical_index(messages: Sequence[Message], budget_tokens: int) -> str:
    """The index of a span, at most about `budget_tokens` tokens; empty when there is nothing or no room.

    The user's own constraints come with it, word for word, in up to a third of the room.
    """
    index = Index()
    constraints: list[str] = []
    for message in messages:
        index.add(*references(message))
        if message.role == "user":
            constraints += _constraints(message)
    chosen = _newest(constraints, budget_tokens // 3) if budget_tokens >= _SAID_FROM_TOKENS else []
    quoted = _SAID + "; ".join(chosen) if chosen else ""
    left_tokens = budget_tokens - estimate_text(quoted)
    return "\n".join(filter(None, (quoted, listed(index.pick(len(messages), left_tokens, quoted)))))


def _constraints(message: Message) -> list[str]:
    words = without_harness(redact("\n".join(block.text for block in message.blocks if isinstance(block, Text))))
    return [] if is_ours(words) else [item.text for item in said(words, 0) if item.weight == STRONG]


def _newest(constraints: list[str], budget_tokens: int) -> list[str]:
    """The newest of them that fit, each once, the oldest first."""
    chosen: list[str] = []
    for text in reversed(constraints):
        cost = estimate_text(text) + 2
        if text not in chosen and cost <= budget_tokens:
            chosen.append(text)
            budget_tokens -= cost
    return [f'"{text}"' for text in reversed(chosen)]


def references(message: Message) -> tuple[list[Entity], Callable[[], list[Entity]]]:
    """The references in a message's tool calls, and what finds those in the rest of it: most of the text is there, and
    of a long span the newest messages fill the room.
    """
    called: list[Entity] = []
    later: list[Callable[[], list[Entity]]] = []
    for block in message.blocks:
        match block:
            case Call():
                short, long = argument_texts(block)
                called += called_references(short, command_label(block))
                later.append(partial(entities_in, long))
            case Result():
                later.append(partial(_printed, block))
            case Thinking() | Picture():
                pass
            case _:
                later.append(partial(_told, block))
    return called, cache(lambda: [entity for find in later for entity in find()])


def called_references(arguments: str, label: str) -> list[Entity]:
    """The references in a call's short arguments, and the command that its step's label names."""
    called = entities_in(arguments)
    if label.startswith(COMMAND):
        called.append(Entity("command", label[len(COMMAND) : len(COMMAND) + _COMMAND_CHARS]))
    return called


def _printed(result: Result) -> list[Entity]:
    return entities_in(result_text(result), names=False)


def _told(block: Block) -> list[Entity]:
    return entities_in(redact(text_of((block,))))
