"""Which provider's messages these are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.shape import is_object, objects, text_at

ANTHROPIC = "anthropic"
OPENAI = "openai"
AUTO = "auto"
FORMATS = (AUTO, ANTHROPIC, OPENAI)

# Block types that only one of the two has. `text` is in both; `image` with a `source` is Anthropic's.
ANTHROPIC_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "mcp_tool_use",
        "image",
        "document",
        "search_result",
        "container_upload",
        "compaction",
    }
)
OPENAI_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
OPENAI_ROLES = frozenset({"tool", "function", "developer"})
OPENAI_KEYS = frozenset({"tool_calls", "tool_call_id", "function_call"})


def dialect_of(messages: list[dict[str, Any]], body: dict[str, Any], wanted: str, notes: Notes) -> str:
    """The dialect of a list of messages: `wanted` unless that is "auto", else what most of its marks say.

    `body` is what stood beside the list (a request's system, tools and model; a `format` key is a hint). Both
    dialects share plain text turns: a list of nothing else is read as Anthropic's, with a note.
    """
    if wanted != AUTO:
        return wanted
    hint = text_at(body, "format", "dialect")
    if hint in (ANTHROPIC, OPENAI):
        return hint
    marks = [mark for message in messages for mark in _marks(message)]
    anthropic, openai = marks.count(ANTHROPIC), marks.count(OPENAI)
    if anthropic != openai:
        return ANTHROPIC if anthropic > openai else OPENAI
    beside = _mark_beside(messages, body)
    if beside is None and messages:
        notes.add("plain text turns in either format, read as anthropic; --format says otherwise")
    return beside or ANTHROPIC


def _marks(message: dict[str, Any]) -> Iterator[str]:
    if message.get("role") in OPENAI_ROLES or any(message.get(key) for key in OPENAI_KEYS):
        yield OPENAI
    for block in objects(message.get("content")):
        kind = text_at(block, "type") or ""
        if kind in OPENAI_PARTS:
            yield OPENAI
        elif kind in ANTHROPIC_BLOCKS or kind.endswith("_tool_result"):
            yield ANTHROPIC


def _mark_beside(messages: list[dict[str, Any]], body: dict[str, Any]) -> str | None:
    tools = objects(body.get("tools"))
    if body.get("system") or any("input_schema" in tool for tool in tools):
        return ANTHROPIC
    if any(is_object(tool.get("function")) for tool in tools):
        return OPENAI
    if any(message.get("role") == "system" for message in messages):
        return OPENAI
    model = text_at(body, "model") or ""
    if "claude" in model:
        return ANTHROPIC
    return OPENAI if model else None
