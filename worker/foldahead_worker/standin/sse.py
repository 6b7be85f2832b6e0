"""A response as a stream of server-sent events, in the order that the SDK expects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import msgspec

from foldahead_worker.standin.counting import text_tokens
from foldahead_worker.standin.fault import Json

_DELTA_CHARS: Final = 48


class Event(msgspec.Struct, frozen=True):
    """One event; `tokens` is how many tokens of output it carries."""

    name: str
    data: Json
    tokens: int = 0

    def to_bytes(self) -> bytes:
        """Gives the event as it goes over the wire."""
        return f"event: {self.name}\ndata: {json.dumps(self.data, ensure_ascii=False)}\n\n".encode()


def stream_events(message: Json) -> Iterator[Event]:
    """Takes a whole message apart into the events of its stream."""
    usage: Json = message["usage"]
    start: Json = {**message, "content": [], "stop_reason": None, "stop_details": None}
    counted = {name: value for name, value in usage.items() if name != "iterations"}
    start["usage"] = counted | {"output_tokens": 1}
    yield Event("message_start", {"type": "message_start", "message": start})
    yield Event("ping", {"type": "ping"})
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    end: Json = {
        "stop_reason": message["stop_reason"],
        "stop_sequence": message["stop_sequence"],
        "stop_details": message["stop_details"],
    }
    cumulative = {name: value for name, value in usage.items() if name != "cache_creation"}
    yield Event("message_delta", {"type": "message_delta", "delta": end, "usage": cumulative})
    yield Event("message_stop", {"type": "message_stop"})


def error_event(error_type: str, message: str, error_code: str | None, request_id: str) -> Event:
    """Makes the error event that may follow a 200."""
    return Event("error", error_body(error_type, message, error_code, request_id))


def error_body(error_type: str, message: str, error_code: str | None, request_id: str) -> Json:
    """Makes the body of an error, as a response or as an event."""
    error: Json = {"type": error_type, "message": message}
    if error_code is not None:
        error["details"] = {"error_code": error_code}
    return {"type": "error", "error": error, "request_id": request_id}


def _block_events(index: int, block: Json) -> Iterator[Event]:
    opened, deltas = _opened(block)
    yield Event("content_block_start", {"type": "content_block_start", "index": index, "content_block": opened})
    for delta, text in deltas:
        data: Json = {"type": "content_block_delta", "index": index, "delta": delta}
        yield Event("content_block_delta", data, text_tokens(text))
    yield Event("content_block_stop", {"type": "content_block_stop", "index": index})


def _opened(block: Json) -> tuple[Json, Iterator[tuple[Json, str]]]:
    """Gives a block as it starts, empty, and the deltas that fill it."""
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}, _pieces(block["text"], "text_delta", "text")
        case "thinking":
            opened: Json = {"type": "thinking", "thinking": "", "signature": ""}
            return opened, _thinking_deltas(block)
        case "tool_use":
            spelled = json.dumps(block["input"], ensure_ascii=False)
            return {**block, "input": {}}, _pieces(spelled, "input_json_delta", "partial_json")
        case "compaction":
            # Signature and tool changes come with the start: the SDK takes content and
            # encrypted_content alone from the delta.
            return {**block, "content": None, "encrypted_content": None}, _compaction_delta(block)
        case _:
            return block, iter(())


def _pieces(text: str, kind: str, field: str) -> Iterator[tuple[Json, str]]:
    for at in range(0, len(text), _DELTA_CHARS):
        piece = text[at : at + _DELTA_CHARS]
        yield {"type": kind, field: piece}, piece


def _thinking_deltas(block: Json) -> Iterator[tuple[Json, str]]:
    yield from _pieces(block["thinking"], "thinking_delta", "thinking")
    yield {"type": "signature_delta", "signature": block["signature"]}, ""


def _compaction_delta(block: Json) -> Iterator[tuple[Json, str]]:
    delta: Json = {
        "type": "compaction_delta",
        "content": block.get("content"),
        "encrypted_content": block.get("encrypted_content"),
    }
    yield delta, block.get("content") or ""
