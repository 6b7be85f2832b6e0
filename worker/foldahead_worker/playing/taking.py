"""One turn through the real client: what the agent sends, what is answered, and what that took."""

import time
from typing import Any

import msgspec
from msgspec import Struct

from foldahead import Session
from foldahead.core.decide import Decline, decide
from foldahead_worker.means import Chooser
from foldahead_worker.playing.frame import Frame
from foldahead_worker.playing.judging import judged
from foldahead_worker.playing.providers import Messages, Provider, Refused, Reply
from foldahead_worker.playing.turns import Turn

_HELD_BACK = ("below_start", "early")
"""Not yet, rather than not."""
REJECTED = "rejected"


class Taken(Struct, frozen=True, kw_only=True):
    """What one turn came to. `sent` is None where the view was the history itself. Tokens are pending tokens."""

    number: int
    outcome: str
    reason: str
    kind: str
    """Of a swap: how the summary was made."""
    added_ms: float
    """What `request` took on the agent's thread."""
    tokens_before: int
    tokens_after: int
    due: bool
    """Whether the threshold was reached."""
    has_ready: bool
    """Whether a summary was at hand that the view did not show yet."""
    exhausted: bool
    declined: str = ""
    """Why the servers would not make a summary now, by the same rules as theirs."""
    least_tokens: int = 0
    target_tokens: int = 0
    """Of `not_smaller`: what the view would have come to, and what it should have."""
    sent: dict[str, Any] | None = None
    answer: list[dict[str, Any]] = []
    """What was appended to the history."""
    requests: int = 0
    """How many a provider saw; a second one is the history that was given back."""
    refused: tuple[str, ...] = ()
    """What it said of requests that it refused, where the recording is not at fault."""
    recorded_faults: tuple[str, ...] = ()
    """What it said of the recording itself."""


def take(
    session: Session, frame: Frame, provider: Provider, turn: Turn, history: list[Any], recorded: Messages
) -> Taken:
    """Send the request of a turn as the agent does, append the answer to the history, publish.

    `recorded` is the answer of the recording. Raises ProviderFailed.
    """
    taken, request = _asked(session, frame, turn, history)
    reply = None
    try:
        reply = provider.ask(request, history, recorded)
    except Refused as refusal:
        taken = _with_refusal(taken, frame, request, history, refusal)
        if taken.sent is not None:
            taken, reply = _asked_again(session, frame, provider, taken, history, recorded, refusal)
    # What is refused for good is answered all the same: the recording goes on.
    reply = reply or Reply(recorded)
    history += reply.messages
    # What was counted for the recorded request says nothing of another one.
    usage = reply.usage or (turn.usage if taken.sent is None else None)
    session.publish(history, usage=usage, turn_id=str(turn.number))
    return msgspec.structs.replace(
        taken,
        answer=reply.messages,
        requests=taken.requests + provider.asks,
        recorded_faults=(*taken.recorded_faults, *reply.recorded_faults),
    )


def _asked(session: Session, frame: Frame, turn: Turn, history: list[Any]) -> tuple[Taken, dict[str, Any]]:
    """The request of a turn, right before the agent calls its provider."""
    request = frame.around(history)
    time.perf_counter()  # in a process that slept the clock itself takes microseconds at first
    started_s = time.perf_counter()
    request = session.request(**request)
    added_ms = (time.perf_counter() - started_s) * 1000
    plan = session.plan
    outcome = plan.outcome if session.mode == "on" else "unchanged"  # shadow plans a swap and does not make it
    swapped = outcome == "swapped"
    taken = Taken(
        number=turn.number,
        outcome=outcome,
        reason=plan.reason if outcome == plan.outcome else session.mode,
        kind=(plan.summary.kind if plan.summary else "extract") if swapped else "",
        added_ms=added_ms,
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        due=plan.tokens_before >= session.policy.threshold,
        has_ready=session.has_ready,
        exhausted=plan.exhausted,
        least_tokens=plan.least_tokens,
        target_tokens=plan.target_tokens,
        sent=None if request["messages"] is history else request,
    )
    return taken, request


def _asked_again(
    session: Session,
    frame: Frame,
    provider: Provider,
    taken: Taken,
    history: list[Any],
    recorded: Messages,
    refusal: Refused,
) -> tuple[Taken, Reply | None]:
    """What an agent does when a view was refused: say so, and send the history that it is given back."""
    session.rejected(refusal)
    request = session.request(**frame.around(history))
    sent = None if request["messages"] is history else request
    taken = msgspec.structs.replace(taken, outcome="unchanged", reason=REJECTED, kind="", sent=sent, requests=1)
    try:
        return taken, provider.ask(request, history, recorded)
    except Refused as second:
        return _with_refusal(taken, frame, request, history, second), None


def _with_refusal(taken: Taken, frame: Frame, request: dict[str, Any], history: list[Any], refusal: Refused) -> Taken:
    """Count a refusal: the recording's own where its history has the same faults and the request has no other."""
    ours, recorded = judged(frame, request, history)
    if recorded and not ours:
        return msgspec.structs.replace(taken, recorded_faults=(*taken.recorded_faults, str(refusal)))
    return msgspec.structs.replace(taken, refused=(*taken.refused, str(refusal)))


def declined(session: Session, workspace: str, chooser: Chooser) -> str:
    """Why the servers would not make a summary of what the session offers now; empty when they would, or later."""
    standing = session.standing
    decision = decide(standing, workspace, chooser.means(workspace, standing))
    return decision.reason if isinstance(decision, Decline) and decision.reason not in _HELD_BACK else ""
