"""Formats that are known and not supported: named, rather than read for what they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldahead_worker.importers.errors import UnknownFormat
from foldahead_worker.importers.shape import is_array, objects, text_at

_ACCEPTED = "are not supported yet; accepted are Anthropic, OpenAI chat and LangChain messages"

_AI_SDK_PARTS = frozenset({"tool-call", "tool-result", "tool-approval-request", "tool-approval-response"})
_RESPONSES_ITEMS = frozenset({"function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"})
_GOOSE_PARTS = frozenset({"toolRequest", "toolResponse", "toolConfirmationRequest", "frontendToolRequest"})
_CONVERSE_PARTS = frozenset({"text", "toolUse", "toolResult", "image", "document", "reasoningContent", "cachePoint"})
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def refuse(values: Any) -> None:
    """Raises UnknownFormat if this is a list of messages of a format that is known and not supported."""
    for value in objects(values) if is_array(values) else ():
        for is_one, reason in _FORMATS:
            if is_one(value):
                raise UnknownFormat(reason)


def _is_ai_sdks(value: dict[str, Any]) -> bool:
    if "role" in value and is_array(value.get("parts")) and "content" not in value:
        return True
    return _has_part(value, _AI_SDK_PARTS)


def _is_geminis(value: dict[str, Any]) -> bool:
    parts = objects(value.get("parts"))
    return "role" in value and "content" not in value and bool(parts) and not any("type" in part for part in parts)


def _is_converses(value: dict[str, Any]) -> bool:
    """Bedrock's: the kind of a part is its one key."""
    parts = objects(value.get("content"))
    return "role" in value and any(len(part) == 1 and not _CONVERSE_PARTS.isdisjoint(part) for part in parts)


def _is_gooses(value: dict[str, Any]) -> bool:
    return _has_part(value, _GOOSE_PARTS)


def _is_a_responses_item(value: dict[str, Any]) -> bool:
    if "role" not in value:
        return text_at(value, "type") in _RESPONSES_ITEMS and "call_id" in value
    return _has_part(value, _RESPONSES_PARTS)


def _has_part(value: dict[str, Any], kinds: frozenset[str]) -> bool:
    return "role" in value and any(text_at(part, "type") in kinds for part in objects(value.get("content")))


_FORMATS: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (_is_geminis, f"Messages of the Gemini API {_ACCEPTED}"),
    (_is_converses, f"Messages of Bedrock's Converse API {_ACCEPTED}"),
    (_is_gooses, f"Messages of goose {_ACCEPTED}"),
    (_is_ai_sdks, f"Messages of the Vercel AI SDK {_ACCEPTED}"),
    (_is_a_responses_item, f"Items of OpenAI's Responses API {_ACCEPTED}"),
)
