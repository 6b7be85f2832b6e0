"""The judge of Claude API requests: everything that the API would refuse, each with its place.

Pure, and deliberately independent of foldahead's core, whose mistakes it must catch. Messages follow
`messages[3].content[0]: what is wrong`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from foldahead_worker.standin.blocks import block_list_faults, cache_control_faults, message_faults
from foldahead_worker.standin.compaction_rules import (
    compaction_block_faults,
    compaction_request_faults,
    open_turn_faults,
)
from foldahead_worker.standin.encoding import encoding_faults
from foldahead_worker.standin.fault import Fault, Json, Tolerance, as_list, as_object
from foldahead_worker.standin.models import find_model
from foldahead_worker.standin.pairing import pairing_faults
from foldahead_worker.standin.schema import TOOL, field_faults, parameters
from foldahead_worker.standin.thinking_rules import thinking_faults
from foldahead_worker.standin.turns import Turn, merged_turns

MAX_CACHE_CONTROLS: Final = 4
_MAX_MESSAGES: Final = 100_000
_TOOL_NAME: Final = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
_TOOL_BLOCKS: Final = frozenset({"tool_use", "tool_result"})


def faults(
    request: Mapping[str, Any],
    *,
    kind: Literal["message", "count"] = "message",
    betas: Collection[str] | None = None,
    allow_open_tail: bool = False,
    allow_reused_ids: bool = False,
    allow_unknown_blocks: bool = False,
    allow_missing_tools: bool = False,
) -> list[Fault]:
    """Judges one request; an empty list says that the API takes it.

    `request` is the body of `POST /v1/messages`, or the keyword arguments of the SDK's
    `beta.messages.create` (its `betas` is then read from there). With no betas known, what needs a beta
    header is not judged. See `Tolerance` for what may be allowed.
    """
    body: Json = dict(request)
    if betas is None and "betas" in body:
        betas = [str(name) for name in as_list(body.pop("betas")) or []]
    tolerance = Tolerance(allow_open_tail, allow_reused_ids, allow_unknown_blocks, allow_missing_tools)
    found = encoding_faults(body)
    if found:
        return found
    found = field_faults(body, parameters(kind), "")
    found.extend(_parameter_faults(body))
    found.extend(_tool_faults(body))
    found.extend(_cache_faults(body))
    found.extend(_conversation_faults(body, betas, tolerance))
    return found


def _conversation_faults(body: Json, betas: Collection[str] | None, tolerance: Tolerance) -> list[Fault]:
    messages = as_list(body.get("messages"))
    if messages is None:
        return [Fault("messages", "messages is a list")] if "messages" in body else []
    turns = merged_turns(messages)
    found = compaction_request_faults(body, turns, betas)
    if not messages and not found:
        found.append(Fault("messages", "at least one message is required"))
    found.extend(compaction_block_faults(messages, betas))
    found.extend(open_turn_faults(body, turns))
    found.extend(message_faults(messages, tolerance))
    is_open = tolerance.open_tail or body.get("compaction") is not None
    found.extend(pairing_faults(turns, Tolerance(is_open, tolerance.reused_ids)))
    found.extend(thinking_faults(body, turns, betas))
    found.extend(_model_faults(body, turns, is_open))
    if not tolerance.missing_tools and not body.get("tools"):
        found.extend(_missing_tools(turns))
    if len(messages) > _MAX_MESSAGES:
        found.append(Fault("messages", f"at most {_MAX_MESSAGES:,} messages"))
    return found


def _parameter_faults(body: Json) -> list[Fault]:
    found: list[Fault] = []
    if "model" in body and not isinstance(body["model"], str):
        found.append(Fault("model", "model is a string"))
    max_tokens = body.get("max_tokens", 1)
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 0:
        found.append(Fault("max_tokens", "max_tokens is a whole number from 0"))
    if not isinstance(body.get("stream", False), bool):
        found.append(Fault("stream", "stream is true or false"))
    system: object = body.get("system", "")
    if isinstance(system, str):
        if system and not system.strip():
            found.append(Fault("system", "text content blocks must contain non-whitespace text"))
    else:
        blocks = as_list(system)
        if blocks is None:
            found.append(Fault("system", "system is a string or a list of text blocks"))
        else:
            allowed = frozenset({"text"})
            found.extend(block_list_faults(blocks, allowed, "system", "system", Tolerance()))
    stops = as_list(body.get("stop_sequences")) or []
    if not all(isinstance(stop, str) and stop.strip() for stop in stops):
        found.append(Fault("stop_sequences", "each stop sequence must contain non-whitespace"))
    if body.get("tool_choice") is not None and not body.get("tools"):
        found.append(Fault("tool_choice", "tool_choice may only be given with tools"))
    return found


def _tool_faults(body: Json) -> list[Fault]:
    tools = as_list(body.get("tools", []))
    if tools is None:
        return [Fault("tools", "tools is a list")]
    found: list[Fault] = []
    names: set[str] = set()
    for at, value in enumerate(tools):
        path, tool = f"tools[{at}]", as_object(value)
        if tool is None:
            found.append(Fault(path, "a tool is an object"))
            continue
        found.extend(cache_control_faults(tool, path))
        if tool.get("type") not in (None, "custom"):
            continue  # a server tool, each of its own shape
        found.extend(field_faults(tool, TOOL, path))
        name = str(tool.get("name"))
        if not _TOOL_NAME.match(name):
            found.append(Fault(f"{path}.name", f"{name!r} does not match '^[a-zA-Z0-9_-]{{1,128}}$'"))
        if name in names:
            found.append(Fault(f"{path}.name", f"tool names must be unique: {name!r}"))
        names.add(name)
        if not isinstance(tool.get("input_schema"), dict):
            found.append(Fault(f"{path}.input_schema", "an input schema is an object"))
    return found


def _cache_controls(value: object, path: str) -> Iterator[str]:
    """Yields the places that hold a cache breakpoint, below a tool, a system block or a message."""
    holder = as_object(value)
    if holder is None:
        for at, item in enumerate(as_list(value) or []):
            yield from _cache_controls(item, f"{path}[{at}]")
        return
    if holder.get("cache_control") is not None:
        yield path
    yield from _cache_controls(holder.get("content"), f"{path}.content")


def _cache_faults(body: Json) -> list[Fault]:
    places = [place for name in ("tools", "system", "messages") for place in _cache_controls(body.get(name), name)]
    found = cache_control_faults(body, "")
    if body.get("cache_control") is not None:
        places.append("cache_control")
    if len(places) > MAX_CACHE_CONTROLS:
        message = f"at most {MAX_CACHE_CONTROLS} blocks with cache_control may be given, found {len(places)}"
        found.append(Fault(places[MAX_CACHE_CONTROLS], message))
    return found


def _missing_tools(turns: Sequence[Turn]) -> list[Fault]:
    for block in (block for turn in turns for block in turn.blocks):
        if block.type in _TOOL_BLOCKS:
            return [Fault("tools", f"a request with {block.type} blocks ({block.path}) must define tools")]
    return []


def _model_faults(body: Json, turns: Sequence[Turn], open_tail: bool) -> list[Fault]:
    """What depends on the model; an unknown one is judged as the newest are."""
    model = find_model(str(body.get("model")))
    found: list[Fault] = []
    if model is not None and not model.system_messages:
        found.extend(
            Fault(f"messages[{turn.start}].role", "role 'system' is not supported on this model")
            for turn in turns
            if turn.role == "system"
        )
    if model is not None and body.get("compaction") is not None and not model.compacts:
        found.append(Fault("compaction", f"compaction is not supported by {model.name}"))
    max_tokens = body.get("max_tokens")
    if model is not None and isinstance(max_tokens, int) and max_tokens > model.max_output_tokens:
        limit = model.max_output_tokens
        found.append(Fault("max_tokens", f"{max_tokens} > {limit}, the maximum for {model.name}"))
    if open_tail or not turns or turns[-1].role != "assistant" or not turns[-1].blocks:
        return found
    last = turns[-1].blocks[-1]
    if last.type == "text" and model is not None and not model.prefill:
        message = "This model does not support assistant message prefill"
        found.append(Fault(f"messages[{last.message}]", message))
    if last.type == "text" and str(last.value.get("text")) != str(last.value.get("text")).rstrip():
        found.append(Fault(last.path, "final assistant content cannot end with trailing whitespace"))
    return found
