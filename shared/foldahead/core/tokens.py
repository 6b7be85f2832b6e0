"""An estimate of tokens: script-aware, quick, and wrong by a factor that calibration finds.

Bytes/3.5 was closest to a Claude tokenizer on a transcript (facts.md); characters of Chinese, Japanese and Korean
are about a token each; pictures count by their pixels (width x height / 750, the Claude documentation's rule, at
most what the API scales down to); base64 never counts as text.
"""

import json
import re
from typing import Any

from foldahead.core.canonical import is_whole_text, plain
from foldahead.core.messages import ENCODED, Block, Call, Document, Message, Other, Picture, Result, Text, Thinking

BYTES_PER_TOKEN = 3.5
MESSAGE_OVERHEAD_TOKENS = 4
CALL_OVERHEAD_TOKENS = 12
"""Name, id and framing of a call or a result."""
UNKNOWN_PICTURE_TOKENS = 1_600
MOST_PICTURE_TOKENS = 6_400
"""The largest picture that newest models take unscaled (about 2,576 x 1,850 pixels) counts this much."""
PIXELS_PER_TOKEN = 750
TOKENS_PER_PAGE = 2_000
"""A PDF page: its text and its picture (Claude documentation: 1,500 to 3,000)."""
DENSE_TOKENS_PER_CHAR = 1.1

UNLIMITED = 2**31 - 1
"""More tokens than anything has or has room for."""

_LONG_CHARS = 16_384
_TAKES_MUCH = 2
"""A text that may take this part of a room is looked at more closely: others come behind it."""
_SAMPLES, _SAMPLE_CHARS = 16, 512
_ASCII = bytes(range(128))
_DENSE = re.compile("[\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def estimate_text(text: str) -> int:
    """Tokens of a text. Of a long one in a mixed script, samples are looked at."""
    if text.isascii():
        return int(len(text) / BYTES_PER_TOKEN + 0.999)
    if len(text) <= _LONG_CHARS:
        return int(_mixed(text) + 0.999)
    sample = _sample(text)
    return int(_mixed(sample) * len(text) / len(sample) + 0.999)


def most_tokens(text: str, room: int) -> int:
    """No less than `estimate_text` of it; of ASCII without a look at any character. More than any room of what no
    provider takes: half a character, which UTF-8 cannot hold.

    A text knows whether it is ASCII. Of all others the dearest characters are the rare Chinese ones of four bytes, at
    less than 1.4 tokens.
    """
    if text.isascii():
        return len(text) * 2 // 7 + 2
    if not is_whole_text(text):
        return UNLIMITED
    most = len(text) * 7 // 5 + 2
    return most if most * _TAKES_MUCH <= room else min(most, _most_by_bytes(text))


def least_tokens(text: str) -> int:
    """No more than `estimate_text` of it: no character counts less than one of ASCII."""
    return len(text) * 2 // 7


def _sample(text: str) -> str:
    step = len(text) // _SAMPLES
    return "".join(text[at : at + _SAMPLE_CHARS] for at in range(0, step * _SAMPLES, step))


def _most_by_bytes(text: str) -> int:
    """No less than `estimate_text`, of the same sample, told by how many bytes it has: each dense character has at
    least two more than one."""
    sample = text if len(text) <= _LONG_CHARS else _sample(text)
    size = len(sample.encode("utf-8", "surrogatepass"))
    dearer = (size - len(sample)) / 2 * (DENSE_TOKENS_PER_CHAR - 3 / BYTES_PER_TOKEN)
    return int((size / BYTES_PER_TOKEN + dearer) * len(text) / len(sample)) + 2


def _mixed(text: str) -> float:
    data = text.encode("utf-8", "surrogatepass")
    foreign = data.translate(None, _ASCII).decode("utf-8", "surrogatepass")  # quick, and mostly short
    dense = len(_DENSE.findall(foreign))
    return dense * DENSE_TOKENS_PER_CHAR + (len(data) - 3 * dense) / BYTES_PER_TOKEN


def estimate(message: Message) -> int:
    """Tokens of a message, its role and framing included."""
    return MESSAGE_OVERHEAD_TOKENS + sum(map(estimate_block, message.blocks))


def estimate_block(block: Block) -> int:
    """Tokens of one block."""
    match block:
        case Text():
            return estimate_text(block.text) + _estimate_value(block.extra)
        case Thinking():
            return estimate_text(block.text) if block.text else _estimate_sealed(block.signature)
        case Call():
            return CALL_OVERHEAD_TOKENS + estimate_text(block.name) + _estimate_value(block.arguments)
        case Result():
            return CALL_OVERHEAD_TOKENS + sum(map(estimate_block, block.parts))
        case Picture():
            return _estimate_picture(block)
        case Document():
            return _estimate_document(block)
        case Other(kind="compaction"):
            return _estimate_compaction(block.value)
        case Other():
            return _estimate_foreign(block.value)


def _estimate_sealed(encoded: str) -> int:
    """Reasoning that only the provider can read: as long as the bytes that it is sealed in."""
    return int(len(encoded) * 3 / 4 / BYTES_PER_TOKEN)


def _estimate_foreign(value: Any) -> int:
    """A block of a kind not known: its text, and for each encoded file in it as much as for a picture."""
    text = _spelled(value)
    files = ENCODED.findall(text)
    return estimate_text(ENCODED.sub("", text) if files else text) + UNKNOWN_PICTURE_TOKENS * len(files)


def _estimate_compaction(value: Any) -> int:
    """A block that the provider wrote: what the model reads of it, not what it is sealed with."""
    read = {name: value.get(name) for name in ("content", "tool_changes")} if isinstance(value, dict) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return _estimate_foreign(read)


def _estimate_picture(picture: Picture) -> int:
    if not picture.width or not picture.height:
        return UNKNOWN_PICTURE_TOKENS
    return min(MOST_PICTURE_TOKENS, picture.width * picture.height // PIXELS_PER_TOKEN + 1)


def _estimate_document(document: Document) -> int:
    if document.text:
        return estimate_text(document.text)
    return TOKENS_PER_PAGE * max(1, document.pages)


def _estimate_value(value: Any) -> int:
    return estimate_text(_spelled(value)) if value else 0


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (RecursionError, TypeError, ValueError):
        return repr(plain(value))
