"""The seam between providers' message formats and everything else in core.

A dialect reads the agent's own messages into `Message` structs and makes the few messages and edits that a view
needs. It never changes a message that it was given.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from msgspec import Struct

from foldahead.core.messages import Message
from foldahead.errors import InvalidHistory


class Profile(Struct, frozen=True, kw_only=True):
    """What a provider wants of a list of messages."""

    opens_with_user: bool
    """The first message after the stable prefix must be a user's."""
    alternates: bool
    """Two messages of one role in a row are refused."""
    merges_runs: bool = False
    """Messages of one role in a row are one turn, to be answered as a whole."""
    places_system: bool = False
    """A system message in the middle must follow a user's message, and an assistant's must follow it."""
    thinking_is_content: bool = False
    """Thinking counts as content of its message, and no turn of the assistant's may end in it."""
    plain_ids: bool = False
    """Ids of calls and names of tools are of letters, digits, `_` and `-` alone."""
    binds_thinking: bool = False
    """A model of this provider that is not known is taken for one that binds thinking to the conversation before it."""


class Dialect(Protocol):
    """One provider's message format. `name` is what users write; `canonical` names the chain heads."""

    name: str
    canonical: str
    profile: Profile

    def read(self, message: Any, at: int) -> Message:
        """What the message at index `at` says. Raises `InvalidHistory` when it is none."""
        ...

    def glance(self, new: list[Any], before: Any, waiting: tuple[str, ...], room: int, speech: int) -> int | None:
        """Cache breakpoints in messages that came behind `before`; None unless a glance proves all of them ordinary.

        Ordinary: `read` takes them, no message is an assistant's, results answer calls of `waiting`, nothing is out of
        its place or empty, and they are of at most `room` estimated tokens, `speech` of which are gone once the user
        says anything. `before` is None at the start. Of texts none is looked into but what is not ASCII.
        """
        ...

    def user_message(self, text: str) -> Any:
        """A new message in the user role."""
        ...

    def assistant_message(self, text: str) -> Any:
        """A new message in the assistant role, to restore alternation."""
        ...

    def with_stub(self, message: Any, block: int, stub: str) -> Any:
        """The message with the content of its `block`-th block, a tool result, replaced. Nothing else changes.

        The message itself when there is no result in that place.
        """
        ...

    def well_formed(self, message: Any) -> Any:
        """The message without what every provider refuses of its form, its content aside; itself where that is fine."""
        ...

    def with_plain_ids(self, message: Any) -> Any:
        """The message with ids and names of tools that this provider takes; itself where they are."""
        ...

    def without_thinking(self, message: Any) -> Any | None:
        """The message without its thinking, whole; None when nothing is left of it."""
        ...

    def without_blocks(self, message: Any, blocks: frozenset[int]) -> Any | None:
        """The message without some of its blocks, by position; None when nothing is left of it."""
        ...

    def results_first(self, messages: list[Any]) -> list[Any | None]:
        """What answers an assistant's run, its results ahead of all else, in as many places; None: nothing there."""
        ...

    def joined_systems(self, messages: list[Any]) -> list[Any]:
        """System messages in a row as one; as they are where they cannot be joined."""
        ...

    def limit_breakpoints(self, messages: list[Any], most: int) -> list[Any]:
        """The messages with at most `most` cache breakpoints, the last ones kept."""
        ...

    def breakpoints(self, value: Any) -> int:
        """How many cache breakpoints a value of a request (system, tools, messages) carries."""
        ...

    def context_tokens(self, usage: Any) -> int | None:
        """The context size after a request, by the provider's own count; None when `usage` does not say."""
        ...


def as_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """A message or block as a mapping: dicts as they are, SDK objects by their `to_dict` or `model_dump`."""
    if isinstance(value, dict | Mapping):  # the first is quick, and what it nearly always is
        return cast("Mapping[str, Any]", value)
    for name in ("to_dict", "model_dump"):
        if callable(method := getattr(value, name, None)):
            told: object = method()
            if isinstance(told, Mapping):
                return cast("Mapping[str, Any]", told)
    raise InvalidHistory(f"{where}: expected a message or block (a dict or an SDK object), got {type(value).__name__}")


def as_plain(value: Any) -> Any:
    """A message or a part of one as plain dicts and lists, SDK objects and all."""
    match value:
        case Mapping():
            return {key: as_plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [as_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case str() | int() | float() | None:
            return value
        case _:
            return as_plain(as_mapping(value, "message"))


def role_of(message: Any) -> str:
    """The role of a message as the agent holds it."""
    role: object = message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return role if isinstance(role, str) else ""


def without_nulls(block: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """What else than `known` a block holds: nulls say nothing, and cache breakpoints are no content."""
    return {
        key: value for key, value in block.items() if value is not None and key not in known and key != "cache_control"
    }


def usage_number(usage: Any, name: str) -> int:
    """A counter of a usage object or dict, 0 when it is absent or null."""
    value: object = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return value if isinstance(value, int) else 0


def replaced(items: Sequence[Any], at: int, item: Any) -> list[Any]:
    """A copy of a list with one item replaced."""
    return [*items[:at], item, *items[at + 1 :]]
