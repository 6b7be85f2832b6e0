"""A span as plain text for a summariser: who said what, results and arguments capped, secrets redacted.

    [transcript 7f3a... begins]
    [7f3a9c] (0) user: ...
    [7f3a9c] (1) assistant: ...
        call read_file: {"path": "..."}
    [7f3a9c] (2) user:
        result of read_file: ... [… 18,204 of 20,204 characters left out …]
    [transcript 7f3a... ends]

The delimiter carries a nonce that no writer of the messages can know: nothing in the span can end it.
Pictures, encoded files and thinking are left out, with a mark.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from foldahead.core.messages import (
    Block,
    Call,
    Document,
    Message,
    Other,
    Picture,
    Result,
    Text,
    Thinking,
    without_encoded,
)
from foldahead.core.redact import redact
from foldahead.core.text.secret_arguments import without_typed_secrets
from foldahead.core.wrapper import neutralise

_INDENT = "    "
MARK_CHARS = 6
"""Of the nonce, in front of every message."""
_MARGIN_CHARS = 4_096
"""What is looked at beyond a cut, so that a secret across it is known for one."""


def render_span(messages: Sequence[Message], tool_result_cap: int, nonce: str) -> str:
    """The transcript of a span. `tool_result_cap`: how many characters of a result or of arguments stay."""
    names: dict[str, str] = {}
    # A result may hold a line that looks like a message of its own; the mark in front of one it cannot know.
    mark = f"[{nonce[:MARK_CHARS]}] " if nonce else ""
    lines = [f"[transcript {nonce} begins]"]
    for at, message in enumerate(messages):
        parts = [part for block in message.blocks for part in _rendered(block, tool_result_cap, names)]
        first = parts.pop(0) if parts and isinstance(message.blocks[0], Text) else ""
        lines.append(f"{mark}({at}) {message.role}: {first}".rstrip())
        lines += [_INDENT + part for part in parts]
    lines.append(f"[transcript {nonce} ends]")
    return neutralise("\n".join(lines))


def _rendered(block: Block, cap: int, names: dict[str, str]) -> Iterator[str]:
    match block:
        case Text():
            yield redact(block.text)
        case Thinking():
            yield "[thinking left out]"
        case Picture():
            yield _picture(block)
        case Document():
            title = block.title or block.media_type
            yield f"[document {redact(title)}] {_capped_safely(block.text, cap)}".rstrip()
        case Call():
            names[block.id] = block.name
            yield f"call {block.name}: {_capped_safely(_spelled(_arguments(block.arguments)), cap)}"
        case Result():
            said = "\n".join(text for part in block.parts for text in _part(part))
            kind = "error" if block.is_error else "result"
            name = names.get(block.call, "an unknown call")
            yield f"{kind} of {name}: {_capped_safely(said, cap) or '[empty]'}"
        case Other(kind="compaction", value={"content": str(said)}):
            # All that is left of what came before it, in the second form; what is sealed beside it says nothing.
            yield f"[summary of what came before] {redact(said)}"
        case Other():
            yield f"[{block.kind}] {_capped_safely(without_encoded(_spelled(block.value)), cap)}"


def _part(part: Block) -> Iterator[str]:
    match part:
        case Text():
            yield part.text
        case Picture():
            yield _picture(part)
        case Document():
            yield f"[document {part.title or part.media_type}] {part.text}".rstrip()
        case Other():
            yield f"[{part.kind}] {without_encoded(_spelled(part.value))}"
        case _:
            return


def _picture(picture: Picture) -> str:
    size = f" {picture.width}x{picture.height}" if picture.width else ""
    return f"[picture{size} left out]"


def _capped_safely(text: str, cap: int) -> str:
    """Capped and redacted. A cut is looked at with what surrounds it, so that no half of a secret stays."""
    if len(text) <= cap:
        return redact(text)
    head = cap * 2 // 3
    tail = cap - head
    mark = f"[… {len(text) - cap:,} of {len(text):,} characters left out …]"
    opening = redact(text[: head + _MARGIN_CHARS])
    closing = redact(text[max(0, len(text) - tail - _MARGIN_CHARS) :])
    ending = closing[max(0, len(closing) - tail) :] if tail else ""
    return f"{opening[:head]}\n{_INDENT}{mark}\n{_INDENT}{ending}"


def _arguments(value: Any) -> Any:
    """A call's arguments without what was typed into a field for a secret; those that come as JSON, too."""
    told = value
    if isinstance(value, str) and value[:1] == "{":
        with suppress(ValueError, RecursionError):
            told = json.loads(value)
    cleaned = without_typed_secrets(told)
    return value if cleaned is told else cleaned


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (RecursionError, TypeError, ValueError):
        return "[too deeply nested to show]"
