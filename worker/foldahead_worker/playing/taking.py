"""One turn through the real client: what the agent would have sent, and what that took."""

import time
from typing import Any

from msgspec import Struct

from foldahead import Session
from foldahead.core.decide import Decline, decide
from foldahead_worker.importers import ImportedSession
from foldahead_worker.means import Chooser
from foldahead_worker.playing.turns import Turn

AGENT_MODEL = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5"}
"""The agent's model where a recording does not name it: a request has to name one."""
ANSWER_TOKENS = 8_192
_HELD_BACK = ("below_start", "early")
"""Not yet, rather than not."""


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
    sent: dict[str, Any] | None = None


def request_of(recording: ImportedSession, messages: list[Any]) -> dict[str, Any]:
    """The request that the recorded agent would send with these messages."""
    request: dict[str, Any] = {
        "model": recording.model or AGENT_MODEL[recording.dialect],
        "max_tokens": ANSWER_TOKENS,
        "messages": messages,
    }
    if recording.system is not None:
        request["system"] = recording.system
    if recording.tools:
        request["tools"] = recording.tools
    return request


def send(session: Session, recording: ImportedSession, turn: Turn, history: list[Any]) -> Taken:
    """Ask for the request of a turn, as the agent does right before it calls its provider."""
    request = request_of(recording, history)
    started_s = time.perf_counter()
    request = session.request(**request)
    added_ms = (time.perf_counter() - started_s) * 1000
    plan = session.plan
    outcome = plan.outcome if session.mode == "on" else "unchanged"  # shadow plans a swap and does not make it
    swapped = outcome == "swapped"
    return Taken(
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
        sent=None if request["messages"] is history else request,
    )


def tell(session: Session, taken: Taken, turn: Turn, history: list[Any]) -> None:
    """Publish the answered turn. What the provider counted is of the recorded request: told while that was sent."""
    session.publish(history, usage=turn.usage if taken.sent is None else None, turn_id=str(turn.number))


def declined(session: Session, workspace: str, chooser: Chooser) -> str:
    """Why the servers would not make a summary of what the session offers now; empty when they would, or later."""
    standing = session.standing
    decision = decide(standing, workspace, chooser.means(workspace, standing))
    return decision.reason if isinstance(decision, Decline) and decision.reason not in _HELD_BACK else ""
