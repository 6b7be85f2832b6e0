"""A span that is too long for one call: parts that each fit, cut between turns where that is possible. Pure.

Their notes are then folded into one (`prompt.build_fold`). A single message that fits nowhere keeps its
beginning and its end, with a mark that says how much went.
"""

from collections.abc import Sequence

from foldahead.core.messages import Message, Result, Text
from foldahead.core.render import render_span
from foldahead.core.tokens import estimate, estimate_text

_MARGIN_TOKENS = 64
"""For the lines around a part and the mark in a message that was cut."""
_SAFELY = 1.5
"""Below this part of the room a span need not be rendered to know that it fits: that takes 20 ms for 30,000 tokens."""


def split_span(messages: Sequence[Message], tool_result_cap: int, most_tokens: int) -> tuple[tuple[Message, ...], ...]:
    """The span in parts whose transcripts are estimated at `most_tokens` at most; one part where it fits
    whole.

    A part ends before a message that holds no results, so that calls stay with what answered them, unless one
    turn alone is longer.
    """
    estimated = sum(map(estimate, messages))
    if estimated * _SAFELY + _MARGIN_TOKENS <= most_tokens or (
        estimated <= most_tokens and _size(messages, tool_result_cap) <= most_tokens
    ):
        return (tuple(messages),)
    most_tokens = max(1, most_tokens - _MARGIN_TOKENS)
    capped = [_capped(message, tool_result_cap, most_tokens) for message in messages]
    sizes = [_size([message], tool_result_cap) for message in capped]
    parts: list[list[Message]] = []
    size = 0
    for turn in _turns(messages):
        turn_size = sum(sizes[at] for at in turn)
        if not parts or size + turn_size > most_tokens:
            parts.append([])
            size = 0
        for at in turn:
            if parts[-1] and size + sizes[at] > most_tokens:
                parts.append([])
                size = 0
            parts[-1].append(capped[at])
            size += sizes[at]
    return tuple(map(tuple, parts))


def group_notes(notes: Sequence[str], most_tokens: int) -> tuple[tuple[str, ...], ...]:
    """Notes in groups of `most_tokens` at most, and of two at least, so that folding them comes to an end."""
    groups: list[list[str]] = []
    size = 0
    for note in notes:
        tokens = estimate_text(note)
        if not groups or (size + tokens > most_tokens and len(groups[-1]) >= 2):
            groups.append([])
            size = 0
        groups[-1].append(note)
        size += tokens
    return tuple(map(tuple, groups))


def _turns(messages: Sequence[Message]) -> list[list[int]]:
    turns: list[list[int]] = []
    for at, message in enumerate(messages):
        answers = any(isinstance(block, Result) for block in message.blocks)
        if answers and turns:
            turns[-1].append(at)
        else:
            turns.append([at])
    return turns


def _size(messages: Sequence[Message], tool_result_cap: int) -> int:
    return estimate_text(render_span(messages, tool_result_cap, ""))


def _capped(message: Message, tool_result_cap: int, most_tokens: int) -> Message:
    """The message, or one text of it as a transcript shows it, redacted before it is cut."""
    lines = render_span([message], tool_result_cap, "").splitlines()[1:-1]
    text = "\n".join(lines).removeprefix(f"(0) {message.role}:").strip()
    tokens = estimate_text(text)
    if tokens <= most_tokens:
        return message
    keep = int((most_tokens - _MARGIN_TOKENS) * len(text) / tokens)
    head = keep * 2 // 3
    mark = f"\n[… {len(text) - keep:,} of {len(text):,} characters of this message left out …]\n"
    return Message(message.role, (Text(text[:head] + mark + text[len(text) - (keep - head) :]),))
