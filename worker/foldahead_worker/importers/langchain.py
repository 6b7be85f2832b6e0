"""LangChain's messages: known, and not supported yet."""

from __future__ import annotations

from typing import Any

from foldahead_worker.importers.errors import UnknownFormat
from foldahead_worker.importers.shape import is_array, is_object, text_at

TYPES = frozenset({"human", "ai", "AIMessageChunk", "HumanMessageChunk"})
REASON = (
    "LangChain messages are not supported yet; accepted are Anthropic and OpenAI chat messages "
    "(in LangChain, convert_to_openai_messages makes these)"
)


def refuse(values: Any) -> None:
    """Raises UnknownFormat if this is a list of LangChain's messages."""
    if is_array(values) and any(_is_message(value) for value in values):
        raise UnknownFormat(REASON)


def _is_message(value: Any) -> bool:
    if not is_object(value) or "role" in value:
        return False
    if "lc" in value and is_array(value.get("id")):
        return True
    return text_at(value, "type") in TYPES and ("content" in value or is_object(value.get("data")))
