"""What is to be played, and what came of it: plain data that crosses between processes."""

from typing import Any

from msgspec import Struct, structs


class Task(Struct, frozen=True, kw_only=True):
    """One session of one file to be played, and how."""

    file: str
    format: str
    session: str
    """Its name in the file."""
    label: str
    """What it is called in progress and file names: no other session of this run is called so."""
    name: str
    """Its name in the stack."""
    workspace: str
    redis_url: str
    policy: dict[str, Any]
    turn_s: float | None = None
    """Seconds from one turn to the next; None: each turn waits for what was asked for."""
    starts_after_s: float = 0.0
    fresh_process: bool = False
    out: str = ""
    """Folder for the requests; empty: they are not kept."""
    standin_url: str = ""
    """The stand-in of the Claude API that answers the agent; empty: the recording does, unasked."""
    agent_model: str = ""
    """Which model the agent asks a stand-in for; empty: the recording's."""
    rules_only: bool = True
    """Whether the stack makes summaries by rules, whatever model the policy names."""
    settle_timeout_s: float = 120.0


def spread(tasks: list[Task], jobs: int) -> list[Task]:
    """With a pace, those that are played side by side begin one after the other within a turn of it.

    A fleet's turns do not all come at one moment.
    """
    together = min(jobs, len(tasks))
    return [
        structs.replace(task, starts_after_s=at % together / together * (task.turn_s or 0.0))
        for at, task in enumerate(tasks)
    ]


class Swap(Struct, frozen=True, kw_only=True):
    """The first view in which a summary stands for its span. Tokens are pending tokens."""

    turn: int
    kind: str
    added_ms: float
    tokens_before: int
    tokens_after: int
    ready_before_needed: bool
    """No turn before it had reached the threshold, and was worth a summary, with none at hand."""


class Degraded(Struct, frozen=True, kw_only=True):
    """A turn at the hard cap for which nothing was ready."""

    turn: int
    how: str
    """`extract` or `truncated`."""
    tokens_before: int
    tokens_after: int


class Progress(Struct, frozen=True, kw_only=True, tag=True):
    """One turn was played."""

    label: str
    turn: int
    turns: int
    swaps: int
    tokens_sent: int
    tokens_sent_without: int


class SessionPlayed(Struct, frozen=True, kw_only=True, tag=True):
    """All that came of one session. Tokens are the estimate of every request's messages, system and tools."""

    session: str
    file: str
    label: str
    name: str
    messages: int
    turns: int
    swaps: tuple[Swap, ...] = ()
    elided_turns: int = 0
    tokens_sent: int = 0
    tokens_sent_without: int = 0
    validity_faults: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    not_worth_it: tuple[str, ...] = ()
    exhausted_turns: int = 0
    notes: tuple[str, ...] = ()
    quiet_ms: tuple[float, ...] = ()
    """What `request` added in every turn without a swap."""
    requests: int = 0
    """How many a provider saw."""
    refused: int = 0
    """How many of these it refused, the recording not being at fault."""
    recording_faults: tuple[str, ...] = ()


class PlayFault(Struct, frozen=True, kw_only=True, tag=True):
    """A session could not be played."""

    status: int
    text: str


Said = Progress | SessionPlayed | PlayFault
