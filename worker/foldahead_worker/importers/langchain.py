"""LangChain's messages as its dumps hold them: constructors (`lc`), `{type, data}`, or flat `{type, content}`.

What was sent is put together from them: Anthropic's messages where the model's answers are Claude's, else OpenAI's. The
`tool_calls` of an answer count, not what its content says of them: content of a stream holds pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from foldahead_worker.importers.dialect import ANTHROPIC, ANTHROPIC_BLOCKS, AUTO, OPENAI
from foldahead_worker.importers.errors import BadMessage
from foldahead_worker.importers.notes import Notes
from foldahead_worker.importers.session import ImportedSession
from foldahead_worker.importers.shape import is_array, is_object, keys_of, named, object_at, objects, text_at

_KINDS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_ENDINGS = ("messagechunk", "message")
_MODELS_OWN = frozenset({"human", "ai"})
_CALLS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"})
"""Blocks of an answer's content that its `tool_calls` tell as well."""
_KEPT_IN_OPENAI = frozenset({"text", "image_url", "input_audio", "file"})


class _Said(Struct, frozen=True):
    """One message: who spoke, as OpenAI's roles have it, and the fields that LangChain keeps of it."""

    role: str
    fields: dict[str, Any]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content as blocks, without those that tell of calls."""
        content = self.fields.get("content")
        listed: list[Any] = content if is_array(content) else [content] if content else []
        blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in listed]
        return [block for block in objects(blocks) if block.get("type") not in _CALLS]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The tool calls of an answer, those whose arguments are no JSON too: {id, name, args}."""
        return [*objects(self.fields.get("tool_calls")), *objects(self.fields.get("invalid_tool_calls"))]


def are_langchains(values: Any) -> bool:
    """Whether this is a list of LangChain's messages."""
    return is_array(values) and any(_is_one(value) for value in values)


def session_of(
    values: list[Any], body: dict[str, Any], name: str, at: str, wanted: str, notes: Notes
) -> ImportedSession:
    """One session of a list of LangChain's messages. Raises BadMessage, which names the first that is none."""
    said = list(_read(values, at, notes))
    dialect = wanted if wanted != AUTO else ANTHROPIC if any(map(_is_claudes, said)) else OPENAI
    head = said[0].fields.get("content") if dialect == ANTHROPIC and said and said[0].role == "system" else None
    spoken = said[1:] if head else said
    messages, usages = _written(spoken, dialect)
    return ImportedSession(
        name=name,
        dialect=dialect,
        messages=messages,
        system=body.get("system") or head,
        tools=body.get("tools"),
        model=text_at(body, "model") or next(filter(None, map(_model, reversed(said))), None),
        usages=usages,
        recorded_messages=len(values),
    )


def _written(spoken: list[_Said], dialect: str) -> tuple[list[dict[str, Any]], tuple[tuple[int, dict[str, Any]], ...]]:
    """The messages, and what was counted for those of the assistant; results of parallel calls stand together."""
    messages: list[dict[str, Any]] = []
    usages: list[tuple[int, dict[str, Any]]] = []
    for said in spoken:
        if usage := _usage(said):
            usages.append((len(messages), usage if dialect == ANTHROPIC else _openai_usage(usage)))
        message = _anthropic(said) if dialect == ANTHROPIC else _openai(said)
        if messages and _is_result(message) and _is_result(messages[-1]):
            messages[-1]["content"] += message["content"]
        else:
            messages.append(message)
    return messages, tuple(usages)


def _is_one(value: Any) -> bool:
    if not is_object(value) or "role" in value:
        return False
    if "lc" in value and is_array(value.get("id")):
        return True
    own = _kind(text_at(value, "type") or "") in _MODELS_OWN
    return own and ("content" in value or is_object(value.get("data")))


def _kind(name: str) -> str:
    """`human` of `human`, `HumanMessage` and `HumanMessageChunk`."""
    lowered = name.lower()
    return next((lowered[: -len(end)] for end in _ENDINGS if lowered.endswith(end)), lowered)


def _read(values: list[Any], at: str, notes: Notes) -> Iterator[_Said]:
    for index, value in enumerate(values):
        if not is_object(value):
            raise BadMessage(f"{at}[{index}]: {named(value)}; expected a message of LangChain's")
        constructed = is_array(value.get("id")) and "kwargs" in value
        fields = object_at(value, "kwargs") if constructed else object_at(value, "data") or value
        kind = _kind(str(value["id"][-1]) if constructed and value["id"] else text_at(value, "type") or "")
        role = _KINDS.get(kind) or (text_at(fields, "role") if kind == "chat" else None) or ""
        if kind == "remove":
            notes.add(f"{at}[{index}]: a message that says which to remove, passed over")
        elif role not in _KINDS.values():
            raise BadMessage(f"{at}[{index}]: an object with {keys_of(value)}; expected a message of LangChain's")
        else:
            yield _Said(role, fields)


def _is_claudes(said: _Said) -> bool:
    if said.role != "assistant":
        return False
    if object_at(said.fields, "response_metadata").get("model_provider") == "anthropic":
        return True
    content = said.fields.get("content")
    return "claude" in (_model(said) or "") or any(block.get("type") in ANTHROPIC_BLOCKS for block in objects(content))


def _anthropic(said: _Said) -> dict[str, Any]:
    if said.role == "tool":
        return {"role": "user", "content": [_result(said)]}
    if said.role != "assistant":
        return {"role": said.role, "content": _content(said)}
    kept = [{key: part for key, part in block.items() if key != "index"} for block in said.blocks]
    calls = [
        {"type": "tool_use", "id": call.get("id"), "name": call.get("name"), "input": _arguments(call)}
        for call in said.calls
    ]
    return {"role": "assistant", "content": [*kept, *calls]}


def _result(said: _Said) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": said.fields.get("tool_call_id"), "content": _content(said)}
    return {**block, "is_error": True} if said.fields.get("status") == "error" else block


def _content(said: _Said) -> Any:
    content = said.fields.get("content")
    return said.blocks if is_array(content) else content or ""


def _is_result(message: dict[str, Any]) -> bool:
    blocks = objects(message["content"])
    return message["role"] == "user" and bool(blocks) and blocks[0].get("type") == "tool_result"


def _arguments(call: dict[str, Any]) -> Any:
    """The arguments as an object; those that are no JSON under a name that says so."""
    arguments = call.get("args")
    return arguments if is_object(arguments) else {"invalid": arguments} if arguments else {}


def _openai(said: _Said) -> dict[str, Any]:
    content = said.fields.get("content")
    message: dict[str, Any] = {"role": said.role, "content": content if isinstance(content, str) else None}
    if is_array(content):
        message["content"] = [block for block in said.blocks if block.get("type") in _KEPT_IN_OPENAI] or None
    if said.role == "tool":
        return {**message, "tool_call_id": said.fields.get("tool_call_id")}
    if said.role == "assistant" and said.calls:
        message["tool_calls"] = [
            {"id": call.get("id"), "type": "function", "function": {"name": call.get("name"), "arguments": _text(call)}}
            for call in said.calls
        ]
    return message


def _text(call: dict[str, Any]) -> str:
    arguments = call.get("args")
    return arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})


def _usage(said: _Said) -> dict[str, Any] | None:
    """What the provider counted; LangChain counts what was cached among the input."""
    usage = object_at(said.fields, "usage_metadata")
    counts = {key: usage.get(key) for key in ("input_tokens", "output_tokens")}
    return counts if said.role == "assistant" and all(isinstance(n, int) for n in counts.values()) else None


def _openai_usage(usage: dict[str, Any]) -> dict[str, Any]:
    return {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}


def _model(said: _Said) -> str | None:
    return text_at(object_at(said.fields, "response_metadata"), "model_name", "model")
