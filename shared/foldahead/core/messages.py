"""What a message says, whichever provider's words it came in.

A dialect reads the agent's own messages into these structs; everything in core that looks *into* a message
(digests, pairing, cut, tokens, `extract`) looks at them and nowhere else. They never go back to a provider:
a view is made of the agent's own messages.

Encoded as msgpack arrays these structs are also the canonical form (see `canonical.py`), so the order of
their fields is a contract: append only, and count `CANONICAL_VERSION` up when the meaning changes.
"""

import re
from typing import Any

from msgspec import Struct

Extra = dict[str, Any]

SYSTEM_ROLES = ("system", "developer")
"""Who instructs the model: the operator, in whichever dialect."""

ENCODED = re.compile("[A-Za-z0-9+/_-]{256,}={0,2}")
"""A file in base64, within a block of a kind that is not known: sound, a search result as the provider sealed it."""
_ENCODED_MARK = "[encoded]"


PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")
"""An id of a call, and the name of a tool, as every provider takes them."""


class Text(Struct, frozen=True, array_like=True, tag="text"):
    """Plain text. `extra` holds what else the model sees of the block (citations, say)."""

    text: str
    extra: Extra = {}


class Thinking(Struct, frozen=True, array_like=True, tag="thinking"):
    """The model's reasoning: whole or absent in a view, never edited, never shown to a summariser."""

    text: str
    signature: str = ""
    redacted: bool = False


class Picture(Struct, frozen=True, array_like=True, tag="picture"):
    """A picture by its content: never the bytes themselves. `source` is the URL or file id of one not inlined.

    `size_bytes` is the length of its encoding; width and height in pixels, 0 when its header cannot be read.
    """

    sha256: bytes
    size_bytes: int
    media_type: str
    width: int = 0
    height: int = 0
    source: str = ""
    extra: Extra = {}


class Document(Struct, frozen=True, array_like=True, tag="document"):
    """A document by its content. `text` only where the provider was given plain text. 0 pages: unknown."""

    sha256: bytes
    size_bytes: int
    media_type: str
    pages: int = 0
    title: str = ""
    text: str = ""
    source: str = ""
    extra: Extra = {}


class Other(Struct, frozen=True, array_like=True, tag="other"):
    """A block of a kind that this version does not know: counted and passed through whole."""

    kind: str
    value: Any


class Call(Struct, frozen=True, array_like=True, tag="call"):
    """A tool call. `server` calls are run by the provider and answered inside the assistant's own messages."""

    id: str
    name: str
    arguments: Any
    server: bool = False
    extra: Extra = {}


Part = Text | Picture | Document | Other


class Result(Struct, frozen=True, array_like=True, tag="result"):
    """What a tool call gave back. `call` is the id of its call. `kind` is the provider's type of a server result."""

    call: str
    parts: tuple[Part, ...]
    is_error: bool = False
    server: bool = False
    kind: str = ""
    extra: Extra = {}


Block = Text | Thinking | Picture | Document | Other | Call | Result


class Message(Struct, frozen=True, array_like=True):
    """One message as read. `role` is the provider's, with OpenAI's `tool` kept as it is."""

    role: str
    blocks: tuple[Block, ...]
    extra: Extra = {}


def is_compaction(block: Block) -> bool:
    """Whether a block stands for all before it: a summary that the Claude API wrote. One without content tells of an
    attempt that failed."""
    match block:
        case Other(kind="compaction", value={"content": str(said)}):
            return bool(said)
        case _:
            return False


def text_of(parts: tuple[Block, ...] | tuple[Part, ...]) -> str:
    """The readable text of some blocks, a line break between two of them; pictures and documents by a mark."""
    return "\n".join(filter(None, map(_readable, parts)))


def _readable(part: Block) -> str:
    match part:
        case Text():
            return part.text
        case Document():
            return part.text or f"[document {part.title or part.media_type}]"
        case Picture():
            return f"[picture {part.width}x{part.height}]" if part.width else "[picture]"
        case Result():
            return text_of(part.parts)
        case Other(kind="compaction"):
            return str(part.value.get("content") or "")
        case Other(value={"text": str(said)}):
            return said
        case Other():
            return without_encoded(str(part.value)) if part.value is not None else ""
        case _:
            return ""


def without_encoded(text: str) -> str:
    """What a block of a kind that is not known says, with a mark in place of each file in it."""
    return ENCODED.sub(_ENCODED_MARK, text)
