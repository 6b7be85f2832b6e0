"""What a worker asks of a summariser, and what may go wrong."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from foldahead.core.messages import Message
from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead.errors import FoldaheadError

Check = Callable[[], None]
"""Raises `Interrupted` when the work is to stop: the deadline passed, the lease is lost, nobody waits any more."""


class Span(Struct, frozen=True, kw_only=True):
    """What is to be summarised: the request, the messages its head commits to, and the parent where it folds.

    With a parent, `messages` are those from `request.parent_end` on; else the whole span from `request.start` on.
    `envelope` is the session's own system and tools; `native` only.
    """

    request: SummaryRequest
    messages: tuple[Message, ...]
    parent_text: str = ""
    envelope: Any = None
    tighter: bool = False
    """The one retry: say that the last answer was too long or not usable."""


class Usage(Struct, frozen=True, kw_only=True):
    """What an answer cost, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class Answer(Struct, frozen=True, kw_only=True):
    """A summariser's answer, not yet verified. `block` is what the provider signed (`native`), JSON, byte for byte."""

    text: str
    stop_reason: str = "end_turn"
    block: bytes = b""
    usage: Usage = Usage()
    model: str = ""
    """The model as the provider named it."""


class SummarizerError(FoldaheadError):
    """The provider did not answer. `status` is its HTTP status, 0 for none; `code` its own name for the error.

    `heals`: the same call may succeed later, at the earliest after `retry_after_s`. `stops_workspace`: its key or
    account is refused, nothing more is to be tried for it until somebody looked. `too_large`: a smaller part may do.
    `usage` is what was consumed all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        heals: bool = False,
        retry_after_s: float = 0.0,
        stops_workspace: bool = False,
        too_large: bool = False,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.heals = heals
        self.retry_after_s = retry_after_s
        self.stops_workspace = stops_workspace
        self.too_large = too_large
        self.usage = usage or Usage()


class Interrupted(FoldaheadError):
    """The work was stopped from outside between two chunks."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stopped: {reason}")
        self.reason = reason


class Summarizer(Protocol):
    """Writes summaries of one kind."""

    kind: SummaryKind
    prompt_version: str

    def upper_picodollars(self, span: Span) -> int:
        """The most that `summarise` can cost for this span, all its calls together; 0 where nobody pays."""
        ...

    def picodollars(self, answer: Answer) -> int:
        """What an answer cost."""
        ...

    def summarise(self, span: Span, check: Check) -> Answer:
        """The summary. Calls `check` at least once a second. Raises `SummarizerError`, and what `check` raises."""
        ...
