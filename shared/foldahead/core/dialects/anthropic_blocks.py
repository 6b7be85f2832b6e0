"""Content blocks of the Messages API, read into `core.messages`."""

import hashlib
from collections.abc import Mapping
from typing import Any

from foldahead.core.canonical import encode_value
from foldahead.core.dialect import as_mapping, without_nulls
from foldahead.core.messages import Block, Call, Document, Other, Part, Picture, Result, Text, Thinking
from foldahead.core.pictures import picture_size
from foldahead.errors import InvalidHistory


def blocks_of(content: Any, where: str) -> tuple[Block, ...]:
    """A message's content, or a result's. Raises `InvalidHistory`, which names the place."""
    if isinstance(content, str):
        return (Text(content),)
    if content is None:
        return ()
    if not isinstance(content, list | tuple):
        raise InvalidHistory(f"{where}: expected a text or a list of blocks, got {type(content).__name__}")
    return tuple(_block(block, f"{where}[{at}]") for at, block in enumerate(content))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _block(value: Any, where: str) -> Block:
    raw = as_mapping(value, where)
    kind = raw.get("type")
    match kind:
        case "text":
            return Text(_string(raw, "text", where), without_nulls(raw, "type", "text"))
        case "thinking":
            return Thinking(_string(raw, "thinking", where), str(raw.get("signature") or ""))
        case "redacted_thinking":
            return Thinking("", str(raw.get("data") or ""), redacted=True)
        case "image":
            return _picture(raw)
        case "document":
            return _document(raw)
        case str() if kind == "tool_use" or kind.endswith("_tool_use"):
            extra = without_nulls(raw, "type", "id", "name", "input")
            name = str(raw.get("name") or kind)
            return Call(str(raw.get("id") or ""), name, raw.get("input"), kind != "tool_use", extra)
        case str() if kind == "tool_result" or kind.endswith("_tool_result"):
            return _result(kind, raw, where)
        case str():
            return Other(kind, without_nulls(raw, "type"))
        case _:
            raise InvalidHistory(f"{where}.type: expected the name of a block's type, got {kind!r}")


def _string(raw: Mapping[str, Any], field: str, where: str) -> str:
    value = raw.get(field)
    if not isinstance(value, str):
        raise InvalidHistory(f"{where}.{field}: expected a text, got {type(value).__name__}")
    return value


def _result(kind: str, raw: Mapping[str, Any], where: str) -> Result:
    content = raw.get("content")
    server = kind != "tool_result"
    parts: tuple[Part, ...]
    if isinstance(content, str):
        parts = (Text(content),)
    elif server:
        parts = () if content is None else (Other(kind, content),)
    else:
        blocks = blocks_of(content, f"{where}.content")
        parts = tuple(block for block in blocks if isinstance(block, Text | Picture | Document | Other))
    extra = without_nulls(raw, "type", "tool_use_id", "content", "is_error")
    return Result(
        str(raw.get("tool_use_id") or ""), parts, bool(raw.get("is_error")), server, kind if server else "", extra
    )


def _picture(raw: Mapping[str, Any]) -> Picture:
    source = as_mapping(raw.get("source") or {}, "image.source")
    extra = without_nulls(raw, "type", "source")
    media_type = str(source.get("media_type") or "")
    if isinstance(data := source.get("data"), str):
        width, height = picture_size(data)
        return Picture(_sha256(data), len(data), media_type, width, height, "", extra)
    return Picture(b"", 0, media_type, 0, 0, str(source.get("url") or source.get("file_id") or ""), extra)


def _document(raw: Mapping[str, Any]) -> Document:
    source = as_mapping(raw.get("source") or {}, "document.source")
    media_type, title = str(source.get("media_type") or ""), str(raw.get("title") or "")
    extra = without_nulls(raw, "type", "source", "title")
    data, content = source.get("data"), source.get("content")
    if source.get("type") == "text" and isinstance(data, str):
        return Document(b"", len(data), media_type, 0, title, data, "", extra)
    if isinstance(data, str):
        return Document(_sha256(data), len(data), media_type, _pages(data), title, "", "", extra)
    if content is not None:
        return _document_of_parts(content, media_type, title, extra)
    return Document(b"", 0, media_type, 0, title, "", str(source.get("url") or source.get("file_id") or ""), extra)


def _document_of_parts(content: Any, media_type: str, title: str, extra: dict[str, Any]) -> Document:
    """A document given as content blocks: known by all of them, read for its text."""
    blocks = blocks_of(content, "document.source.content")
    text = "\n".join(block.text for block in blocks if isinstance(block, Text))
    return Document(hashlib.sha256(encode_value(blocks)).digest(), len(text), media_type, 0, title, text, "", extra)


def _pages(encoded: str) -> int:
    """Pages of a base64 PDF by its size alone: 60 KB a page, as an ordinary printed page has."""
    return max(1, len(encoded) * 3 // 4 // 60_000)


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
