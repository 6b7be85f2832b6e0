"""What the Messages API refuses of a block's form, whatever it says, and how it is put right.

A conversation that another provider's model began holds ids that this one refuses; a stream that broke leaves arguments
as a text, or as nothing. SDK objects came from the API itself, and are as it wants them.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from foldahead.core.canonical import is_whole, whole
from foldahead.core.dialect import replaced
from foldahead.core.messages import PLAIN_NAME

THINKING = ("thinking", "redacted_thinking")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
_KEPT_ID_CHARS = 40
_NAMELESS = "unknown"
_UNREADABLE = "invalid"
"""The name under which arguments stand that are no object."""


def formed(block: Any) -> Any:
    """A call with a name, and arguments that are an object; a result without a content that is null; texts that UTF-8
    can hold, but for thinking, which is never edited; itself where that is so."""
    raw = _mapping(block)
    if raw is None:
        return block
    if raw.get("type") not in THINKING and not is_whole(block):
        block = raw = cast("dict[str, Any]", whole(block))
    if raw.get("type") == "tool_use" and not (raw.get("name") and _mapping(raw.get("input")) is not None):
        return {**raw, "name": raw.get("name") or _NAMELESS, "input": _arguments(raw.get("input"))}
    if raw.get("type") == "tool_result" and raw.get("content", "") is None:
        return {key: value for key, value in raw.items() if key != "content"}
    return block


def with_plain_id(block: Any) -> Any:
    """The block of a call or a result with an id and a name that the API takes; itself where it has them."""
    raw = _mapping(block)
    if raw is None:
        return block
    match raw.get("type"):
        case "tool_use":
            call_id, name = _text(raw.get("id")), _text(raw.get("name"))
            plain = _is_plain(call_id) and _is_plain(name)
            return block if plain else {**raw, "id": _plain_id(call_id), "name": _plain_name(name)}
        case "tool_result":
            call_id = _text(raw.get("tool_use_id"))
            return block if _is_plain(call_id) else {**raw, "tool_use_id": _plain_id(call_id)}
        case _:
            return block


def each_block(message: Any, change: Callable[[Any], Any]) -> Any:
    """The message with `change` made to each of its blocks; itself where it changes none."""
    raw = _mapping(message)
    content: Any = raw.get("content") if raw is not None else None
    if raw is None or content.__class__ is not list:
        return message
    changed: list[Any] = content
    for at, block in enumerate(content):
        if (better := change(block)) is not block:
            changed = replaced(changed, at, better)
    return message if changed is content else {**raw, "content": changed}


def _mapping(value: Any) -> Mapping[str, Any] | None:
    if value.__class__ is dict:  # what it nearly always is
        return cast("dict[str, Any]", value)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value) if value.strip() else None
    if isinstance(value, Mapping):
        return cast("dict[str, Any]", value)
    return {} if value is None else {_UNREADABLE: value}


def _plain_id(call_id: str) -> str:
    """Always the same of the same id, and another of another."""
    if _is_plain(call_id):
        return call_id
    mark = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_NOT_PLAIN.sub('_', call_id)[:_KEPT_ID_CHARS]}_{mark}"


def _plain_name(name: str) -> str:
    return _NOT_PLAIN.sub("_", name)[:_KEPT_ID_CHARS] if name and not _is_plain(name) else name or _NAMELESS


def _is_plain(name: str) -> bool:
    return PLAIN_NAME.fullmatch(name) is not None


def _text(value: Any) -> str:
    return "" if value is None else str(value)
