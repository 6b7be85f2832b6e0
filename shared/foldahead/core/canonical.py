"""The canonical form: what identifies a message, byte for byte.

A body is the msgpack of a `Message` with sorted keys, in which every tool id is replaced by the position of its
call: ids are counted, not read, so the same conversation under fresh ids has the same digests. docs/canonical.md
holds the table of what counts and the test vectors.
"""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from foldahead.core.messages import Block, Call, Document, Message, Other, Picture, Result, Text, Thinking

CANONICAL_VERSION = 1
MAX_DEPTH = 48
"""Values nested deeper than this inside a block are replaced by a digest: msgpack readers are recursive."""

_SLICE_BYTES = 2_047
"""From 2,048 bytes on hashlib lets other threads in, and the caller then waits up to 5 ms (the interpreter's switch
interval) for a hash of microseconds: with a busy link that doubled the share of requests over a millisecond."""
_MOST_SLICED_BYTES = 256 * 1024
_AT_ONCE_CHARS, _PIECE_CHARS = 32_768, 16_384
"""For a larger copy the allocator asks the system for memory each time, which takes longer than the copying."""

_INT_RANGE = range(-(2**63), 2**64)
_FOREIGN_DEPTH = MAX_DEPTH - 8
"""The levels of ours around a foreign value, a result's parts in it included, are fewer than eight."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LONG_INT_BITS = 14_284
"""Python writes no longer ones out in digits (4,300 of them, unless it is told otherwise)."""
_UNFIT = (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError)
"""What an encoder raises at a value that it cannot hold."""
_LOOP = "\ufffdloop"

_encoder = msgspec.msgpack.Encoder(order="deterministic", enc_hook=lambda value: plain(value))  # noqa: PLW0108 - see below
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """The body of a message whose ids are positions already. Any value that JSON can hold has a defined form."""
    if not _too_deep(message):
        try:
            return _encoder.encode(message)
        except _UNFIT:
            pass
    return _encoder.encode(plain(msgspec.structs.astuple(message)))


def encode_value(value: Any) -> bytes:
    """The canonical bytes of any other value, by the same rules."""
    if not _deeper(value, MAX_DEPTH):
        try:
            return _encoder.encode(value)
        except _UNFIT:
            pass
    return _encoder.encode(plain(value))


def _too_deep(message: Message) -> bool:
    """Whether something foreign inside a message is nested beyond `MAX_DEPTH`: the rest of it is of our own making."""
    return any(_foreign_is_deep(block) for block in message.blocks)


def _foreign_is_deep(block: Block) -> bool:
    match block:
        case Call():
            return _deeper(block.arguments, _FOREIGN_DEPTH) or _deeper(block.extra, _FOREIGN_DEPTH)
        case Result():
            return any(map(_foreign_is_deep, block.parts)) or _deeper(block.extra, _FOREIGN_DEPTH)
        case Other():
            return _deeper(block.value, _FOREIGN_DEPTH)
        case Text() | Picture() | Document():
            return bool(block.extra) and _deeper(block.extra, _FOREIGN_DEPTH)
        case Thinking():
            return False


def _deeper(value: Any, levels: int) -> bool:
    """Whether a value has more levels of containers than that."""
    if isinstance(value, dict):
        value = value.values()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    elif not isinstance(value, list | tuple):
        return False
    return levels <= 0 or any(_deeper(item, levels - 1) for item in value if not isinstance(item, str))  # pyright: ignore[reportUnknownVariableType]


def decode(body: bytes) -> Message:
    """The message that a body stands for. Raises msgspec.DecodeError (or ValidationError) on anything else."""
    return _decoder.decode(body)


def digest(body: bytes) -> bytes:
    """SHA-256 of a body, 32 bytes."""
    if len(body) <= _SLICE_BYTES or len(body) > _MOST_SLICED_BYTES:
        return hashlib.sha256(body).digest()
    view = memoryview(body)
    running = hashlib.sha256(view[:_SLICE_BYTES])
    for at in range(_SLICE_BYTES, len(body), _SLICE_BYTES):
        running.update(view[at : at + _SLICE_BYTES])
    return running.digest()


def first_head(dialect: str) -> bytes:
    """The chain head of an empty history. Dialects never share a head."""
    return hashlib.sha256(f"foldahead/{CANONICAL_VERSION}/{dialect}".encode()).digest()


def next_head(head: bytes, body_digest: bytes) -> bytes:
    """The chain head after one more message."""
    return hashlib.sha256(head + body_digest).digest()


def is_whole(value: Any) -> bool:
    """Whether UTF-8 can hold every text in a value: no half of a surrogate pair, which no provider takes.

    However deep it is, and also where it holds itself.
    """
    waiting, seen = [value], set[int]()
    while waiting:
        item = waiting.pop()
        kind: type = item.__class__
        if kind is str:
            if not is_whole_text(item):
                return False
        elif (kind is dict or kind is list) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend(item.values() if kind is dict else item)
    return True


def is_whole_text(text: str) -> bool:
    """Whether UTF-8 can hold a text. UTF-16 refuses the same, and is made in a fraction of the time."""
    if text.isascii():
        return True
    try:
        if len(text) <= _AT_ONCE_CHARS:
            text.encode("utf-16")
        else:
            for at in range(0, len(text), _PIECE_CHARS):
                text[at : at + _PIECE_CHARS].encode("utf-16")
    except UnicodeEncodeError:
        return False
    return True


def whole(value: Any) -> Any:
    """The value with every text in it made one that UTF-8 can hold; itself where it is too deep for any provider."""
    try:
        return _whole(value)
    except RecursionError:
        return value


def _whole(value: Any) -> Any:
    match value:
        case str():
            return encodable(value)
        case dict():
            return {key: _whole(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_whole(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: half of a surrogate pair becomes the replacement character."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def plain(value: Any) -> Any:
    """A value with all that msgpack cannot hold put in a defined, readable way. Slow: only for odd messages."""
    return _plain(value, 0, _looping(value))


def _plain(value: Any, depth: int, looping: frozenset[int]) -> Any:
    if id(value) in looping:
        return _LOOP
    if depth > MAX_DEPTH:
        return "\ufffddeep:" + _digest_of_deep(value, looping)
    match value:
        case None | bool() | float() | bytes():
            return value
        case str():
            return _LONE_SURROGATE.sub(lambda found: f"\ufffd{ord(found[0]):04x}", value)
        case int():
            return value if value in _INT_RANGE else f"\ufffdint:{value:x}"
        case dict():
            return {str(plain(key)): _plain(item, depth + 1, looping) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case list() | tuple() | set() | frozenset():
            return [_plain(item, depth + 1, looping) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case msgspec.Struct():
            return _plain(_tagged(value), depth, looping)
        case _:
            told = _as_dict(value)
            return _plain(told, depth, looping | _looping(told) if _deeper(told, MAX_DEPTH) else looping)


def _looping(value: Any) -> frozenset[int]:
    """Ids of the containers in a value through which it holds itself: without them it is of some depth.

    JSON has no such value, so that no provider sees what is in one.
    """
    looping: set[int] = set()
    above: set[int] = set()
    done: set[int] = set()
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        item, is_left = stack.pop()
        mark = id(item)
        if is_left:
            above.discard(mark)
            done.add(mark)
        elif mark in above:
            looping.add(mark)
        elif mark not in done and (inside := _inside(item)):
            above.add(mark)
            stack.append((item, True))
            stack += [(each, False) for each in inside]
    return frozenset(looping)


def _inside(value: Any) -> tuple[Any, ...]:
    match value:
        case dict():
            return tuple(value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case list() | tuple():
            return tuple(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case msgspec.Struct():
            return msgspec.structs.astuple(value)
        case _:
            return ()


def json_of(value: Any) -> bytes:
    """What an agent handed over, as JSON in its own order of keys. What no provider takes is made plain: nothing may
    fail."""
    try:
        return msgspec.json.encode(value, enc_hook=plain)
    except _UNFIT:
        return msgspec.json.encode(plain(value))


def _tagged(value: msgspec.Struct) -> tuple[Any, ...]:
    tag = value.__struct_config__.tag
    fields = msgspec.structs.astuple(value)
    return (tag, *fields) if tag else fields


def _as_dict(value: Any) -> Any:
    """SDK objects tell what they hold by `to_dict` or `model_dump`; anything else, and one that cannot, counts by its
    `repr`."""
    for name in ("to_dict", "model_dump"):
        method: Callable[[], Any] | None = getattr(value, name, None)
        if callable(method):
            with suppress(*_UNFIT):
                if (told := method()) is not value:
                    return told
    return repr(value)


def _digest_of_deep(value: Any, looping: frozenset[int]) -> str:
    """A digest of a value of any depth, found without recursion."""
    digest_so_far = hashlib.sha256()
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        match item:
            case _ if id(item) in looping:
                digest_so_far.update(_LOOP.encode())
            case int() if item.bit_length() > _LONG_INT_BITS:
                digest_so_far.update(b"%x;" % item)
            case dict():
                digest_so_far.update(b"{%d" % len(item))  # pyright: ignore[reportUnknownArgumentType]
                for key in sorted(map(str, item), reverse=True):  # pyright: ignore[reportUnknownArgumentType]
                    stack.append(item.get(key))  # pyright: ignore[reportUnknownMemberType]
                    stack.append(key)
            case list() | tuple():
                digest_so_far.update(b"[%d" % len(item))  # pyright: ignore[reportUnknownArgumentType]
                stack.extend(reversed(item))  # pyright: ignore[reportUnknownArgumentType]
            case _:
                digest_so_far.update(repr(item).encode("utf-8", "backslashreplace") + b";")
    return digest_so_far.hexdigest()
