"""OpenAI chat completions: calls beside the content, each result a message of its own, system messages in the list."""

import hashlib
from collections.abc import Mapping
from typing import Any

from foldahead.core.canonical import encode_value, is_whole, json_of, whole
from foldahead.core.dialect import Profile, as_mapping, role_of, usage_number, without_nulls
from foldahead.core.messages import Block, Call, Document, Message, Other, Part, Picture, Result, Text, Thinking
from foldahead.core.pictures import picture_size
from foldahead.core.tokens import CALL_OVERHEAD_TOKENS, MESSAGE_OVERHEAD_TOKENS, UNLIMITED, most_tokens
from foldahead.errors import InvalidHistory

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_RESULTS = ("tool", "function")
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Where providers of this dialect give reasoning, and take it back."""
_SAYS = ("content", "tool_calls", "function_call", "refusal", "audio")


_SAYS_BESIDES = _SAYS[1:]
_NO_USER_BEHIND = ("user", *_RESULTS, "system", "developer")
"""Behind these a user's message is to be looked at where roles alternate: something may have to stand between."""
_OPENERS = ("system", "developer", "user", "assistant")


class OpenAIChat:
    """Reads and makes chat messages. With `alternates`, for providers that refuse two of one role in a row, or a user's
    message right behind a tool's (Mistral's, and chat templates made for its models)."""

    canonical = "openai"

    def __init__(self, name: str, alternates: bool = False) -> None:
        self.name = name
        self.profile = Profile(opens_with_user=alternates, alternates=alternates)

    def read(self, message: Any, at: int) -> Message:
        where = f"messages[{at}]"
        raw = as_mapping(message, where)
        role = raw.get("role")
        if role not in _ROLES:
            raise InvalidHistory(f"{where}.role: expected one of {', '.join(_ROLES)}, got {role!r}")
        content = _parts(raw.get("content"), f"{where}.content")
        if role in _RESULTS:
            call = str(raw.get("tool_call_id") or raw.get("name"))
            return Message("tool", (Result(call, tuple(part for part in content if not isinstance(part, Thinking))),))
        blocks: tuple[Block, ...] = (*_reasoning(raw), *content)
        if role == "assistant":
            blocks = (*blocks, *_calls(raw, where))
        extra = {key: raw[key] for key in ("name", "refusal", "audio") if raw.get(key) is not None}
        return Message(role, blocks, extra)

    def glance(self, new: list[Any], before: Any, waiting: tuple[str, ...], room: int, speech: int) -> int | None:
        left, opening, alternates = [*waiting], before is None, self.profile.alternates
        last = role_of(before) if alternates and before is not None else ""
        for message in new:
            if message.__class__ is not dict or message.get("tool_calls") is not None:
                return None
            role, content = message.get("role"), message.get("content")
            room -= MESSAGE_OVERHEAD_TOKENS
            if role == "tool":
                call: Any = message.get("tool_call_id")
                if call not in left:
                    return None
                left.remove(call)
                room -= CALL_OVERHEAD_TOKENS + _most_of(content, room)
            elif (
                left
                or (alternates and role == "user" and not opening and last in _NO_USER_BEHIND)
                or not _speaks_plainly(message, opening)
            ):
                return None
            else:
                room -= _most_of(content, room) + speech
            opening, last = opening and role != "user", role
            if room < 0:
                return None
        return 0

    def user_message(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def assistant_message(self, text: str) -> Any:
        return {"role": "assistant", "content": text}

    def with_stub(self, message: Any, block: int, stub: str) -> Any:
        if block or role_of(message) not in _RESULTS:
            return message
        return {**as_mapping(message, "message"), "content": stub}

    def well_formed(self, message: Any) -> Any:
        """An empty list of calls is none; a tool that gave nothing gave an empty text; arguments are JSON as a text."""
        raw = as_mapping(message, "message")
        if not is_whole(raw):
            message = raw = whole(raw)
        listed: Any = raw.get("tool_calls")
        if listed is not None and not listed:
            return {key: value for key, value in raw.items() if key != "tool_calls"}
        if raw.get("role") == "tool" and raw.get("content") is None:
            return {**raw, "content": ""}
        given: list[Any] = [*listed] if isinstance(listed, list | tuple) else []
        calls = [_formed(call) for call in given]
        if any(call is not before for call, before in zip(calls, given, strict=True)):
            return {**raw, "tool_calls": calls}
        return message

    def with_plain_ids(self, message: Any) -> Any:
        return message

    def without_thinking(self, message: Any) -> Any | None:
        raw = as_mapping(message, "message")
        if not any(key in raw for key in _REASONING):
            return message
        return _speaking({key: raw[key] for key in raw if key not in _REASONING})

    def without_blocks(self, message: Any, blocks: frozenset[int]) -> Any | None:
        """Blocks count as they are read: reasoning, then content, then calls."""
        raw = dict(as_mapping(message, "message"))
        if raw.get("role") in _RESULTS:
            return None if 0 in blocks else message
        content: Any = raw.get("content")
        listed: list[Any] = list(raw.get("tool_calls") or ())
        first_part = len(_reasoning(raw))
        first_call = first_part + len(_parts(content, "content"))
        if isinstance(content, list | tuple):
            raw["content"] = [part for at, part in enumerate(content, first_part) if at not in blocks] or None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        elif first_part < first_call and first_part in blocks:
            raw["content"] = None
        calls = [call for at, call in enumerate(listed, first_call) if at not in blocks]
        if listed and not calls:
            del raw["tool_calls"]
        elif len(calls) < len(listed):
            raw["tool_calls"] = calls
        if first_call + len(listed) in blocks:
            raw.pop("function_call", None)
        return _speaking(raw)

    def results_first(self, messages: list[Any]) -> list[Any | None]:
        results = [message for message in messages if role_of(message) in _RESULTS]
        return [*results, *(message for message in messages if role_of(message) not in _RESULTS)]

    def joined_systems(self, messages: list[Any]) -> list[Any]:
        return messages

    def limit_breakpoints(self, messages: list[Any], most: int) -> list[Any]:  # noqa: ARG002 - the protocol's
        """Breakpoints are no part of this format; proxies that take them do not refuse a fifth."""
        return messages

    def breakpoints(self, value: Any) -> int:  # noqa: ARG002 - the protocol's
        return 0

    def context_tokens(self, usage: Any) -> int | None:
        """Prompt and completion, without the reasoning, which does not come back."""
        raw = usage if isinstance(usage, Mapping) else as_mapping(usage, "usage")  # pyright: ignore[reportUnknownVariableType]
        details = raw.get("completion_tokens_details")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        reasoning = usage_number(details, "reasoning_tokens") if details is not None else 0
        return usage_number(raw, "prompt_tokens") + usage_number(raw, "completion_tokens") - reasoning or None


def _formed(call: Any) -> Any:
    """A function's call with its type, and its arguments as the text that the API wants; itself where it has them."""
    raw: dict[str, Any] = call if call.__class__ is dict else {}
    function: Any = raw.get("function")
    if function.__class__ is not dict or (raw.get("type") and isinstance(function.get("arguments"), str)):
        return call
    arguments: Any = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = "{}" if arguments is None else json_of(arguments).decode()
    return {**raw, "type": raw.get("type") or "function", "function": {**function, "arguments": arguments}}


def _speaks_plainly(message: dict[str, Any], opening: bool) -> bool:
    """Whether a message is the user's, or heads the list (instructions, a greeting), and says something plainly."""
    role, keys = message.get("role"), message.keys()
    spoken = role in _OPENERS and keys.isdisjoint(_SAYS_BESIDES) if opening else role == "user"
    return spoken and bool(message.get("content")) and keys.isdisjoint(_REASONING)


def _most_of(content: Any, room: int) -> int:
    """The most tokens of a content of texts; more than any room where it is blank, or anything else."""
    if content.__class__ is str:
        return UNLIMITED if content.isspace() else most_tokens(content, room)
    if content.__class__ is not list:
        return UNLIMITED
    total = 0
    for part in content:
        text = part.get("text") if part.__class__ is dict and part.get("type") == "text" else None
        if text.__class__ is not str or not text or text.isspace() or len(part) != 2 + ("cache_control" in part):
            return UNLIMITED
        total += most_tokens(text, room)
    return total


def _speaking(raw: dict[str, Any]) -> dict[str, Any] | None:
    content = raw.get("content")
    says_nothing = isinstance(content, str) and not content.strip()
    return raw if any(raw.get(key) for key in (_SAYS_BESIDES if says_nothing else _SAYS)) else None


def _reasoning(raw: Mapping[str, Any]) -> tuple[Thinking, ...]:
    texts = [text for key in _REASONING if isinstance(text := raw.get(key), str) and text]
    details = raw.get("reasoning_details")
    mark = hashlib.sha256(encode_value(details)).hexdigest() if details else ""
    return (Thinking(texts[0] if texts else "", mark),) if texts or mark else ()


def _calls(raw: Mapping[str, Any], where: str) -> tuple[Call, ...]:
    listed = raw.get("tool_calls") or ()
    if not isinstance(listed, list | tuple):
        raise InvalidHistory(f"{where}.tool_calls: expected a list of calls, got {type(listed).__name__}")
    calls = tuple(_call(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(listed))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if (old := raw.get("function_call")) is not None:
        function = as_mapping(old, f"{where}.function_call")
        calls = (*calls, Call(str(function.get("name")), str(function.get("name")), function.get("arguments")))
    return calls


def _call(value: Any, where: str) -> Call:
    raw = as_mapping(value, where)
    kind = raw.get("type") or "function"
    if not isinstance(kind, str):
        raise InvalidHistory(f"{where}.type: expected the name of a call's type, got {type(kind).__name__}")
    inner = as_mapping(raw.get(kind) or {}, f"{where}.{kind}")
    extra = without_nulls(raw, "id", "type", "index", kind)
    return Call(str(raw.get("id")), str(inner.get("name")), inner.get("arguments", inner.get("input")), False, extra)


def _parts(content: Any, where: str) -> tuple[Part, ...]:
    if content is None or content == "":
        return ()  # beside calls the two mean the same, and providers answer with either
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list | tuple):
        raise InvalidHistory(f"{where}: expected a text, null or a list of parts, got {type(content).__name__}")
    return tuple(_part(part, f"{where}[{at}]") for at, part in enumerate(content))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _part(value: Any, where: str) -> Part:
    raw = as_mapping(value, where)
    kind = raw.get("type")
    match kind:
        case "text":
            if not isinstance(text := raw.get("text"), str):
                raise InvalidHistory(f"{where}.text: expected a text, got {type(text).__name__}")
            return Text(text, without_nulls(raw, "type", "text"))
        case "image_url":
            return _picture(raw.get("image_url"), where)
        case "file":
            file = as_mapping(raw.get("file") or {}, f"{where}.file")
            data = str(file.get("file_data") or "")
            name = str(file.get("filename") or "")
            return Document(_sha256(data), len(data), "", 0, name, "", str(file.get("file_id") or ""))
        case str():
            return Other(kind, without_nulls(raw, "type"))
        case _:
            raise InvalidHistory(f"{where}.type: expected the name of a part's type, got {kind!r}")


def _picture(value: Any, where: str) -> Picture:
    raw: Mapping[str, Any] = {"url": value} if isinstance(value, str) else as_mapping(value or {}, f"{where}.image_url")
    url, extra = str(raw.get("url") or ""), without_nulls(raw, "url")
    if not url.startswith("data:"):
        return Picture(b"", 0, "", 0, 0, url, extra)
    header, _, data = url.partition(",")
    width, height = picture_size(data)
    return Picture(_sha256(data), len(data), header[5:].partition(";")[0], width, height, "", extra)


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
