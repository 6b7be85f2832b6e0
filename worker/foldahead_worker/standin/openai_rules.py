"""The judge of OpenAI chat messages: what `POST /v1/chat/completions` refuses about a list of messages.

Pure, and independent of foldahead's core, whose mistakes it must catch. Source: the API reference of
chat completions and the errors that it answers with ("messages with role 'tool' must be a response to
a preceding message with 'tool_calls'").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from foldahead_worker.standin.encoding import encoding_faults
from foldahead_worker.standin.fault import Fault, Json, Tolerance, as_list, as_object
from foldahead_worker.standin.schema import Shape, field_faults, read_shape

_SHAPES: Final[dict[str, Shape]] = {
    "system": read_shape("role! content! name"),
    "developer": read_shape("role! content! name"),
    "user": read_shape("role! content! name"),
    # `reasoning_content` comes back to the providers that gave it (DeepSeek and others with this dialect).
    "assistant": read_shape(
        "role! content? name tool_calls? refusal? audio? function_call? reasoning_content?"
        # What `message.model_dump()` of the SDK holds besides; the API takes its own answers back.
        " annotations?"
    ),
    "tool": read_shape("role! content! tool_call_id! name"),
    "function": read_shape("role! content? name!"),
}
_CALL: Final = read_shape("id! type! function custom index")
_FUNCTION: Final = read_shape("name! arguments!")
_PARTS: Final[dict[str, frozenset[str]]] = {
    "system": frozenset({"text"}),
    "developer": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
}


def faults(
    messages: Sequence[Any],
    *,
    allow_open_tail: bool = False,
    allow_reused_ids: bool = False,
    allow_unknown_blocks: bool = False,
) -> list[Fault]:
    """Judges the `messages` of one request; an empty list says that the API takes them.

    `allow_open_tail`: calls of the last assistant message may wait for their results.
    `allow_reused_ids`: one message may hold a call id twice (in different turns it always may).
    """
    tolerance = Tolerance(allow_open_tail, allow_reused_ids, allow_unknown_blocks)
    found = encoding_faults(messages)
    if found:
        return found
    if not messages:
        return [Fault("messages", "at least one message is required")]
    for at, value in enumerate(messages):
        found.extend(_message_faults(value, f"messages[{at}]", tolerance))
    found.extend(_pairing_faults(messages, tolerance))
    return found


def _message_faults(value: object, path: str, tolerance: Tolerance) -> list[Fault]:
    message = as_object(value)
    if message is None:
        return [Fault(path, f"a message is an object, not {type(value).__name__}")]
    role = message.get("role")
    if not isinstance(role, str) or role not in _SHAPES:
        return [Fault(f"{path}.role", f"unknown role {role!r}")]
    found = field_faults(message, _SHAPES[role], path)
    if role == "assistant":
        found.extend(_call_faults(message, path, tolerance))
    found.extend(_content_faults(message, role, f"{path}.content", tolerance))
    return found


def _content_faults(message: Json, role: str, path: str, tolerance: Tolerance) -> list[Fault]:
    content = message.get("content")
    says_more = role == "assistant" and any(
        message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio")
    )
    if content is None:
        # A null of another role is a fault of its field.
        return [] if says_more or role != "assistant" else [Fault(path, "content is required without calls")]
    if isinstance(content, str):
        # Tools may return nothing; a person, the model and a system prompt may not.
        empty = not content and not says_more and role not in ("tool", "function")
        return [Fault(path, f"a {role} message must have non-empty content")] if empty else []
    parts = as_list(content)
    if parts is None:
        return [Fault(path, f"content is a string or a list, not {type(content).__name__}")]
    if not parts and not says_more:
        return [Fault(path, f"a {role} message must have non-empty content")]
    found: list[Fault] = []
    for at, value in enumerate(parts):
        part = as_object(value) or {}
        kind = part.get("type")
        if kind not in _PARTS.get(role, frozenset()) and not tolerance.unknown_blocks:
            found.append(Fault(f"{path}[{at}].type", f"a {kind!r} part may not stand in a {role} message"))
        elif kind == "text" and not isinstance(part.get("text"), str):
            found.append(Fault(f"{path}[{at}].text", "text is a string"))
    return found


def _call_faults(message: Json, path: str, tolerance: Tolerance) -> list[Fault]:
    if message.get("tool_calls") is None:
        return []
    calls = as_list(message["tool_calls"])
    if not calls:
        return [Fault(f"{path}.tool_calls", "tool_calls is a list of one call at least")]
    found: list[Fault] = []
    seen: set[str] = set()
    for at, value in enumerate(calls):
        place, call = f"{path}.tool_calls[{at}]", as_object(value)
        if call is None:
            found.append(Fault(place, "a call is an object"))
            continue
        found.extend(field_faults(call, _CALL, place))
        if call.get("type") == "function":
            found.extend(_function_faults(call, place))
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            found.append(Fault(f"{place}.id", "a call needs an id"))
        elif call_id in seen and not tolerance.reused_ids:
            found.append(Fault(f"{place}.id", f"two calls of one message have the id {call_id!r}"))
        seen.add(str(call_id))
    return found


def _function_faults(call: Json, path: str) -> list[Fault]:
    function = as_object(call.get("function"))
    if function is None:
        return [Fault(f"{path}.function", "Field required")]
    found = field_faults(function, _FUNCTION, f"{path}.function")
    if not isinstance(function.get("arguments", ""), str):
        found.append(Fault(f"{path}.function.arguments", "arguments are a string of JSON"))
    return found


def _ids(message: Json) -> list[str]:
    calls = as_list(message.get("tool_calls")) or []
    return [str(call.get("id")) for value in calls if (call := as_object(value)) is not None]


def _pairing_faults(messages: Sequence[Any], tolerance: Tolerance) -> list[Fault]:
    """Each assistant message with calls is followed directly by their results, all of them."""
    found: list[Fault] = []
    waiting: Counter[str] = Counter()
    asked_at = -1
    for at, value in enumerate(messages):
        message = as_object(value) or {}
        if message.get("role") != "tool":
            found.extend(_unanswered(waiting, asked_at))
            waiting = Counter(_ids(message)) if message.get("role") == "assistant" else Counter()
            asked_at = at
            continue
        call_id = str(message.get("tool_call_id"))
        if waiting[call_id] > 0:
            waiting[call_id] -= 1
        else:
            text = f"tool message for {call_id!r} answers no call of the assistant message before it"
            found.append(Fault(f"messages[{at}]", text))
    if not tolerance.open_tail:
        found.extend(_unanswered(waiting, asked_at))
    return found


def _unanswered(waiting: Counter[str], asked_at: int) -> list[Fault]:
    return [
        Fault(f"messages[{asked_at}].tool_calls", f"call {call_id!r} is not followed by its tool message")
        for call_id, count in waiting.items()
        if count > 0
    ]
