"""The judge's look into single messages: roles, block types, fields, and what counts as empty.

What is empty was measured by others against the API (github.com/experientiallabs/experiential, pull
request 804): an empty text block is refused everywhere but inside a tool result, a message of white
space alone is refused, white space beside other blocks is not. An assistant message with no content
at all is taken by the newest API; older ones refused it, and so does this judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from foldahead_worker.standin.fault import Fault, Json, Tolerance, as_list, as_object
from foldahead_worker.standin.schema import (
    BLOCKS,
    CACHE_CONTROL,
    MESSAGES,
    NESTED_BLOCKS,
    RESULT_BLOCKS,
    ROLE_BLOCKS,
    field_faults,
)

_ID: Final = re.compile(r"^[a-zA-Z0-9_-]+$")
_TOOL_NAME: Final = re.compile(r"^[a-zA-Z0-9_-]{1,200}$")
_MEDIA_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "base64": ("data", "media_type"),
    "url": ("url",),
    "file": ("file_id",),
    "text": ("data", "media_type"),
    "content": ("content",),
}


def message_faults(messages: Sequence[Any], tolerance: Tolerance) -> list[Fault]:
    """Judges every message by itself."""
    found: list[Fault] = []
    for index, value in enumerate(messages):
        path = f"messages[{index}]"
        message = as_object(value)
        if message is None:
            found.append(Fault(path, f"a message is an object, not {type(value).__name__}"))
            continue
        role = message.get("role")
        if not isinstance(role, str) or role not in MESSAGES:
            found.append(Fault(f"{path}.role", f"unknown role {role!r}: user, assistant or system"))
            continue
        found.extend(field_faults(message, MESSAGES[role], path))
        found.extend(_content_faults(message, role, path, tolerance))
    return found


def _content_faults(message: Json, role: str, path: str, tolerance: Tolerance) -> list[Fault]:
    content = message.get("content")
    place = f"{path}.content"
    if role == "system" and content is None and message.get("output_config"):
        return []
    if content is None or content in ("", []):
        return [Fault(place, f"a {role} message must have non-empty content")]
    if isinstance(content, str):
        return [] if content.strip() else [Fault(place, "text must contain non-whitespace text")]
    blocks = as_list(content)
    if blocks is None:
        return [Fault(place, f"content is a string or a list, not {type(content).__name__}")]
    found = block_list_faults(blocks, ROLE_BLOCKS[role], f"a {role} message", place, tolerance)
    if not found and is_blank(blocks):
        found.append(Fault(place, "text content blocks must contain non-whitespace text"))
    return found


def is_blank(blocks: Iterable[Any]) -> bool:
    """Says whether a content list holds white space and nothing else."""
    return all(
        (block := as_object(value)) is not None and block.get("type") == "text" and not str(block.get("text")).strip()
        for value in blocks
    )


def block_list_faults(
    blocks: Sequence[Any],
    allowed: frozenset[str],
    where: str,
    path: str,
    tolerance: Tolerance,
    empty_text: bool = False,
) -> list[Fault]:
    """Judges each block of a list: its type, its fields, its values."""
    found: list[Fault] = []
    for at, value in enumerate(blocks):
        place = f"{path}[{at}]"
        block = as_object(value)
        if block is None:
            found.append(Fault(place, f"a content block is an object, not {type(value).__name__}"))
            continue
        kind = block.get("type")
        shape = BLOCKS.get(str(kind)) or NESTED_BLOCKS.get(str(kind))
        if shape is None:
            if not tolerance.unknown_blocks:
                found.append(Fault(f"{place}.type", f"unknown block type {kind!r}"))
        elif kind not in allowed:
            found.append(Fault(f"{place}.type", f"a {kind!r} block may not stand in {where}"))
        else:
            found.extend(field_faults(block, shape, place))
            found.extend(_value_faults(block, str(kind), place, tolerance, empty_text))
    return found


def _value_faults(block: Json, kind: str, path: str, tolerance: Tolerance, empty_text: bool) -> list[Fault]:
    found = cache_control_faults(block, path)
    match kind:
        case "text":
            found.extend(_text_faults(block, path, empty_text))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            found.extend(_call_faults(block, path, tolerance))
        case "tool_result":
            found.extend(_result_faults(block, path, tolerance))
        case "image" | "document":
            found.extend(_source_faults(block, kind, path))
        case "thinking":
            if not isinstance(block.get("thinking"), str):
                found.append(Fault(f"{path}.thinking", "thinking is a string"))
            if not isinstance(block.get("signature"), str) or not block.get("signature"):
                found.append(Fault(f"{path}.signature", "a thinking block needs its signature"))
        case _:
            pass
    return found


def _text_faults(block: Json, path: str, empty_text: bool) -> list[Fault]:
    text = block.get("text")
    if not isinstance(text, str):
        return [Fault(f"{path}.text", "text is a string")]
    if not text and not empty_text:
        return [Fault(path, "text content blocks must be non-empty")]
    return []


def _call_faults(block: Json, path: str, tolerance: Tolerance) -> list[Fault]:
    found: list[Fault] = []
    call_id, name = block.get("id"), block.get("name")
    if not isinstance(call_id, str) or not call_id:
        found.append(Fault(f"{path}.id", "a call needs an id"))
    elif not tolerance.reused_ids and not _ID.match(call_id):
        found.append(Fault(f"{path}.id", f"{call_id!r} does not match '^[a-zA-Z0-9_-]+$'"))
    if not isinstance(name, str) or not _TOOL_NAME.match(name):
        found.append(Fault(f"{path}.name", f"{name!r} does not match '^[a-zA-Z0-9_-]{{1,200}}$'"))
    if not isinstance(block.get("input"), dict):
        found.append(Fault(f"{path}.input", "a call's input is an object"))
    return found


def _result_faults(block: Json, path: str, tolerance: Tolerance) -> list[Fault]:
    if not isinstance(block.get("tool_use_id"), str):
        return [Fault(f"{path}.tool_use_id", "a result needs the id of its call")]
    content = block.get("content", "")
    if isinstance(content, str):
        return []
    nested = as_list(content)
    if nested is None:
        return [Fault(f"{path}.content", "a result's content is a string or a list of blocks")]
    return block_list_faults(nested, RESULT_BLOCKS, "a tool result", f"{path}.content", tolerance, empty_text=True)


def _source_faults(block: Json, kind: str, path: str) -> list[Fault]:
    source = as_object(block.get("source"))
    if source is None:
        return [Fault(f"{path}.source", "a source is an object")]
    needed = _SOURCES.get(str(source.get("type")))
    if needed is None:
        return [Fault(f"{path}.source.type", f"unknown source type {source.get('type')!r}")]
    found = [Fault(f"{path}.source.{name}", "Field required") for name in needed if not source.get(name)]
    found.extend(
        Fault(f"{path}.source.{name}", "Extra inputs are not permitted")
        for name in source
        if name not in ("type", *needed)
    )
    media_type = source.get("media_type")
    if kind == "image" and media_type is not None and media_type not in _MEDIA_TYPES:
        found.append(Fault(f"{path}.source.media_type", f"{media_type!r} is no picture format of the API"))
    return found


def cache_control_faults(holder: Json, path: str) -> list[Fault]:
    """Judges the `cache_control` of a block, a tool or a request; null and absent are fine."""
    value = holder.get("cache_control")
    if value is None:
        return []
    place = f"{path}.cache_control" if path else "cache_control"
    control = as_object(value)
    if control is None or control.get("type") != "ephemeral":
        return [Fault(place, "cache_control is {'type': 'ephemeral'}")]
    found = field_faults(control, CACHE_CONTROL, place)
    if control.get("ttl", "5m") not in ("5m", "1h"):
        found.append(Fault(f"{place}.ttl", "'5m' or '1h'"))
    return found
