"""How the stand-in counts tokens: a simple rule of its own, the same every time.

Text is its UTF-8 bytes over 3.5, rounded up; a picture its pixels over 750 (the rule that the vision
documentation gave for years), 1,600 when its header cannot be read; a PDF 2,000 a page.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from typing import Final

from foldahead_worker.standin.fault import Json, as_list, as_object

_BYTES_PER_TOKEN: Final = 3.5
_PIXELS_PER_TOKEN: Final = 750
_MAX_PICTURE_TOKENS: Final = 1600
_PDF_PAGE_TOKENS: Final = 2000
_BLOCK_TOKENS: Final = 4
MESSAGE_TOKENS: Final = 4


def text_tokens(text: str) -> int:
    """Counts the tokens of a text."""
    return math.ceil(len(text.encode(errors="surrogatepass")) / _BYTES_PER_TOKEN)


def block_tokens(block: Json) -> int:
    """Counts the tokens of one content block, of a tool, or of a system block."""
    match block.get("type"):
        case "text":
            return text_tokens(str(block.get("text")))
        case "thinking":
            return text_tokens(str(block.get("thinking")))
        case "compaction":
            return text_tokens(str(block.get("content") or ""))
        case "image":
            return _picture_tokens(as_object(block.get("source")) or {})
        case "document":
            return _document_tokens(as_object(block.get("source")) or {})
        case "tool_result":
            return _BLOCK_TOKENS + _content_tokens(block.get("content"))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            spelled = json.dumps(block.get("input"), ensure_ascii=False)
            return _BLOCK_TOKENS + text_tokens(f"{block.get('name')}{spelled}")
        case _:
            kept = {name: value for name, value in block.items() if name != "cache_control"}
            return text_tokens(json.dumps(kept, ensure_ascii=False))


def _content_tokens(content: object) -> int:
    if isinstance(content, str):
        return text_tokens(content)
    return sum(block_tokens(as_object(value) or {}) for value in as_list(content) or [])


def _picture_tokens(source: Json) -> int:
    size = _picture_size(_bytes_of(source))
    if size is None:
        return _MAX_PICTURE_TOKENS
    width, height = size
    return max(1, min(_MAX_PICTURE_TOKENS, math.ceil(width * height / _PIXELS_PER_TOKEN)))


def _bytes_of(source: Json) -> bytes:
    try:
        return base64.b64decode(str(source.get("data", "")), validate=False)
    except (binascii.Error, ValueError):
        return b""


def _picture_size(data: bytes) -> tuple[int, int] | None:
    """Reads width and height from the header of a PNG, GIF or JPEG."""
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data.startswith(b"GIF8") and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    if data.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
    return None


def _document_tokens(source: Json) -> int:
    match source.get("type"):
        case "text":
            return text_tokens(str(source.get("data")))
        case "base64":
            return _PDF_PAGE_TOKENS * max(1, _bytes_of(source).count(b"/Type /Page"))
        case "content":
            return _content_tokens(source.get("content"))
        case _:
            return _PDF_PAGE_TOKENS
