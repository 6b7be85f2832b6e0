"""What is worked out after a turn, so that at the next one a glance tells whether anything is to be done.

The state of a session says how much may come before anything could act: the threshold where a ready summary might be
swapped in, else the hard cap, and the smallest window. A turn that stays within that room, whose messages are of the
ordinary kind (`Dialect.glance`), is left as it is, and what it says is read after the request is out.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from foldahead.core.calibration import overhead_tokens
from foldahead.core.cut import tail_start
from foldahead.core.ledger import Ledger
from foldahead.core.models import LEAST_WINDOW_TOKENS, find_model
from foldahead.core.native import concerns_requests
from foldahead.core.policy import Policy
from foldahead.core.recorded import Recorded
from foldahead.core.repair import may_mend
from foldahead.core.scene import OUTPUT_RESERVE_TOKENS
from foldahead.core.showing import Showing
from foldahead.core.standing import Calibration
from foldahead.core.tokens import UNLIMITED, least_tokens
from foldahead.core.tracked import TrackedHistory
from foldahead.core.view import Active
from foldahead.core.weigh import pending_estimate, whole_estimate

Glance = Callable[[list[Any], Any, tuple[str, ...], int, int], int | None]


class Calm(Struct):
    """How a session stands between two turns. Good for the very state that it was made of.

    All that a glance needs lies here side by side: a process that has slept finds nothing in its caches, and pays for
    each object that it looks at.
    """

    seen: list[Any]
    """The history as last observed; `count` messages."""
    count: int
    policy: Policy
    active: Active
    model: str
    """The agent's model; empty: any."""
    is_plain: bool
    """Whether the request needs nothing besides the view, whatever it holds: no block in it, no beta."""
    is_cold_after_s: float
    """Seconds without a request after which a ready summary is swapped in at once."""
    glance: Glance
    waiting: tuple[str, ...]
    """Ids of the calls that wait for their result."""
    room: int
    """Estimated tokens that may come before anything acts."""
    speech: int
    """Tokens of it that are gone once the user speaks."""
    room_for_summary: int
    """The room once a summary has come that may be swapped in."""
    room_to_cap: int
    """The room where none may be."""
    shown: list[Any] | None
    """The view of what was seen; None: it is the history itself."""
    marks: int
    """Cache breakpoints of the view so far."""


def calm_of(
    history: TrackedHistory, recorded: Recorded, showing: Showing, policy: Policy, known: Calibration, model: str
) -> Calm | None:
    """The calm of a session; None when its next turn wants a closer look anyway."""
    ledger, active, lead = history.ledger, recorded.active, None
    waiting = ledger.waiting
    if waiting is None or policy.mode == "off" or policy.age_observations or not recorded.is_settled:
        return None
    if may_mend(ledger, active):
        return None
    if active.touched:
        lead = showing.lead(history.messages, active, history.revision) if policy.mode == "on" else None
        if lead is None:
            return None
    least, most = _rooms(history, recorded, policy, known, model)
    return Calm(
        seen=history.messages,
        count=len(history),
        policy=policy,
        active=active,
        model=model,
        is_plain=policy.tail_thinking != "drop_block" and not concerns_requests(policy, active),
        is_cold_after_s=policy.cache_ttl_s,
        glance=history.dialect.glance,
        waiting=waiting,
        room=least if _may_swap(recorded, ledger, policy, known.slope) else most,
        speech=0,
        room_for_summary=least,
        room_to_cap=most,
        shown=[*lead.messages, *history.messages[active.touched :]] if lead else None,
        marks=lead.marks if lead else 0,
    )


def _may_swap(recorded: Recorded, ledger: Ledger, policy: Policy, slope: float) -> bool:
    """Whether one of the summaries that are ready may be swapped in now or when more has come.

    Not if it comes to more than the target with what stands between its span and the tail: that only grows.
    """
    tail = tail_start(ledger, policy, slope)
    return any(
        recorded.active.degraded
        or one.end > tail
        or slope * (ledger.span_tokens(one.end, tail) + least_tokens(one.text.strip())) < policy.target_tokens + 1
        for one in recorded.ready.values()
    )


def _rooms(
    history: TrackedHistory, recorded: Recorded, policy: Policy, known: Calibration, model: str
) -> tuple[int, int]:
    """Estimated tokens that may come while a summary may be swapped in, and while none may.

    At the very start any message may open a turn, so that all of them may come to be pending. A view that waits to be
    healed takes a summary whenever one comes.
    """
    ledger, active = history.ledger, recorded.active
    window = _window_room(ledger, active, policy, known, model)
    least = min(window, _room(ledger, active, policy, known.slope, policy.threshold))
    if not len(ledger):
        least = min(window, int(policy.threshold / known.slope)) - 2
        return least, least
    most = min(window, _room(ledger, active, policy, known.slope, policy.hard_cap_tokens))
    return -1 if active.degraded else least, most


def _room(ledger: Ledger, active: Active, policy: Policy, slope: float, limit: int) -> int:
    """Estimated tokens that may come behind the last message before pending tokens reach a limit.

    What comes is in the tail; a tail that grows too long gives up its oldest turns, which then are pending.
    """
    if policy.preserve_recent_turns == 0:
        return int(limit / slope) - pending_estimate(ledger, active, len(ledger)) - 2
    most, starts = policy.preserve_recent_tokens / slope, ledger.turn_starts
    tail, room = tail_start(ledger, policy, slope), -1
    while slope * pending_estimate(ledger, active, tail) < limit:
        if not starts or tail >= starts[-1]:
            return UNLIMITED
        room = max(room, int(most - ledger.span_tokens(tail, len(ledger))))
        tail = starts[bisect_right(starts, tail)]
    return room


def _window_room(ledger: Ledger, active: Active, policy: Policy, known: Calibration, model: str) -> int:
    """Estimated tokens that the window of this model has room for; no model: of any; one not known: no limit."""
    window = policy.window_tokens or LEAST_WINDOW_TOKENS
    if model and policy.window_tokens is None:
        found = find_model(model)
        if found is None:
            return UNLIMITED
        window = found.window_tokens
    room = window - OUTPUT_RESERVE_TOKENS - overhead_tokens(known)
    return int(room / known.slope) - whole_estimate(ledger, active) - 2
