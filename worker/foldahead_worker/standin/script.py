"""What a test tells the stand-in to answer: a queue of scripted answers, each for the call it matches."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Kind = Literal["message", "compaction", "count"]


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that the model makes."""

    name: str
    input: dict[str, Any] = {}


class Scripted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scripted answer.

    Matching: `kind` of call, `model`, `contains` (a substring of the last user message), `api_key`; what
    is not given matches all. `times`: for how many calls it stands, null for ever.

    Time: `first_byte_s` before anything is sent, `per_token_s` for each token after that.

    Errors: `status` with `error_code`, `error_message`, `retry_after_s`. `error_after_events`: a 200 whose
    stream carries an error event (`error_type`) after that many events; `break_after_events`: the
    connection closes there; both also cut an answer that is not streamed.

    Content: `thinking` (a block or several), then `text` as it is or `text_tokens` of generated prose, then
    `tool_calls`. `no_content`: an empty list. `stop_reason` as given, else what the content implies.
    `content` in place of all these: blocks to be given as they are, whatever `max_tokens` says, but for their
    thinking, which is signed for the request that it answers.
    For a compaction: `null_content`, or a `stop_reason` other than `compaction` (then no block comes).
    """

    kind: Kind | None = None
    model: str | None = None
    contains: str | None = None
    api_key: str | None = None
    times: int | None = 1
    first_byte_s: float | None = None
    per_token_s: float | None = None
    status: int | None = None
    error_type: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    retry_after_s: float | None = None
    error_after_events: int | None = None
    break_after_events: int | None = None
    text: str | None = None
    text_tokens: int | None = None
    thinking: str | tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    content: tuple[dict[str, Any], ...] | None = None
    no_content: bool = False
    null_content: bool = False
    stop_reason: str | None = None

    def matches(self, kind: Kind, model: str, last_user_text: str, api_key: str) -> bool:
        """Says whether this answer is for such a call."""
        return (
            self.kind in (None, kind)
            and self.model in (None, model)
            and self.api_key in (None, api_key)
            and (self.contains is None or self.contains in last_user_text)
        )


class Script:
    """The queue: the first entry that matches answers, and goes when its times are up."""

    def __init__(self, entries: tuple[Scripted, ...] = ()) -> None:
        self._entries: list[Scripted] = list(entries)

    def add(self, entries: tuple[Scripted, ...]) -> None:
        """Appends answers to the queue."""
        self._entries.extend(entries)

    def clear(self) -> None:
        """Empties the queue."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, kind: Kind, model: str, last_user_text: str, api_key: str, errors_only: bool) -> Scripted | None:
        """Takes the answer for a call; with `errors_only` one whose status comes before any judging."""
        for at, entry in enumerate(self._entries):
            if not entry.matches(kind, model, last_user_text, api_key):
                continue
            if errors_only and entry.status is None:
                return None
            if entry.times is not None:
                if entry.times <= 1:
                    del self._entries[at]
                else:
                    self._entries[at] = msgspec.structs.replace(entry, times=entry.times - 1)
            return entry
        return None
