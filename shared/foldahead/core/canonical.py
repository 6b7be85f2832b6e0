"""The canonical form: what identifies a message, byte for byte.

A body is the msgpack of a `Message` with sorted keys, in which every tool id is replaced by the position of its
call: ids are counted, not read, so the same conversation under fresh ids has the same digests. docs/canonical.md
holds the table of what counts and the test vectors.
"""

import hashlib
import re
from collections.abc import Callable
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

_INT_RANGE = range(-(2**63), 2**64)
_FOREIGN_DEPTH = MAX_DEPTH - 8
"""The levels of ours around a foreign value, a result's parts in it included, are fewer than eight."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_encoder = msgspec.msgpack.Encoder(order="deterministic", enc_hook=lambda value: plain(value, 0))
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """The body of a message whose ids are positions already. Any value that JSON can hold has a defined form."""
    if not _too_deep(message):
        try:
            return _encoder.encode(message)
        except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
            pass
    return _encoder.encode(plain(msgspec.structs.astuple(message)))


def encode_value(value: Any) -> bytes:
    """The canonical bytes of any other value, by the same rules."""
    if not _deeper(value, MAX_DEPTH):
        try:
            return _encoder.encode(value)
        except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
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


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: half of a surrogate pair becomes the replacement character."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def plain(value: Any, depth: int = 0) -> Any:
    """A value with all that msgpack cannot hold put in a defined, readable way. Slow: only for odd messages."""
    if depth > MAX_DEPTH:
        return "\ufffddeep:" + _digest_of_deep(value)
    match value:
        case None | bool() | float() | bytes():
            return value
        case str():
            return _LONE_SURROGATE.sub(lambda found: f"\ufffd{ord(found[0]):04x}", value)
        case int():
            return value if value in _INT_RANGE else f"\ufffdint:{value:x}"
        case dict():
            return {str(plain(key)): plain(item, depth + 1) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case list() | tuple() | set() | frozenset():
            return [plain(item, depth + 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case msgspec.Struct():
            return plain(_tagged(value), depth)
        case _:
            return plain(_as_dict(value), depth)


def json_of(value: Any) -> bytes:
    """What an agent handed over, as JSON in its own order of keys. What no provider takes is made plain: nothing may
    fail."""
    try:
        return msgspec.json.encode(value, enc_hook=plain)
    except (UnicodeEncodeError, RecursionError, OverflowError):
        return msgspec.json.encode(plain(value))


def _tagged(value: msgspec.Struct) -> tuple[Any, ...]:
    tag = value.__struct_config__.tag
    fields = msgspec.structs.astuple(value)
    return (tag, *fields) if tag else fields


def _as_dict(value: Any) -> Any:
    """SDK objects tell what they hold by `to_dict` or `model_dump`; anything else counts by its `repr`."""
    for name in ("to_dict", "model_dump"):
        method: Callable[[], Any] | None = getattr(value, name, None)
        if callable(method):
            return method()
    return repr(value)


def _digest_of_deep(value: Any) -> str:
    """A digest of a value of any depth, found without recursion."""
    digest_so_far = hashlib.sha256()
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        match item:
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
