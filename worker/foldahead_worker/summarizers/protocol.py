"""What a worker asks of a summariser, and what may go wrong."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from foldahead.core.envelope import Envelope
from foldahead.core.messages import Message
from foldahead.core.prompt import Prompt
from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead.errors import FoldaheadError


class Span(Struct, frozen=True, kw_only=True):
    """What is to be summarised: the request, the messages its head commits to, and the parent where it folds.

    With a parent, `messages` are those from `request.parent_end` on; else the whole span from `request.start`
    on.
    """

    request: SummaryRequest
    messages: tuple[Message, ...]
    parent_text: str = ""
    originals: tuple[Any, ...] = ()
    """`native`: the same messages as the agent sends them."""
    parent_block: bytes = b""
    """`native`: the block that stands for what came before them, JSON; empty without a parent."""
    envelope: Envelope | None = None
    """`native`: what the session's requests hold besides."""
    tighter: bool = False
    """The one retry: say that the last answer was too long or not usable."""
    prompts: tuple[Prompt, ...] = ()
    """What the forecast for this span was made from, so that it is not made again."""


class Cost(Struct, frozen=True, kw_only=True):
    """What calls were billed, or may have been: exact for those that were answered, the upper bound for any other."""

    picodollars: int = 0
    input_tokens: int = 0
    """All that the provider read, from its cache or not."""
    output_tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            picodollars=self.picodollars + other.picodollars,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


class Forecast(Struct, frozen=True, kw_only=True):
    """What `summarise` needs at most for one answer, all its calls together. `Forecast()`: nobody is asked and nobody
    pays."""

    picodollars: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompts: tuple[Prompt, ...] = ()
    """Of the calls for the span's parts: a rendered span, which takes milliseconds and is needed to know its size."""


class Limit(Struct, frozen=True):
    """What an account may do a minute, and what is left of it, as a response said. `name`: requests, input
    or output.
    """

    name: str
    a_minute: int
    remaining: int


class Answer(Struct, frozen=True, kw_only=True):
    """A summariser's answer, not yet verified. `block` is what the provider signed (`native`), JSON, byte for byte."""

    text: str
    stop_reason: str = "end_turn"
    block: bytes = b""
    cost: Cost = Cost()


class SummarizerError(FoldaheadError):
    """The provider did not answer. `status` is its HTTP status, 0 for none; `code` its own name for the
    error.

    `heals`: the same call may succeed later, at the earliest after `retry_after_s`. `stops_workspace`: its
    key or account is refused, nothing more is to be tried for it until somebody looked. `too_large`: a
    smaller part may do. `cost` is what was consumed all the same.
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
        cost: Cost | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.heals = heals
        self.retry_after_s = retry_after_s
        self.stops_workspace = stops_workspace
        self.too_large = too_large
        self.cost = cost or Cost()


class Interrupted(FoldaheadError):
    """The work was stopped from outside, between two chunks or before a call. `cost`: what was consumed by then."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stopped: {reason}")
        self.reason = reason
        self.cost = Cost()


Came = Literal["answered", "failed", "limited", "given_up"]
"""What came of a call, as far as the account is concerned: an error that the request has to answer for is an answer."""


def came_of(error: SummarizerError) -> Came:
    """What an error says of the account: whether it answers at all."""
    if error.status == 429 and error.heals:
        return "limited"
    return "failed" if error.heals and (error.status == 0 or error.status >= 500) else "answered"


class Watch(Protocol):
    """Hears what came of each call to a provider; `gate.Gate` shares it with all workers. Raises nothing."""

    def report(
        self, account: str, model: str, came: Came, *, retry_after_s: float = 0.0, limits: Sequence[Limit] = ()
    ) -> None: ...


class Check(Protocol):
    """Raises `Interrupted` when the work is to stop: the deadline passed, nobody waits any more, the worker
    goes.

    A call that is open is finished when only the lease was lost: it is paid for, and its answer is stored if
    the key is still empty. With `new_call` (about to make a paid call) a lost lease stops the work as well.
    """

    def __call__(self, *, new_call: bool = False) -> None: ...


class Summarizer(Protocol):
    """Writes summaries of one kind, for one workspace."""

    kind: SummaryKind
    account: str
    """Names the provider's account, without giving its key away; empty where nobody is asked."""

    def forecast(self, span: Span) -> Forecast:
        """The most that `summarise` can need for this span. Raises `SummarizerError` where it cannot be
        asked at all.
        """
        ...

    def summarise(self, span: Span, check: Check) -> Answer:
        """The summary. Calls `check` at least once a second. Raises `SummarizerError`, and what `check` raises."""
        ...
