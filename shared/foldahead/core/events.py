"""Events: what happened to a session, without a word of its content.

The first seed's three, with its payloads exactly, and ours. All are PSEUDONYMOUS: they name a session and hold no
text of it. Operational, no compliance record.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from foldahead.core.plan import Plan
from foldahead.core.record import Record
from foldahead.core.redact import redact

FailureMode = Literal["adapter_error", "no_valid_boundary", "budget_exhausted_forced", "validation_failed"]
Trigger = Literal["threshold", "hard_cap"]
_MOST_MESSAGE_CHARS = 300


class CompactionStarted(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.compaction_started"):
    """A job was leased for this session."""

    session_id: str
    turn_id: str
    watermark_before: int
    span_message_count: int
    span_token_count_in: int
    threshold_or_hard_cap: Trigger


class CompactionCompleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.compaction_completed"):
    """A summary was committed, or found in the cache, for this session."""

    session_id: str
    turn_id: str
    watermark_before: int
    watermark_after: int
    span_message_count: int
    span_token_count_in: int
    span_token_count_out: int
    cache_hit: bool
    cache_key: str
    cost_usd: float
    latency_ms: int


class CompactionFailed(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.compaction_failed"):
    """A compaction that was due did not come about, or only as a degraded one."""

    session_id: str
    turn_id: str
    watermark_before: int
    span_message_count: int
    failure_mode: FailureMode
    error_class: str | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    truncated_message_count: int | UnsetType = UNSET


class SessionSwapped(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.swapped"):
    """The first view in which a summary stands for its span. Tokens are pending tokens.

    `waited_turns`: turns before this one that were due for a swap and had nothing ready.
    """

    session_id: str
    turn_id: str
    watermark_after: int
    summary_kind: str
    tokens_before: int
    tokens_after: int
    cache_key: str | None = None
    waited_turns: int = 0


class SessionElided(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.elided"):
    """Old tool results became stubs."""

    session_id: str
    turn_id: str
    result_count: int
    tokens_before: int
    tokens_after: int


class SessionTruncated(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.truncated"):
    """The oldest messages were left out of the view."""

    session_id: str
    turn_id: str
    watermark_after: int
    truncated_message_count: int
    tokens_before: int
    tokens_after: int


class SessionHealed(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.healed"):
    """A better summary took the place of `extract` or a truncation."""

    session_id: str
    turn_id: str
    watermark_after: int
    healed_from: str
    cache_key: str | None = None


class SessionRejected(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.rejected"):
    """A provider refused a view: the history was given back, the summary put in quarantine."""

    session_id: str
    turn_id: str
    cache_key: str | None
    error_class: str
    error_message: str


Event = (
    CompactionStarted
    | CompactionCompleted
    | CompactionFailed
    | SessionSwapped
    | SessionElided
    | SessionTruncated
    | SessionHealed
    | SessionRejected
)


class Envelope(Struct, frozen=True, kw_only=True):
    """An event as it is stored and streamed. `payload` holds the event's fields and nothing else."""

    type: str
    workspace: str
    created_at_ms: int
    payload: dict[str, Any]
    sensitivity: str = "PSEUDONYMOUS"


def envelope(event: Event, workspace: str, created_at_ms: int) -> Envelope:
    """An event in its envelope."""
    payload: dict[str, Any] = msgspec.to_builtins(event)
    return Envelope(type=payload.pop("type"), workspace=workspace, created_at_ms=created_at_ms, payload=payload)


def encode_event(event: Event, workspace: str, created_at_ms: int) -> bytes:
    """An event in its envelope, JSON."""
    return msgspec.json.encode(envelope(event, workspace, created_at_ms))


def safe_message(error: BaseException) -> str:
    """What an event may say of an error: redacted, one line, short."""
    return redact(" ".join(str(error).split()))[:_MOST_MESSAGE_CHARS]


def events_of(plan: Plan, session: str, turn_id: str, degraded_before: str, waited_turns: int = 0) -> list[Event]:
    """What a plan that was carried out is to be reported as. `degraded_before`: what the view stood on, if degraded."""
    span = next((record for record in plan.records if record.stands_for_span), None)
    match plan.outcome:
        case "swapped" if span is not None:
            return _swapped(plan, span, session, turn_id, degraded_before, waited_turns)
        case "elided":
            count = sum(len(record.stubs or {}) for record in plan.records)
            return [
                SessionElided(
                    session_id=session,
                    turn_id=turn_id,
                    result_count=count,
                    tokens_before=plan.tokens_before,
                    tokens_after=plan.tokens_after,
                )
            ]
        case "truncated" if span is not None:
            return _truncated(plan, span, session, turn_id)
        case _:
            return []


def _swapped(
    plan: Plan, span: Record, session: str, turn_id: str, degraded_before: str, waited_turns: int
) -> list[Event]:
    events: list[Event] = [
        SessionSwapped(
            session_id=session,
            turn_id=turn_id,
            watermark_after=span.end,
            summary_kind=plan.summary.kind if plan.summary else "extract",
            tokens_before=plan.tokens_before,
            tokens_after=plan.tokens_after,
            cache_key=span.cache_key,
            waited_turns=waited_turns,
        )
    ]
    if degraded_before and span.reason is None:
        events.append(
            SessionHealed(
                session_id=session,
                turn_id=turn_id,
                watermark_after=span.end,
                healed_from=degraded_before,
                cache_key=span.cache_key,
            )
        )
    return events


def _truncated(plan: Plan, span: Record, session: str, turn_id: str) -> list[Event]:
    count = span.end - span.start
    return [
        SessionTruncated(
            session_id=session,
            turn_id=turn_id,
            watermark_after=span.end,
            truncated_message_count=count,
            tokens_before=plan.tokens_before,
            tokens_after=plan.tokens_after,
        ),
        CompactionFailed(
            session_id=session,
            turn_id=turn_id,
            watermark_before=span.start,
            span_message_count=count,
            failure_mode="adapter_error",
            truncated_message_count=count,
        ),
    ]
