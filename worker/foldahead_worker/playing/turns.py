"""The turns of a recording: when the agent sent a request, and what came of it. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foldahead_worker.importers import ImportedSession


class Turn(Struct, frozen=True, kw_only=True):
    """One request and its answer. Indices are into the recorded messages."""

    number: int
    """From 1."""
    sent: int
    """How many messages the history held when the request was sent."""
    answered: int
    """How many once the assistant's answer was appended."""
    done: int
    """How many once all that came before the next request was appended: results, the user's words."""
    usage: dict[str, Any] | None = None
    """What the provider counted, where the recording says."""


def turns_of(session: ImportedSession) -> tuple[Turn, ...]:
    """Every turn: a run of assistant messages with something before it."""
    usages = dict(session.usages)
    starts = _starts(session.messages)
    turns: list[Turn] = []
    for number, start in enumerate(starts, 1):
        done = starts[number] if number < len(starts) else len(session.messages)
        answered = _answer_end(session.messages, start)
        counted = [usages[at] for at in range(start, answered) if at in usages]
        turns.append(
            Turn(number=number, sent=start, answered=answered, done=done, usage=counted[-1] if counted else None)
        )
    return tuple(turns)


def _starts(messages: Sequence[dict[str, Any]]) -> list[int]:
    return [
        at
        for at in range(1, len(messages))
        if messages[at]["role"] == "assistant" and messages[at - 1]["role"] != "assistant"
    ]


def _answer_end(messages: Sequence[dict[str, Any]], start: int) -> int:
    end = start
    while end < len(messages) and messages[end]["role"] == "assistant":
        end += 1
    return end
