"""Anthropic Messages: content blocks; results come in user messages; the system prompt stands outside."""

from collections.abc import Mapping, Sequence
from typing import Any

from foldahead.core.canonical import is_whole, whole
from foldahead.core.dialect import Profile, as_mapping, replaced, role_of, usage_number
from foldahead.core.dialects.anthropic_blocks import blocks_of
from foldahead.core.dialects.anthropic_form import THINKING, each_block, formed, with_plain_id
from foldahead.core.messages import Message
from foldahead.core.tokens import (
    CALL_OVERHEAD_TOKENS,
    MESSAGE_OVERHEAD_TOKENS,
    MOST_PICTURE_TOKENS,
    UNLIMITED,
    most_tokens,
)
from foldahead.errors import InvalidHistory

_ROLES = ("user", "assistant", "system")
_SYSTEM_EXTRA = ("clear_at", "output_config")
"""What a system message in the middle of a conversation may hold besides its content."""


class AnthropicMessages:
    """Reads and makes messages of the Messages API, stable and beta."""

    name = "anthropic"
    canonical = "anthropic"
    profile = Profile(
        opens_with_user=True,
        alternates=False,
        merges_runs=True,
        places_system=True,
        thinking_is_content=True,
        plain_ids=True,
        binds_thinking=True,
    )

    def read(self, message: Any, at: int) -> Message:
        raw = as_mapping(message, f"messages[{at}]")
        role = raw.get("role")
        if role not in _ROLES:
            raise InvalidHistory(f"messages[{at}].role: expected one of {', '.join(_ROLES)}, got {role!r}")
        extra = {key: raw[key] for key in _SYSTEM_EXTRA if role == "system" and raw.get(key) is not None}
        return Message(role, blocks_of(raw.get("content"), f"messages[{at}].content"), extra)

    def glance(
        self,
        new: list[Any],
        before: Any,  # noqa: ARG002 - the Dialect's
        waiting: tuple[str, ...],
        room: int,
        speech: int,
    ) -> int | None:
        left, marks = [*waiting], 0
        for message in new:
            if message.__class__ is not dict or message.get("role") != "user":
                return None
            content = message.get("content")
            if content.__class__ is str:
                content = [{"type": "text", "text": content}]
            if content.__class__ is not list or not content:
                return None
            room, spoke = room - MESSAGE_OVERHEAD_TOKENS, False
            for block in content:
                if block.__class__ is not dict:
                    return None
                marks += "cache_control" in block
                if block.get("type") != "tool_result":
                    spoke = True
                    room -= _most_of(block, room)
                    continue
                call: Any = block.get("tool_use_id")
                inner: Any = block.get("content", "")
                if spoke or call not in left:
                    return None
                left.remove(call)
                room -= CALL_OVERHEAD_TOKENS
                room -= most_tokens(inner, room) if inner.__class__ is str else _parts(inner, room)
            if room < spoke * speech or (spoke and left):
                return None
        return marks

    def user_message(self, text: str) -> Any:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def assistant_message(self, text: str) -> Any:
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}

    def with_stub(self, message: Any, block: int, stub: str) -> Any:
        content = _content(message)
        if block >= len(content) or _type_of(content[block]) != "tool_result":
            return message
        stubbed = {**as_mapping(content[block], "block"), "content": stub}
        return {"role": role_of(message), "content": replaced(content, block, stubbed)}

    def well_formed(self, message: Any) -> Any:
        """Arguments that are no object are put in one; a result whose content is null has none."""
        content = message.get("content") if message.__class__ is dict else None
        if content.__class__ is str:
            return message if is_whole(content) else {**message, "content": whole(content)}
        return each_block(message, formed)

    def with_plain_ids(self, message: Any) -> Any:
        return each_block(message, with_plain_id)

    def without_thinking(self, message: Any) -> Any | None:
        content = _content(message)
        kept = [block for block in content if _type_of(block) not in THINKING]
        return message if len(kept) == len(content) else self._rebuilt(message, kept)

    def without_blocks(self, message: Any, blocks: frozenset[int]) -> Any | None:
        kept = [block for at, block in enumerate(_content(message)) if at not in blocks]
        return self._rebuilt(message, kept if any(_type_of(block) not in THINKING for block in kept) else [])

    def results_first(self, messages: list[Any]) -> list[Any | None]:
        """The first user message takes all results, and the first place: a system message stands behind it."""
        first = next(at for at, message in enumerate(messages) if role_of(message) == "user")
        users = [message for message in messages if role_of(message) == "user"]
        results = [block for user in users for block in _content(user) if _type_of(block) == "tool_result"]
        ordered: list[Any | None] = [messages[first], *messages[:first], *messages[first + 1 :]]
        for at, message in enumerate(ordered):
            if role_of(message) == "user":
                others = [block for block in _content(message) if _type_of(block) != "tool_result"]
                ordered[at] = self._rebuilt(message, others if at else [*results, *others])
        return ordered

    def joined_systems(self, messages: list[Any]) -> list[Any]:
        if len(messages) < 2 or any(
            as_mapping(message, "message").get(key) for message in messages for key in _SYSTEM_EXTRA
        ):
            return messages
        return [{"role": "system", "content": [block for message in messages for block in _content(message)]}]

    def limit_breakpoints(self, messages: list[Any], most: int) -> list[Any]:
        surplus = self.breakpoints(messages) - most
        limited = list(messages)
        for at, message in enumerate(messages):
            if surplus <= 0:
                break
            if found := self.breakpoints(message):
                limited[at] = self._without_breakpoints(message, min(found, surplus))
                surplus -= found
        return limited

    def breakpoints(self, value: Any) -> int:
        try:
            return _breakpoints((value,))
        except RecursionError:
            return 0  # no request of the provider's is nested like that

    def context_tokens(self, usage: Any) -> int | None:
        """Input, cache reads and writes, and output, of the last `message` iteration where there are several."""
        raw = usage if isinstance(usage, Mapping) else as_mapping(usage, "usage")  # pyright: ignore[reportUnknownVariableType]
        last: Any = raw  # pyright: ignore[reportUnknownVariableType]
        for iteration in raw.get("iterations") or ():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            entry = as_mapping(iteration, "usage.iterations")
            if entry.get("type", "message") == "message":
                last = entry
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        return sum(usage_number(last, name) for name in names) or None

    def _rebuilt(self, message: Any, content: list[Any]) -> Any | None:
        """A message of these blocks; None where they say nothing: blank text alone is refused."""
        return None if all(map(_is_blank, content)) else {"role": role_of(message), "content": content}

    def _without_breakpoints(self, message: Any, surplus: int) -> Any:
        """The message with its first `surplus` breakpoints gone, those inside its results included."""
        content: list[Any] = []
        for block in _content(message):
            raw = dict(as_mapping(block, "block"))
            inner = raw.get("content")
            if surplus and isinstance(inner, list) and (found := self.breakpoints(inner)):
                raw["content"] = self._without_breakpoints({"role": "user", "content": inner}, min(found, surplus))[
                    "content"
                ]
                surplus -= min(found, surplus)
            if surplus and raw.pop("cache_control", None) is not None:
                surplus -= 1
            content.append(raw)
        return {"role": role_of(message), "content": content}


def _parts(content: Any, room: int) -> int:
    """The most tokens of what a result holds besides a mere text; more than any room where it is not ordinary."""
    if content.__class__ is not list:
        return UNLIMITED
    plain = all(part.__class__ is dict and "cache_control" not in part for part in content)
    return sum(_most_of(part, room) for part in content) if plain else UNLIMITED


def _most_of(block: dict[str, Any], room: int) -> int:
    """The most tokens of a text or a picture; more than any room where it is blank, or any other block."""
    text: Any = block.get("text")
    if block.get("type") == "image" and block.get("source").__class__ is dict:
        return MOST_PICTURE_TOKENS
    if block.get("type") != "text" or text.__class__ is not str or not text or text.isspace():
        return UNLIMITED
    return most_tokens(text, room) if len(block) == 2 + ("cache_control" in block) else UNLIMITED


def _breakpoints(items: Sequence[Any]) -> int:
    """Of messages or blocks, and all they hold. Counted for each view with a summary: no call for a plain part."""
    found = 0
    for item in items:
        kind: type = item.__class__
        if kind is str or item is None:
            continue
        if kind is list or kind is tuple:
            found += _breakpoints(item)
            continue
        mapped = kind is dict or issubclass(kind, Mapping)
        mark: Any = item.get("cache_control") if mapped else getattr(item, "cache_control", None)
        inner: Any = item.get("content") if mapped else getattr(item, "content", None)
        found += mark is not None
        if inner is not None and inner.__class__ is not str:
            found += _breakpoints(inner if inner.__class__ is list else (inner,))
    return found


def _content(message: Any) -> Sequence[Any]:
    content = as_mapping(message, "message").get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _is_blank(block: Any) -> bool:
    if _type_of(block) != "text":
        return False
    text: Any = block.get("text") if isinstance(block, Mapping) else getattr(block, "text", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return isinstance(text, str) and not text.strip()


def _type_of(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
